"""The groups of matches that come part by part.

Rows with the same values become one row that counts as often. If the variables that are bound decide about a group key,
parts come so that none of their groups goes on behind them: such groups are folded at once, and of an order with a
limit only the first are kept.
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
from omnigraph.engine.output.sort import build_sort_keys, sort_rows
from omnigraph.query.expr import Expr, find_variables
from omnigraph.query.logical_plan import Grouping, ReadQuery

_BYTES_PER_VALUE = 8
SAMPLE_ROWS, SAMPLES_PER_STRIDE = 2_048, 4
"""How many rows are looked at together, and how often at the same distance."""
_STRIDE_FACTOR = 8


class AggregateSink:
    """What the groups of one query are made of. What is added has been claimed from the budget."""

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
        self._query, self._grouping, self._context, self._row_limit = query, grouping, context, row_limit
        self._has_multiplicity, self.next_chunk_rows = has_multiplicity, chunk_rows
        arguments = [one.argument for one in grouping.aggregates if one.argument is not None]
        self._exprs: list[Expr] = [*grouping.keys, *arguments]
        self._is_one_row_enough = not has_multiplicity and not any(map(find_variables, self._exprs))
        self._chunks: list[Bindings] = []
        self._size = self._size_after_merge = self.rows_received = 0
        self._has_clustered_input = False
        self._groups: Frame | None = None

    # --- what comes in ----------------------------------------------------------------------------------

    @property
    def is_done(self) -> bool:
        """Whether nothing that comes makes a difference: one row is enough, and is there."""
        return self._is_one_row_enough and self._size > 0

    def is_full(self, since: int) -> bool:
        """Never: every match counts."""
        del since
        return False

    def add(self, chunk: Bindings) -> None:
        """More matches."""
        if not chunk.size:
            return
        self._chunks.append(chunk)
        self._size += chunk.size
        self.rows_received += chunk.size
        most = self.next_chunk_rows if self._has_clustered_input else self.next_chunk_rows // 4
        if self._size - self._size_after_merge > max(self._size_after_merge, most):
            self._merge_rows()

    def end_chunk(self, *, is_complete: bool) -> None:
        """A part has come; `is_complete`: with all rows of its groups."""
        if is_complete and self._size > self.next_chunk_rows // 4:
            self._aggregate_rows()

    def finalize(self) -> Bindings | Frame:
        """The rows that groups are still to be made of; or the groups, if there are some already."""
        if self._groups is not None:
            if self._chunks:
                self._aggregate_rows()
            return self._groups
        if len(self._chunks) > 1:
            self._merge_rows()
        return self._chunks[0] if self._chunks else empty_bindings(has_multiplicity=self._has_multiplicity)

    # --- which parts should come --------------------------------------------------------------------------

    def has_leading_keys(self, bound: Collection[str]) -> bool:
        """Whether these variables decide about a group key."""
        return bool(self._find_leading_keys(bound))

    def sort_by_leading_keys(self, bindings: Bindings) -> tuple[Rows, NDArray[np.bool_]]:
        """The rows so that those which may meet in a group stand together, and where such a run starts."""
        self._has_clustered_input = True
        groups = group_rows(
            build_frame(self._query, bindings, self._context), self._find_leading_keys(bindings.columns)
        )
        if groups.is_identity:
            return groups.first, np.ones(bindings.size, np.bool_)
        rows = np.argsort(groups.row_groups, kind="stable")
        return rows, np.diff(groups.row_groups[rows], prepend=-1) != 0

    def prune(self, side: Bindings) -> Bindings:
        """All of it: every match counts."""
        return side

    def _find_leading_keys(self, bound: Collection[str]) -> list[Expr]:
        return [key for key in self._grouping.keys if (names := find_variables(key)) and set(names).issubset(bound)]

    # --- what is kept -------------------------------------------------------------------------------------

    def _concat_chunks(self) -> Bindings:
        if len(self._chunks) > 1:
            budget, needed = self._context.budget, sum(map(bindings_nbytes, self._chunks))
            budget.claim(needed, "the matches of the pattern")
            self._chunks = [concat_bindings(self._chunks)]
            budget.release(needed)
        return self._chunks[0]

    def _merge_rows(self) -> None:
        """Rows whose values are equal become one, where many are."""
        whole, budget = self._concat_chunks(), self._context.budget
        if not self._has_many_duplicates(whole):
            self._size_after_merge = whole.size
            return
        needed = whole.size * _BYTES_PER_VALUE * (len(whole.columns) + len(self._exprs) + 3)
        budget.claim(needed, f"comparing {whole.size:,} rows")
        kept = merge_equal_rows(
            build_frame(self._query, whole, self._context), self._exprs, has_multiplicity=self._has_multiplicity
        )
        budget.release(needed)
        budget.claim(bindings_nbytes(kept), "the matches of the pattern")
        budget.release(bindings_nbytes(whole))
        self._chunks, self._size, self._size_after_merge = [kept], kept.size, kept.size

    def _has_many_duplicates(self, whole: Bindings) -> bool:
        """Whether the rows have at most half as many values as there are rows, by some of them.

        Equal rows may stand close together or far apart, so rows are looked at from one next to the other up to as far
        apart as they are.
        """
        if whole.size < SAMPLE_ROWS:
            return True
        frame, chance = build_frame(self._query, whole, self._context), np.random.default_rng(whole.size)
        read_columns(frame, self._exprs)

        def distinct(start: int, stride: int) -> int:
            rows = start + np.arange(SAMPLE_ROWS) * stride + chance.integers(0, stride, SAMPLE_ROWS)
            return group_rows(frame.take(rows), self._exprs).count

        stride = 1
        while stride * SAMPLE_ROWS * SAMPLES_PER_STRIDE < whole.size:
            starts = chance.integers(0, whole.size - stride * SAMPLE_ROWS, SAMPLES_PER_STRIDE)
            if sum(distinct(int(start), stride) for start in starts) <= SAMPLES_PER_STRIDE * _expect_distinct(stride):
                return True
            stride *= _STRIDE_FACTOR
        return distinct(0, whole.size // SAMPLE_ROWS) <= _expect_distinct(whole.size // SAMPLE_ROWS)

    def _aggregate_rows(self) -> None:
        """Make groups of all rows that are there."""
        whole, budget = self._concat_chunks(), self._context.budget
        needed = whole.size * _BYTES_PER_VALUE * (len(self._exprs) + len(self._grouping.aggregates) + 3)
        budget.claim(needed, f"grouping {whole.size:,} rows")
        weight = check_multiplicity(whole.multiplicity) if self._has_multiplicity else None
        frame = build_frame(self._query, Bindings(whole.columns, whole.size, weight), self._context)
        found = group(frame, self._grouping)
        budget.release(needed + bindings_nbytes(whole))
        self._chunks, self._size, self._size_after_merge = [], 0, 0
        before = self._groups
        folded = found if before is None else _concat_groups([before, found])
        if self._row_limit is not None and self._row_limit < folded.size:
            folded = folded.take(sort_rows(folded, build_sort_keys(self._query), self._row_limit))
        budget.claim(_measure_frame(folded), f"{folded.size:,} groups")
        budget.release(0 if before is None else _measure_frame(before))
        self._groups = folded


def _expect_distinct(stride: int) -> float:
    """How many values `SAMPLE_ROWS` rows have, one of every `stride`, if all of these rows have half as many as there are.

    Where `n` values are as frequent, about `SAMPLE ** 2 / 2n` rows of a sample repeat another's value.
    """
    return SAMPLE_ROWS - SAMPLE_ROWS / max(stride, 2)


def _concat_groups(frames: Sequence[Frame]) -> Frame:
    """The groups of several frames, which have none in common."""
    first = frames[0]
    bindings = concat_bindings([frame.bindings for frame in frames])
    aggregates = {one: pa.concat_arrays([frame.aggregates[one] for frame in frames]) for one in first.aggregates}
    return replace(first, bindings=bindings, aggregates=aggregates)


def _measure_frame(frame: Frame) -> int:
    return bindings_nbytes(frame.bindings) + sum(int(values.nbytes) for values in frame.aggregates.values())
