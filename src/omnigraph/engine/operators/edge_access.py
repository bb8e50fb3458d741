"""A hop of a plan as neighbour lists: from the adjacency of the whole edge type, or by looking single edges up."""

from dataclasses import replace
from typing import assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.engine.bindings import Positions
from omnigraph.engine.execution_context import Reading
from omnigraph.engine.operators.bfs import reach
from omnigraph.engine.operators.bitset_bfs import BitRows, bytes_of_rows, is_dense
from omnigraph.engine.operators.distinct import distinct
from omnigraph.engine.operators.filter import passing, rows_where
from omnigraph.engine.operators.neighbour_lists import Gathered, Neighbours, joined, listed
from omnigraph.engine.physical_plan import REVERSED, Access, Link
from omnigraph.engine.tables.csr import Adjacency
from omnigraph.options import Traversal
from omnigraph.query.logical_plan import Direction
from omnigraph.schema.arrow import DST, ID, SRC
from omnigraph.storage.arrow_buffers import numbers

_NEIGHBOUR_BYTES = 24
"""What a neighbour takes while it is gathered."""
MOST_LOOKUPS = 4_096
"""An estimate that was too low by far does not look up more sources than this one by one."""


def reversed_link(link: Link) -> Link:
    """The same hop, travelled from its other end."""
    return replace(link, near=link.far, far=link.near, direction=REVERSED[link.direction])


class Links:
    """The neighbours along one hop."""

    def __init__(self, link: Link, reading: Reading) -> None:
        self.link, self._reading = link, reading
        self._whole: Neighbours | None = None
        self._reversed: Links | None = None
        self._edge_mask: NDArray[np.bool_] | None = None
        self._bits: BitRows | None = None
        self.is_indexed = link.access is Access.INDEXED
        """Whether single edges are looked up: as planned, unless the adjacency is at hand by now."""
        if self.is_indexed and not self._is_forced and reading.has_topology(link.edge):
            self.is_indexed = False

    @property
    def _is_forced(self) -> bool:
        return self._reading.traversal is Traversal.INDEXED

    def _note(self, choice: str) -> None:
        if self._reading.trace is not None:
            self._reading.trace.chose(f"{self.link.edge} by {choice}")

    @property
    def is_in_memory(self) -> bool:
        """Whether the lists are those of a whole adjacency, single edges each."""
        return not self.link.is_multi and (self._whole is not None or not self.is_indexed)

    @property
    def near_size(self) -> int:
        """How many positions the near end's table has."""
        return self._reading.rows(self.link.near).size

    @property
    def far_size(self) -> int:
        """How many positions the far end's table has."""
        return self._reading.rows(self.link.far).size

    def reversed(self) -> "Links":
        """The same hop, travelled from its other end."""
        if self._reversed is None:
            self._reversed = Links(reversed_link(self.link), self._reading)
        return self._reversed

    def neighbours(self, sources: Positions) -> Neighbours:
        """The lists of at least these nodes, before any filter of the edges."""
        if not self.link.is_multi:
            return self._single(sources)
        each, bits = distinct(sources), self._bit_rows(len(sources))
        if bits is not None:
            return bits.lists(each, self.link.low, self.link.high)
        return reach(
            self._single,
            each,
            self.near_size,
            (self.link.low, self.link.high),
            self._reading.budget,
            is_directed=self.link.direction is not Direction.BOTH,
        )

    def reach_counts(self, sources: Positions, mask: NDArray[np.bool_] | None) -> NDArray[np.int64] | None:
        """How many nodes, of those in the mask, each source reaches over several edges.

        None where listing them is as fast.
        """
        bits = self._bit_rows(len(sources))
        return None if bits is None else bits.counts(sources, self.link.low, self.link.high, mask)

    def _bit_rows(self, sources: int) -> BitRows | None:
        """The neighbours of all nodes as bits, where the graph is dense enough for so many searches."""
        if self._bits is None and self.link.is_multi and not self.is_indexed:
            is_directed, budget = self.link.direction is not Direction.BOTH, self._reading.budget
            if is_dense(self.whole(), self.near_size, sources, self.link.high, is_directed=is_directed):
                budget.claim(bytes_of_rows(self.near_size), f"neighbours along {self.link.edge} as bits")
                self._bits = BitRows(self.whole(), self.near_size, budget, is_directed=is_directed)
        return self._bits

    def gather(self, sources: Positions) -> Gathered:
        """The neighbours of each of these nodes, for edges that pass; memory is asked for first."""
        neighbours, budget = self.neighbours(sources), self._reading.budget
        needed = int(neighbours.counts(sources).sum()) * _NEIGHBOUR_BYTES
        budget.claim(needed, f"following {self.link.edge}")
        try:
            return self.passing(neighbours.gather(sources))
        finally:
            budget.release(needed)

    def passing(self, gathered: Gathered) -> Gathered:
        """Only the neighbours whose edges pass."""
        if not self.link.filters or gathered.edges is None:
            return gathered
        return gathered.kept(self._edges_pass(gathered.edges))

    def _edges_pass(self, edges: Positions) -> NDArray[np.bool_]:
        """Which of these edges the filters of the edge variable let pass."""
        rows = self._reading.rows(self.link.edge)
        if self._edge_mask is None and len(edges) * 4 < rows.size:
            return passing(self.link.filters, self.link.edge, edges, self._reading)
        if self._edge_mask is None:
            self._edge_mask = np.zeros(rows.size, np.bool_)
            self._edge_mask[rows_where(self.link.filters, self.link.edge, None, self._reading)] = True
        return self._edge_mask[edges]

    def ends(self) -> list[tuple[Positions, Positions]]:
        """The near and far ends of every edge that passes, in each direction that is travelled; from memory."""
        topology = self._reading.topology(self.link.edge)
        edges = rows_where(self.link.filters, self.link.edge, None, self._reading)
        source, target = topology.source[edges], topology.target[edges]
        match self.link.direction:
            case Direction.OUT:
                return [(source, target)]
            case Direction.IN:
                return [(target, source)]
            case Direction.BOTH:
                is_other = source != target  # an edge from a node to itself is the same in both directions
                return [(source, target), (target[is_other], source[is_other])]
            case _:
                assert_never(self.link.direction)

    def whole(self) -> Neighbours:
        """The lists of every node, from the adjacency."""
        if self._whole is None:
            self._whole = self._adjacent(self.link.direction)
        return self._whole

    def _single(self, sources: Positions) -> Neighbours:
        if not self.is_indexed and self.link.access is Access.INDEXED:
            self._note("csr, which is at hand")
        if self._whole is not None or not self.is_indexed:
            return self.whole()
        each = distinct(sources)
        if len(each) > MOST_LOOKUPS and not self._is_forced:
            self._note(f"csr, as there are {len(each):,} sources")
            return self.whole()
        match self.link.direction:
            case Direction.OUT:
                return self._looked_up(each, SRC, DST, self.link.far)
            case Direction.IN:
                return self._looked_up(each, DST, SRC, self.link.far)
            case Direction.BOTH:
                sides = (self._looked_up(each, *ends, self.link.far) for ends in ((SRC, DST), (DST, SRC)))
                return joined(*sides)
            case _:
                assert_never(self.link.direction)

    # --- from memory --------------------------------------------------------------------------------

    def _adjacent(self, direction: Direction) -> Neighbours:
        topology = self._reading.topology(self.link.edge)
        reads_edges = self.link.reads_edges
        match direction:
            case Direction.OUT:
                return _as_neighbours(topology.out() if reads_edges else topology.out_set())
            case Direction.IN:
                return _as_neighbours(topology.into() if reads_edges else topology.into_set())
            case Direction.BOTH:
                return self._both(reads_edges)
            case _:
                assert_never(direction)

    def _both(self, reads_edges: bool) -> Neighbours:
        view, edge = self._reading.view, self._reading.edge(self.link.edge)
        types = (edge, view.catalog.nodes[edge.source])
        pins = tuple(self._reading.rows(type_.name).version for type_ in types)

        def make() -> Neighbours:
            self._reading.budget.check()
            return joined(*(self._adjacent(side) for side in (Direction.OUT, Direction.IN)))

        return self._reading.cache.keep(("both", reads_edges, *pins), make, _nbytes)

    # --- one by one ---------------------------------------------------------------------------------

    def _looked_up(self, sources: Positions, near: str, far: str, far_type: str) -> Neighbours:
        """The lists of distinct ascending nodes, by the index on an end of the edges."""
        reading = self._reading
        edges, others = reading.rows(self.link.edge), reading.rows(far_type)
        ids = reading.rows(self.link.near).values(ID, sources)
        found, ends = edges.matching(near, ids)
        reading.budget.check()
        places = numbers(pc.index_in(ends, value_set=_plain(ids, ends.type))).astype(np.int64)
        targets = others.find(edges.values(far, found))
        is_set = not self.link.reads_edges
        return listed(sources, places, targets, None if is_set else found, is_set=is_set)


def _plain(ids: pa.Array, type_: pa.DataType) -> pa.Array:
    return ids if ids.type == type_ else ids.cast(type_)


def _as_neighbours(found: Adjacency) -> Neighbours:
    return Neighbours(found.starts, found.targets, found.edges)


def _nbytes(found: Neighbours) -> int:
    edges = 0 if found.edges is None else found.edges.nbytes
    return int(found.starts.nbytes + found.targets.nbytes + edges)
