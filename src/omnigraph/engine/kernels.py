"""Sort, encode and look up long columns in chunks, with a check of the deadline after each chunk.

A numpy or Arrow kernel can't be interrupted once it runs, so kernels get at most `MAX_KERNEL_ROWS` rows per call.
"""

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.storage.arrow_buffers import build_array, is_valid, read_booleans, read_numbers

Ints = NDArray[np.int64]
Check = Callable[[], None]

# One core sorts this many integers in about 0.02 s, and dictionary-encodes this many texts of 50 bytes in about 0.2 s.
MAX_KERNEL_ROWS = 1 << 18
# Values sampled per bucket to choose where buckets end; with 64, few buckets get twice as long as others.
_SAMPLES_PER_BUCKET = 64
# Values are split into at most this many ranges per pass: each row is compared with all bounds, about 3 ns each.
_MAX_RANGES = 16
# Lookups use chunks this many times as long: the values that are searched are hashed again for each chunk.
_LOOKUP_CHUNK_FACTOR = 4


def skip_check() -> None:
    """Do nothing: the check of a caller without a deadline."""


def iter_chunks(size: int, min_rows: int = 0) -> Iterator[slice]:
    """Yield slices that cover `size` rows, each of at most `MAX_KERNEL_ROWS`, or of `min_rows` if that is more."""
    chunk_rows = max(MAX_KERNEL_ROWS, min_rows)
    for start in range(0, size, chunk_rows):
        yield slice(start, min(start + chunk_rows, size))


def argsort_stable(values: Ints, check: Check) -> Ints:
    """Return the order that sorts the values, the same as numpy's stable `argsort`.

    Many values are first split into buckets by range, and then sorted bucket by bucket.
    """
    size = len(values)
    if size <= MAX_KERNEL_ROWS:
        return np.argsort(values, kind="stable")
    # Twice as many buckets as needed, so that a bucket of twice the average length still fits one kernel call; at most
    # 2^15, so that bucket numbers fit into 16 bits.
    bucket_count = min(2 * (size // MAX_KERNEL_ROWS + 1), 2**15)
    sample = np.sort(values[:: max(1, size // (bucket_count * _SAMPLES_PER_BUCKET))])
    pivots = np.unique(sample[:: max(1, len(sample) // bucket_count)])
    buckets = np.empty(size, np.uint16)
    for part in iter_chunks(size):
        buckets[part] = np.searchsorted(pivots, values[part], side="right")
        check()
    order = np.argsort(buckets, kind="stable")  # a radix sort for 16 bits: one pass per byte
    check()
    ends = np.cumsum(np.bincount(buckets, minlength=len(pivots) + 1))
    for start, end in zip(np.append(0, ends[:-1]).tolist(), ends.tolist(), strict=True):
        rows = order[start:end]
        order[start:end] = rows[np.argsort(values[rows], kind="stable")]
        check()
    return order


def search_sorted(ordered: Ints, values: Ints, side: str, check: Check) -> Ints:
    """Return the insertion point of each value among the ordered ones, the same as numpy's `searchsorted`."""
    points = np.empty(len(values), np.int64)
    for part in iter_chunks(len(values)):
        points[part] = np.searchsorted(ordered, values[part], side="left" if side == "left" else "right")
        check()
    return points


def expand_runs(begins: Ints, counts: Ints) -> Ints:
    """Return the consecutive numbers of all runs: `counts[i]` of them from `begins[i]` on."""
    ends = np.cumsum(counts)
    return np.repeat(begins - ends + counts, counts) + np.arange(int(counts.sum()))


def sort_values(values: Ints, check: Check) -> Ints:
    """Return the values in ascending order."""
    return np.sort(values) if len(values) <= MAX_KERNEL_ROWS else values[argsort_stable(values, check)]


def find_distinct(values: Ints, check: Check) -> Ints:
    """Return the distinct values in ascending order, the same as numpy's `unique`."""
    # Positions of all rows ascend already: sorting a million of them took 8 ms, this look 1.
    if bool((values[1:] > values[:-1]).all()):
        return values
    # numpy's `unique` hashes, which is slow for many values: sort and compare neighbours instead.
    ordered = sort_values(values, check)
    is_new = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=is_new[1:])
    return ordered[is_new]


def encode_dictionary(values: pa.Array, check: Check) -> tuple[pa.Array, pa.Array]:
    """Return the code of each value, null for null, and the distinct values by code."""
    if len(values) <= MAX_KERNEL_ROWS:
        whole = values.dictionary_encode()
        return whole.indices, whole.dictionary
    # If the first rows repeat values, all chunks together probably have few: then one unification is enough.
    probe = values[: MAX_KERNEL_ROWS // 16]
    if 2 * len(probe.unique()) <= len(probe):
        chunks = _encode_chunks(values, check)
        if sum(len(chunk.dictionary) for chunk in chunks) <= MAX_KERNEL_ROWS:
            return _unify_dictionaries(chunks, check)
    # Otherwise encode one range of values after the other: ranges share no value, so their dictionaries just add up.
    codes = np.empty(len(values), np.int32)
    is_coded = np.ones(len(values), np.bool_)
    dictionaries = []
    first_code = 0
    for [(rows, members)] in _iter_ranges((values,), check):
        range_codes, dictionary = _unify_dictionaries(_encode_chunks(members, check), check)
        codes[rows] = read_numbers(range_codes) + first_code
        if range_codes.null_count:
            is_coded[rows] = is_valid(range_codes)
        dictionaries.append(dictionary)
        first_code += len(dictionary)
    nullable_codes = pc.if_else(build_array(is_coded), build_array(codes), pa.scalar(None, pa.int32()))
    return nullable_codes, pa.concat_arrays(dictionaries)


def _encode_chunks(values: pa.Array, check: Check) -> list[pa.DictionaryArray]:
    chunks = []
    for part in iter_chunks(len(values)):
        chunks.append(values[part].dictionary_encode())
        check()
    return chunks


def _unify_dictionaries(chunks: list[pa.DictionaryArray], check: Check) -> tuple[pa.Array, pa.Array]:
    """Return the codes and distinct values of all chunks."""
    if len(chunks) > 1:
        chunks = pa.chunked_array(chunks).unify_dictionaries().chunks
        check()
    return pa.concat_arrays([chunk.indices for chunk in chunks]), chunks[0].dictionary


def rank_distinct(values: pa.Array, check: Check) -> Ints:
    """Return the rank of each value in ascending order. Values must be distinct; nulls come last."""
    if _is_ascending(values, check):
        return np.arange(len(values))
    ranks = np.empty(len(values), np.int64)
    start = 0
    for [(rows, members)] in _iter_ranges((values,), check):
        ranks[rows[read_numbers(pc.sort_indices(members))]] = np.arange(start, start + len(rows))
        start += len(rows)
        check()
    return ranks


def _is_ascending(values: pa.Array, check: Check) -> bool:
    """Return whether each value is greater than the one before it; false if there are nulls."""
    for start in range(0, len(values) - 1, MAX_KERNEL_ROWS):
        chunk = values[start : start + MAX_KERNEL_ROWS + 1]  # one row more, to compare across the border
        if not read_booleans(pc.less(chunk[:-1], chunk[1:])).all():
            return False
        check()
    return True


def look_up(keys: pa.Array, values: pa.Array, check: Check) -> Ints:
    """Return for each key the row of `values` that equals it, or -1 if there is none or the key is null."""
    result = np.full(len(keys), -1, np.int64)
    for (value_rows, range_values), (key_rows, range_keys) in _iter_ranges((values, keys), check):
        for part in iter_chunks(len(range_keys), _LOOKUP_CHUNK_FACTOR * MAX_KERNEL_ROWS):
            index = pc.index_in(range_keys[part], value_set=range_values, skip_nulls=True)
            result[key_rows[part][is_valid(index)]] = value_rows[read_numbers(index.drop_null())]
            check()
    return result


def _iter_ranges(columns: tuple[pa.Array, ...], check: Check) -> Iterator[tuple[tuple[Ints, pa.Array], ...]]:
    """Yield ranges of values in ascending order: for each column, the rows in the range and their values.

    A range has at most `MAX_KERNEL_ROWS` rows of the first column, unless more are equal. Nulls are in the last one.
    """
    leading = columns[0]
    pivots = _choose_pivots(leading) if len(leading) > MAX_KERNEL_ROWS else ()
    split = [_split_by_range(column, pivots, check) for column in columns] if pivots else []
    # A split that leaves all rows in one range would recurse forever.
    if not split or max(map(len, split[0])) == len(leading):
        yield tuple((np.arange(len(column)), column) for column in columns)
        return
    for members in zip(*split, strict=True):
        taken = tuple(column.take(build_array(rows)) for column, rows in zip(columns, members, strict=True))
        check()
        for inner in _iter_ranges(taken, check):
            yield tuple((rows[subset], values) for rows, (subset, values) in zip(members, inner, strict=True))


def _choose_pivots(values: pa.Array) -> tuple[pa.Scalar, ...]:
    """Return the first value of each range except the first, from a sample."""
    range_count = min(2 * (len(values) // MAX_KERNEL_ROWS + 1), _MAX_RANGES)
    sample_rows = np.arange(0, len(values), max(1, len(values) // (range_count * _SAMPLES_PER_BUCKET)))
    sample = values.take(build_array(sample_rows)).drop_null()
    ordered = sample.take(pc.sort_indices(sample))
    pivots = ordered.take(build_array(np.arange(0, len(ordered), max(1, -(-len(ordered) // range_count)))))
    return tuple(pivots.unique())[1:]


def _split_by_range(values: pa.Array, pivots: tuple[pa.Scalar, ...], check: Check) -> list[Ints]:
    """Return the rows of each range, ascending."""
    rows_by_range: list[list[Ints]] = [[] for _ in range(len(pivots) + 1)]
    for part in iter_chunks(len(values)):
        chunk = values[part]
        ranges = np.zeros(len(chunk), np.uint8)
        for pivot in pivots:
            ranges += ~read_booleans(pc.less(chunk, pivot))  # null and NaN, less than no pivot, come last as in a sort
        order = np.argsort(ranges, kind="stable") + part.start
        ends = np.cumsum(np.bincount(ranges, minlength=len(rows_by_range)))
        for chunk_rows, rows in zip(np.split(order, ends[:-1]), rows_by_range, strict=True):
            rows.append(chunk_rows)
        check()
    return [np.concatenate(rows) if rows else np.zeros(0, np.int64) for rows in rows_by_range]
