"""The graph that a walk may use: the edges that pass, read both ways, and the order of ids that breaks ties."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.engine.bindings import Positions
from omnigraph.engine.operators.cycle_close import search_lists
from omnigraph.engine.operators.neighbour_lists import AdjacencyLists
from omnigraph.engine.operators.walks.walk_list import Costs, concat_ranges
from omnigraph.engine.query_budget import Budget
from omnigraph.storage.arrow_buffers import read_numbers

# Reads the ids at distinct ascending positions.
ReadIds = Callable[[Positions], pa.Array]
Ints = Positions

# From this share of all positions on, ids are ranked for the whole table at once.
_MIN_RANKED_DIVISOR = 4
# Memory per gathered neighbour: its row, its position, its edge, and the masks.
STEP_ROW_BYTES = 40


class IdOrder:
    """The order of the ids of a table; equal ids of different types in a union are ordered by position."""

    def __init__(self, size: int, read_ids: ReadIds, list_positions: Callable[[], Positions]) -> None:
        self._size = size
        self._read_ids = read_ids
        self._list_positions = list_positions
        self._ranks: Ints | None = None
        self._requested = 0

    def rank(self, positions: Positions) -> Ints:
        """Return integers in the order of the ids at these positions; they compare within one call only."""
        if len(positions) < 2:
            return np.zeros(len(positions), np.int64)
        self._requested += len(positions)
        if self._ranks is None and self._requested * _MIN_RANKED_DIVISOR >= self._size:
            self._ranks = self._rank_table()
        if self._ranks is not None:
            return self._ranks[positions]
        distinct, rows = np.unique(positions, return_inverse=True)
        return self._rank_distinct(distinct)[rows.reshape(-1)]

    def _rank_table(self) -> Ints:
        live = self._list_positions()
        ranks = np.zeros(self._size, np.int64)
        ranks[live] = self._rank_distinct(live)
        return ranks

    def _rank_distinct(self, positions: Positions) -> Ints:
        # The sort is stable, so equal ids keep the order of their positions.
        order = read_numbers(pc.sort_indices(self._read_ids(positions)))
        ranks = np.empty(len(positions), np.int64)
        ranks[order] = np.arange(len(positions))
        return ranks


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbours:
    """One step from many nodes: for each edge the number of its row, the node it leads to, and its position."""

    rows: Ints
    nodes: Positions
    edges: Positions

    def filter(self, mask: NDArray[np.bool_]) -> "Neighbours":
        """Return only the edges of the mask."""
        return Neighbours(rows=self.rows[mask], nodes=self.nodes[mask], edges=self.edges[mask])


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkGraph:
    """The edges that pass the conditions of a hop, from the start of a walk towards its end, and back.

    Lists have their edges; parallel ones are separate. `inner` are the nodes that may be inside of a walk, None for
    all. An undirected graph has the same lists for both directions.
    """

    onward: AdjacencyLists
    back: AdjacencyLists
    size: int
    is_undirected: bool
    nodes: IdOrder
    edges: IdOrder
    budget: Budget
    label: str
    inner: NDArray[np.bool_] | None = None
    weights: Costs | None = None
    # An edge that no walk may use.
    banned_edge: int | None = field(default=None)

    def step(self, at: Positions, *, is_back: bool = False) -> Neighbours:
        """Return the edges that leave these nodes, or with `is_back` those that lead to them, if they fit in memory."""
        lists = self.back if is_back else self.onward
        count = int(lists.count_neighbours(at).sum())
        self.budget.check()
        self.budget.check_size(count * STEP_ROW_BYTES, self.label)
        gathered = lists.gather(at)
        assert gathered.edges is not None  # noqa: S101 - the lists of a walk have edges
        step = Neighbours(rows=gathered.repeat_rows(), nodes=gathered.targets, edges=gathered.edges)
        return step if self.banned_edge is None else step.filter(step.edges != self.banned_edge)

    def find_inner(self, nodes: Positions) -> NDArray[np.bool_] | None:
        """Return which of these nodes may be inside of a walk; None for all."""
        return None if self.inner is None else self.inner[nodes]

    def keep_inner(self, nodes: Positions) -> Positions:
        """Return those of the nodes that may be inside of a walk."""
        return nodes if self.inner is None else nodes[self.inner[nodes]]

    def list_parallel(self, sources: Positions, targets: Positions) -> Neighbours:
        """Return all edges from each source to its target, by row."""
        begins = search_lists(self.onward, sources, targets, self.budget.check)
        counts = search_lists(self.onward, sources, targets, self.budget.check, past=True) - begins
        at = concat_ranges(begins, counts)
        assert self.onward.edges is not None  # noqa: S101 - the lists of a walk have edges
        step = Neighbours(
            rows=np.repeat(np.arange(len(sources)), counts), nodes=self.onward.targets[at], edges=self.onward.edges[at]
        )
        return step if self.banned_edge is None else step.filter(step.edges != self.banned_edge)

    def pick_edges(self, sources: Positions, targets: Positions) -> Positions:
        """Return the edge with the smallest id from each source to its target; there is at least one."""
        step = self.list_parallel(sources, targets)
        if len(step.rows) == len(sources):
            return step.edges
        order = np.lexsort((self.edges.rank(step.edges), step.rows))
        return step.edges[order[find_first(step.rows[order])]]


def find_first(ordered: Ints) -> Ints:
    """Return where each run of equal values begins."""
    is_first = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    return np.flatnonzero(is_first)
