"""Show what a mutation would change: counts by type, and the first rows of each type before and after."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.constraints.violations import MAX_REPORTED_PROBLEMS
from omnigraph.engine.table_diff import COMPARED_ROWS
from omnigraph.engine.writing.blobs import list_blob_properties
from omnigraph.engine.writing.write_buffer import PendingTable, WriteBuffer
from omnigraph.json_struct import JsonStruct
from omnigraph.ops.row_diff import ChangeKind, RowChanges, list_visible_columns
from omnigraph.schema.arrow import ID
from omnigraph.storage.columnar_sets import are_equal, concat_chunks, find_positions, is_among

# Rows that a preview shows of each type and kind of change.
MAX_SHOWN_ROWS = MAX_REPORTED_PROBLEMS


class PreviewCounts(JsonStruct, frozen=True, kw_only=True):
    """The rows of one type that a mutation would insert, change a value of, and delete."""

    inserted: int
    updated: int
    deleted: int


class MutationPreview(JsonStruct, frozen=True, kw_only=True):
    """What a mutation would change in the state of `base_commit`, edges that go with their nodes included."""

    base_commit: str
    types: dict[str, PreviewCounts]
    """By type, the number of rows; without types that stay as they are."""
    changes: tuple[dict[str, Any], ...]
    """The first rows of each type and kind of change, in the form of a diff's rows."""

    @property
    def deleted(self) -> int:
        """The number of all rows that would be deleted."""
        return sum(counts.deleted for counts in self.types.values())


def build_preview(pending: WriteBuffer, base_commit: str) -> MutationPreview:
    """Return what the pending rows change; a row that is written again as it is counts as little as in a diff.

    Of the stored rows, only the values that may change are read, and those that are shown.
    """
    types: dict[str, PreviewCounts] = {}
    records: list[dict[str, Any]] = []
    for table in pending.touched:
        put = _list_put_ids(table)
        is_stored = is_among(put, table.find_committed_ids(put))
        changed_ids = _find_changed_ids(table, put.filter(pa.array(is_stored)))
        # A row that the mutation itself inserted and deleted again was never stored.
        deleted = table.find_committed_ids(pa.array(list(table.deleted), pa.string()))
        inserted_ids = put.filter(pa.array(~is_stored))
        counts = PreviewCounts(inserted=len(inserted_ids), updated=len(changed_ids), deleted=len(deleted))
        if counts.inserted or counts.updated or counts.deleted:
            types[table.type.name] = counts
        parts: tuple[tuple[ChangeKind, pa.Array], ...] = (
            ("inserted", inserted_ids),
            ("updated", changed_ids),
            ("deleted", pc.take(deleted, pc.sort_indices(deleted))),
        )
        for kind, ids in parts:
            if len(ids):
                records.extend(_read_changes(table, kind, ids[:MAX_SHOWN_ROWS]).records())
    return MutationPreview(base_commit=base_commit, types=types, changes=tuple(records))


def _list_put_ids(table: PendingTable) -> pa.Array:
    """Return the ids of the rows to put, also of those that are streamed."""
    ids = concat_chunks(table.rows.column(ID))
    return ids if table.streamed is None else pa.concat_arrays([ids, concat_chunks(table.streamed.ids)])


def _find_changed_ids(table: PendingTable, stored_ids: pa.Array) -> pa.Array:
    """Return those of the ids of stored rows whose pending rows have other values."""
    names = [name for name in list_visible_columns(table.table) if name != ID and table.may_change([name])]
    if not len(stored_ids) or any(table.may_change([name]) for name in list_blob_properties(table.type)):
        # Blobs are not read to be compared: one that is written counts as a change.
        return stored_ids
    changed: list[pa.Array] = []
    for part in table.iter_parts():
        for start in range(0, part.num_rows, COMPARED_ROWS):
            rows = part.slice(start, COMPARED_ROWS)
            after = rows.filter(pa.array(is_among(rows.column(ID), stored_ids)))
            ids = concat_chunks(after.column(ID))
            before = _select(table.known.fetch_rows(ids, [ID, *names], with_address=True), ids)
            differs = np.zeros(len(ids), bool)
            for name in names:
                differs |= ~are_equal(concat_chunks(before.column(name)), concat_chunks(after.column(name)))
            changed.append(ids.filter(pa.array(differs)))
    return pa.concat_arrays(changed)


def _read_changes(table: PendingTable, kind: ChangeKind, ids: pa.Array) -> RowChanges:
    """Return the changes of a few rows, which are all of one kind."""
    # The bytes of blobs are not shown.
    columns = list_visible_columns(table.table)
    before = None if kind == "inserted" else _select(table.known.fetch_rows(ids, columns, with_address=True), ids)
    after = None if kind == "deleted" else _select(_read_pending(table, ids), ids)
    changed = {}
    if before is not None and after is not None:
        for name in columns:
            same = are_equal(concat_chunks(before.column(name)), concat_chunks(after.column(name)))
            changed[name] = np.logical_not(same)
    return RowChanges(
        type=table.type,
        old_type=table.type,
        kind=kind,
        before=None if before is None else before.select(columns),
        after=None if after is None else after.select(columns),
        changed=changed,
    )


def _read_pending(table: PendingTable, ids: pa.Array) -> pa.Table:
    """Return the pending rows with these ids; streamed ones are read until all are found."""
    parts: list[pa.Table] = []
    missing = len(ids)
    for part in table.iter_parts():
        parts.append(part.filter(pa.array(is_among(part.column(ID), ids))))
        missing -= parts[-1].num_rows
        if missing <= 0:
            break
    return pa.concat_tables(parts)


def _select(rows: pa.Table, ids: pa.Array) -> pa.Table:
    return rows.take(pa.array(find_positions(ids, rows.column(ID))))
