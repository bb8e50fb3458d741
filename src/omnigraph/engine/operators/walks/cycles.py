"""Find the shortest or cheapest cycles through a node where edges have no direction.

A walk must not return over the edge that it left by. So the edges at the node are tried one after the other: the rest
of a cycle is a walk from the other end of an edge back to the node, without that edge.
"""

from dataclasses import replace

import numpy as np

from omnigraph.engine.bindings import Positions
from omnigraph.engine.operators.walks.bidirectional_search import find_pair_levels, list_smallest, pick_smallest
from omnigraph.engine.operators.walks.cheapest_walks import CheapestSearch, find_cheapest
from omnigraph.engine.operators.walks.walk_graph import WalkGraph
from omnigraph.engine.operators.walks.walk_list import NO_WALKS, Costs, WalkList, build_walks, concat_walks

Ints = Positions


def find_shortest_cycles(graph: WalkGraph, node: int, low: int, high: int | None, *, is_all: bool) -> WalkList:
    """Return the smallest of the shortest cycles through a node, or all, if their length is within the bounds."""
    best: list[WalkList] = []
    limit = high
    for first_edge, other in _list_first_edges(graph, node):
        # With one edge behind them, and the smallest ones first: a later one must be shorter, or as short for `is_all`.
        rest_limit = None if limit is None else limit - 1
        rest = _find_rest(graph, node, first_edge, other, rest_limit, is_all=is_all)
        if rest is None or not len(rest):
            continue
        length = int(rest.lengths[0]) + 1
        walks = _put_before(rest, node, first_edge)
        if best and length == int(best[0].lengths[0]):
            best.append(walks)
        else:
            best = [walks]
        limit = length if is_all else length - 1
    if not best or int(best[0].lengths[0]) < low:
        return NO_WALKS
    return concat_walks(best)


def find_cheapest_cycle(graph: WalkGraph, node: int, high: int | None) -> WalkList:
    """Return the cheapest cycle through a node: by cost, then edges, then ids."""
    assert graph.weights is not None  # noqa: S101 - the cheapest walks have weights
    best: WalkList | None = None
    for first_edge, other in _list_first_edges(graph, node):
        if high == 0:
            break
        cost = graph.weights[first_edge]
        if other == node:
            walk = build_walks(np.array([[node, node]]), np.array([[first_edge]]), np.array([cost]))
        else:
            search = CheapestSearch(
                start=other, ends=np.array([node]), high=None if high is None else high - 1, cost=cost
            )
            # The other end is inside of the cycle.
            if not len(graph.keep_inner(np.array([other]))):
                continue
            rest = find_cheapest(replace(graph, banned_edge=first_edge), search)
            if not len(rest):
                continue
            walk = _put_before(rest, node, first_edge)
        if best is None or _is_better(graph, walk, best):
            best = walk
    return NO_WALKS if best is None else best


def _is_better(graph: WalkGraph, walk: WalkList, other: WalkList) -> bool:
    """Return whether a walk is cheaper than another one, or else shorter, or else has smaller ids."""
    assert walk.costs is not None and other.costs is not None  # noqa: S101, PT018 - the cheapest walks have costs
    length = int(walk.lengths[0])
    key, other_key = (walk.costs[0], length), (other.costs[0], int(other.lengths[0]))
    if key != other_key:
        return bool(key < other_key)
    # Ranked together, because ranks compare within one call only.
    nodes = graph.nodes.rank(np.concatenate((walk.nodes, other.nodes))).tolist()
    edges = graph.edges.rank(np.concatenate((walk.edges, other.edges))).tolist()
    return (nodes[: length + 1], edges[:length]) < (nodes[length + 1 :], edges[length:])


def _list_first_edges(graph: WalkGraph, node: int) -> list[tuple[int, int]]:
    """Return the edges at a node and their other ends, in the order of the ids of these ends, then of the edges."""
    step = graph.step(np.array([node]))
    order = np.lexsort((graph.edges.rank(step.edges), graph.nodes.rank(step.nodes)))
    return list(zip(step.edges[order].tolist(), step.nodes[order].tolist(), strict=True))


def _find_rest(
    graph: WalkGraph, node: int, first_edge: int, other: int, limit: int | None, *, is_all: bool
) -> WalkList | None:
    """Return the shortest walks from the other end of an edge back to the node, without that edge."""
    if limit is not None and limit < 0:
        return None
    if other == node:
        return build_walks(np.array([[node]]), np.zeros((1, 0), np.int64))
    # The other end is inside of the cycle.
    if not len(graph.keep_inner(np.array([other]))):
        return None
    without = replace(graph, banned_edge=first_edge)
    levels = find_pair_levels(without, other, node, limit)
    if levels is None:
        return None
    return list_smallest(without, levels) if is_all else pick_smallest(without, levels)


def _put_before(rest: WalkList, node: int, first_edge: int) -> WalkList:
    """Return walks with one edge more at their beginning."""
    nodes = np.insert(rest.nodes, rest.node_starts[:-1], node)
    edges = np.insert(rest.edges, rest.edge_starts[:-1], first_edge)
    costs: Costs | None = rest.costs
    return WalkList(rest.lengths + 1, nodes, edges, costs)
