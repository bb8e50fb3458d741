"""Find the shortest walks between two nodes by a breadth-first search from both ends, which meet in the middle.

Each side stays small: between two nodes of a graph of millions of edges, a search from one side reads most of them.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.bindings import Positions
from omnigraph.engine.operators.distinct import deduplicate
from omnigraph.engine.operators.walks.all_walks import WalkLevel, trace_walks
from omnigraph.engine.operators.walks.walk_graph import WalkGraph
from omnigraph.engine.operators.walks.walk_list import WalkList, build_walks

Ints = Positions
# The distance of a node that was not reached.
_UNREACHED = -1
_DISTANCE_BYTES = 4


@dataclass(slots=True)
class _Side:
    """The search from one end: the distance of each node from it, and the nodes of each distance."""

    graph: WalkGraph
    is_back: bool
    distances: NDArray[np.int32]
    levels: list[Ints] = field(default_factory=list)

    @property
    def depth(self) -> int:
        """The distance of the last level."""
        return len(self.levels) - 1

    def count_next(self) -> int:
        """Return the number of edges that the next step reads."""
        lists = self.graph.back if self.is_back else self.graph.onward
        return int(lists.count_neighbours(self.levels[-1]).sum())

    def advance(self) -> None:
        """Add the nodes one edge further."""
        # Only the end itself need not be a node that may be inside.
        at = self.levels[-1] if self.depth == 0 else self.graph.keep_inner(self.levels[-1])
        reached = self.graph.step(at, is_back=self.is_back).nodes.astype(np.int64)
        new = deduplicate(reached[self.distances[reached] == _UNREACHED])
        self.distances[new] = len(self.levels)
        self.levels.append(new)

    def trace_levels(self, nodes: Ints, distance: int) -> list[Ints]:
        """Return the nodes on the shortest walks from the end to these nodes, by distance, without these nodes."""
        levels = []
        for closer in range(distance - 1, -1, -1):
            reached = self.graph.step(nodes, is_back=not self.is_back).nodes.astype(np.int64)
            nodes = deduplicate(reached[self.distances[reached] == closer])
            nodes = nodes if closer == 0 else self.graph.keep_inner(nodes)
            levels.append(nodes)
        return levels[::-1]


def find_pair_levels(graph: WalkGraph, start: int, end: int, high: int | None) -> list[Ints] | None:
    """Return the nodes on all shortest walks between two different nodes, by their distance from the start.

    Return None if there is no walk of at most `high` edges.
    """
    nbytes = 2 * graph.size * _DISTANCE_BYTES
    graph.budget.claim(nbytes, graph.label)
    onward, back = (_start_side(graph, node, is_back=is_back) for node, is_back in ((start, False), (end, True)))
    try:
        while high is None or onward.depth + back.depth < high:
            side, other = (onward, back) if onward.count_next() <= back.count_next() else (back, onward)
            side.advance()
            if not len(side.levels[-1]):
                return None
            # The sides have not met before, so they can only meet in the last levels of both.
            reached = side.levels[-1]
            met = reached[other.distances[reached] == other.depth]
            met = met if other.depth == 0 else graph.keep_inner(met)
            if len(met):
                before = onward.trace_levels(met, onward.depth)
                after = back.trace_levels(met, back.depth)
                return [*before, met, *reversed(after)]
        return None
    finally:
        graph.budget.release(nbytes)


def _start_side(graph: WalkGraph, node: int, *, is_back: bool) -> _Side:
    distances = np.full(graph.size, _UNREACHED, np.int32)
    distances[node] = 0
    return _Side(graph, is_back, distances, [np.array([node])])


def pick_smallest(graph: WalkGraph, levels: list[Ints]) -> WalkList:
    """Return the smallest of the walks that lead through the levels, by node ids, then by edge ids."""
    nodes = [int(levels[0][0])]
    # Every node of a level leads on to the end, so the smallest next one is always right.
    for level in levels[1:]:
        graph.budget.check()
        reached = graph.step(np.array(nodes[-1:])).nodes
        candidates = np.intersect1d(reached, level)
        nodes.append(int(candidates[np.argmin(graph.nodes.rank(candidates))]))
    path = np.array(nodes)
    return build_walks(path[None, :], graph.pick_edges(path[:-1], path[1:])[None, :])


def list_smallest(graph: WalkGraph, levels: list[Ints]) -> WalkList:
    """Return all walks that lead through the levels."""
    none = np.zeros(0, np.int64)
    walks = [WalkLevel(none, levels[0], none)]
    for level in levels[1:]:
        step = graph.step(walks[-1].nodes)
        step = step.filter(_is_in(step.nodes, level))
        graph.budget.claim(len(step.rows) * 8 * (2 * len(levels) + 1), f"{graph.label} with {len(levels) - 1} edges")
        walks.append(WalkLevel(step.rows, step.nodes, step.edges))
    return trace_walks(walks, np.arange(len(walks[-1].nodes)), is_back=False)


def _is_in(nodes: Positions, ascending: Ints) -> NDArray[np.bool_]:
    if not len(ascending):
        return np.zeros(len(nodes), np.bool_)
    at = np.minimum(np.searchsorted(ascending, nodes), len(ascending) - 1)
    return np.asarray(ascending[at] == nodes)
