"""Compute aggregates by group. A row counts once per multiplicity; no result depends on the order of the rows."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias, assert_never

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.engine.bindings import Bindings, Positions
from omnigraph.engine.kernels import argsort_stable
from omnigraph.engine.output.distinct import (
    Codes,
    Groups,
    combine_codes,
    encode_expr,
    encode_values,
    group_codes,
    group_rows,
)
from omnigraph.engine.output.exact_sum import ExactSums, sum_floats, sum_whole
from omnigraph.engine.output.folds import (
    GroupedNumbers,
    compute_percentiles,
    compute_variances,
    multiply_floats,
    multiply_whole,
)
from omnigraph.engine.output.lists import build_lists, resolve_fraction, sort_collected
from omnigraph.engine.output.projection import Frame, FrameValues, normalize_zeros
from omnigraph.engine.output.sort_keys import compute_sort_keys
from omnigraph.engine.predicate_eval import evaluate_over
from omnigraph.engine.scalar_eval import OverflowLog
from omnigraph.errors import QueryError
from omnigraph.query.expr import Aggregate, AggregateFunction, Expr, Identity, Prop, Window
from omnigraph.query.format_expr import format_expr
from omnigraph.query.logical_plan import Grouping
from omnigraph.schema.types import Scalar
from omnigraph.storage.arrow_buffers import build_array, is_valid, read_booleans, read_numbers
from omnigraph.storage.columnar_sets import concat_chunks

Ints: TypeAlias = NDArray[np.int64]
_NUMERIC_TYPES = (Scalar.I32, Scalar.I64, Scalar.U32, Scalar.U64, Scalar.F32, Scalar.F64)


def group(frame: Frame, grouping: Grouping) -> Frame:
    """Return a frame with one row per group and its aggregates; without keys exactly one row.

    Sums are exact and rounded once; an average is the exact sum divided by the count, and rounded once too.

    Raises:
        QueryError: A count, sum or product of integers exceeds I64, or another aggregate exceeds F64.
    """
    groups = group_rows(frame, grouping.keys)
    if not grouping.keys:
        groups = Groups(groups.row_groups, 1, groups.first)
    aggregates: dict[Aggregate | Window, pa.Array] = {
        aggregate: fold_groups(frame, groups, aggregate) for aggregate in grouping.aggregates
    }
    # Without keys only aggregates of the one row are read, and there may be no match whose columns it could have.
    columns = _take_group_columns(frame.bindings, groups) if grouping.keys else {}
    bindings = Bindings(columns, groups.count)
    return Frame(bindings, frame.types, frame.context, aggregates, frame.scores, is_merged=True)


def fold_groups(frame: Frame, groups: Groups, aggregate: Aggregate, log: OverflowLog | None = None) -> pa.Array:
    """Return an aggregate of every group, also of those without a row.

    With a `log`, groups whose sum of integers exceeds I64 are null, and are added to it.

    Raises:
        QueryError: A count, sum or product of integers exceeds I64, or another aggregate exceeds F64.
    """
    if aggregate.where is not None:
        values = concat_chunks(evaluate_over(aggregate.where, FrameValues(frame, None), frame.context.inputs))
        rows = np.flatnonzero(read_booleans(values))
        if len(rows) < frame.size:
            # The groups stay, also those of which no row is left.
            frame, groups = frame.take(rows), Groups(groups.row_groups[rows], groups.count, groups.first)
        aggregate = replace(aggregate, where=None)
    return _Aggregator(frame, groups, log).compute(aggregate)


def _take_group_columns(bindings: Bindings, groups: Groups) -> Mapping[str, Positions]:
    """Return the variables of the first row of each group."""
    if groups.is_identity:
        return bindings.columns
    return {name: column.take(groups.first) for name, column in bindings.columns.items()}


class _Aggregator:
    """The aggregate functions over the groups of one frame."""

    def __init__(self, frame: Frame, groups: Groups, log: OverflowLog | None = None) -> None:
        self.frame = frame
        self.groups = groups
        self.log = log

    def compute(self, aggregate: Aggregate) -> pa.Array:
        """Compute an aggregate of every group."""
        self.frame.context.budget.check()
        argument = aggregate.argument
        if argument is None:
            return build_array(self._count_rows(aggregate, None).astype(np.int64, copy=False))
        match aggregate.fold:
            case AggregateFunction.COUNT if aggregate.distinct:
                return build_array(self._count_distinct(argument).astype(np.int64, copy=False))
            case AggregateFunction.COUNT:
                counts = self._count_rows(aggregate, self._find_valid(argument))
                return build_array(counts.astype(np.int64, copy=False))
            case AggregateFunction.SUM | AggregateFunction.AVG:
                return self._sum(aggregate, argument)
            case AggregateFunction.MIN | AggregateFunction.MAX | AggregateFunction.ANY | AggregateFunction.ALL:
                return self._find_extreme(aggregate, argument)
            case AggregateFunction.COLLECT:
                return self._collect(aggregate, argument)
            case AggregateFunction.PRODUCT:
                return self._multiply(aggregate, argument)
            case (
                AggregateFunction.STDDEV
                | AggregateFunction.VARIANCE
                | AggregateFunction.MEDIAN
                | AggregateFunction.PERCENTILE
            ):
                return self._measure(aggregate, argument)
            case _:
                assert_never(aggregate.fold)

    def _count_rows(self, aggregate: Aggregate, mask: NDArray[np.bool_] | None) -> Ints:
        """Count the matches of each group, of those in the mask."""
        multiplicity, row_groups = self.frame.bindings.multiplicity, self.groups.row_groups
        if self.groups.is_identity:
            counts = np.ones(self.groups.count, np.int64) if multiplicity is None else multiplicity
            return counts if mask is None else np.where(mask, counts, 0)
        if mask is not None:
            row_groups = row_groups[mask]
            multiplicity = None if multiplicity is None else multiplicity[mask]
        if multiplicity is None:
            return np.bincount(row_groups, minlength=self.groups.count).astype(np.int64, copy=False)
        return _check_int64(aggregate, sum_whole(row_groups, self.groups.count, multiplicity, None))

    def _find_valid(self, argument: Expr) -> NDArray[np.bool_] | None:
        """Return which rows have a value of an argument, or None if all have."""
        if isinstance(argument, Identity):
            # A row has an id where its variable has a position: no id has to be read.
            is_bound = self.frame.get_positions(argument.variable) >= 0
            return None if is_bound.all() else is_bound
        return _build_valid_mask(self.frame.evaluate(argument))

    def _count_distinct(self, argument: Expr) -> Ints:
        """Count the distinct values of each group; null is not a value."""
        codes = encode_expr(self.frame, argument)
        if codes is None:
            codes = encode_values(self.frame.evaluate(argument))
        # The distinct (group, value) pairs, of which each counts once for its group.
        group_numbers = Codes(self.groups.row_groups, self.groups.count)
        pairs = group_codes(combine_codes(self.frame, [group_numbers, codes]), self.frame.context.budget.check)
        rows = pairs.first
        if codes.zero_is_null:
            rows = rows[codes.numbers[rows] != 0]
        return np.bincount(self.groups.row_groups[rows], minlength=self.groups.count).astype(np.int64, copy=False)

    def _select_values(self, argument: Expr) -> tuple[pa.Array, Ints, Ints | None, NDArray[np.bool_] | None]:
        """Return the values that are not null, their groups and multiplicities, and which rows they are (None: all)."""
        values = self._read_numbers(argument)
        valid = _build_valid_mask(values)
        row_groups, multiplicity = self.groups.row_groups, self.frame.bindings.multiplicity
        if valid is not None:
            values, row_groups = values.drop_null(), row_groups[valid]
            multiplicity = None if multiplicity is None else multiplicity[valid]
        return values, row_groups, multiplicity, valid

    def _sum(self, aggregate: Aggregate, argument: Expr) -> pa.Array:
        values, row_groups, multiplicity, valid = self._select_values(argument)
        counts = self._count_rows(aggregate, valid)
        is_whole = pa.types.is_integer(values.type)
        if is_whole:
            numbers = read_numbers(values)
            # Values of U64 may exceed int64, so they stay unsigned.
            numbers = numbers if numbers.dtype == np.uint64 else numbers.astype(np.int64, copy=False)
            sums = sum_whole(row_groups, self.groups.count, numbers, multiplicity)
        else:
            floats = read_numbers(values.cast(pa.float64()))
            sums = sum_floats(row_groups, self.groups.count, floats, multiplicity, self.frame.context.budget)
        result: NDArray[np.generic]
        if aggregate.fold is AggregateFunction.SUM and is_whole and self.log is not None:
            result, too_large = sums.wrap_int64()
            self.log.add(too_large, format_expr(aggregate))
            return pa.array(result, mask=(counts == 0) | too_large)
        if aggregate.fold is AggregateFunction.SUM:
            result = _check_int64(aggregate, sums) if is_whole else sums.to_float64()
        else:
            result = sums.average(np.maximum(counts, 1))
        # Stored floats are finite, so only an overflow can make a sum infinite.
        _check_finite(aggregate, result)
        return pa.array(result) if counts.all() else pa.array(result, mask=counts == 0)

    def _group_numbers(self, argument: Expr) -> tuple[GroupedNumbers, Ints]:
        """Return the numbers of every group, and how many there are."""
        values, row_groups, multiplicity, _ = self._select_values(argument)
        is_whole = pa.types.is_integer(values.type)
        numbers = read_numbers(values) if is_whole else read_numbers(values.cast(pa.float64()))
        if is_whole and numbers.dtype != np.uint64:
            numbers = numbers.astype(np.int64, copy=False)
        grouped = GroupedNumbers(row_groups, self.groups.count, numbers, multiplicity, self.frame.context.budget)
        if not grouped.is_countable:
            raise QueryError.aggregate_overflow(f"count({format_expr(argument)})", str(Scalar.I64))
        return grouped, grouped.count_values()

    def _multiply(self, aggregate: Aggregate, argument: Expr) -> pa.Array:
        numbers, counts = self._group_numbers(argument)
        result: NDArray[np.generic]
        if aggregate.type is Scalar.I64:
            products = multiply_whole(numbers)
            if products is None:
                raise QueryError.aggregate_overflow(format_expr(aggregate), str(Scalar.I64))
            result = products
        else:
            result = _check_finite(aggregate, multiply_floats(numbers))
        return pa.array(result, mask=counts == 0)

    def _measure(self, aggregate: Aggregate, argument: Expr) -> pa.Array:
        """Compute a statistic: a variance, a deviation, or a percentile."""
        budget = self.frame.context.budget
        numbers, counts = self._group_numbers(argument)
        # Sorting takes an order and a copy of the values, and distances and squares are as long.
        nbytes = 4 * 8 * len(numbers.groups)
        budget.claim(nbytes, f"the values of `{format_expr(aggregate)}`")
        if aggregate.fold in (AggregateFunction.MEDIAN, AggregateFunction.PERCENTILE):
            fraction = (
                0.5 if aggregate.fraction is None else resolve_fraction(aggregate.fraction, self.frame.context.inputs)
            )
            result, is_missing = compute_percentiles(numbers, counts, fraction), counts == 0
        else:
            # A sample of one value has no spread.
            is_root = aggregate.fold is AggregateFunction.STDDEV
            result, is_missing = compute_variances(numbers, counts, is_root=is_root), counts < 2
        budget.release(nbytes)
        _check_finite(aggregate, result[~is_missing])
        return pa.array(result, mask=is_missing)

    def _collect(self, aggregate: Aggregate, argument: Expr) -> pa.Array:
        rows = sort_collected(self.frame, aggregate, argument)
        rows = rows[argsort_stable(self.groups.row_groups[rows], self.frame.context.budget.check)]
        return build_lists(self.frame, aggregate, argument, rows, self.groups)

    def _read_numbers(self, argument: Expr) -> pa.Array:
        """Return the values of an argument."""
        # `take` of numpy is faster than that of Arrow for a column in memory without nulls.
        if isinstance(argument, Prop) and argument.type in _NUMERIC_TYPES:
            table = self.frame.get_table(argument.variable)
            if table.is_resident(argument.name):
                numbers, valid = table.load_numbers(argument.name, self.frame.context.budget)
                at = self.frame.get_positions(argument.variable)
                # An optional variable may have no position.
                if valid is None and at.min(initial=0) >= 0:
                    return pa.array(numbers.take(at))
        return self.frame.evaluate(argument)

    def _find_extreme(self, aggregate: Aggregate, argument: Expr) -> pa.Array:
        """Return the smallest or largest value of each group, read from the first row that has it."""
        sort_keys = compute_sort_keys(self.frame, argument, None, is_whole_sort=True)
        keys = sort_keys.to_ints(self.frame.context.budget.check)
        # False comes before true, so one true value is the largest, and one false value the smallest.
        if aggregate.fold in (AggregateFunction.MAX, AggregateFunction.ANY):
            # The complement reverses the order and, unlike a negation, never overflows.
            keys = ~keys
        rows = np.arange(self.frame.size, dtype=np.int64)
        if sort_keys.valid is not None:
            rows, keys = rows[sort_keys.valid], keys[sort_keys.valid]
        row_groups = self.groups.row_groups[rows]
        self.frame.context.budget.check()
        best = np.full(self.groups.count, np.iinfo(np.int64).max)
        np.minimum.at(best, row_groups, keys)
        self.frame.context.budget.check()
        is_best = keys == best[row_groups]
        # A group without a value keeps this number, which no row has.
        first_rows = np.full(self.groups.count, self.frame.size)
        np.minimum.at(first_rows, row_groups[is_best], rows[is_best])
        has_value = first_rows < self.frame.size
        values = normalize_zeros(self.frame.evaluate(argument, first_rows[has_value]))
        if has_value.all():
            return values
        return values.take(pa.array(np.cumsum(has_value) - 1, mask=~has_value))


def _build_valid_mask(values: pa.Array) -> NDArray[np.bool_] | None:
    """Return which rows have a value, or None if all have."""
    return is_valid(values) if values.null_count else None


def _check_finite(aggregate: Aggregate, result: NDArray[np.generic]) -> NDArray[np.generic]:
    if not np.all(np.isfinite(result)):
        raise QueryError.aggregate_overflow(format_expr(aggregate), str(Scalar.F64))
    return result


def _check_int64(aggregate: Aggregate, sums: ExactSums) -> Ints:
    result = sums.to_int64()
    if result is None:
        raise QueryError.aggregate_overflow(format_expr(aggregate), str(Scalar.I64))
    return result
