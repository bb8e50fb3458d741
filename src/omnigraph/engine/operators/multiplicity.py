"""How many matches a row stands for: exact 64-bit counts, and `OVERFLOWED` for one that 64 bits don't hold.

A count beyond 64 bits is no error while rows are counted: a filter or another branch may still drop the row. It stays
beyond in every sum and product but that with nothing; `checked` refuses it when the matches are complete.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.bindings import Positions
from omnigraph.errors import Kind, OmnigraphError

Counts = NDArray[np.int64]

OVERFLOWED = np.int64(2**63 - 1)
"""Stands for every count that 64 bits may not hold."""
_MAX_EXACT_FLOAT = 2.0**53
"""Sums of whole numbers below it are exact in floating point, in whatever order they are made."""
_OVERFLOW_BOUND = 2.0**63 * (1 - 2.0**-40)
"""Behind it a sum that was made in floating point may lie beyond 64 bits."""


class CountOverflowError(OmnigraphError):
    """More matches than a 64-bit number counts."""

    kind = Kind.EXHAUSTED
    code = "count_overflow"

    def __str__(self) -> str:
        return "the query has more matches than a 64-bit number can count: filter it, or ask for fewer hops"


def multiply_counts(a: Counts | None, b: Counts | None) -> Counts | None:
    """The products, row by row; None counts as one each."""
    if a is None or b is None:
        return b if a is None else a
    if len(a) and float(a.max()) * float(b.max()) >= _OVERFLOW_BOUND:
        with np.errstate(over="ignore"):
            return _saturate(a * b, a.astype(np.float64) * b)
    return a * b


def add_counts(a: Counts, b: Counts) -> Counts:
    """The sums, row by row."""
    if len(a) and float(a.max()) + float(b.max()) >= _OVERFLOW_BOUND:
        return _saturate(a + b, a.astype(np.float64) + b)
    return a + b


def sum_counts(weight: Counts | None, size: int) -> int:
    """The sum over all rows."""
    if weight is None:
        return size
    return int(OVERFLOWED if float(weight.sum(dtype=np.float64)) >= _OVERFLOW_BOUND else weight.sum())


def check_multiplicity(weight: Counts | None) -> Counts | None:
    """The counts of matches that are complete.

    Raises:
        CountOverflowError: One of them is beyond 64 bits.
    """
    if weight is not None and weight.max(initial=0) == OVERFLOWED:
        raise CountOverflowError
    return weight


def _saturate(exact: Counts, rounded: NDArray[np.float64]) -> Counts:
    """Counts as made in 64 bits, where they may have wrapped round, and in floating point, where they have not."""
    return np.where(rounded >= _OVERFLOW_BOUND, OVERFLOWED, exact)


def sum_segments(values: NDArray[np.generic], counts: Counts) -> Counts:
    """The sums of consecutive runs of `values`; run i has `counts[i]` of them, maybe none."""
    sums = np.zeros(len(counts), np.int64)
    if not len(values):
        return sums
    is_filled = counts > 0
    ends = np.cumsum(counts)
    starts = (ends - counts)[is_filled]
    exact = np.add.reduceat(values, starts, dtype=np.int64)
    if values.dtype != np.bool_ and float(values.sum(dtype=np.float64)) >= _OVERFLOW_BOUND:
        exact = _saturate(exact, np.add.reduceat(values, starts, dtype=np.float64))
    sums[is_filled] = exact
    return sums


def sum_by_position(positions: Positions, weight: Counts | None, size: int) -> Counts:
    """For each of `size` positions the sum of the weights of the rows that have it."""
    if weight is None:
        return np.bincount(positions, minlength=size).astype(np.int64, copy=False)
    whole = float(weight.sum(dtype=np.float64))
    if whole < _MAX_EXACT_FLOAT:
        return np.bincount(positions, weights=weight, minlength=size).astype(np.int64)
    sums = np.zeros(size, np.int64)
    np.add.at(sums, positions, weight)
    if whole >= _OVERFLOW_BOUND:
        rounded = np.bincount(positions, weights=weight, minlength=size).astype(np.float64, copy=False)
        return _saturate(sums, rounded)
    return sums


def sum_by_key(keys: NDArray[np.int64], weight: Counts | None) -> tuple[NDArray[np.int64], Counts]:
    """The distinct keys, ascending, and for each the sum of its rows' weights."""
    order = None if weight is None else np.argsort(keys, kind="stable")
    ordered = np.sort(keys) if order is None else keys[order]
    is_first = np.empty(len(keys), np.bool_)
    is_first[:1] = True
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    starts = np.flatnonzero(is_first)
    runs = np.diff(np.append(starts, len(keys)))
    return ordered[starts], runs if weight is None or order is None else sum_segments(weight[order], runs)


def pack_keys(columns: Sequence[Positions], sizes: Sequence[int]) -> NDArray[np.int64] | None:
    """One number for each row, equal where all columns are; None when 64 bits can't hold it."""
    if np.prod([float(max(size, 1)) for size in sizes]) >= 2.0**63:
        return None
    keys = columns[0].astype(np.int64)
    for column, size in zip(columns[1:], sizes[1:], strict=True):
        keys *= size
        keys += column
    return keys


def unpack_keys(keys: NDArray[np.int64], sizes: Sequence[int]) -> list[NDArray[np.int64]]:
    """The columns that `packed` made keys of."""
    columns = []
    for size in reversed(sizes[1:]):
        keys, column = np.divmod(keys, size)
        columns.append(column)
    columns.append(keys)
    return columns[::-1]
