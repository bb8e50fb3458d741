"""Find the cheapest walks from a node: the smallest sum of weights, then the fewest edges, then the smallest ids.

The search goes in rounds (Bellman-Ford): round k knows the smallest cost of a walk of exactly k edges to each node that
it makes cheaper. A walk that is not cheaper than a shorter one to the same node is no part of a result, because it could
be replaced by the shorter one.

Sums of floats are rounded, so a prefix of the cheapest walk need not be a cheapest walk itself: two prefixes of different
cost can lead to equal sums. So the walk is found backwards first: `limit` is the largest cost with which a node may be
reached so that the rest of the walk still leads to the smallest sum.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.bindings import Positions
from omnigraph.engine.walks.walk_graph import Neighbours, WalkGraph, find_first
from omnigraph.engine.walks.walk_list import NO_WALKS, Costs, WalkList, concat_walks

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
# A cost that no walk has.
_INFINITE_COST = np.iinfo(np.int64).max
# The bits of non-negative floats are in the order of the floats, so a search among them takes one round per bit.
_FLOAT_BITS = 63
_NODE_BYTES = 16


@dataclass(frozen=True, slots=True)
class _Round:
    """The nodes that a round made cheaper, ascending, and their new costs."""

    nodes: Ints
    costs: Costs

    def find(self, nodes: Positions) -> tuple[Ints, Mask]:
        """Return the index of each node in this round, and whether it is there."""
        if not len(self.nodes):
            return np.zeros(len(nodes), np.int64), np.zeros(len(nodes), np.bool_)
        at = np.minimum(np.searchsorted(self.nodes, nodes), len(self.nodes) - 1)
        return at, np.asarray(self.nodes[at] == nodes)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheapestSearch:
    """What to find: the cheapest walk from `start` to each of `ends`, or to every node; `high` None is no limit.

    The first edge may already be behind the walk: then `cost` is its weight. The start is found again by a cycle only.
    """

    start: int
    ends: Positions | None
    high: int | None
    cost: float | int = 0
    # Returns which nodes may be an end; None for all.
    accepts: Callable[[Positions], Mask | None] | None = None


def find_cheapest(graph: WalkGraph, search: CheapestSearch) -> WalkList:
    """Return the cheapest walk to each end that has one, with its cost."""
    nbytes = graph.size * _NODE_BYTES
    graph.budget.claim(nbytes, graph.label)
    try:
        rounds, best_costs, best_rounds = _relax(graph, search)
    finally:
        graph.budget.release(nbytes)
    ends = np.flatnonzero(best_rounds) if search.ends is None else search.ends
    ends = ends[best_rounds[ends] > 0]
    mask = None if search.accepts is None else search.accepts(ends)
    ends = ends if mask is None else ends[mask]
    walks = []
    for length in np.unique(best_rounds[ends]).tolist():
        at = ends[best_rounds[ends] == length]
        graph.budget.claim(len(at) * 8 * (2 * length + 3), f"{graph.label} with {length} edges")
        walks.append(_trace(graph, rounds[: length + 1], at, best_costs[at]))
    return concat_walks(walks) if walks else NO_WALKS


def _relax(graph: WalkGraph, search: CheapestSearch) -> tuple[list[_Round], Costs, Ints]:
    """Return the rounds, and for each node its smallest cost and the round that found it, 0 for none."""
    weights = _get_weights(graph)
    infinite = _INFINITE_COST if weights.dtype == np.int64 else np.inf
    best = np.full(graph.size, infinite, weights.dtype)
    best_rounds = np.zeros(graph.size, np.int64)
    rounds = [_Round(np.array([search.start]), np.array([search.cost], weights.dtype))]
    while search.high is None or len(rounds) <= search.high:
        last = rounds[-1]
        at = _select_open(graph, search, last, best, is_first=len(rounds) == 1)
        if not len(at):
            break
        step = graph.step(last.nodes[at])
        costs = last.costs[at][step.rows] + weights[step.edges]
        is_cheaper = costs < best[step.nodes]
        nodes, costs = step.nodes[is_cheaper].astype(np.int64), costs[is_cheaper]
        order = np.lexsort((costs, nodes))
        first = order[find_first(nodes[order])]
        best[nodes[first]] = costs[first]
        best_rounds[nodes[first]] = len(rounds)
        rounds.append(_Round(nodes[first], costs[first]))
        graph.budget.claim(len(first) * _NODE_BYTES, graph.label)
    graph.budget.release(sum(len(each.nodes) for each in rounds[1:]) * _NODE_BYTES)
    return rounds, best, best_rounds


def _select_open(graph: WalkGraph, search: CheapestSearch, last: _Round, best: Costs, *, is_first: bool) -> Ints:
    """Return the nodes of the last round from which a cheaper walk can go on."""
    at = np.arange(len(last.nodes))
    if is_first:
        return at
    inner = graph.find_inner(last.nodes)
    # A walk that returns to its start has left it at no cost before.
    at = at[last.nodes != search.start] if inner is None else at[inner & (last.nodes != search.start)]
    if search.ends is None:
        return at
    # Weights are not negative: what costs as much as the dearest end leads to none more cheaply.
    return at[last.costs[at] < best[search.ends].max(initial=0)]


def _get_weights(graph: WalkGraph) -> Costs:
    assert graph.weights is not None  # noqa: S101 - the cheapest walks have weights
    return graph.weights


# --- walks ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Limits:
    """By walk and node, ascending, the largest cost with which a walk may reach the node after one round."""

    keys: Ints
    costs: Costs
    size: int

    def find(self, walks: Ints, nodes: Positions, costs: Costs) -> Mask:
        """Return which walks may reach a node at a cost."""
        keys = walks * self.size + nodes
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.asarray((self.keys[at] == keys) & (costs <= self.costs[at]))


def _trace(graph: WalkGraph, rounds: list[_Round], ends: Ints, costs: Costs) -> WalkList:
    """Return the smallest walk to each end that has exactly the cost, over one edge for each round but the first."""
    limits = _find_limits(graph, rounds, ends, costs)
    count, length = len(ends), len(rounds) - 1
    nodes = np.empty((count, length + 1), np.int64)
    nodes[:, 0] = rounds[0].nodes[0]
    reached = np.full(count, rounds[0].costs[0], costs.dtype)
    weights = _get_weights(graph)
    for number in range(1, length + 1):
        step = graph.step(nodes[:, number - 1])
        sums = reached[step.rows] + weights[step.edges]
        is_open = limits[number].find(step.rows, step.nodes, sums)
        step, sums = step.filter(is_open), sums[is_open]
        # The smallest node of each walk, and of several edges to it the cheapest, which leaves most ways open.
        order = np.lexsort((sums, graph.nodes.rank(step.nodes), step.rows))
        first = order[find_first(step.rows[order])]
        nodes[:, number] = step.nodes[first]
        reached = sums[first]
    edges = _pick_edges(graph, nodes, rounds[0].costs[0], costs)
    lengths = np.full(count, length, np.int64)
    return WalkList(lengths, nodes.reshape(-1), edges.reshape(-1), costs)


def _find_limits(graph: WalkGraph, rounds: list[_Round], ends: Ints, costs: Costs) -> list[_Limits]:
    """Return, for each round, the nodes of the walks that lead to the ends at exactly these costs."""
    weights = _get_weights(graph)
    walks = np.arange(len(ends))
    nodes, limits = ends, costs
    found = [_Limits(walks * graph.size + nodes, limits, graph.size)]
    for number in range(len(rounds) - 2, 0, -1):
        step = graph.step(nodes, is_back=True)
        at, is_there = rounds[number].find(step.nodes)
        ahead = limits[step.rows]
        inner = graph.find_inner(step.nodes)
        is_open = is_there if inner is None else is_there & inner
        is_open &= rounds[number].costs[at] + weights[step.edges] <= ahead
        step = step.filter(is_open)
        before = _subtract(ahead[is_open], weights[step.edges])
        keys = walks[step.rows] * graph.size + step.nodes
        # The largest limit of each walk and node comes first.
        order = np.lexsort((-before, keys))
        first = order[find_first(keys[order])]
        graph.budget.claim(len(first) * 2 * _NODE_BYTES, graph.label)
        found.append(_Limits(keys[first], before[first], graph.size))
        walks, nodes = np.divmod(keys[first], graph.size)
        limits = before[first]
    graph.budget.release(sum(len(each.keys) for each in found[1:]) * 2 * _NODE_BYTES)
    # The start itself has no limit: it is the only node of its round.
    found.append(_Limits(np.zeros(0, np.int64), costs[:0], graph.size))
    return found[::-1]


def _subtract(sums: Costs, weights: Costs) -> Costs:
    """Return the largest cost for each sum that, with the weight added and rounded, does not exceed the sum."""
    if sums.dtype == np.int64:
        return sums - weights
    low = np.zeros(len(sums), np.int64)
    # Non-negative weights: the cost is at most the sum.
    high = sums.view(np.int64).copy()
    for _ in range(_FLOAT_BITS):
        middle = low + (high - low + 1) // 2
        fits = middle.view(np.float64) + weights <= sums
        low = np.where(fits, middle, low)
        high = np.where(fits, high, middle - 1)
    return low.view(np.float64)


def _pick_edges(graph: WalkGraph, nodes: Ints, start_cost: float, costs: Costs) -> Ints:
    """Return the smallest edges along the nodes of each walk that lead to exactly its cost."""
    weights = _get_weights(graph)
    count, length = len(nodes), nodes.shape[1] - 1
    steps: list[Neighbours] = []
    limits = [costs]
    for number in range(length, 0, -1):
        step = graph.list_parallel(nodes[:, number - 1], nodes[:, number])
        steps.append(step)
        ahead = limits[-1][step.rows]
        fits = weights[step.edges] <= ahead
        before = _subtract(ahead[fits], weights[step.edges][fits])
        rows = step.rows[fits]
        order = np.lexsort((-before, rows))
        limits.append(before[order[find_first(rows[order])]])
    edges = np.empty((count, length), np.int64)
    reached = np.full(count, start_cost, costs.dtype)
    for number in range(length):
        step = steps[length - 1 - number]
        sums = reached[step.rows] + weights[step.edges]
        is_open = sums <= limits[length - 1 - number][step.rows]
        step, sums = step.filter(is_open), sums[is_open]
        order = np.lexsort((graph.edges.rank(step.edges), step.rows))
        first = order[find_first(step.rows[order])]
        edges[:, number] = step.edges[first]
        reached = sums[first]
    return edges
