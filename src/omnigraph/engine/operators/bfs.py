"""Breadth-first search from many sources at the same time: variable-length hops, each pair at its smallest distance.

The distance of a node to itself is the length of the shortest cycle through it. Without direction, stepping back over
the same pair of nodes is no cycle: a cycle has a single node (an edge to itself) or at least three.
"""

from collections.abc import Callable, Generator
from contextlib import closing
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.bindings import Positions
from omnigraph.engine.cut_off import CutOff
from omnigraph.engine.operators.distinct import deduplicate
from omnigraph.engine.operators.neighbour_lists import AdjacencyLists
from omnigraph.engine.query_budget import Budget

# Returns the adjacency lists of at least the given positions, each neighbour once.
Lists = Callable[[Positions], AdjacencyLists]

# (source, node) pairs of one search. The distance table has one byte per pair, five without direction, and should fit
# into the processor's cache.
MAX_CELLS = 1 << 21
# Neighbours that are gathered in one step, unless a single node has more.
MAX_STEP_ROWS = 1 << 19
# Upper limit of the memory per gathered neighbour: its pair, the pair it was reached from, its branch, and the masks.
_ROW_BYTES = 72
# From this share of all pairs on, the reached pairs are read from the distance table instead of being sorted.
_DENSE_DIVISOR = 64
_BUDGET_LABEL = "a hop over several edges"
# Distances up to here fit into a byte; the largest byte marks a source in its own row, where only a cycle can set a
# distance.
_MAX_BYTE_DISTANCE = 254
_DistanceType: TypeAlias = np.dtype[np.uint8] | np.dtype[np.int32]


def run_bfs(  # noqa: PLR0913 - all but the search itself by name
    lists: Lists,
    sources: Positions,
    size: int,
    bounds: tuple[int, int],
    budget: Budget,
    *,
    is_directed: bool = True,
    inner: NDArray[np.bool_] | None = None,
    cells: int = MAX_CELLS,
    cut_off: CutOff | None = None,
) -> AdjacencyLists:
    """Return, for distinct ascending `sources`, the nodes whose distance is within the bounds.

    With a lower bound of 0, each source also reaches itself. `cut_off` notes whether the upper bound left nodes out.
    `inner` are the nodes that a walk may lead through; None for all. Its ends may be any.
    """
    type_: _DistanceType = np.dtype(np.int32)
    if bounds[1] <= _MAX_BYTE_DISTANCE:
        type_ = np.dtype(np.uint8)
    sources_per_search = max(1, cells // max(size, 1))
    pair_arrays = []
    for begin in range(0, len(sources), sources_per_search):
        part = sources[begin : begin + sources_per_search]
        budget.check()
        # Without direction, the branch of each pair takes four more bytes.
        nbytes = len(part) * size * (type_.itemsize if is_directed else type_.itemsize + 4)
        budget.claim(nbytes, _BUDGET_LABEL)
        try:
            search = _BfsSearch(lists, part, size, budget, type_, cut_off, inner)
            pairs = search.search_directed(*bounds) if is_directed else search.search_undirected(*bounds)
        finally:
            budget.release(nbytes)
        budget.claim(pairs.nbytes, _BUDGET_LABEL)
        # A search numbers its own sources from 0; from here on pairs are numbered over all sources.
        pairs += begin * size
        pair_arrays.append(pairs)
    total = sum(pairs.nbytes for pairs in pair_arrays)
    budget.claim(2 * total, _BUDGET_LABEL)
    pairs = pair_arrays[0] if len(pair_arrays) == 1 else np.concatenate([np.zeros(0, np.int64), *pair_arrays])
    # Dropped before the division below allocates two more arrays of this size.
    del pair_arrays
    source_numbers, targets = np.divmod(pairs, max(size, 1))
    budget.release(3 * total)
    starts = np.zeros(len(sources) + 1, np.int64)
    np.cumsum(np.bincount(source_numbers, minlength=len(sources)), out=starts[1:])
    return AdjacencyLists(starts, targets, None, sources)


class _BfsSearch:
    """One search from several sources; a (source, node) pair is encoded as `number of the source * size + node`."""

    def __init__(
        self,
        lists: Lists,
        sources: Positions,
        size: int,
        budget: Budget,
        type_: _DistanceType,
        cut_off: CutOff | None,
        inner: NDArray[np.bool_] | None = None,
    ) -> None:
        self.lists = lists
        self.sources = sources.astype(np.int64)
        self.size = size
        self.budget = budget
        self.inner = inner
        self.source_pairs = np.arange(len(sources)) * size + self.sources
        # By pair; 0 means that the pair was not reached yet.
        self.distance: NDArray[np.uint8] | NDArray[np.int32] = np.zeros(len(sources) * size, type_)
        # Larger than any distance.
        self._source_distance = np.iinfo(type_).max
        self._cut_off = cut_off
        self._reached = _ReachedPairs(len(self.distance))

    def search_directed(self, low: int, high: int) -> NDArray[np.int64]:
        """Return the pairs whose distance is within the bounds, ascending."""
        # The sources have no distance yet: a cycle may lead back to them. With a lower bound of 0 it need not.
        if low == 0:
            self.distance[self.source_pairs] = self._source_distance
        frontier = self.source_pairs
        for distance in range(1, high + 1):
            level = _ReachedPairs(len(self.distance))
            for reached, _ in self._iter_step(frontier):
                new = reached[self.distance[reached] == 0]
                self.distance[new] = distance
                level.add(new)
            self._reached.add_all(level)
            if distance == high or not level.count:
                self._detect_cut_off(level, distance)
                break
            frontier = self._list_level(level, distance)
        if low == 0:
            self._add_sources(self.source_pairs)
        return self._select_within(low, high)

    def search_undirected(self, low: int, high: int) -> NDArray[np.int64]:
        """Return the pairs whose distance is within the bounds, ascending, following edges both ways.

        Each node belongs to the branch of the source's neighbour that it was first reached through. The shortest cycle
        through a source closes where two of its branches meet.
        """
        branch = np.zeros(len(self.distance), np.int32)
        cycle = np.full(len(self.sources), high + 1, np.int64)
        self.distance[self.source_pairs] = self._source_distance
        frontier = self.source_pairs
        for distance in range(1, high + 1):
            level = _ReachedPairs(len(self.distance))
            for reached, origins in self._iter_step(frontier):
                if distance == 1:
                    # A source that is its own neighbour has an edge to itself: a cycle of length 1.
                    cycle[reached[reached == origins] // self.size] = 1
                    branch_of_step = (reached % self.size).astype(np.int32)
                else:
                    branch_of_step = branch[origins]
                old_distance = self.distance[reached]
                is_earlier = (old_distance > 0) & (old_distance != distance)
                if distance > 1:
                    # An edge within the previous level: both ends are at `distance - 1`.
                    self._note_cycles(cycle, reached[is_earlier], branch_of_step[is_earlier], branch, 2 * distance - 1)
                is_new = old_distance == 0
                new = reached[is_new]
                # A node that several branches reach in this step keeps one of them; the others then differ from it,
                # which is how `_note_cycles` sees that they met.
                branch[new] = branch_of_step[is_new]
                self._note_cycles(cycle, reached[~is_earlier], branch_of_step[~is_earlier], branch, 2 * distance)
                self.distance[new] = distance
                level.add(new)
            self._reached.add_all(level)
            if distance == high or not level.count:
                self._detect_cut_off(level, distance)
                break
            frontier = self._list_level(level, distance)
        is_closed = (cycle >= low) & (cycle <= high)
        self._add_sources(self.source_pairs if low == 0 else self.source_pairs[is_closed], max(low, 1))
        return self._select_within(low, high)

    def _add_sources(self, pairs: NDArray[np.int64], low: int = 1) -> None:
        """Add the pairs of sources that reach themselves."""
        # Any value within the bounds selects these pairs.
        self.distance[pairs] = low
        self._reached.add(pairs)

    def _detect_cut_off(self, level: "_ReachedPairs", distance: int) -> None:
        """Record whether the last level has a neighbour that was not reached; the first one found is enough."""
        cut_off = self._cut_off
        if cut_off is None or not cut_off.is_open or not level.count:
            return
        with closing(self._iter_step(self._list_level(level, distance))) as steps:
            cut_off.is_found = any(bool((self.distance[reached] == 0).any()) for reached, _ in steps)

    def _note_cycles(
        self,
        cycle: NDArray[np.int64],
        reached: NDArray[np.int64],
        branch_of_step: NDArray[np.int32],
        branch: NDArray[np.int32],
        length: int,
    ) -> None:
        """Record a cycle where a node is reached from another branch than its own; the source itself has none."""
        numbers, nodes = np.divmod(reached, self.size)
        is_closed = (branch[reached] != branch_of_step) & (nodes != self.sources[numbers])
        if self.inner is not None:
            # The cycle leads through the node where its branches meet.
            is_closed &= self.inner[nodes]
        closed = numbers[is_closed]
        cycle[closed] = np.minimum(cycle[closed], length)

    def _iter_step(self, frontier: NDArray[np.int64]) -> Generator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Yield, in chunks, the pairs one edge further, repeats included, and the pair each was reached from."""
        self.budget.check()
        frontier_nbytes = frontier.nbytes * 4
        self.budget.claim(frontier_nbytes, _BUDGET_LABEL)
        nbytes = 0
        try:
            numbers, nodes = np.divmod(frontier, self.size)
            neighbours = self.lists(nodes)
            ends = np.cumsum(neighbours.count_neighbours(nodes))
            begin, done = 0, 0
            while begin < len(frontier):
                end = max(begin + 1, int(np.searchsorted(ends, done + MAX_STEP_ROWS, side="right")))
                nbytes = int(ends[end - 1] - done) * _ROW_BYTES
                self.budget.claim(nbytes, _BUDGET_LABEL)
                gathered = neighbours.gather(nodes[begin:end])
                rows = gathered.repeat_rows() + begin
                reached = numbers[rows] * self.size + gathered.targets.astype(np.int64, copy=False)
                yield reached, frontier[rows]
                self.budget.release(nbytes)
                nbytes = 0
                begin, done = end, int(ends[end - 1])
        finally:
            # A caller may stop before the last chunk.
            self.budget.release(frontier_nbytes + nbytes)

    def _list_level(self, level: "_ReachedPairs", distance: int) -> NDArray[np.int64]:
        """Return the distinct pairs of a level, the frontier of the next step."""
        pairs = level.deduplicate()
        pairs = np.flatnonzero(self.distance == distance) if pairs is None else pairs
        # A walk that goes on leads through these nodes.
        return pairs if self.inner is None else pairs[self.inner[pairs % self.size]]

    def _select_within(self, low: int, high: int) -> NDArray[np.int64]:
        """Return the pairs whose distance is within the bounds, ascending."""
        low = max(low, 1)  # pairs that were not reached have no distance, 0
        pairs = self._reached.deduplicate()
        if pairs is None:
            return np.flatnonzero((self.distance >= low) & (self.distance <= high))
        distance = self.distance[pairs]
        return pairs[(distance >= low) & (distance <= high)]


class _ReachedPairs:
    """The reached pairs while they are few among all; more are only counted, and read from the distance table."""

    def __init__(self, table_size: int) -> None:
        self.count = 0
        self._table_size = table_size
        self.parts: list[NDArray[np.int64]] = []

    @property
    def is_sparse(self) -> bool:
        """Whether the pairs themselves are stored, and not only counted."""
        return self.count * _DENSE_DIVISOR < self._table_size

    def add(self, pairs: NDArray[np.int64]) -> None:
        """Add pairs, which may repeat."""
        self.count += len(pairs)
        self._extend([pairs])

    def add_all(self, other: "_ReachedPairs") -> None:
        """Add the pairs of another set over the same table."""
        self.count += other.count
        self._extend(other.parts)

    def _extend(self, parts: list[NDArray[np.int64]]) -> None:
        # In place: without an upper bound there may be as many levels as nodes.
        if self.is_sparse:
            self.parts.extend(parts)
        else:
            self.parts = []

    def deduplicate(self) -> NDArray[np.int64] | None:
        """Return the distinct pairs, ascending, or None if there are too many to be stored."""
        return deduplicate(np.concatenate([_NO_PAIRS, *self.parts])) if self.is_sparse else None


_NO_PAIRS = np.zeros(0, np.int64)
