"""Several hops at once: breadth first from many nodes together, each pair at its smallest distance.

The distance of a node to itself is the length of the shortest cycle through it. Without direction, a step back over
the pair just used is no cycle: one has a single node (an edge to itself) or at least three.
"""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.bindings import Positions
from omnigraph.engine.operators.distinct import deduplicate
from omnigraph.engine.operators.neighbour_lists import AdjacencyLists
from omnigraph.engine.query_budget import Budget

Lists = Callable[[Positions], AdjacencyLists]
"""Neighbour lists, each neighbour once, of at least these positions."""

MAX_CELLS = 1 << 21
"""How many (source, node) pairs are looked after at once, a byte each (without direction five): about a cache full."""
MAX_STEP_ROWS = 1 << 19
"""How many neighbours are looked at in one go, unless a single node has more."""
_ROW_BYTES = 72
"""What looking at a neighbour takes, at most: its pair, whose neighbour it is, its branch, and what is sorted out."""
_DENSE_DIVISOR = 64
"""From this share of all pairs on, those that were reached are read off the table, and not sorted."""
_BUDGET_LABEL = "a hop over several edges"
_SOURCE_DISTANCE = 255
"""Stands for the distance of a source to itself while only a cycle can give it one; more than any hop reaches."""


def run_bfs(
    lists: Lists,
    sources: Positions,
    size: int,
    bounds: tuple[int, int],
    budget: Budget,
    *,
    is_directed: bool = True,
    cells: int = MAX_CELLS,
) -> AdjacencyLists:
    """For distinct ascending `sources`, the nodes whose distance is within the bounds."""
    at_once = max(1, cells // max(size, 1))
    parts = []
    for begin in range(0, len(sources), at_once):
        part = sources[begin : begin + at_once]
        budget.check()
        needed = len(part) * size * (1 if is_directed else 5)
        budget.claim(needed, _BUDGET_LABEL)
        try:
            search = _BfsSearch(lists, part, size, budget)
            keys = search.search_directed(*bounds) if is_directed else search.search_undirected(*bounds)
        finally:
            budget.release(needed)
        budget.claim(keys.nbytes, _BUDGET_LABEL)
        keys += begin * size
        parts.append(keys)
    total = sum(part.nbytes for part in parts)
    budget.claim(2 * total, _BUDGET_LABEL)
    keys = parts[0] if len(parts) == 1 else np.concatenate([np.zeros(0, np.int64), *parts])
    del parts
    places, targets = np.divmod(keys, max(size, 1))
    budget.release(3 * total)
    starts = np.zeros(len(sources) + 1, np.int64)
    np.cumsum(np.bincount(places, minlength=len(sources)), out=starts[1:])
    return AdjacencyLists(starts, targets, None, sources)


class _BfsSearch:
    """One search from several sources; a (source, node) pair is the number `source's place * size + node`."""

    def __init__(self, lists: Lists, sources: Positions, size: int, budget: Budget) -> None:
        self.lists, self.sources, self.size, self.budget = lists, sources.astype(np.int64), size, budget
        self.source_pairs = np.arange(len(sources)) * size + self.sources
        self.distance = np.zeros(len(sources) * size, np.uint8)
        """Of each pair, zero while it is not known."""
        self._reached = _ReachedPairs(len(self.distance))

    def search_directed(self, low: int, high: int) -> NDArray[np.int64]:
        """The pairs whose distance is within the bounds, ascending."""
        frontier = self.source_pairs  # its own distance is not known yet: a cycle may lead back
        for distance in range(1, high + 1):
            level = _ReachedPairs(len(self.distance))
            for reached, _ in self._iter_step(frontier):
                new = reached[self.distance[reached] == 0]
                self.distance[new] = distance
                level.add(new)
            self._reached.add_all(level)
            if distance == high or not level.count:
                break
            frontier = self._deduplicate(level, distance)
        return self._select_within(low, high)

    def search_undirected(self, low: int, high: int) -> NDArray[np.int64]:
        """As `directed`; the shortest cycle is where two branches of the search from a source meet."""
        branch = np.zeros(len(self.distance), np.int32)
        cycle = np.full(len(self.sources), high + 1, np.int64)
        self.distance[self.source_pairs] = _SOURCE_DISTANCE
        frontier = self.source_pairs
        for distance in range(1, high + 1):
            level = _ReachedPairs(len(self.distance))
            for reached, origins in self._iter_step(frontier):
                if distance == 1:
                    cycle[reached[reached == origins] // self.size] = 1
                    of = (reached % self.size).astype(np.int32)
                else:
                    of = branch[origins]
                known = self.distance[reached]
                is_earlier = (known > 0) & (known != distance)
                if distance > 1:
                    self._note_cycles(cycle, reached[is_earlier], of[is_earlier], branch, 2 * distance - 1)
                is_new = known == 0
                new = reached[is_new]
                branch[new] = of[is_new]
                self._note_cycles(cycle, reached[~is_earlier], of[~is_earlier], branch, 2 * distance)
                self.distance[new] = distance
                level.add(new)
            self._reached.add_all(level)
            if distance == high or not level.count:
                break
            frontier = self._deduplicate(level, distance)
        closed = self.source_pairs[(cycle >= low) & (cycle <= high)]
        self.distance[closed] = low
        self._reached.add(closed)
        return self._select_within(low, high)

    def _note_cycles(
        self,
        cycle: NDArray[np.int64],
        reached: NDArray[np.int64],
        of: NDArray[np.int32],
        branch: NDArray[np.int32],
        length: int,
    ) -> None:
        """Note a cycle where a node is reached from a branch that it is not of; the source itself is of none."""
        places, nodes = np.divmod(reached, self.size)
        met = places[(branch[reached] != of) & (nodes != self.sources[places])]
        cycle[met] = np.minimum(cycle[met], length)

    def _iter_step(self, frontier: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """The pairs one edge on, maybe several times, and from which pair each was reached; some at a time."""
        self.budget.check()
        held = frontier.nbytes * 4
        self.budget.claim(held, _BUDGET_LABEL)
        places, nodes = np.divmod(frontier, self.size)
        neighbours = self.lists(nodes)
        ends = np.cumsum(neighbours.count_neighbours(nodes))
        begin, done = 0, 0
        while begin < len(frontier):
            end = max(begin + 1, int(np.searchsorted(ends, done + MAX_STEP_ROWS, side="right")))
            needed = int(ends[end - 1] - done) * _ROW_BYTES
            self.budget.claim(needed, _BUDGET_LABEL)
            gathered = neighbours.gather(nodes[begin:end])
            rows = gathered.repeat_rows() + begin
            reached = places[rows] * self.size + gathered.targets.astype(np.int64, copy=False)
            yield reached, frontier[rows]
            self.budget.release(needed)
            begin, done = end, int(ends[end - 1])
        self.budget.release(held)

    def _deduplicate(self, level: "_ReachedPairs", distance: int) -> NDArray[np.int64]:
        found = level.deduplicate()
        return np.flatnonzero(self.distance == distance) if found is None else found

    def _select_within(self, low: int, high: int) -> NDArray[np.int64]:
        """The pairs whose distance is within the bounds, ascending."""
        pairs = self._reached.deduplicate()
        if pairs is None:
            return np.flatnonzero((self.distance >= low) & (self.distance <= high))
        known = self.distance[pairs]
        return pairs[(known >= low) & (known <= high)]


class _ReachedPairs:
    """Pairs as long as they are few of all; more are read off the table."""

    def __init__(self, of_all: int) -> None:
        self.count, self._of_all = 0, of_all
        self.parts: list[NDArray[np.int64]] = []

    @property
    def is_sparse(self) -> bool:
        """Whether they are kept, and not only counted."""
        return self.count * _DENSE_DIVISOR < self._of_all

    def add(self, pairs: NDArray[np.int64]) -> None:
        """Some more, maybe several times."""
        self.count += len(pairs)
        self.parts = [*self.parts, pairs] if self.is_sparse else []

    def add_all(self, others: "_ReachedPairs") -> None:
        """Those of another set, of the same table."""
        self.count += others.count
        self.parts = [*self.parts, *others.parts] if self.is_sparse else []

    def deduplicate(self) -> NDArray[np.int64] | None:
        """The pairs, ascending; None when they are too many."""
        return deduplicate(np.concatenate([_NO_PAIRS, *self.parts])) if self.is_sparse else None


_NO_PAIRS = np.zeros(0, np.int64)
