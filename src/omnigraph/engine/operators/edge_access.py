"""A hop of a plan as neighbour lists: from the adjacency of the whole edge type, or by looking single edges up."""

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
from omnigraph.engine.operators.neighbour_lists import AdjacencyLists, GatheredEdges, build_lists, merge_directions
from omnigraph.engine.physical_plan import REVERSED, EdgeAccessMode, Link
from omnigraph.engine.tables.csr import CsrAdjacency
from omnigraph.options import Traversal
from omnigraph.query.logical_plan import HopDirection
from omnigraph.schema.arrow import DST, ID, SRC
from omnigraph.storage.arrow_buffers import read_numbers

_NEIGHBOUR_BYTES = 24
"""What a neighbour takes while it is gathered."""
MAX_LOOKUPS = 4_096
"""An estimate that was too low by far does not look up more sources than this one by one."""


def reverse_link(link: Link) -> Link:
    """The same hop, travelled from its other end."""
    return replace(link, near=link.far, far=link.near, direction=REVERSED[link.direction])


class EdgeAccess:
    """The neighbours along one hop."""

    def __init__(self, link: Link, reading: ExecutionContext) -> None:
        self.link, self._context = link, reading
        self._whole: AdjacencyLists | None = None
        self._reversed: EdgeAccess | None = None
        self._edge_mask: NDArray[np.bool_] | None = None
        self._bitset: BitsetBfs | None = None
        self.is_indexed = link.access is EdgeAccessMode.INDEXED
        """Whether single edges are looked up: as planned, unless the adjacency is at hand by now."""
        if self.is_indexed and not self._is_forced and reading.has_topology(link.edge):
            self.is_indexed = False

    @property
    def _is_forced(self) -> bool:
        return self._context.traversal is Traversal.INDEXED

    def _note(self, choice: str) -> None:
        if self._context.profile is not None:
            self._context.profile.note_choice(f"{self.link.edge} by {choice}")

    @property
    def is_in_memory(self) -> bool:
        """Whether the lists are those of a whole adjacency, single edges each."""
        return not self.link.is_multi and (self._whole is not None or not self.is_indexed)

    @property
    def near_size(self) -> int:
        """How many positions the near end's table has."""
        return self._context.get_reader(self.link.near).size

    @property
    def far_size(self) -> int:
        """How many positions the far end's table has."""
        return self._context.get_reader(self.link.far).size

    def reverse(self) -> "EdgeAccess":
        """The same hop, travelled from its other end."""
        if self._reversed is None:
            self._reversed = EdgeAccess(reverse_link(self.link), self._context)
        return self._reversed

    def get_lists(self, sources: Positions) -> AdjacencyLists:
        """The lists of at least these nodes, before any filter of the edges."""
        if not self.link.is_multi:
            return self._get_single_hop_lists(sources)
        each, bits = deduplicate(sources), self._get_bitset(len(sources))
        if bits is not None:
            return bits.list_reached(each, self.link.low, self.link.high)
        return run_bfs(
            self._get_single_hop_lists,
            each,
            self.near_size,
            (self.link.low, self.link.high),
            self._context.budget,
            is_directed=self.link.direction is not HopDirection.BOTH,
        )

    def count_reached(self, sources: Positions, mask: NDArray[np.bool_] | None) -> NDArray[np.int64] | None:
        """How many nodes, of those in the mask, each source reaches over several edges.

        None where listing them is as fast.
        """
        bits = self._get_bitset(len(sources))
        return None if bits is None else bits.count_reached(sources, self.link.low, self.link.high, mask)

    def _get_bitset(self, sources: int) -> BitsetBfs | None:
        """The neighbours of all nodes as bits, where the graph is dense enough for so many searches."""
        if self._bitset is None and self.link.is_multi and not self.is_indexed:
            is_directed, budget = self.link.direction is not HopDirection.BOTH, self._context.budget
            if is_dense(self.get_all_lists(), self.near_size, sources, self.link.high, is_directed=is_directed):
                budget.claim(estimate_bitset_bytes(self.near_size), f"neighbours along {self.link.edge} as bits")
                self._bitset = BitsetBfs(self.get_all_lists(), self.near_size, budget, is_directed=is_directed)
        return self._bitset

    def gather(self, sources: Positions) -> GatheredEdges:
        """The neighbours of each of these nodes, for edges that pass; memory is asked for first."""
        neighbours, budget = self.get_lists(sources), self._context.budget
        needed = int(neighbours.count_neighbours(sources).sum()) * _NEIGHBOUR_BYTES
        budget.claim(needed, f"following {self.link.edge}")
        try:
            return self.filter_edges(neighbours.gather(sources))
        finally:
            budget.release(needed)

    def filter_edges(self, gathered: GatheredEdges) -> GatheredEdges:
        """Only the neighbours whose edges pass."""
        if not self.link.filters or gathered.edges is None:
            return gathered
        return gathered.filter(self._evaluate_edges(gathered.edges))

    def _evaluate_edges(self, edges: Positions) -> NDArray[np.bool_]:
        """Which of these edges the filters of the edge variable let pass."""
        rows = self._context.get_reader(self.link.edge)
        if self._edge_mask is None and len(edges) * 4 < rows.size:
            return evaluate_filters(self.link.filters, self.link.edge, edges, self._context)
        if self._edge_mask is None:
            self._edge_mask = np.zeros(rows.size, np.bool_)
            self._edge_mask[find_rows(self.link.filters, self.link.edge, None, self._context)] = True
        return self._edge_mask[edges]

    def list_ends(self) -> list[tuple[Positions, Positions]]:
        """The near and far ends of every edge that passes, in each direction that is travelled; from memory."""
        topology = self._context.get_topology(self.link.edge)
        edges = find_rows(self.link.filters, self.link.edge, None, self._context)
        source, target = topology.source[edges], topology.target[edges]
        match self.link.direction:
            case HopDirection.OUT:
                return [(source, target)]
            case HopDirection.IN:
                return [(target, source)]
            case HopDirection.BOTH:
                is_other = source != target  # an edge from a node to itself is the same in both directions
                return [(source, target), (target[is_other], source[is_other])]
            case _:
                assert_never(self.link.direction)

    def get_all_lists(self) -> AdjacencyLists:
        """The lists of every node, from the adjacency."""
        if self._whole is None:
            self._whole = self._load_adjacency(self.link.direction)
        return self._whole

    def _get_single_hop_lists(self, sources: Positions) -> AdjacencyLists:
        if not self.is_indexed and self.link.access is EdgeAccessMode.INDEXED:
            self._note("csr, which is at hand")
        if self._whole is not None or not self.is_indexed:
            return self.get_all_lists()
        each = deduplicate(sources)
        if len(each) > MAX_LOOKUPS and not self._is_forced:
            self._note(f"csr, as there are {len(each):,} sources")
            return self.get_all_lists()
        match self.link.direction:
            case HopDirection.OUT:
                return self._look_up_lists(each, SRC, DST, self.link.far)
            case HopDirection.IN:
                return self._look_up_lists(each, DST, SRC, self.link.far)
            case HopDirection.BOTH:
                sides = (self._look_up_lists(each, *ends, self.link.far) for ends in ((SRC, DST), (DST, SRC)))
                return merge_directions(*sides)
            case _:
                assert_never(self.link.direction)

    # --- from memory --------------------------------------------------------------------------------

    def _load_adjacency(self, direction: HopDirection) -> AdjacencyLists:
        topology = self._context.get_topology(self.link.edge)
        reads_edges = self.link.reads_edges
        match direction:
            case HopDirection.OUT:
                return _as_neighbours(topology.get_out_csr() if reads_edges else topology.get_out_set_csr())
            case HopDirection.IN:
                return _as_neighbours(topology.get_in_csr() if reads_edges else topology.get_in_set_csr())
            case HopDirection.BOTH:
                return self._merge_both_directions(reads_edges)
            case _:
                assert_never(direction)

    def _merge_both_directions(self, reads_edges: bool) -> AdjacencyLists:
        view, edge = self._context.view, self._context.get_edge_type(self.link.edge)
        types = (edge, view.catalog.nodes[edge.source])
        pins = tuple(self._context.get_reader(type_.name).version for type_ in types)

        def make() -> AdjacencyLists:
            self._context.budget.check()
            return merge_directions(*(self._load_adjacency(side) for side in (HopDirection.OUT, HopDirection.IN)))

        return self._context.cache.get_or_build(("both", reads_edges, *pins), make, _measure_lists)

    # --- one by one ---------------------------------------------------------------------------------

    def _look_up_lists(self, sources: Positions, near: str, far: str, far_type: str) -> AdjacencyLists:
        """The lists of distinct ascending nodes, by the index on an end of the edges."""
        reading = self._context
        edges, others = reading.get_reader(self.link.edge), reading.get_reader(far_type)
        ids = reading.get_reader(self.link.near).take_values(ID, sources)
        found, ends = edges.find_matching(near, ids)
        reading.budget.check()
        places = read_numbers(pc.index_in(ends, value_set=_cast_ids(ids, ends.type))).astype(np.int64)
        targets = others.find(edges.take_values(far, found))
        is_set = not self.link.reads_edges
        return build_lists(sources, places, targets, None if is_set else found, is_set=is_set)


def _cast_ids(ids: pa.Array, type_: pa.DataType) -> pa.Array:
    return ids if ids.type == type_ else ids.cast(type_)


def _as_neighbours(found: CsrAdjacency) -> AdjacencyLists:
    return AdjacencyLists(found.starts, found.targets, found.edges)


def _measure_lists(found: AdjacencyLists) -> int:
    edges = 0 if found.edges is None else found.edges.nbytes
    return int(found.starts.nbytes + found.targets.nbytes + edges)
