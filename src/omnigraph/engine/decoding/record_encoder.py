"""Encoding of records as graph JSONL, so that a rejected record of any format can be corrected and loaded again."""

import math
from collections.abc import Mapping

import msgspec
import pyarrow as pa

from omnigraph.engine.decoding.typed_rows import list_id_columns
from omnigraph.schema.catalog import AnyType, EdgeType
from omnigraph.schema.types import Scalar
from omnigraph.schema.values import to_json

_encode = msgspec.json.Encoder().encode


def encode_record(type_: AnyType, values: Mapping[str, object]) -> bytes:
    """Encode a record with these JSON values of fields and properties as a line."""
    record: dict[str, object] = {"edge" if isinstance(type_, EdgeType) else "type": type_.name}
    own = list_id_columns(type_)
    for name in reversed(own):  # `id` first, as an export writes it
        if name in values:
            record[name] = values[name]
    record["data"] = {name: value for name, value in values.items() if name not in own}
    return _encode(record)


def to_json_value(cell: pa.Scalar) -> object:
    """Return the JSON value of one Arrow value; what JSON can't represent becomes text."""
    arrow = cell.type
    if not cell.is_valid:
        return None
    if pa.types.is_nested(arrow) and not pa.types.is_struct(arrow) and not pa.types.is_map(arrow):
        return [to_json_value(item) for item in cell.values]
    if pa.types.is_dictionary(arrow):
        return to_json_value(cell.value)
    if pa.types.is_timestamp(arrow) and arrow.tz is not None:
        return _format_time(cell)
    if pa.types.is_temporal(arrow) or pa.types.is_decimal(arrow):
        return str(cell.cast(pa.utf8()).as_py())
    try:
        value = cell.as_py()
    except UnicodeDecodeError:
        value = cell.as_buffer().to_pybytes().decode(errors="replace")
    if isinstance(value, bytes):
        return to_json(Scalar.BLOB, value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, str | int | float | bool) else str(value)


def _format_time(cell: pa.Scalar) -> str:
    text: str = cell.cast(pa.timestamp(cell.type.unit, "UTC")).cast(pa.utf8()).as_py()
    return text.replace(" ", "T")
