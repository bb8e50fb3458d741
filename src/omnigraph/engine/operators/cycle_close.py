"""Close a cycle of the pattern: a hop between two bound variables filters rows, or joins them with its edges."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.bindings import Bindings, Positions
from omnigraph.engine.kernels import Check, search_sorted, skip_check
from omnigraph.engine.operators.distinct import deduplicate, find_distinct_positions
from omnigraph.engine.operators.edge_access import EdgeAccess
from omnigraph.engine.operators.neighbour_lists import AdjacencyLists, GatheredEdges, ListRanges
from omnigraph.engine.parallel import map_parts, split_chunks
from omnigraph.engine.physical_plan import Close
from omnigraph.engine.query_budget import Budget

# Below this number of rows, a binary search of each is as fast as marking the lists.
MIN_MARKED_ROWS = 1 << 14
# Lists are marked if they have at most this many neighbours for each row: marking one takes 7 ns, a search about 100.
MAX_MARKED_PER_ROW = 4
# The mark table has at least this many cells per neighbour, a byte each: one row in as many passes by chance, and is
# searched. Within a range of sizes: the smallest fits into a processor's cache, the largest takes 64 MiB.
_CELLS_PER_NEIGHBOUR = 16
_MIN_CELL_BITS, _MAX_CELL_BITS = 16, 26
# The shorter lists of all rows are taken if those of one side have at least this many times as many neighbours.
MIN_SHORTER = 2
# Memory per neighbour of a list while it is looked up in another one.
_LISTED_BYTES = 16
# 2^64 divided by the golden ratio: the usual odd multiplier of Fibonacci hashing.
_MIX_FACTOR = np.uint64(0x9E3779B97F4A7C15)


def close_cycle(step: Close, bindings: Bindings, links: EdgeAccess, budget: Budget) -> Bindings:
    """Return the rows whose two ends the hop joins, once per edge if the step reads its edges."""
    sources, targets = bindings.columns[step.source], bindings.columns[step.target]
    if not bindings.size:
        return _select_columns(bindings, step.keep)
    budget.claim(bindings.size * 32, f"joining ${step.source} and ${step.target} by {step.link.edge}")
    try:
        if not step.link.reads_edges:
            return _select_columns(bindings.take(_find_joined(step, bindings, links, budget)), step.keep)
        neighbours = links.get_lists(sources)
        begins = search_lists(neighbours, sources, targets, budget.check)
        counts = search_lists(neighbours, sources, targets, budget.check, past=True) - begins
        runs = _expand_runs(begins, counts)
        assert neighbours.edges is not None  # noqa: S101 - the hop reads its edges
        gathered = links.filter_edges(GatheredEdges(counts, neighbours.targets[runs], neighbours.edges[runs]))
        joined = bindings.take(gathered.repeat_rows())
        edge_variable = step.link.edge_variable
        if edge_variable is not None and gathered.edges is not None:
            joined = joined.with_column(edge_variable, gathered.edges)
        return _select_columns(joined, step.keep)
    finally:
        budget.release(bindings.size * 32)


def _find_joined(step: Close, bindings: Bindings, links: EdgeAccess, budget: Budget) -> NDArray[np.bool_]:
    """Return, row by row, whether the hop joins the two ends, however many edges there are."""
    sources, targets = bindings.columns[step.source], bindings.columns[step.target]
    if not links.is_in_memory:
        # Edges are looked up from the side with fewer distinct nodes.
        if len(deduplicate(targets)) < len(deduplicate(sources)):
            links, sources, targets = links.reverse(), targets, sources
        return is_joined(links.get_lists(sources), sources, targets, budget.check)
    return find_joined(links.get_all_lists(), sources, None, targets, budget)


@dataclass(frozen=True, slots=True)
class CommonNeighbours:
    """The neighbours that two lists of a row have in common, by row number."""

    rows: NDArray[np.int64]
    targets: Positions


def intersect_lists(
    first: tuple[AdjacencyLists, Positions], second: tuple[AdjacencyLists, Positions], budget: Budget
) -> CommonNeighbours:
    """Return the nodes that are in both lists of a row: those of its node in `first` and of its node in `second`.

    Of each row the shorter list is looked up in the longer one, where that saves much in all. Lists have each
    neighbour once.
    """
    ranges = first[0].locate(first[1], budget)
    total = int(ranges.counts.sum())
    # Lists of about one neighbour can't be much longer than others.
    if total <= len(first[1]) * MIN_SHORTER:
        return _intersect(first, second, ranges, None, budget)
    others = second[0].count_neighbours(second[1])
    if int(np.minimum(ranges.counts, others).sum()) * MIN_SHORTER > total:
        return _intersect(first, second, ranges, None, budget)
    is_second = others < ranges.counts
    parts = [
        _intersect(listed, searched, listed[0].locate(listed[1][rows], budget), rows, budget)
        for listed, searched, rows in (
            (first, second, np.flatnonzero(~is_second)),
            (second, first, np.flatnonzero(is_second)),
        )
    ]
    rows = np.concatenate([part.rows for part in parts])
    # In the order in which one side alone would have found them.
    order = np.argsort(rows, kind="stable")
    return CommonNeighbours(rows[order], np.concatenate([part.targets for part in parts])[order])


def _intersect(
    listed: tuple[AdjacencyLists, Positions],
    searched: tuple[AdjacencyLists, Positions],
    ranges: ListRanges,
    rows: NDArray[np.int64] | None,
    budget: Budget,
) -> CommonNeighbours:
    """Return the common neighbours of some rows, or of all, by looking up all of one list in the other one."""
    nbytes = int(ranges.counts.sum()) * _LISTED_BYTES
    budget.claim(nbytes, "the neighbours that lists have in common")
    gathered = listed[0].gather_ranges(ranges, budget)
    others = searched[1] if rows is None else searched[1][rows]
    joined = np.flatnonzero(find_joined(searched[0], others, gathered.counts, gathered.targets, budget))
    # Row numbers of the joined neighbours only: repeating them for all would build what is dropped.
    numbers = search_sorted(np.cumsum(gathered.counts), joined, "right", budget.check)
    targets = gathered.targets[joined]
    budget.release(nbytes)
    return CommonNeighbours(numbers if rows is None else rows[numbers], targets)


def find_joined(
    neighbours: AdjacencyLists,
    sources: Positions,
    counts: NDArray[np.int64] | None,
    targets: Positions,
    budget: Budget,
) -> NDArray[np.bool_]:
    """Return which targets are in the list of their source: the first has the first `counts[0]` of them, and so on.

    Without counts, each source has one target. The neighbours of all sources are marked in a table at a hash of both
    ends, which rows look up: those that find a mark are searched for, as different pairs may share a cell.
    """
    rows = len(targets)
    heads = sources if counts is None else sources[counts > 0]
    if rows < MIN_MARKED_ROWS or not len(heads) or heads.min() < 0:
        return is_joined(neighbours, sources if counts is None else np.repeat(sources, counts), targets, budget.check)
    heads = (
        find_distinct_positions(heads, len(neighbours.starts) - 1) if neighbours.sources is None else deduplicate(heads)
    )
    size = int(neighbours.count_neighbours(heads).sum())
    if size > rows * MAX_MARKED_PER_ROW:
        return is_joined(neighbours, sources if counts is None else np.repeat(sources, counts), targets, budget.check)
    bits = min(max((_CELLS_PER_NEIGHBOUR * size).bit_length(), _MIN_CELL_BITS), _MAX_CELL_BITS)
    nbytes = (1 << bits) + 24 * size + 9 * rows
    budget.claim(nbytes, f"marking {size:,} neighbours")
    marks = _mark_pairs(neighbours, heads, bits)
    ends = np.arange(1, rows + 1) if counts is None else np.cumsum(counts)
    offsets = _hash_sources(sources, bits)
    result = np.zeros(rows, np.bool_)

    def look_up(part: slice) -> None:
        # The sources of a part of the targets; the first and last one may belong to other parts too.
        first, last = (int(np.searchsorted(ends, at, side="right")) for at in (part.start, part.stop - 1))
        bounds = np.clip(ends[first : last + 1], part.start, part.stop)
        lengths = bounds - np.append(part.start, bounds[:-1])
        cells = np.repeat(offsets[first : last + 1], lengths)
        cells += targets[part]
        cells &= (1 << bits) - 1
        found = np.flatnonzero(marks.take(cells))
        if len(found):
            at = first + np.searchsorted(np.cumsum(lengths), found, side="right")
            result[part.start + found] = is_joined(neighbours, sources[at], targets[part][found], budget.check)

    map_parts(look_up, split_chunks(rows, budget), budget)
    budget.release(nbytes)
    return result


def _mark_pairs(neighbours: AdjacencyLists, heads: Positions, bits: int) -> NDArray[np.bool_]:
    marks = np.zeros(1 << bits, np.bool_)
    lists = neighbours.gather(heads)
    cells = np.repeat(_hash_sources(heads, bits), lists.counts)
    cells += lists.targets
    cells &= (1 << bits) - 1
    marks[cells] = True
    return marks


def _hash_sources(sources: Positions, bits: int) -> NDArray[np.int64]:
    return ((sources.astype(np.uint64) * _MIX_FACTOR) >> np.uint64(64 - bits)).astype(np.int64)


def is_joined(
    neighbours: AdjacencyLists, sources: Positions, targets: Positions, check: Check = skip_check
) -> NDArray[np.bool_]:
    """Return, row by row, whether the target is in the source's list, by binary search."""
    if not len(neighbours.targets):
        return np.zeros(len(sources), np.bool_)
    at = search_lists(neighbours, sources, targets, check)
    ends = neighbours.starts[neighbours.find_lists(sources) + 1]
    is_inside = at < ends
    # A target larger than all of the last list is searched past the end of the array: any valid index will do there.
    is_inside &= neighbours.targets[np.minimum(at, len(neighbours.targets) - 1)] == targets
    return is_inside


def search_lists(
    neighbours: AdjacencyLists, sources: Positions, targets: Positions, check: Check, *, past: bool = False
) -> NDArray[np.int64]:
    """Return where the target is in the source's list, or would be inserted; with `past`, after its last occurrence."""
    numbers = neighbours.find_lists(sources)
    low, high = neighbours.starts[numbers], neighbours.starts[numbers + 1]
    last = max(len(neighbours.targets) - 1, 0)
    # A binary search in all lists at the same time: the longest list decides the number of rounds.
    for _ in range(int((high - low).max(initial=0)).bit_length()):
        check()
        middle = (low + high) >> 1
        candidates = neighbours.targets[np.minimum(middle, last)]
        goes_up = (candidates <= targets if past else candidates < targets) & (low < high)
        low = np.where(goes_up, middle + 1, low)
        high = np.where(goes_up, high, middle)
    return low


def _expand_runs(begins: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the indices of all runs, concatenated; run i has `counts[i]` indices from `begins[i]` on."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(begins - ends + counts, counts) + np.arange(total)


def _select_columns(bindings: Bindings, keep: tuple[str, ...]) -> Bindings:
    columns = {name: column for name, column in bindings.columns.items() if name in keep}
    return Bindings(columns, bindings.size, bindings.multiplicity)
