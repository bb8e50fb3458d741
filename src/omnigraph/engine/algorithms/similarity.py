"""Node similarity: the share of their neighbours that two nodes have in common (Jaccard), the best of each node."""

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.algorithms.network import Direction, Network, Nodes, build_lists, orient_edges, sum_by_key
from omnigraph.engine.kernels import expand_runs
from omnigraph.engine.query_budget import Budget

Floats = NDArray[np.float64]
# Pairs with a common neighbour are counted in chunks of about this many; a single node may have more.
_CHUNK_PAIRS = 1_000_000


def find_similar(
    network: Network, weights: Floats | None = None, *, direction: Direction, top: int, budget: Budget
) -> tuple[Nodes, Nodes, Floats]:
    """Return nodes, another node for each, and their similarity: the `top` most similar of every node, best first.

    It is the number of neighbours that both have, divided by that of those that one has; with weights, the sum of the
    smaller weights divided by the sum of the larger ones. Equals come in the order of nodes. Parallel edges count once,
    and their weights are added. Pairs without a common neighbour are left out.
    """
    count = network.count
    from_, to = orient_edges(network, direction)
    given = np.ones(len(from_)) if weights is None else weights
    if len(given) < len(from_):
        given = np.concatenate((given, given))
    keys, sums = sum_by_key(from_.astype(np.int64) * max(count, 1) + to, given, budget.check)
    sums = sums if weights is not None else np.ones(len(keys))
    from_, to = keys // max(count, 1), keys % max(count, 1)
    totals = np.bincount(from_, sums, minlength=count)
    back = build_lists(to, from_, count, budget.check)
    back_sums = sums[back.order]
    sizes = back.starts[to + 1] - back.starts[to]
    starts = np.concatenate(([0], np.cumsum(np.bincount(from_, minlength=count)))).astype(np.int64)
    parts: list[tuple[Nodes, Nodes, Floats]] = []
    for first, last in _split_nodes(np.bincount(from_, sizes, minlength=count)):
        budget.check()
        edges = slice(starts[first], starts[last])
        places = expand_runs(back.starts[to[edges]], sizes[edges])
        left, right = np.repeat(from_[edges], sizes[edges]), back.far[places]
        shared = np.minimum(np.repeat(sums[edges], sizes[edges]), back_sums[places])
        is_other = left != right
        pairs, common = sum_by_key(left[is_other] * count + right[is_other], shared[is_other], budget.check)
        pairs, common = pairs[common > 0], common[common > 0]
        left, right = pairs // count, pairs % count
        parts.append(_take_best(left, right, common / (totals[left] + totals[right] - common), top))
    if not parts:
        return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)
    return tuple(map(np.concatenate, zip(*parts, strict=True)))  # type: ignore[return-value]


def _take_best(left: Nodes, right: Nodes, scores: Floats, top: int) -> tuple[Nodes, Nodes, Floats]:
    """Return the `top` pairs of each left node with the greatest scores."""
    order = np.lexsort((right, -scores, left))
    ordered = left[order]
    begins = np.searchsorted(ordered, ordered, side="left")
    order = order[np.arange(len(order)) - begins < top]
    return left[order], right[order], scores[order]


def _split_nodes(costs: NDArray[Any]) -> list[tuple[int, int]]:
    """Split nodes into runs with a limited sum of costs, or of one node."""
    ends = np.cumsum(costs)
    cuts = [0]
    while cuts[-1] < len(costs):
        before = float(ends[cuts[-1] - 1]) if cuts[-1] else 0.0
        cuts.append(max(cuts[-1] + 1, int(np.searchsorted(ends, before + _CHUNK_PAIRS, side="right"))))
    return list(pairwise(cuts))
