"""What checks ask of whole columns: which rows repeat others, which values are among others, how often each occurs.

Everything here is exact. Hashes only narrow down which rows have to be compared.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.storage.arrow_buffers import read_booleans, read_numbers
from omnigraph.storage.column_hashing import Hashes, hash_rows

Column: TypeAlias = pa.Array | pa.ChunkedArray
Positions: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]

MAX_SINGLE_THREAD_VALUES = 50_000
"""Up to so many values, a look-up in one thread is over before a join has started."""


def concat_chunks(column: Column) -> pa.Array:
    """The column in one piece."""
    if isinstance(column, pa.Array):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def repeat_scalar(value: pa.Scalar, count: int) -> pa.Array:
    """A column that says one thing, which may be a list: Arrow by itself repeats no list zero times."""
    return pa.repeat(value, count) if count else pa.array([], value.type)


def to_mask(column: Column) -> Mask:
    """A Boolean column without nulls as numpy has it."""
    return read_booleans(concat_chunks(column))


def find_true_positions(column: Column) -> Positions:
    """Where a Boolean column is true."""
    return read_numbers(pc.indices_nonzero(column)).astype(np.int64)


def is_ascending(column: Column) -> bool:
    """Whether every value is larger than the one before, so that none is there twice."""
    return is_ascending_after(None, concat_chunks(column))


def is_ascending_after(last: pa.Array | None, column: pa.Array) -> bool:
    """Whether every value is larger than the one before; the one before the first is that of `last`."""
    whole = column if last is None else pa.concat_arrays([last, column])
    if whole.null_count:
        return False
    return bool(pc.all(pc.less(whole.slice(0, max(len(whole) - 1, 0)), whole.slice(1))).as_py())


def find_duplicates(columns: Sequence[Column]) -> tuple[Positions, Positions]:
    """The rows that are equal to an earlier one in all columns, and for each the first such row. No value is null."""
    if len(columns) == 1 and not pa.types.is_boolean(columns[0].type) and is_ascending(columns[0]):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    return find_duplicates_by_hash(
        hash_rows(columns), lambda rows: [concat_chunks(column).take(pa.array(rows)) for column in columns]
    )


def find_duplicates_by_hash(
    hashes: Hashes, fetch: Callable[[Positions], Sequence[pa.Array]]
) -> tuple[Positions, Positions]:
    """As `repeats`, of rows whose hashes are known: only those that share one are fetched, in ascending order."""
    ordered = np.sort(hashes)
    shared = ordered[1:][ordered[1:] == ordered[:-1]]
    if not len(shared):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    suspects = np.flatnonzero(np.isin(hashes, shared))
    group = _encode_groups(fetch(suspects))
    _, first, back = np.unique(group, return_index=True, return_inverse=True)
    earliest = first[back]
    is_later = earliest != np.arange(len(suspects))
    return suspects[is_later], suspects[earliest[is_later]]


def is_among(values: Column, others: Column) -> Mask:
    """For each value, whether it is one of the others. A null is not."""
    if not len(values) or not len(others):
        return np.zeros(len(values), np.bool_)
    if len(values) + len(others) <= MAX_SINGLE_THREAD_VALUES:
        return to_mask(pc.is_in(values, value_set=concat_chunks(others), skip_nulls=True))
    found = np.zeros(len(values), np.bool_)
    mine = pa.table({"value": values, "row": np.arange(len(values))})
    joined = mine.join(pa.table({"value": others}), "value", join_type="left semi")
    found[joined.column("row").to_numpy()] = True
    return found


def find_positions(values: Column, others: Column) -> Positions:
    """For each value, its position among the others, each of which is there once; -1 where it is not."""
    places = np.full(len(values), -1, np.int64)
    if not len(values) or not len(others):
        return places
    if len(values) + len(others) <= MAX_SINGLE_THREAD_VALUES:
        found = pc.index_in(values, value_set=concat_chunks(others), skip_nulls=True)
        return np.asarray(concat_chunks(found).fill_null(-1).to_numpy(zero_copy_only=False)).astype(np.int64)
    mine = pa.table({"value": values, "row": np.arange(len(values))})
    theirs = pa.table({"value": others, "place": np.arange(len(others))})
    joined = mine.join(theirs, "value", join_type="inner")
    places[joined.column("row").to_numpy()] = joined.column("place").to_numpy()
    return places


def tally(values: Column) -> tuple[pa.Array, Positions]:
    """Each value once, and how often it occurs."""
    counted = pa.table({"value": values}).group_by("value").aggregate([([], "count_all")])
    return concat_chunks(counted.column("value")), counted.column("count_all").to_numpy()


def rank_in_groups(groups: Positions) -> Positions:
    """For each row, how many earlier rows have the same group."""
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    is_first = np.ones(len(groups), np.bool_)
    is_first[1:] = ordered[1:] != ordered[:-1]
    starts = np.maximum.accumulate(np.where(is_first, np.arange(len(groups)), 0))
    found = np.empty(len(groups), np.int64)
    found[order] = np.arange(len(groups)) - starts
    return found


def are_equal(one: pa.Array, other: pa.Array) -> Mask:
    """Row by row, whether two columns of one type say the same. Two nulls do; floats, when they have the same bits."""
    if not len(one):
        return np.empty(0, np.bool_)
    valid, also_valid = to_mask(one.is_valid()), to_mask(other.is_valid())
    if pa.types.is_fixed_size_list(one.type):
        size = one.type.list_size
        values = are_equal(_slice_items(one, size), _slice_items(other, size)).reshape(len(one), size).all(axis=1)
        return np.where(valid & also_valid, values, valid == also_valid)
    if pa.types.is_list(one.type):
        return _compare_lists(one, other, valid, also_valid)
    if pa.types.is_floating(one.type):
        bits = pa.int32() if one.type.bit_width == 32 else pa.int64()
        one, other = one.view(bits), other.view(bits)
    same = to_mask(pc.fill_null(pc.equal(one, other), fill_value=False))
    return np.where(valid & also_valid, same, valid == also_valid)


def _slice_items(column: pa.Array, size: int) -> pa.Array:
    return column.values.slice(column.offset * size, len(column) * size)


def _compare_lists(one: pa.Array, other: pa.Array, valid: Mask, also_valid: Mask) -> Mask:
    both = valid & also_valid
    lengths = np.asarray(pc.fill_null(pc.list_value_length(one), 0))
    is_same = both & (lengths == np.asarray(pc.fill_null(pc.list_value_length(other), 0)))
    chosen = pa.array(is_same)
    mine, theirs = one.filter(chosen).flatten(), other.filter(chosen).flatten()
    differs = np.flatnonzero(~are_equal(mine, theirs))
    if len(differs):
        ends = np.cumsum(lengths[is_same])
        wrong = np.unique(np.searchsorted(ends, differs, side="right"))
        is_same[np.flatnonzero(is_same)[wrong]] = False
    return np.asarray(np.where(both, is_same, valid == also_valid), np.bool_)


def _encode_groups(columns: Sequence[pa.Array]) -> Positions:
    """For each row a number that only equal rows share."""
    group = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        codes = np.asarray(column.dictionary_encode().indices.to_numpy(zero_copy_only=False)).astype(np.int64)
        _, group = np.unique(group * (int(codes.max(initial=0)) + 1) + codes, return_inverse=True)
    return np.asarray(group, np.int64)
