"""What is kept of matches that come part by part: only what the answer can still depend on.

Whatever the pattern makes, a query holds no more than its answer needs: of an order with a limit the first rows, of
distinct rows one each. What is kept is finished as all of the matches would be.
"""

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.bindings import Bindings
from omnigraph.engine.execution_context import Reading
from omnigraph.engine.operators.chunking import nothing, put_together
from omnigraph.engine.operators.expand import held
from omnigraph.engine.output.distinct import distinct_rows
from omnigraph.engine.output.projection import Rows, frame_of
from omnigraph.engine.output.score_cache import KnownScores
from omnigraph.engine.output.sort import Key, keys_of, ordered_rows, ordered_runs
from omnigraph.query.expr import Bm25, Nearest, Rrf, variables
from omnigraph.query.logical_plan import ReadQuery

FIRST_ROWS = 1 << 16
"""How many rows the first part has when a few rows may be all that is asked for; each part has twice as many."""
_WORD = 8


class Keeping:
    """The matches of a query without groups, as far as they matter. What is added has been claimed from the budget."""

    def __init__(self, query: ReadQuery, reading: Reading, last: int | None, *, chunk_rows: int) -> None:
        self._asked, self._reading, self._last = query, reading, last
        self._chunk_rows = self.part_rows = chunk_rows
        self._parts: list[Bindings] = []
        self._size = self._reduced = self.received = 0
        self._is_led = False
        self._exprs = [column.value for column in query.output]
        self._is_one_enough = query.distinct and not any(map(variables, self._exprs))
        self._reduces = False
        self._keys: tuple[Key, ...] = ()
        self._scores: KnownScores | None = None
        if any(isinstance(expr, Rrf) for expr in query.results):  # a row's place depends on all others
            return
        if isinstance(query.rank, Nearest | Bm25) and self._last is not None:
            self._scores = KnownScores(query, query.rank, reading)
            rank = Key(query.rank, descending=isinstance(query.rank, Bm25))
            self._keys, self._reduces = tuple(keys_of(query, rank)), True
        elif query.rank is None and query.is_ordered and self._last is not None:
            self._keys, self._reduces = tuple(keys_of(query)), True
            self.part_rows = min(chunk_rows, max(FIRST_ROWS, 2 * self._last))
        elif query.distinct:
            self._reduces = True

    # --- what comes in, what is kept ------------------------------------------------------------------

    def add(self, found: Bindings) -> None:
        """More matches."""
        if self._scores is not None and self._is_led:  # they are counted
            before = found
            found = self._scores.of(before)
            self._reading.budget.release(held(before) - held(found))
        if not found.size:
            return
        self._parts.append(found)
        self._size += found.size
        self.received += found.size
        if self._reduces and self._size - self._reduced > max(self._reduced, self._chunk_rows // 4):
            self._shrink()

    def found(self) -> Bindings:
        """All that is kept. A single part comes out as it came in."""
        if len(self._parts) > 1:
            self._put_together()
            if self._reduces:
                self._shrink()
        return self._parts[0] if self._parts else nothing(counts=False)

    def _put_together(self) -> None:
        budget, needed = self._reading.budget, sum(map(held, self._parts))
        budget.claim(needed, "the matches of the pattern")
        self._parts = [put_together(self._parts)]
        budget.release(needed)

    def _shrink(self) -> None:
        """Let go of what no answer depends on."""
        if len(self._parts) > 1:
            self._put_together()
        (whole,) = self._parts
        budget, needed = self._reading.budget, whole.size * _WORD * (len(whole.columns) + len(self._exprs) + 3)
        budget.claim(needed, f"comparing {whole.size:,} rows")
        kept = self._best(whole) if self._keys else self._distinct(whole)
        budget.release(needed)
        budget.claim(held(kept), "the matches of the pattern")
        budget.release(held(whole))
        self._parts, self._size, self._reduced = [kept], kept.size, kept.size

    def _distinct(self, found: Bindings) -> Bindings:
        return distinct_rows(frame_of(self._asked, found, self._reading), self._exprs).bindings

    def _best(self, found: Bindings) -> Bindings:
        found = self._distinct(found) if self._asked.distinct else found
        return self._first(found, self._keys)

    def _first(self, found: Bindings, keys: Sequence[Key]) -> Bindings:
        """The first rows by some keys, as many as are asked for."""
        if self._scores is None or self._scores.variable not in found.columns:
            frame = frame_of(self._asked, found, self._reading)
        else:
            found = self._scores.of(found)
            frame = self._scores.frame(found)
        return found.take(ordered_rows(frame, keys, self._last))

    # --- the order in which parts should come -----------------------------------------------------------

    def leads(self, bound: Collection[str]) -> bool:
        """Whether these variables decide about the order of the answer before all others do."""
        return bool(self._lead(bound))

    def led(self, bindings: Bindings) -> tuple[Rows, NDArray[np.bool_]]:
        """The rows in that order, as far as they can be in the answer, and which differ there from the one before."""
        self._is_led = True
        lead = self._lead(bindings.columns)
        if self._scores is None:
            return ordered_runs(frame_of(self._asked, bindings, self._reading), lead)
        scored = self._scores.rows(bindings)
        rows, is_new = ordered_runs(self._scores.frame(bindings.take(scored)), lead)
        return scored[rows], is_new

    def foremost(self, side: Bindings) -> Bindings:
        """What is needed of one side of a product that is the whole pattern: for any row of the other, no more.

        With a row of the other side at hand, only the keys of this side decide; equal rows must not be one in the end.
        """
        if self._asked.distinct or self._last is None or side.size <= self._last:
            return side
        keys = [key for key in self._keys if key.expr is not None and set(variables(key.expr)) <= side.columns.keys()]
        if not keys:
            return side
        return self._first(side, keys)

    def _lead(self, bound: Collection[str]) -> tuple[Key, ...]:
        """The keys, from the first on, that the variables decide."""
        count = 0
        for key in self._keys if bound else ():
            if key.expr is None or not set(variables(key.expr)).issubset(bound):
                break
            count += 1
        return self._keys[:count]

    def ends_part(self, *, is_complete: bool) -> None:
        """A part has come; later ones may be larger."""
        del is_complete
        self.part_rows = min(2 * self.part_rows, self._chunk_rows)

    @property
    def merges(self) -> bool:
        """Whether equal rows become one here anyway."""
        return self._asked.distinct

    @property
    def is_done(self) -> bool:
        """Whether nothing that comes makes a difference: no row is asked for, or one is enough and is there."""
        return self._last == 0 or (self._is_one_enough and self._size > 0)

    def is_full(self, since: int) -> bool:
        """Whether enough came since so many were received: nothing that comes behind these makes a difference."""
        if self._last is None or not self._keys or self.received - since < self._last:
            return False
        if not self._asked.distinct:
            return True
        if since:  # some of those that came since may be equal to earlier ones
            return False
        if self._reduced < self._size:
            self._shrink()
        return self._size >= self._last
