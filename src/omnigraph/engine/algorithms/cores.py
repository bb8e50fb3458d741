"""Core numbers: the largest k for which a node is in a part whose nodes all have at least k neighbours."""

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.algorithms.network import Network, build_lists
from omnigraph.engine.query_budget import Budget


def compute_core_numbers(network: Network, budget: Budget) -> NDArray[np.int64]:
    """Return the core number of each node; directions, parallel edges and loops don't count.

    Nodes with the fewest neighbours are taken away in waves. The work of a wave follows the edges of its nodes.
    """
    low, high = network.simplify(budget.check)
    near, far = np.concatenate((low, high)), np.concatenate((high, low))
    lists = build_lists(near, far, network.count, budget.check)
    degrees = np.diff(lists.starts)
    cores = np.zeros(network.count, np.int64)
    is_left = np.ones(network.count, np.bool_)
    while is_left.any():
        core = int(degrees[is_left].min())
        wave = np.flatnonzero(is_left & (degrees <= core))
        while len(wave):
            budget.check()
            cores[wave] = core
            is_left[wave] = False
            reached = lists.far[lists.expand(wave)]
            nodes, drops = np.unique(reached[is_left[reached]], return_counts=True)
            # No node falls below the core of its wave, so that the next wave has at least the same.
            degrees[nodes] = np.maximum(degrees[nodes] - drops, core)
            wave = nodes[degrees[nodes] == core]
    return cores
