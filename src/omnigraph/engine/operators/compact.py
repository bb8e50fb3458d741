"""Equal rows become one."""

import numpy as np

from omnigraph.engine.bindings import Bindings, Positions
from omnigraph.engine.operators.distinct import distinct
from omnigraph.engine.operators.multiplicity import packed, sums_by_position, sums_of_equal, total, unpacked

_DENSE = 8


def compact(bindings: Bindings, keep: tuple[str, ...], *, counts: bool) -> Bindings:
    """Only these columns, each combination once; with `counts`, its weight is the sum over the rows that had it."""
    if not keep:
        count = total(bindings.weight, bindings.size)
        size = min(count, 1)
        return Bindings({}, size, np.full(size, count, np.int64) if counts else None)
    columns = [bindings.columns[name] for name in keep]
    if not bindings.size:
        return Bindings(dict(zip(keep, columns, strict=True)), 0, np.zeros(0, np.int64) if counts else None)
    if not counts and len(columns) == 1:
        return _distinct(keep[0], columns[0])
    sizes = [int(column.max()) + 1 for column in columns]
    if len(columns) == 1 and sizes[0] <= _DENSE * bindings.size:
        sums = sums_by_position(columns[0], bindings.weight, sizes[0])
        found = np.flatnonzero(sums)
        return Bindings({keep[0]: found}, len(found), sums[found])
    keys = packed(columns, sizes)
    if keys is None:
        return _by_rows(bindings, keep, counts=counts)
    if not counts:
        keys = distinct(keys)
        return Bindings(dict(zip(keep, unpacked(keys, sizes), strict=True)), len(keys))
    keys, weight = sums_of_equal(keys, bindings.weight)
    return Bindings(dict(zip(keep, unpacked(keys, sizes), strict=True)), len(keys), weight)


def _distinct(name: str, column: Positions) -> Bindings:
    size = int(column.max()) + 1
    if size > _DENSE * len(column):
        found = distinct(column)
    else:
        mask = np.zeros(size, np.bool_)
        mask[column] = True
        found = np.flatnonzero(mask)
    return Bindings({name: found}, len(found))


def _by_rows(bindings: Bindings, keep: tuple[str, ...], *, counts: bool) -> Bindings:
    """For combinations that don't fit into 64 bits: numbered column by column."""
    numbers = np.zeros(bindings.size, np.int64)
    for name in keep:
        _, own = np.unique(bindings.columns[name], return_inverse=True)
        _, numbers = np.unique(numbers * (int(own.max()) + 1) + own, return_inverse=True)
    _, first = np.unique(numbers, return_index=True)
    columns = {name: bindings.columns[name][first] for name in keep}
    weight = sums_by_position(numbers, bindings.weight, len(first)) if counts else None
    return Bindings(columns, len(first), weight)
