"""Write results as JSON lines, CSV, Arrow or Parquet, batch by batch."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import BinaryIO, assert_never

import msgspec
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.ipc as pa_ipc

from omnigraph.atomic_file import open_atomic_file
from omnigraph.engine.jsonl_encoding import encode_json_column
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.lang.spelling import find_closest
from omnigraph.locations import resolve_local_path
from omnigraph.schema.arrow import type_from_arrow

_encode = msgspec.json.Encoder().encode


class ResultFormat(Enum):
    """The formats in which a result can be written."""

    JSONL = "jsonl"
    """One JSON object per row and line."""
    CSV = "csv"
    """A header line, then one line per row. Text is quoted, null is empty, lists and objects are JSON."""
    ARROW = "arrow"
    """The Arrow IPC file format."""
    ARROW_STREAM = "arrow_stream"
    """The Arrow IPC streaming format, which can be read before it is complete."""
    PARQUET = "parquet"


class ResultFormatError(OmnigraphError):
    """A result was requested in an unknown format."""

    kind = Kind.USAGE
    code = "unknown_result_format"
    format: str

    def __str__(self) -> str:
        formats = [member.value for member in ResultFormat]
        closest = find_closest(self.format, formats)
        hint = f"; did you mean `{closest}`?" if closest else ""
        return f"a result can't be written as `{self.format}`, only as {', '.join(formats)}{hint}"


def resolve_format(format: ResultFormat | str) -> ResultFormat:
    """Return the format with this name.

    Raises:
        ResultFormatError: There is none.
    """
    try:
        return ResultFormat(format)
    except ValueError:
        raise ResultFormatError(str(format)) from None


def write_batches(schema: pa.Schema, batches: Iterable[pa.RecordBatch], format: ResultFormat, out: BinaryIO) -> None:
    """Write all batches to a stream, which only has to support writing and is left open."""
    match format:
        case ResultFormat.JSONL:
            out.writelines(encode_json_lines(schema, batch) for batch in batches)
        case ResultFormat.CSV:
            _write_csv(schema, batches, out)
        case ResultFormat.ARROW:
            with pa_ipc.new_file(_CountingWriter(out), schema) as writer:
                for batch in batches:
                    writer.write_batch(batch)
        case ResultFormat.ARROW_STREAM:
            with pa_ipc.new_stream(_CountingWriter(out), schema) as writer:
                for batch in batches:
                    writer.write_batch(batch)
        case ResultFormat.PARQUET:
            from pyarrow.parquet import ParquetWriter  # noqa: PLC0415 - imported only if it is used

            with ParquetWriter(_CountingWriter(out), schema) as writer:
                for batch in batches:
                    writer.write_batch(batch)
        case _:
            assert_never(format)


@contextmanager
def open_output(out: BinaryIO | str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a path for writing, or yield an open stream as it is. A file gets its name once it is complete."""
    if not isinstance(out, str | os.PathLike):
        yield out
        return
    # Readers never see a partial file: it is written under a temporary name and renamed at the end.
    with open_atomic_file(resolve_local_path(out)) as file:
        yield file


# --- JSON ------------------------------------------------------------------------------------------------


def build_json_objects(schema: pa.Schema, batch: pa.RecordBatch) -> list[dict[str, object]]:
    """Return each row as an object of JSON values."""
    names = schema.names
    columns = [encode_json_values(field, batch.column(index)) for index, field in enumerate(schema)]
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def encode_json_lines(schema: pa.Schema, batch: pa.RecordBatch) -> bytes:
    """Return all rows as lines of JSON."""
    return b"".join(_encode(row) + b"\n" for row in build_json_objects(schema, batch))


def encode_json_values(field: pa.Field, column: pa.Array) -> list[object]:
    """Return the values of a column in their JSON forms."""
    if pa.types.is_list(field.type) and pa.types.is_nested(field.type.value_type):
        return _encode_nested_lists(field.type.value_field, column)
    if not pa.types.is_struct(field.type):
        return encode_json_column(type_from_arrow(field), column)
    # Nodes, edges and records are structs: their fields are encoded column by column, then zipped to objects.
    names = [child.name for child in field.type]
    if not names:
        return list(column.to_pylist())
    columns = [encode_json_values(child, column.field(index)) for index, child in enumerate(field.type)]
    objects: list[object] = [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]
    if not column.null_count:
        return objects
    has_value = column.is_valid().to_pylist()
    return [value if is_present else None for value, is_present in zip(objects, has_value, strict=True)]


def _encode_nested_lists(item: pa.Field, column: pa.Array) -> list[object]:
    """Return lists of objects or of lists in their JSON forms; all elements are encoded together."""
    offsets = column.offsets.to_pylist()
    first, last = offsets[0], offsets[-1]
    items = encode_json_values(item, column.values.slice(first, last - first))
    has_value = column.is_valid().to_pylist()
    return [
        items[start - first : end - first] if is_present else None
        for start, end, is_present in zip(offsets[:-1], offsets[1:], has_value, strict=True)
    ]


# --- CSV -------------------------------------------------------------------------------------------------


def _write_csv(schema: pa.Schema, batches: Iterable[pa.RecordBatch], out: BinaryIO) -> None:
    types = [field.type if _is_plain(field.type) else pa.utf8() for field in schema]
    csv_schema = pa.schema(list(zip(schema.names, types, strict=True)))
    with pa_csv.CSVWriter(_CountingWriter(out), csv_schema) as writer:
        for batch in batches:
            columns = [_encode_csv_column(field, batch.column(index)) for index, field in enumerate(schema)]
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=csv_schema))


def _is_plain(type_: pa.DataType) -> bool:
    """Return whether Arrow's CSV writer formats values of this type as the JSON encoding does."""
    # Timestamps, blobs and nested values are written in their JSON form; Arrow writes no nested values at all.
    return not (pa.types.is_timestamp(type_) or pa.types.is_large_binary(type_) or pa.types.is_nested(type_))


def _encode_csv_column(field: pa.Field, column: pa.Array) -> pa.Array:
    if _is_plain(field.type):
        return column
    texts = [
        value if value is None or isinstance(value, str) else _encode(value).decode()
        for value in encode_json_values(field, column)
    ]
    return pa.array(texts, pa.utf8())


class _CountingWriter:
    """A write-only file object that counts bytes: Arrow asks for the position, which a pipe does not have."""

    # Arrow checks these members of any Python file object.
    closed = False

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._written = 0

    def write(self, data: bytes) -> int:
        """Write to the underlying stream."""
        self._out.write(data)
        self._written += len(data)
        return len(data)

    def tell(self) -> int:
        """Return the number of bytes written."""
        return self._written

    def flush(self) -> None:
        """Flush the underlying stream."""
        self._out.flush()

    def close(self) -> None:
        """Leave the underlying stream open: its owner closes it."""

    def seekable(self) -> bool:
        """Return false."""
        return False

    def writable(self) -> bool:
        """Return true."""
        return True

    def readable(self) -> bool:
        """Return false."""
        return False
