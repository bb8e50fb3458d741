"""Readers of one type's rows: Parquet, ORC and Arrow data, CSV, or JSONL with one object of properties per line."""

import re
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.orc as pa_orc
import pyarrow.parquet as pa_parquet

from omnigraph.engine.decoding.arrow_columns import decode_array, decode_id_array
from omnigraph.engine.decoding.csv_rows import read_csv_rows
from omnigraph.engine.decoding.graph_jsonl import WINDOW_BYTES
from omnigraph.engine.decoding.input_files import (
    LINE_ENDINGS,
    FileDamagedError,
    FileFormatError,
    find_ending,
    translate_file_errors,
)
from omnigraph.engine.decoding.json_columns import DecodedColumn
from omnigraph.engine.decoding.partition_values import decode_partition, decode_partition_value, list_columns
from omnigraph.engine.decoding.prefetch import prefetch
from omnigraph.engine.decoding.record_encoder import encode_record, to_json_value
from omnigraph.engine.decoding.record_error import ColumnError, Reject, refuse
from omnigraph.engine.decoding.typed_jsonl import read_typed_lines
from omnigraph.engine.decoding.typed_rows import (
    DecodedRows,
    RejectedRecord,
    TypedRows,
    decode_placed,
    list_id_columns,
    validate_rows,
)
from omnigraph.engine.decoding.typed_source import ArrowStream, RowSource, TypedFile, TypedTable
from omnigraph.errors import BadFileError
from omnigraph.ids import Ids
from omnigraph.schema.catalog import Property
from omnigraph.schema.values import format_value
from omnigraph.storage.s3_input_files import InputFile

__all__ = [
    "ArrowStream",
    "FileDamagedError",
    "FileFormatError",
    "TypedFile",
    "TypedTable",
    "open_stream",
    "read_typed",
]

_Part: TypeAlias = tuple[TypedRows, list[RejectedRecord]]


def read_typed(
    source: TypedFile | TypedTable,
    ids: Ids,
    *,
    reject: Reject = refuse,
    count_lines: Callable[[int], None] | None = None,
) -> Iterator[TypedRows]:
    """Read the rows of a file, by its extension, or of Arrow data, in batches; bad rows go to `reject`.

    For a CSV file, `count_lines` is called with its number of lines at the end.

    Bad rows are passed in order, as graph JSONL: a value that can't be decoded is text in it.

    Raises:
        FileFormatError: The extension is not known.
        ColumnError: A column is unknown, duplicate, missing, or of a type that no value of the property has.
        RecordError: A row is bad, and `reject` is the default.
        FileDamagedError: The file does not have the format of its extension.
        BadFileError: Arrow data can't be read.
    """
    for rows, rejected in _read_source(source, ids, count_lines):
        for error, text in rejected:
            reject(error, text)
        if rows.rows.num_rows:
            yield rows


def _read_source(
    source: TypedFile | TypedTable, ids: Ids, count_lines: Callable[[int], None] | None
) -> Iterator[_Part]:
    if isinstance(source, TypedTable):
        return _decode_batches(source, ids, _read_table(source))
    ending = find_ending(source.path)
    if ending in LINE_ENDINGS:
        return read_typed_lines(source, ids)
    if ending == ".csv":
        return read_csv_rows(source, ids, count_lines)
    reader = _COLUMNAR.get(ending)
    if reader is None:
        raise FileFormatError(source.name)
    batches = reader(source)
    return _decode_batches(
        source, ids, batches if source.has_blobs else prefetch(batches)
    )  # a row with one may be large


# --- Arrow's own kinds -------------------------------------------------------------------------------


def _read_parquet(file: TypedFile) -> Generator[pa.RecordBatch]:
    with pa_parquet.ParquetFile(open_arrow_file(file.path), pre_buffer=False) as source:
        yield _build_empty_batch(source.schema_arrow)
        groups = _select_groups(file, source.num_row_groups)
        if not file.has_blobs:
            yield from source.iter_batches(batch_size=file.batch_rows, row_groups=[*groups])
            return
        for number in groups:
            group = source.metadata.row_group(number)
            fitting = WINDOW_BYTES * group.num_rows // max(group.total_byte_size, 1)
            yield from source.iter_batches(batch_size=max(1, min(file.batch_rows, fitting)), row_groups=[number])


def open_arrow_file(path: InputFile) -> Path | pa.PythonFile:
    """Return what Arrow's readers accept: a path, or a file object that fetches only the requested ranges."""
    return path if isinstance(path, Path) else pa.PythonFile(path.open("rb", buffering=0), mode="r")


def _read_orc(file: TypedFile) -> Generator[pa.RecordBatch]:
    with file.path.open("rb", buffering=0) as opened:
        source = pa_orc.ORCFile(opened)
        yield _build_empty_batch(source.schema)
        for stripe in _select_groups(file, source.nstripes):
            yield from _slice_batch(source.read_stripe(stripe), file.batch_rows)


def _select_groups(file: TypedFile, count: int) -> range:
    """Select the row groups or stripes to read, of `count`."""
    return range(count) if file.part is None else range(file.part.start, file.part.end)


def _read_table(table: TypedTable) -> Iterator[pa.RecordBatch]:
    stream = open_stream(table)
    try:
        yield _build_empty_batch(stream.schema)
        for batch in stream:
            yield from _slice_batch(batch, table.batch_rows)
    except pa.ArrowException as error:
        raise BadFileError.table_unreadable(table.name, type(table.data).__name__, str(error)) from error


def open_stream(table: TypedTable) -> pa.RecordBatchReader:
    """Return the batches of Arrow data.

    Raises:
        ColumnError: A column of a frame can't be converted to Arrow.
        BadFileError: It is not a table, or has a type that Arrow does not know.
    """
    try:
        return pa.RecordBatchReader.from_stream(table.data)
    except (pa.ArrowException, TypeError, ValueError, NotImplementedError) as error:
        column = _COLUMN.search(str(error))
        if column is not None:
            reason = (
                f"the column {format_value(column[1])} of the {type(table.data).__name__} holds {column[2]},"
                " which is not one of our types; convert its values to text, numbers, times or lists"
            )
            raise ColumnError(table.name, table.type.name, column[1], reason) from error
        raise BadFileError.table_unreadable(
            table.name, type(table.data).__name__, _explain_unreadable(table.data, error)
        ) from error


_COLUMN = re.compile(r"Conversion failed for column (.+) with type ([\w\[\], ]+)")
"""The message of pyarrow about a pandas column that it can't convert."""


def _explain_unreadable(data: ArrowStream, error: Exception) -> str:
    if not any(hasattr(data, name) for name in ("columns", "column_names", "schema")):
        return "it is one column, and a type has several: give a table, such as series.to_frame()"
    return f"{error}; cast such columns to text, numbers, times or lists, each under a name of its own"


def _build_empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    """Build a batch without rows, so that columns are checked also if there are no rows."""
    return pa.RecordBatch.from_arrays([pa.nulls(0, one.type) for one in schema], schema=schema)


def _slice_batch(batch: pa.RecordBatch, rows: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


def _decode_batches(source: RowSource, ids: Ids, batches: Iterator[pa.RecordBatch]) -> Iterator[_Part]:
    placed: Mapping[str, int] | None = None
    start = 1
    while True:
        with translate_file_errors(source.name):
            batch = next(batches, None)
        if batch is None:
            return
        if placed is None:
            placed = source.locate_columns(list_columns(source, batch.schema.names))
        yield _decode_batch(source, ids, batch, placed, start)
        start += batch.num_rows


def _decode_batch(source: RowSource, ids: Ids, batch: pa.RecordBatch, placed: Mapping[str, int], start: int) -> _Part:
    rows = batch.num_rows
    own = list_id_columns(source.type)
    names = list_columns(source, batch.schema.names)

    def decode(p: Property, place: int) -> DecodedColumn:
        if place >= batch.num_columns:
            return decode_partition(p, source.partition[names[place]], rows)
        return (decode_id_array if p.name in own else decode_array)(
            p, batch.column(place), source.name, source.type.name
        )

    columns = decode_placed(source.type, placed, rows, decode)

    def get_value(name: str, place: int, row: int) -> object:
        if place >= batch.num_columns:
            return decode_partition_value(source.type.find_property(name), source.partition[names[place]])
        return to_json_value(batch.column(place)[row])

    def text_of(line: int) -> bytes:
        row = line - start
        return encode_record(source.type, {name: get_value(name, place, row) for name, place in placed.items()})

    read = DecodedRows(lines=np.arange(start, start + rows, dtype=np.int64), columns=columns)
    return validate_rows(source.type, read, source.build_origin("row"), ids, text_of)


_COLUMNAR: dict[str, Callable[[TypedFile], Generator[pa.RecordBatch]]] = {
    ".parquet": _read_parquet,
    ".orc": _read_orc,
}
