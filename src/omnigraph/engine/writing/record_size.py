"""How large a record may be: so that whatever a graph holds can be exported and loaded again.

A record is what a row is as a line of graph JSONL. Its blobs have a limit of their own, each for itself.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.jsonl_encoding import iter_json_lines
from omnigraph.engine.writing.blobs import REFERENCE, list_blob_properties
from omnigraph.schema.arrow import build_arrow_schema
from omnigraph.schema.catalog import AnyType
from omnigraph.schema.types import VectorOf

MAX_RECORD_BYTES = 8 * 1024 * 1024
"""The most for all of a record but its blobs."""
MAX_BLOB_BYTES = 378 * 1024 * 1024
"""The most for one blob: as text in a record it takes 504 MiB."""

_MAX_ESCAPED_BYTES = 6
"""So many bytes a byte of text takes at most: `\\u0000`."""
_MAX_NUMBER_BYTES = 40
"""More than a number, date or time takes, with what stands around it."""
_MAX_FLOAT_BYTES = 16
"""The most for an element of a Vector."""


@dataclass(frozen=True, slots=True)
class OversizedValue:
    """A row whose record has too many bytes, and the column that has most of them."""

    row: int
    column: str
    size: int


def compute_line_limit(blobs: int) -> int:
    """How long the line of a record with so many blobs may be."""
    return MAX_RECORD_BYTES + blobs * MAX_BLOB_BYTES // 3 * 4


def find_oversized_records(type_: AnyType, rows: pa.Table) -> Iterator[OversizedValue]:
    """The rows whose records are too large without their blobs; a vector that is still to be computed counts too.

    Rows without all columns of the type are no records, and tell nothing.
    """
    if not set(build_arrow_schema(type_).names) <= set(rows.schema.names):
        return
    suspects = np.flatnonzero(_bound_record_bytes(type_, rows) > MAX_RECORD_BYTES)
    for row in suspects.tolist():
        one = _clear_blobs(type_, rows.slice(row, 1))
        size = len(next(iter_json_lines(type_, one))) - 1 + _measure_missing_vectors(type_, one)
        if size > MAX_RECORD_BYTES:
            largest = max(reversed(one.schema.names), key=lambda name: one.column(name).nbytes)
            yield OversizedValue(row, largest, size)


def find_oversized_blobs(type_: AnyType, rows: pa.Table) -> Iterator[OversizedValue]:
    """The rows with a blob that is too large, as far as their columns tell."""
    for name in [name for name in list_blob_properties(type_) if name in rows.schema.names]:
        column = rows.column(name)
        sizes = pc.struct_field(column, "size") if column.type == REFERENCE else pc.binary_length(column)
        for row in pc.indices_nonzero(pc.greater(sizes, MAX_BLOB_BYTES)).to_pylist():
            yield OversizedValue(row, name, sizes[row].as_py())


def _clear_blobs(type_: AnyType, rows: pa.Table) -> pa.Table:
    for name in list_blob_properties(type_):
        place = rows.schema.get_field_index(name)
        rows = rows.set_column(place, name, pa.array([b""] * rows.num_rows, pa.large_binary()))
    return rows


def _measure_missing_vectors(type_: AnyType, row: pa.Table) -> int:
    return sum(
        p.type.size * _MAX_FLOAT_BYTES
        for p in type_.properties
        if p.embedding is not None and isinstance(p.type, VectorOf) and row.column(p.name).null_count
    )


# --- bounds ------------------------------------------------------------------------------------------


def _bound_record_bytes(type_: AnyType, rows: pa.Table) -> npt.NDArray[np.int64]:
    """For each row, at least as many bytes as its record has. One number for all, where that is enough to know."""
    fixed = _MAX_NUMBER_BYTES * (len(type_.properties) + 4)
    fixed += _MAX_ESCAPED_BYTES * (len(type_.name) + sum(len(p.name) for p in type_.properties))
    fixed += sum(p.type.size * _MAX_FLOAT_BYTES for p in type_.properties if isinstance(p.type, VectorOf))
    texts = [column for column in rows.columns if pa.types.is_string(column.type)]
    lists = [column for column in rows.columns if pa.types.is_list(column.type)]
    longest = sum(
        max((int(np.diff(_read_text_offsets(one)).max(initial=0)) for one in text.chunks), default=0) for text in texts
    )
    most = (
        fixed + longest * _MAX_ESCAPED_BYTES + sum(int(sizes.max(initial=0)) for sizes in map(_bound_list_bytes, lists))
    )
    if most <= MAX_RECORD_BYTES:
        return np.full(1, most, np.int64)
    each = np.full(rows.num_rows, fixed, np.int64)
    for column in texts:
        each += _measure_texts(column) * _MAX_ESCAPED_BYTES
    for column in lists:
        each += _bound_list_bytes(column)
    return each


def _measure_texts(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """How many bytes each text has."""
    return np.concatenate([np.empty(0, np.int64), *(np.diff(_read_text_offsets(chunk)) for chunk in column.chunks)])


def _read_text_offsets(texts: pa.Array) -> npt.NDArray[np.int32]:
    """Where each text begins, and where the last one ends."""
    if not len(texts):
        return np.zeros(1, np.int32)
    return np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1]


def _bound_list_bytes(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """At least as many bytes as each list takes."""
    parts = [np.empty(0, np.int64)]
    for chunk in column.chunks:
        ends = np.asarray(chunk.offsets, np.int64)
        sizes = np.diff(ends) * _MAX_NUMBER_BYTES
        if pa.types.is_string(chunk.values.type):
            sizes += np.diff(_read_text_offsets(chunk.values)[ends]).astype(np.int64) * _MAX_ESCAPED_BYTES
        parts.append(sizes)
    return np.concatenate(parts)
