"""Shortest paths from one node: the distance of every other node, in edges (BFS) or by their weights."""

from enum import Enum

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.algorithms.network import Network, Nodes
from omnigraph.engine.kernels import argsort_stable, find_distinct, iter_chunks
from omnigraph.engine.query_budget import Budget


class Direction(Enum):
    """The direction in which edges are followed."""

    OUT = "out"
    IN = "in"
    BOTH = "both"


def compute_hops(network: Network, start: int, direction: Direction, budget: Budget) -> NDArray[np.int64]:
    """Return for each node the smallest number of edges from `start`, or -1 if there is no path: a BFS."""
    from_, to = _orient_edges(network, direction)
    # Edges in CSR form: those of node n are `to[starts[n] : starts[n + 1]]`.
    to = to[argsort_stable(from_, budget.check)]
    starts = np.concatenate(([0], np.cumsum(np.bincount(from_, minlength=network.count))))
    distances = np.full(network.count, -1, np.int64)
    distances[start] = 0
    frontier = np.array([start])
    distance = 0
    while len(frontier):
        budget.check()
        distance += 1
        reached = to[_concat_ranges(starts[frontier], starts[frontier + 1])]
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
    from_, to = _orient_edges(network, direction)
    if direction is Direction.BOTH:
        # `_orient_edges` lists every edge twice.
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


def _orient_edges(network: Network, direction: Direction) -> tuple[Nodes, Nodes]:
    source, target = network.source, network.target
    match direction:
        case Direction.OUT:
            return source, target
        case Direction.IN:
            return target, source
        case Direction.BOTH:
            return np.concatenate((source, target)), np.concatenate((target, source))


def _concat_ranges(starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the numbers of all ranges, concatenated."""
    sizes = ends - starts
    total = int(sizes.sum())
    offsets = np.repeat(starts - np.concatenate(([0], np.cumsum(sizes)[:-1])), sizes)
    return np.arange(total) + offsets
