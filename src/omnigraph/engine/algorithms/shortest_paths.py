"""Shortest paths from one node: how far every other node is, in edges or by their weights."""

from enum import Enum

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.algorithms.network import Network, Nodes
from omnigraph.engine.kernels import argsort_stable, find_distinct, iter_chunks
from omnigraph.engine.query_budget import Budget


class Direction(Enum):
    """Which way edges are followed."""

    OUT = "out"
    IN = "in"
    BOTH = "both"


def compute_hops(network: Network, start: int, direction: Direction, budget: Budget) -> NDArray[np.int64]:
    """By node the least number of edges from `start`; -1 where no path leads."""
    from_, to = _orient_edges(network, direction)
    to = to[argsort_stable(from_, budget.check)]
    starts = np.concatenate(([0], np.cumsum(np.bincount(from_, minlength=network.count))))
    found = np.full(network.count, -1, np.int64)
    found[start] = 0
    frontier = np.array([start])
    distance = 0
    while len(frontier):
        budget.check()
        distance += 1
        reached = to[_concat_ranges(starts[frontier], starts[frontier + 1])]
        frontier = find_distinct(reached[found[reached] < 0], budget.check)
        found[frontier] = distance
    return found


def compute_weighted_distances(
    network: Network, weights: NDArray[np.float64], start: int, direction: Direction, budget: Budget
) -> NDArray[np.float64]:
    """By node the least sum of weights, none of which is negative, along a path from `start`; infinite without one.

    Rounds of relaxing every edge that leaves a node which came closer: as many as a shortest path has edges.
    """
    from_, to = _orient_edges(network, direction)
    if direction is Direction.BOTH:
        weights = np.concatenate((weights, weights))
    found = np.full(network.count, np.inf)
    found[start] = 0.0
    closer = np.zeros(network.count, np.bool_)
    closer[start] = True
    while closer.any():
        budget.check()
        edges = np.flatnonzero(closer[from_])
        offered = found.copy()
        for part in iter_chunks(len(edges)):
            some = edges[part]
            np.minimum.at(offered, to[some], found[from_[some]] + weights[some])
            budget.check()
        closer = offered < found
        found = offered
    return found


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
    """All numbers of all ranges, one range behind the other."""
    sizes = ends - starts
    total = int(sizes.sum())
    offsets = np.repeat(starts - np.concatenate(([0], np.cumsum(sizes)[:-1])), sizes)
    return np.arange(total) + offsets
