"""Set operations on whole columns: duplicates, membership, positions, counts, row-wise equality.

All results are exact. Hashes only narrow down which rows have to be compared.
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

# Up to this number of values, a lookup in one thread finishes before a join has started.
MAX_SINGLE_THREAD_VALUES = 50_000


def concat_chunks(column: Column) -> pa.Array:
    """Return the column as one array."""
    if isinstance(column, pa.Array):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def repeat_scalar(value: pa.Scalar, count: int) -> pa.Array:
    """Return a column with one value, which may be a list."""
    # Arrow itself can not repeat a list zero times.
    return pa.repeat(value, count) if count else pa.array([], value.type)


def to_mask(column: Column) -> Mask:
    """Return a boolean column without nulls as a numpy mask."""
    return read_booleans(concat_chunks(column))


def find_true_positions(column: Column) -> Positions:
    """Return the positions at which a boolean column is true."""
    return read_numbers(pc.indices_nonzero(column)).astype(np.int64)


def is_ascending(column: Column) -> bool:
    """Return whether every value is larger than the one before, so that all are distinct."""
    return is_ascending_after(None, concat_chunks(column))


def is_ascending_after(last: pa.Array | None, column: pa.Array) -> bool:
    """Return whether every value is larger than the one before, the first one larger than that in `last`."""
    whole = column if last is None else pa.concat_arrays([last, column])
    if whole.null_count:
        return False
    return bool(pc.all(pc.less(whole.slice(0, max(len(whole) - 1, 0)), whole.slice(1))).as_py())


def find_duplicates(columns: Sequence[Column]) -> tuple[Positions, Positions]:
    """Return the rows that equal an earlier one in all columns, and the first equal row of each. No value is null."""
    # An ascending column, such as one of generated ids, has no duplicates.
    if len(columns) == 1 and not pa.types.is_boolean(columns[0].type) and is_ascending(columns[0]):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    return find_duplicates_by_hash(
        hash_rows(columns), lambda rows: [concat_chunks(column).take(pa.array(rows)) for column in columns]
    )


def find_duplicates_by_hash(
    hashes: Hashes, fetch: Callable[[Positions], Sequence[pa.Array]]
) -> tuple[Positions, Positions]:
    """Find duplicates as `find_duplicates` does, given hashes: only rows that share one are fetched, ascending."""
    # Equal neighbours after sorting are shared hashes; without any, no row is fetched.
    ordered = np.sort(hashes)
    shared = ordered[1:][ordered[1:] == ordered[:-1]]
    if not len(shared):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    suspects = np.flatnonzero(np.isin(hashes, shared))
    group = _encode_groups(fetch(suspects))
    _, first, inverse = np.unique(group, return_index=True, return_inverse=True)
    earliest = first[inverse]
    is_later = earliest != np.arange(len(suspects))
    return suspects[is_later], suspects[earliest[is_later]]


def is_among(values: Column, members: Column) -> Mask:
    """Return a mask of the values that are members of a set. A null is not."""
    if not len(values) or not len(members):
        return np.zeros(len(values), np.bool_)
    if len(values) + len(members) <= MAX_SINGLE_THREAD_VALUES:
        return to_mask(pc.is_in(values, value_set=concat_chunks(members), skip_nulls=True))
    mask = np.zeros(len(values), np.bool_)
    indexed = pa.table({"value": values, "row": np.arange(len(values))})
    joined = indexed.join(pa.table({"value": members}), "value", join_type="left semi")
    mask[joined.column("row").to_numpy()] = True
    return mask


def find_positions(values: Column, members: Column) -> Positions:
    """Return the position of each value among distinct members, or -1 where it is not one."""
    positions = np.full(len(values), -1, np.int64)
    if not len(values) or not len(members):
        return positions
    if len(values) + len(members) <= MAX_SINGLE_THREAD_VALUES:
        indices = pc.index_in(values, value_set=concat_chunks(members), skip_nulls=True)
        return np.asarray(concat_chunks(indices).fill_null(-1).to_numpy(zero_copy_only=False)).astype(np.int64)
    indexed = pa.table({"value": values, "row": np.arange(len(values))})
    indexed_members = pa.table({"value": members, "position": np.arange(len(members))})
    joined = indexed.join(indexed_members, "value", join_type="inner")
    positions[joined.column("row").to_numpy()] = joined.column("position").to_numpy()
    return positions


def rank_in_groups(groups: Positions) -> Positions:
    """Return for each row the number of earlier rows of the same group."""
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    is_first = np.ones(len(groups), np.bool_)
    is_first[1:] = ordered[1:] != ordered[:-1]
    starts = np.maximum.accumulate(np.where(is_first, np.arange(len(groups)), 0))
    ranks = np.empty(len(groups), np.int64)
    ranks[order] = np.arange(len(groups)) - starts
    return ranks


def are_equal(left: pa.Array, right: pa.Array) -> Mask:
    """Compare two columns of one type row by row. Two nulls are equal, and floats with the same bits."""
    if not len(left):
        return np.empty(0, np.bool_)
    left_valid, right_valid = to_mask(left.is_valid()), to_mask(right.is_valid())
    if pa.types.is_fixed_size_list(left.type):
        size = left.type.list_size
        values = are_equal(_slice_items(left, size), _slice_items(right, size)).reshape(len(left), size).all(axis=1)
        return np.where(left_valid & right_valid, values, left_valid == right_valid)
    if pa.types.is_list(left.type):
        return _compare_lists(left, right, left_valid, right_valid)
    if pa.types.is_floating(left.type):
        # As integers, so that a NaN equals itself and 0.0 differs from -0.0.
        bits = pa.int32() if left.type.bit_width == 32 else pa.int64()
        left, right = left.view(bits), right.view(bits)
    same = to_mask(pc.fill_null(pc.equal(left, right), fill_value=False))
    return np.where(left_valid & right_valid, same, left_valid == right_valid)


def _slice_items(column: pa.Array, size: int) -> pa.Array:
    return column.values.slice(column.offset * size, len(column) * size)


def _compare_lists(left: pa.Array, right: pa.Array, left_valid: Mask, right_valid: Mask) -> Mask:
    both = left_valid & right_valid
    lengths = np.asarray(pc.fill_null(pc.list_value_length(left), 0))
    is_same = both & (lengths == np.asarray(pc.fill_null(pc.list_value_length(right), 0)))
    # Items are compared only of lists of equal length, so that both flattened columns line up.
    selected = pa.array(is_same)
    left_items, right_items = left.filter(selected).flatten(), right.filter(selected).flatten()
    different_items = np.flatnonzero(~are_equal(left_items, right_items))
    if len(different_items):
        ends = np.cumsum(lengths[is_same])
        different_lists = np.unique(np.searchsorted(ends, different_items, side="right"))
        is_same[np.flatnonzero(is_same)[different_lists]] = False
    return np.asarray(np.where(both, is_same, left_valid == right_valid), np.bool_)


def _encode_groups(columns: Sequence[pa.Array]) -> Positions:
    """Return a number for each row that only equal rows share."""
    group = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        codes = np.asarray(column.dictionary_encode().indices.to_numpy(zero_copy_only=False)).astype(np.int64)
        # Renumbered after each column: a product over all columns could overflow.
        _, group = np.unique(group * (int(codes.max(initial=0)) + 1) + codes, return_inverse=True)
    return np.asarray(group, np.int64)
