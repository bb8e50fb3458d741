"""The scores of a rank, worked out once for each row of a table, however often it comes."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.bindings import Bindings
from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.kernels import find_distinct
from omnigraph.engine.output.projection import Frame, Rows, ScoreColumn, build_frame, find_ranked_variable
from omnigraph.engine.search.ranking import score_rows
from omnigraph.query.expr import Bm25, Nearest
from omnigraph.query.logical_plan import ReadQuery
from omnigraph.storage.arrow_buffers import fill_nulls, is_valid

_BYTES_PER_ROW = 10
"""What is kept of each row of the table."""


class ScoreCache:
    """Scores of `nearest` or `bm25`, which are the same whichever other rows there are."""

    def __init__(self, query: ReadQuery, rank: Nearest | Bm25, reading: ExecutionContext) -> None:
        self._query, self._rank, self._context = query, rank, reading
        self.variable = find_ranked_variable(rank)
        self._type = query.pattern.types[self.variable].name
        self._is_scored: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self._has_score: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self._values: NDArray[np.float64] = np.zeros(0, np.float64)

    def find_scored_rows(self, found: Bindings) -> Rows:
        """Which rows have a score, by number: the others are not in the answer."""
        at = found.columns[self.variable].astype(np.int64, copy=False)
        self._score_new_rows(at)
        return np.flatnonzero(self._has_score[at])

    def select_scored(self, found: Bindings) -> Bindings:
        """Only those rows."""
        rows = self.find_scored_rows(found)
        return found if len(rows) == found.size else found.take(rows)

    def build_frame(self, found: Bindings) -> Frame:
        """Rows that have scores, with them."""
        self._score_new_rows(found.columns[self.variable].astype(np.int64, copy=False))
        at = np.flatnonzero(self._has_score)
        frame = build_frame(self._query, found, self._context)
        return replace(frame, scores={self._rank: ScoreColumn(at, self._values[at])})

    def _score_new_rows(self, at: NDArray[np.int64]) -> None:
        if not len(self._is_scored):
            size = self._context.get_reader(self._type).size
            self._context.budget.claim(size * _BYTES_PER_ROW, "the scores of a rank")
            self._is_scored, self._has_score = np.zeros(size, np.bool_), np.zeros(size, np.bool_)
            self._values = np.zeros(size, np.float64)
        fresh = find_distinct(at[~self._is_scored[at]], self._context.budget.check)
        if len(fresh):
            scores = score_rows(self._context, self._rank, self._type, fresh)
            self._is_scored[fresh] = True
            self._has_score[fresh] = is_valid(scores)
            self._values[fresh] = fill_nulls(scores, 0.0)
