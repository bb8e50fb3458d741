"""Format values of merged rows for conflicts."""

import pyarrow as pa

from omnigraph.engine.jsonl_encoding import encode_json_column
from omnigraph.engine.writing.blobs import REFERENCE
from omnigraph.schema.catalog import AnyType


def format_column(type_: AnyType, name: str, column: pa.Array) -> list[object]:
    """Return the values of a column of pending rows in their JSON form; of a blob, its size."""
    prop = type_.find_property(name)
    if prop is None:
        texts: list[object] = column.to_pylist()
        return texts
    if column.type == REFERENCE:
        return [None if blob is None else {"bytes": blob["size"]} for blob in column.to_pylist()]
    return encode_json_column(prop.type, column)
