"""The scores of a rank, worked out once for each row of a table, however often it comes."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.bindings import Bindings
from omnigraph.engine.execution_context import Reading
from omnigraph.engine.kernels import distinct_values
from omnigraph.engine.output.projection import Frame, Rows, ScoreColumn, frame_of, ranked_variable
from omnigraph.engine.search.ranking import score_values
from omnigraph.query.expr import Bm25, Nearest
from omnigraph.query.logical_plan import ReadQuery
from omnigraph.storage.arrow_buffers import filled, is_given

_BYTES = 10
"""What is kept of each row of the table."""


class KnownScores:
    """Scores of `nearest` or `bm25`, which are the same whichever other rows there are."""

    def __init__(self, query: ReadQuery, rank: Nearest | Bm25, reading: Reading) -> None:
        self._query, self._rank, self._reading = query, rank, reading
        self.variable = ranked_variable(rank)
        self._type = query.pattern.types[self.variable].name
        self._asked: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self._has: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self._values: NDArray[np.float64] = np.zeros(0, np.float64)

    def rows(self, found: Bindings) -> Rows:
        """Which rows have a score, by number: the others are not in the answer."""
        at = found.columns[self.variable].astype(np.int64, copy=False)
        self._ask(at)
        return np.flatnonzero(self._has[at])

    def of(self, found: Bindings) -> Bindings:
        """Only those rows."""
        rows = self.rows(found)
        return found if len(rows) == found.size else found.take(rows)

    def frame(self, found: Bindings) -> Frame:
        """Rows that have scores, with them."""
        self._ask(found.columns[self.variable].astype(np.int64, copy=False))
        at = np.flatnonzero(self._has)
        frame = frame_of(self._query, found, self._reading)
        return replace(frame, scores={self._rank: ScoreColumn(at, self._values[at])})

    def _ask(self, at: NDArray[np.int64]) -> None:
        if not len(self._asked):
            size = self._reading.rows(self._type).size
            self._reading.budget.claim(size * _BYTES, "the scores of a rank")
            self._asked, self._has = np.zeros(size, np.bool_), np.zeros(size, np.bool_)
            self._values = np.zeros(size, np.float64)
        fresh = distinct_values(at[~self._asked[at]], self._reading.budget.check)
        if len(fresh):
            scores = score_values(self._reading, self._rank, self._type, fresh)
            self._asked[fresh] = True
            self._has[fresh] = is_given(scores)
            self._values[fresh] = filled(scores, 0.0)
