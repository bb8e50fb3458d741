"""Derive the ids of rows from their key columns."""

from collections.abc import Mapping

import pyarrow as pa

from omnigraph.engine.row_ids import derive_ids
from omnigraph.schema.catalog import AnyType
from omnigraph.schema.types import Scalar, ValueType
from omnigraph.storage.columnar_sets import Column, concat_chunks


def derive_row_ids(type_: AnyType, columns: Mapping[str, Column]) -> pa.Array:
    """Derive the id of every row from its key columns, which have no nulls."""
    key_types = [find_key_type(type_, name) for name in type_.key]
    return derive_ids(key_types, [concat_chunks(columns[name]) for name in type_.key])


def find_key_type(type_: AnyType, column: str) -> ValueType:
    """Return the type of a key column: a property's, or String for an end of an edge."""
    prop = type_.find_property(column)
    return Scalar.STRING if prop is None else prop.type
