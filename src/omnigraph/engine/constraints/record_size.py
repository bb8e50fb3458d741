"""Check the size of records, so that everything a graph stores can be exported and loaded again.

A record is a row as a line of graph JSONL. Its blobs don't count; each of them has a separate limit.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.jsonl_encoding import iter_json_lines
from omnigraph.schema.arrow import DST, ID, SRC
from omnigraph.schema.catalog import AnyType, EdgeType
from omnigraph.schema.types import Scalar, VectorOf

# A load holds each line in memory as a whole, so lines need a limit (decision 18).
MAX_RECORD_BYTES = 8 * 1024 * 1024
# As base64 text in a record, a blob of this size takes 504 MiB.
MAX_BLOB_BYTES = 378 * 1024 * 1024

# JSON escapes a control character, one byte of text, as `\u0000`.
_MAX_ESCAPED_BYTES = 6
# More than a number, date or time takes, with its punctuation.
_MAX_NUMBER_BYTES = 40
# Upper bound for an element of a Vector.
_MAX_FLOAT_BYTES = 16


@dataclass(frozen=True, slots=True)
class OversizedValue:
    """A row with a record or blob of too many bytes, and the column that has most of them."""

    row: int
    column: str
    size: int


def compute_line_limit(blobs: int) -> int:
    """Return the maximum length of the line of a record whose type has this number of Blob properties."""
    return MAX_RECORD_BYTES + blobs * MAX_BLOB_BYTES // 3 * 4


def find_oversized_records(type_: AnyType, rows: pa.Table) -> Iterator[OversizedValue]:
    """Yield the rows whose records are too large without their blobs; a vector still to be computed counts too.

    Rows that lack columns of the type are not records yet, so none is yielded.
    """
    ends = (SRC, DST) if isinstance(type_, EdgeType) else ()
    if not {ID, *ends, *(p.name for p in type_.properties)}.issubset(rows.schema.names):
        return
    # A cheap upper bound from column lengths clears nearly every row; only the others are encoded and measured.
    suspects = np.flatnonzero(_bound_record_bytes(type_, rows) > MAX_RECORD_BYTES)
    for row in suspects.tolist():
        record = _clear_blobs(type_, rows.slice(row, 1))
        size = len(next(iter_json_lines(type_, record))) - 1 + _measure_missing_vectors(type_, record)
        if size > MAX_RECORD_BYTES:
            largest = max(reversed(record.schema.names), key=lambda name: record.column(name).nbytes)
            yield OversizedValue(row, largest, size)


def find_oversized_blobs(type_: AnyType, rows: pa.Table) -> Iterator[OversizedValue]:
    """Yield the rows with a blob that is too large, for the Blob columns that `rows` has."""
    for name in [name for name in _list_blobs(type_) if name in rows.schema.names]:
        column = rows.column(name)
        # An incoming row of a mutation has a reference with the size, a struct, in place of the bytes.
        sizes = pc.struct_field(column, "size") if pa.types.is_struct(column.type) else pc.binary_length(column)
        for row in pc.indices_nonzero(pc.greater(sizes, MAX_BLOB_BYTES)).to_pylist():
            yield OversizedValue(row, name, sizes[row].as_py())


def _list_blobs(type_: AnyType) -> list[str]:
    return [p.name for p in type_.properties if p.type is Scalar.BLOB]


def _clear_blobs(type_: AnyType, rows: pa.Table) -> pa.Table:
    for name in _list_blobs(type_):
        index = rows.schema.get_field_index(name)
        rows = rows.set_column(index, name, pa.array([b""] * rows.num_rows, pa.large_binary()))
    return rows


def _measure_missing_vectors(type_: AnyType, row: pa.Table) -> int:
    return sum(
        p.type.size * _MAX_FLOAT_BYTES
        for p in type_.properties
        if p.embedding is not None and isinstance(p.type, VectorOf) and row.column(p.name).null_count
    )


# --- bounds ------------------------------------------------------------------------------------------


def _bound_record_bytes(type_: AnyType, rows: pa.Table) -> npt.NDArray[np.int64]:
    """Return an upper bound of each row's record size; a single bound for all rows if that is within the limit."""
    fixed = _MAX_NUMBER_BYTES * (len(type_.properties) + 4)
    fixed += _MAX_ESCAPED_BYTES * (len(type_.name) + sum(len(p.name) for p in type_.properties))
    fixed += sum(p.type.size * _MAX_FLOAT_BYTES for p in type_.properties if isinstance(p.type, VectorOf))
    texts = [column for column in rows.columns if pa.types.is_string(column.type)]
    lists = [column for column in rows.columns if pa.types.is_list(column.type)]
    # The longest text of each column together bound every row. Mostly that is within the limit, and no sum per row is
    # needed.
    longest_texts = sum(_measure_longest_text(column) for column in texts)
    longest_lists = sum(int(_bound_list_bytes(column).max(initial=0)) for column in lists)
    bound = fixed + longest_texts * _MAX_ESCAPED_BYTES + longest_lists
    if bound <= MAX_RECORD_BYTES:
        return np.full(1, bound, np.int64)
    row_bounds = np.full(rows.num_rows, fixed, np.int64)
    for column in texts:
        row_bounds += _measure_texts(column) * _MAX_ESCAPED_BYTES
    for column in lists:
        row_bounds += _bound_list_bytes(column)
    return row_bounds


def _measure_longest_text(column: pa.ChunkedArray) -> int:
    return max((int(np.diff(_read_text_offsets(chunk)).max(initial=0)) for chunk in column.chunks), default=0)


def _measure_texts(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """Return the number of bytes of each text."""
    return np.concatenate([np.empty(0, np.int64), *(np.diff(_read_text_offsets(chunk)) for chunk in column.chunks)])


def _read_text_offsets(texts: pa.Array) -> npt.NDArray[np.int32]:
    """Return the offset at which each text begins, and the end of the last one."""
    if not len(texts):
        return np.zeros(1, np.int32)
    # Read from Arrow's offset buffer: no text is copied or decoded.
    return np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1]


def _bound_list_bytes(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """Return an upper bound of the bytes that each list takes as JSON."""
    parts = [np.empty(0, np.int64)]
    for chunk in column.chunks:
        ends = np.asarray(chunk.offsets, np.int64)
        sizes = np.diff(ends) * _MAX_NUMBER_BYTES
        if pa.types.is_string(chunk.values.type):
            sizes += np.diff(_read_text_offsets(chunk.values)[ends]).astype(np.int64) * _MAX_ESCAPED_BYTES
        parts.append(sizes)
    return np.concatenate(parts)
