"""Find the addresses of rows that a merge replaces or deletes, from the table diffs instead of lookups by id."""

import numpy as np
import pyarrow as pa

from omnigraph.engine.merging.side_changes import SideChanges, StateTable
from omnigraph.engine.merging.three_way import RowMerge
from omnigraph.engine.table_diff import TableDiff, read_rows_at
from omnigraph.schema.arrow import ID
from omnigraph.storage.columnar_sets import Positions, concat_chunks, find_positions, is_among
from omnigraph.storage.lance_table import LanceTable
from omnigraph.storage.row_addresses import Addresses

# A Lance row address has the fragment number in the upper 32 bits and the row's offset in the lower 32.
_FRAGMENT_SHIFT = np.uint64(32)
_OFFSET_MASK = np.uint64(0xFFFFFFFF)


def find_replaced_ids(rows: RowMerge, mine: SideChanges, theirs: SideChanges) -> pa.Array:
    """Return the ids of rows of the kept side that the merge replaces or deletes."""
    put = concat_chunks(rows.put.column(ID))
    is_fresh = is_among(put, theirs.inserted.column(ID)) & ~is_among(put, mine.inserted.column(ID))
    is_revived = is_among(put, mine.deleted)
    return pa.concat_arrays([put.filter(pa.array(~is_fresh & ~is_revived)), rows.deleted])


def find_addresses(
    ids: pa.Array, base: StateTable | None, kept: StateTable, mine: TableDiff | None, theirs: TableDiff | None
) -> Addresses | None:
    """Return the addresses of rows of the kept side, or None if those of some are unknown.

    Each row was changed by either side since the base. One that only the other side changed lies where the base had it,
    unless its fragment was rewritten since.
    """
    result = np.zeros(len(ids), np.uint64)
    is_resolved = np.zeros(len(ids), np.bool_)
    if mine is not None:
        written = np.concatenate([mine.inserted, mine.later])
        addresses = kept.table.get_address_map().to_addresses(written)
        _set_addresses(ids, _read_ids(kept.table, written), addresses, result, is_resolved)
    if base is not None and theirs is not None and base.table.path == kept.table.path:
        before = np.concatenate([theirs.deleted, theirs.earlier])
        moved, is_mapped = _map_addresses(base.table, kept.table, base.table.get_address_map().to_addresses(before))
        _set_addresses(ids, _read_ids(base.table, before[is_mapped]), moved[is_mapped], result, is_resolved)
    return result if is_resolved.all() else None


def read_rows(kept: StateTable, ids: pa.Array, addresses: Addresses | None) -> pa.Table:
    """Read rows of the kept side by their ids: at their addresses if known, else by a lookup."""
    if addresses is None:
        return kept.table.find_rows(ID, ids, kept.table.schema.names)
    return read_rows_at(kept.table, kept.table.get_address_map().to_positions(addresses))


def _read_ids(table: LanceTable, positions: Positions) -> pa.Array:
    if not len(positions):
        return pa.array([], pa.string())
    return concat_chunks(read_rows_at(table, positions, [ID]).column(ID))


def _set_addresses(
    ids: pa.Array, read_ids: pa.Array, addresses: Addresses, result: Addresses, is_resolved: np.ndarray
) -> None:
    """Set in `result` the addresses of those `ids` that are among `read_ids` and not resolved yet."""
    at = find_positions(ids, read_ids)
    # The kept side's own changes come first: an address from the base is stale where it rewrote the row.
    is_new = (at >= 0) & ~is_resolved
    result[is_new] = addresses[at[is_new]]
    is_resolved |= is_new


def _map_addresses(base: LanceTable, kept: LanceTable, addresses: Addresses) -> tuple[Addresses, np.ndarray]:
    """Translate addresses of `base` to a later version, and return which could be translated.

    Two fragments are the same if they share a data file and have as many rows; rows keep their offsets in them.
    """
    by_file = {file: fragment for fragment in kept.list_fragments() for file in fragment.files}
    new_numbers: dict[int, int] = {}
    for fragment in base.list_fragments():
        twin = next((by_file[file] for file in fragment.files if file in by_file), None)
        if twin is not None and twin.rows == fragment.rows:
            new_numbers[fragment.number] = twin.number
    fragments = (addresses >> _FRAGMENT_SHIFT).astype(np.int64)
    # Look each fragment number up once, not once per row.
    distinct, inverse = np.unique(fragments, return_inverse=True)
    targets = np.array([new_numbers.get(int(number), -1) for number in distinct], np.int64)[inverse]
    is_mapped = targets >= 0
    return np.where(is_mapped, targets, 0).astype(np.uint64) << _FRAGMENT_SHIFT | (addresses & _OFFSET_MASK), is_mapped
