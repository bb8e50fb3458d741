"""Several hops at once: breadth first from many nodes together, each pair at its smallest distance.

The distance of a node to itself is the length of the shortest cycle through it. Without direction, a step back over
the pair just used is no cycle: one has a single node (an edge to itself) or at least three.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.bindings import Positions
from omnigraph.engine.budget import Budget
from omnigraph.engine.operators.distinct import distinct
from omnigraph.engine.operators.neighbours import Neighbours

Lists = Callable[[Positions], Neighbours]
"""Neighbour lists, each neighbour once, of at least these positions."""

CELLS = 1 << 21
"""How many (source, node) pairs are looked after at once, a byte each (without direction five): about a cache full."""
_DENSE = 64
"""From this share of all pairs on, those that were reached are read off the table, and not sorted."""
_AT_START = 255
"""Stands for the distance of a source to itself while only a cycle can give it one; more than any hop reaches."""


def reach(
    lists: Lists,
    sources: Positions,
    size: int,
    bounds: tuple[int, int],
    budget: Budget,
    *,
    is_directed: bool = True,
    cells: int = CELLS,
) -> Neighbours:
    """For distinct ascending `sources`, the nodes whose distance is within the bounds."""
    at_once = max(1, cells // max(size, 1))
    parts = []
    for begin in range(0, len(sources), at_once):
        part = sources[begin : begin + at_once]
        budget.check()
        needed = len(part) * size * (1 if is_directed else 5)
        budget.claim(needed, "a hop over several edges")
        try:
            search = _Search(lists, part, size, budget)
            keys = search.directed(*bounds) if is_directed else search.undirected(*bounds)
        finally:
            budget.release(needed)
        budget.claim(keys.nbytes, "a hop over several edges")
        parts.append(keys + begin * size)
    keys = parts[0] if len(parts) == 1 else np.concatenate([np.zeros(0, np.int64), *parts])
    places, targets = np.divmod(keys, max(size, 1))
    budget.release(keys.nbytes)
    starts = np.zeros(len(sources) + 1, np.int64)
    np.cumsum(np.bincount(places, minlength=len(sources)), out=starts[1:])
    return Neighbours(starts, targets, None, sources)


class _Search:
    """One search from several sources; a (source, node) pair is the number `source's place * size + node`."""

    def __init__(self, lists: Lists, sources: Positions, size: int, budget: Budget) -> None:
        self.lists, self.sources, self.size, self.budget = lists, sources.astype(np.int64), size, budget
        self.own = np.arange(len(sources)) * size + self.sources
        self.distance = np.zeros(len(sources) * size, np.uint8)
        """Of each pair, zero while it is not known."""
        self._noted: list[NDArray[np.int64]] = []

    def directed(self, low: int, high: int) -> NDArray[np.int64]:
        """The pairs whose distance is within the bounds, ascending."""
        frontier = self.own  # its own distance is not known yet: a cycle may lead back
        for distance in range(1, high + 1):
            reached, _ = self._step(frontier)
            new = reached[self.distance[reached] == 0]
            self._note(new, distance)
            if distance == high or not len(new):
                break
            frontier = self._each_once(new, distance)
        return self._within(low, high)

    def undirected(self, low: int, high: int) -> NDArray[np.int64]:
        """As `directed`; the shortest cycle is where two branches of the search from a source meet."""
        branch = np.zeros(len(self.distance), np.int32)
        cycle = np.full(len(self.sources), high + 1, np.int64)
        self.distance[self.own] = _AT_START
        frontier = self.own
        for distance in range(1, high + 1):
            reached, rows = self._step(frontier)
            if distance == 1:
                cycle[reached[reached == frontier[rows]] // self.size] = 1
                of = (reached % self.size).astype(np.int32)
            else:
                of = branch[frontier[rows]]
            is_seen = self.distance[reached] > 0
            if distance > 1:
                self._meet(cycle, reached[is_seen], of[is_seen], branch, 2 * distance - 1)
            new, of = reached[~is_seen], of[~is_seen]
            branch[new] = of
            self._meet(cycle, new, of, branch, 2 * distance)
            self._note(new, distance)
            if distance == high or not len(new):
                break
            frontier = self._each_once(new, distance)
        closed = self.own[(cycle >= low) & (cycle <= high)]
        self._note(closed, low)
        return self._within(low, high)

    def _meet(
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

    def _step(self, frontier: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The pairs one edge on, maybe several times, and from which row of the frontier each was reached."""
        self.budget.check()
        places, nodes = np.divmod(frontier, self.size)
        neighbours = self.lists(nodes)
        needed = int(neighbours.counts(nodes).sum()) * 24
        self.budget.claim(needed, "a hop over several edges")
        gathered = neighbours.gather(nodes)
        rows = gathered.rows()
        reached = places[rows] * self.size + gathered.targets.astype(np.int64, copy=False)
        self.budget.release(needed)
        return reached, rows

    def _note(self, pairs: NDArray[np.int64], distance: int) -> None:
        self.distance[pairs] = distance
        self._noted.append(pairs)

    def _each_once(self, pairs: NDArray[np.int64], distance: int) -> NDArray[np.int64]:
        if len(pairs) * _DENSE < len(self.distance):
            return distinct(pairs)
        return np.flatnonzero(self.distance == distance)

    def _within(self, low: int, high: int) -> NDArray[np.int64]:
        """The pairs whose distance is within the bounds, ascending."""
        if sum(map(len, self._noted)) * _DENSE < len(self.distance):
            pairs = distinct(np.concatenate(self._noted))
            known = self.distance[pairs]
            return pairs[(known >= low) & (known <= high)]
        return np.flatnonzero((self.distance >= low) & (self.distance <= high))
