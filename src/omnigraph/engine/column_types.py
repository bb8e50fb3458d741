"""Describe the columns of a result: values, whole nodes and edges, paths and lists, with the names of their types."""

from enum import Enum

import pyarrow as pa

from omnigraph.json_struct import JsonStruct
from omnigraph.query.expr import ArrayOf, EdgeRef, ExprType, NodeRef, RecordOf, WalkOf
from omnigraph.schema.arrow import ArrowTypeError, type_from_arrow
from omnigraph.schema.types import ListOf

# Set on a column of nodes, edges, records or lists of them: its kind and the name of its type, as JSON has them.
# Arrow's own type has the fields only. A result that travels as an Arrow stream keeps them.
KIND_KEY = b"omnigraph:kind"
SHAPE_KEY = b"omnigraph:shape"


class ShapeKind(Enum):
    """What the values of a column are."""

    VALUE = "value"
    """A value that a property could have, or a record."""
    NODE = "node"
    EDGE = "edge"
    PATH = "path"
    LIST = "list"


class ColumnType(JsonStruct, frozen=True, kw_only=True):
    """A column of a result, what its values are, and their type; it ends with `?` if a value may be null."""

    name: str
    kind: ShapeKind
    type: str


def add_shape(field: pa.Field, type_: ExprType) -> pa.Field:
    """Return the field of a column with its kind and type, if Arrow's own type does not tell them."""
    match type_:
        case NodeRef():
            kind = ShapeKind.NODE
        case EdgeRef():
            kind = ShapeKind.EDGE
        case WalkOf():
            kind = ShapeKind.PATH
        case RecordOf():
            kind = ShapeKind.VALUE
        case ArrayOf():
            kind = ShapeKind.LIST
        case _:
            return field
    return field.with_metadata({KIND_KEY: kind.value.encode(), SHAPE_KEY: str(type_).encode()})


def describe_columns(schema: pa.Schema) -> tuple[ColumnType, ...]:
    """Return what the columns of a result are, in order."""
    return tuple(_describe_column(field) for field in schema)


def _describe_column(field: pa.Field) -> ColumnType:
    metadata = field.metadata or {}
    mark = "?" if field.nullable else ""
    if KIND_KEY in metadata:
        kind = ShapeKind(metadata[KIND_KEY].decode())
        return ColumnType(name=field.name, kind=kind, type=f"{metadata[SHAPE_KEY].decode()}{mark}")
    try:
        type_ = type_from_arrow(field)
    except ArrowTypeError:
        # Only SQL has columns of other types, such as lists of records.
        kind = ShapeKind.LIST if pa.types.is_list(field.type) else ShapeKind.VALUE
        return ColumnType(name=field.name, kind=kind, type=f"{field.type}{mark}")
    kind = ShapeKind.LIST if isinstance(type_, ListOf) else ShapeKind.VALUE
    return ColumnType(name=field.name, kind=kind, type=f"{type_}{mark}")
