"""Remove dropped columns from storage by rewriting the files that contain them.

A column that is only dropped stays in the files, where no version shows it. Here each fragment with such a file gets
files without it. The number of the fragment, the offsets of its rows, their row ids and its deletions stay, so
everything that refers to rows, indexes above all, remains valid.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from lance import LanceDataset, LanceFragment
from lance.fragment import write_fragments

from omnigraph.bug_error import BugError
from omnigraph.storage.checksum_stamping import stamp_fragment
from omnigraph.storage.io_counters import attribute_requests
from omnigraph.storage.lance_table import LanceTable, check_fragment_blobs, is_blob, verify
from omnigraph.storage.schema_staging import list_field_numbers
from omnigraph.storage.staging import StagedWrite, WriteKind, as_stored, list_blob_files
from omnigraph.storage.table_cache import VerifyLevel, translate_read_errors, translate_rewrite_errors

_BATCH_ROWS = 8_192
# Smaller batches: each contains the bytes of its blobs.
_BLOB_BATCH_ROWS = 256


def purge_dropped_columns(
    table: LanceTable, staged: StagedWrite, on_written: Callable[[Sequence[str]], None]
) -> StagedWrite:
    """Return a staged schema change whose files contain nothing of columns that the table will not have.

    `table` is at the change's `preview`, which shows the remaining columns. `on_written` gets the names of new files,
    relative to the root, as soon as they exist. Files of new columns that were rewritten too no longer belong to the
    change: the caller removes them.
    """
    assert staged.change is WriteKind.SCHEMA  # noqa: S101 - only a change of columns drops some
    assert staged.preview == table.version  # noqa: S101 - the caller has created it
    dataset = table.handles.open(table.path, table.version)
    live_fields = list_field_numbers(dataset.lance_schema)
    fragments: list[str] = []
    files: list[str] = []
    for fragment in dataset.get_fragments():
        metadata = json.loads(json.dumps(fragment.metadata.to_json()))
        # A file with any dropped field is not kept; it is rewritten if it also has a live one.
        clean_files = [file for file in metadata["files"] if set(file["fields"]) <= live_fields]
        if any(live_fields & set(file["fields"]) for file in metadata["files"] if file not in clean_files):
            # The new files get new checksums: damage must be found before the rows are copied.
            check_fragment_blobs(table, None, [fragment.fragment_id])
            verify(table, VerifyLevel.WHOLE, only=[fragment.fragment_id])
            written = _rewrite_fragment(table, dataset, fragment)
            new_files = _list_files(table, written)
            on_written(new_files)
            files += new_files
            clean_files = written["files"]
        fragments.append(json.dumps({**metadata, "files": clean_files}))
    used = {file["path"] for text in fragments for file in json.loads(text)["files"]}
    filled = [file for file in staged.blobs if file.rpartition("/")[2] in used]
    return replace(staged, fragments=tuple(fragments), blobs=(*filled, *files))


def _rewrite_fragment(table: LanceTable, dataset: LanceDataset, fragment: LanceFragment) -> dict[str, Any]:
    """Write all rows of a fragment, deleted ones too, in the same order into one new fragment."""
    store = table.handles.store
    rows = fragment.metadata.physical_rows
    failures: list[BaseException] = []
    source = pa.RecordBatchReader.from_batches(
        dataset.schema, _record_failures(table, _iter_rows(dataset, fragment), failures)
    )
    errors = translate_rewrite_errors(
        f"write {table.path} without a column", table.path, table.version, table.handles.explain
    )
    with attribute_requests(store.runtime.telemetry, "table"), errors:
        try:
            written = write_fragments(
                source, dataset, mode="append", max_rows_per_file=rows, storage_options=store.lance_options
            )
        except Exception as error:
            if failures:
                raise failures[0] from error  # Lance turns errors of the row source into text
            raise
    row_counts = [new.physical_rows for new in written]
    if row_counts != [rows]:
        raise BugError.purge_mismatch(table.path, rows, sum(row_counts))
    return stamp_fragment(store, table.path, written[0].to_json())


def _record_failures(
    table: LanceTable, batches: Iterator[pa.RecordBatch], failures: list[BaseException]
) -> Iterator[pa.RecordBatch]:
    """Yield the batches unchanged, and add an error that interrupts them to `failures`."""
    try:
        with translate_read_errors(table.path, table.version, table.handles.explain):
            yield from batches
    except BaseException as error:
        failures.append(error)
        raise


def _iter_rows(dataset: LanceDataset, fragment: LanceFragment) -> Iterator[pa.RecordBatch]:
    names = dataset.schema.names
    has_blobs = any(is_blob(field) for field in dataset.schema)
    scanner = dataset.scanner(
        columns=names,
        fragments=[fragment],
        include_deleted_rows=True,
        with_row_id=True,  # without row ids Lance does not return deleted rows
        batch_size=_BLOB_BATCH_ROWS if has_blobs else _BATCH_ROWS,
        blob_handling="all_binary" if has_blobs else None,
    )
    for batch in scanner.to_batches():
        yield from as_stored(pa.Table.from_batches([batch]).select(names), dataset.schema).to_batches()


def _list_files(table: LanceTable, written: Mapping[str, Any]) -> list[str]:
    data = [f"{table.path}/data/{file['path']}" for file in written["files"]]
    return [*data, *list_blob_files(table, [json.dumps(written)])]
