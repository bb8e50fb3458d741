"""Collect the matches of a query with aggregates, and fold them into groups as early as possible.

Rows with equal values become one row with a multiplicity. If the bound variables decide a group key, chunks arrive
clustered by that key: a group is aggregated as soon as it is complete, and ORDER BY with LIMIT keeps only the first
groups.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.engine.bindings import Bindings
from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.operators.chunking import concat_bindings, empty_bindings
from omnigraph.engine.operators.expand import bindings_nbytes
from omnigraph.engine.operators.multiplicity import check_multiplicity
from omnigraph.engine.output.aggregate import group
from omnigraph.engine.output.distinct import group_rows, merge_equal_rows, read_columns
from omnigraph.engine.output.projection import Frame, Rows, build_frame
from omnigraph.engine.output.row_selection import filter_having, select_page
from omnigraph.engine.output.sort import build_sort_keys
from omnigraph.query.expr import Const, Expr, Now, ParamRef
from omnigraph.query.expr_tree import find_variables
from omnigraph.query.logical_plan import Grouping, ReadQuery

_BYTES_PER_VALUE = 8
# Comparing rows takes about three work arrays beside the values: their codes, the group of each row, and an order.
_WORK_COLUMNS = 3
# Four samples of 2,048 rows at each stride decide whether merging pays. Over 1.8 million rows
# of floats, sampling took 6 ms; the merge that it avoided took 155 ms, and would have dropped 180 rows.
SAMPLE_ROWS = 2_048
SAMPLES_PER_STRIDE = 4
# Equal rows lie at unknown distances. A factor of 8 covers 4 million rows with three strides and the final one.
_STRIDE_FACTOR = 8


class AggregateSink:
    """Merge equal rows while matches arrive, and aggregate the groups that are complete.

    `row_limit` is OFFSET + LIMIT, or None without LIMIT. `has_multiplicity` states whether a row may represent several
    matches. A caller reserves the memory of a chunk before it calls `add`; from then on it belongs to the sink.
    """

    is_deduplicating = True

    def __init__(
        self,
        query: ReadQuery,
        grouping: Grouping,
        context: ExecutionContext,
        row_limit: int | None,
        *,
        has_multiplicity: bool,
        chunk_rows: int,
    ) -> None:
        self._query = query
        self._grouping = grouping
        self._context = context
        self._row_limit = row_limit
        self._has_multiplicity = has_multiplicity
        self.next_chunk_rows = chunk_rows
        self.rows_received = 0
        arguments = dict.fromkeys(argument for aggregate in grouping.aggregates for argument in aggregate.children)
        self._exprs: list[Expr] = [*grouping.keys, *(argument for argument in arguments if not _is_constant(argument))]
        # Without a variable, all rows have equal values: `max(1)` needs one of them, unless they are to be counted.
        self._is_one_row_enough = not has_multiplicity and not any(map(find_variables, self._exprs))
        self._chunks: list[Bindings] = []
        self._size = 0
        self._size_after_merge = 0
        self._has_clustered_input = False
        self._groups: Frame | None = None

    # --- collecting matches -----------------------------------------------------------------------------

    @property
    def is_done(self) -> bool:
        """Whether no further match can change the result: the one row that is enough has arrived."""
        return self._is_one_row_enough and self._size > 0

    def is_full(self, since: int) -> bool:
        """Return False: every match counts."""
        del since
        return False

    def add(self, chunk: Bindings) -> None:
        """Add a chunk of matches, and merge equal rows once enough rows are new."""
        if not chunk.size:
            return
        self._chunks.append(chunk)
        self._size += chunk.size
        self.rows_received += chunk.size
        # Merging when the rows have doubled compares each row a constant number of times on average. Clustered input is
        # aggregated group by group anyway, so it waits for a whole chunk.
        min_new_rows = self.next_chunk_rows if self._has_clustered_input else self.next_chunk_rows // 4
        if self._size - self._size_after_merge > max(self._size_after_merge, min_new_rows):
            self._merge_rows()

    def end_chunk(self, *, is_complete: bool) -> None:
        """Aggregate the rows collected so far if `is_complete`: no later row belongs to one of their groups."""
        if is_complete and self._size > self.next_chunk_rows // 4:
            self._aggregate_rows()

    def finalize(self) -> Bindings | Frame:
        """Return the finished groups as a frame; or, if none was aggregated yet, the rows to aggregate."""
        if self._groups is not None:
            if self._chunks:
                self._aggregate_rows()
            return self._groups
        if len(self._chunks) > 1:
            self._merge_rows()
        return self._chunks[0] if self._chunks else empty_bindings(has_multiplicity=self._has_multiplicity)

    # --- the order of chunks ----------------------------------------------------------------------------

    def has_leading_keys(self, bound: Collection[str]) -> bool:
        """Return whether some group key depends on the variables in `bound` alone."""
        return bool(self._find_leading_keys(bound))

    def sort_by_leading_keys(self, bindings: Bindings) -> tuple[Rows, NDArray[np.bool_]]:
        """Return the row numbers clustered by those group keys, and which of them start a new cluster.

        Rows of different clusters never share a group. From here on chunks must arrive in this order.
        """
        self._has_clustered_input = True
        frame = build_frame(self._query, bindings, self._context)
        clusters = group_rows(frame, self._find_leading_keys(bindings.columns))
        if clusters.is_identity:
            return clusters.first, np.ones(bindings.size, np.bool_)
        rows = np.argsort(clusters.row_groups, kind="stable")
        return rows, np.diff(clusters.row_groups[rows], prepend=-1) != 0

    def prune(self, side: Bindings) -> Bindings:
        """Return `side` unchanged: every match counts."""
        return side

    def _find_leading_keys(self, bound: Collection[str]) -> list[Expr]:
        """Return the group keys that depend on the variables in `bound` alone, and on at least one of them."""
        return [key for key in self._grouping.keys if (names := find_variables(key)) and set(names).issubset(bound)]

    # --- merging and aggregating ------------------------------------------------------------------------

    def _concat_chunks(self) -> Bindings:
        if len(self._chunks) > 1:
            budget = self._context.budget
            nbytes = sum(map(bindings_nbytes, self._chunks))
            budget.claim(nbytes, "the matches of the pattern")
            self._chunks = [concat_bindings(self._chunks)]
            budget.release(nbytes)
        return self._chunks[0]

    def _merge_rows(self) -> None:
        """Merge equal rows if samples show that many are equal; else leave them until more have arrived."""
        matches = self._concat_chunks()
        if not self._has_many_duplicates(matches):
            self._size_after_merge = matches.size
            return
        budget = self._context.budget
        columns = len(matches.columns) + len(self._exprs) + _WORK_COLUMNS
        nbytes = matches.size * _BYTES_PER_VALUE * columns
        budget.claim(nbytes, f"comparing {matches.size:,} rows")
        frame = build_frame(self._query, matches, self._context)
        merged = merge_equal_rows(frame, self._exprs, has_multiplicity=self._has_multiplicity)
        budget.release(nbytes)
        budget.claim(bindings_nbytes(merged), "the matches of the pattern")
        budget.release(bindings_nbytes(matches))
        self._chunks = [merged]
        self._size = merged.size
        self._size_after_merge = merged.size

    def _has_many_duplicates(self, matches: Bindings) -> bool:
        """Estimate from samples whether there are at most half as many distinct values as rows.

        Equal rows may be neighbours or far apart: samples are taken of adjacent rows, then at growing strides, until
        one sample spans all rows.
        """
        if matches.size < SAMPLE_ROWS:
            return True
        frame = build_frame(self._query, matches, self._context)
        # Seeded by the number of rows: the same query over the same snapshot takes the same path every time.
        random = np.random.default_rng(matches.size)
        read_columns(frame, self._exprs)

        def count_distinct(start: int, stride: int) -> int:
            """Count the values of one row, picked at random, out of every `stride` from `start` on."""
            rows = start + np.arange(SAMPLE_ROWS) * stride + random.integers(0, stride, SAMPLE_ROWS)
            return group_rows(frame.take(rows), self._exprs).count

        stride = 1
        while stride * SAMPLE_ROWS * SAMPLES_PER_STRIDE < matches.size:
            starts = random.integers(0, matches.size - stride * SAMPLE_ROWS, SAMPLES_PER_STRIDE)
            distinct = sum(count_distinct(int(start), stride) for start in starts)
            if distinct <= SAMPLES_PER_STRIDE * _expect_distinct(stride):
                return True
            stride *= _STRIDE_FACTOR
        whole_stride = matches.size // SAMPLE_ROWS
        return count_distinct(0, whole_stride) <= _expect_distinct(whole_stride)

    def _aggregate_rows(self) -> None:
        """Aggregate all collected rows, and append their groups to those of earlier rows."""
        matches = self._concat_chunks()
        budget = self._context.budget
        columns = len(self._exprs) + len(self._grouping.aggregates) + _WORK_COLUMNS
        nbytes = matches.size * _BYTES_PER_VALUE * columns
        budget.claim(nbytes, f"grouping {matches.size:,} rows")
        multiplicity = check_multiplicity(matches.multiplicity) if self._has_multiplicity else None
        counted = Bindings(matches.columns, matches.size, multiplicity)
        new_groups = group(build_frame(self._query, counted, self._context), self._grouping)
        new_groups = filter_having(new_groups, self._query)
        budget.release(nbytes + bindings_nbytes(matches))
        self._chunks = []
        self._size = 0
        self._size_after_merge = 0
        old_groups = self._groups
        groups = new_groups if old_groups is None else _concat_groups([old_groups, new_groups])
        if self._row_limit is not None and self._row_limit < groups.size:
            # All of these groups are complete: only the first `row_limit` of them can be in the result.
            groups = groups.take(select_page(groups, self._query, build_sort_keys(self._query), 0, self._row_limit))
        budget.claim(_measure_frame(groups), f"{groups.size:,} groups")
        budget.release(0 if old_groups is None else _measure_frame(old_groups))
        self._groups = groups


def _is_constant(expr: Expr) -> bool:
    return isinstance(expr, Const | ParamRef | Now)


def _expect_distinct(stride: int) -> float:
    """Return how many values a sample has if the rows it is drawn from have half as many values as rows.

    A sample of `SAMPLE_ROWS` out of `n` equally frequent values repeats about `SAMPLE_ROWS ** 2 / 2n` of them, and here
    `n` is `SAMPLE_ROWS * stride / 2`.
    """
    return SAMPLE_ROWS - SAMPLE_ROWS / max(stride, 2)


def _concat_groups(frames: Sequence[Frame]) -> Frame:
    """Return the groups of several frames, which have no group in common, as one frame."""
    first = frames[0]
    bindings = concat_bindings([frame.bindings for frame in frames])
    aggregates = {
        aggregate: pa.concat_arrays([frame.aggregates[aggregate] for frame in frames]) for aggregate in first.aggregates
    }
    return replace(first, bindings=bindings, aggregates=aggregates)


def _measure_frame(frame: Frame) -> int:
    return bindings_nbytes(frame.bindings) + sum(int(values.nbytes) for values in frame.aggregates.values())
