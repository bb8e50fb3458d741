"""One row through the versions of a table: where it lies in each, found at the cost of what changed between them."""

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
from omnigraph.storage.lance_table import ADDRESS, ROW_NUMBER, Fragment, LanceTable

MAX_IDS_READ = 4_096
"""Up to so many ids are read one by one; among more, one is looked for by a filter."""
_OFFSET_BITS = 32
_NO_POSITIONS: Positions = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class RowLocation:
    """Where a row lies in every version that lists these files and has not deleted it."""

    files: tuple[str, ...]
    offset: int

    def find_fragment(self, table: LanceTable) -> Fragment | None:
        """The fragment of a version that holds the row, deleted or not; it may have got columns since."""
        return next((one for one in table.list_fragments() if not set(one.files).isdisjoint(self.files)), None)

    def is_live_in(self, table: LanceTable) -> bool:
        """Whether a version has the row in this place; no column is read."""
        fragment = self.find_fragment(table)
        if fragment is None:
            return False
        return not fragment.deleted or bool(np.isin(self.offset, find_live_offsets(table, fragment)))

    def find_position(self, table: LanceTable) -> int:
        """Its position among the rows that live in a version which has it."""
        start = 0
        for fragment in table.list_fragments():
            if not set(fragment.files).isdisjoint(self.files):
                return start + int(np.searchsorted(find_live_offsets(table, fragment), self.offset))
            start += fragment.rows - fragment.deleted
        raise KeyError(self.files)


def locate_row(table: LanceTable, row_id: str) -> RowLocation | None:
    """Where the row of an id lies in a version, if it has one: by index where there is one."""
    return _build_location(table, table.find_rows(ID, [row_id], [ID], with_address=True))


def locate_row_before(
    before: LanceTable, after: LanceTable, row_id: str, spot: RowLocation | None, *, is_maintenance: bool = False
) -> RowLocation | None:
    """Where the row of an id lay in an earlier version, given where it lies in a later one.

    What both versions share is not looked at: a row that lies there lies there in both. Maintenance moves rows and
    leaves them their numbers, by which one is found among any number of fragments.
    """
    if spot is not None and spot.is_live_in(before):
        fragment = spot.find_fragment(before)
        return None if fragment is None else RowLocation(fragment.files, spot.offset)
    if spot is not None and is_maintenance:
        moved = _locate_moved_row(before, after, row_id, spot)
        if moved is not None:
            return moved
    for piece in find_changed_ranges(before, after, {})[0]:
        found = _locate_in_range(before, piece, row_id)
        if found is not None:
            return found
    return None


def read_row(table: LanceTable, spot: RowLocation, columns: Sequence[str]) -> pa.Table:
    """The row, as one of a table."""
    return read_rows_at(table, np.array([spot.find_position(table)], np.int64), columns)


def compare_row(
    before: LanceTable, old: RowLocation, after: LanceTable, new: RowLocation, fills: Fills | None
) -> UpdatedRows | None:
    """In what a row differs between two versions; None when it says the same."""
    places = [np.array([spot.find_position(table)], np.int64) for table, spot in ((before, old), (after, new))]
    return next(
        iter_updated_rows(before, after, TableDiff(_NO_POSITIONS, _NO_POSITIONS, places[0], places[1]), fills), None
    )


def _locate_moved_row(before: LanceTable, after: LanceTable, row_id: str, spot: RowLocation) -> RowLocation | None:
    """Where the row at a spot lay before it was moved there, if it was."""
    fragment = spot.find_fragment(after)
    if fragment is None:
        return None
    numbers = after.scan([ROW_NUMBER], f"{ADDRESS} = {fragment.number << _OFFSET_BITS | spot.offset}")
    if not numbers.num_rows:
        return None
    found = before.scan([ID], f"{ROW_NUMBER} = {numbers.column(ROW_NUMBER)[0].as_py()}", with_address=True)
    return _build_location(before, found) if found.column(ID).to_pylist() == [row_id] else None


def _locate_in_range(table: LanceTable, piece: ChangedRange, row_id: str) -> RowLocation | None:
    """Where a row lies, if it is one of a piece."""
    if piece.count > MAX_IDS_READ:
        found = table.iter_batches(
            [ID], filters.build_comparison(ID, "=", pa.scalar(row_id)), fragments=[piece.fragment], with_address=True
        )
        return _build_location(table, pa.Table.from_batches(batches)) if (batches := list(found)) else None
    places = next(piece.iter_slices(piece.count))
    at = pc.index(read_rows_at(table, places, [ID]).column(ID), row_id).as_py()
    if at < 0:
        return None
    fragment = next(one for one in table.list_fragments() if one.number == piece.fragment)
    return RowLocation(fragment.files, int(find_live_offsets(table, fragment)[places[at] - piece.start]))


def _build_location(table: LanceTable, found: pa.Table) -> RowLocation | None:
    if not found.num_rows:
        return None
    address = int(found.column(ADDRESS)[0].as_py())
    number, offset = address >> _OFFSET_BITS, address & ((1 << _OFFSET_BITS) - 1)
    return RowLocation(next(one.files for one in table.list_fragments() if one.number == number), offset)
