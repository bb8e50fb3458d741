"""A hop between two variables that are both bound: a condition, or with an edge variable a join with its edges."""

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.bindings import Bindings, Positions
from omnigraph.engine.kernels import Check, argsort_stable, skip_check
from omnigraph.engine.operators.distinct import deduplicate
from omnigraph.engine.operators.edge_access import EdgeAccess
from omnigraph.engine.operators.neighbour_lists import AdjacencyLists, GatheredEdges
from omnigraph.engine.physical_plan import Close
from omnigraph.engine.query_budget import Budget

MAX_MARKED_CELLS = 1 << 23
"""How many (source, target) pairs are marked at once, a byte each: about what fits into a processor's cache."""
MIN_MARKED_ROWS, MIN_MARKED_SOURCES = 1 << 14, 16
"""Marking pays from so many rows on, and for tables of which so many lists can be marked at once."""


def close_cycle(step: Close, bindings: Bindings, links: EdgeAccess, budget: Budget) -> Bindings:
    """The rows whose ends the hop joins; once for each edge if edges count."""
    sources, targets = bindings.columns[step.source], bindings.columns[step.target]
    if not bindings.size:
        return _select_columns(bindings, step.keep)
    budget.claim(bindings.size * 32, f"joining ${step.source} and ${step.target} by {step.link.edge}")
    try:
        if not step.link.reads_edges:
            return _select_columns(bindings.take(_find_joined(step, bindings, links, budget)), step.keep)
        neighbours = links.get_lists(sources)
        begins = _search_lists(neighbours, sources, targets, budget.check)
        counts = _search_lists(neighbours, sources, targets, budget.check, past=True) - begins
        runs = _expand_runs(begins, counts)
        assert neighbours.edges is not None  # noqa: S101 - the hop reads its edges
        found = links.filter_edges(GatheredEdges(counts, neighbours.targets[runs], neighbours.edges[runs]))
        taken = bindings.take(found.repeat_rows())
        edge_variable = step.link.edge_variable
        if edge_variable is not None and found.edges is not None:
            taken = taken.with_column(edge_variable, found.edges)
        return _select_columns(taken, step.keep)
    finally:
        budget.release(bindings.size * 32)


def _find_joined(step: Close, bindings: Bindings, links: EdgeAccess, budget: Budget) -> NDArray[np.bool_]:
    """Row by row whether the hop joins the two ends, however many edges there are."""
    sources, targets = bindings.columns[step.source], bindings.columns[step.target]
    if not links.is_in_memory:
        if len(deduplicate(targets)) < len(deduplicate(sources)):
            links, sources, targets = links.reverse(), targets, sources
        return is_joined(links.get_lists(sources), sources, targets, budget.check)
    if not is_ascending(sources) and is_ascending(targets):
        links, sources, targets = links.reverse(), targets, sources
    if not should_mark(bindings.size, links):
        return is_joined(links.get_all_lists(), sources, targets, budget.check)
    if is_ascending(sources):
        return is_marked(links.get_all_lists(), *_split_runs(sources), targets, links.far_size, budget)
    order = argsort_stable(sources.astype(np.int64, copy=False), budget.check)
    found = np.empty(bindings.size, np.bool_)
    found[order] = is_marked(
        links.get_all_lists(), *_split_runs(sources[order]), targets[order], links.far_size, budget
    )
    return found


def find_joined_neighbours(
    near: Positions, gathered: GatheredEdges, links: EdgeAccess, budget: Budget
) -> NDArray[np.bool_]:
    """As a close of each gathered target with what its row has: before the rows are made that it would drop."""
    if not should_mark(len(gathered.targets), links) or not is_ascending(near):
        return is_joined(links.get_all_lists(), np.repeat(near, gathered.counts), gathered.targets, budget.check)
    heads, begins = _split_runs(near)
    ends = np.append(0, np.cumsum(gathered.counts))
    return is_marked(links.get_all_lists(), heads, ends[begins], gathered.targets, links.far_size, budget)


def should_mark(rows: float, links: EdgeAccess) -> bool:
    """Whether so many rows are worth it, and enough lists can be marked at once."""
    return rows >= MIN_MARKED_ROWS and links.far_size * MIN_MARKED_SOURCES <= MAX_MARKED_CELLS


def is_ascending(positions: Positions) -> bool:
    """Whether no position is followed by a smaller one."""
    return bool((positions[1:] >= positions[:-1]).all())


def _split_runs(positions: Positions) -> tuple[Positions, NDArray[np.int64]]:
    """The distinct ones of ascending positions, and where the run of each begins; at last, where the last one ends."""
    is_first = np.ones(len(positions), np.bool_)
    np.not_equal(positions[1:], positions[:-1], out=is_first[1:])
    begins = np.flatnonzero(is_first)
    return positions[begins], np.append(begins, len(positions))


def is_joined(
    neighbours: AdjacencyLists, sources: Positions, targets: Positions, check: Check = skip_check
) -> NDArray[np.bool_]:
    """Row by row whether the target is in the source's list, by looking it up there."""
    if not len(neighbours.targets):
        return np.zeros(len(sources), np.bool_)
    at = _search_lists(neighbours, sources, targets, check)
    ends = neighbours.starts[neighbours.find_lists(sources) + 1]
    is_inside = at < ends
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
    """As `is_joined` for runs of rows with one source each: lists are marked in a table, and rows look there once.

    Run i has the source `heads[i]` and the rows from `begins[i]` to the next one's.
    """
    at_once = max(1, MAX_MARKED_CELLS // size)
    marks = np.zeros(at_once * size, np.bool_)
    found = np.empty(len(targets), np.bool_)
    for group in range(0, len(heads), at_once):
        budget.check()
        edges = begins[group : group + at_once + 1]
        offsets = np.arange(len(edges) - 1) * size
        lists = neighbours.gather(heads[group : group + at_once])
        cells = np.repeat(offsets, lists.counts) + lists.targets
        marks[cells] = True
        rows = slice(int(edges[0]), int(edges[-1]))
        found[rows] = marks[np.repeat(offsets, np.diff(edges)) + targets[rows]]
        marks[cells] = False
    return found


def _search_lists(
    neighbours: AdjacencyLists, sources: Positions, targets: Positions, check: Check, *, past: bool = False
) -> NDArray[np.int64]:
    """Where in the source's list the target stands, or would; with `past`, behind its last occurrence."""
    places = neighbours.find_lists(sources)
    low, high = neighbours.starts[places], neighbours.starts[places + 1]
    last = max(len(neighbours.targets) - 1, 0)
    for _ in range(int((high - low).max(initial=0)).bit_length()):
        check()
        middle = (low + high) >> 1
        there = neighbours.targets[np.minimum(middle, last)]
        goes_up = (there <= targets if past else there < targets) & (low < high)
        low = np.where(goes_up, middle + 1, low)
        high = np.where(goes_up, high, middle)
    return low


def _expand_runs(begins: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The numbers of all runs, one behind the other."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(begins - ends + counts, counts) + np.arange(total)


def _select_columns(bindings: Bindings, keep: tuple[str, ...]) -> Bindings:
    columns = {name: column for name, column in bindings.columns.items() if name in keep}
    return Bindings(columns, bindings.size, bindings.multiplicity)
