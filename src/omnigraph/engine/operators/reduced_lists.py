"""Reduce adjacency lists to the neighbours that pass, before many rows gather the same lists (semi-join reduction)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.bindings import Positions
from omnigraph.engine.operators.neighbour_lists import AdjacencyLists
from omnigraph.engine.query_budget import Budget

# Rows that gather fewer neighbours in all are not worth it.
MIN_GATHERED = 1 << 18
# Each list must be gathered this number of times on average: it is filtered once instead.
MIN_REPEATS = 2
# At most this share of the far table's rows may pass.
MAX_SHARE = 0.5
# Lists of other nodes are reduced too if all are at most this many times as long.
MAX_MORE = 1.5
# Memory per neighbour while lists are reduced.
_NEIGHBOUR_BYTES = 32


@dataclass(frozen=True, slots=True)
class ReducedLists:
    """The lists of some nodes with only the neighbours that pass; those of all other nodes are empty."""

    whole: AdjacencyLists
    """The lists that were reduced."""
    is_passing: NDArray[np.bool_]
    """Which neighbours pass, by position."""
    lists: AdjacencyLists
    is_covered: NDArray[np.bool_]
    """By position, whether the list of a node is there."""

    def covers(self, sources: Positions) -> bool:
        """Return whether the lists of all these nodes are there."""
        return bool(self.is_covered.take(sources).all())

    def is_same(self, whole: AdjacencyLists, is_passing: NDArray[np.bool_]) -> bool:
        """Return whether these are the same lists, reduced to the same neighbours."""
        is_same_list = self.whole.targets is whole.targets and (self.lists.edges is None) == (whole.edges is None)
        return is_same_list and np.array_equal(self.is_passing, is_passing)


class Reductions:
    """What the hops of one run have reduced, for others that lead along the same edges to the same nodes."""

    def __init__(self) -> None:
        self._reduced: list[ReducedLists] = []

    def find(self, whole: AdjacencyLists, sources: Positions, is_passing: NDArray[np.bool_]) -> ReducedLists | None:
        """Return the lists of all these nodes, reduced to these neighbours, if they are there."""
        same = (each for each in self._reduced if each.is_same(whole, is_passing) and each.covers(sources))
        return next(same, None)

    def add(self, reduced: ReducedLists) -> None:
        """Keep reduced lists; those of other nodes, which earlier chunks needed, are dropped."""
        others = (each for each in self._reduced if not each.is_same(reduced.whole, reduced.is_passing))
        self._reduced = [*others, reduced]

    def clear(self) -> None:
        """Drop all lists."""
        self._reduced = []


def is_worth_reducing(lists: AdjacencyLists, sources: Positions) -> bool:
    """Return whether rows gather the lists of these nodes often enough that reducing them first pays off."""
    if lists.sources is not None or len(sources) < 2 or sources.min() < 0:
        return False
    gathered = int(lists.count_neighbours(sources).sum())
    if gathered < MIN_GATHERED:
        return False
    distinct = np.zeros(len(lists.starts) - 1, np.bool_)
    distinct[sources] = True
    return gathered >= MIN_REPEATS * int(lists.count_neighbours(np.flatnonzero(distinct)).sum())


def reduce_lists(
    whole: AdjacencyLists, sources: Positions, is_passing: NDArray[np.bool_], budget: Budget, *, is_cyclic: bool
) -> ReducedLists:
    """Return the lists of these nodes with the neighbours that pass; `is_passing` tells which do, by position.

    If nodes and neighbours are of one type (`is_cyclic`), the lists of those that pass are there too, if that adds
    few: the hops of a cycle often lead from and to the same nodes, and then share one reduction.
    """
    is_covered = np.zeros(len(whole.starts) - 1, np.bool_)
    is_covered[sources] = True
    nodes = np.flatnonzero(is_covered)
    ranges = whole.locate(nodes, budget)
    if is_cyclic:
        either = np.flatnonzero(is_covered | is_passing)
        more = whole.locate(either, budget)
        if more.counts.sum() <= MAX_MORE * ranges.counts.sum():
            nodes, ranges = either, more
            is_covered[nodes] = True
    nbytes = int(ranges.counts.sum()) * _NEIGHBOUR_BYTES
    budget.claim(nbytes, "the neighbours that pass")
    gathered = whole.gather_ranges(ranges, budget)
    passing = gathered.filter(is_passing.take(gathered.targets))
    starts = np.zeros(len(whole.starts), np.int64)
    starts[nodes + 1] = passing.counts
    np.cumsum(starts, out=starts)
    budget.release(nbytes)
    return ReducedLists(whole, is_passing, AdjacencyLists(starts, passing.targets, passing.edges), is_covered)
