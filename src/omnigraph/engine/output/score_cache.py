"""Cache the scores of a rank: each row of a table is scored once, however many matches it is in."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.bindings import Bindings
from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.kernels import find_distinct
from omnigraph.engine.output.projection import Frame, Rows, ScoreColumn, build_frame
from omnigraph.engine.physical_plan import get_type_name
from omnigraph.engine.search.ranking import rank_rows, score_rows
from omnigraph.query.expr import Bm25, Nearest
from omnigraph.query.expr_tree import find_variable
from omnigraph.query.logical_plan import ReadQuery
from omnigraph.storage.arrow_buffers import fill_nulls, is_valid

# Memory per row of the table: two flags and a score.
_BYTES_PER_ROW = 10


class ScoreCache:
    """A cache of `nearest` or `bm25` scores by position; these don't depend on which other rows match."""

    def __init__(self, query: ReadQuery, rank: Nearest | Bm25, context: ExecutionContext) -> None:
        self._query = query
        self._rank = rank
        self._context = context
        self.variable = find_variable(rank)
        self._type = get_type_name(query.types[self.variable])
        self._is_scored: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self._has_score: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self._values: NDArray[np.float64] = np.zeros(0, np.float64)

    def find_scored_rows(self, bindings: Bindings) -> Rows:
        """Return the numbers of the rows that have a score: the others are not in the result."""
        at = bindings.columns[self.variable].astype(np.int64, copy=False)
        self._score_new_rows(at)
        # A missing row indexes the last one, and has no score.
        return np.flatnonzero(self._has_score[at] & (at >= 0))

    def select_scored(self, bindings: Bindings) -> Bindings:
        """Return only the rows that have a score."""
        rows = self.find_scored_rows(bindings)
        return bindings if len(rows) == bindings.size else bindings.take(rows)

    def select_top(self, bindings: Bindings, top: int) -> Bindings:
        """Return the rows that can be among the first `top`: those whose ranked row is, or ties with the last of them.

        A search for the best rows compares far fewer than scoring each of them does: 1 million vectors of 768 took
        8 s one by one, and 0.3 s by a search.
        """
        positions = bindings.columns[self.variable].astype(np.int64, copy=False)
        bound = positions[positions >= 0]
        distinct = find_distinct(bound, self._context.budget.check)
        if len(distinct) <= top:
            return self.select_scored(bindings)
        best = rank_rows(self._context, self._rank, self._type, distinct, top, with_ties=True)
        self._allocate()
        self._is_scored[best.positions] = True
        self._has_score[best.positions] = True
        self._values[best.positions] = best.values
        is_best = np.zeros(len(self._is_scored), np.bool_)
        is_best[best.positions] = True
        return bindings.take(np.flatnonzero(is_best[positions] & (positions >= 0)))

    def build_frame(self, bindings: Bindings) -> Frame:
        """Build a frame of rows that have scores, with these scores."""
        self._score_new_rows(bindings.columns[self.variable].astype(np.int64, copy=False))
        at = np.flatnonzero(self._has_score)
        frame = build_frame(self._query, bindings, self._context)
        return replace(frame, scores={self._rank: ScoreColumn(at, self._values[at])})

    def _score_new_rows(self, at: NDArray[np.int64]) -> None:
        self._allocate()
        at = at[at >= 0]
        new = find_distinct(at[~self._is_scored[at]], self._context.budget.check)
        if len(new):
            scores = score_rows(self._context, self._rank, self._type, new)
            self._is_scored[new] = True
            self._has_score[new] = is_valid(scores)
            self._values[new] = fill_nulls(scores, 0.0)

    def _allocate(self) -> None:
        # The arrays are indexed by position, so they have the size of the table; allocated once, at the first use.
        if not len(self._is_scored):
            size = self._context.get_reader(self._type).size
            self._context.budget.claim(size * _BYTES_PER_ROW, "the scores of a rank")
            self._is_scored = np.zeros(size, np.bool_)
            self._has_score = np.zeros(size, np.bool_)
            self._values = np.zeros(size, np.float64)
