"""Algorithms over one edge type of one snapshot; what they find can become a property, in one commit."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.commit.manifest_types import Snapshot
from omnigraph.engine.algorithms.components import find_components
from omnigraph.engine.algorithms.label_propagation import propagate_labels
from omnigraph.engine.algorithms.network import NamedNetwork, build_named_network
from omnigraph.engine.algorithms.pagerank import compute_pagerank
from omnigraph.engine.algorithms.shortest_paths import compute_hops, compute_weighted_distances
from omnigraph.engine.algorithms.triangles import count_triangles
from omnigraph.engine.bulk.load_batch import LoadMode
from omnigraph.engine.query_budget import Budget
from omnigraph.engine.tables.table_reader import TableReader
from omnigraph.engine.view import View
from omnigraph.lang.spelling import find_closest
from omnigraph.ops.algorithm_call import (
    Algorithm,
    AlgorithmArgumentError,
    AlgorithmCall,
    AlgorithmResult,
    Components,
    LabelPropagation,
    MixedEndsError,
    Pagerank,
    ShortestPaths,
    TriangleCount,
)
from omnigraph.ops.argument_checks import check_text
from omnigraph.ops.limits import UNCHANGED, resolve_budget
from omnigraph.ops.load import LoadCall, LoadResult, load
from omnigraph.ops.load_arguments import build_load_input
from omnigraph.ops.open_table import find_edge_type
from omnigraph.ops.session import Session, with_budget
from omnigraph.options import Engine
from omnigraph.policy import Action
from omnigraph.schema.arrow import ID, to_arrow_type
from omnigraph.schema.catalog import EdgeType, NodeType, Property
from omnigraph.schema.types import Scalar

_EDGE_BYTES, _NODE_BYTES = 96, 160
"""About what an edge and a node of a network cost while an algorithm runs in this process."""


@dataclass(frozen=True, slots=True)
class AlgorithmInput:
    """What an algorithm is over: a state, an edge type and the node type at both of its ends."""

    view: View
    edge: EdgeType
    node: NodeType
    target: Property | None
    """The property that gets the values."""

    @property
    def snapshot(self) -> Snapshot:
        """The state."""
        return self.view.snapshot


@dataclass(frozen=True, slots=True)
class NodeValues:
    """The ids of all nodes, ascending, and what was found for each."""

    ids: pa.Array
    values: pa.Array
    rounds: int | None = None
    is_converged: bool = True


class DistributedAlgorithms(Protocol):
    """The same algorithms on a cluster."""

    def run(self, subject: AlgorithmInput, algorithm: Algorithm) -> NodeValues:
        """What `run_in_process` gives, made elsewhere."""
        ...


def run_algorithm(
    session: Session,
    call: AlgorithmCall,
    algorithm: Algorithm,
    distributed: Callable[[Session], DistributedAlgorithms],
) -> AlgorithmResult:
    """Run an algorithm on one state, and keep what it found if the call says where.

    Values are of the state that was read. Those of nodes that are gone when they are written are dropped.

    Raises:
        TypeMissingError, MixedEndsError, AlgorithmArgumentError: The call is wrong.
        QueryTimeoutError, QueryMemoryError: It needs more than it may use.
        LoadError: The property's own rules refuse a value.
        ConflictError: Others kept changing the very nodes.
    """
    budget = resolve_budget(session, call.limits)
    budget.subject, budget.effect = "algorithm", "" if call.into is None else UNCHANGED
    session.allow(Action.READ, call.branch)
    if call.into is not None:
        session.allow(Action.CHANGE, call.branch, signed=call.actor)
    session = session.checkout(call.branch)
    if call.into is not None:
        session.check_writable()
    snapshot = session.resolve_snapshot(commit_id=call.snapshot, at=call.at)
    view = View(session.load_catalog(snapshot), session.open_tables(snapshot))
    subject = _resolve_input(view, call, algorithm)
    is_local = call.engine is Engine.LOCAL or (
        call.engine is Engine.AUTO and _is_within_memory(subject, budget.memory_bytes)
    )
    if is_local:
        found = run_in_process(session, subject, algorithm, budget)
    else:
        found = distributed(session).run(subject, algorithm)
    table = pa.table({ID: found.ids, algorithm.column: found.values})
    return AlgorithmResult(
        name=algorithm.name,
        edge=subject.edge.name,
        node=subject.node.name,
        commit_id=snapshot.commit.id,
        engine=Engine.LOCAL if is_local else Engine.SPARK,
        table=table,
        rounds=found.rounds,
        is_converged=found.is_converged,
        written=None
        if subject.target is None
        else _write(with_budget(session, budget), call, subject, algorithm, found),
    )


def run_in_process(session: Session, subject: AlgorithmInput, algorithm: Algorithm, budget: Budget) -> NodeValues:
    """Run on adjacency in memory, which queries share."""
    rows = session.reads.get_reader(subject.view, subject.node)
    topology = session.reads.get_topology(subject.view, subject.edge, budget)
    named = build_named_network(rows, topology, budget)
    network = named.network
    match algorithm:
        case Pagerank():
            ranks = compute_pagerank(
                network,
                damping=algorithm.damping,
                tolerance=algorithm.tolerance,
                rounds=algorithm.max_rounds,
                budget=budget,
            )
            return NodeValues(named.ids, pa.array(ranks.values), ranks.rounds, ranks.is_converged)
        case Components():
            return NodeValues(named.ids, named.ids.take(pa.array(find_components(network, budget))))
        case LabelPropagation():
            labels = propagate_labels(network, rounds=algorithm.max_rounds, budget=budget)
            return NodeValues(named.ids, named.ids.take(pa.array(labels.values)), labels.rounds, labels.is_converged)
        case ShortestPaths():
            edges = session.reads.get_reader(subject.view, subject.edge)
            return NodeValues(named.ids, _compute_distances(named, edges, subject, algorithm, budget))
        case TriangleCount():
            return NodeValues(named.ids, pa.array(count_triangles(network, budget)))


def _compute_distances(
    named: NamedNetwork, edges: TableReader, subject: AlgorithmInput, asked: ShortestPaths, budget: Budget
) -> pa.Array:
    place = pc.index(named.ids, asked.start).as_py()
    if place < 0:
        reason = f"{subject.node.name} has no node of this id"
        raise AlgorithmArgumentError("start", repr(asked.start), reason)
    if asked.weight is None:
        found = compute_hops(named.network, place, asked.direction, budget)
        return pa.array(found, mask=found < 0)
    weights = _read_weights(edges.take_values(asked.weight, named.edges, budget), subject.edge.name, asked.weight)
    sums = compute_weighted_distances(named.network, weights, place, asked.direction, budget)
    return pa.array(sums, mask=np.isinf(sums))


def _read_weights(values: pa.Array, edge: str, name: str) -> NDArray[np.float64]:
    wrong = int(values.null_count) or pc.sum(pc.less(values.cast(pa.float64()), 0.0)).as_py() or 0
    if wrong:
        reason = f"{wrong:,} edges of {edge} have no weight, or a negative one"
        raise AlgorithmArgumentError("weight", name, reason)
    return np.asarray(values.cast(pa.float64()))


# --- the call -----------------------------------------------------------------------------------------


def _resolve_input(view: View, call: AlgorithmCall, algorithm: Algorithm) -> AlgorithmInput:
    catalog = view.catalog
    edge = find_edge_type(catalog, call.edge)
    if edge.source != edge.target:
        raise MixedEndsError(edge.name, edge.source, edge.target)
    node = catalog.nodes[edge.source]
    if isinstance(algorithm, ShortestPaths) and algorithm.weight is not None:
        _check_weight(edge, algorithm.weight)
    target = None if call.into is None else _resolve_target(node, call.into, algorithm)
    return AlgorithmInput(view, edge, node, target)


def _check_weight(edge: EdgeType, name: str) -> None:
    found = edge.by_name.get(name)
    if found is None or found.type not in _NUMERIC_TYPES:
        near = find_closest(name, [p.name for p in edge.properties if p.type in _NUMERIC_TYPES])
        hint = f"; did you mean `{near}`?" if near else ""
        raise AlgorithmArgumentError("weight", name, f"{edge.name} has no number of this name{hint}")


_FLOAT_TYPES = frozenset({Scalar.F32, Scalar.F64})
_NUMERIC_TYPES = frozenset({Scalar.I32, Scalar.I64, Scalar.U32, Scalar.U64, Scalar.F32, Scalar.F64})


def _resolve_target(node: NodeType, into: str, algorithm: Algorithm) -> Property:
    """The property that a call names for its values, if it can have them."""
    check_text("into", into)
    type_name, dot, name = into.partition(".")
    if not dot or type_name != node.name:
        raise AlgorithmArgumentError("into", into, f"`{node.name}.property` is needed: the values are of {node.name}")
    found = node.by_name.get(name)
    if found is None:
        near = find_closest(name, [p.name for p in node.properties])
        hint = f"; did you mean `{near}`?" if near else ", add it to the schema first"
        raise AlgorithmArgumentError("into", into, f"{node.name} has no property `{name}`{hint}")
    if name in node.key:
        raise AlgorithmArgumentError("into", into, "a key can't be changed")
    is_text = algorithm.type == pa.string()
    if found.type is not Scalar.STRING if is_text else found.type not in _NUMERIC_TYPES:
        needed = "a String" if is_text else "a number"
        raise AlgorithmArgumentError("into", into, f"{needed} is needed for the values of {algorithm.name}")
    if isinstance(algorithm, Pagerank) and found.type not in _FLOAT_TYPES:  # sums of weights may be whole
        raise AlgorithmArgumentError("into", into, f"an F64 or F32 is needed for ranks, and that is {found.type}")
    return found


def _is_within_memory(subject: AlgorithmInput, memory_bytes: float) -> bool:
    rows = subject.snapshot.pin(subject.node.table_key).rows
    edges = subject.snapshot.pin(subject.edge.table_key).rows
    return edges * _EDGE_BYTES + rows * _NODE_BYTES <= memory_bytes


# --- keeping what was found -----------------------------------------------------------------------------


def _write(
    session: Session, call: AlgorithmCall, subject: AlgorithmInput, algorithm: Algorithm, found: NodeValues
) -> LoadResult:
    """Merge the values into their nodes: rows that have them already are left alone."""
    assert subject.target is not None  # noqa: S101 - asked before
    name = subject.target.name
    try:
        values = found.values.cast(to_arrow_type(subject.target.type))
    except pa.ArrowInvalid as error:
        reason = f"{subject.target.type} can't hold every value: {error}"
        raise AlgorithmArgumentError("into", f"{subject.node.name}.{name}", reason) from error
    columns = {**_build_key_columns(session, subject, found.ids), name: values}
    message = call.message or f"{algorithm.name} of {subject.edge.name} at {subject.snapshot.commit.id}"
    return load(
        session,
        LoadCall(
            input=build_load_input(None, {subject.node.name: pa.table(columns)}, None, None),
            mode=LoadMode.MERGE,
            actor=call.actor,
            message=message,
            only_known=True,
        ),
    )


def _build_key_columns(session: Session, subject: AlgorithmInput, ids: pa.Array) -> dict[str, pa.Array]:
    """What tells which node a record is of: its key, or its id where it has none."""
    if not subject.node.key:
        return {ID: ids}
    rows = session.reads.get_reader(subject.view, subject.node)
    at = rows.find(ids)
    return {name: rows.take_values(name, at) for name in subject.node.key}
