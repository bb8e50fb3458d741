"""Types and tables in Arrow's terms, and back. The only module of this room that knows Arrow.

A field says in its metadata what Arrow can't: the identity of its property, that it is a Blob or an enum, and of `id`
that no key gives it.
"""

from typing import assert_never

import pyarrow as pa

from omnigraph.errors import Kind, OmnigraphError
from omnigraph.schema.catalog import UNASSIGNED, EdgeType, NodeType, Property
from omnigraph.schema.types import EnumOf, ListOf, Scalar, ValueType, VectorOf

TYPE_KEY = b"omnigraph:type"
IDENTITY_KEY = b"omnigraph:identity"
GENERATED_ID_KEY = b"omnigraph:made"
"""On `id`, when most ids are made here and not by whoever writes the rows."""

ID, SRC, DST = "id", "src", "dst"

_SCALARS: dict[Scalar, pa.DataType] = {
    Scalar.STRING: pa.utf8(),
    Scalar.BLOB: pa.large_binary(),
    Scalar.BOOL: pa.bool_(),
    Scalar.I32: pa.int32(),
    Scalar.I64: pa.int64(),
    Scalar.U32: pa.uint32(),
    Scalar.U64: pa.uint64(),
    Scalar.F32: pa.float32(),
    Scalar.F64: pa.float64(),
    Scalar.DATE: pa.date32(),
    Scalar.DATETIME: pa.timestamp("us", tz="UTC"),
}
_SCALARS_BY_ARROW_TYPE = {arrow: scalar for scalar, arrow in _SCALARS.items() if scalar is not Scalar.BLOB}


class ArrowTypeError(OmnigraphError):
    """A column of an Arrow table has a type that no property can have."""

    kind = Kind.INVALID
    code = "arrow_type"

    def __init__(self, column: str, type: str) -> None:
        super().__init__(column, type)
        self.column, self.type = column, type

    def __str__(self) -> str:
        return f"the column `{self.column}` has the Arrow type {self.type}, which is not the form of any property type"


def to_arrow_type(type_: ValueType) -> pa.DataType:
    """The Arrow type that holds values of a type."""
    match type_:
        case Scalar():
            return _SCALARS[type_]
        case EnumOf():
            return pa.utf8()
        case ListOf(element=element):
            return pa.list_(_SCALARS[element])
        case VectorOf(size=size):
            return pa.list_(pa.float32(), size)
        case _:
            assert_never(type_)


def build_arrow_field(p: Property) -> pa.Field:
    """The field of a property's column, marked so that `type_from_arrow` and `identity_from_arrow` read it back."""
    metadata: dict[bytes, bytes] = {}
    if p.identity != UNASSIGNED:
        metadata[IDENTITY_KEY] = str(p.identity).encode()
    if p.type is Scalar.BLOB or isinstance(p.type, EnumOf):
        metadata[TYPE_KEY] = str(p.type).encode()
    return pa.field(p.name, to_arrow_type(p.type), nullable=p.nullable, metadata=metadata or None)


def build_arrow_schema(type_: NodeType | EdgeType) -> pa.Schema:
    """The schema of a type's table: `id` (for an edge also `src`, `dst`), never null, then its properties in order."""
    own = (ID,) if isinstance(type_, NodeType) else (ID, SRC, DST)
    made = None if type_.key else {GENERATED_ID_KEY: b"true"}
    ids = [pa.field(name, pa.utf8(), nullable=False, metadata=made if name == ID else None) for name in own]
    return pa.schema([*ids, *(build_arrow_field(p) for p in type_.properties)])


def type_from_arrow(field: pa.Field) -> ValueType:
    """The type of a property's column; `ArrowTypeError` for a column that no property has."""
    marked = (field.metadata or {}).get(TYPE_KEY, b"").decode()
    arrow = field.type
    if marked == Scalar.BLOB.value and arrow == pa.large_binary():
        return Scalar.BLOB
    if marked.startswith("enum(") and arrow == pa.utf8():
        return EnumOf(tuple(marked.removeprefix("enum(").removesuffix(")").split(", ")))
    if not marked and arrow in _SCALARS_BY_ARROW_TYPE:
        return _SCALARS_BY_ARROW_TYPE[arrow]
    if not marked and pa.types.is_list(arrow) and arrow.value_type in _SCALARS_BY_ARROW_TYPE:
        return ListOf(_SCALARS_BY_ARROW_TYPE[arrow.value_type])
    if not marked and pa.types.is_fixed_size_list(arrow) and arrow.value_type == pa.float32():
        return VectorOf(arrow.list_size)
    raise ArrowTypeError(field.name, f"{arrow}" + (f" ({marked})" if marked else ""))


def identity_from_arrow(field: pa.Field) -> int:
    """The identity of the property that a column holds, or `UNASSIGNED`."""
    return int((field.metadata or {}).get(IDENTITY_KEY, UNASSIGNED))
