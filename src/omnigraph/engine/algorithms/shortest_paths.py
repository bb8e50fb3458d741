"""Shortest paths from one node: the distance of every other node, in edges (BFS) or by their weights."""

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.algorithms.network import Direction, Network, build_lists, orient_edges
from omnigraph.engine.kernels import find_distinct, iter_chunks
from omnigraph.engine.query_budget import Budget


def compute_hops(network: Network, start: int, direction: Direction, budget: Budget) -> NDArray[np.int64]:
    """Return for each node the smallest number of edges from `start`, or -1 if there is no path: a BFS."""
    lists = build_lists(*orient_edges(network, direction), network.count, budget.check)
    distances = np.full(network.count, -1, np.int64)
    distances[start] = 0
    frontier = np.array([start])
    distance = 0
    while len(frontier):
        budget.check()
        distance += 1
        reached = lists.far[lists.expand(frontier)]
        frontier = find_distinct(reached[distances[reached] < 0], budget.check)
        distances[frontier] = distance
    return distances


def compute_weighted_distances(
    network: Network, weights: NDArray[np.float64], start: int, direction: Direction, budget: Budget
) -> NDArray[np.float64]:
    """Return for each node the smallest sum of weights along a path from `start`, infinite without one.

    Weights must not be negative. Each round relaxes every edge that leaves a node which came closer in the round before
    (Bellman-Ford): there are as many rounds as the longest of the shortest paths has edges.
    """
    from_, to = orient_edges(network, direction)
    if direction is Direction.BOTH:
        # `orient_edges` lists every edge twice.
        weights = np.concatenate((weights, weights))
    distances = np.full(network.count, np.inf)
    distances[start] = 0.0
    is_closer = np.zeros(network.count, np.bool_)
    is_closer[start] = True
    while is_closer.any():
        budget.check()
        edges = np.flatnonzero(is_closer[from_])
        new_distances = distances.copy()
        for part in iter_chunks(len(edges)):
            chunk = edges[part]
            # `minimum.at` handles several edges to the same node, which an indexed assignment would not.
            np.minimum.at(new_distances, to[chunk], distances[from_[chunk]] + weights[chunk])
            budget.check()
        is_closer = new_distances < distances
        distances = new_distances
    return distances
