"""Connected components: sets of nodes that reach each other when edges are followed in either direction."""

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.algorithms.network import Network
from omnigraph.engine.kernels import iter_chunks
from omnigraph.engine.query_budget import Budget


def find_components(network: Network, budget: Budget) -> NDArray[np.int64]:
    """Return for each node the smallest node of its component.

    Each round hooks the larger root of every edge's two ends under the smaller one, then halves all paths until every
    node points to its root: the number of rounds grows with the logarithm of the longest path.
    """
    roots = np.arange(network.count)
    source, target = network.source, network.target
    while len(source):
        budget.check()
        from_ = roots[source]
        to = roots[target]
        # Edges inside a component can't change anything any more, so later rounds go without them.
        is_open = from_ != to
        if not is_open.any():
            break
        source, target = source[is_open], target[is_open]
        low = np.minimum(from_, to)[is_open]
        high = np.maximum(from_, to)[is_open]
        for part in iter_chunks(len(high)):
            np.minimum.at(roots, high[part], low[part])
            budget.check()
        while True:
            budget.check()
            parents = roots[roots]
            if np.array_equal(parents, roots):
                break
            roots = parents
    return roots
