"""Find the positions at which two versions of a table can have different rows, and read the rows there.

A position counts the live rows of a version. Fragments that both versions list with the same deletions have the same
rows and are skipped.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from omnigraph.schema.arrow import identity_from_arrow
from omnigraph.schema.catalog import UNASSIGNED
from omnigraph.schema.identity import Aliases
from omnigraph.storage.arrow_buffers import build_array
from omnigraph.storage.columnar_sets import Mask, Positions, are_equal, repeat_scalar, to_mask
from omnigraph.storage.deletion_vectors import invert_offsets
from omnigraph.storage.fragment_list import Fragment
from omnigraph.storage.lance_table import ADDRESS, LanceTable

# Columns that only the later version has, by name, with the value that existing rows got; None is null.
Fills = Mapping[str, pa.Scalar | None]

# Rows are read in up to this many runs; if there would be more, everything from the first to the last row is read.
MAX_RUNS = 64
# Rows this close together belong to one run: reading the rows between them costs less than another request.
RUN_GAP = 1_024
# Single rows are looked up unless their range has fewer than this many times as many rows. The limit is higher in
# fragments with deletions, where looking up a row takes longer.
_MAX_SPAN = 2
_MAX_SPAN_WITH_DELETIONS = 16
_OFFSET_MASK = np.uint64(0xFFFFFFFF)


@dataclass(frozen=True, slots=True)
class ChangedRange:
    """Positions of one fragment, ascending: all `count` from `start` on, or those of `chosen`."""

    start: int
    count: int
    chosen: Positions | None = None
    fragment: int = -1
    """The fragment's number."""

    def iter_slices(self, size: int) -> Iterator[Positions]:
        """Yield the positions, at most `size` per slice."""
        for first in range(0, self.count, size):
            yield self.get_slice(first, size)

    def get_slice(self, first: int, size: int) -> Positions:
        """Return at most `size` positions, from the one of that number on."""
        last = min(first + size, self.count)
        if self.chosen is None:
            return np.arange(self.start + first, self.start + last, dtype=np.int64)
        return self.chosen[first:last]


def concat_positions(ranges: Sequence[ChangedRange]) -> Positions:
    """Return the positions of all ranges in one array."""
    slices = [positions for range_ in ranges for positions in range_.iter_slices(max(range_.count, 1))]
    return np.concatenate(slices) if slices else np.empty(0, np.int64)


def find_changed_ranges(
    before: LanceTable, after: LanceTable, fills: Fills | None = None, aliases: Aliases | None = None
) -> tuple[list[ChangedRange], list[ChangedRange]]:
    """Return the ranges of the earlier and of the later version whose rows the other one may not have.

    With `fills`, columns that a new schema added are no change: a fragment that only gained columns has the same rows,
    except those whose value in a new column differs from its fill. Without, a row counts as changed if it has a value
    in a column that only one version has, including columns that were dropped from the schema but are still in the
    files. `aliases` maps identities of columns to those that they are equal to.
    """
    old_fragments = before.list_fragments()
    new_fragments = after.list_fragments()
    if before.path != after.path:
        old_ranges = [_place_fragment(before, index).whole for index in range(len(old_fragments))]
        new_ranges = [_place_fragment(after, index).whole for index in range(len(new_fragments))]
        return old_ranges, new_ranges
    columns = _UnsharedColumns({}, {} if fills is None else fills)
    if fills is None:
        columns = _UnsharedColumns(
            _find_unshared_columns(before, after, aliases or {}), _find_unshared_columns(after, before, aliases or {})
        )
    old_index_by_file = {
        key: at for at, fragment in enumerate(old_fragments) for key in _get_file_keys(fragment, fills)
    }
    # Fragments of the earlier version whose rows may differ, by index; None if the later version does not list them.
    changed_old: dict[int, ChangedRange | None] = dict.fromkeys(range(len(old_fragments)))
    changed_new: list[ChangedRange] = []
    for new_index, fragment in enumerate(new_fragments):
        file_keys = _get_file_keys(fragment, fills)
        old_index = next((old_index_by_file[key] for key in file_keys if key in old_index_by_file), None)
        if old_index is None:
            changed_new.append(_place_fragment(after, new_index).whole)
            continue
        old_fragment = old_fragments[old_index]
        # With fills, only a fragment that gained a file can have values in a new column.
        is_read = bool(columns.before or columns.after) and (fills is None or old_fragment.files != fragment.files)
        # Most fragments are equal in both versions, so nothing is built for them.
        if old_fragment.deletions == fragment.deletions and not is_read:
            changed_old.pop(old_index, None)
            continue
        changed_old[old_index], new_range = _compare_fragment(
            before, old_index, after, new_index, columns if is_read else None
        )
        changed_new.append(new_range)
    old_ranges = [range_ or _place_fragment(before, index).whole for index, range_ in sorted(changed_old.items())]
    return [range_ for range_ in old_ranges if range_.count], [range_ for range_ in changed_new if range_.count]


def find_live_offsets(table: LanceTable, fragment: Fragment) -> Positions:
    """Return the offsets of a fragment's live rows, ascending; no column is read."""
    if not fragment.deleted:
        return np.arange(fragment.rows, dtype=np.int64)
    return invert_offsets(table.read_deleted_offsets([fragment.number])[0], fragment.rows)


def read_rows_at(table: LanceTable, positions: Positions, columns: Sequence[str] | None = None) -> pa.Table:
    """Return the rows at these positions, in this order, holding little more than them in memory.

    Rows that are close together are scanned in runs, others are looked up individually.
    """
    fragments = table.list_fragments()
    starts = table.get_address_map().starts
    fragment_indexes = np.searchsorted(starts, positions, side="right") - 1
    touched = np.unique(fragment_indexes)
    has_deletions = any(fragments[index].deleted for index in touched)
    if not _is_dense(positions, _MAX_SPAN_WITH_DELETIONS if has_deletions else _MAX_SPAN):
        return table.take(build_array(positions), columns)
    # A scan of the touched fragments numbers their live rows from 0: translate positions to these numbers.
    live_rows = [fragments[index].rows - fragments[index].deleted for index in touched]
    scan_starts = np.zeros(len(fragments), np.int64)
    scan_starts[touched] = np.concatenate(([0], np.cumsum(live_rows)))[:-1]
    scan_rows = positions - starts[fragment_indexes] + scan_starts[fragment_indexes]
    order = np.argsort(scan_rows, kind="stable")
    numbers = [fragments[index].number for index in touched]
    batches: list[pa.RecordBatch] = []
    for run in _split_runs(scan_rows[order]):
        batches += _read_run(table, numbers, run, columns)
    inverse = np.empty(len(order), np.int64)
    inverse[order] = np.arange(len(order))
    return pa.Table.from_batches(batches).take(build_array(inverse))


def _is_dense(positions: Positions, max_span: int) -> bool:
    """Return whether reading the whole range of positions is faster than looking up each of them."""
    return len(positions) > RUN_GAP and int(positions.max() - positions.min()) < max_span * len(positions)


def _split_runs(rows: Positions) -> list[Positions]:
    """Split ascending row numbers into runs of neighbours; return a single run if there would be too many."""
    cuts = np.flatnonzero(np.diff(rows) > RUN_GAP) + 1
    return [rows] if len(cuts) >= MAX_RUNS else np.split(rows, cuts)


def _read_run(
    table: LanceTable, fragments: Sequence[int], run: Positions, columns: Sequence[str] | None
) -> Iterator[pa.RecordBatch]:
    start = int(run[0])
    for batch in table.iter_batches(columns, fragments=fragments, within=range(start, int(run[-1]) + 1)):
        low, high = np.searchsorted(run, (start, start + batch.num_rows))
        if high > low:
            yield batch.take(build_array(run[low:high] - start))
        start += batch.num_rows


@dataclass(frozen=True, slots=True)
class _PlacedFragment:
    """A fragment and the position of its first live row."""

    fragment: Fragment
    start: int

    @property
    def live_rows(self) -> int:
        return self.fragment.rows - self.fragment.deleted

    @property
    def whole(self) -> ChangedRange:
        return ChangedRange(self.start, self.live_rows, None, self.fragment.number)

    def select(self, is_chosen: Mask) -> ChangedRange:
        chosen = self.start + np.flatnonzero(is_chosen)
        return ChangedRange(self.start, len(chosen), chosen, self.fragment.number)


def _place_fragment(table: LanceTable, index: int) -> _PlacedFragment:
    """Return the fragment at this index of a version, with its first position."""
    return _PlacedFragment(table.list_fragments()[index], int(table.get_address_map().starts[index]))


def _get_file_keys(fragment: Fragment, fills: Fills | None) -> Sequence[object]:
    """Return the keys by which another version recognises a fragment."""
    # A new column adds a file to a fragment, so with fills one common file is enough.
    return [fragment.files] if fills is None else fragment.files


@dataclass(frozen=True, slots=True)
class _UnsharedColumns:
    """Columns that only one of two versions has, with the value that does not count as a change."""

    before: Fills
    after: Fills


def _find_unshared_columns(table: LanceTable, other: LanceTable, aliases: Aliases) -> Fills:
    """Return the columns of a version that another one does not have; only a value that is not null is a change."""
    shared = {_identify_column(field, aliases) for field in other.schema}
    return {field.name: None for field in table.schema if _identify_column(field, aliases) not in shared}


def _identify_column(field: pa.Field, aliases: Aliases) -> int | str:
    """Return the identity of a column's property, or the name of a column that belongs to no property."""
    identity = identity_from_arrow(field)
    return str(field.name) if identity == UNASSIGNED else aliases.get(identity, identity)


def _compare_fragment(
    before: LanceTable, old_index: int, after: LanceTable, new_index: int, columns: _UnsharedColumns | None
) -> tuple[ChangedRange, ChangedRange]:
    """Return the positions at which two versions of a fragment may differ, by deletions or by values of `columns`."""
    old = _place_fragment(before, old_index)
    new = _place_fragment(after, new_index)
    old_offsets = find_live_offsets(before, old.fragment)
    new_offsets = find_live_offsets(after, new.fragment)
    differs_in_old, differs_in_new = np.ones((2, new.fragment.rows), np.bool_)
    differs_in_old[new_offsets] = False
    differs_in_new[old_offsets] = False
    if columns is not None:
        for table, fragment, fills in ((before, old.fragment, columns.before), (after, new.fragment, columns.after)):
            changed = _find_changed_offsets(table, fragment, fills)
            differs_in_old[changed] = True
            differs_in_new[changed] = True
    return old.select(differs_in_old[old_offsets]), new.select(differs_in_new[new_offsets])


def _find_changed_offsets(table: LanceTable, fragment: Fragment, fills: Fills) -> Positions:
    """Return the offsets of a fragment's live rows with a value that differs from the fill of its column."""
    if not fills:
        return np.empty(0, np.int64)
    offsets: list[Positions] = []
    for batch in table.iter_batches(list(fills), fragments=[fragment.number], with_address=True):
        differs = np.zeros(batch.num_rows, np.bool_)
        for name, fill in fills.items():
            differs |= compare_with_fill(batch.column(name), fill)
        addresses = np.asarray(batch.column(ADDRESS).to_numpy(), np.uint64)[differs]
        # The low 32 bits of a Lance row address are the row's offset in its fragment.
        offsets.append((addresses & _OFFSET_MASK).astype(np.int64))
    return np.concatenate(offsets) if offsets else np.empty(0, np.int64)


def compare_with_fill(column: pa.Array, fill: pa.Scalar | None) -> Mask:
    """Return for each row whether its value differs from the fill."""
    if fill is None or not fill.is_valid:
        return to_mask(column.is_valid())
    differs: Mask = ~are_equal(column, repeat_scalar(fill, len(column)).cast(column.type))
    return differs
