"""Find the shortest walks from many nodes at the same time: the smallest one for each pair of ends, or all.

A breadth-first search from the starts or from the ends. The levels of the search are kept in an order that makes the
smallest walk the first one found:

- From the starts, the nodes of a level are in the order of the smallest walks that lead there. The first node of a
  level that has an edge to a new node continues the smallest walk to it, because walks of one length are compared from
  their beginning.
- From the ends, they are in the order of their ids: the smallest walk from a new node goes on with the smallest one.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.bindings import Positions
from omnigraph.engine.operators.walks.all_walks import WalkLevel, trace_walks
from omnigraph.engine.operators.walks.walk_graph import Neighbours, WalkGraph
from omnigraph.engine.operators.walks.walk_list import NO_WALKS, WalkList, build_walks, concat_walks

Ints = Positions
Mask = NDArray[np.bool_]

# (origin, node) pairs of one search: each takes a mark and a number, and should fit into the processor's cache.
MAX_CELLS = 1 << 21
_CELL_BYTES = 9
# A reached pair: its origin, its node, the pair it was reached from.
_REACHED_BYTES = 24
# The distance of nodes beyond the bound, which is at most 64.
_FAR = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortestSearch:
    """What to find: the walks from each origin to the nodes at a distance of `low` to `high` edges; no end is None.

    With `is_back`, the origins are the ends of the walks. An origin at distance 0 is found if `low` is 0; otherwise it
    is found again where a cycle leads back to it, if the edges are directed.
    """

    origins: Positions
    low: int
    high: int | None
    is_back: bool = False
    # By number of the origin and node, which pairs are requested; None for all.
    wanted: "WantedPairs | None" = None
    # Returns which nodes may be the far end of a walk; None for all.
    accepts: Callable[[Positions], Mask | None] | None = None

    def select_results(self, wanted: "WantedPairs | None", level: "ReachedLevel") -> Ints:
        """Return the numbers of the pairs of a level that are results."""
        mask = None if wanted is None else wanted.find(level.numbers, level.nodes)
        if mask is None and self.accepts is not None:
            mask = self.accepts(level.nodes)
        return np.arange(len(level.nodes)) if mask is None else np.flatnonzero(mask)


@dataclass(frozen=True, slots=True)
class WantedPairs:
    """Requested pairs as ascending keys `number of the origin * size + node`."""

    keys: Ints
    size: int

    def find(self, numbers: Ints, nodes: Positions) -> Mask:
        """Return which of these pairs are requested."""
        keys = numbers * self.size + nodes
        if not len(self.keys):
            return np.zeros(len(keys), np.bool_)
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.asarray(self.keys[at] == keys)

    def select(self, begin: int, end: int) -> "WantedPairs":
        """Return the pairs of a range of origins, numbered from 0."""
        first, last = np.searchsorted(self.keys, [begin * self.size, end * self.size])
        return WantedPairs(self.keys[first:last] - begin * self.size, self.size)


@dataclass(frozen=True, slots=True)
class ReachedLevel:
    """The pairs of an origin and a node at one distance, in order, with the pair that each was reached from."""

    numbers: Ints
    nodes: Positions
    parents: Ints


@dataclass(frozen=True, slots=True)
class SearchBatch:
    """The levels of a search from some of the origins, and which of its pairs are results, level by level."""

    origins: Positions
    first_number: int
    levels: list[ReachedLevel]
    results: list[Ints]


def find_shortest(graph: WalkGraph, search: ShortestSearch) -> tuple[WalkList, Ints]:
    """Return the smallest of the shortest walks for each pair, and the number of the origin of each walk."""
    walks: list[WalkList] = []
    numbers: list[Ints] = []
    for batch in _search(graph, search):
        for length, at in enumerate(batch.results):
            if len(at):
                walks.append(_trace(graph, batch.levels[: length + 1], at, is_back=search.is_back))
                numbers.append(batch.levels[length].numbers[at] + batch.first_number)
    return concat_walks(walks or [NO_WALKS]), np.concatenate([np.zeros(0, np.int64), *numbers])


def find_all_shortest(graph: WalkGraph, search: ShortestSearch) -> tuple[WalkList, Ints]:
    """Return all shortest walks for each pair, and the number of the origin of each walk."""
    walks: list[WalkList] = []
    numbers: list[Ints] = []
    for batch in _search(graph, search):
        for length, at in enumerate(batch.results):
            if len(at):
                level = batch.levels[length]
                traced, rows = _trace_all(graph, batch, length, at, is_back=search.is_back)
                walks.append(traced)
                numbers.append(level.numbers[at][rows] + batch.first_number)
    return concat_walks(walks or [NO_WALKS]), np.concatenate([np.zeros(0, np.int64), *numbers])


def measure_distances(graph: WalkGraph, ends: Positions, high: int) -> NDArray[np.uint8]:
    """Return the distance of every node to each end, as one array after the other; 255 if it is more than `high`."""
    graph.budget.claim(len(ends) * graph.size, graph.label)
    distances = np.full(len(ends) * graph.size, _FAR, np.uint8)
    search = ShortestSearch(origins=ends, low=0, high=high, is_back=True)
    for batch in _search(graph, search):
        for distance, level in enumerate(batch.levels):
            distances[(level.numbers + batch.first_number) * graph.size + level.nodes] = distance
    graph.budget.release(len(ends) * graph.size)
    return distances


# --- search --------------------------------------------------------------------------------------------


def _search(graph: WalkGraph, search: ShortestSearch) -> Iterator[SearchBatch]:
    """Yield the levels of the search for batches of origins, whose memory is released after each."""
    batch_size = max(1, MAX_CELLS // max(graph.size, 1))
    for begin in range(0, len(search.origins), batch_size):
        origins = search.origins[begin : begin + batch_size]
        wanted = None if search.wanted is None else search.wanted.select(begin, begin + len(origins))
        nbytes = len(origins) * graph.size * _CELL_BYTES
        graph.budget.claim(nbytes, graph.label)
        batch = SearchBatch(origins, begin, [], [])
        _fill_batch(graph, search, wanted, batch)
        reached = sum(len(level.nodes) for level in batch.levels) * _REACHED_BYTES
        graph.budget.claim(reached, graph.label)
        yield batch
        graph.budget.release(nbytes + reached)


def _fill_batch(graph: WalkGraph, search: ShortestSearch, wanted: WantedPairs | None, batch: SearchBatch) -> None:
    count = len(batch.origins)
    numbers = np.arange(count)
    level = ReachedLevel(numbers, batch.origins.astype(np.int64), numbers)
    is_reached = np.zeros(count * graph.size, np.bool_)
    # By pair, the first of the edges that lead to it in a step; only entries that were just written are read.
    first_rows = np.empty(count * graph.size, np.int64)
    # A cycle may lead back to an origin, unless it is a result already or the edges have no direction.
    if search.low == 0 or graph.is_undirected:
        is_reached[numbers * graph.size + level.nodes] = True
    left = None if wanted is None else len(wanted.keys)
    distance = 0
    while len(level.nodes):
        batch.levels.append(level)
        results: Ints = np.zeros(0, np.int64)
        if distance >= search.low:
            results = search.select_results(wanted, level)
        batch.results.append(results)
        left = None if left is None else left - len(results)
        if distance == search.high or left == 0:
            return
        level = _advance(graph, search, level, is_reached, first_rows, is_first=distance == 0)
        distance += 1


def _advance(
    graph: WalkGraph,
    search: ShortestSearch,
    level: ReachedLevel,
    is_reached: Mask,
    first_rows: Ints,
    *,
    is_first: bool,
) -> ReachedLevel:
    """Return the pairs one edge further, in the order of their walks."""
    rows = np.arange(len(level.nodes))
    inner = None if is_first else graph.find_inner(level.nodes)
    if inner is not None:
        rows = rows[inner]
    step = graph.step(level.nodes[rows], is_back=search.is_back)
    parents = rows[step.rows]
    cells = level.numbers[parents] * graph.size + step.nodes
    fresh = np.flatnonzero(~is_reached[cells])
    cells, parents = cells[fresh], parents[fresh]
    order = np.arange(len(cells))
    # Of several assignments to one element the last one stays: the first edge, as they are written in reverse.
    first_rows[cells[::-1]] = order[::-1]
    is_kept = first_rows[cells] == order
    cells, parents = cells[is_kept], parents[is_kept]
    is_reached[cells] = True
    numbers, nodes = np.divmod(cells, graph.size)
    ranks = graph.nodes.rank(nodes)
    in_order = np.lexsort((ranks, numbers if search.is_back else parents))
    return ReachedLevel(numbers[in_order], nodes[in_order], parents[in_order])


# --- walks ---------------------------------------------------------------------------------------------


def _trace(graph: WalkGraph, levels: list[ReachedLevel], at: Ints, *, is_back: bool) -> WalkList:
    """Return the walks that reached these pairs of the last level."""
    length = len(levels) - 1
    graph.budget.claim(len(at) * 8 * (2 * length + 2), f"{graph.label} with {length} edges")
    nodes = np.empty((len(at), length + 1), np.int64)
    for number in range(length, -1, -1):
        nodes[:, length - number if is_back else number] = levels[number].nodes[at]
        at = levels[number].parents[at]
    edges = np.empty((len(nodes), length), np.int64)
    for number in range(length):
        edges[:, number] = graph.pick_edges(nodes[:, number], nodes[:, number + 1])
    return build_walks(nodes, edges)


def _trace_all(graph: WalkGraph, batch: SearchBatch, length: int, at: Ints, *, is_back: bool) -> tuple[WalkList, Ints]:
    """Return all shortest walks to these pairs of a level, and the row of `at` that each belongs to."""
    last = batch.levels[length]
    numbers = last.numbers[at]
    rows = np.arange(len(at))
    none = np.zeros(0, np.int64)
    # From the far end of the walks to the origin, which is the far end of the list of levels.
    levels = [WalkLevel(none, last.nodes[at], none)]
    for distance in range(length - 1, -1, -1):
        step = graph.step(levels[-1].nodes, is_back=not is_back)
        step = step.filter(_find_at_distance(graph, batch, distance, numbers[rows[step.rows]], step))
        graph.budget.claim(len(step.rows) * 40, f"{graph.label} with {length} edges")
        levels.append(WalkLevel(step.rows, step.nodes, step.edges))
        rows = rows[step.rows]
    return trace_walks(levels, np.arange(len(rows)), is_back=not is_back), rows


def _find_at_distance(graph: WalkGraph, batch: SearchBatch, distance: int, numbers: Ints, step: Neighbours) -> Mask:
    """Return which of the reached nodes are at a distance from their origin, and may be inside of a walk."""
    if distance == 0:
        return np.asarray(step.nodes == batch.origins[numbers])
    level = batch.levels[distance]
    keys = np.sort(level.numbers * graph.size + level.nodes)
    mask = WantedPairs(keys, graph.size).find(numbers, step.nodes)
    inner = graph.find_inner(step.nodes)
    return mask if inner is None else mask & inner
