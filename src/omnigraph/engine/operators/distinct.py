"""Deduplicate positions and bindings.

Integers are deduplicated by sorting: numpy's own `unique` hashes, which is four to twenty times as slow here.
"""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.bindings import Bindings, Positions
from omnigraph.engine.operators.multiplicity import (
    pack_keys,
    shift_missing,
    sum_by_key,
    sum_by_position,
    sum_counts,
    unpack_keys,
)

Ints = TypeVar("Ints", Positions, NDArray[np.int64])


def deduplicate(values: Ints) -> Ints:
    """Return the distinct values, ascending."""
    if len(values) < 2:
        return values
    ordered = np.sort(values)
    is_first = np.empty(len(ordered), np.bool_)
    is_first[0] = True
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    return ordered[is_first]


def find_distinct_positions(positions: Positions, size: int) -> Positions:
    """Return the distinct positions of a table of `size` rows, ascending; none may be negative."""
    if len(positions) * _DENSE_FACTOR < size:
        return deduplicate(positions)
    is_there = np.zeros(size, np.bool_)
    is_there[positions] = True
    return np.flatnonzero(is_there)


# Positions up to this many times the rows are counted in an array by position; sparser ones are sorted.
_DENSE_FACTOR = 8


def compact(bindings: Bindings, keep: tuple[str, ...], *, has_multiplicity: bool) -> Bindings:
    """Return the distinct combinations of these columns; with `has_multiplicity`, each with the sum of its rows'."""
    if not keep:
        # Without a column all rows are equal: one row, if any, stands for all matches.
        count = sum_counts(bindings.multiplicity, bindings.size)
        size = min(count, 1)
        return Bindings({}, size, np.full(size, count, np.int64) if has_multiplicity else None)
    columns = [bindings.columns[name] for name in keep]
    if not bindings.size:
        return Bindings(dict(zip(keep, columns, strict=True)), 0, np.zeros(0, np.int64) if has_multiplicity else None)
    # Missing positions are negative, and the keys below are not.
    columns, shifts = shift_missing(columns)
    shifted = Bindings(dict(zip(keep, columns, strict=True)), bindings.size, bindings.multiplicity)
    merged = _compact_positions(shifted, keep, has_multiplicity=has_multiplicity)
    if not any(shifts):
        return merged
    restored = {name: merged.columns[name] - shift for name, shift in zip(keep, shifts, strict=True)}
    return Bindings(restored, merged.size, merged.multiplicity)


def _compact_positions(bindings: Bindings, keep: tuple[str, ...], *, has_multiplicity: bool) -> Bindings:
    """Return what `compact` does for at least one row and column without missing positions."""
    columns = [bindings.columns[name] for name in keep]
    if not has_multiplicity and len(columns) == 1:
        return _deduplicate_column(keep[0], columns[0])
    sizes = [int(column.max()) + 1 for column in columns]
    if len(columns) == 1 and sizes[0] <= _DENSE_FACTOR * bindings.size:
        sums = sum_by_position(columns[0], bindings.multiplicity, sizes[0])
        distinct = np.flatnonzero(sums)
        return Bindings({keep[0]: distinct}, len(distinct), sums[distinct])
    keys = pack_keys(columns, sizes)
    if keys is None:
        return _compact_by_row(bindings, keep, has_multiplicity=has_multiplicity)
    if not has_multiplicity:
        keys = deduplicate(keys)
        return Bindings(dict(zip(keep, unpack_keys(keys, sizes), strict=True)), len(keys))
    keys, multiplicity = sum_by_key(keys, bindings.multiplicity)
    return Bindings(dict(zip(keep, unpack_keys(keys, sizes), strict=True)), len(keys), multiplicity)


def _deduplicate_column(name: str, column: Positions) -> Bindings:
    size = int(column.max()) + 1
    if size > _DENSE_FACTOR * len(column):
        distinct = deduplicate(column)
    else:
        mask = np.zeros(size, np.bool_)
        mask[column] = True
        distinct = np.flatnonzero(mask)
    return Bindings({name: distinct}, len(distinct))


def _compact_by_row(bindings: Bindings, keep: tuple[str, ...], *, has_multiplicity: bool) -> Bindings:
    """Return what `compact` does for combinations that don't fit into 64 bits."""
    numbers = np.zeros(bindings.size, np.int64)
    for name in keep:
        # Combinations are numbered again after each column: both factors stay below the number of rows.
        _, codes = np.unique(bindings.columns[name], return_inverse=True)
        _, numbers = np.unique(numbers * (int(codes.max()) + 1) + codes, return_inverse=True)
    _, first = np.unique(numbers, return_index=True)
    columns = {name: bindings.columns[name][first] for name in keep}
    multiplicity = sum_by_position(numbers, bindings.multiplicity, len(first)) if has_multiplicity else None
    return Bindings(columns, len(first), multiplicity)
