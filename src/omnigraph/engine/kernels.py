"""Sorting and looking up long columns in parts, with a look at the deadline between two parts.

A kernel of numpy or Arrow can't be ended once it runs, so these are given no more rows than `ROWS_AT_ONCE`.
"""

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Check = Callable[[], None]

ROWS_AT_ONCE = 1 << 18
"""So many integers are sorted in about 0.02 s of a core, and so many texts of 50 bytes encoded in about 0.2 s."""
_SAMPLED = 64
"""So many values for each bucket are looked at to choose where buckets end: then few are twice as long as others."""


def never() -> None:
    """Look at no deadline."""


def parts(size: int) -> Iterator[slice]:
    """Yield slices that cover so many rows, each of at most `ROWS_AT_ONCE`."""
    for start in range(0, size, ROWS_AT_ONCE):
        yield slice(start, min(start + ROWS_AT_ONCE, size))


def stable_order(values: Ints, check: Check) -> Ints:
    """Return the order that sorts the values, equal ones as they stand: what numpy's stable `argsort` returns.

    Many values are first split into buckets, each of which holds a range of values, and then sorted bucket by bucket.
    """
    size = len(values)
    if size <= ROWS_AT_ONCE:
        return np.argsort(values, kind="stable")
    wanted = min(2 * (size // ROWS_AT_ONCE + 1), 2**15)
    sample = np.sort(values[:: max(1, size // (wanted * _SAMPLED))])
    pivots = np.unique(sample[:: max(1, len(sample) // wanted)])
    buckets = np.empty(size, np.uint16)
    for part in parts(size):
        buckets[part] = np.searchsorted(pivots, values[part], side="right")
        check()
    order = np.argsort(buckets, kind="stable")  # of 16 bits numpy makes one pass over the rows for each byte
    check()
    ends = np.cumsum(np.bincount(buckets, minlength=len(pivots) + 1))
    for start, end in zip(np.append(0, ends[:-1]).tolist(), ends.tolist(), strict=True):
        rows = order[start:end]
        order[start:end] = rows[np.argsort(values[rows], kind="stable")]
        check()
    return order


def places_in(ordered: Ints, values: Ints, side: str, check: Check) -> Ints:
    """Return where each value belongs among the ordered ones: what numpy's `searchsorted` returns."""
    found = np.empty(len(values), np.int64)
    for part in parts(len(values)):
        found[part] = np.searchsorted(ordered, values[part], side="left" if side == "left" else "right")
        check()
    return found


def encoded(values: pa.Array, check: Check) -> tuple[pa.Array, pa.Array]:
    """Return the code of each value, null for a null, and the distinct values by code: a dictionary encoding."""
    if len(values) <= ROWS_AT_ONCE:
        whole = values.dictionary_encode()
        return whole.indices, whole.dictionary
    found = []
    for part in parts(len(values)):
        found.append(values.slice(part.start, part.stop - part.start).dictionary_encode())
        check()
    unified = pa.chunked_array(found).unify_dictionaries()
    check()
    return pa.concat_arrays([chunk.indices for chunk in unified.chunks]), unified.chunk(0).dictionary
