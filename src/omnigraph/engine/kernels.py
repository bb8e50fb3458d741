"""Sorting and looking up long columns in parts, with a look at the deadline between two parts.

A kernel of numpy or Arrow can't be ended once it runs, so these are given no more rows than `MAX_KERNEL_ROWS`.
"""

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.storage.arrow_buffers import build_array, is_valid, read_booleans, read_numbers

Ints = NDArray[np.int64]
Check = Callable[[], None]

MAX_KERNEL_ROWS = 1 << 18
"""So many integers are sorted in about 0.02 s of a core, and so many texts of 50 bytes encoded in about 0.2 s."""
_SAMPLES_PER_BUCKET = 64
"""So many values for each bucket are looked at to choose where buckets end: then few are twice as long as others."""

_MAX_RANGES = 16
"""Into so many ranges values are split at once: each row is compared with the bounds of all, in about 3 ns each."""
_LOOKUP_CHUNK_FACTOR = 4
"""So many times the rows are looked up at once: what they are looked up in is hashed anew for each part."""


def skip_check() -> None:
    """Look at no deadline."""


def iter_chunks(size: int, least: int = 0) -> Iterator[slice]:
    """Yield slices that cover so many rows, each of at most `MAX_KERNEL_ROWS`, or of `least` where that is more."""
    at_once = max(MAX_KERNEL_ROWS, least)
    for start in range(0, size, at_once):
        yield slice(start, min(start + at_once, size))


def argsort_stable(values: Ints, check: Check) -> Ints:
    """Return the order that sorts the values, equal ones as they stand: what numpy's stable `argsort` returns.

    Many values are first split into buckets, each of which holds a range of values, and then sorted bucket by bucket.
    """
    size = len(values)
    if size <= MAX_KERNEL_ROWS:
        return np.argsort(values, kind="stable")
    wanted = min(2 * (size // MAX_KERNEL_ROWS + 1), 2**15)
    sample = np.sort(values[:: max(1, size // (wanted * _SAMPLES_PER_BUCKET))])
    pivots = np.unique(sample[:: max(1, len(sample) // wanted)])
    buckets = np.empty(size, np.uint16)
    for part in iter_chunks(size):
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


def search_sorted(ordered: Ints, values: Ints, side: str, check: Check) -> Ints:
    """Return where each value belongs among the ordered ones: what numpy's `searchsorted` returns."""
    found = np.empty(len(values), np.int64)
    for part in iter_chunks(len(values)):
        found[part] = np.searchsorted(ordered, values[part], side="left" if side == "left" else "right")
        check()
    return found


def sort_values(values: Ints, check: Check) -> Ints:
    """Return the values in ascending order."""
    return np.sort(values) if len(values) <= MAX_KERNEL_ROWS else values[argsort_stable(values, check)]


def find_distinct(values: Ints, check: Check) -> Ints:
    """Return the values in ascending order, each once: what numpy's `unique` returns, which hashes many slowly."""
    ordered = sort_values(values, check)
    is_new = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=is_new[1:])
    return ordered[is_new]


def encode_dictionary(values: pa.Array, check: Check) -> tuple[pa.Array, pa.Array]:
    """Return the code of each value, null for a null, and the distinct values by code: a dictionary encoding."""
    if len(values) <= MAX_KERNEL_ROWS:
        whole = values.dictionary_encode()
        return whole.indices, whole.dictionary
    probe = values[: MAX_KERNEL_ROWS // 16]
    if 2 * len(probe.unique()) <= len(probe):
        found = _encode_chunks(values, check)
        if sum(len(chunk.dictionary) for chunk in found) <= MAX_KERNEL_ROWS:
            return _unify_dictionaries(found, check)
    codes, is_coded = np.empty(len(values), np.int32), np.ones(len(values), np.bool_)
    distinct, start = [], 0
    for [(rows, some)] in _iter_ranges((values,), check):
        own, dictionary = _unify_dictionaries(_encode_chunks(some, check), check)
        codes[rows] = read_numbers(own) + start
        if own.null_count:
            is_coded[rows] = is_valid(own)
        distinct.append(dictionary)
        start += len(dictionary)
    found_codes = pc.if_else(build_array(is_coded), build_array(codes), pa.scalar(None, pa.int32()))
    return found_codes, pa.concat_arrays(distinct)


def _encode_chunks(values: pa.Array, check: Check) -> list[pa.DictionaryArray]:
    found = []
    for part in iter_chunks(len(values)):
        found.append(values[part].dictionary_encode())
        check()
    return found


def _unify_dictionaries(chunks: list[pa.DictionaryArray], check: Check) -> tuple[pa.Array, pa.Array]:
    """Return the codes and distinct values of all chunks."""
    if len(chunks) > 1:
        chunks = pa.chunked_array(chunks).unify_dictionaries().chunks
        check()
    return pa.concat_arrays([chunk.indices for chunk in chunks]), chunks[0].dictionary


def rank_distinct(values: pa.Array, check: Check) -> Ints:
    """Return the place of each value in their order; no value is there twice, and nulls come last."""
    if _is_ascending(values, check):
        return np.arange(len(values))
    places, start = np.empty(len(values), np.int64), 0
    for [(rows, some)] in _iter_ranges((values,), check):
        places[rows[read_numbers(pc.sort_indices(some))]] = np.arange(start, start + len(rows))
        start += len(rows)
        check()
    return places


def _is_ascending(values: pa.Array, check: Check) -> bool:
    """Return whether each value is greater than the one before it; a null is neither."""
    for start in range(0, len(values) - 1, MAX_KERNEL_ROWS):
        some = values[start : start + MAX_KERNEL_ROWS + 1]
        if not read_booleans(pc.less(some[:-1], some[1:])).all():
            return False
        check()
    return True


def look_up(wanted: pa.Array, values: pa.Array, check: Check) -> Ints:
    """Return for each wanted value the row that has it, -1 where none has; a null has none."""
    found = np.full(len(wanted), -1, np.int64)
    for (rows, some), (places, asked) in _iter_ranges((values, wanted), check):
        for part in iter_chunks(len(asked), _LOOKUP_CHUNK_FACTOR * MAX_KERNEL_ROWS):
            at = pc.index_in(asked[part], value_set=some, skip_nulls=True)
            is_there = is_valid(at)
            found[places[part][is_there]] = rows[read_numbers(at.drop_null())]
            check()
    return found


def _iter_ranges(columns: tuple[pa.Array, ...], check: Check) -> Iterator[tuple[tuple[Ints, pa.Array], ...]]:
    """Yield for ranges of values, ascending, which rows of each column are in it, and what they have there.

    A range has at most `MAX_KERNEL_ROWS` rows of the first column, unless so many are equal. Nulls are in the last one.
    """
    leading = columns[0]
    pivots = _choose_pivots(leading) if len(leading) > MAX_KERNEL_ROWS else ()
    split = [_split_by_range(column, pivots, check) for column in columns] if pivots else []
    if not split or max(map(len, split[0])) == len(leading):
        yield tuple((np.arange(len(column)), column) for column in columns)
        return
    for members in zip(*split, strict=True):
        taken = tuple(column.take(build_array(rows)) for column, rows in zip(columns, members, strict=True))
        check()
        for inner in _iter_ranges(taken, check):
            yield tuple((rows[some], values) for rows, (some, values) in zip(members, inner, strict=True))


def _choose_pivots(values: pa.Array) -> tuple[pa.Scalar, ...]:
    """Return where ranges of values begin, but for the first."""
    wanted = min(2 * (len(values) // MAX_KERNEL_ROWS + 1), _MAX_RANGES)
    sample = values.take(
        build_array(np.arange(0, len(values), max(1, len(values) // (wanted * _SAMPLES_PER_BUCKET))))
    ).drop_null()
    ordered = sample.take(pc.sort_indices(sample))
    chosen = ordered.take(build_array(np.arange(0, len(ordered), max(1, -(-len(ordered) // wanted)))))
    return tuple(chosen.unique())[1:]


def _split_by_range(values: pa.Array, pivots: tuple[pa.Scalar, ...], check: Check) -> list[Ints]:
    """Return the rows of each range, ascending."""
    found: list[list[Ints]] = [[] for _ in range(len(pivots) + 1)]
    for part in iter_chunks(len(values)):
        some = values[part]
        ranges = np.zeros(len(some), np.uint8)
        for pivot in pivots:
            ranges += ~read_booleans(pc.less(some, pivot))  # so what does not compare comes last, as in a sort
        order = np.argsort(ranges, kind="stable") + part.start
        ends = np.cumsum(np.bincount(ranges, minlength=len(found)))
        for rows, one in zip(np.split(order, ends[:-1]), found, strict=True):
            one.append(rows)
        check()
    return [np.concatenate(rows) if rows else np.zeros(0, np.int64) for rows in found]
