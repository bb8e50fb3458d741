"""Leiden: communities with more edges inside than by chance, each of them connected.

Nodes move to the neighbouring community that raises modularity most; communities are refined into well-connected
parts, the parts become the nodes of a smaller graph, and all is done again there. Moves are made for many nodes at
once: a set of moves that does not raise modularity is halved until it does, so it rises with every step.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.algorithms.components import find_components
from omnigraph.engine.algorithms.network import Lists, Network, Nodes, build_lists, hash_numbers, sum_by_key
from omnigraph.engine.query_budget import Budget

Floats = NDArray[np.float64]
# A gain below this share of all weights is noise of rounding.
_EPSILON = 1e-12
# So many rounds of refinement without a move end it: in each, a coin decides who may move.
_IDLE_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Communities:
    """The community of each node, as its smallest node; the number of rounds, and whether they were enough."""

    values: Nodes
    rounds: int
    is_converged: bool
    modularity: float


@dataclass(frozen=True, slots=True)
class _Graph:
    """Weighted pairs of different nodes, in both directions, and of each node the weights of loops and of all ends."""

    lists: Lists
    near: Nodes
    weights: Floats
    loops: Floats
    degrees: Floats
    total: float

    @property
    def count(self) -> int:
        return len(self.loops)


def find_communities(
    network: Network,
    weights: Floats | None = None,
    *,
    resolution: float,
    seed: int,
    max_rounds: int,
    budget: Budget,
) -> Communities:
    """Find communities; edges count in both directions, parallel edges each, and a loop adds 2 to its node.

    A greater `resolution` makes smaller communities. `max_rounds` limits the rounds of moves on each level.
    """
    given = np.ones(len(network.source)) if weights is None else weights
    original = graph = _build_graph(network.source, network.target, given, np.zeros(network.count), budget)
    if not graph.total:
        return Communities(np.arange(network.count), 0, is_converged=True, modularity=0.0)
    places = np.arange(network.count)
    labels = np.arange(network.count)
    rounds = 0
    is_converged = True
    while True:
        labels, made, is_done = _move_nodes(graph, labels, resolution, seed + rounds, max_rounds, budget)
        rounds += made
        is_converged &= is_done
        found = len(np.unique(labels))
        if found == graph.count:
            break
        refined = _refine(graph, labels, resolution, seed + rounds, budget)
        if len(np.unique(refined)) == graph.count:
            refined = labels
        graph, labels, numbers = _aggregate(graph, labels, refined, budget)
        places = numbers[places]
    # A move may have cut a community in two; its parts are better off alone.
    whole = labels[places]
    near, far = original.near, original.lists.far
    is_inside = whole[near] == whole[far]
    values = find_components(Network(network.count, near[is_inside], far[is_inside]), budget)
    return Communities(values, rounds, is_converged, _compute_modularity(original, values, resolution))


def _build_graph(from_: Nodes, to: Nodes, weights: Floats, loops: Floats, budget: Budget) -> _Graph:
    count = len(loops)
    is_loop = from_ == to
    loops = loops + np.bincount(from_[is_loop], weights[is_loop], minlength=count)
    near = np.concatenate((from_[~is_loop], to[~is_loop]))
    far = np.concatenate((to[~is_loop], from_[~is_loop]))
    both = np.concatenate((weights[~is_loop], weights[~is_loop]))
    keys, sums = sum_by_key(near.astype(np.int64) * max(count, 1) + far, both, budget.check)
    near, far = keys // max(count, 1), keys % max(count, 1)
    degrees = np.bincount(near, sums, minlength=count) + 2.0 * loops
    return _Graph(build_lists(near, far, count, budget.check), near, sums, loops, degrees, float(degrees.sum()))


def _compute_modularity(graph: _Graph, labels: Nodes, resolution: float) -> float:
    is_inside = labels[graph.near] == labels[graph.lists.far]
    inside = float(graph.weights[is_inside].sum()) + 2.0 * float(graph.loops.sum())
    totals = np.bincount(labels, graph.degrees, minlength=graph.count) / graph.total
    return inside / graph.total - resolution * float((totals * totals).sum())


def _move_nodes(
    graph: _Graph, labels: Nodes, resolution: float, seed: int, max_rounds: int, budget: Budget
) -> tuple[Nodes, int, bool]:
    """Return labels with more modularity, the number of rounds, and whether no single move would add any."""
    quality = _compute_modularity(graph, labels, resolution)
    active = np.arange(graph.count)
    for number in range(max_rounds):
        budget.check()
        best, gains = _find_best(graph, labels, active, resolution, np.ones(graph.count, np.bool_), budget)
        is_better = gains > _EPSILON * graph.total
        movers, best = active[is_better], best[is_better]
        if not len(movers):
            if len(active) == graph.count:
                return labels, number, True
            # Only the neighbours of what moved were looked at: now all.
            active = np.arange(graph.count)
            continue
        order = np.argsort(hash_numbers(movers, seed + number), kind="stable")
        size = -(-len(order) // 2) if len(order) > 1 else 1
        while True:
            budget.check()
            chosen = order[:size]
            moved = labels.copy()
            moved[movers[chosen]] = best[chosen]
            new_quality = _compute_modularity(graph, moved, resolution)
            if new_quality > quality or size == 1:
                break
            size //= 2
        if new_quality <= quality:
            # What one move adds is lost in rounding.
            return labels, number, True
        labels, quality = moved, new_quality
        changed = movers[chosen]
        active = np.unique(np.concatenate((movers, graph.lists.far[graph.lists.expand(changed)])))
    return labels, max_rounds, False


def _find_best(
    graph: _Graph,
    labels: Nodes,
    nodes: Nodes,
    resolution: float,
    is_target: NDArray[np.bool_],
    budget: Budget,
    within: Nodes | None = None,
) -> tuple[Nodes, Floats]:
    """Return for each node the best community of its neighbours, and what moving there adds; its own if none does.

    Only neighbours count that are targets, and in the same group of `within`.
    """
    totals = np.bincount(labels, graph.degrees, minlength=graph.count)
    places = graph.lists.expand(nodes)
    sizes = graph.lists.starts[nodes + 1] - graph.lists.starts[nodes]
    rows = np.repeat(np.arange(len(nodes)), sizes)
    far = graph.lists.far[places]
    is_kept = is_target[far] if within is None else is_target[far] & (within[far] == within[nodes[rows]])
    rows, far = rows[is_kept], far[is_kept]
    keys, weights = sum_by_key(rows * graph.count + labels[far], graph.weights[places[is_kept]], budget.check)
    own_labels, degrees = labels[nodes], graph.degrees[nodes]
    scale = resolution / graph.total
    own = -scale * degrees * (totals[own_labels] - degrees)
    best, gains = own_labels.copy(), np.zeros(len(nodes))
    if not len(keys):
        return best, gains
    rows, offered = keys // graph.count, keys % graph.count
    is_own = offered == own_labels[rows]
    own[rows[is_own]] += weights[is_own]
    scores = weights - scale * degrees[rows] * totals[offered]
    scores[is_own] = own[rows[is_own]]
    starts = np.flatnonzero(np.concatenate(([True], rows[1:] != rows[:-1])))
    highest = np.repeat(np.maximum.reduceat(scores, starts), np.diff(np.append(starts, len(rows))))
    # Of equals the smallest label, which comes first.
    winners = np.flatnonzero(scores == highest)
    winners = winners[np.concatenate(([True], rows[winners][1:] != rows[winners][:-1]))]
    gain = scores[winners] - own[rows[winners]]
    is_better = gain > 0
    best[rows[winners][is_better]] = offered[winners][is_better]
    gains[rows[winners]] = np.maximum(gain, 0.0)
    return best, gains


def _refine(graph: _Graph, labels: Nodes, resolution: float, seed: int, budget: Budget) -> Nodes:
    """Return parts of the communities: nodes alone join a neighbour's part of the same community if that adds.

    Whom a node joins does not move in the same round, so that every part is connected.
    """
    parts = np.arange(graph.count)
    idle = number = 0
    while idle < _IDLE_ROUNDS:
        budget.check()
        sizes = np.bincount(parts, minlength=graph.count)
        coins = (hash_numbers(np.arange(graph.count), seed + number) >> np.uint64(63)).astype(np.bool_)
        is_mover = coins & (sizes[parts] == 1)
        movers = np.flatnonzero(is_mover)
        best, gains = _find_best(graph, parts, movers, resolution, ~is_mover, budget, within=labels)
        is_better = gains > _EPSILON * graph.total
        parts[movers[is_better]] = best[is_better]
        idle = 0 if is_better.any() else idle + 1
        number += 1
    return parts


def _aggregate(graph: _Graph, labels: Nodes, parts: Nodes, budget: Budget) -> tuple[_Graph, Nodes, Nodes]:
    """Return the graph of parts, the community of each as its smallest part, and the part of each node."""
    names, numbers = np.unique(parts, return_inverse=True)
    loops: Floats = np.bincount(numbers, graph.loops, minlength=len(names)).astype(np.float64)
    # Each pair is there in both directions: one of them is enough.
    is_half = graph.near < graph.lists.far
    source, target = numbers[graph.near[is_half]], numbers[graph.lists.far[is_half]]
    smaller = _build_graph(source, target, graph.weights[is_half], loops, budget)
    community = np.empty(len(names), np.int64)
    community[numbers] = labels
    smallest = np.full(graph.count, len(names), np.int64)
    np.minimum.at(smallest, community, np.arange(len(names)))
    return smaller, smallest[community], numbers
