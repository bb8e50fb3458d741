"""Aggregates that no dialect computes exactly, as functions of the lists of values that an engine has collected.

Sums and averages of floats are exact and rounded once; statistics and products are those of our own sinks. Each
function takes one list per group and returns one value per group.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.clock import SystemClock
from omnigraph.engine.output.exact_sum import sum_floats
from omnigraph.engine.output.folds import (
    GroupedNumbers,
    compute_percentiles,
    compute_variances,
    multiply_floats,
    multiply_whole,
)
from omnigraph.engine.output.sort_keys import to_sort_keys
from omnigraph.engine.query_budget import Budget
from omnigraph.errors import QueryError
from omnigraph.query.aggregates import AggregateFunction
from omnigraph.schema.arrow import to_arrow_type
from omnigraph.schema.types import ListOf, Scalar, ValueType
from omnigraph.storage.arrow_buffers import is_valid, read_numbers
from omnigraph.storage.columnar_sets import concat_chunks

Ints = NDArray[np.int64]
# Integers up to this one are exact as floats.
_MAX_EXACT = 2**53


@dataclass(frozen=True, slots=True, kw_only=True)
class TotalFunction:
    """Turn exact sums of integers, which may be wider than 64 bits, into the value of an aggregate.

    Without counts it is the sum itself, or an error if it does not fit; with counts it is the average, rounded once.
    """

    name: str
    text: str
    """The aggregate, for messages."""
    is_average: bool = False
    is_row_value: bool = False
    """Whether it is called for each row that is shown, not for each group."""
    is_calculation: bool = False
    """Whether the message about a sum that does not fit is that of a calculation, as for a value block."""

    @property
    def type(self) -> Scalar:
        """The type of the result."""
        return Scalar.F64 if self.is_average else Scalar.I64

    def evaluate(self, columns: Sequence[pa.Array]) -> pa.Array:
        """Return the value of each group; null for one without values.

        Raises:
            QueryError: A sum does not fit into I64.
        """
        if self.is_average:
            return divide_totals(concat_chunks(columns[0]), concat_chunks(columns[1]))
        totals = [None if total is None else int(total) for total in columns[0].to_pylist()]
        if any(total is not None and not -(2**63) <= total < 2**63 for total in totals):
            if self.is_calculation:
                raise QueryError.calculation_overflow(self.text)
            raise QueryError.aggregate_overflow(self.text, str(Scalar.I64))
        return pa.array(totals, pa.int64())


@dataclass(frozen=True, slots=True, kw_only=True)
class ListFold:
    """Fold lists of numbers; in each, a value counts as often as the list beside it says, if there is one."""

    name: str
    text: str
    fold: AggregateFunction
    of: Scalar
    """The type of the values."""
    fraction: float = 0.5

    @property
    def type(self) -> Scalar:
        """The type of the result."""
        is_whole = self.fold is AggregateFunction.PRODUCT and self.of.is_integer
        return Scalar.I64 if is_whole else Scalar.F64

    def evaluate(self, columns: Sequence[pa.Array]) -> pa.Array:
        """Return the value of each group; null for one with too few values.

        Raises:
            QueryError: A value exceeds its type.
        """
        lists = concat_chunks(columns[0])
        numbers = self._read_groups(lists, columns[1] if len(columns) > 1 else None)
        counts = numbers.count_values()
        min_count = 1
        result: NDArray[np.generic]
        match self.fold:
            case AggregateFunction.SUM | AggregateFunction.AVG:
                floats = numbers.values.astype(np.float64, copy=False)
                sums = sum_floats(numbers.groups, numbers.count, floats, numbers.multiplicity, numbers.budget)
                is_sum = self.fold is AggregateFunction.SUM
                result = sums.to_float64() if is_sum else sums.average(np.maximum(counts, 1))
            case AggregateFunction.STDDEV | AggregateFunction.VARIANCE:
                # A sample of one value has no spread.
                min_count = 2
                result = compute_variances(numbers, counts, is_root=self.fold is AggregateFunction.STDDEV)
            case AggregateFunction.MEDIAN | AggregateFunction.PERCENTILE:
                result = compute_percentiles(numbers, counts, self.fraction)
            case _:
                products = multiply_whole(numbers) if self.type is Scalar.I64 else multiply_floats(numbers)
                if products is None:
                    raise QueryError.aggregate_overflow(self.text, str(Scalar.I64))
                result = products
        is_missing = counts < min_count
        if not np.all(np.isfinite(result[~is_missing].astype(np.float64))):
            raise QueryError.aggregate_overflow(self.text, str(Scalar.F64))
        return pa.array(result, to_arrow_type(self.type), mask=is_missing)

    def _read_groups(self, lists: pa.Array, times: pa.Array | None) -> GroupedNumbers:
        groups = np.asarray(pc.list_parent_indices(lists)).astype(np.int64)
        values = read_numbers(lists.flatten().cast(to_arrow_type(self.of)))
        if not self.of.is_integer:
            values = values.astype(np.float64, copy=False)
        elif values.dtype != np.uint64:
            values = values.astype(np.int64, copy=False)
        multiplicity = None if times is None else read_numbers(concat_chunks(times).flatten().cast(pa.int64()))
        return GroupedNumbers(groups, len(lists), values, multiplicity, Budget(SystemClock()))


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectFunction:
    """Sort the values of lists, each by the keys in the lists beside it, and keep the first of them."""

    name: str
    of: Scalar
    keys: tuple[ValueType, ...] = ()
    """The types of the sort keys."""
    descending: tuple[bool, ...] = ()
    """Of each sort key, whether it descends."""
    is_distinct: bool = False
    limit: int | None = None
    has_multiplicity: bool = False
    """Whether the last of the lists tells how often each value is repeated."""
    keeps_zeros: bool = False
    """Whether -0.0 stays itself; else it becomes 0.0, which it equals."""

    @property
    def type(self) -> ListOf:
        """The type of the result."""
        return ListOf(self.of)

    def evaluate(self, columns: Sequence[pa.Array]) -> pa.Array:
        """Return the list of each group; an empty one for a group without values."""
        lists = concat_chunks(columns[0])
        groups = np.asarray(pc.list_parent_indices(lists)).astype(np.int64)
        values = lists.flatten().cast(to_arrow_type(self.of))
        if pa.types.is_floating(values.type) and not self.keeps_zeros:
            values = pc.add(values, pa.scalar(0.0, values.type))
        beside = [concat_chunks(column).flatten() for column in columns[1:]]
        times = read_numbers(beside.pop().cast(pa.int64())) if self.has_multiplicity else None
        keys = [column.cast(to_arrow_type(type_)) for column, type_ in zip(beside, self.keys, strict=True)]
        if self.is_distinct:
            rows = _sort_within(groups, [values], [False])
        else:
            rows = _sort_within(groups, keys, self.descending)
        rows = rows[is_valid(values)[rows]]
        if self.is_distinct and len(rows):
            taken = values.take(pa.array(rows))
            is_same = np.asarray(pc.equal(taken[1:], taken[:-1])) & (groups[rows][1:] == groups[rows][:-1])
            rows = rows[np.append(True, ~is_same)]
        elif times is not None:
            rows = np.repeat(rows, times[rows])
        if self.limit is not None:
            starts = np.searchsorted(groups[rows], np.arange(len(lists)))
            rows = rows[np.arange(len(rows)) - starts[groups[rows]] < self.limit]
        offsets = np.concatenate(([0], np.cumsum(np.bincount(groups[rows], minlength=len(lists)))))
        items = values.take(pa.array(rows))
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), items, type=pa.list_(items.type))


def divide_totals(totals: pa.Array, counts: pa.Array) -> pa.Array:
    """Return exact averages, rounded once, of integers of any size or their texts; null where nothing was counted."""
    numbers = counts.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    is_missing = numbers == 0
    try:
        whole = totals.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        whole = None
    if whole is not None and not np.any(np.abs(whole) > _MAX_EXACT) and not np.any(numbers > _MAX_EXACT):
        return pa.array(whole / np.where(is_missing, 1, numbers), pa.float64(), mask=is_missing)
    # Python divides integers of any size, and rounds once.
    pairs = zip(totals.to_pylist(), numbers.tolist(), strict=True)
    return pa.array([int(total) / count if count else None for total, count in pairs], pa.float64())


FoldFunction = TotalFunction | ListFold | CollectFunction


def _sort_within(groups: Ints, keys: Sequence[pa.Array], descending: Sequence[bool]) -> Ints:
    """Return the rows by group, then by the keys, with null as the smallest value."""
    levels: list[NDArray[np.generic]] = [groups]
    for key, is_descending in zip(keys, descending, strict=True):
        sort_keys = to_sort_keys(key)
        ints = sort_keys.to_ints()
        valid = np.ones(len(ints), np.bool_) if sort_keys.valid is None else sort_keys.valid
        # The complement reverses the order and, unlike a negation, never overflows.
        levels += [~valid, ~ints] if is_descending else [valid, np.where(valid, ints, 0)]
    # The last key of `lexsort` is the first to sort by.
    return np.lexsort(levels[::-1]).astype(np.int64)
