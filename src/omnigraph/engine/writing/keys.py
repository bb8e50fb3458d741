"""Ids of rows, from their keys."""

from collections.abc import Iterator

import pyarrow as pa

from omnigraph.schema.catalog import AnyType
from omnigraph.schema.types import Scalar, ValueType
from omnigraph.schema.values import derive_id, format_key


def derive_row_ids(type_: AnyType, rows: pa.Table) -> pa.Array:
    """The id of every row of a type with a key, whose columns hold no nulls."""
    if len(type_.key) == 1 and pa.types.is_string(rows.schema.field(type_.key[0]).type):
        return rows.column(type_.key[0]).combine_chunks()
    columns = [_iter_key_texts(find_key_type(type_, name), rows.column(name)) for name in type_.key]
    return pa.array([derive_id(texts) for texts in zip(*columns, strict=True)], pa.string())


def find_key_type(type_: AnyType, column: str) -> ValueType:
    """The type of a property, or of an end of an edge."""
    found = type_.find_property(column)
    return Scalar.STRING if found is None else found.type


def _iter_key_texts(type_: ValueType, column: pa.ChunkedArray) -> Iterator[str]:
    return (format_key(type_, value) for value in column.to_pylist())
