"""Adjacency lists in CSR form, and the gather that every hop uses."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.bindings import Positions
from omnigraph.engine.parallel import MIN_PARALLEL_ROWS, map_parts, split_by_weight, split_rows
from omnigraph.engine.query_budget import Budget


@dataclass(frozen=True, slots=True)
class AdjacencyLists:
    """The neighbours of nodes in CSR form: list i is `targets[starts[i]:starts[i + 1]]`, ascending.

    `sources` are the nodes that have a list, ascending; None means that every position has one, under its own number.
    """

    starts: NDArray[np.int64]
    targets: Positions
    edges: Positions | None = None
    sources: Positions | None = None

    def find_lists(self, positions: Positions) -> Positions:
        """Return the numbers of the lists of these nodes, each of which must have one."""
        return positions if self.sources is None else np.searchsorted(self.sources, positions)

    def count_neighbours(self, positions: Positions) -> NDArray[np.int64]:
        """Return the number of neighbours of each of these nodes."""
        numbers = self.find_lists(positions)
        counts = self.starts.take(numbers + 1)
        counts -= self.starts.take(numbers)
        return counts

    def locate(self, positions: Positions, budget: Budget | None = None) -> "ListRanges":
        """Return where the lists of these nodes begin, and how long they are."""
        numbers = self.find_lists(positions)
        parts = [slice(None)] if budget is None else split_rows(len(numbers), budget)
        if budget is None or len(parts) == 1:
            begins = self.starts.take(numbers)
            counts = self.starts.take(numbers + 1)
            counts -= begins
            return ListRanges(numbers, begins, counts)
        begins, counts = np.empty(len(numbers), np.int64), np.empty(len(numbers), np.int64)

        def fill(part: slice) -> None:
            # With another mode than `raise`, numpy writes to `out` directly.
            self.starts.take(numbers[part], out=begins[part], mode="clip")
            self.starts.take(numbers[part] + 1, out=counts[part], mode="clip")
            counts[part] -= begins[part]

        map_parts(fill, parts, budget)
        return ListRanges(numbers, begins, counts)

    def gather(self, positions: Positions) -> "GatheredEdges":
        """Return the lists of these nodes, concatenated."""
        return self.gather_ranges(self.locate(positions))

    def gather_ranges(self, ranges: "ListRanges", budget: Budget | None = None) -> "GatheredEdges":
        """Return the lists that were located, concatenated."""
        begins, counts = ranges.begins, ranges.counts
        if len(counts) == 1:
            # A single list is a slice: nothing is copied.
            run = slice(int(begins[0]), int(begins[0] + counts[0]))
            return GatheredEdges(
                counts, _freeze(self.targets[run]), None if self.edges is None else _freeze(self.edges[run])
            )
        ends = np.cumsum(counts)
        total = int(ends[-1]) if len(ends) else 0
        if total == len(self.targets) and _is_ascending(ranges.numbers):
            # All neighbours, in the order in which they are stored.
            return GatheredEdges(
                counts, _freeze(self.targets[:]), None if self.edges is None else _freeze(self.edges[:])
            )
        if budget is None or budget.threads == 1 or total < MIN_PARALLEL_ROWS:
            at = _list_indices(begins, counts, ends)
            return GatheredEdges(counts, self.targets.take(at), None if self.edges is None else self.edges.take(at))
        targets = np.empty(total, self.targets.dtype)
        edges = None if self.edges is None else np.empty(total, self.edges.dtype)

        def fill(rows: slice) -> None:
            stop = int(ends[rows.stop - 1])
            start = int(ends[rows.start - 1]) if rows.start else 0
            at = _list_indices(begins[rows], counts[rows], ends[rows] - start)
            self.targets.take(at, out=targets[start:stop], mode="clip")
            if self.edges is not None and edges is not None:
                self.edges.take(at, out=edges[start:stop], mode="clip")

        map_parts(fill, split_by_weight(ends, -(-total // budget.threads)), budget)
        return GatheredEdges(counts, targets, edges)


@dataclass(frozen=True, slots=True)
class ListRanges:
    """The numbers of some lists, where each begins, and its length."""

    numbers: Positions
    begins: NDArray[np.int64]
    counts: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class GatheredEdges:
    """The lists of several nodes: the length of each, and the neighbours of all, concatenated."""

    counts: NDArray[np.int64]
    targets: Positions
    edges: Positions | None = None

    def repeat_rows(self) -> NDArray[np.int64]:
        """Return, for each neighbour, the number of the row whose list it is in."""
        return np.repeat(np.arange(len(self.counts)), self.counts)

    def filter(self, mask: NDArray[np.bool_]) -> "GatheredEdges":
        """Return only the neighbours that pass."""
        ends = np.cumsum(self.counts)
        prefix = np.zeros(len(mask) + 1, np.int64)
        np.cumsum(mask, out=prefix[1:])
        counts = prefix[ends] - prefix[ends - self.counts]
        return GatheredEdges(counts, self.targets[mask], None if self.edges is None else self.edges[mask])


def _list_indices(begins: NDArray[np.int64], counts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the indices of all runs, concatenated: run i has `counts[i]` consecutive ones from `begins[i]` on."""
    total = int(ends[-1]) if len(ends) else 0
    if total == len(counts) and (counts == 1).all():
        return begins
    at = np.repeat(begins - ends + counts, counts)
    at += np.arange(total)
    return at


def build_lists(
    sources: Positions, numbers: Positions, targets: Positions, edges: Positions | None, *, is_set: bool
) -> AdjacencyLists:
    """Build the lists of ascending `sources` from single neighbours; `numbers` has the list number of each.

    With `is_set`, a neighbour is in a list at most once.
    """
    order = np.lexsort((targets, numbers)) if edges is None else np.lexsort((edges, targets, numbers))
    numbers, targets = numbers[order], targets[order]
    edges = None if edges is None else edges[order]
    if is_set and len(numbers):
        is_first = np.ones(len(numbers), np.bool_)
        is_first[1:] = (numbers[1:] != numbers[:-1]) | (targets[1:] != targets[:-1])
        numbers, targets = numbers[is_first], targets[is_first]
        edges = None
    starts = np.zeros(len(sources) + 1, np.int64)
    np.cumsum(np.bincount(numbers, minlength=len(sources)), out=starts[1:])
    return AdjacencyLists(starts, targets, edges, sources)


def filter_lists(lists: AdjacencyLists, is_kept: NDArray[np.bool_], *, is_set: bool) -> AdjacencyLists:
    """Return the lists of the edges in a mask; with `is_set`, a neighbour is in a list at most once, without edges."""
    assert lists.edges is not None  # noqa: S101 - edges are selected
    mask = is_kept[lists.edges]
    if is_set and len(mask):
        numbers = np.repeat(np.arange(len(lists.starts) - 1), np.diff(lists.starts))[mask]
        targets = lists.targets[mask]
        is_first = np.ones(len(targets), np.bool_)
        is_first[1:] = (numbers[1:] != numbers[:-1]) | (targets[1:] != targets[:-1])
        mask[mask] = is_first
    ends = np.zeros(len(mask) + 1, np.int64)
    np.cumsum(mask, out=ends[1:])
    edges = None if is_set else lists.edges[mask]
    return AdjacencyLists(ends[lists.starts], lists.targets[mask], edges, lists.sources)


def merge_directions(a: AdjacencyLists, b: AdjacencyLists) -> AdjacencyLists:
    """Merge the lists of two directions, which have the same sources; a neighbour or edge in both is listed once."""
    count = len(a.starts) - 1
    numbers = np.concatenate([np.repeat(np.arange(count), np.diff(side.starts)) for side in (a, b)])
    targets = np.concatenate([a.targets, b.targets])
    if a.edges is None or b.edges is None:
        lists = build_lists(np.arange(count), numbers, targets, None, is_set=True)
        return AdjacencyLists(lists.starts, lists.targets, None, a.sources)
    edges = np.concatenate([a.edges, b.edges])
    # An edge from a node to itself is the same edge in both directions: the one of the second direction is dropped.
    is_repeated_loop = np.zeros(len(numbers), np.bool_)
    nodes = numbers if a.sources is None else a.sources[numbers]
    is_repeated_loop[len(a.targets) :] = targets[len(a.targets) :] == nodes[len(a.targets) :]
    mask = ~is_repeated_loop
    lists = build_lists(np.arange(count), numbers[mask], targets[mask], edges[mask], is_set=False)
    return AdjacencyLists(lists.starts, lists.targets, lists.edges, a.sources)


def _freeze(view: Positions) -> Positions:
    """Make a view of shared arrays read-only: all queries share them."""
    view.flags.writeable = False
    return view


def _is_ascending(numbers: Positions) -> bool:
    return bool((numbers[1:] > numbers[:-1]).all())
