"""JSON Schemas for agents: of parameters by their declared types, of rows by their columns, of arguments by structs."""

from functools import cache
from typing import Any, assert_never

import msgspec
import pyarrow as pa

from omnigraph.query.expr import Parameter
from omnigraph.schema.arrow import type_from_arrow
from omnigraph.schema.types import INTEGER_RANGES, EnumOf, ListOf, Scalar, ValueType, VectorOf
from omnigraph.schema.values import describe_type

JsonSchema = dict[str, Any]

_MAX_SAFE_INTEGER = 2**53 - 1
"""The largest integer that every reader of JSON takes as it is."""


def build_parameter_schema(parameter: Parameter) -> JsonSchema:
    """What may be given for a parameter: a description says in words what the type takes."""
    found = build_value_schema(parameter.type, is_nullable=parameter.nullable)
    return {**found, "description": f"{parameter.type}: {describe_type(parameter.type)}"}


def build_value_schema(type_: ValueType, *, is_nullable: bool) -> JsonSchema:
    """A value of a type in its JSON form, as it goes in and comes out."""
    found = _build_non_null_schema(type_)
    if not is_nullable:
        return found
    if isinstance(found.get("type"), str) and "enum" not in found:
        return {**found, "type": [found["type"], "null"]}
    return {"anyOf": [found, {"type": "null"}]}


def _build_non_null_schema(type_: ValueType) -> JsonSchema:
    match type_:
        case EnumOf(values=values):
            return {"type": "string", "enum": list(values)}
        case ListOf(element=element):
            return {"type": "array", "items": _build_non_null_schema(element)}
        case VectorOf(size=size):
            return {"type": "array", "items": {"type": "number"}, "minItems": size, "maxItems": size}
        case Scalar.BOOL:
            return {"type": "boolean"}
        case Scalar.I32 | Scalar.U32:
            low, high = INTEGER_RANGES[type_]
            return {"type": "integer", "minimum": low, "maximum": high}
        case Scalar.I64 | Scalar.U64:
            low = max(INTEGER_RANGES[type_][0], -_MAX_SAFE_INTEGER)
            digits = "^-?[0-9]{1,20}$" if low else "^[0-9]{1,20}$"
            # Beyond what a number of JSON holds exactly, it is a text of digits.
            return {
                "anyOf": [
                    {"type": "integer", "minimum": low, "maximum": _MAX_SAFE_INTEGER},
                    {"type": "string", "pattern": digits},
                ]
            }
        case Scalar.F32 | Scalar.F64:
            return {"type": "number"}
        case Scalar.DATE:
            return {"type": "string", "format": "date"}
        case Scalar.DATETIME:
            return {"type": "string", "format": "date-time"}
        case Scalar.STRING | Scalar.BLOB:
            return {"type": "string"}
        case _:
            assert_never(type_)


def build_row_schema(schema: pa.Schema | pa.StructType) -> JsonSchema:
    """A row, or a whole node or edge in it: an object with all of its columns. A node or edge may get more of them."""
    fields = list(schema)
    return {
        "type": "object",
        "properties": {field.name: _build_field_schema(field) for field in fields},
        "required": [field.name for field in fields],
        "additionalProperties": isinstance(schema, pa.StructType),
    }


def is_as_declared(found: pa.Schema | pa.StructType, declared: pa.Schema | pa.StructType) -> bool:
    """Whether rows with these columns are as `build_row_schema` says of those that were declared."""
    for field in declared:
        place = found.get_field_index(field.name)
        if place < 0:
            return False
        other = found.field(place)
        if pa.types.is_struct(field.type) and pa.types.is_struct(other.type):
            is_same = is_as_declared(other.type, field.type)
        else:
            is_same = other.type.equals(field.type) and other.metadata == field.metadata
        if not is_same or (other.nullable and not field.nullable):
            return False
    return isinstance(found, pa.StructType) or len(found) == len(declared)


def _build_field_schema(field: pa.Field) -> JsonSchema:
    if pa.types.is_struct(field.type):
        return build_row_schema(field.type)
    type_ = type_from_arrow(field)
    is_float = (
        isinstance(type_, Scalar) and type_.is_float
    )  # a sum may be beyond all numbers, which JSON has no word for
    return build_value_schema(type_, is_nullable=field.nullable or is_float)


@cache
def build_struct_schema(type_: type[msgspec.Struct]) -> JsonSchema:
    """The object that a struct is read from, in few words: models read it. Its fields hold no other structs.

    It is made once: whoever wants another one makes it of copies.
    """
    _, parts = msgspec.json.schema_components([type_], ref_template="{name}")
    found = parts[type_.__name__]
    return {
        "type": "object",
        "properties": {name: _simplify(one) for name, one in found["properties"].items()},
        "required": found.get("required", []),
        "additionalProperties": found.get("additionalProperties", True),
    }


def _simplify(schema: JsonSchema) -> JsonSchema:
    found = {name: value for name, value in schema.items() if name != "default" or value}
    either = found.get("anyOf")
    if isinstance(either, list) and len(either) == 2 and either[1] == {"type": "null"} and "enum" not in either[0]:
        one = found.pop("anyOf")[0]
        return {**found, **one, "type": [one["type"], "null"]}
    return found
