"""Find the cheapest walks from a node: the smallest sum of weights, then the fewest edges, then the smallest ids.

The search goes in rounds (Bellman-Ford): round k knows the smallest cost of a walk of exactly k edges to each node that
it makes cheaper. A walk that is not cheaper than a shorter one to the same node is no part of a result, because it
could be replaced by the shorter one.

Sums of floats are rounded, so a prefix of the cheapest walk need not be a cheapest walk itself: two prefixes of
different cost can lead to equal sums. So the walk is found backwards first: a limit is the largest cost with which a
node may be reached so that the rest of the walk still leads to the smallest sum.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.bindings import Positions
from omnigraph.engine.operators.walks.walk_graph import WalkGraph, find_first
from omnigraph.engine.operators.walks.walk_list import NO_WALKS, Costs, WalkList

Ints = Positions
Mask = NDArray[np.bool_]
# A cost that no walk has.
_INFINITE_COST = np.iinfo(np.int64).max
# An edge on a walk in progress: its walk, its ends, its position, its weight and the limit of its far end.
_EDGE_BYTES = 48
_NODE_BYTES = 16


@dataclass(frozen=True, slots=True)
class RelaxationRound:
    """The nodes that a round made cheaper, ascending, and their new costs."""

    nodes: Ints
    costs: Costs


@dataclass(frozen=True, slots=True, kw_only=True)
class CheapestSearch:
    """What to find: the cheapest walk from `start` to each of `ends`, or to every node; `high` None is no limit.

    A walk may have taken an edge before: then `cost` is its weight. The start is found again by a cycle only.
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
    lengths = best_rounds[ends]
    graph.budget.claim(int(8 * (2 * lengths.sum() + 3 * len(ends))), graph.label)
    return _trace(graph, rounds, ends, best_costs[ends], lengths)


def _relax(graph: WalkGraph, search: CheapestSearch) -> tuple[list[RelaxationRound], Costs, Ints]:
    """Return the rounds, and for each node its smallest cost and the round that found it, 0 for none."""
    weights = _get_weights(graph)
    infinite = _INFINITE_COST if weights.dtype == np.int64 else np.inf
    best = np.full(graph.size, infinite, weights.dtype)
    best_rounds = np.zeros(graph.size, np.int64)
    rounds = [RelaxationRound(np.array([search.start]), np.array([search.cost], weights.dtype))]
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
        rounds.append(RelaxationRound(nodes[first], costs[first]))
        graph.budget.claim(len(first) * _NODE_BYTES, graph.label)
    graph.budget.release(sum(len(each.nodes) for each in rounds[1:]) * _NODE_BYTES)
    return rounds, best, best_rounds


def _select_open(
    graph: WalkGraph, search: CheapestSearch, last: RelaxationRound, best: Costs, *, is_first: bool
) -> Ints:
    """Return the nodes of the last round from which a cheaper walk can go on."""
    at = np.arange(len(last.nodes))
    if is_first:
        return at
    inner = graph.find_inner(last.nodes)
    # A walk that returns to its start has left it at no cost before.
    at = at[last.nodes != search.start] if inner is None else at[inner & (last.nodes != search.start)]
    if search.ends is None:
        return np.asarray(at, np.int64)
    # Weights are not negative: what costs as much as the dearest end leads to none more cheaply.
    return np.asarray(at[last.costs[at] < best[search.ends].max(initial=0)], np.int64)


def _get_weights(graph: WalkGraph) -> Costs:
    assert graph.weights is not None  # noqa: S101 - the cheapest walks have weights
    return graph.weights


# --- walks ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _OpenEdges:
    """The edges of one round that lead on to the ends of walks at their smallest costs.

    `limits` are the largest costs with which the walk may reach the far end of an edge.
    """

    walks: Ints
    sources: Ints
    targets: Ints
    edges: Ints
    limits: Costs

    def take(self, at: Ints | Mask) -> "_OpenEdges":
        """Return some of the edges."""
        return _OpenEdges(self.walks[at], self.sources[at], self.targets[at], self.edges[at], self.limits[at])


def _trace(graph: WalkGraph, rounds: list[RelaxationRound], ends: Ints, costs: Costs, lengths: Ints) -> WalkList:
    """Return the smallest walk to each end that has exactly its cost and length."""
    if not len(ends):
        return NO_WALKS
    layers = _find_open_edges(graph, rounds, ends, costs, lengths)
    weights = _get_weights(graph)
    walks = WalkList(
        lengths, np.empty(int(lengths.sum()) + len(ends), np.int64), np.empty(int(lengths.sum()), np.int64), costs
    )
    starts = walks.node_starts[:-1]
    current = np.full(len(ends), rounds[0].nodes[0])
    reached = np.full(len(ends), rounds[0].costs[0], costs.dtype)
    walks.nodes[starts] = current
    for number, layer in enumerate(layers, start=1):
        graph.budget.check()
        sums = reached[layer.walks] + weights[layer.edges]
        is_open = (layer.sources == current[layer.walks]) & (sums <= layer.limits)
        at = np.flatnonzero(is_open)
        # The smallest node of each walk, and of several edges to it the cheapest, which leaves most ways open.
        order = at[np.lexsort((sums[at], graph.nodes.rank(layer.targets[at]), layer.walks[at]))]
        first = order[find_first(layer.walks[order])]
        moved = layer.walks[first]
        current[moved] = layer.targets[first]
        reached[moved] = sums[first]
        walks.nodes[starts[moved] + number] = layer.targets[first]
    _pick_edges(graph, layers, walks, rounds[0].costs[0])
    graph.budget.release(sum(len(layer.walks) for layer in layers) * _EDGE_BYTES)
    return walks


def _find_open_edges(
    graph: WalkGraph, rounds: list[RelaxationRound], ends: Ints, costs: Costs, lengths: Ints
) -> list[_OpenEdges]:
    """Return, for each round, the edges of the walks that lead to the ends at exactly these costs."""
    weights = _get_weights(graph)
    infinite = np.array([_INFINITE_COST if weights.dtype == np.int64 else np.inf], weights.dtype)
    walks, nodes, limits = lengths[:0], ends[:0], costs[:0]
    layers: list[_OpenEdges] = []
    round_costs = np.repeat(infinite, graph.size)
    for number in range(int(lengths.max()) - 1, -1, -1):
        # The walks that end here join those that go on.
        ending = np.flatnonzero(lengths == number + 1)
        walks, nodes = np.concatenate((walks, ending)), np.concatenate((nodes, ends[ending]))
        limits = np.concatenate((limits, costs[ending]))
        step = graph.step(nodes, is_back=True)
        before = rounds[number]
        round_costs[before.nodes] = before.costs
        near_costs = round_costs[step.nodes]
        # A node that the round did not make cheaper has an infinite cost, which no sum of integers may contain.
        is_open = near_costs < infinite
        inner = graph.find_inner(step.nodes) if number else None
        is_open = is_open if inner is None else is_open & inner
        is_open[is_open] = near_costs[is_open] + weights[step.edges[is_open]] <= limits[step.rows[is_open]]
        round_costs[before.nodes] = infinite
        step = step.filter(is_open)
        layer = _OpenEdges(
            walks[step.rows], step.nodes.astype(np.int64), nodes[step.rows], step.edges, limits[step.rows]
        )
        graph.budget.claim(len(layer.walks) * _EDGE_BYTES, graph.label)
        layers.append(layer)
        near_limits = _subtract(layer.limits, weights[layer.edges])
        keys = layer.walks * graph.size + layer.sources
        # The largest limit of each walk and node comes first.
        order = np.lexsort((-near_limits, keys))
        first = order[find_first(keys[order])]
        walks, nodes, limits = layer.walks[first], layer.sources[first], near_limits[first]
    return layers[::-1]


def _subtract(sums: Costs, weights: Costs) -> Costs:
    """Return the largest cost for each sum that, with the weight added and rounded, does not exceed the sum."""
    if sums.dtype == np.int64:
        return np.asarray(sums - weights)
    # The bits of non-negative floats are in the order of the floats: a binary search among those near the difference,
    # which rounding moves by less than two units in the last place of the sum.
    slack = 2 * np.spacing(sums)
    low = np.maximum(sums - weights - slack, 0.0).view(np.int64)
    high = (np.maximum(sums - weights, 0.0) + slack).view(np.int64)
    while bool((low < high).any()):
        middle = low + (high - low + 1) // 2
        fits = middle.view(np.float64) + weights <= sums
        low = np.where(fits, middle, low)
        high = np.where(fits, high, middle - 1)
    return np.asarray(low.view(np.float64))


def _pick_edges(graph: WalkGraph, layers: list[_OpenEdges], walks: WalkList, start_cost: float) -> None:
    """Set the edges of the walks: the smallest ones along their nodes that lead to exactly their costs."""
    weights = _get_weights(graph)
    node_starts, edge_starts = walks.node_starts[:-1], walks.edge_starts[:-1]
    assert walks.costs is not None  # noqa: S101 - the cheapest walks have costs
    limits = walks.costs.copy()
    chosen: list[tuple[_OpenEdges, Costs]] = []
    for number in range(len(layers) - 1, -1, -1):
        layer = layers[number]
        at = node_starts[layer.walks] + number
        is_on_walk = (walks.nodes[at] == layer.sources) & (walks.nodes[at + 1] == layer.targets)
        is_on_walk &= weights[layer.edges] <= limits[layer.walks]
        layer = layer.take(is_on_walk)
        ahead = limits[layer.walks]
        chosen.append((layer, ahead))
        before = _subtract(ahead, weights[layer.edges])
        order = np.lexsort((-before, layer.walks))
        first = order[find_first(layer.walks[order])]
        limits[layer.walks[first]] = before[first]
    reached = np.full(len(walks), start_cost, walks.costs.dtype)
    for number, (layer, ahead) in enumerate(reversed(chosen)):
        sums = reached[layer.walks] + weights[layer.edges]
        at = np.flatnonzero(sums <= ahead)
        order = at[np.lexsort((graph.edges.rank(layer.edges[at]), layer.walks[at]))]
        first = order[find_first(layer.walks[order])]
        moved = layer.walks[first]
        walks.edges[edge_starts[moved] + number] = layer.edges[first]
        reached[moved] = sums[first]
