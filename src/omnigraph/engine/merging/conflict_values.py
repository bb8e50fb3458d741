"""Values of merged rows as conflicts show them."""

import pyarrow as pa

from omnigraph.engine.jsonl_encoding import encode_json_column
from omnigraph.engine.writing.blobs import REFERENCE
from omnigraph.schema.arrow import DST, SRC
from omnigraph.schema.catalog import AnyType

ENDS = {SRC: "from", DST: "to"}
"""What people call these columns."""


def format_column(type_: AnyType, name: str, column: pa.Array) -> list[object]:
    """The values of a column of pending rows in their JSON form; of a blob, how large it is."""
    prop = type_.find_property(name)
    if prop is None:
        texts: list[object] = column.to_pylist()
        return texts
    if column.type == REFERENCE:
        return [None if one is None else {"bytes": one["size"]} for one in column.to_pylist()]
    return encode_json_column(prop.type, column)
