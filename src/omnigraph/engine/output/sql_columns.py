"""Convert results of SQL engines to column types that every interface can show."""

import base64
import json
from collections.abc import Callable, Sequence
from functools import partial

import pyarrow as pa

from omnigraph.schema.arrow import ArrowTypeError, type_from_arrow
from omnigraph.schema.values import BASE64_PREFIX

_UTC = pa.timestamp("us", tz="UTC")
# Arrow types that no property has, and the closest wider type that one may have.
_WIDER_TYPES = {
    pa.int8(): pa.int32(),
    pa.int16(): pa.int32(),
    pa.float16(): pa.float32(),
    pa.large_utf8(): pa.utf8(),
    pa.null(): pa.utf8(),
}


def convert_table(table: pa.Table) -> pa.Table:
    """Return the same rows with column types that a property may have; other values become text."""
    # Chunk by chunk: the rows may be in a file, and most columns stay as they are.
    columns = [_convert_column(column) for column in table.columns]
    return pa.Table.from_arrays(columns, names=table.column_names)


def find_duplicate_name(names: Sequence[str]) -> str | None:
    """Return a name that two columns have, or None.

    Rows become dictionaries by column name, where a second column of a name would replace the first one.
    """
    return next((name for name in names if names.count(name) > 1), None)


def _convert_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    type_ = column.type
    if type_ in _WIDER_TYPES:
        return column.cast(_WIDER_TYPES[type_])
    if pa.types.is_timestamp(type_) and type_.tz is not None:
        return column.cast(_UTC)
    if pa.types.is_decimal(type_):
        return _convert_decimal(column)
    if pa.types.is_binary(type_) or pa.types.is_large_binary(type_):
        return _format_texts(column, lambda value: BASE64_PREFIX + base64.b64encode(value).decode())
    try:
        type_from_arrow(pa.field("", type_))
    except ArrowTypeError:
        # Structs and maps are shown as JSON, other types without a counterpart, such as intervals, by `str`.
        is_nested = pa.types.is_nested(type_)
        return _format_texts(column, partial(json.dumps, default=str, ensure_ascii=False) if is_nested else str)
    return column


def _convert_decimal(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert a decimal to an integer if all values fit, as those of a U64 do; else to text, which is exact."""
    # U64 properties are `decimal(20,0)` in Spark. Unsigned is tried last, so it is used only for values beyond I64.
    for type_ in (pa.int64(), pa.uint64()) if column.type.scale <= 0 else ():
        try:
            return column.cast(type_)
        except pa.ArrowInvalid:
            continue
    return column.cast(pa.utf8())


def _format_texts(column: pa.ChunkedArray, format_value: Callable[..., str]) -> pa.ChunkedArray:
    def format_chunk(chunk: pa.Array) -> pa.Array:
        return pa.array([None if value is None else format_value(value) for value in chunk.to_pylist()], pa.utf8())

    return pa.chunked_array(map(format_chunk, column.chunks), pa.utf8())
