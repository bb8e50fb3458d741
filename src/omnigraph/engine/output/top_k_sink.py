"""What is kept of matches that come part by part: only what the answer can still depend on.

Whatever the pattern makes, a query holds no more than its answer needs: of an order with a limit the first rows, of
distinct rows one each. What is kept is finished as all of the matches would be.
"""

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.bindings import Bindings
from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.operators.chunking import concat_bindings, empty_bindings
from omnigraph.engine.operators.expand import bindings_nbytes
from omnigraph.engine.output.distinct import select_distinct
from omnigraph.engine.output.projection import Rows, build_frame
from omnigraph.engine.output.score_cache import ScoreCache
from omnigraph.engine.output.sort import SortKey, build_sort_keys, sort_rows, sort_runs
from omnigraph.query.expr import Bm25, Nearest, Rrf, find_variables
from omnigraph.query.logical_plan import ReadQuery

FIRST_CHUNK_ROWS = 1 << 16
"""How many rows the first part has when a few rows may be all that is asked for; each part has twice as many."""
_BYTES_PER_VALUE = 8


class TopKSink:
    """The matches of a query without groups, as far as they matter. What is added has been claimed from the budget."""

    def __init__(self, query: ReadQuery, context: ExecutionContext, row_limit: int | None, *, chunk_rows: int) -> None:
        self._query, self._context, self._row_limit = query, context, row_limit
        self._chunk_rows = self.next_chunk_rows = chunk_rows
        self._chunks: list[Bindings] = []
        self._size = self._size_after_pruning = self.rows_received = 0
        self._has_sorted_input = False
        self._output = [column.value for column in query.output]
        self._is_one_row_enough = query.distinct and not any(map(find_variables, self._output))
        self._is_pruning = False
        self._sort_keys: tuple[SortKey, ...] = ()
        self._scores: ScoreCache | None = None
        if any(isinstance(expr, Rrf) for expr in query.results):  # a row's place depends on all others
            return
        if isinstance(query.rank, Nearest | Bm25) and self._row_limit is not None:
            self._scores = ScoreCache(query, query.rank, context)
            rank = SortKey(query.rank, descending=isinstance(query.rank, Bm25))
            self._sort_keys, self._is_pruning = tuple(build_sort_keys(query, rank)), True
        elif query.rank is None and query.is_ordered and self._row_limit is not None:
            self._sort_keys, self._is_pruning = tuple(build_sort_keys(query)), True
            self.next_chunk_rows = min(chunk_rows, max(FIRST_CHUNK_ROWS, 2 * self._row_limit))
        elif query.distinct:
            self._is_pruning = True

    # --- what comes in, what is kept ------------------------------------------------------------------

    def add(self, chunk: Bindings) -> None:
        """More matches."""
        if self._scores is not None and self._has_sorted_input:  # they are counted
            before = chunk
            chunk = self._scores.select_scored(before)
            self._context.budget.release(bindings_nbytes(before) - bindings_nbytes(chunk))
        if not chunk.size:
            return
        self._chunks.append(chunk)
        self._size += chunk.size
        self.rows_received += chunk.size
        if self._is_pruning and self._size - self._size_after_pruning > max(
            self._size_after_pruning, self._chunk_rows // 4
        ):
            self._prune_matches()

    def finalize(self) -> Bindings:
        """All that is kept. A single part comes out as it came in."""
        if len(self._chunks) > 1:
            self._concat_chunks()
            if self._is_pruning:
                self._prune_matches()
        return self._chunks[0] if self._chunks else empty_bindings(has_multiplicity=False)

    def _concat_chunks(self) -> None:
        budget, needed = self._context.budget, sum(map(bindings_nbytes, self._chunks))
        budget.claim(needed, "the matches of the pattern")
        self._chunks = [concat_bindings(self._chunks)]
        budget.release(needed)

    def _prune_matches(self) -> None:
        """Let go of what no answer depends on."""
        if len(self._chunks) > 1:
            self._concat_chunks()
        (whole,) = self._chunks
        budget, needed = (
            self._context.budget,
            whole.size * _BYTES_PER_VALUE * (len(whole.columns) + len(self._output) + 3),
        )
        budget.claim(needed, f"comparing {whole.size:,} rows")
        kept = self._select_top_k(whole) if self._sort_keys else self._deduplicate(whole)
        budget.release(needed)
        budget.claim(bindings_nbytes(kept), "the matches of the pattern")
        budget.release(bindings_nbytes(whole))
        self._chunks, self._size, self._size_after_pruning = [kept], kept.size, kept.size

    def _deduplicate(self, found: Bindings) -> Bindings:
        return select_distinct(build_frame(self._query, found, self._context), self._output).bindings

    def _select_top_k(self, found: Bindings) -> Bindings:
        found = self._deduplicate(found) if self._query.distinct else found
        return self._take_first(found, self._sort_keys)

    def _take_first(self, found: Bindings, keys: Sequence[SortKey]) -> Bindings:
        """The first rows by some keys, as many as are asked for."""
        if self._scores is None or self._scores.variable not in found.columns:
            frame = build_frame(self._query, found, self._context)
        else:
            found = self._scores.select_scored(found)
            frame = self._scores.build_frame(found)
        return found.take(sort_rows(frame, keys, self._row_limit))

    # --- the order in which parts should come -----------------------------------------------------------

    def has_leading_keys(self, bound: Collection[str]) -> bool:
        """Whether these variables decide about the order of the answer before all others do."""
        return bool(self._find_leading_keys(bound))

    def sort_by_leading_keys(self, bindings: Bindings) -> tuple[Rows, NDArray[np.bool_]]:
        """The rows in that order, as far as they can be in the answer, and which differ there from the one before."""
        self._has_sorted_input = True
        lead = self._find_leading_keys(bindings.columns)
        if self._scores is None:
            return sort_runs(build_frame(self._query, bindings, self._context), lead)
        scored = self._scores.find_scored_rows(bindings)
        rows, is_new = sort_runs(self._scores.build_frame(bindings.take(scored)), lead)
        return scored[rows], is_new

    def prune(self, side: Bindings) -> Bindings:
        """What is needed of one side of a product that is the whole pattern: for any row of the other, no more.

        With a row of the other side at hand, only the keys of this side decide; equal rows must not be one in the end.
        """
        if self._query.distinct or self._row_limit is None or side.size <= self._row_limit:
            return side
        keys = [
            key
            for key in self._sort_keys
            if key.expr is not None and set(find_variables(key.expr)) <= side.columns.keys()
        ]
        if not keys:
            return side
        return self._take_first(side, keys)

    def _find_leading_keys(self, bound: Collection[str]) -> tuple[SortKey, ...]:
        """The keys, from the first on, that the variables decide."""
        count = 0
        for key in self._sort_keys if bound else ():
            if key.expr is None or not set(find_variables(key.expr)).issubset(bound):
                break
            count += 1
        return self._sort_keys[:count]

    def end_chunk(self, *, is_complete: bool) -> None:
        """A part has come; later ones may be larger."""
        del is_complete
        self.next_chunk_rows = min(2 * self.next_chunk_rows, self._chunk_rows)

    @property
    def is_deduplicating(self) -> bool:
        """Whether equal rows become one here anyway."""
        return self._query.distinct

    @property
    def is_done(self) -> bool:
        """Whether nothing that comes makes a difference: no row is asked for, or one is enough and is there."""
        return self._row_limit == 0 or (self._is_one_row_enough and self._size > 0)

    def is_full(self, since: int) -> bool:
        """Whether enough came since so many were received: nothing that comes behind these makes a difference."""
        if self._row_limit is None or not self._sort_keys or self.rows_received - since < self._row_limit:
            return False
        if not self._query.distinct:
            return True
        if since:  # some of those that came since may be equal to earlier ones
            return False
        if self._size_after_pruning < self._size:
            self._prune_matches()
        return self._size >= self._row_limit
