"""Where the rows lie that a merge replaces or deletes: known from where they differ, so that no id is looked for."""

import numpy as np
import pyarrow as pa

from omnigraph.engine.merging.side_changes import SideChanges, StateTable
from omnigraph.engine.merging.three_way import RowMerge
from omnigraph.engine.table_diff import TableDiff, read_rows_at
from omnigraph.schema.arrow import ID
from omnigraph.storage.columnar_sets import Positions, concat_chunks, find_positions, is_among
from omnigraph.storage.lance_table import LanceTable
from omnigraph.storage.row_addresses import Addresses

_SHIFT, _OFFSETS = np.uint64(32), np.uint64(0xFFFFFFFF)


def find_replaced_ids(rows: RowMerge, mine: SideChanges, theirs: SideChanges) -> pa.Array:
    """The ids of rows that the kept side has, and that others take the place of, or that go."""
    put = concat_chunks(rows.put.column(ID))
    is_fresh = is_among(put, theirs.inserted.column(ID)) & ~is_among(put, mine.inserted.column(ID))
    is_revived = is_among(put, mine.deleted)
    return pa.concat_arrays([put.filter(pa.array(~is_fresh & ~is_revived)), rows.deleted])


def find_addresses(
    ids: pa.Array, base: StateTable | None, kept: StateTable, mine: TableDiff | None, theirs: TableDiff | None
) -> Addresses | None:
    """Where rows of the kept side lie, each of which either side changed since the base; None if it can't be told.

    A row that only the other side changed lies where the base had it, unless its fragment was rewritten since.
    """
    found = np.zeros(len(ids), np.uint64)
    is_found = np.zeros(len(ids), np.bool_)
    if mine is not None:
        own = np.concatenate([mine.inserted, mine.later])
        _look_up(ids, _read_ids(kept.table, own), kept.table.get_address_map().to_addresses(own), found, is_found)
    if base is not None and theirs is not None and base.table.path == kept.table.path:
        before = np.concatenate([theirs.deleted, theirs.earlier])
        moved, is_there = _map_addresses(base.table, kept.table, base.table.get_address_map().to_addresses(before))
        _look_up(ids, _read_ids(base.table, before[is_there]), moved[is_there], found, is_found)
    return found if is_found.all() else None


def read_rows(kept: StateTable, ids: pa.Array, addresses: Addresses | None) -> pa.Table:
    """Rows of the kept side by their ids: from where they lie, if that is known, else looked up."""
    if addresses is None:
        return kept.table.find_rows(ID, ids, kept.table.schema.names)
    return read_rows_at(kept.table, kept.table.get_address_map().to_positions(addresses))


def _read_ids(table: LanceTable, positions: Positions) -> pa.Array:
    if not len(positions):
        return pa.array([], pa.string())
    return concat_chunks(read_rows_at(table, positions, [ID]).column(ID))


def _look_up(ids: pa.Array, known: pa.Array, addresses: Addresses, found: Addresses, is_found: np.ndarray) -> None:
    """Set the addresses of those ids that are known and were not found before."""
    at = find_positions(ids, known)
    is_new = (at >= 0) & ~is_found
    found[is_new] = addresses[at[is_new]]
    is_found |= is_new


def _map_addresses(base: LanceTable, kept: LanceTable, addresses: Addresses) -> tuple[Addresses, np.ndarray]:
    """The addresses of rows in a version that grew from another one, and which of them are known: same files."""
    numbers = {file: one for one in kept.list_fragments() for file in one.files}
    there: dict[int, int] = {}
    for fragment in base.list_fragments():
        twin = next((numbers[file] for file in fragment.files if file in numbers), None)
        if twin is not None and twin.rows == fragment.rows:
            there[fragment.number] = twin.number
    fragments = (addresses >> _SHIFT).astype(np.int64)
    asked, back = np.unique(fragments, return_inverse=True)
    targets = np.array([there.get(int(number), -1) for number in asked], np.int64)[back]
    is_there = targets >= 0
    return np.where(is_there, targets, 0).astype(np.uint64) << _SHIFT | (addresses & _OFFSETS), is_there
