"""Connected components: which nodes reach each other when edges are followed in either direction."""

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.algorithms.network import Network
from omnigraph.engine.kernels import iter_chunks
from omnigraph.engine.query_budget import Budget


def find_components(network: Network, budget: Budget) -> NDArray[np.int64]:
    """By node, the smallest node of its component.

    Each round hooks the root of one end of every edge under the smaller root of the other, then halves all paths
    until every node knows its root: the number of rounds grows with the logarithm of the longest path.
    """
    roots = np.arange(network.count)
    source, target = network.source, network.target
    while len(source):
        budget.check()
        from_, to = roots[source], roots[target]
        is_open = from_ != to
        if not is_open.any():
            break
        source, target = source[is_open], target[is_open]
        low, high = np.minimum(from_, to)[is_open], np.maximum(from_, to)[is_open]
        for part in iter_chunks(len(high)):
            np.minimum.at(roots, high[part], low[part])
            budget.check()
        while True:
            budget.check()
            above = roots[roots]
            if np.array_equal(above, roots):
                break
            roots = above
    return roots
