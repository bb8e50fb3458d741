"""Trace one row through the versions of a table, at a cost that follows what changed between them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.changed_ranges import ChangedRange, Fills, find_changed_ranges, find_live_offsets, read_rows_at
from omnigraph.engine.table_diff import TableDiff, UpdatedRows, iter_updated_rows
from omnigraph.schema.arrow import ID
from omnigraph.storage import filters
from omnigraph.storage.columnar_sets import Positions
from omnigraph.storage.fragment_list import Fragment
from omnigraph.storage.lance_table import ADDRESS, ROW_NUMBER, LanceTable

# The ids of a range of up to this many rows are read and searched here; a larger range is searched by a Lance filter.
MAX_IDS_READ = 4_096
# A Lance row address is the fragment number, then 32 bits of offset.
_OFFSET_BITS = 32
_NO_POSITIONS: Positions = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class RowLocation:
    """The files and offset of a row: its location in every version that lists the files and has not deleted it."""

    files: tuple[str, ...]
    offset: int

    def find_fragment(self, table: LanceTable) -> Fragment | None:
        """Return the fragment of a version that contains the row, deleted or not, or None."""
        # A fragment keeps its files when it gains a column in a new file, so one common file identifies it.
        fragments = table.list_fragments()
        return next((fragment for fragment in fragments if not set(fragment.files).isdisjoint(self.files)), None)

    def is_live_in(self, table: LanceTable) -> bool:
        """Return whether a version has the row, live, at this location; no column is read."""
        fragment = self.find_fragment(table)
        if fragment is None:
            return False
        return not fragment.deleted or bool(np.isin(self.offset, find_live_offsets(table, fragment)))

    def find_position(self, table: LanceTable) -> int:
        """Return the position of the row among the live rows of a version that has it.

        Raises:
            KeyError: The version does not list the files.
        """
        start = 0
        for fragment in table.list_fragments():
            if not set(fragment.files).isdisjoint(self.files):
                return start + int(np.searchsorted(find_live_offsets(table, fragment), self.offset))
            start += fragment.rows - fragment.deleted
        raise KeyError(self.files)


def locate_row(table: LanceTable, row_id: str) -> RowLocation | None:
    """Return the location of the row with this id in a version, or None; an index is used if there is one."""
    return _build_location(table, table.find_rows(ID, [row_id], [ID], with_address=True))


def locate_row_before(
    before: LanceTable, after: LanceTable, row_id: str, location: RowLocation | None, *, is_maintenance: bool = False
) -> RowLocation | None:
    """Return the location of the row with this id in an earlier version, given its location in a later one.

    Fragments that both versions share are not searched: a row in one of them has the same location in both.
    """
    if location is not None and location.is_live_in(before):
        fragment = location.find_fragment(before)
        return None if fragment is None else RowLocation(fragment.files, location.offset)
    # Maintenance moves rows but keeps their row numbers, which find a row among any number of fragments.
    if location is not None and is_maintenance:
        moved = _locate_moved_row(before, after, row_id, location)
        if moved is not None:
            return moved
    for changed in find_changed_ranges(before, after, {})[0]:
        earlier = _locate_in_range(before, changed, row_id)
        if earlier is not None:
            return earlier
    return None


def read_row(table: LanceTable, location: RowLocation, columns: Sequence[str]) -> pa.Table:
    """Return the row as a table of one row."""
    return read_rows_at(table, np.array([location.find_position(table)], np.int64), columns)


def compare_row(
    before: LanceTable, old: RowLocation, after: LanceTable, new: RowLocation, fills: Fills | None
) -> UpdatedRows | None:
    """Return how a row differs between two versions, or None if its values are equal."""
    earlier = np.array([old.find_position(before)], np.int64)
    later = np.array([new.find_position(after)], np.int64)
    diff = TableDiff(_NO_POSITIONS, _NO_POSITIONS, earlier, later)
    return next(iter_updated_rows(before, after, diff, fills), None)


def _locate_moved_row(before: LanceTable, after: LanceTable, row_id: str, location: RowLocation) -> RowLocation | None:
    """Return where a row was before maintenance moved it to this location, or None."""
    fragment = location.find_fragment(after)
    if fragment is None:
        return None
    numbers = after.scan([ROW_NUMBER], f"{ADDRESS} = {fragment.number << _OFFSET_BITS | location.offset}")
    if not numbers.num_rows:
        return None
    rows = before.scan([ID], f"{ROW_NUMBER} = {numbers.column(ROW_NUMBER)[0].as_py()}", with_address=True)
    # Branches that grew apart give the same row number to different rows, so the id decides.
    return _build_location(before, rows) if rows.column(ID).to_pylist() == [row_id] else None


def _locate_in_range(table: LanceTable, changed: ChangedRange, row_id: str) -> RowLocation | None:
    """Return the location of a row if it is in this range, else None."""
    if changed.count > MAX_IDS_READ:
        id_filter = filters.build_comparison(ID, "=", pa.scalar(row_id))
        batches = list(table.iter_batches([ID], id_filter, fragments=[changed.fragment], with_address=True))
        return _build_location(table, pa.Table.from_batches(batches)) if batches else None
    positions = next(changed.iter_slices(changed.count))
    index = pc.index(read_rows_at(table, positions, [ID]).column(ID), row_id).as_py()
    if index < 0:
        return None
    fragment = next(fragment for fragment in table.list_fragments() if fragment.number == changed.fragment)
    return RowLocation(fragment.files, int(find_live_offsets(table, fragment)[positions[index] - changed.start]))


def _build_location(table: LanceTable, rows: pa.Table) -> RowLocation | None:
    if not rows.num_rows:
        return None
    address = int(rows.column(ADDRESS)[0].as_py())
    number = address >> _OFFSET_BITS
    offset = address & ((1 << _OFFSET_BITS) - 1)
    fragment = next(fragment for fragment in table.list_fragments() if fragment.number == number)
    return RowLocation(fragment.files, offset)
