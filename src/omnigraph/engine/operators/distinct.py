"""Distinct integers, by sorting: numpy's own `unique` hashes, which is four to twenty times as slow here."""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.bindings import Bindings, Positions
from omnigraph.engine.operators.multiplicity import pack_keys, sum_by_key, sum_by_position, sum_counts, unpack_keys

Ints = TypeVar("Ints", Positions, NDArray[np.int64])


def deduplicate(values: Ints) -> Ints:
    """Each value once, ascending."""
    if len(values) < 2:
        return values
    ordered = np.sort(values)
    is_first = np.empty(len(ordered), np.bool_)
    is_first[0] = True
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    return ordered[is_first]


_DENSE_FACTOR = 8


def compact(bindings: Bindings, keep: tuple[str, ...], *, has_multiplicity: bool) -> Bindings:
    """Only these columns, each combination once; with `counts`, its weight is the sum over the rows that had it."""
    if not keep:
        count = sum_counts(bindings.multiplicity, bindings.size)
        size = min(count, 1)
        return Bindings({}, size, np.full(size, count, np.int64) if has_multiplicity else None)
    columns = [bindings.columns[name] for name in keep]
    if not bindings.size:
        return Bindings(dict(zip(keep, columns, strict=True)), 0, np.zeros(0, np.int64) if has_multiplicity else None)
    if not has_multiplicity and len(columns) == 1:
        return _deduplicate_column(keep[0], columns[0])
    sizes = [int(column.max()) + 1 for column in columns]
    if len(columns) == 1 and sizes[0] <= _DENSE_FACTOR * bindings.size:
        sums = sum_by_position(columns[0], bindings.multiplicity, sizes[0])
        found = np.flatnonzero(sums)
        return Bindings({keep[0]: found}, len(found), sums[found])
    keys = pack_keys(columns, sizes)
    if keys is None:
        return _compact_by_row(bindings, keep, has_multiplicity=has_multiplicity)
    if not has_multiplicity:
        keys = deduplicate(keys)
        return Bindings(dict(zip(keep, unpack_keys(keys, sizes), strict=True)), len(keys))
    keys, weight = sum_by_key(keys, bindings.multiplicity)
    return Bindings(dict(zip(keep, unpack_keys(keys, sizes), strict=True)), len(keys), weight)


def _deduplicate_column(name: str, column: Positions) -> Bindings:
    size = int(column.max()) + 1
    if size > _DENSE_FACTOR * len(column):
        found = deduplicate(column)
    else:
        mask = np.zeros(size, np.bool_)
        mask[column] = True
        found = np.flatnonzero(mask)
    return Bindings({name: found}, len(found))


def _compact_by_row(bindings: Bindings, keep: tuple[str, ...], *, has_multiplicity: bool) -> Bindings:
    """For combinations that don't fit into 64 bits: numbered column by column."""
    numbers = np.zeros(bindings.size, np.int64)
    for name in keep:
        _, own = np.unique(bindings.columns[name], return_inverse=True)
        _, numbers = np.unique(numbers * (int(own.max()) + 1) + own, return_inverse=True)
    _, first = np.unique(numbers, return_index=True)
    columns = {name: bindings.columns[name][first] for name in keep}
    weight = sum_by_position(numbers, bindings.multiplicity, len(first)) if has_multiplicity else None
    return Bindings(columns, len(first), weight)
