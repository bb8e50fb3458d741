"""Triangles: sets of three nodes that are all connected, whatever the direction of their edges."""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.algorithms.network import Network, Nodes
from omnigraph.engine.kernels import sort_values
from omnigraph.engine.query_budget import Budget

_PAIRS_AT_ONCE = 500_000


def count_triangles(network: Network, budget: Budget) -> NDArray[np.int64]:
    """By node, in how many triangles it is.

    Every pair is turned towards the node with more neighbours, so that no node has many pairs leaving it, and each
    triangle is found once: from its corner with the fewest neighbours.
    """
    count = network.count
    low, high = network.simplify(budget.check)
    found = np.zeros(count, np.int64)
    if not len(low):
        return found
    degrees = np.bincount(low, minlength=count) + np.bincount(high, minlength=count)
    is_up = (degrees[low] < degrees[high]) | ((degrees[low] == degrees[high]) & (low < high))
    from_, to = np.where(is_up, low, high), np.where(is_up, high, low)
    keys = sort_values(from_ * count + to, budget.check)
    from_, to = keys // count, keys % count
    starts = np.concatenate(([0], np.cumsum(np.bincount(from_, minlength=count))))
    # With each pair go all later pairs of the same node: is the third side there?
    behind = starts[from_ + 1] - np.arange(len(from_)) - 1
    for first, last in _split_pairs(behind):
        budget.check()
        pairs = np.repeat(np.arange(first, last), behind[first:last])
        ends = np.cumsum(behind[first:last])
        others = np.arange(len(pairs)) - np.repeat(ends - behind[first:last], behind[first:last]) + pairs + 1
        _count_closed(found, keys, from_[pairs], to[pairs], to[others], degrees, count)
    return found


def _count_closed(
    found: NDArray[np.int64],
    keys: NDArray[np.int64],
    corner: Nodes,
    second: Nodes,
    third: Nodes,
    degrees: NDArray[np.int64],
    count: int,
) -> None:
    is_up = (degrees[second] < degrees[third]) | ((degrees[second] == degrees[third]) & (second < third))
    wanted = np.where(is_up, second, third) * count + np.where(is_up, third, second)
    places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    closed = keys[places] == wanted
    for nodes in (corner, second, third):
        np.add.at(found, nodes[closed], 1)


def _split_pairs(sizes: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Runs of pairs whose later pairs are not too many together; one pair may be too many by itself."""
    cuts = [0]
    ends = np.cumsum(sizes)
    while cuts[-1] < len(sizes):
        start = cuts[-1]
        before = int(ends[start - 1]) if start else 0
        cuts.append(max(start + 1, int(np.searchsorted(ends, before + _PAIRS_AT_ONCE, side="right"))))
    return list(pairwise(cuts))
