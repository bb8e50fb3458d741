"""The CSV reader: a header that names the columns, then one row per record.

A cell of a String or enum is its text, and every other cell is the JSON form of its type (`true`, `12`, `0.5`,
`[1, 2]`; dates and blobs without quotes). An empty cell is null for a nullable property that is no String, and the
empty string for a String: CSV has no null of text. A row has the number of the line on which it starts, as editors
count lines.
"""

import csv
import io
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pa_csv

from omnigraph.engine.decoding.csv_columns import decode_cell, decode_cells
from omnigraph.engine.decoding.csv_quoting import QuoteChecker
from omnigraph.engine.decoding.csv_splitting import RecordLines, read_csv_chunks, read_header
from omnigraph.engine.decoding.input_files import translate_file_errors
from omnigraph.engine.decoding.json_columns import DecodedColumn
from omnigraph.engine.decoding.json_lines import BYTE_ORDER_MARK
from omnigraph.engine.decoding.partition_values import decode_partition, decode_partition_value, list_columns
from omnigraph.engine.decoding.record_encoder import encode_record
from omnigraph.engine.decoding.record_error import ColumnError, RecordError
from omnigraph.engine.decoding.typed_rows import (
    DecodedRows,
    RejectedRecord,
    TypedRows,
    decode_placed,
    validate_rows,
)
from omnigraph.engine.decoding.typed_source import TypedFile
from omnigraph.ids import Ids
from omnigraph.schema.catalog import Property

BLOCK_BYTES = 8 * 1024 * 1024
BLOCK_BYTES_WITH_BLOBS = 256 * 1024 * 1024
"""A row has to fit into one block."""

_Part: TypeAlias = tuple[TypedRows, list[RejectedRecord]]


def read_csv_rows(file: TypedFile, ids: Ids, count_lines: Callable[[int], None] | None = None) -> Iterator[_Part]:
    """Read the rows in blocks of the file, with the errors of the others.

    A row with another number of cells than the header is rejected like any other bad row. Misplaced quotes stop the
    read, because after them it is not known where rows begin. At the end, `count_lines` is called with the number of
    lines of the file, or of its part.
    """
    is_later_part = file.part is not None and file.part.start > 0
    header = read_header(file.path) if is_later_part else b""
    places = RecordLines(len(header.splitlines()))
    columns, chunks = _read_header(file, _check_chunks(file, places))
    placed = file.locate_columns(list_columns(file, columns))
    refused: list[tuple[int, str, bytes]] = []

    def keep(row: pa_csv.InvalidRow) -> str:
        cells = "1 cell" if row.actual_columns == 1 else f"{row.actual_columns} cells"
        reason = f"the row has {cells}, the header has {row.expected_columns}"
        refused.append((row.number - 1, reason, row.text.encode()))
        return "skip"

    def take_refused(lines: npt.NDArray[np.int64], first: int, end: int) -> list[RejectedRecord]:
        """Return the errors of the rejected rows before `end`, given the lines of all rows from `first` on."""
        due = [each for each in refused if each[0] < end]
        refused[:] = refused[len(due) :]
        return [
            (RecordError(file.name, int(lines[row - first]), file.type.name, None, None, reason), text)
            for row, reason, text in due
        ]

    with translate_file_errors(file.name):
        batches = pa_csv.open_csv(
            pa.PythonFile(_ChunkStream(chunks), mode="r"),
            pa_csv.ReadOptions(block_size=BLOCK_BYTES_WITH_BLOBS if file.has_blobs else BLOCK_BYTES, use_threads=False),
            pa_csv.ParseOptions(newlines_in_values=True, invalid_row_handler=keep),
            pa_csv.ConvertOptions(
                column_types=dict.fromkeys(columns, pa.binary()), strings_can_be_null=False, check_utf8=False
            ),
        )
    start = 1
    with batches:
        while True:
            with translate_file_errors(file.name):
                batch = next(batches, None)
            if batch is None:
                break
            numbers = _number_rows(start, batch.num_rows, [row for row, _, _ in refused])
            # Both are looked up before either: a look-up forgets what comes before its first record.
            all_lines = places.locate(np.arange(start, int(numbers[-1]) + 1)) if len(numbers) else numbers
            lines = all_lines[numbers - start]
            first, start = start, int(numbers[-1]) + 1 if len(numbers) else start
            rows, wrong = _decode_batch(file, ids, batch, placed, lines)
            due = take_refused(all_lines, first, start)
            yield rows, sorted([*wrong, *due], key=lambda one: one[0].line)
    if refused:
        last = refused[-1][0] + 1
        due = take_refused(places.locate(np.arange(start, last)), start, last)
        yield _decode_batch(file, ids, _build_empty_batch(columns), placed, np.empty(0, np.int64))[0], due
    if count_lines is not None:
        count_lines(places.breaks)


def _build_empty_batch(columns: list[str]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], pa.binary()) for _ in columns], names=columns)


def _check_chunks(file: TypedFile, places: RecordLines) -> Iterator[bytes]:
    """Yield the bytes of the file without a byte order mark, ending with a line feed; check quotes, count lines."""
    check = QuoteChecker(file.name)
    is_first, last = True, b""
    for chunk in read_csv_chunks(file.path, file.part):
        text = chunk.removeprefix(BYTE_ORDER_MARK) if is_first else chunk
        is_first = False
        check.feed(text)
        places.feed(text)
        last = text[-1:] or last
        yield text
    check.finish()
    if last and last != b"\n":
        places.feed(b"\n")
        yield b"\n"


def _read_header(file: TypedFile, chunks: Iterator[bytes]) -> tuple[list[str], Iterator[bytes]]:
    """Read the names of the columns, and return them with an iterator over all bytes."""
    first = next(chunks, b"")
    text = first.decode(errors="replace")
    columns = next((row for row in csv.reader(io.StringIO(text, newline="")) if row), None)
    if columns is None:
        raise ColumnError(file.name, file.type.name, "", "the file is empty: its first line names the columns")
    return columns, chain([first], chunks)


class _ChunkStream(io.RawIOBase):
    """A file object over chunks of bytes."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._buffer = b""

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes:
        parts, held = [self._buffer], len(self._buffer)
        while size is None or size < 0 or held < size:
            chunk = next(self._chunks, None)
            if chunk is None:
                break
            parts.append(chunk)
            held += len(chunk)
        found = b"".join(parts)
        cut = len(found) if size is None or size < 0 else size
        self._buffer = found[cut:]
        return found[:cut]


def _number_rows(start: int, rows: int, refused: list[int]) -> npt.NDArray[np.int64]:
    """Return the numbers of the next rows, without those that were rejected."""
    numbers = np.arange(start, start + rows + len(refused), dtype=np.int64)
    return np.setdiff1d(numbers, refused, assume_unique=True)[:rows]


def _decode_batch(
    file: TypedFile, ids: Ids, batch: pa.RecordBatch, placed: Mapping[str, int], lines: npt.NDArray[np.int64]
) -> _Part:
    names = list_columns(file, batch.schema.names)

    def decode(p: Property, place: int) -> DecodedColumn:
        if place >= batch.num_columns:
            return decode_partition(p, file.partition[names[place]], len(lines))
        return decode_cells(p, batch.column(place))

    columns = decode_placed(file.type, placed, len(lines), decode)

    def get_value(name: str, place: int, row: int) -> object:
        p = file.type.find_property(name)
        if place >= batch.num_columns:
            return decode_partition_value(p, file.partition[names[place]])
        return decode_cell(p, batch.column(place)[row].as_py())

    def text_of(line: int) -> bytes:
        row = int(np.searchsorted(lines, line))
        return encode_record(file.type, {name: get_value(name, place, row) for name, place in placed.items()})

    return validate_rows(file.type, DecodedRows(lines=lines, columns=columns), file.build_origin("line"), ids, text_of)
