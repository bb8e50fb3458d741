"""Close a cycle of the pattern: a hop between two bound variables filters rows, or joins them with its edges."""

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.bindings import Bindings, Positions
from omnigraph.engine.kernels import Check, argsort_stable, skip_check
from omnigraph.engine.operators.distinct import deduplicate
from omnigraph.engine.operators.edge_access import EdgeAccess
from omnigraph.engine.operators.neighbour_lists import AdjacencyLists, GatheredEdges
from omnigraph.engine.physical_plan import Close
from omnigraph.engine.query_budget import Budget

# (source, target) pairs of one mark table, a byte each: about the size of a processor's cache.
MAX_MARKED_CELLS = 1 << 23
# Marking pays off from this number of rows on, if the mark table holds the lists of this number of sources.
MIN_MARKED_ROWS = 1 << 14
MIN_MARKED_SOURCES = 16


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
    # Runs of rows with the same source share one marked list, so the side that is in order becomes the source.
    if not is_ascending(sources) and is_ascending(targets):
        links, sources, targets = links.reverse(), targets, sources
    if not should_mark(bindings.size, links):
        return is_joined(links.get_all_lists(), sources, targets, budget.check)
    if is_ascending(sources):
        return is_marked(links.get_all_lists(), *_split_runs(sources), targets, links.far_size, budget)
    order = argsort_stable(sources.astype(np.int64, copy=False), budget.check)
    result = np.empty(bindings.size, np.bool_)
    result[order] = is_marked(
        links.get_all_lists(), *_split_runs(sources[order]), targets[order], links.far_size, budget
    )
    return result


def find_joined_neighbours(
    near: Positions, gathered: GatheredEdges, links: EdgeAccess, budget: Budget
) -> NDArray[np.bool_]:
    """Return which gathered targets the hop joins with the `near` position of their row."""
    if not should_mark(len(gathered.targets), links) or not is_ascending(near):
        return is_joined(links.get_all_lists(), np.repeat(near, gathered.counts), gathered.targets, budget.check)
    heads, begins = _split_runs(near)
    ends = np.append(0, np.cumsum(gathered.counts))
    return is_marked(links.get_all_lists(), heads, ends[begins], gathered.targets, links.far_size, budget)


def should_mark(rows: float, links: EdgeAccess) -> bool:
    """Return whether marking pays off for this number of rows, and enough lists fit into the mark table."""
    return rows >= MIN_MARKED_ROWS and links.far_size * MIN_MARKED_SOURCES <= MAX_MARKED_CELLS


def is_ascending(positions: Positions) -> bool:
    """Return whether no position is followed by a smaller one."""
    return bool((positions[1:] >= positions[:-1]).all())


def _split_runs(positions: Positions) -> tuple[Positions, NDArray[np.int64]]:
    """Return the distinct values of ascending positions, and the bounds of their runs: one more than there are runs."""
    is_first = np.ones(len(positions), np.bool_)
    np.not_equal(positions[1:], positions[:-1], out=is_first[1:])
    begins = np.flatnonzero(is_first)
    return positions[begins], np.append(begins, len(positions))


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


def is_marked(
    neighbours: AdjacencyLists,
    heads: Positions,
    begins: NDArray[np.int64],
    targets: Positions,
    size: int,
    budget: Budget,
) -> NDArray[np.bool_]:
    """Return what `is_joined` does for runs of rows with the same source, by a mark table with one lookup per row.

    Run i has the source `heads[i]` and the rows from `begins[i]` to before `begins[i + 1]`.
    """
    sources_per_table = max(1, MAX_MARKED_CELLS // size)
    marks = np.zeros(sources_per_table * size, np.bool_)
    result = np.empty(len(targets), np.bool_)
    for group in range(0, len(heads), sources_per_table):
        budget.check()
        bounds = begins[group : group + sources_per_table + 1]
        offsets = np.arange(len(bounds) - 1) * size
        lists = neighbours.gather(heads[group : group + sources_per_table])
        cells = np.repeat(offsets, lists.counts) + lists.targets
        marks[cells] = True
        rows = slice(int(bounds[0]), int(bounds[-1]))
        result[rows] = marks[np.repeat(offsets, np.diff(bounds)) + targets[rows]]
        # Only the marked cells are cleared, so that the table can be reused for the next sources.
        marks[cells] = False
    return result


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
