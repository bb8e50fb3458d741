"""Triangle counting: sets of three nodes that are all connected, whatever the direction of their edges."""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.algorithms.network import Network, Nodes
from omnigraph.engine.kernels import sort_values
from omnigraph.engine.query_budget import Budget

# Candidate triangles are checked in chunks of about this many, which bounds memory and the time between two checks.
_CHUNK_PAIRS = 500_000


def count_triangles(network: Network, budget: Budget) -> NDArray[np.int64]:
    """Return for each node the number of triangles that contain it.

    Every pair is directed towards the node with more neighbours, so that no node has many outgoing pairs, and each
    triangle is found once: from its corner with the fewest neighbours.
    """
    count = network.count
    low, high = network.simplify(budget.check)
    triangles = np.zeros(count, np.int64)
    if not len(low):
        return triangles
    degrees = np.bincount(low, minlength=count) + np.bincount(high, minlength=count)
    from_, to = _direct_pairs(low, high, degrees)
    # A key is a directed pair in one integer; sorted, they serve as edge list and as index for the third side.
    keys = sort_values(from_ * count + to, budget.check)
    from_ = keys // count
    to = keys % count
    starts = np.concatenate(([0], np.cumsum(np.bincount(from_, minlength=count))))
    # Each pair is combined with all later pairs of the same node: is the third side there?
    later_counts = starts[from_ + 1] - np.arange(len(from_)) - 1
    for first, last in _split_pairs(later_counts):
        budget.check()
        sizes = later_counts[first:last]
        pairs = np.repeat(np.arange(first, last), sizes)
        ends = np.cumsum(sizes)
        later_pairs = np.arange(len(pairs)) - np.repeat(ends - sizes, sizes) + pairs + 1
        _count_closed(triangles, keys, from_[pairs], to[pairs], to[later_pairs], degrees, count)
    return triangles


def _direct_pairs(first: Nodes, second: Nodes, degrees: NDArray[np.int64]) -> tuple[Nodes, Nodes]:
    """Return the source and target of each pair: from fewer neighbours to more, and from smaller to larger node."""
    is_forward = (degrees[first] < degrees[second]) | ((degrees[first] == degrees[second]) & (first < second))
    return np.where(is_forward, first, second), np.where(is_forward, second, first)


def _count_closed(
    triangles: NDArray[np.int64],
    keys: NDArray[np.int64],
    corner: Nodes,
    second: Nodes,
    third: Nodes,
    degrees: NDArray[np.int64],
    count: int,
) -> None:
    """Add 1 to the three corners of each candidate whose third side is one of the pairs."""
    from_, to = _direct_pairs(second, third, degrees)
    third_sides = from_ * count + to
    indexes = np.minimum(np.searchsorted(keys, third_sides), len(keys) - 1)
    is_closed = keys[indexes] == third_sides
    for nodes in (corner, second, third):
        np.add.at(triangles, nodes[is_closed], 1)


def _split_pairs(sizes: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Split pairs into chunks with a limited number of later pairs; a single pair may exceed the limit."""
    cuts = [0]
    ends = np.cumsum(sizes)
    while cuts[-1] < len(sizes):
        start = cuts[-1]
        before = int(ends[start - 1]) if start else 0
        cuts.append(max(start + 1, int(np.searchsorted(ends, before + _CHUNK_PAIRS, side="right"))))
    return list(pairwise(cuts))
