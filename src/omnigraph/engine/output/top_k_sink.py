"""Collect the matches of a query without aggregates, and drop the rows that its result can no longer contain.

Matches arrive in chunks. ORDER BY with LIMIT keeps the first rows, DISTINCT keeps one row per value: memory follows the
size of the result, not the number of matches. The rows that are left go through the same result pipeline as the
complete list of matches would.
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
from omnigraph.engine.output.row_selection import filter_having, select_page
from omnigraph.engine.output.score_cache import ScoreCache
from omnigraph.engine.output.sort import SortKey, build_sort_keys, sort_runs
from omnigraph.query.expr import LIST_RANKS, Bm25, Nearest, Window
from omnigraph.query.expr_tree import find_variables
from omnigraph.query.logical_plan import ReadQuery

# A small first chunk lets a small LIMIT stop early; each later chunk is twice as large. Two hops over 2 million edges,
# ordered, with LIMIT 10, took 14 ms with this value, 103 ms with 1 << 20 and 270 ms with 1 << 22. Smaller values gained
# little: 10 ms with 1 << 12, 18 ms with 1 << 10.
FIRST_CHUNK_ROWS = 1 << 16
_BYTES_PER_VALUE = 8
# Comparing rows takes about three work arrays beside the values: their codes, the group of each row, and an order.
_WORK_COLUMNS = 3


class TopKSink:
    """Keep the first rows of an ordered result, or one row per value of a distinct one.

    `row_limit` is OFFSET + LIMIT, the number of leading rows that the result needs, or None without LIMIT. A caller
    reserves the memory of a chunk before it calls `add`; from then on it belongs to the sink.
    """

    def __init__(self, query: ReadQuery, context: ExecutionContext, row_limit: int | None, *, chunk_rows: int) -> None:
        self._query = query
        self._context = context
        self._row_limit = row_limit
        self._chunk_rows = chunk_rows
        self.next_chunk_rows = chunk_rows
        self.rows_received = 0
        self._chunks: list[Bindings] = []
        self._size = 0
        self._size_after_pruning = 0
        self._has_sorted_input = False
        self._output = query.compared if query.distinct else ()
        # Without a variable in the output, all matches have equal values: `return distinct { 1 }` needs one of them.
        self._is_one_row_enough = query.distinct and not any(map(find_variables, self._output))
        self._is_pruning = False
        self._is_filtering = False
        self._sort_keys: tuple[SortKey, ...] = ()
        self._scores: ScoreCache | None = None
        if not query.kinds.isdisjoint({*LIST_RANKS, Window}):
            # Some ranks score a row by all rows, and a window reads other rows: none may go before
            # all have arrived.
            return
        self._is_filtering = query.having is not None
        if isinstance(query.rank, Nearest | Bm25) and row_limit is not None:
            self._scores = ScoreCache(query, query.rank, context)
            rank = SortKey(query.rank, descending=isinstance(query.rank, Bm25))
            self._sort_keys = tuple(build_sort_keys(query, rank))
            self._is_pruning = True
        elif query.rank is None and query.is_ordered and row_limit is not None:
            self._sort_keys = tuple(build_sort_keys(query))
            self._is_pruning = True
            if not query.per:
                self.next_chunk_rows = min(chunk_rows, max(FIRST_CHUNK_ROWS, 2 * row_limit))
        elif query.distinct:
            self._is_pruning = True

    # --- collecting matches -----------------------------------------------------------------------------

    def add(self, chunk: Bindings) -> None:
        """Add a chunk of matches, and prune once enough rows are new."""
        if self._scores is not None and self._has_sorted_input:
            # `is_full` counts the rows received, so rows without a score, which no result contains, must not count.
            scored = self._scores.select_scored(chunk)
            self._context.budget.release(bindings_nbytes(chunk) - bindings_nbytes(scored))
            chunk = scored
        if self._is_filtering and chunk.size:
            chunk = self._filter(chunk)
        if not chunk.size:
            return
        self._chunks.append(chunk)
        self._size += chunk.size
        self.rows_received += chunk.size
        # Pruning when the rows have doubled compares each row a constant number of times on average. The quarter of a
        # chunk keeps a small limit from pruning after every few rows.
        new_rows = self._size - self._size_after_pruning
        if self._scores is not None and len(self._chunks) == 1 and not self._size_after_pruning:
            # Pruning these would be the whole search, which the result repeats: they may be all there are.
            return
        if self._is_pruning and new_rows > max(self._size_after_pruning, self._chunk_rows // 4):
            self._prune_matches()

    def finalize(self) -> Bindings:
        """Return all rows that are left; a single chunk is returned as it was added."""
        if len(self._chunks) > 1:
            self._concat_chunks()
            if self._is_pruning:
                self._prune_matches()
        return self._chunks[0] if self._chunks else empty_bindings(has_multiplicity=False)

    def _filter(self, chunk: Bindings) -> Bindings:
        """Return the rows of a chunk that pass `having`, which comes before all pruning."""
        passing = filter_having(build_frame(self._query, chunk, self._context), self._query).bindings
        self._context.budget.release(bindings_nbytes(chunk) - bindings_nbytes(passing))
        return passing

    def _concat_chunks(self) -> None:
        budget = self._context.budget
        nbytes = sum(map(bindings_nbytes, self._chunks))
        budget.claim(nbytes, "the matches of the pattern")
        self._chunks = [concat_bindings(self._chunks)]
        budget.release(nbytes)

    def _prune_matches(self) -> None:
        """Drop the rows that no result contains, whatever arrives later."""
        if len(self._chunks) > 1:
            self._concat_chunks()
        (matches,) = self._chunks
        budget = self._context.budget
        columns = len(matches.columns) + len(self._output) + _WORK_COLUMNS
        nbytes = matches.size * _BYTES_PER_VALUE * columns
        budget.claim(nbytes, f"comparing {matches.size:,} rows")
        pruned = self._select_top_k(matches) if self._sort_keys else self._deduplicate(matches)
        budget.release(nbytes)
        budget.claim(bindings_nbytes(pruned), "the matches of the pattern")
        budget.release(bindings_nbytes(matches))
        self._chunks = [pruned]
        self._size = pruned.size
        self._size_after_pruning = pruned.size

    def _deduplicate(self, matches: Bindings) -> Bindings:
        frame = build_frame(self._query, matches, self._context)
        return select_distinct(frame, self._output).bindings

    def _select_top_k(self, matches: Bindings) -> Bindings:
        if self._query.distinct:
            matches = self._deduplicate(matches)
        return self._take_first(matches, self._sort_keys)

    def _take_first(self, matches: Bindings, keys: Sequence[SortKey]) -> Bindings:
        """Return the first `row_limit` rows by `keys`, in order."""
        if self._scores is None or self._scores.variable not in matches.columns:
            frame = build_frame(self._query, matches, self._context)
        else:
            if self._row_limit is not None and not self._query.per:
                matches = self._scores.select_top(matches, self._row_limit)
            else:
                # The first rows of a group may be far down in the order.
                matches = self._scores.select_scored(matches)
            frame = self._scores.build_frame(matches)
        return matches.take(select_page(frame, self._query, keys, 0, self._row_limit))

    # --- the order of chunks ----------------------------------------------------------------------------

    def has_leading_keys(self, bound: Collection[str]) -> bool:
        """Return whether the first sort keys of the result depend on the variables in `bound` alone."""
        return bool(self._find_leading_keys(bound))

    def sort_by_leading_keys(self, bindings: Bindings) -> tuple[Rows, NDArray[np.bool_]]:
        """Return the row numbers in the order of the leading keys, and which of them start a new run of equal keys.

        Rows without a score are left out. From here on chunks must arrive in this order.
        """
        self._has_sorted_input = True
        keys = self._find_leading_keys(bindings.columns)
        if self._scores is None:
            return sort_runs(build_frame(self._query, bindings, self._context), keys)
        scored = self._scores.find_scored_rows(bindings)
        rows, is_run_start = sort_runs(self._scores.build_frame(bindings.take(scored)), keys)
        return scored[rows], is_run_start

    def prune(self, side: Bindings) -> Bindings:
        """Return the rows of one side of a cross product that can reach the result.

        For any row of the other side, only the sort keys of this side decide, so its first `row_limit` rows are enough.
        This does not hold for DISTINCT, where several rows may count as one.
        """
        if self._query.distinct or self._row_limit is None or side.size <= self._row_limit:
            return side
        if self._query.per or self._is_filtering:
            # Rows that a group already has enough of, or that are dropped, take no place in the result.
            return side
        bound = side.columns.keys()
        keys = [key for key in self._sort_keys if key.expr is not None and set(find_variables(key.expr)) <= bound]
        if not keys:
            return side
        return self._take_first(side, keys)

    def _find_leading_keys(self, bound: Collection[str]) -> tuple[SortKey, ...]:
        """Return the longest prefix of the sort keys that depends on the variables in `bound` alone."""
        # The first rows of a group may arrive last, so no order of the chunks lets the sink stop early.
        if not bound or self._query.per:
            return ()
        count = 0
        for key in self._sort_keys:
            if key.expr is None or not set(find_variables(key.expr)).issubset(bound):
                break
            count += 1
        return self._sort_keys[:count]

    def end_chunk(self, *, is_complete: bool) -> None:
        """Grow the next chunk to twice the size: the first ones did not fill the result."""
        del is_complete
        self.next_chunk_rows = min(2 * self.next_chunk_rows, self._chunk_rows)

    @property
    def is_deduplicating(self) -> bool:
        """Whether equal rows become one in this sink."""
        return self._query.distinct

    @property
    def is_done(self) -> bool:
        """Whether no further match can change the result: LIMIT 0, or the one row that is enough has arrived."""
        return self._row_limit == 0 or (self._is_one_row_enough and self._size > 0)

    def is_full(self, since: int) -> bool:
        """Return whether the rows received after the first `since` fill the result, so that later ones can't change it.

        Chunks must arrive in the order of the leading keys, and the last run of equal keys must be complete.
        """
        if (
            self._row_limit is None
            or not self._sort_keys
            or self._query.per
            or self.rows_received - since < self._row_limit
        ):
            return False
        if not self._query.distinct:
            return True
        if since:
            # Some of the newer rows may equal older ones, so their number says nothing.
            return False
        if self._size_after_pruning < self._size:
            self._prune_matches()
        return self._size >= self._row_limit
