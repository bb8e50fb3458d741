"""Topological order: a position for each node that is after the sources of all edges to it."""

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.algorithms.network import Network, build_lists, peel
from omnigraph.engine.query_budget import Budget


def sort_topologically(network: Network, budget: Budget) -> tuple[NDArray[np.int64], list[int]]:
    """Return the position of each node, and an empty list; or, if edges go in circles, the nodes of one such cycle.

    Nodes come in waves, in each by number: first those without incoming edges, then those that only these lead to.
    """
    lists = build_lists(network.source, network.target, network.count, budget.check)
    degrees = np.bincount(network.target, minlength=network.count)
    waves = list(peel(lists, degrees, budget.check))
    order = np.concatenate(waves) if waves else np.zeros(0, np.int64)
    positions = np.empty(network.count, np.int64)
    positions[order] = np.arange(len(order))
    return positions, [] if len(order) == network.count else _find_cycle(network, degrees)


def _find_cycle(network: Network, degrees: NDArray[np.int64]) -> list[int]:
    """Return the nodes of a cycle in the order of its edges, from its smallest node on.

    Every node with incoming edges left has one from such a node, so that going back comes to a node twice.
    """
    is_inside = (degrees[network.source] > 0) & (degrees[network.target] > 0)
    before = np.full(network.count, network.count, np.int64)
    np.minimum.at(before, network.target[is_inside], network.source[is_inside])
    node = int(np.flatnonzero(degrees > 0)[0])
    places: dict[int, int] = {}
    path: list[int] = []
    while node not in places:
        places[node] = len(path)
        path.append(node)
        node = int(before[node])
    cycle = path[places[node] :][::-1]
    first = cycle.index(min(cycle))
    return cycle[first:] + cycle[:first]
