"""Delete rows of a table version: write the deletion files of a version that is not there yet."""

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from omnigraph.ids import draw_bytes
from omnigraph.storage.checksum_stamping import stamp_deletions
from omnigraph.storage.checksums import compute_checksum, mark_read_version
from omnigraph.storage.columnar_sets import Positions
from omnigraph.storage.deletion_vectors import MAX_ARRAY_OFFSETS, encode_deletions
from omnigraph.storage.fragment_list import Fragment
from omnigraph.storage.io_counters import attribute_requests
from omnigraph.storage.lance_table import LanceTable, verify
from omnigraph.storage.layout import format_deletion_name
from omnigraph.storage.object_store import StoreUnavailableError
from omnigraph.storage.row_addresses import Addresses
from omnigraph.storage.table_cache import translate_rewrite_errors

# A fragment in the JSON form of Lance.
FragmentJson = dict[str, Any]


def delete_rows(table: LanceTable, addresses: Addresses) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Write deletion files for the rows at these ascending addresses, which no version has yet.

    Return the fragments with new deletion files, as Lance's JSON, and the numbers of those that lose all rows.
    """
    if not len(addresses):
        return (), ()
    verify(table)
    numbers, starts = np.unique(addresses >> np.uint64(32), return_index=True)
    offsets = np.split((addresses & np.uint64(0xFFFFFFFF)).astype(np.int64), starts[1:])
    fragments = {fragment.number: fragment for fragment in table.list_fragments()}
    updated: list[str] = []
    removed: list[int] = []
    errors = translate_rewrite_errors(f"delete rows of {table.path}", table.path, table.version, table.handles.explain)
    with attribute_requests(table.handles.store.runtime.telemetry, "table"), errors:
        try:
            for number, local in zip(numbers.tolist(), offsets, strict=True):
                if table.watch is not None:
                    table.watch.check()
                described = _delete_from(table, fragments[number], local)
                if described is None:
                    removed.append(number)
                    continue
                updated.append(json.dumps(described))
                if table.handles.keys is not None:
                    name = format_deletion_name(described).removeprefix("_deletions/")
                    table.handles.keys.note_deleted(table, fragments[number], name, local)
        except BaseException:
            remove_files(table, list_deletion_files(table, updated))
            raise
    return tuple(updated), tuple(removed)


def list_deletion_files(table: LanceTable, updated: Sequence[str]) -> list[str]:
    """Return the deletion files of fragments in Lance's JSON, relative to the root."""
    return [f"{table.path}/{format_deletion_name(json.loads(text))}" for text in updated]


def remove_files(table: LanceTable, files: Iterable[str]) -> None:
    """Remove the files of a failed write. Cleanup finds those that the store fails to remove now."""
    for file in files:
        with suppress(StoreUnavailableError):
            table.handles.store.objects.delete(file)


def _delete_from(table: LanceTable, fragment: Fragment, offsets: Positions) -> FragmentJson | None:
    """Write the deletion file of a fragment without some more rows; None if no row is left."""
    before = _find_deleted(table, fragment)
    # Above the limit Lance writes a bitmap. It knows what it has read of a fragment, so that is left to Lance too.
    if before is None or len(before) + len(offsets) > MAX_ARRAY_OFFSETS:
        table.handles.store.wait_for_uploads(table.path)
        handle = table.handles.open(table.path, table.version).get_fragment(fragment.number)
        assert handle is not None  # noqa: S101 - the address came from this very version
        metadata = handle.delete_rows(offsets.tolist())
        return None if metadata is None else stamp_deletions(table.handles.store, table.path, metadata.to_json())
    deleted = np.union1d(before, offsets)
    if len(deleted) == fragment.rows:
        return None
    store = table.handles.store
    data = encode_deletions(deleted)
    file = {
        "read_version": mark_read_version(compute_checksum(data)) if store.location.is_local else table.version,
        "id": int.from_bytes(draw_bytes(8)),
        "file_type": "array",
        "num_deleted_rows": len(deleted),
        "base_id": None,
    }
    # All that a version needs to know; a handle, which knows the rest, may not have been opened.
    described: FragmentJson = {"id": fragment.number, "deletion_file": file}
    key = f"{table.path}/{format_deletion_name(described)}"
    store.write_file(key, data)
    store.verifier.trust([key])
    return described


def _find_deleted(table: LanceTable, fragment: Fragment) -> Positions | None:
    """Return the deleted rows of a fragment, if this process knows them."""
    if fragment.deletions is None:
        return np.empty(0, np.int64)
    return None if table.handles.keys is None else table.handles.keys.get_deleted(table.path, fragment)
