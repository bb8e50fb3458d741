"""Follow a hop that binds a path: find its walks, store them, and join them with the rows."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.engine.bindings import Bindings, Positions
from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.kernels import argsort_stable
from omnigraph.engine.operators.bfs import run_bfs
from omnigraph.engine.operators.candidates import Candidates
from omnigraph.engine.operators.edge_access import EdgeAccess
from omnigraph.engine.operators.edge_weights import read_weights
from omnigraph.engine.operators.filter import find_rows
from omnigraph.engine.operators.multiplicity import multiply_counts
from omnigraph.engine.operators.union_edges import convert_positions
from omnigraph.engine.operators.walks.solve_walks import NumberedWalks, WalkBounds, solve_from, solve_pairs
from omnigraph.engine.operators.walks.walk_graph import IdOrder, WalkGraph
from omnigraph.engine.operators.walks.walk_list import WalkList, concat_ranges
from omnigraph.engine.physical_plan import Close, EdgeAccessMode, Expand, Link
from omnigraph.engine.tables.table_reader import TableReader
from omnigraph.query.expr import EdgeRef, NodeRef
from omnigraph.query.expr_types import WALK_COST, WALK_EDGES, WALK_NODES
from omnigraph.query.logical_plan import HopDirection
from omnigraph.query.walk_plan import WalkBinding
from omnigraph.schema.arrow import ID, to_arrow_type

Ints = Positions


class WalkAccess:
    """The graph of one hop of a plan that binds a path; it is built once for a run."""

    def __init__(self, link: Link, context: ExecutionContext) -> None:
        assert link.walk is not None  # noqa: S101 - only hops with a path
        self.link = link
        self.walk: WalkBinding = link.walk
        self.context = context
        # The type, or union of types, whose positions are the nodes of walks while they are searched.
        self.space = link.walk.searched.name
        self.bounds = WalkBounds(kind=link.walk.kind, low=link.low, high=link.high)
        self._graph: WalkGraph | None = None

    def get_graph(self) -> WalkGraph:
        """Return the edges that pass the conditions on the way, with their weights.

        Raises:
            QueryError: An edge has no weight, or a negative one.
        """
        if self._graph is None:
            self._graph = self._build_graph()
        return self._graph

    def _build_graph(self) -> WalkGraph:
        link, context = self.link, self.context
        nodes, edges = context.get_reader(self.space), context.get_reader(link.edge)
        # Weights are checked before anything is searched.
        weights = None
        if self.walk.weight is not None:
            weights = read_weights(self.walk, link.edge, link.along, context, max_edges=link.high or nodes.size)
        single = replace(
            link,
            near=self.space,
            far=self.space,
            low=1,
            high=1,
            each_edge=True,
            walk=None,
            through=(),
            access=EdgeAccessMode.CSR,
        )
        access = EdgeAccess(single, context)
        onward, back = (access.reverse(), access) if link.is_backward else (access, access.reverse())
        inner = None
        if link.through:
            inner = np.zeros(nodes.size, np.bool_)
            inner[find_rows(link.through, self.space, None, context)] = True
        is_undirected = link.direction is HopDirection.BOTH
        onward_lists = onward.get_all_lists()
        return WalkGraph(
            onward=onward_lists,
            back=onward_lists if is_undirected else back.get_all_lists(),
            size=nodes.size,
            is_undirected=is_undirected,
            nodes=_build_order(nodes, context),
            edges=_build_order(edges, context),
            budget=context.budget,
            label=f"listing the `{self.walk.kind.value}` walks of ${self.walk.variable} over {link.edge}",
            inner=inner,
            weights=weights,
        )

    def detect_cut_off(self, starts: Positions, *, is_back: bool) -> None:
        """Record whether the upper bound left nodes out that are reachable from any of these nodes of walks."""
        cut_off = self.context.get_cut_off(self.link)
        if not cut_off.is_open or not len(starts):
            return
        graph = self.get_graph()
        lists = graph.back if is_back else graph.onward
        distinct = np.unique(starts)
        # The first search nearly always finds some in a large graph, so the first block is small.
        begin, count = 0, 1
        while begin < len(distinct):
            part = distinct[begin : begin + count]
            run_bfs(
                lambda _: lists,
                part,
                graph.size,
                (min(self.bounds.low, 1), self.bounds.high or graph.size),
                graph.budget,
                inner=graph.inner,
                cut_off=cut_off,
            )
            if cut_off.is_found:
                return
            begin, count = begin + count, count * 8

    def enter(self, at: Positions, type_name: str) -> Ints:
        """Return positions of a variable at an end of the hop as nodes of walks."""
        return convert_positions(at, type_name, self.space, self.context)

    def leave(self, nodes: Positions, type_name: str) -> Ints:
        """Return nodes of walks as positions of a variable at an end of the hop; -1 for other types than it has."""
        return convert_positions(nodes, self.space, type_name, self.context)

    def store(self, walks: WalkList) -> Ints:
        """Store walks as values of the path variable, and return their indices."""
        nodes, edges = self.walk.type.nodes.element, self.walk.type.edges.element
        assert isinstance(nodes, NodeRef) and isinstance(edges, EdgeRef)  # noqa: S101, PT018 - a walk has both
        # The parts of a longer path share the types of all of it.
        if nodes.name != self.space:
            walks = replace(walks, nodes=convert_positions(walks.nodes, self.space, nodes.name, self.context))
        if edges.name != self.link.edge:
            walks = replace(walks, edges=convert_positions(walks.edges, self.link.edge, edges.name, self.context))
        return self.context.values.append(self.walk.variable, to_arrow(walks, self.walk), self.context.budget)


def _build_order(reader: TableReader, context: ExecutionContext) -> IdOrder:
    return IdOrder(reader.size, lambda at: reader.take_values(ID, at, context.budget), reader.get_positions)


def to_arrow(walks: WalkList, walk: WalkBinding) -> pa.Array:
    """Return walks as records of the positions of their nodes and edges, with their costs if they have weights."""
    columns = {
        WALK_NODES: pa.ListArray.from_arrays(
            pa.array(walks.node_starts, pa.int32()), pa.array(walks.nodes, pa.int64())
        ),
        WALK_EDGES: pa.ListArray.from_arrays(
            pa.array(walks.edge_starts, pa.int32()), pa.array(walks.edges, pa.int64())
        ),
    }
    if walk.type.cost is not None:
        columns[WALK_COST] = pa.array(() if walks.costs is None else walks.costs, to_arrow_type(walk.type.cost))
    return pa.StructArray.from_arrays(list(columns.values()), names=list(columns))


def expand_walks(step: Expand, bindings: Bindings, access: WalkAccess, candidates: Candidates) -> Bindings:
    """Return one row per row and walk from its node, or to it, whose other end passes."""
    nears, near_rows = np.unique(bindings.columns[step.source], return_inverse=True)
    is_back = step.link.is_backward

    def accept(nodes: Positions) -> NDArray[np.bool_] | None:
        at = access.leave(nodes, step.link.far)
        is_inside = at >= 0
        counts = candidates.count_matches(at[is_inside])
        if counts is not None:
            is_inside[is_inside] = counts.astype(np.bool_, copy=False)
        return is_inside

    starts = access.enter(nears, step.link.near)
    solved = solve_from(access.get_graph(), access.bounds, starts, accept, is_back=is_back)
    walks, numbers = solved
    access.detect_cut_off(starts if step.node.is_free else _find_without(starts, numbers), is_back=is_back)
    fars = access.leave(walks.first_nodes if is_back else walks.last_nodes, step.link.far)
    rows, at = _join(near_rows.reshape(-1), len(nears), numbers, access.context)
    counts = candidates.count_matches(fars)
    multiplicity = None if bindings.multiplicity is None else bindings.multiplicity[rows]
    if counts is not None and counts.dtype != np.bool_:
        multiplicity = multiply_counts(multiplicity, counts[at].astype(np.int64, copy=False))
    columns = _build_columns(step, bindings, rows)
    if step.node.variable in step.keep:
        columns[step.node.variable] = fars[at]
    return _bind_walks(step, access, solved, Bindings(columns, len(rows), multiplicity), at)


def close_walks(step: Close, bindings: Bindings, access: WalkAccess) -> Bindings:
    """Return one row per row and walk between its two nodes."""
    graph = access.get_graph()
    starts = access.enter(bindings.columns[step.source], step.link.near)
    ends = access.enter(bindings.columns[step.target], step.link.far)
    pairs, pair_rows = np.unique(starts * graph.size + ends, return_inverse=True)
    solved = solve_pairs(graph, access.bounds, *np.divmod(pairs, graph.size))
    distinct, numbers = np.unique(pairs // graph.size, return_inverse=True)
    access.detect_cut_off(_find_without(distinct, numbers.reshape(-1)[solved[1]]), is_back=False)
    rows, at = _join(pair_rows.reshape(-1), len(pairs), solved[1], access.context)
    multiplicity = None if bindings.multiplicity is None else bindings.multiplicity[rows]
    return _bind_walks(
        step, access, solved, Bindings(_build_columns(step, bindings, rows), len(rows), multiplicity), at
    )


def _find_without(starts: Ints, numbers: Ints) -> Ints:
    """Return the starts that no walk has, by number: to ends that are restricted, only these were cut off."""
    has_walk = np.bincount(numbers, minlength=len(starts)).astype(np.bool_)
    return starts[~has_walk]


def _build_columns(step: Expand | Close, bindings: Bindings, rows: Ints) -> dict[str, Positions]:
    return {name: bindings.columns[name][rows] for name in step.keep if name in bindings.columns}


def _bind_walks(
    step: Expand | Close, access: WalkAccess, solved: NumberedWalks, joined: Bindings, at: Ints
) -> Bindings:
    """Return the rows with their walks, which are stored if a later step reads them."""
    walks = solved[0]
    budget = access.context.budget
    if step.link.binds_walk and access.walk.variable in step.keep:
        joined = joined.with_column(access.walk.variable, access.store(walks)[at])
    # The searches have claimed them; the store claims its own.
    budget.release(walks.nbytes)
    return joined


def _join(row_keys: Ints, count: int, walk_keys: Ints, context: ExecutionContext) -> tuple[Ints, Ints]:
    """Return, for each pair of a row and a walk with equal keys below `count`, their numbers."""
    order = argsort_stable(walk_keys.astype(np.int64, copy=False), context.budget.check)
    counts = np.bincount(walk_keys, minlength=count)
    starts = np.cumsum(counts) - counts
    row_counts = counts[row_keys]
    total = int(row_counts.sum())
    context.budget.check_size(total * 16, f"joining {total:,} walks with the rows")
    rows = np.repeat(np.arange(len(row_keys)), row_counts)
    return rows, order[concat_ranges(starts[row_keys], row_counts)]
