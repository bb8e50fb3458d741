"""Aggregates by group. Every row counts as often as its weight says; no answer depends on the order of the rows."""

from collections.abc import Mapping
from typing import TypeAlias, assert_never

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.engine.bindings import Bindings, Positions
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
from omnigraph.engine.output.projection import Frame, normalize_zeros
from omnigraph.engine.output.sort_keys import compute_sort_keys
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.query.expr import Aggregate, AggregateFunction, Expr, Prop
from omnigraph.query.format_expr import format_expr
from omnigraph.query.logical_plan import Grouping
from omnigraph.schema.types import Scalar
from omnigraph.storage.arrow_buffers import build_array, is_valid, read_numbers

Ints: TypeAlias = NDArray[np.int64]
_NUMERIC_TYPES = (Scalar.I32, Scalar.I64, Scalar.U32, Scalar.U64, Scalar.F32, Scalar.F64)


class AggregateOverflowError(OmnigraphError):
    """An aggregate is larger than its type can hold."""

    kind = Kind.INVALID
    code = "aggregate_overflow"

    def __init__(self, aggregate: str, type: str) -> None:
        super().__init__(aggregate, type)
        self.aggregate, self.type = aggregate, type

    def __str__(self) -> str:
        return f"`{self.aggregate}` is larger than {self.type} can hold: group by more, or filter first"


def group(frame: Frame, grouping: Grouping) -> Frame:
    """A row for each group, with its aggregates; without keys always exactly one.

    Sums are exact and rounded once; an average is the exact sum divided by the count, and rounded once too.

    Raises:
        AggregateOverflowError: A count or a sum of integers is beyond I64, or a sum of floats beyond F64.
    """
    groups = group_rows(frame, grouping.keys)
    if not grouping.keys:
        groups = Groups(groups.row_groups, 1, groups.first)
    folds = _Aggregator(frame, groups)
    aggregates = {aggregate: folds.compute(aggregate) for aggregate in grouping.aggregates}
    # Without keys nothing but aggregates is read of the one row, and there may be no match for it to stand on.
    columns = _take_group_columns(frame.bindings, groups) if grouping.keys else {}
    bindings = Bindings(columns, groups.count)
    return Frame(bindings, frame.types, frame.context, aggregates, frame.scores, is_merged=True)


def _take_group_columns(bindings: Bindings, groups: Groups) -> Mapping[str, Positions]:
    """The variables of a row of each group."""
    if groups.is_identity:
        return bindings.columns
    return {name: column.take(groups.first) for name, column in bindings.columns.items()}


class _Aggregator:
    """The aggregates of one grouping."""

    def __init__(self, frame: Frame, groups: Groups) -> None:
        self.frame, self.groups = frame, groups

    def compute(self, aggregate: Aggregate) -> pa.Array:
        """An aggregate of every group."""
        self.frame.context.budget.check()
        argument = aggregate.argument
        if argument is None:
            return build_array(self._count_rows(aggregate, None).astype(np.int64, copy=False))
        match aggregate.fold:
            case AggregateFunction.COUNT if aggregate.distinct:
                return build_array(self._count_distinct(argument).astype(np.int64, copy=False))
            case AggregateFunction.COUNT:
                counts = self._count_rows(aggregate, _build_valid_mask(self.frame.evaluate(argument)))
                return build_array(counts.astype(np.int64, copy=False))
            case AggregateFunction.SUM | AggregateFunction.AVG:
                return self._sum(aggregate, argument)
            case AggregateFunction.MIN | AggregateFunction.MAX:
                return self._find_extreme(aggregate, argument)
            case _:
                assert_never(aggregate.fold)

    def _count_rows(self, aggregate: Aggregate, given: NDArray[np.bool_] | None) -> Ints:
        """How many matches each group has, of those where `given` is true."""
        weight, of_row = self.frame.bindings.multiplicity, self.groups.row_groups
        if self.groups.is_identity:
            counts = np.ones(self.groups.count, np.int64) if weight is None else weight
            return counts if given is None else np.where(given, counts, 0)
        if given is not None:
            of_row, weight = of_row[given], None if weight is None else weight[given]
        if weight is None:
            return np.bincount(of_row, minlength=self.groups.count).astype(np.int64, copy=False)
        return _check_int64(aggregate, sum_whole(of_row, self.groups.count, weight, None))

    def _count_distinct(self, argument: Expr) -> Ints:
        """How many different values each group has; null is none."""
        codes = encode_expr(self.frame, argument)
        if codes is None:
            codes = encode_values(self.frame.evaluate(argument))
        own = Codes(self.groups.row_groups, self.groups.count)
        pairs = group_codes(combine_codes(self.frame, [own, codes]), self.frame.context.budget.check)
        rows = pairs.first
        if codes.zero_is_null:
            rows = rows[codes.numbers[rows] != 0]
        return np.bincount(self.groups.row_groups[rows], minlength=self.groups.count).astype(np.int64, copy=False)

    def _sum(self, aggregate: Aggregate, argument: Expr) -> pa.Array:
        values = self._read_numbers(argument)
        given = _build_valid_mask(values)
        of_row, weight = self.groups.row_groups, self.frame.bindings.multiplicity
        if given is not None:
            values, of_row = values.drop_null(), of_row[given]
            weight = None if weight is None else weight[given]
        counts = self._count_rows(aggregate, given)
        is_whole = pa.types.is_integer(values.type)
        if is_whole:
            wide = read_numbers(values)
            wide = wide if wide.dtype == np.uint64 else wide.astype(np.int64, copy=False)
            sums = sum_whole(of_row, self.groups.count, wide, weight)
        else:
            sums = sum_floats(
                of_row, self.groups.count, read_numbers(values.cast(pa.float64())), weight, self.frame.context.budget
            )
        found: NDArray[np.generic]
        if aggregate.fold is AggregateFunction.SUM:
            found = _check_int64(aggregate, sums) if is_whole else sums.to_float64()
        else:
            found = sums.average(np.maximum(counts, 1))
        if not np.all(np.isfinite(found)):
            raise AggregateOverflowError(format_expr(aggregate), str(Scalar.F64))
        return pa.array(found) if counts.all() else pa.array(found, mask=counts == 0)

    def _read_numbers(self, argument: Expr) -> pa.Array:
        """The values of an argument; numpy picks those of a column in memory sooner than Arrow does."""
        if isinstance(argument, Prop) and argument.type in _NUMERIC_TYPES:
            table = self.frame.get_table(argument.variable)
            if table.is_resident(argument.name):
                numbers, valid = table.load_numbers(argument.name, self.frame.context.budget)
                if valid is None:
                    return pa.array(numbers.take(self.frame.get_positions(argument.variable)))
        return self.frame.evaluate(argument)

    def _find_extreme(self, aggregate: Aggregate, argument: Expr) -> pa.Array:
        """The smallest or largest value of each group, as it is stored: that of the first row which has it."""
        levels = compute_sort_keys(self.frame, argument, None, is_whole_sort=True)
        places = levels.to_ints(self.frame.context.budget.check)
        if aggregate.fold is AggregateFunction.MAX:
            places = ~places
        rows = np.arange(self.frame.size, dtype=np.int64)
        if levels.valid is not None:
            rows, places = rows[levels.valid], places[levels.valid]
        of_row = self.groups.row_groups[rows]
        self.frame.context.budget.check()
        best = np.full(self.groups.count, np.iinfo(np.int64).max)
        np.minimum.at(best, of_row, places)
        self.frame.context.budget.check()
        is_best = places == best[of_row]
        found = np.full(self.groups.count, self.frame.size)
        np.minimum.at(found, of_row[is_best], rows[is_best])
        is_there = found < self.frame.size
        values = normalize_zeros(self.frame.evaluate(argument, found[is_there]))
        if is_there.all():
            return values
        return values.take(pa.array(np.cumsum(is_there) - 1, mask=~is_there))


def _build_valid_mask(values: pa.Array) -> NDArray[np.bool_] | None:
    """Which rows have a value; None when all have."""
    return is_valid(values) if values.null_count else None


def _check_int64(aggregate: Aggregate, sums: ExactSums) -> Ints:
    found = sums.to_int64()
    if found is None:
        raise AggregateOverflowError(format_expr(aggregate), str(Scalar.I64))
    return found
