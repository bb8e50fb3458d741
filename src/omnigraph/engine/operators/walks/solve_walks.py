"""Find the walks of a hop: from nodes at one end to any node, or between given pairs of nodes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.bindings import Positions
from omnigraph.engine.operators.distinct import deduplicate
from omnigraph.engine.operators.walks.all_walks import Prune, WalkSearch, list_walks
from omnigraph.engine.operators.walks.bidirectional_search import find_pair_levels, list_smallest, pick_smallest
from omnigraph.engine.operators.walks.cheapest_walks import CheapestSearch, find_cheapest
from omnigraph.engine.operators.walks.cycles import find_cheapest_cycle, find_shortest_cycles
from omnigraph.engine.operators.walks.shortest_walks import (
    ShortestSearch,
    WantedPairs,
    find_all_shortest,
    find_shortest,
    measure_distances,
)
from omnigraph.engine.operators.walks.walk_graph import WalkGraph
from omnigraph.engine.operators.walks.walk_list import NO_WALKS, WalkList, build_walks, concat_walks
from omnigraph.query.walk_plan import WalkKind

Ints = Positions
Mask = NDArray[np.bool_]
# Walks, and the number of the node or pair that each belongs to.
NumberedWalks = tuple[WalkList, Ints]

# Up to this number of pairs, each is searched from both ends: 2 ms in a graph of 2.4 million edges, where one search of
# the whole graph takes 60 ms or more.
MAX_BIDIRECTIONAL_PAIRS = 32
# (end, node) pairs of the distances that prune the search for all walks, a byte each.
MAX_PRUNED_CELLS = 1 << 24
# The upper bound of walks without one: the edges run out before it, or the budget.
UNBOUNDED = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkBounds:
    """Which walks, and of how many edges; `high` is None without an upper bound, which only a `path` needs."""

    kind: WalkKind
    low: int
    high: int | None


def solve_from(
    graph: WalkGraph,
    bounds: WalkBounds,
    nears: Positions,
    accepts: Callable[[Positions], Mask | None],
    *,
    is_back: bool,
) -> NumberedWalks:
    """Return the walks from distinct nodes, or with `is_back` to them, whose other end `accepts` allows.

    Raises:
        QueryMemoryError, QueryTimeoutError, QueryCancelledError: The budget is exhausted, or the caller cancelled.
    """
    match bounds.kind:
        case WalkKind.PATH:
            high = UNBOUNDED if bounds.high is None else bounds.high
            search = WalkSearch(
                starts=nears, low=bounds.low, high=high, accepts=lambda _, nodes: accepts(nodes), is_back=is_back
            )
            return list_walks(graph, search)
        case WalkKind.SHORTEST | WalkKind.ALL_SHORTEST:
            shortest = ShortestSearch(origins=nears, low=bounds.low, high=bounds.high, is_back=is_back, accepts=accepts)
            find = find_shortest if bounds.kind is WalkKind.SHORTEST else find_all_shortest
            solved = find(graph, shortest)
        case WalkKind.CHEAPEST if is_back:
            return _solve_cheapest_back(graph, bounds, nears, accepts)
        case WalkKind.CHEAPEST:
            solved = _solve_cheapest_from(graph, bounds, nears, accepts)
        case _:
            assert_never(bounds.kind)
    if bounds.low and graph.is_undirected:
        mask = accepts(nears)
        at = np.arange(len(nears)) if mask is None else np.flatnonzero(mask)
        return _concat(solved, _solve_cycles(graph, bounds, nears, at))
    return solved


def solve_pairs(graph: WalkGraph, bounds: WalkBounds, starts: Positions, ends: Positions) -> NumberedWalks:
    """Return the walks between distinct pairs of nodes.

    Raises:
        QueryMemoryError, QueryTimeoutError, QueryCancelledError: The budget is exhausted, or the caller cancelled.
    """
    match bounds.kind:
        case WalkKind.PATH:
            return _list_between(graph, bounds, starts, ends)
        case WalkKind.SHORTEST | WalkKind.ALL_SHORTEST | WalkKind.CHEAPEST:
            is_loop = starts == ends
            loops = _solve_loops(graph, bounds, starts, np.flatnonzero(is_loop))
            others = np.flatnonzero(~is_loop)
            solve = _solve_cheapest_pairs if bounds.kind is WalkKind.CHEAPEST else _solve_shortest_pairs
            walks, numbers = solve(graph, bounds, starts[others], ends[others])
            return _concat(loops, (walks, others[numbers]))
        case _:
            assert_never(bounds.kind)


def _concat(*parts: NumberedWalks) -> NumberedWalks:
    filled = [part for part in parts if len(part[0])]
    if len(filled) == 1:
        return filled[0]
    numbers = np.concatenate([np.zeros(0, np.int64), *(part[1] for part in filled)])
    return concat_walks([part[0] for part in filled] or [NO_WALKS]), numbers


# --- walks from a node to itself ------------------------------------------------------------------------


def _solve_loops(graph: WalkGraph, bounds: WalkBounds, nodes: Positions, at: Ints) -> NumberedWalks:
    """Return the walks from some of the nodes to themselves."""
    if not len(at):
        return NO_WALKS, at
    if bounds.low == 0:
        return _build_empty_walks(graph, bounds, nodes[at]), at
    if graph.is_undirected:
        return _solve_cycles(graph, bounds, nodes, at)
    if bounds.kind is WalkKind.CHEAPEST:
        walks = [_find_cheapest(graph, bounds, int(node), np.array([node])) for node in nodes[at]]
        return concat_walks(walks), np.repeat(at, [len(walk) for walk in walks])
    distinct, rows = np.unique(nodes[at], return_index=True)
    wanted = WantedPairs(np.arange(len(distinct)) * graph.size + distinct, graph.size)
    search = ShortestSearch(origins=distinct, low=1, high=bounds.high, wanted=wanted)
    solved, numbers = (find_shortest if bounds.kind is WalkKind.SHORTEST else find_all_shortest)(graph, search)
    is_long = solved.lengths >= bounds.low
    return solved.take(np.flatnonzero(is_long)), at[rows[numbers[is_long]]]


def _build_empty_walks(graph: WalkGraph, bounds: WalkBounds, nodes: Positions) -> WalkList:
    costs = None
    if bounds.kind is WalkKind.CHEAPEST and graph.weights is not None:
        costs = np.zeros(len(nodes), graph.weights.dtype)
    return build_walks(nodes.astype(np.int64)[:, None], np.zeros((len(nodes), 0), np.int64), costs)


def _solve_cycles(graph: WalkGraph, bounds: WalkBounds, nodes: Positions, at: Ints) -> NumberedWalks:
    """Return the shortest or cheapest cycles through some of the nodes, of an undirected graph."""
    walks = []
    for node in nodes[at].tolist():
        graph.budget.check()
        if bounds.kind is WalkKind.CHEAPEST:
            walks.append(find_cheapest_cycle(graph, node, bounds.high))
        else:
            is_all = bounds.kind is WalkKind.ALL_SHORTEST
            walks.append(find_shortest_cycles(graph, node, bounds.low, bounds.high, is_all=is_all))
    numbers = np.repeat(at, np.array([len(walk) for walk in walks], np.int64))
    return concat_walks(walks or [NO_WALKS]), numbers


# --- path ----------------------------------------------------------------------------------------------


def _list_between(graph: WalkGraph, bounds: WalkBounds, starts: Positions, ends: Positions) -> NumberedWalks:
    search = WalkSearch(
        starts=starts,
        low=bounds.low,
        high=UNBOUNDED if bounds.high is None else bounds.high,
        accepts=lambda numbers, nodes: nodes == ends[numbers],
        prunes=None if bounds.high is None else _build_prune(graph, ends, bounds.high),
    )
    return list_walks(graph, search)


def _build_prune(graph: WalkGraph, ends: Positions, high: int) -> Prune | None:
    """Return a predicate that tells which nodes are close enough to the end of their walk, if that is cheap enough."""
    distinct, rows = np.unique(ends, return_inverse=True)
    if len(distinct) * graph.size > MAX_PRUNED_CELLS:
        return None
    distances = measure_distances(graph, distinct, high)
    first_cells = rows.reshape(-1).astype(np.int64) * graph.size
    return lambda numbers, nodes, left: distances[first_cells[numbers] + nodes] <= left


# --- shortest --------------------------------------------------------------------------------------------


def _solve_shortest_pairs(graph: WalkGraph, bounds: WalkBounds, starts: Positions, ends: Positions) -> NumberedWalks:
    is_all = bounds.kind is WalkKind.ALL_SHORTEST
    if len(starts) > MAX_BIDIRECTIONAL_PAIRS:
        return _search_shortest_pairs(graph, bounds, starts, ends)
    walks: list[WalkList] = []
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        levels = find_pair_levels(graph, start, end, bounds.high)
        if levels is None or len(levels) - 1 < bounds.low:
            walks.append(NO_WALKS)
        else:
            walks.append(list_smallest(graph, levels) if is_all else pick_smallest(graph, levels))
    return concat_walks(walks or [NO_WALKS]), np.repeat(
        np.arange(len(walks)), np.array([len(walk) for walk in walks], np.int64)
    )


def _search_shortest_pairs(graph: WalkGraph, bounds: WalkBounds, starts: Positions, ends: Positions) -> NumberedWalks:
    """Return the shortest walks of many pairs, by one search from each node of the side that has fewer."""
    is_back = len(deduplicate(ends)) < len(deduplicate(starts))
    nears, fars = (ends, starts) if is_back else (starts, ends)
    origins, rows = np.unique(nears, return_inverse=True)
    keys = rows.reshape(-1) * graph.size + fars
    order = np.argsort(keys)
    search = ShortestSearch(
        origins=origins,
        low=bounds.low,
        high=bounds.high,
        is_back=is_back,
        wanted=WantedPairs(keys[order], graph.size),
    )
    solved, numbers = (find_shortest if bounds.kind is WalkKind.SHORTEST else find_all_shortest)(graph, search)
    found_keys = numbers * graph.size + (solved.first_nodes if is_back else solved.last_nodes)
    return solved, order[np.searchsorted(keys[order], found_keys)]


# --- cheapest --------------------------------------------------------------------------------------------


def _find_cheapest(
    graph: WalkGraph,
    bounds: WalkBounds,
    start: int,
    ends: Positions | None,
    accepts: Callable[[Positions], Mask | None] | None = None,
) -> WalkList:
    return find_cheapest(graph, CheapestSearch(start=start, ends=ends, high=bounds.high, accepts=accepts))


def _solve_cheapest_from(
    graph: WalkGraph, bounds: WalkBounds, nears: Positions, accepts: Callable[[Positions], Mask | None]
) -> NumberedWalks:
    """Return the cheapest walks from each node; those of an undirected graph without cycles."""
    parts: list[WalkList] = []
    for start in nears.tolist():
        walks = _find_cheapest(graph, bounds, start, None, accepts)
        if bounds.low == 0 or graph.is_undirected:
            walks = walks.take(np.flatnonzero(walks.last_nodes != start))
        parts.append(walks)
    numbers = np.repeat(np.arange(len(nears)), np.array([len(part) for part in parts], np.int64))
    solved = concat_walks(parts or [NO_WALKS]), numbers
    if bounds.low:
        return solved
    mask = accepts(nears)
    at = np.arange(len(nears)) if mask is None else np.flatnonzero(mask)
    return _concat((_build_empty_walks(graph, bounds, nears[at]), at), solved)


def _solve_cheapest_back(
    graph: WalkGraph, bounds: WalkBounds, nears: Positions, accepts: Callable[[Positions], Mask | None]
) -> NumberedWalks:
    """Return the cheapest walks to each node: costs are added from the start, so each start is searched on its own."""
    reachable = ShortestSearch(origins=nears, low=bounds.low, high=bounds.high, is_back=True, accepts=accepts)
    solved, numbers = find_shortest(graph, reachable)
    starts, ends = solved.first_nodes, nears[numbers]
    if bounds.low and graph.is_undirected:
        # A cycle may be closed by a walk that the search from an end does not follow.
        mask = accepts(nears)
        at = np.arange(len(nears)) if mask is None else np.flatnonzero(mask)
        starts, ends = np.concatenate((starts, nears[at])), np.concatenate((ends, nears[at]))
        numbers = np.concatenate((numbers, at))
    walks, pairs = solve_pairs(graph, bounds, starts, ends)
    return walks, numbers[pairs]


def _solve_cheapest_pairs(graph: WalkGraph, bounds: WalkBounds, starts: Positions, ends: Positions) -> NumberedWalks:
    order = np.argsort(starts, kind="stable")
    cuts = np.flatnonzero(np.diff(starts[order])) + 1
    parts: list[NumberedWalks] = []
    for rows in np.split(order, cuts) if len(order) else ():
        wanted = np.sort(ends[rows])
        walks = _find_cheapest(graph, bounds, int(starts[rows[0]]), wanted)
        by_end = rows[np.argsort(ends[rows])]
        parts.append((walks, by_end[np.searchsorted(wanted, walks.last_nodes)]))
    return _concat(*parts)
