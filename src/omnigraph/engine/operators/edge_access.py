"""Access the edges of a hop as neighbour lists: from the CSR adjacency of the edge type, or by index lookups."""

from collections.abc import Callable
from dataclasses import replace
from typing import assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.engine.bindings import Positions
from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.operators.bfs import run_bfs
from omnigraph.engine.operators.bitset_bfs import BitsetBfs, estimate_bitset_bytes, is_dense
from omnigraph.engine.operators.distinct import deduplicate
from omnigraph.engine.operators.filter import evaluate_filters, find_rows
from omnigraph.engine.operators.neighbour_lists import (
    AdjacencyLists,
    GatheredEdges,
    build_lists,
    filter_lists,
    merge_directions,
)
from omnigraph.engine.operators.reduced_lists import (
    MAX_SHARE,
    ReducedLists,
    Reductions,
    is_worth_reducing,
    reduce_lists,
)
from omnigraph.engine.operators.union_edges import (
    convert_lists,
    convert_positions,
    list_union_ends,
    load_union_lists,
    look_up_union_lists,
    measure_lists,
)
from omnigraph.engine.physical_plan import REVERSED, EdgeAccessMode, Link
from omnigraph.engine.tables.csr import CsrAdjacency, build_csr, collapse_parallel_edges
from omnigraph.options import Traversal
from omnigraph.query.logical_plan import HopDirection
from omnigraph.schema.arrow import DST, ID, SRC
from omnigraph.storage.arrow_buffers import read_numbers

# Returns the ends of the edges that a named pattern stands for.
LoadPairs = Callable[[Link], tuple[Positions, Positions]]
# Memory per neighbour while it is gathered.
_NEIGHBOUR_BYTES = 24
# Limit of the sources that are looked up individually: beyond it the planner's estimate was far too low.
MAX_LOOKUPS = 4_096


def reverse_link(link: Link) -> Link:
    """Return the same hop with its ends swapped."""
    members = tuple(replace(member, direction=REVERSED[member.direction]) for member in link.members)
    return replace(link, near=link.far, far=link.near, direction=REVERSED[link.direction], members=members)


class EdgeAccess:
    """The edges of one hop of a plan, read from its near end to its far end."""

    def __init__(self, link: Link, context: ExecutionContext, load_pairs: LoadPairs | None = None) -> None:
        self.link = link
        # Finds the edges of a named pattern.
        self._load_pairs = load_pairs
        self._context = context
        self._whole: AdjacencyLists | None = None
        self._reversed: EdgeAccess | None = None
        self._edge_mask: NDArray[np.bool_] | None = None
        self._bitset: BitsetBfs | None = None
        self._inner: NDArray[np.bool_] | None = None
        self._reduced: ReducedLists | None = None
        # Shared by all searches of the hop, in both directions: noticed once, it is not looked for again.
        self._cut_off = context.get_cut_off(link)
        self.is_indexed = link.access is EdgeAccessMode.INDEXED
        self._is_forced = context.traversal is Traversal.INDEXED
        # A plan does not depend on what is in memory; an adjacency that is there by now replaces the lookups.
        if self.is_indexed and not self._is_forced and context.has_topology(link.edge):
            self.is_indexed = False

    @property
    def is_in_memory(self) -> bool:
        """Whether the hop is a single edge and its lists are those of the whole adjacency."""
        return not self.link.is_multi and (self._whole is not None or not self.is_indexed)

    @property
    def near_size(self) -> int:
        """Number of positions of the near end's table."""
        return self._context.get_reader(self.link.near).size

    @property
    def far_size(self) -> int:
        """Number of positions of the far end's table."""
        return self._context.get_reader(self.link.far).size

    def reverse(self) -> "EdgeAccess":
        """Return the same hop with its ends swapped; built once."""
        if self._reversed is None:
            self._reversed = EdgeAccess(reverse_link(self.link), self._context, self._load_pairs)
        return self._reversed

    def get_lists(self, sources: Positions) -> AdjacencyLists:
        """Return the lists of at least these nodes, before any filter of the edges."""
        if self._reduced is not None and self._reduced.covers(sources):
            return self._reduced.lists
        if not self.link.is_multi:
            return self._get_single_hop_lists(sources)
        distinct, bitset = deduplicate(sources), self._get_bitset(len(sources))
        # A walk may lead through nodes of other types than those at its ends.
        distinct = convert_positions(distinct, self.link.near, self.link.space[0], self._context)
        if bitset is not None:
            reached = bitset.list_reached(distinct, self.link.low, self._high)
        else:
            reached = run_bfs(
                self._get_single_hop_lists,
                distinct,
                self.space_size,
                (self.link.low, self._high),
                self._context.budget,
                is_directed=self.link.direction is not HopDirection.BOTH,
                inner=self._get_inner(),
                cut_off=self._cut_off,
            )
        return convert_lists(reached, self.link, self._context)

    def reduce(self, sources: Positions, find_passing: Callable[[], NDArray[np.bool_]], reductions: Reductions) -> None:
        """Reduce the lists of these nodes to the neighbours that pass, if rows gather them often enough.

        `find_passing` returns which rows of the far end pass, by position; `reductions` are those of other hops. Later
        calls of `get_lists` with no other nodes return the reduced lists.
        """
        if not self.is_in_memory or self.link.filters or (self._reduced is not None and self._reduced.covers(sources)):
            return
        self._reduced = None
        lists = self.get_all_lists()
        if not is_worth_reducing(lists, sources):
            return
        is_passing = find_passing()
        if np.count_nonzero(is_passing) > MAX_SHARE * len(is_passing):
            return
        found = reductions.find(lists, sources, is_passing)
        if found is None:
            is_cyclic = self.link.near == self.link.far
            found = reduce_lists(lists, sources, is_passing, self._context.budget, is_cyclic=is_cyclic)
            reductions.add(found)
        self._reduced = found
        kept = len(found.lists.targets)
        _note_access(self.link, f"{kept:,} edges whose ends pass", self._context)

    def _get_inner(self) -> NDArray[np.bool_] | None:
        """Return which nodes may be inside of a walk; None for all."""
        if self._inner is None and self.link.through:
            self._inner = np.zeros(self.space_size, np.bool_)
            self._inner[find_rows(self.link.through, self.link.space[0], None, self._context)] = True
        return self._inner

    def count_reached(self, sources: Positions, mask: NDArray[np.bool_] | None) -> NDArray[np.int64] | None:
        """Return how many nodes of the mask each source reaches over several edges, or None if listing is as fast."""
        bitset = None if self.link.members else self._get_bitset(len(sources))
        if bitset is None:
            return None
        return bitset.count_reached(sources, self.link.low, self._high, mask)

    def _get_bitset(self, sources: int) -> BitsetBfs | None:
        """Return the adjacency as bitsets if the graph is dense enough for searches from this number of sources."""
        # Bitsets union whole lists, so they can't leave out nodes on the way.
        if self._bitset is None and self.link.is_multi and not self.is_indexed and not self.link.through:
            is_directed = self.link.direction is not HopDirection.BOTH
            budget = self._context.budget
            if is_dense(self.get_all_lists(), self.space_size, sources, self._high, is_directed=is_directed):
                budget.claim(estimate_bitset_bytes(self.space_size), f"neighbours along {self.link.edge} as bits")
                self._bitset = BitsetBfs(
                    self.get_all_lists(),
                    self.space_size,
                    budget,
                    is_directed=is_directed,
                    cut_off=self._cut_off,
                )
        return self._bitset

    @property
    def space_size(self) -> int:
        """Number of positions that a single edge of the hop can start at."""
        return self._context.get_reader(self.link.space[0]).size

    @property
    def _high(self) -> int:
        """The upper bound; without one, the number of nodes, which no distance exceeds."""
        return max(self.space_size, self.link.low, 1) if self.link.high is None else self.link.high

    def gather(self, sources: Positions) -> GatheredEdges:
        """Return the neighbours of each of these nodes along edges that pass; memory is reserved first."""
        neighbours = self.get_lists(sources)
        budget = self._context.budget
        ranges = neighbours.locate(sources, budget)
        nbytes = int(ranges.counts.sum()) * _NEIGHBOUR_BYTES
        budget.claim(nbytes, f"following {self.link.edge}")
        try:
            return self.filter_edges(neighbours.gather_ranges(ranges, budget))
        finally:
            budget.release(nbytes)

    def filter_edges(self, gathered: GatheredEdges) -> GatheredEdges:
        """Return only the neighbours whose edges pass the filters of the hop."""
        if not self.link.filters or gathered.edges is None:
            return gathered
        return gathered.filter(self._evaluate_edges(gathered.edges))

    def _evaluate_edges(self, edges: Positions) -> NDArray[np.bool_]:
        """Return which of these edges pass the filters of the edge variable."""
        rows = self._context.get_reader(self.link.edge)
        # From a quarter of the edges on, all are filtered once, and later calls reuse the mask.
        if self._edge_mask is None and len(edges) * 4 < rows.size:
            return evaluate_filters(self.link.filters, self.link.edge, edges, self._context)
        if self._edge_mask is None:
            self._edge_mask = np.zeros(rows.size, np.bool_)
            self._edge_mask[find_rows(self.link.filters, self.link.edge, None, self._context)] = True
        return self._edge_mask[edges]

    def list_ends(self) -> list[tuple[Positions, Positions]]:
        """Return the near and far ends of every edge that passes, in each direction of the hop, from the adjacency."""
        edges = find_rows((*self.link.filters, *self.link.along), self.link.edge, None, self._context)
        if self.link.members:
            return list_union_ends(self.link, edges, self._context)
        topology = self._context.get_topology(self.link.edge)
        source, target = topology.source[edges], topology.target[edges]
        match self.link.direction:
            case HopDirection.OUT:
                return [(source, target)]
            case HopDirection.IN:
                return [(target, source)]
            case HopDirection.BOTH:
                # An edge from a node to itself is the same in both directions, so it counts once.
                is_other = source != target
                return [(source, target), (target[is_other], source[is_other])]
            case _:
                assert_never(self.link.direction)

    def get_all_lists(self) -> AdjacencyLists:
        """Return the lists of every node, from the adjacency."""
        if self._whole is None:
            self._whole = self._load_adjacency(self.link.direction)
            if self.link.along:
                self._whole = _keep_passing(self._whole, self.link, self._context)
        return self._whole

    def _get_single_hop_lists(self, sources: Positions) -> AdjacencyLists:
        if not self.is_indexed and self.link.access is EdgeAccessMode.INDEXED:
            _note_access(self.link, "csr, which is at hand", self._context)
        if self._whole is not None or not self.is_indexed:
            return self.get_all_lists()
        distinct = deduplicate(sources)
        if len(distinct) > MAX_LOOKUPS and not self._is_forced:
            _note_access(self.link, f"csr, as there are {len(distinct):,} sources", self._context)
            return self.get_all_lists()
        if self.link.members:
            return look_up_union_lists(self.link, distinct, self._context)
        match self.link.direction:
            case HopDirection.OUT:
                return _look_up_lists(self.link, distinct, (SRC, DST), self._context)
            case HopDirection.IN:
                return _look_up_lists(self.link, distinct, (DST, SRC), self._context)
            case HopDirection.BOTH:
                both = ((SRC, DST), (DST, SRC))
                sides = (_look_up_lists(self.link, distinct, ends, self._context) for ends in both)
                return merge_directions(*sides)
            case _:
                assert_never(self.link.direction)

    # --- from memory --------------------------------------------------------------------------------

    def _load_adjacency(self, direction: HopDirection) -> AdjacencyLists:
        reads_edges = self.link.loads_edges
        if self.link.derived is not None:
            assert self._load_pairs is not None  # noqa: S101 - the executor gives it
            pairs = self._load_pairs(self.link)
            self._context.budget.claim(32 * len(pairs[0]), f"the pairs of {self.link.edge}")
            return _build_derived_lists(pairs, self.space_size, direction)
        if self.link.members:
            return load_union_lists(self.link, self._context, reads_edges=reads_edges)
        topology = self._context.get_topology(self.link.edge)
        match direction:
            case HopDirection.OUT:
                return _to_lists(topology.get_out_csr() if reads_edges else topology.get_out_set_csr())
            case HopDirection.IN:
                return _to_lists(topology.get_in_csr() if reads_edges else topology.get_in_set_csr())
            case HopDirection.BOTH:
                return self._merge_both_directions(reads_edges)
            case _:
                assert_never(direction)

    def _merge_both_directions(self, reads_edges: bool) -> AdjacencyLists:
        edge = self._context.get_edge_type(self.link.edge)
        # Both ends of an undirected hop have the same type, so its node table is the only other input.
        types = (edge, self._context.view.catalog.nodes[edge.source])
        pins = tuple(self._context.get_reader(type_.name).version for type_ in types)

        def build() -> AdjacencyLists:
            self._context.budget.check()
            return merge_directions(*(self._load_adjacency(side) for side in (HopDirection.OUT, HopDirection.IN)))

        # Cached across queries, by the versions of both tables: merging sorts all edges of the type.
        return self._context.cache.get_or_build(("both", reads_edges, *pins), build, measure_lists)


def _keep_passing(lists: AdjacencyLists, link: Link, context: ExecutionContext) -> AdjacencyLists:
    """Return the lists of the edges that pass the conditions on the way."""
    is_kept = np.zeros(context.get_reader(link.edge).size, np.bool_)
    is_kept[find_rows(link.along, link.edge, None, context)] = True
    # Their memory is that of the lists themselves at most.
    context.budget.claim(measure_lists(lists), f"the edges of {link.edge} that pass")
    return filter_lists(lists, is_kept, is_set=not link.reads_edges)


def _build_derived_lists(pairs: tuple[Positions, Positions], size: int, direction: HopDirection) -> AdjacencyLists:
    """Return the lists of the edges that a named pattern stands for, between nodes of a table of `size` rows."""
    source, target = pairs
    out = _to_lists(collapse_parallel_edges(build_csr(source, target, size, size)))
    if direction is HopDirection.OUT:
        return out
    back = _to_lists(collapse_parallel_edges(build_csr(target, source, size, size)))
    return back if direction is HopDirection.IN else merge_directions(out, back)


def _look_up_lists(link: Link, sources: Positions, ends: tuple[str, str], context: ExecutionContext) -> AdjacencyLists:
    """Build the lists of distinct ascending nodes by the index on one end of the edges."""
    near, far = ends
    edges = context.get_reader(link.edge)
    far_nodes = context.get_reader(link.far)
    ids = context.get_reader(link.near).take_values(ID, sources)
    positions, near_ids = edges.find_matching(near, ids)
    context.budget.check()
    # The near end of each edge is an id; the lists are numbered by source.
    numbers = read_numbers(pc.index_in(near_ids, value_set=_cast_ids(ids, near_ids.type))).astype(np.int64)
    targets = far_nodes.find(edges.take_values(far, positions))
    is_set = not link.reads_edges
    return build_lists(sources, numbers, targets, None if is_set else positions, is_set=is_set)


def _note_access(link: Link, choice: str, context: ExecutionContext) -> None:
    if context.profile is not None:
        context.profile.note_choice(f"{link.edge} by {choice}")


def _cast_ids(ids: pa.Array, type_: pa.DataType) -> pa.Array:
    return ids if ids.type == type_ else ids.cast(type_)


def _to_lists(csr: CsrAdjacency) -> AdjacencyLists:
    return AdjacencyLists(csr.starts, csr.targets, csr.edges)
