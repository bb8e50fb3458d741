"""Convert property types and table schemas to Arrow and back. The only module of this package that uses Arrow.

Field metadata holds what Arrow types can't express: the identity of a property, that it is a Blob or an enum, and for
`id` that ids are generated instead of derived from a key.
"""

from typing import assert_never

import pyarrow as pa

from omnigraph.errors import Kind, OmnigraphError
from omnigraph.schema.catalog import UNASSIGNED, EdgeType, NodeType, Property
from omnigraph.schema.types import EnumOf, ListOf, Scalar, ValueType, VectorOf

TYPE_KEY = b"omnigraph:type"
IDENTITY_KEY = b"omnigraph:identity"
# Set on `id` if the type has no key, so that most ids are generated; storage compresses such a column with LZ4.
GENERATED_ID_KEY = b"omnigraph:made"

ID, SRC, DST = "id", "src", "dst"
# The names of these columns in records, mutations and messages.
END_NAMES = {SRC: "from", DST: "to"}

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
# Without Blob: a binary column counts as one only if its metadata says so.
_SCALARS_BY_ARROW_TYPE = {arrow: scalar for scalar, arrow in _SCALARS.items() if scalar is not Scalar.BLOB}


class ArrowTypeError(OmnigraphError):
    """A column of an Arrow table has a type that no property can have."""

    kind = Kind.INVALID
    code = "arrow_type"
    column: str
    type: str
    message = "the column `{column}` has the Arrow type {type}, which is not the form of any property type"


def to_arrow_type(type_: ValueType) -> pa.DataType:
    """Return the Arrow type that stores values of a type."""
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
    """Build the field of a property's column; `type_from_arrow` and `identity_from_arrow` read it back."""
    metadata: dict[bytes, bytes] = {}
    if p.identity != UNASSIGNED:
        metadata[IDENTITY_KEY] = str(p.identity).encode()
    # An enum is stored as utf8 and a Blob as binary: only the metadata tells them from other text and bytes.
    if p.type is Scalar.BLOB or isinstance(p.type, EnumOf):
        metadata[TYPE_KEY] = str(p.type).encode()
    return pa.field(p.name, to_arrow_type(p.type), nullable=p.nullable, metadata=metadata or None)


def build_arrow_schema(type_: NodeType | EdgeType) -> pa.Schema:
    """Build the schema of a type's table: non-null `id` (an edge: also `src`, `dst`), then its properties in order."""
    names = (ID,) if isinstance(type_, NodeType) else (ID, SRC, DST)
    id_metadata = None if type_.key else {GENERATED_ID_KEY: b"true"}
    ids = [pa.field(name, pa.utf8(), nullable=False, metadata=id_metadata if name == ID else None) for name in names]
    return pa.schema([*ids, *(build_arrow_field(p) for p in type_.properties)])


def type_from_arrow(field: pa.Field) -> ValueType:
    """Return the property type of a column.

    Raises:
        ArrowTypeError: No property type is stored as such a column.
    """
    type_name = (field.metadata or {}).get(TYPE_KEY, b"").decode()
    arrow = field.type
    if type_name == Scalar.BLOB.value and arrow == pa.large_binary():
        return Scalar.BLOB
    if type_name.startswith("enum(") and arrow == pa.utf8():
        return EnumOf(tuple(type_name.removeprefix("enum(").removesuffix(")").split(", ")))
    if not type_name and arrow in _SCALARS_BY_ARROW_TYPE:
        return _SCALARS_BY_ARROW_TYPE[arrow]
    if not type_name and pa.types.is_list(arrow) and arrow.value_type in _SCALARS_BY_ARROW_TYPE:
        return ListOf(_SCALARS_BY_ARROW_TYPE[arrow.value_type])
    if not type_name and pa.types.is_fixed_size_list(arrow) and arrow.value_type == pa.float32():
        return VectorOf(arrow.list_size)
    raise ArrowTypeError(field.name, f"{arrow}" + (f" ({type_name})" if type_name else ""))


def identity_from_arrow(field: pa.Field) -> int:
    """Return the identity of the property that a column stores, or `UNASSIGNED`."""
    return int((field.metadata or {}).get(IDENTITY_KEY, UNASSIGNED))
