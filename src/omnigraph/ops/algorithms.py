"""Run a graph algorithm over edge types of one snapshot, and optionally write its values to a property."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.commit.manifest_types import Snapshot
from omnigraph.engine.algorithms.betweenness import compute_betweenness
from omnigraph.engine.algorithms.components import find_components
from omnigraph.engine.algorithms.cores import compute_core_numbers
from omnigraph.engine.algorithms.label_propagation import propagate_labels
from omnigraph.engine.algorithms.leiden import find_communities
from omnigraph.engine.algorithms.network import NamedNetwork, Network, sort_edges
from omnigraph.engine.algorithms.pagerank import compute_pagerank
from omnigraph.engine.algorithms.shortest_paths import compute_hops, compute_weighted_distances
from omnigraph.engine.algorithms.similarity import find_similar
from omnigraph.engine.algorithms.strong_components import find_strong_components
from omnigraph.engine.algorithms.topological_order import sort_topologically
from omnigraph.engine.algorithms.triangles import count_triangles
from omnigraph.engine.bulk.load_batch import LoadMode
from omnigraph.engine.query_budget import Budget
from omnigraph.engine.result_forms import Target
from omnigraph.engine.view import View
from omnigraph.errors import QueryError
from omnigraph.lang.spelling import find_closest
from omnigraph.ops.algorithm_call import (
    Algorithm,
    AlgorithmCall,
    AlgorithmResult,
    Betweenness,
    Components,
    CoreNumbers,
    LabelPropagation,
    Leiden,
    NodeSimilarity,
    Pagerank,
    ShortestPaths,
    StrongComponents,
    TopologicalOrder,
    TriangleCount,
)
from omnigraph.ops.argument_checks import check_text
from omnigraph.ops.limits import UNCHANGED, resolve_budget
from omnigraph.ops.load import LoadCall, LoadResult, load
from omnigraph.ops.load_arguments import TypedData, build_load_input
from omnigraph.ops.load_engine import Reader
from omnigraph.ops.load_local import read_locally
from omnigraph.ops.network import NUMERIC_TYPES, build_network, find_edge_types, list_node_types, read_weights
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
# Floating-point sums over edges depend on their order in the last digit, and a table has no order that a copy, a
# compaction or another history of the same rows would keep.
_BY_SUMS = (Pagerank, Betweenness, LabelPropagation, Leiden, NodeSimilarity)


@dataclass(frozen=True, slots=True)
class AlgorithmInput:
    """The graph that an algorithm runs on: a snapshot, edge types and the node types at their ends."""

    view: View
    edges: tuple[EdgeType, ...]
    nodes: tuple[NodeType, ...]
    target: tuple[NodeType, Property] | None
    """The property that the values are written to, if any, and its type."""

    @property
    def edge(self) -> EdgeType:
        """The first edge type, which is the only one on an engine that knows no more."""
        return self.edges[0]

    @property
    def node(self) -> NodeType:
        """The first node type."""
        return self.nodes[0]

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot that is read."""
        return self.view.snapshot


@dataclass(frozen=True, slots=True)
class NodeValues:
    """The ids of all nodes, ascending, and the value of each.

    Several node types have `types`, in their order; rows about pairs of nodes also have the `others`.
    """

    ids: pa.Array
    values: pa.Array
    rounds: int | None = None
    is_converged: bool = True
    types: pa.Array | None = None
    others: pa.Array | None = None
    modularity: float | None = None
    rows: NDArray[np.int64] | None = None
    """The number of the node of each row, where they are not all nodes once."""


LoadValues: TypeAlias = Callable[[TypedData, Reader], LoadResult]
"""Merges rows, which have the keys of nodes and a property, into a type; the reader is the engine that does it."""


class DistributedAlgorithms(Protocol):
    """An engine that runs the same algorithms on a cluster."""

    def run(
        self, subject: AlgorithmInput, algorithm: Algorithm, load_values: LoadValues | None
    ) -> tuple[NodeValues, LoadResult | None]:
        """Return the same values as `run_in_process`, and load them where they are."""
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
    session.allow(Action.READ, call.branch, hides_rows=call.into is None and call.engine is not Engine.SPARK)
    if call.into is not None:
        session.allow(Action.CHANGE, call.branch, signed=call.actor)
    session = session.checkout(call.branch)
    # Permissions and the target are checked before the algorithm runs, which may take long.
    if call.into is not None:
        session.check_writable()
    snapshot = session.resolve_snapshot(commit_id=call.snapshot, at=call.at)
    subject = _resolve_input(session, snapshot, call, algorithm)
    # On the in-memory adjacency an algorithm is many times cheaper than on Spark, so Spark is used only for graphs that
    # do not fit into the memory limit.
    reason = _explain_local(subject, algorithm)
    if call.engine is Engine.SPARK and reason is not None:
        raise QueryError.algorithm_argument("engine", "spark", reason)
    is_local = call.engine is Engine.LOCAL or (
        call.engine is Engine.AUTO and (reason is not None or _is_within_memory(subject, budget.memory_bytes))
    )
    load_values = (
        None if subject.target is None else _build_load(with_budget(session, budget), call, subject, algorithm)
    )
    written = None
    if is_local:
        result = run_in_process(session, subject, algorithm, budget)
        if load_values is not None:
            written = load_values(_build_update(session, subject, result), read_locally)
    else:
        result, written = distributed(session).run(subject, algorithm, load_values)
    is_branch = call.snapshot is None and call.at is None
    return AlgorithmResult(
        name=algorithm.name,
        edge=", ".join(edge.name for edge in subject.edges),
        node=", ".join(node.name for node in subject.nodes),
        target=Target(call.branch, None if is_branch else snapshot.commit.id),
        commit_id=snapshot.commit.id,
        engine=Engine.LOCAL if is_local else Engine.SPARK,
        table=_build_table(result, algorithm),
        rounds=result.rounds,
        is_converged=result.is_converged,
        written=written,
        modularity=result.modularity,
    )


def _build_table(result: NodeValues, algorithm: Algorithm) -> pa.Table:
    types = {} if result.types is None else {"type": result.types}
    others = {} if result.others is None else {"similar": result.others}
    return pa.table({**types, ID: result.ids, **others, algorithm.column: result.values})


def _explain_local(subject: AlgorithmInput, algorithm: Algorithm) -> str | None:
    """Return why an algorithm can run in this process only, or None."""
    if len(subject.edges) > 1 or len(subject.nodes) > 1:
        return "several edge or node types are computed in this process only"
    if not isinstance(algorithm, Pagerank | Components | LabelPropagation | ShortestPaths | TriangleCount):
        return f"{algorithm.name} runs in this process only"
    if isinstance(algorithm, Pagerank | LabelPropagation) and algorithm.weight is not None:
        return f"{algorithm.name} with weights runs in this process only"
    return None


def run_in_process(session: Session, subject: AlgorithmInput, algorithm: Algorithm, budget: Budget) -> NodeValues:
    """Run an algorithm on the in-memory adjacency, which is cached and shared with queries."""
    named = build_network(session, subject.view, subject.edges, budget)
    name = getattr(algorithm, "weight", None)
    weights = None
    if name is not None:
        is_strict = isinstance(algorithm, Betweenness)
        weights = read_weights(session, subject.view, subject.edges, named, name, budget, is_zero_allowed=not is_strict)
    network = named.network
    if isinstance(algorithm, _BY_SUMS):
        network, weights = sort_edges(network, weights, budget.check)
    result = _compute(named, network, weights, algorithm, budget)
    return result if len(named.parts) == 1 else replace(result, types=_name_types(named, result))


def _name_types(named: NamedNetwork, result: NodeValues) -> pa.Array:
    # A node of several rows is repeated; its rows follow each other in the order of nodes.
    return named.types if result.rows is None else named.types.take(pa.array(result.rows))


def _compute(
    named: NamedNetwork,
    network: Network,
    weights: NDArray[np.float64] | None,
    algorithm: Algorithm,
    budget: Budget,
) -> NodeValues:
    match algorithm:
        case Pagerank(damping=damping, tolerance=tolerance, max_rounds=rounds):
            ranks = compute_pagerank(
                network, weights, damping=damping, tolerance=tolerance, rounds=rounds, budget=budget
            )
            return NodeValues(named.ids, pa.array(ranks.values), ranks.rounds, ranks.is_converged)
        case Components():
            return _name_values(named, find_components(network, budget))
        case StrongComponents():
            return _name_values(named, find_strong_components(network, budget))
        case LabelPropagation():
            labels = propagate_labels(network, weights, rounds=algorithm.max_rounds, budget=budget)
            named_labels = _name_values(named, labels.values)
            return replace(named_labels, rounds=labels.rounds, is_converged=labels.is_converged)
        case Leiden(resolution=resolution, seed=seed, max_rounds=rounds):
            partition = find_communities(
                network, weights, resolution=resolution, seed=seed, max_rounds=rounds, budget=budget
            )
            communities = _name_values(named, partition.values)
            return replace(
                communities,
                rounds=partition.rounds,
                is_converged=partition.is_converged,
                modularity=partition.modularity,
            )
        case ShortestPaths():
            return NodeValues(named.ids, _compute_distances(named, weights, algorithm, budget))
        case TriangleCount():
            return NodeValues(named.ids, pa.array(count_triangles(network, budget)))
        case CoreNumbers():
            return NodeValues(named.ids, pa.array(compute_core_numbers(network, budget)))
        case TopologicalOrder():
            positions, cycle = sort_topologically(network, budget)
            if cycle:
                raise QueryError.has_cycle(tuple(named.names.take(pa.array(cycle)).to_pylist()))
            return NodeValues(named.ids, pa.array(positions))
        case Betweenness():
            scores = compute_betweenness(
                network,
                weights,
                direction=algorithm.direction,
                samples=algorithm.samples,
                seed=algorithm.seed,
                is_normalized=algorithm.normalized,
                budget=budget,
            )
            return NodeValues(named.ids, pa.array(scores))
        case NodeSimilarity(direction=direction, top=top):
            rows, others, scores = find_similar(network, weights, direction=direction, top=top, budget=budget)
            ids, similar = named.ids.take(pa.array(rows)), named.names.take(pa.array(others))
            return NodeValues(ids, pa.array(scores), others=similar, rows=rows)


def _name_values(named: NamedNetwork, values: NDArray[np.int64]) -> NodeValues:
    """Return values that are nodes by their names."""
    return NodeValues(named.ids, named.names.take(pa.array(values)))


def _compute_distances(
    named: NamedNetwork, weights: NDArray[np.float64] | None, algorithm: ShortestPaths, budget: Budget
) -> pa.Array:
    """Return the distance of each node from the start; null for nodes that can't be reached."""
    start = pc.index(named.names, algorithm.start).as_py()
    if start < 0:
        types = ", ".join(part.type for part in named.parts)
        hint = "" if len(named.parts) == 1 else f"; write type and id, such as {named.parts[0].type}/{algorithm.start}"
        raise QueryError.algorithm_argument("start", repr(algorithm.start), f"{types} has no node of this id{hint}")
    if weights is None:
        hops = compute_hops(named.network, start, algorithm.direction, budget)
        return pa.array(hops, mask=hops < 0)
    sums = compute_weighted_distances(named.network, weights, start, algorithm.direction, budget)
    return pa.array(sums, mask=np.isinf(sums))


# --- checking the call -----------------------------------------------------------------------------------------


def resolve_distributed(session: Session, snapshot: Snapshot, edge: str, algorithm: Algorithm) -> AlgorithmInput:
    """Return the input of an algorithm over one edge type, for an engine that runs on a cluster.

    Raises:
        TypeMissingError, QueryError: The call is invalid, or the algorithm runs in this process only.
    """
    subject = _resolve_input(session, snapshot, AlgorithmCall(edges=(edge,)), algorithm)
    reason = _explain_local(subject, algorithm)
    if reason is not None:
        raise QueryError.algorithm_argument("engine", "spark", reason)
    return subject


def _resolve_input(session: Session, snapshot: Snapshot, call: AlgorithmCall, algorithm: Algorithm) -> AlgorithmInput:
    view = View(session.load_catalog(snapshot), session.open_tables(snapshot))
    edges = find_edge_types(view.catalog, call.edges, getattr(algorithm, "weight", None))
    nodes = list_node_types(view.catalog, edges)
    target = None if call.into is None else _resolve_target(nodes, call.into, algorithm)
    return AlgorithmInput(view, edges, nodes, target)


_FLOAT_TYPES = frozenset({Scalar.F32, Scalar.F64})


def _resolve_target(nodes: Sequence[NodeType], into: str, algorithm: Algorithm) -> tuple[NodeType, Property]:
    """Return the property that a call writes its values to.

    Raises:
        QueryError: There is no such property, or it can't store these values.
    """
    check_text("into", into)
    if isinstance(algorithm, NodeSimilarity):
        raise QueryError.algorithm_argument("into", into, "a node has several values: take them as a table")
    type_name, dot, name = into.partition(".")
    node = next((node for node in nodes if dot and node.name == type_name), None)
    if node is None:
        names = " or ".join(node.name for node in nodes)
        raise QueryError.algorithm_argument(
            "into", into, f"expected `{nodes[0].name}.property`, because the values belong to {names}"
        )
    prop = node.by_name.get(name)
    if prop is None:
        near = find_closest(name, [p.name for p in node.properties])
        hint = f"; did you mean `{near}`?" if near else "; add it to the schema first"
        raise QueryError.algorithm_argument("into", into, f"{node.name} has no property `{name}`{hint}")
    if name in node.key:
        raise QueryError.algorithm_argument("into", into, "a key can't be changed")
    is_text = algorithm.type == pa.string()
    has_right_type = prop.type is Scalar.STRING if is_text else prop.type in NUMERIC_TYPES
    if not has_right_type:
        expected = "a String" if is_text else "a number"
        raise QueryError.algorithm_argument("into", into, f"the values of {algorithm.name} need {expected}")
    # Ranks and shares are fractions. Weighted distances are floats too, but may all be whole: any number type will do.
    if isinstance(algorithm, Pagerank | Betweenness) and prop.type not in _FLOAT_TYPES:
        raise QueryError.algorithm_argument("into", into, f"its values need an F64 or F32, but this is {prop.type}")
    return node, prop


def _is_within_memory(subject: AlgorithmInput, memory_bytes: float) -> bool:
    rows = sum(subject.snapshot.pin(node.table_key).rows for node in subject.nodes)
    edges = sum(subject.snapshot.pin(edge.table_key).rows for edge in subject.edges)
    return edges * _EDGE_BYTES + rows * _NODE_BYTES <= memory_bytes


# --- writing the values -----------------------------------------------------------------------------


def _build_load(session: Session, call: AlgorithmCall, subject: AlgorithmInput, algorithm: Algorithm) -> LoadValues:
    """Return what merges values into their nodes; rows that already have their value are not rewritten."""
    assert subject.target is not None  # noqa: S101 - checked by the caller
    node, _ = subject.target
    edges = ", ".join(edge.name for edge in subject.edges)
    message = call.message or f"{algorithm.name} of {edges} at {subject.snapshot.commit.id}"

    def load_values(rows: TypedData, reader: Reader) -> LoadResult:
        given = build_load_input(None, {node.name: rows}, None, None)
        # A node that was deleted since the snapshot must not be inserted again.
        merge = LoadCall(input=given, mode=LoadMode.MERGE, actor=call.actor, message=message, only_known=True)
        return load(session, merge, reader)

    return load_values


def convert_values(target: tuple[NodeType, Property], values: pa.Array) -> pa.Array:
    """Return values in the type of the property that they are written to.

    Raises:
        QueryError: It can't store one of them.
    """
    node, prop = target
    try:
        return values.cast(to_arrow_type(prop.type))
    except pa.ArrowInvalid as error:
        reason = f"{prop.type} can't store every value: {error}"
        raise QueryError.algorithm_argument("into", f"{node.name}.{prop.name}", reason) from error


def _build_update(session: Session, subject: AlgorithmInput, result: NodeValues) -> pa.Table:
    """Return the values as rows of a load."""
    assert subject.target is not None  # noqa: S101 - checked by the caller
    node, prop = subject.target
    ids, values = result.ids, result.values
    if result.types is not None:
        is_target = pc.equal(result.types, node.name)
        ids, values = ids.filter(is_target), values.filter(is_target)
    return pa.table(
        {**_build_key_columns(session, subject.view, node, ids), prop.name: convert_values(subject.target, values)}
    )


def _build_key_columns(session: Session, view: View, node: NodeType, ids: pa.Array) -> dict[str, pa.Array]:
    """Return the columns that identify each node in a load: its key, or its id if its type has no key."""
    if not node.key:
        return {ID: ids}
    rows = session.reads.get_reader(view, node)
    positions = rows.find(ids)
    return {name: rows.take_values(name, positions) for name in node.key}
