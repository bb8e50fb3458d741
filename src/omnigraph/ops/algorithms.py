"""Run a graph algorithm over one edge type of one snapshot, and optionally write its values to a property."""

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
from omnigraph.errors import QueryError
from omnigraph.lang.spelling import find_closest
from omnigraph.ops.algorithm_call import (
    Algorithm,
    AlgorithmCall,
    AlgorithmResult,
    Components,
    LabelPropagation,
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

# Approximate memory per edge and per node while an algorithm runs in this process. With `Engine.AUTO` the estimate
# decides whether a graph fits into the memory limit or is sent to Spark.
_EDGE_BYTES = 96
_NODE_BYTES = 160


@dataclass(frozen=True, slots=True)
class AlgorithmInput:
    """The graph that an algorithm runs on: a snapshot, an edge type and the node type at both of its ends."""

    view: View
    edge: EdgeType
    node: NodeType
    target: Property | None
    """The property that the values are written to, if any."""

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot that is read."""
        return self.view.snapshot


@dataclass(frozen=True, slots=True)
class NodeValues:
    """The ids of all nodes, ascending, and the value of each."""

    ids: pa.Array
    values: pa.Array
    rounds: int | None = None
    is_converged: bool = True


class DistributedAlgorithms(Protocol):
    """An engine that runs the same algorithms on a cluster."""

    def run(self, subject: AlgorithmInput, algorithm: Algorithm) -> NodeValues:
        """Return the same values as `run_in_process`."""
        ...


def run_algorithm(
    session: Session,
    call: AlgorithmCall,
    algorithm: Algorithm,
    distributed: Callable[[Session], DistributedAlgorithms],
) -> AlgorithmResult:
    """Run an algorithm on one snapshot, and write its values to a property if the call names one.

    The values belong to the snapshot that was read. Values of nodes that were deleted before the write are dropped.

    Raises:
        TypeMissingError, QueryError: The call is invalid.
        QueryTimeoutError, QueryMemoryError: It exceeds its deadline or memory limit.
        LoadError: A value violates a constraint of the property.
        ConflictError: Other writers kept changing the same nodes.
    """
    budget = resolve_budget(session, call.limits)
    budget.subject = "algorithm"
    budget.effect = "" if call.into is None else UNCHANGED
    session.allow(Action.READ, call.branch)
    if call.into is not None:
        session.allow(Action.CHANGE, call.branch, signed=call.actor)
    session = session.checkout(call.branch)
    # Permissions and the target are checked before the algorithm runs, which may take long.
    if call.into is not None:
        session.check_writable()
    snapshot = session.resolve_snapshot(commit_id=call.snapshot, at=call.at)
    view = View(session.load_catalog(snapshot), session.open_tables(snapshot))
    subject = _resolve_input(view, call, algorithm)
    # On the in-memory adjacency an algorithm is many times cheaper than on Spark, so Spark is used only for graphs that
    # do not fit into the memory limit.
    is_local = call.engine is Engine.LOCAL or (
        call.engine is Engine.AUTO and _is_within_memory(subject, budget.memory_bytes)
    )
    if is_local:
        result = run_in_process(session, subject, algorithm, budget)
    else:
        result = distributed(session).run(subject, algorithm)
    table = pa.table({ID: result.ids, algorithm.column: result.values})
    written = None
    if subject.target is not None:
        written = _write_values(with_budget(session, budget), call, subject, algorithm, result)
    return AlgorithmResult(
        name=algorithm.name,
        edge=subject.edge.name,
        node=subject.node.name,
        commit_id=snapshot.commit.id,
        engine=Engine.LOCAL if is_local else Engine.SPARK,
        table=table,
        rounds=result.rounds,
        is_converged=result.is_converged,
        written=written,
    )


def run_in_process(session: Session, subject: AlgorithmInput, algorithm: Algorithm, budget: Budget) -> NodeValues:
    """Run an algorithm on the in-memory adjacency, which is cached and shared with queries."""
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
    named: NamedNetwork, edges: TableReader, subject: AlgorithmInput, algorithm: ShortestPaths, budget: Budget
) -> pa.Array:
    """Return the distance of each node from the start; null for nodes that can't be reached."""
    start = pc.index(named.ids, algorithm.start).as_py()
    if start < 0:
        reason = f"{subject.node.name} has no node of this id"
        raise QueryError.algorithm_argument("start", repr(algorithm.start), reason)
    name = algorithm.weight
    if name is None:
        hops = compute_hops(named.network, start, algorithm.direction, budget)
        return pa.array(hops, mask=hops < 0)
    weights = _read_weights(edges.take_values(name, named.edges, budget), subject.edge.name, name)
    sums = compute_weighted_distances(named.network, weights, start, algorithm.direction, budget)
    return pa.array(sums, mask=np.isinf(sums))


def _read_weights(values: pa.Array, edge: str, name: str) -> NDArray[np.float64]:
    # A cycle of negative weight has no shortest path, and relaxing its edges would never end.
    invalid = int(values.null_count) or pc.sum(pc.less(values.cast(pa.float64()), 0.0)).as_py() or 0
    if invalid:
        reason = f"{invalid:,} edges of {edge} have no weight, or a negative one"
        raise QueryError.algorithm_argument("weight", name, reason)
    return np.asarray(values.cast(pa.float64()))


# --- checking the call -----------------------------------------------------------------------------------------


def _resolve_input(view: View, call: AlgorithmCall, algorithm: Algorithm) -> AlgorithmInput:
    catalog = view.catalog
    edge = find_edge_type(catalog, call.edge)
    if edge.source != edge.target:
        raise QueryError.mixed_ends(edge.name, edge.source, edge.target)
    node = catalog.nodes[edge.source]
    if isinstance(algorithm, ShortestPaths) and algorithm.weight is not None:
        _check_weight(edge, algorithm.weight)
    target = None if call.into is None else _resolve_target(node, call.into, algorithm)
    return AlgorithmInput(view, edge, node, target)


def _check_weight(edge: EdgeType, name: str) -> None:
    prop = edge.by_name.get(name)
    if prop is None or prop.type not in _NUMERIC_TYPES:
        near = find_closest(name, [p.name for p in edge.properties if p.type in _NUMERIC_TYPES])
        hint = f"; did you mean `{near}`?" if near else ""
        raise QueryError.algorithm_argument("weight", name, f"{edge.name} has no numeric property of this name{hint}")


_FLOAT_TYPES = frozenset({Scalar.F32, Scalar.F64})
_NUMERIC_TYPES = frozenset({Scalar.I32, Scalar.I64, Scalar.U32, Scalar.U64, Scalar.F32, Scalar.F64})


def _resolve_target(node: NodeType, into: str, algorithm: Algorithm) -> Property:
    """Return the property that a call writes its values to.

    Raises:
        QueryError: There is no such property, or it can't store these values.
    """
    check_text("into", into)
    type_name, dot, name = into.partition(".")
    if not dot or type_name != node.name:
        raise QueryError.algorithm_argument(
            "into", into, f"expected `{node.name}.property`, because the values belong to {node.name}"
        )
    prop = node.by_name.get(name)
    if prop is None:
        near = find_closest(name, [p.name for p in node.properties])
        hint = f"; did you mean `{near}`?" if near else "; add it to the schema first"
        raise QueryError.algorithm_argument("into", into, f"{node.name} has no property `{name}`{hint}")
    if name in node.key:
        raise QueryError.algorithm_argument("into", into, "a key can't be changed")
    is_text = algorithm.type == pa.string()
    has_right_type = prop.type is Scalar.STRING if is_text else prop.type in _NUMERIC_TYPES
    if not has_right_type:
        expected = "a String" if is_text else "a number"
        raise QueryError.algorithm_argument("into", into, f"the values of {algorithm.name} need {expected}")
    # Ranks are fractions. Weighted distances are floats too, but may all be whole, so any number type is accepted.
    if isinstance(algorithm, Pagerank) and prop.type not in _FLOAT_TYPES:
        raise QueryError.algorithm_argument("into", into, f"ranks need an F64 or F32, but this is {prop.type}")
    return prop


def _is_within_memory(subject: AlgorithmInput, memory_bytes: float) -> bool:
    rows = subject.snapshot.pin(subject.node.table_key).rows
    edges = subject.snapshot.pin(subject.edge.table_key).rows
    return edges * _EDGE_BYTES + rows * _NODE_BYTES <= memory_bytes


# --- writing the values -----------------------------------------------------------------------------


def _write_values(
    session: Session, call: AlgorithmCall, subject: AlgorithmInput, algorithm: Algorithm, result: NodeValues
) -> LoadResult:
    """Merge the values into their nodes; rows that already have their value are not rewritten."""
    assert subject.target is not None  # noqa: S101 - checked by the caller
    name = subject.target.name
    try:
        values = result.values.cast(to_arrow_type(subject.target.type))
    except pa.ArrowInvalid as error:
        reason = f"{subject.target.type} can't store every value: {error}"
        raise QueryError.algorithm_argument("into", f"{subject.node.name}.{name}", reason) from error
    columns = {**_build_key_columns(session, subject, result.ids), name: values}
    message = call.message or f"{algorithm.name} of {subject.edge.name} at {subject.snapshot.commit.id}"
    return load(
        session,
        LoadCall(
            input=build_load_input(None, {subject.node.name: pa.table(columns)}, None, None),
            mode=LoadMode.MERGE,
            actor=call.actor,
            message=message,
            # A node that was deleted since the snapshot must not be inserted again.
            only_known=True,
        ),
    )


def _build_key_columns(session: Session, subject: AlgorithmInput, ids: pa.Array) -> dict[str, pa.Array]:
    """Return the columns that identify each node in a load: its key, or its id if its type has no key."""
    if not subject.node.key:
        return {ID: ids}
    rows = session.reads.get_reader(subject.view, subject.node)
    positions = rows.find(ids)
    return {name: rows.take_values(name, positions) for name in subject.node.key}
