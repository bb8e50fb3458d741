"""Multiplicities of rows: exact 64-bit counts of matches that saturate at `OVERFLOWED`.

An overflow is no error while rows are counted: a filter or another subtree may still drop the row. It stays in every
sum and product, except a product with 0; `check_multiplicity` rejects it when the matches are complete.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.bindings import Positions
from omnigraph.errors import LimitError

Counts = NDArray[np.int64]

# Represents every count that may not fit into 64 bits.
OVERFLOWED = np.int64(2**63 - 1)
# Sums of whole numbers below this are exact in floating point, in any order of additions.
_MAX_EXACT_FLOAT = 2.0**53
# From here on, a sum computed in floating point may exceed 64 bits. The margin covers its rounding errors.
_OVERFLOW_BOUND = 2.0**63 * (1 - 2.0**-40)


def multiply_counts(a: Counts | None, b: Counts | None) -> Counts | None:
    """Return the products of counts, row by row; None counts as one each."""
    if a is None or b is None:
        return b if a is None else a
    if len(a) and float(a.max()) * float(b.max()) >= _OVERFLOW_BOUND:
        with np.errstate(over="ignore"):
            # The product in 64 bits may wrap around; the one in floating point shows where.
            return _saturate(a * b, a.astype(np.float64) * b)
    return a * b


def add_counts(a: Counts, b: Counts) -> Counts:
    """Add counts row by row."""
    if len(a) and float(a.max()) + float(b.max()) >= _OVERFLOW_BOUND:
        return _saturate(a + b, a.astype(np.float64) + b)
    return a + b


def sum_counts(multiplicity: Counts | None, size: int) -> int:
    """Return the sum of the multiplicities of `size` rows."""
    if multiplicity is None:
        return size
    return int(OVERFLOWED if float(multiplicity.sum(dtype=np.float64)) >= _OVERFLOW_BOUND else multiplicity.sum())


def check_multiplicity(multiplicity: Counts | None) -> Counts | None:
    """Check the multiplicities of complete matches, and return them.

    Raises:
        LimitError: One of them exceeds 64 bits.
    """
    if multiplicity is not None and multiplicity.max(initial=0) == OVERFLOWED:
        raise LimitError.count_overflow()
    return multiplicity


def _saturate(exact: Counts, rounded: NDArray[np.float64]) -> Counts:
    """Return the 64-bit counts, or `OVERFLOWED` where the same counts in floating point show that they wrapped."""
    return np.where(rounded >= _OVERFLOW_BOUND, OVERFLOWED, exact)


def sum_segments(values: NDArray[np.generic], counts: Counts) -> Counts:
    """Return the sums of consecutive runs of `values`; run i has `counts[i]` of them, possibly none."""
    sums = np.zeros(len(counts), np.int64)
    if not len(values):
        return sums
    # `reduceat` returns the first value of the next run for an empty one, so empty runs are left out.
    is_filled = counts > 0
    ends = np.cumsum(counts)
    starts = (ends - counts)[is_filled]
    exact = np.add.reduceat(values, starts, dtype=np.int64)
    if values.dtype != np.bool_ and float(values.sum(dtype=np.float64)) >= _OVERFLOW_BOUND:
        exact = _saturate(exact, np.add.reduceat(values, starts, dtype=np.float64))
    sums[is_filled] = exact
    return sums


def sum_by_position(positions: Positions, multiplicity: Counts | None, size: int) -> Counts:
    """Return, for each of `size` positions, the sum of the multiplicities of its rows."""
    if multiplicity is None:
        return np.bincount(positions, minlength=size).astype(np.int64, copy=False)
    total = float(multiplicity.sum(dtype=np.float64))
    if total < _MAX_EXACT_FLOAT:
        # `bincount` adds in floating point, which is exact up to here.
        return np.bincount(positions, weights=multiplicity, minlength=size).astype(np.int64)
    sums = np.zeros(size, np.int64)
    np.add.at(sums, positions, multiplicity)
    if total >= _OVERFLOW_BOUND:
        rounded = np.bincount(positions, weights=multiplicity, minlength=size).astype(np.float64, copy=False)
        return _saturate(sums, rounded)
    return sums


def sum_by_key(keys: NDArray[np.int64], multiplicity: Counts | None) -> tuple[NDArray[np.int64], Counts]:
    """Return the distinct keys, ascending, and the sum of the multiplicities of each."""
    # Without multiplicities only the lengths of runs count, and a plain sort will do.
    order = None if multiplicity is None else np.argsort(keys, kind="stable")
    ordered = np.sort(keys) if order is None else keys[order]
    is_first = np.empty(len(keys), np.bool_)
    is_first[:1] = True
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    starts = np.flatnonzero(is_first)
    runs = np.diff(np.append(starts, len(keys)))
    return ordered[starts], runs if multiplicity is None or order is None else sum_segments(multiplicity[order], runs)


def shift_missing(columns: Sequence[Positions]) -> tuple[list[Positions], list[int]]:
    """Return columns without negative numbers, and by how much each was shifted: 1 where a position is missing."""
    shifts = [int(len(column) > 0 and column.min() < 0) for column in columns]
    return [column + shift if shift else column for column, shift in zip(columns, shifts, strict=True)], shifts


def pack_keys(columns: Sequence[Positions], sizes: Sequence[int]) -> NDArray[np.int64] | None:
    """Pack several columns into one integer key per row, or return None if 64 bits can't hold it."""
    if np.prod([float(max(size, 1)) for size in sizes]) >= 2.0**63:
        return None
    keys = columns[0].astype(np.int64)
    for column, size in zip(columns[1:], sizes[1:], strict=True):
        keys *= size
        keys += column
    return keys


def unpack_keys(keys: NDArray[np.int64], sizes: Sequence[int]) -> list[NDArray[np.int64]]:
    """Return the columns that `pack_keys` packed."""
    columns = []
    for size in reversed(sizes[1:]):
        keys, column = np.divmod(keys, size)
        columns.append(column)
    columns.append(keys)
    return columns[::-1]
