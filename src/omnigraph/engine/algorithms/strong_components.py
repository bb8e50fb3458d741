"""Strongly connected components: sets of nodes that all reach each other along the direction of edges."""

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.algorithms.network import Lists, Network, Nodes, build_lists, hash_numbers, peel
from omnigraph.engine.kernels import find_distinct
from omnigraph.engine.query_budget import Budget


def find_strong_components(network: Network, budget: Budget) -> NDArray[np.int64]:
    """Return for each node the smallest node of its strongly connected component.

    In each round, nodes that nothing leads to, or that lead nowhere, are components of their own. Of the others each
    takes the greatest colour that reaches it; what the owner of a colour reaches backwards within it is its component.
    """
    components = np.arange(network.count)
    source, target = network.source, network.target
    colours = np.empty(network.count, np.int64)
    # Colours in the order of ids would pass through a chain one node at a time.
    colours[np.argsort(hash_numbers(np.arange(network.count), 0), kind="stable")] = np.arange(network.count)
    while len(source):
        budget.check()
        is_inside = np.ones(network.count, np.bool_)
        for from_, to in ((source, target), (target, source)):
            lists = build_lists(from_, to, network.count, budget.check)
            for nodes in peel(lists, np.bincount(to, minlength=network.count), budget.check):
                is_inside[nodes] = False
        is_kept = is_inside[source] & is_inside[target]
        source, target = source[is_kept], target[is_kept]
        if not len(source):
            break
        taken = _spread_colours(build_lists(source, target, network.count, budget.check), source, colours, budget)
        # A component never spans two colours.
        is_kept = taken[source] == taken[target]
        source, target = source[is_kept], target[is_kept]
        owners = np.flatnonzero(is_inside & (taken == colours))
        is_reached = _reach(build_lists(target, source, network.count, budget.check), owners, network.count, budget)
        members = np.flatnonzero(is_reached)
        smallest = np.full(network.count, network.count, np.int64)
        np.minimum.at(smallest, taken[members], members)
        components[members] = smallest[taken[members]]
        is_kept = ~(is_reached[source] | is_reached[target])
        source, target = source[is_kept], target[is_kept]
    return components


def _spread_colours(lists: Lists, source: Nodes, colours: Nodes, budget: Budget) -> Nodes:
    """Return for each node the greatest colour of those that reach it."""
    taken = colours.copy()
    frontier = find_distinct(source, budget.check)
    while len(frontier):
        budget.check()
        heads = lists.far[lists.expand(frontier)]
        offered = taken[lists.repeat(frontier)]
        is_greater = offered > taken[heads]
        heads = heads[is_greater]
        np.maximum.at(taken, heads, offered[is_greater])
        frontier = find_distinct(heads, budget.check)
    return taken


def _reach(lists: Lists, frontier: Nodes, count: int, budget: Budget) -> NDArray[np.bool_]:
    """Return which nodes can be reached."""
    is_reached = np.zeros(count, np.bool_)
    while len(frontier):
        budget.check()
        is_reached[frontier] = True
        heads = lists.far[lists.expand(frontier)]
        frontier = find_distinct(heads[~is_reached[heads]], budget.check)
    return is_reached
