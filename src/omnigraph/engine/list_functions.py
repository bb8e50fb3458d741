"""Apply list functions to columns of lists. Positions count from 0.

The lists of properties and of our query language hold no nulls; those of Cypher may.
"""

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.engine.arithmetic import read_clipped
from omnigraph.errors import BadArgumentError, QueryError
from omnigraph.storage.arrow_buffers import is_valid, read_numbers

Ints = NDArray[np.int64]
# 400 MB of numbers for all rows of one batch: more than any statement reads, and less than fills a machine.
MAX_RANGE_NUMBERS = 50_000_000
MAX_INTEGER = 2**63 - 1


def build_lists(columns: list[pa.Array], element: pa.DataType) -> pa.Array:
    """Return a list of the columns' values in each row; null where a value is null."""
    size = len(columns[0])
    width = len(columns)
    valid = np.logical_and.reduce([is_valid(column) for column in columns])
    # Column after column, then picked row by row.
    values = pa.concat_arrays([column.cast(element) for column in columns])
    order = np.arange(size * width).reshape(width, size).T[valid].ravel()
    return _assemble(values.take(pa.array(order)), np.where(valid, width, 0), valid)


def build_lists_with_nulls(columns: list[pa.Array], element: pa.DataType) -> pa.Array:
    """Return a list of the columns' values in each row, nulls included."""
    size, width = len(columns[0]), len(columns)
    values = pa.concat_arrays([column.cast(element) for column in columns])
    order = np.arange(size * width).reshape(width, size).T.ravel()
    return _assemble(values.take(pa.array(order)), np.full(size, width), np.ones(size, np.bool_))


def join_lists(left: pa.Array, right: pa.Array) -> pa.Array:
    """Return the elements of one list and then those of another, in each row; null where one of them is."""
    valid = is_valid(left) & is_valid(right)
    (starts, counts, _), (later_starts, later_counts, _) = _read_layout(left), _read_layout(right)
    counts, later_counts = np.where(valid, counts, 0), np.where(valid, later_counts, 0)
    values = pa.concat_arrays([left.values, right.values])
    # The two parts of each row are neighbours.
    part_starts = np.stack([starts, later_starts + len(left.values)], axis=1).ravel()
    part_counts = np.stack([counts, later_counts], axis=1).ravel()
    return _assemble(values.take(pa.array(_expand(part_starts, part_counts))), counts + later_counts, valid)


def reverse_lists(lists: pa.Array) -> pa.Array:
    """Return the elements of each list from the last to the first."""
    starts, counts, valid = _read_layout(lists)
    forward, first = _expand(starts, counts), np.repeat(starts, counts)
    last = np.repeat(starts + counts - 1, counts)
    return _assemble(lists.values.take(pa.array(last - (forward - first))), counts, valid)


def build_ranges(first: pa.Array, last: pa.Array, step: pa.Array) -> pa.Array:
    """Return the whole numbers from one to another, both included, in each row.

    Raises:
        BadArgumentError: A step is 0, or the numbers are too many.
    """
    valid = is_valid(first) & is_valid(last) & is_valid(step)
    lows, highs, steps = (read_clipped(each) for each in (first, last, step))
    if (valid & (steps == 0)).any():
        raise BadArgumentError("step", "0", "a `range` with this step never ends")
    sizes = [
        _count_numbers(low, high, by) if is_known else 0
        for low, high, by, is_known in zip(lows.tolist(), highs.tolist(), steps.tolist(), valid.tolist(), strict=True)
    ]
    if sum(sizes) > MAX_RANGE_NUMBERS:
        raise BadArgumentError("range", f"{sum(sizes):,} numbers", f"at most {MAX_RANGE_NUMBERS:,} are built at a time")
    counts = np.array(sizes, np.int64)
    ends = np.cumsum(counts)
    places = np.arange(counts.sum()) - np.repeat(ends - counts, counts)
    numbers = np.repeat(lows, counts) + places * np.repeat(steps, counts)
    return _assemble(pa.array(numbers, pa.int64()), counts, valid)


def _count_numbers(low: int, high: int, by: int) -> int:
    return len(range(low, high + int(math.copysign(1, by)), by))


def sum_lists(lists: pa.Array) -> pa.Array:
    """Return the sum of the numbers of each list, 0 of none.

    Raises:
        QueryError: A sum of whole numbers does not fit into 64 bits.
    """
    is_whole = pa.types.is_integer(lists.type.value_type)
    add = sum if is_whole else math.fsum
    sums = [None if items is None else add(items) for items in lists.to_pylist()]
    if is_whole and any(total is not None and not -MAX_INTEGER - 1 <= total <= MAX_INTEGER for total in sums):
        raise QueryError.aggregate_overflow("sum(DISTINCT …)", "I64")
    return pa.array(sums, lists.type.value_type)


def pick_percentiles(lists: pa.Array, fractions: pa.Array) -> pa.Array:
    """Return the value of each list that this fraction of its values reaches; null of none.

    Raises:
        BadArgumentError: A fraction is not between 0 and 1.
    """
    picked = []
    for items, fraction in zip(lists.to_pylist(), fractions.to_pylist(), strict=True):
        if fraction is None or not 0 <= fraction <= 1:
            raise BadArgumentError("percentile", str(fraction), "it is a fraction from 0 to 1")
        ordered = sorted(items or ())
        picked.append(ordered[max(math.ceil(fraction * len(ordered)) - 1, 0)] if ordered else None)
    return pa.array(picked, lists.type.value_type)


def count_elements(lists: pa.Array) -> pa.Array:
    """Return the number of elements of each list."""
    return pc.list_value_length(lists).cast(pa.int64())


def take_element(lists: pa.Array, index: pa.Array) -> pa.Array:
    """Return the element at a position of each list; null outside of it."""
    starts, lengths, valid = _read_layout(lists)
    at = read_clipped(index)
    has_element = valid & is_valid(index) & (at >= 0) & (at < lengths)
    positions = np.where(has_element, starts + at, 0)
    return lists.values.take(pa.array(positions, mask=~has_element))


def take_first(lists: pa.Array) -> pa.Array:
    """Return the first element of each list; null if it is empty."""
    return take_element(lists, pa.array(np.zeros(len(lists), np.int64)))


def take_last(lists: pa.Array) -> pa.Array:
    """Return the last element of each list; null if it is empty."""
    _, lengths, _ = _read_layout(lists)
    return take_element(lists, pa.array(lengths - 1))


def slice_lists(lists: pa.Array, start: pa.Array, length: pa.Array | None) -> pa.Array:
    """Return the elements of each list from a position on, at most `length`; what lies outside is left out."""
    starts, lengths, valid = _read_layout(lists)
    valid = valid & is_valid(start)
    begin = read_clipped(start)
    end = lengths
    if length is not None:
        valid = valid & is_valid(length)
        end = _find_end(begin, read_numbers(length.fill_null(0)), lengths)
    first = np.clip(begin, 0, lengths)
    counts = np.where(valid, np.maximum(end - first, 0), 0)
    return _assemble(lists.values.take(pa.array(_expand(starts + first, counts))), counts, valid)


def _find_end(begin: Ints, counts: NDArray[Any], lengths: Ints) -> Ints:
    """Return where `counts` elements from `begin` end, at most at `lengths`, without leaving 64 bits on the way."""
    wanted = np.where(counts < 0, 0, counts).astype(np.uint64)
    # What lies before the list is taken off first.
    before = np.where(begin < 0, begin, 0).astype(np.uint64)
    skipped = np.uint64(0) - before
    rest = np.where(wanted > skipped, wanted - skipped, np.uint64(0))
    inside = np.minimum(rest, lengths.astype(np.uint64)).astype(np.int64)
    end: Ints = np.minimum(np.clip(begin, 0, lengths) + inside, lengths)
    return end


def sort_lists(lists: pa.Array) -> pa.Array:
    """Return each list in ascending order."""
    values, owners, counts, valid = _flatten(lists)
    order = pc.sort_indices(
        pa.table({"owner": owners, "value": values}), [("owner", "ascending"), ("value", "ascending")]
    )
    return _assemble(values.take(order), counts, valid)


def drop_repeated(lists: pa.Array) -> pa.Array:
    """Return each list without repetitions; the first of equal elements stays."""
    values, owners, counts, valid = _flatten(lists)
    # Null is a value of its own, and elements of Cypher's lists may be null.
    codes = values.dictionary_encode(null_encoding="encode").indices.to_numpy(zero_copy_only=False).astype(np.int64)
    owner_numbers = owners.to_numpy(zero_copy_only=False)
    # The first row of each pair of list and value, in the order of the rows.
    pairs = owner_numbers * (int(codes.max(initial=0)) + 1) + codes
    _, first = np.unique(pairs, return_index=True)
    first.sort()
    kept = np.bincount(owner_numbers[first], minlength=len(counts)).astype(np.int64)
    return _assemble(values.take(pa.array(first)), kept, valid)


def _read_layout(lists: pa.Array) -> tuple[Ints, Ints, NDArray[np.bool_]]:
    """Return where each list starts in `lists.values`, its length, and whether it is not null."""
    offsets = lists.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
    valid = is_valid(lists)
    return offsets[:-1], np.where(valid, np.diff(offsets), 0), valid


def _flatten(lists: pa.Array) -> tuple[pa.Array, pa.Array, Ints, NDArray[np.bool_]]:
    """Return all elements, the number of the list that each belongs to, the lengths, and which lists are not null."""
    starts, counts, valid = _read_layout(lists)
    values = lists.values.take(pa.array(_expand(starts, counts)))
    return values, pa.array(np.repeat(np.arange(len(counts)), counts)), counts, valid


def _expand(starts: Ints, counts: Ints) -> Ints:
    """Return `counts` consecutive numbers from each start."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    numbers: Ints = np.arange(total) + np.repeat(starts - (ends - counts), counts)
    return numbers


def _assemble(values: pa.Array, counts: Ints, valid: NDArray[np.bool_]) -> pa.Array:
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    lists = pa.ListArray.from_arrays(pa.array(offsets), values)
    return pc.if_else(pa.array(valid), lists, pa.nulls(len(lists), lists.type))
