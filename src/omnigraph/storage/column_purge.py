"""Columns that shall be gone for good: files written anew without them, in the place of those that hold them.

A column that is only dropped stays in the files, where no version shows it. Here each fragment with such a file gets
files that never had it. Its number, the offsets of its rows, their row ids and its deletions stay, so everything that
refers to rows, indexes above all, is as good as before.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from lance import LanceDataset, LanceFragment
from lance.fragment import write_fragments

from omnigraph.errors import Kind, OmnigraphError
from omnigraph.storage.checksum_stamping import stamp_fragment
from omnigraph.storage.io_counters import attribute_requests
from omnigraph.storage.lance_table import LanceTable, check_fragment_blobs, is_blob, verify
from omnigraph.storage.schema_staging import list_field_numbers
from omnigraph.storage.staging import StagedWrite, WriteKind, as_stored, list_blob_files
from omnigraph.storage.table_cache import VerifyLevel, translate_read_errors, translate_rewrite_errors

_BATCH_ROWS = 8_192
_BLOB_BATCH_ROWS = 256


class PurgeMismatchError(OmnigraphError):
    """Files written anew don't have the rows of those that they are to replace. Nothing of them is used."""

    kind = Kind.INTERNAL
    code = "purge_mismatch"

    def __init__(self, path: str, expected: int, found: int) -> None:
        super().__init__(path, expected, found)
        self.path, self.expected, self.found = path, expected, found

    def __str__(self) -> str:
        return f"writing {self.expected} rows of {self.path} anew gave {self.found}; nothing was changed: report it"


def purge_dropped_columns(table: LanceTable, staged: StagedWrite, made: Callable[[Sequence[str]], None]) -> StagedWrite:
    """A staged change of columns whose files hold nothing of columns that the table will not have.

    `table` is at the change's `preview`, which shows the columns that stay. `made` hears of each file as soon as it
    is there, by its name relative to the root. Files of new columns that were written anew too are not among the
    change's own any more: they are the caller's to remove.
    """
    assert staged.change is WriteKind.SCHEMA  # noqa: S101 - only a change of columns drops some
    assert staged.preview == table.version  # noqa: S101 - the caller has made it
    dataset = table.handles.open(table.path, table.version)
    living = list_field_numbers(dataset.lance_schema)
    fragments: list[str] = []
    files: list[str] = []
    for fragment in dataset.get_fragments():
        described = json.loads(json.dumps(fragment.metadata.to_json()))
        kept = [file for file in described["files"] if set(file["fields"]) <= living]
        if any(living & set(file["fields"]) for file in described["files"] if file not in kept):
            check_fragment_blobs(table, None, [fragment.fragment_id])
            verify(table, VerifyLevel.WHOLE, only=[fragment.fragment_id])
            written = _rewrite_fragment(table, dataset, fragment)
            new = _list_files(table, written)
            made(new)
            files += new
            kept = written["files"]
        fragments.append(json.dumps({**described, "files": kept}))
    used = {file["path"] for text in fragments for file in json.loads(text)["files"]}
    filled = [file for file in staged.blobs if file.rpartition("/")[2] in used]
    return replace(staged, fragments=tuple(fragments), blobs=(*filled, *files))


def _rewrite_fragment(table: LanceTable, dataset: LanceDataset, fragment: LanceFragment) -> dict[str, Any]:
    """One new fragment with every row that was written to another one, deleted ones too, in the same order."""
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
                raise failures[0] from error  # Lance makes text of what the rows have raised
            raise
    found = [one.physical_rows for one in written]
    if found != [rows]:
        raise PurgeMismatchError(table.path, rows, sum(found))
    return stamp_fragment(store, table.path, written[0].to_json())


def _record_failures(
    table: LanceTable, batches: Iterator[pa.RecordBatch], failures: list[BaseException]
) -> Iterator[pa.RecordBatch]:
    """The same batches of a table; what keeps them from coming is noted."""
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
        with_row_id=True,  # without them Lance does not show deleted rows
        batch_size=_BLOB_BATCH_ROWS if has_blobs else _BATCH_ROWS,
        blob_handling="all_binary" if has_blobs else None,
    )
    for batch in scanner.to_batches():
        yield from as_stored(pa.Table.from_batches([batch]).select(names), dataset.schema).to_batches()


def _list_files(table: LanceTable, written: Mapping[str, Any]) -> list[str]:
    data = [f"{table.path}/data/{file['path']}" for file in written["files"]]
    return [*data, *list_blob_files(table, [json.dumps(written)])]
