"""List every walk without a repeated edge, level by level."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.bindings import Positions
from omnigraph.engine.operators.walks.walk_graph import WalkGraph
from omnigraph.engine.operators.walks.walk_list import NO_WALKS, WalkList, build_walks, concat_walks

Mask = NDArray[np.bool_]
Ints = Positions
# Returns which walks may end here: the number of the start of each walk, and the node it has reached.
Accept = Callable[[Ints, Positions], Mask | None]
# Returns which walks can still reach an end with this number of edges more.
Prune = Callable[[Ints, Positions, int], Mask]

# A walk in progress: the number of the walk it continues, its last node and edge, the number of its start.
_WALK_BYTES = 32


@dataclass(frozen=True, slots=True)
class WalkLevel:
    """Walks of one length: each continues a walk of the level before with one more edge."""

    parents: Ints
    nodes: Positions
    edges: Positions


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkSearch:
    """What to list: walks of `low` to `high` edges from each start that end where `accepts` allows it.

    With `is_back`, the walks are found from their ends: they run from the listed nodes to the starts.
    """

    starts: Positions
    low: int
    high: int
    accepts: Accept
    prunes: Prune | None = None
    is_back: bool = False


def list_walks(graph: WalkGraph, search: WalkSearch) -> tuple[WalkList, Ints]:
    """Return every walk without a repeated edge, and the number of the start of each.

    Raises:
        QueryMemoryError: There are too many.
    """
    none = np.zeros(0, np.int64)
    numbers = np.arange(len(search.starts))
    levels = [WalkLevel(none, search.starts, none)]
    results: list[WalkList] = []
    result_numbers: list[Ints] = []
    claimed = 0
    for length in range(search.high + 1):
        if length >= search.low:
            mask = search.accepts(numbers, levels[-1].nodes)
            at = np.arange(len(numbers)) if mask is None else np.flatnonzero(mask)
            graph.budget.claim(len(at) * 8 * (2 * length + 2), f"{graph.label} with {length} edges")
            results.append(trace_walks(levels, at, is_back=search.is_back))
            result_numbers.append(numbers[at])
        if length == search.high or not len(numbers):
            break
        level = _extend(graph, search, levels, numbers)
        numbers = numbers[level.parents]
        levels.append(level)
        graph.budget.claim(len(numbers) * _WALK_BYTES, f"{graph.label} with {length + 1} edges")
        claimed += len(numbers) * _WALK_BYTES
    graph.budget.release(claimed)
    return concat_walks(results or [NO_WALKS]), np.concatenate([none, *result_numbers])


def _extend(graph: WalkGraph, search: WalkSearch, levels: list[WalkLevel], numbers: Ints) -> WalkLevel:
    """Return the walks of the last level with one more edge."""
    length = len(levels) - 1
    nodes = levels[-1].nodes
    rows = np.arange(len(nodes))
    # The last node becomes an inner one, unless it is the start.
    mask = graph.find_inner(nodes) if length else None
    if mask is not None:
        rows = rows[mask]
    step = graph.step(nodes[rows], is_back=search.is_back)
    parents = rows[step.rows]
    is_open = np.ones(len(parents), np.bool_)
    if search.prunes is not None:
        is_open &= search.prunes(numbers[parents], step.nodes, search.high - length - 1)
    # From the last edge back to the first: none may be the new one.
    ancestors: Ints = parents
    for level in reversed(levels[1:]):
        graph.budget.check()
        is_open &= level.edges[ancestors] != step.edges
        ancestors = level.parents[ancestors]
    step = step.filter(is_open)
    return WalkLevel(parents[is_open], step.nodes, step.edges)


def trace_walks(levels: list[WalkLevel], at: Ints, *, is_back: bool) -> WalkList:
    """Return the walks of the last level with these numbers, followed back through all levels."""
    length = len(levels) - 1
    nodes = np.empty((len(at), length + 1), np.int64)
    edges = np.empty((len(at), length), np.int64)
    for number in range(length, 0, -1):
        level = levels[number]
        column = length - number if is_back else number
        nodes[:, column] = level.nodes[at]
        edges[:, column if is_back else column - 1] = level.edges[at]
        at = level.parents[at]
    nodes[:, length if is_back else 0] = levels[0].nodes[at]
    return build_walks(nodes, edges)
