"""One row through the versions of a table: where it lies in each, found at the cost of what changed between them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.changed_ranges import Fills, Piece, differing_places, offsets_in, rows_at
from omnigraph.engine.table_diff import Differences, Updated, updated_rows
from omnigraph.schema.arrow import ID
from omnigraph.storage import filters
from omnigraph.storage.columnar_sets import Positions
from omnigraph.storage.lance_table import ADDRESS, ROW_NUMBER, Fragment, Table

READ_IDS = 4_096
"""Up to so many ids are read one by one; among more, one is looked for by a filter."""
_OFFSET_BITS = 32
_NOWHERE: Positions = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a row lies in every version that lists these files and has not deleted it."""

    files: tuple[str, ...]
    offset: int

    def fragment_in(self, table: Table) -> Fragment | None:
        """The fragment of a version that holds the row, deleted or not; it may have got columns since."""
        return next((one for one in table.fragments() if not set(one.files).isdisjoint(self.files)), None)

    def lives_in(self, table: Table) -> bool:
        """Whether a version has the row in this place; no column is read."""
        fragment = self.fragment_in(table)
        if fragment is None:
            return False
        return not fragment.deleted or bool(np.isin(self.offset, offsets_in(table, fragment)))

    def position_in(self, table: Table) -> int:
        """Its position among the rows that live in a version which has it."""
        start = 0
        for fragment in table.fragments():
            if not set(fragment.files).isdisjoint(self.files):
                return start + int(np.searchsorted(offsets_in(table, fragment), self.offset))
            start += fragment.rows - fragment.deleted
        raise KeyError(self.files)


def spot_in(table: Table, row_id: str) -> Spot | None:
    """Where the row of an id lies in a version, if it has one: by index where there is one."""
    return _spot(table, table.matching(ID, [row_id], [ID], with_address=True))


def spot_before(
    before: Table, after: Table, row_id: str, spot: Spot | None, *, is_maintenance: bool = False
) -> Spot | None:
    """Where the row of an id lay in an earlier version, given where it lies in a later one.

    What both versions share is not looked at: a row that lies there lies there in both. Maintenance moves rows and
    leaves them their numbers, by which one is found among any number of fragments.
    """
    if spot is not None and spot.lives_in(before):
        fragment = spot.fragment_in(before)
        return None if fragment is None else Spot(fragment.files, spot.offset)
    if spot is not None and is_maintenance:
        moved = _moved(before, after, row_id, spot)
        if moved is not None:
            return moved
    for piece in differing_places(before, after, {})[0]:
        found = _in_piece(before, piece, row_id)
        if found is not None:
            return found
    return None


def row_in(table: Table, spot: Spot, columns: Sequence[str]) -> pa.Table:
    """The row, as one of a table."""
    return rows_at(table, np.array([spot.position_in(table)], np.int64), columns)


def what_changed(before: Table, old: Spot, after: Table, new: Spot, fills: Fills | None) -> Updated | None:
    """In what a row differs between two versions; None when it says the same."""
    places = [np.array([spot.position_in(table)], np.int64) for table, spot in ((before, old), (after, new))]
    return next(updated_rows(before, after, Differences(_NOWHERE, _NOWHERE, places[0], places[1]), fills), None)


def _moved(before: Table, after: Table, row_id: str, spot: Spot) -> Spot | None:
    """Where the row at a spot lay before it was moved there, if it was."""
    fragment = spot.fragment_in(after)
    if fragment is None:
        return None
    numbers = after.scan([ROW_NUMBER], f"{ADDRESS} = {fragment.number << _OFFSET_BITS | spot.offset}")
    if not numbers.num_rows:
        return None
    found = before.scan([ID], f"{ROW_NUMBER} = {numbers.column(ROW_NUMBER)[0].as_py()}", with_address=True)
    return _spot(before, found) if found.column(ID).to_pylist() == [row_id] else None


def _in_piece(table: Table, piece: Piece, row_id: str) -> Spot | None:
    """Where a row lies, if it is one of a piece."""
    if piece.count > READ_IDS:
        found = table.batches(
            [ID], filters.compare(ID, "=", pa.scalar(row_id)), fragments=[piece.fragment], with_address=True
        )
        return _spot(table, pa.Table.from_batches(batches)) if (batches := list(found)) else None
    places = next(piece.slices(piece.count))
    at = pc.index(rows_at(table, places, [ID]).column(ID), row_id).as_py()
    if at < 0:
        return None
    fragment = next(one for one in table.fragments() if one.number == piece.fragment)
    return Spot(fragment.files, int(offsets_in(table, fragment)[places[at] - piece.start]))


def _spot(table: Table, found: pa.Table) -> Spot | None:
    if not found.num_rows:
        return None
    address = int(found.column(ADDRESS)[0].as_py())
    number, offset = address >> _OFFSET_BITS, address & ((1 << _OFFSET_BITS) - 1)
    return Spot(next(one.files for one in table.fragments() if one.number == number), offset)
