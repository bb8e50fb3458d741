"""A result as bytes that other programs read: JSON lines, CSV, Arrow, Parquet; batch by batch."""

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
    """What the rows of a result may be written as."""

    JSONL = "jsonl"
    """An object for each row, one a line."""
    CSV = "csv"
    """A line of names, then one for each row. Text is in quotes, null is nothing, lists and objects are JSON."""
    ARROW = "arrow"
    """Arrow's file format."""
    ARROW_STREAM = "arrow_stream"
    """Arrow's format for streams, which needs no end to be read."""
    PARQUET = "parquet"


class ResultFormatError(OmnigraphError):
    """A result is to be written in a format that there is not."""

    kind = Kind.USAGE
    code = "unknown_result_format"

    def __init__(self, format: str) -> None:
        super().__init__(format)
        self.format = format

    def __str__(self) -> str:
        known = [one.value for one in ResultFormat]
        near = find_closest(self.format, known)
        way_out = f"; did you mean `{near}`?" if near else ""
        return f"a result can't be written as `{self.format}`, only as {', '.join(known)}{way_out}"


def resolve_format(format: ResultFormat | str) -> ResultFormat:
    """The format of that name; ResultFormatError when there is none."""
    try:
        return ResultFormat(format)
    except ValueError:
        raise ResultFormatError(str(format)) from None


def write_batches(schema: pa.Schema, batches: Iterable[pa.RecordBatch], format: ResultFormat, out: BinaryIO) -> None:
    """Write all batches; `out` needs to be able to do nothing but write, and is left open."""
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
            from pyarrow.parquet import ParquetWriter  # noqa: PLC0415 - a query that writes no file goes without

            with ParquetWriter(_CountingWriter(out), schema) as writer:
                for batch in batches:
                    writer.write_batch(batch)
        case _:
            assert_never(format)


@contextmanager
def open_output(out: BinaryIO | str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """What to write to. A path becomes a file that has its name when all of it is written, and not before."""
    if not isinstance(out, str | os.PathLike):
        yield out
        return
    with open_atomic_file(resolve_local_path(out)) as file:
        yield file


# --- JSON ------------------------------------------------------------------------------------------------


def build_json_objects(schema: pa.Schema, batch: pa.RecordBatch) -> list[dict[str, object]]:
    """Each row as an object of JSON values."""
    names = schema.names
    columns = [encode_json_values(field, batch.column(place)) for place, field in enumerate(schema)]
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def encode_json_lines(schema: pa.Schema, batch: pa.RecordBatch) -> bytes:
    """Each row as a line of JSON."""
    return b"".join(_encode(row) + b"\n" for row in build_json_objects(schema, batch))


def encode_json_values(field: pa.Field, column: pa.Array) -> list[object]:
    """A column's values in their JSON forms."""
    if not pa.types.is_struct(field.type):
        return encode_json_column(type_from_arrow(field), column)
    names = [part.name for part in field.type]
    parts = [encode_json_values(part, column.field(place)) for place, part in enumerate(field.type)]
    return [dict(zip(names, values, strict=True)) for values in zip(*parts, strict=True)]


# --- CSV -------------------------------------------------------------------------------------------------


def _write_csv(schema: pa.Schema, batches: Iterable[pa.RecordBatch], out: BinaryIO) -> None:
    shown = pa.schema([pa.field(field.name, field.type if _is_plain(field.type) else pa.utf8()) for field in schema])
    with pa_csv.CSVWriter(_CountingWriter(out), shown) as writer:
        for batch in batches:
            columns = [_encode_csv_column(field, batch.column(place)) for place, field in enumerate(schema)]
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=shown))


def _is_plain(type_: pa.DataType) -> bool:
    """Whether Arrow writes such values as we do."""
    is_ours = pa.types.is_timestamp(type_) or pa.types.is_large_binary(type_) or pa.types.is_nested(type_)
    return not is_ours


def _encode_csv_column(field: pa.Field, column: pa.Array) -> pa.Array:
    if _is_plain(field.type):
        return column
    texts = [
        value if value is None or isinstance(value, str) else _encode(value).decode()
        for value in encode_json_values(field, column)
    ]
    return pa.array(texts, pa.utf8())


class _CountingWriter:
    """A writer that knows how much was written: pipes can't tell, and files end where the format says."""

    closed = False

    def __init__(self, out: BinaryIO) -> None:
        self._out, self._written = out, 0

    def write(self, data: bytes) -> int:
        """Pass it on."""
        self._out.write(data)
        self._written += len(data)
        return len(data)

    def tell(self) -> int:
        """How many bytes were written."""
        return self._written

    def flush(self) -> None:
        """Pass it on."""
        self._out.flush()

    def close(self) -> None:
        """Leave the writer open: it is its owner's."""

    def seekable(self) -> bool:
        """Never."""
        return False

    def writable(self) -> bool:
        """Always."""
        return True

    def readable(self) -> bool:
        """Never."""
        return False
