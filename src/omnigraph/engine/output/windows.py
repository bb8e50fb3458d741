"""Compute window functions: for each row a value from the rows of its partition, in their order."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import assert_never

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.engine.kernels import argsort_stable
from omnigraph.engine.output.aggregate import fold_groups
from omnigraph.engine.output.distinct import Groups, group_rows
from omnigraph.engine.output.exact_sum import ExactSums, accumulate_floats, accumulate_whole
from omnigraph.engine.output.projection import Frame, FrameValues, Rows, normalize_zeros
from omnigraph.engine.output.sort import SortKey, sort_rows
from omnigraph.engine.output.sort_keys import compute_sort_keys
from omnigraph.engine.predicate_eval import evaluate_over
from omnigraph.engine.search.search_arguments import reserve
from omnigraph.errors import QueryError
from omnigraph.query.expr import Aggregate, AggregateFunction, Expr, Window, WindowFunction
from omnigraph.query.format_expr import format_expr
from omnigraph.schema.types import Scalar
from omnigraph.storage.arrow_buffers import build_array, fill_nulls, is_valid, read_booleans
from omnigraph.storage.columnar_sets import concat_chunks

Ints = NDArray[np.int64]
# A window works on about eight arrays of the rows: partitions, an order, starts, values, and their results.
_BYTES_PER_ROW = 64


def add_windows(frame: Frame, windows: Sequence[Window]) -> Frame:
    """Return the frame with the values of window functions, which are computed over all of its rows.

    Raises:
        QueryError: A running count or sum is too large for its type.
    """
    values: dict[Aggregate | Window, pa.Array] = dict(frame.aggregates)
    for window in windows:
        frame.context.budget.check()
        with reserve(frame.context.budget, frame.size * _BYTES_PER_ROW, f"windows of {frame.size:,} rows"):
            values[window] = _compute(frame, window)
        frame.context.budget.claim(int(values[window].nbytes), f"the values of `{format_expr(window)}`")
    return replace(frame, aggregates=values)


def _compute(frame: Frame, window: Window) -> pa.Array:
    groups = _partition(frame, window)
    if window.aggregate is not None and not window.order:
        return fold_groups(frame, groups, window.aggregate).take(build_array(groups.row_groups))
    keys = [SortKey(term.value, term.descending) for term in window.order]
    rows = sort_rows(frame, [*keys, *map(SortKey, window.ties)], None)
    rows = rows[argsort_stable(groups.row_groups[rows], frame.context.budget.check)]
    walk = _SortedRows(frame, rows, _find_starts(groups.row_groups[rows]))
    values = _place(walk, window) if window.aggregate is None else _accumulate(walk, window, window.aggregate)
    # From the order of the windows back to that of the frame.
    places = np.empty(len(rows), np.int64)
    places[rows] = np.arange(len(rows))
    return values.take(build_array(places))


def _partition(frame: Frame, window: Window) -> Groups:
    groups = group_rows(frame, window.per)
    # Without rows there is no group, and all are one without `per`.
    return groups if window.per else Groups(groups.row_groups, 1, groups.first)


def _find_starts(row_groups: Ints) -> Ints:
    """Return for each of some sorted rows the number of the first row of its group."""
    is_new = np.ones(len(row_groups), np.bool_)
    is_new[1:] = row_groups[1:] != row_groups[:-1]
    return np.maximum.accumulate(np.where(is_new, np.arange(len(row_groups)), 0)) if len(row_groups) else row_groups


@dataclass(frozen=True, slots=True)
class _SortedRows:
    """The rows of a frame, partition by partition and in order, and the number of the first row of each partition."""

    frame: Frame
    rows: Rows
    starts: Ints

    @property
    def numbers(self) -> Ints:
        """The number of each row in its partition, from 0."""
        return np.arange(len(self.rows)) - self.starts


# --- places --------------------------------------------------------------------------------------------


def _place(walk: _SortedRows, window: Window) -> pa.Array:
    assert window.function is not None  # noqa: S101 - a window without an aggregate has a function
    match window.function:
        case WindowFunction.ROW_NUMBER:
            return build_array(walk.numbers + 1)
        case WindowFunction.RANK:
            peers = group_rows(walk.frame, [term.value for term in window.order])
            # Rows with equal keys are neighbours, and have the number of the first of them.
            is_first = (walk.numbers == 0) | _differs(peers.row_groups[walk.rows])
            first = np.maximum.accumulate(np.where(is_first, np.arange(len(walk.rows)), 0))
            return build_array((first if len(first) else walk.starts) - walk.starts + 1)
        case WindowFunction.LAG | WindowFunction.LEAD:
            return _read_neighbours(walk, window)
        case _:
            assert_never(window.function)


def _differs(values: Ints) -> NDArray[np.bool_]:
    is_new = np.zeros(len(values), np.bool_)
    is_new[1:] = values[1:] != values[:-1]
    return is_new


def _read_neighbours(walk: _SortedRows, window: Window) -> pa.Array:
    assert window.argument is not None  # noqa: S101 - windows check this when built
    values = walk.frame.evaluate(window.argument, walk.rows)
    size = len(walk.rows)
    if window.function is WindowFunction.LAG:
        at, is_outside = np.arange(size) - 1, walk.numbers == 0
    else:
        at = np.arange(size) + 1
        is_outside = np.append(walk.numbers[1:] == 0, True)[:size]
    return values.take(pa.array(np.where(is_outside, 0, at), pa.int64(), mask=is_outside))


# --- running aggregates --------------------------------------------------------------------------------


def _accumulate(walk: _SortedRows, window: Window, aggregate: Aggregate) -> pa.Array:
    """Compute an aggregate over the rows up to each row."""
    is_counted = _find_counted(walk, aggregate)
    if aggregate.argument is None:
        return build_array(_count(walk, is_counted))
    if aggregate.fold in (AggregateFunction.SUM, AggregateFunction.AVG, AggregateFunction.COUNT):
        values = walk.frame.evaluate(aggregate.argument, walk.rows)
        is_counted &= is_valid(values)
        counts = _count(walk, is_counted)
        if aggregate.fold is AggregateFunction.COUNT:
            return build_array(counts)
        return _sum(walk, window, aggregate, values, is_counted, counts)
    return _find_extremes(walk, aggregate, aggregate.argument, is_counted)


def _find_counted(walk: _SortedRows, aggregate: Aggregate) -> NDArray[np.bool_]:
    """Return for which rows the filter of the aggregate is true."""
    if aggregate.where is None:
        return np.ones(len(walk.rows), np.bool_)
    frame = walk.frame
    values = evaluate_over(aggregate.where, FrameValues(frame, walk.rows), frame.context.inputs)
    return read_booleans(concat_chunks(values)).copy()


def _count(walk: _SortedRows, is_counted: NDArray[np.bool_]) -> Ints:
    sums = np.cumsum(is_counted, dtype=np.int64)
    counts: Ints = sums - np.append(0, sums)[walk.starts]
    return counts


def _sum(
    walk: _SortedRows,
    window: Window,
    aggregate: Aggregate,
    values: pa.Array,
    is_counted: NDArray[np.bool_],
    counts: Ints,
) -> pa.Array:
    is_whole = pa.types.is_integer(values.type)
    numbers = fill_nulls(values if is_whole else values.cast(pa.float64()), 0)
    if is_whole and numbers.dtype != np.uint64:
        numbers = numbers.astype(np.int64, copy=False)
    numbers = np.where(is_counted, numbers, numbers.dtype.type(0))
    sums: ExactSums
    if is_whole:
        sums = accumulate_whole(numbers, walk.starts)
    else:
        sums = accumulate_floats(numbers, walk.starts, walk.frame.context.budget)
    result: NDArray[np.generic]
    if aggregate.fold is AggregateFunction.AVG:
        result = sums.average(np.maximum(counts, 1))
    elif is_whole:
        whole = sums.to_int64()
        if whole is None:
            raise QueryError.aggregate_overflow(format_expr(window), str(Scalar.I64))
        result = whole
    else:
        result = sums.to_float64()
    if not np.all(np.isfinite(result)):
        raise QueryError.aggregate_overflow(format_expr(window), str(Scalar.F64))
    return pa.array(result, mask=counts == 0)


def _find_extremes(walk: _SortedRows, aggregate: Aggregate, argument: Expr, is_counted: NDArray[np.bool_]) -> pa.Array:
    """Return the smallest or largest value up to each row, read from the row that has it."""
    size = len(walk.rows)
    keys = compute_sort_keys(walk.frame, argument, walk.rows, is_whole_sort=True)
    ints = keys.to_ints(walk.frame.context.budget.check)
    if keys.valid is not None:
        is_counted &= keys.valid
    if not size:
        return walk.frame.evaluate(argument, walk.rows)
    # Dense ranks, so that the number of a partition can be put before them.
    ranks = np.unique(ints, return_inverse=True)[1].reshape(-1).astype(np.int64) + 1
    if aggregate.fold in (AggregateFunction.MIN, AggregateFunction.ALL):
        ranks = size + 1 - ranks
    ranks = np.where(is_counted, ranks, 0)
    # Partitions come one after the other, so a row of a later one is always larger: the maximum begins anew.
    bound = np.int64(size + 2)
    best = np.maximum.accumulate(walk.starts * bound + ranks)
    is_better = np.append(True, best[1:] > best[:-1]) & (ranks > 0)
    rows = np.maximum.accumulate(np.where(is_better, np.arange(size), 0))
    is_missing = best - walk.starts * bound == 0
    values = normalize_zeros(walk.frame.evaluate(argument, walk.rows))
    return values.take(pa.array(rows, pa.int64(), mask=is_missing))
