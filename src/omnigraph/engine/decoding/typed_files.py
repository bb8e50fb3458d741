"""Rows of one type: from Parquet, ORC and Arrow data, CSV, or JSONL with one object of properties a line."""

import re
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.orc as pa_orc
import pyarrow.parquet as pa_parquet

from omnigraph.engine.decoding.arrow_columns import filled_from_arrow, ids_from_arrow
from omnigraph.engine.decoding.csv_rows import csv_parts
from omnigraph.engine.decoding.graph_jsonl import WINDOW_BYTES
from omnigraph.engine.decoding.input_files import (
    LINE_ENDINGS,
    FileDamagedError,
    FileFormatError,
    ending_of,
    file_errors,
)
from omnigraph.engine.decoding.prefetch import read_ahead
from omnigraph.engine.decoding.record_encoder import json_of_cell, record_text
from omnigraph.engine.decoding.record_error import ColumnError, Reject, TableUnreadableError, refuse
from omnigraph.engine.decoding.typed_jsonl import typed_line_parts
from omnigraph.engine.decoding.typed_rows import (
    Filled,
    ReadRows,
    Rejected,
    TypedRows,
    absent_column,
    absent_ids,
    finish,
    id_columns,
)
from omnigraph.engine.decoding.typed_source import ArrowStream, RowSource, TypedFile, TypedTable
from omnigraph.ids import Ids
from omnigraph.schema.misfit import shown
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

_Part: TypeAlias = tuple[TypedRows, list[Rejected]]


def read_typed(source: TypedFile | TypedTable, ids: Ids, *, reject: Reject = refuse) -> Iterator[TypedRows]:
    """The rows of a file, by the ending of its name, or of Arrow data, a batch at a time; bad rows go to `reject`.

    They come in their order, as graph JSONL: a value that can't be decoded is text in it.

    Raises:
        FileFormatError: The name's ending is not known.
        ColumnError: A column is unknown, there twice, missing, or of a type that no value of the property has.
        RecordError: A row is bad, and `reject` is the default.
        FileDamagedError: The file is not of the format that its name says.
        TableUnreadableError: Arrow data can't be read.
    """
    for rows, rejected in _parts(source, ids):
        for error, text in rejected:
            reject(error, text)
        if rows.rows.num_rows:
            yield rows


def _parts(source: TypedFile | TypedTable, ids: Ids) -> Iterator[_Part]:
    if isinstance(source, TypedTable):
        return _of_batches(source, ids, _table_batches(source))
    ending = ending_of(source.path)
    if ending in LINE_ENDINGS:
        return typed_line_parts(source, ids)
    if ending == ".csv":
        return csv_parts(source, ids)
    reader = _COLUMNAR.get(ending)
    if reader is None:
        raise FileFormatError(source.name)
    batches = reader(source)
    return _of_batches(source, ids, batches if source.has_blobs else read_ahead(batches))  # a row with one may be large


# --- Arrow's own kinds -------------------------------------------------------------------------------


def _parquet_batches(file: TypedFile) -> Generator[pa.RecordBatch]:
    with pa_parquet.ParquetFile(arrow_file(file.path), pre_buffer=False) as source:
        yield _empty(source.schema_arrow)
        groups = _numbers(file, source.num_row_groups)
        if not file.has_blobs:
            yield from source.iter_batches(batch_size=file.batch_rows, row_groups=[*groups])
            return
        for number in groups:
            group = source.metadata.row_group(number)
            fitting = WINDOW_BYTES * group.num_rows // max(group.total_byte_size, 1)
            yield from source.iter_batches(batch_size=max(1, min(file.batch_rows, fitting)), row_groups=[number])


def arrow_file(path: InputFile) -> Path | pa.PythonFile:
    """What Arrow's readers are given: a path, or an object of which they read what they ask for and no more."""
    return path if isinstance(path, Path) else pa.PythonFile(path.open("rb", buffering=0), mode="r")


def _orc_batches(file: TypedFile) -> Generator[pa.RecordBatch]:
    with file.path.open("rb", buffering=0) as opened:
        source = pa_orc.ORCFile(opened)
        yield _empty(source.schema)
        for stripe in _numbers(file, source.nstripes):
            yield from _sliced(source.read_stripe(stripe), file.batch_rows)


def _numbers(file: TypedFile, count: int) -> range:
    """Which groups or stripes, of so many, are read."""
    return range(count) if file.part is None else range(file.part.start, file.part.end)


def _table_batches(table: TypedTable) -> Iterator[pa.RecordBatch]:
    stream = open_stream(table)
    try:
        yield _empty(stream.schema)
        for batch in stream:
            yield from _sliced(batch, table.batch_rows)
    except pa.ArrowException as error:
        raise TableUnreadableError(table.name, type(table.data).__name__, str(error)) from error


def open_stream(table: TypedTable) -> pa.RecordBatchReader:
    """Return the batches of Arrow data.

    Raises:
        ColumnError: A column of a frame can't be made one of Arrow.
        TableUnreadableError: It is no table, or has a type that Arrow does not know.
    """
    try:
        return pa.RecordBatchReader.from_stream(table.data)
    except (pa.ArrowException, TypeError, ValueError, NotImplementedError) as error:
        column = _COLUMN.search(str(error))
        if column is not None:
            reason = (
                f"the column {shown(column[1])} of the {type(table.data).__name__} holds {column[2]}, which is none of"
                " our types; make all of its values text, numbers, times or lists"
            )
            raise ColumnError(table.name, table.type.name, column[1], reason) from error
        raise TableUnreadableError(table.name, type(table.data).__name__, _why_unreadable(table.data, error)) from error


_COLUMN = re.compile(r"Conversion failed for column (.+) with type ([\w\[\], ]+)")
"""What pyarrow says of a column of pandas that it can't convert."""


def _why_unreadable(data: ArrowStream, error: Exception) -> str:
    if not any(hasattr(data, name) for name in ("columns", "column_names", "schema")):
        return "it is one column, and a type has several: give a table, such as series.to_frame()"
    return f"{error}; cast such columns to text, numbers, times or lists, each under a name of its own"


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    """So that columns are checked also where there are no rows."""
    return pa.RecordBatch.from_arrays([pa.nulls(0, one.type) for one in schema], schema=schema)


def _sliced(batch: pa.RecordBatch, rows: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


def _of_batches(source: RowSource, ids: Ids, batches: Iterator[pa.RecordBatch]) -> Iterator[_Part]:
    placed: Mapping[str, int] | None = None
    start = 1
    while True:
        with file_errors(source.name):
            batch = next(batches, None)
        if batch is None:
            return
        if placed is None:
            placed = source.placed(batch.schema.names)
        yield _part(source, ids, batch, placed, start)
        start += batch.num_rows


def _part(source: RowSource, ids: Ids, batch: pa.RecordBatch, placed: Mapping[str, int], start: int) -> _Part:
    rows = batch.num_rows
    columns: dict[str, Filled] = {}
    for name in id_columns(source.type):
        if name in placed:
            columns[name] = ids_from_arrow(batch.column(placed[name]), source.name, source.type.name, name)
        else:
            columns[name] = absent_ids(rows)
    for p in source.type.properties:
        if p.name in placed:
            columns[p.name] = filled_from_arrow(p, batch.column(placed[p.name]), source.name, source.type.name)
        else:
            columns[p.name] = absent_column(p, rows)

    def text_of(line: int) -> bytes:
        row = line - start
        return record_text(
            source.type, {name: json_of_cell(batch.column(column)[row]) for name, column in placed.items()}
        )

    read = ReadRows(lines=np.arange(start, start + rows, dtype=np.int64), columns=columns)
    return finish(source.type, read, source.origin("row"), ids, text_of)


_COLUMNAR: dict[str, Callable[[TypedFile], Generator[pa.RecordBatch]]] = {
    ".parquet": _parquet_batches,
    ".orc": _orc_batches,
}
