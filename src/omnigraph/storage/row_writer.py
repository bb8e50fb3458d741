"""Write data files of one row in a form that was learned from a file that Lance has written before."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa

from omnigraph.ids import draw_bytes
from omnigraph.storage.checksums import compute_checksum, name_data_file
from omnigraph.storage.fragment_list import encode_json
from omnigraph.storage.key_cache import is_small
from omnigraph.storage.lance_table import LanceTable
from omnigraph.storage.object_store import StoreUnavailableError
from omnigraph.storage.row_file_codec import OtherFormatError, learn_layout
from omnigraph.telemetry import log as telemetry_log


def write_row(table: LanceTable, rows: pa.Table, announce: Callable[[Sequence[str]], None]) -> str | None:
    """Write one row, which is in the form that Lance stores, and return its new fragment as Lance's JSON.

    Return None if Lance has to write it. `announce` gets the name of the file before it exists.
    """
    facts = table.handles.read_facts(table.path, table.version)
    layout = facts.row_layout
    if layout is None or rows.num_rows != 1 or not is_small(rows):
        return None
    row = _take_row(rows)
    if not layout.is_known(row):
        return None
    data = layout.encode(row)
    store = table.handles.store
    name = _draw_name()
    if store.location.is_local:
        name = name_data_file(name, compute_checksum(data), None)
    key = f"{table.path}/data/{name}"
    announce([key])
    try:
        store.write_file(key, data)
    except BaseException:
        # Half of a file: cleanup finds it if the store fails to remove it now.
        with suppress(StoreUnavailableError):
            store.objects.delete(key)
        raise
    if store.location.is_local:
        store.verifier.trust([key])
    return encode_json(layout.describe(name, len(data)))


def learn_row(table: LanceTable, rows: pa.Table, fragment: dict[str, Any], read: Callable[[], bytes]) -> None:
    """Record the form of files of one row, from one that Lance has written, which `read` returns."""
    facts = table.handles.read_facts(table.path, table.version)
    if rows.num_rows != 1 or facts.has_other_row_files or not is_small(rows):
        return
    try:
        facts.row_layout = learn_layout(fragment, read(), _take_row(rows), facts.row_layout)
    except OtherFormatError as error:
        facts.row_layout, facts.has_other_row_files = None, True
        telemetry_log.info("Lance writes all rows of %s: %s", table.path, error)


def _take_row(rows: pa.Table) -> pa.RecordBatch:
    return rows.combine_chunks().to_batches()[0]


def _draw_name() -> str:
    """Return a new name of a data file as Lance chooses them: three bytes in binary, thirteen in hexadecimal."""
    data = draw_bytes(16)
    return f"{int.from_bytes(data[:3]):024b}{data[3:].hex()}.lance"
