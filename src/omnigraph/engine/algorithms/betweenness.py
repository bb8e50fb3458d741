"""Betweenness: how many of the shortest paths between others lead through a node (Brandes), of all sources or some."""

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.algorithms.network import (
    Direction,
    Lists,
    Network,
    Nodes,
    build_lists,
    hash_numbers,
    orient_edges,
    peel,
)
from omnigraph.engine.algorithms.shortest_paths import compute_weighted_distances
from omnigraph.engine.kernels import argsort_stable
from omnigraph.engine.query_budget import Budget

Floats = NDArray[np.float64]


def compute_betweenness(
    network: Network,
    weights: Floats | None = None,
    *,
    direction: Direction,
    samples: int | None,
    seed: int,
    is_normalized: bool,
    budget: Budget,
) -> Floats:
    """Return the betweenness of each node; of `samples` sources, which `seed` chooses, an estimate.

    Of parallel edges the lightest counts, loops don't. Weights must be greater than 0.
    """
    count = network.count
    simple, lengths = _simplify(network, weights, direction, budget)
    lists = build_lists(simple.source, simple.target, count, budget.check)
    sources = np.arange(count)
    if samples is not None and samples < count:
        sources = np.sort(np.argsort(hash_numbers(sources, seed), kind="stable")[:samples])
    scores = np.zeros(count)
    for source in sources.tolist():
        budget.check()
        if lengths is None:
            layers = _layer_by_hops(lists, source, count, budget)
        else:
            distances = compute_weighted_distances(simple, lengths, source, Direction.OUT, budget)
            layers = _layer_by_weights(simple, lengths, distances, budget)
        shares = _accumulate(layers, source, count)
        shares[source] = 0.0
        scores += shares
    if not len(sources):
        return scores
    scale = count / len(sources)
    if is_normalized:
        scale = scale / ((count - 1) * (count - 2)) if count > 2 else 0.0
    elif direction is Direction.BOTH:
        scale /= 2  # each pair was counted from both of its nodes
    return np.asarray(scores * scale, np.float64)


def _simplify(
    network: Network, weights: Floats | None, direction: Direction, budget: Budget
) -> tuple[Network, Floats | None]:
    """Return each pair of different nodes once, with the smallest of its weights."""
    from_, to = orient_edges(network, direction)
    lengths = np.ones(len(network.source)) if weights is None else weights
    lengths = np.concatenate((lengths, lengths)) if direction is Direction.BOTH else lengths
    is_pair = from_ != to
    keys, lengths = from_[is_pair].astype(np.int64) * network.count + to[is_pair], lengths[is_pair]
    if not len(keys):
        return Network(network.count, keys, keys), None if weights is None else lengths
    order = argsort_stable(keys, budget.check)
    keys = keys[order]
    starts = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
    simple = Network(network.count, keys[starts] // network.count, keys[starts] % network.count)
    return simple, None if weights is None else np.minimum.reduceat(lengths[order], starts)


def _layer_by_hops(lists: Lists, source: int, count: int, budget: Budget) -> list[tuple[Nodes, Nodes]]:
    """Return the edges of all shortest paths from a node, by the number of edges before them."""
    is_seen = np.zeros(count, np.bool_)
    frontier = np.array([source])
    layers: list[tuple[Nodes, Nodes]] = []
    while len(frontier):
        budget.check()
        is_seen[frontier] = True
        heads = lists.far[lists.expand(frontier)]
        is_new = ~is_seen[heads]
        heads = heads[is_new]
        layers.append((lists.repeat(frontier)[is_new], heads))
        frontier = np.unique(heads)
    return layers


def _layer_by_weights(
    network: Network, lengths: Floats, distances: Floats, budget: Budget
) -> list[tuple[Nodes, Nodes]]:
    """Return the edges of all shortest paths, so that those to a node come before those from it."""
    from_, to = network.source, network.target
    is_shortest = np.isfinite(distances[from_]) & (distances[from_] + lengths == distances[to])
    from_, to = from_[is_shortest], to[is_shortest]
    lists = build_lists(from_, to, network.count, budget.check)
    waves = peel(lists, np.bincount(to, minlength=network.count), budget.check)
    return [(lists.repeat(wave), lists.far[lists.expand(wave)]) for wave in waves]


def _accumulate(layers: list[tuple[Nodes, Nodes]], source: int, count: int) -> Floats:
    """Return for each node the share of the shortest paths from a node that lead through it, summed over their ends."""
    paths = np.zeros(count)
    paths[source] = 1.0
    for tails, heads in layers:
        np.add.at(paths, heads, paths[tails])
    shares = np.zeros(count)
    for tails, heads in reversed(layers):
        np.add.at(shares, tails, paths[tails] / paths[heads] * (1.0 + shares[heads]))
    return shares
