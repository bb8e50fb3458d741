"""Build JSON Schemas for agents: of query parameters, result rows, and the arguments and results of tools."""

from functools import cache
from typing import Any, assert_never

import msgspec
import pyarrow as pa

from omnigraph.json_struct import JsonStruct
from omnigraph.query.expr import ArrayOf, Parameter, RecordOf, ShapedType
from omnigraph.schema.arrow import type_from_arrow
from omnigraph.schema.types import INTEGER_RANGES, EnumOf, ListOf, Scalar, ValueType, VectorOf
from omnigraph.schema.values import describe_type
from omnigraph.server.http.answer_types import define_answer

JsonSchema = dict[str, Any]

# The largest integer that every JSON parser reads exactly: many hold numbers as 64-bit floats.
_MAX_SAFE_INTEGER = 2**53 - 1


def build_parameter_schema(parameter: Parameter) -> JsonSchema:
    """Build the schema of a parameter's value, with a description of what its type accepts."""
    if isinstance(parameter.type, ArrayOf):
        records = _build_records_schema(parameter.type)
        schema = _allow_null(records, is_nullable=parameter.nullable)
        return {**schema, "description": f"{parameter.type}: a list of records"}
    schema = build_value_schema(parameter.type, is_nullable=parameter.nullable)
    return {**schema, "description": f"{parameter.type}: {describe_type(parameter.type)}"}


def _build_records_schema(type_: ArrayOf) -> JsonSchema:
    record = type_.element
    # A parameter that is a list of anything else has another type.
    assert isinstance(record, RecordOf)  # noqa: S101
    properties = {
        name: build_value_schema(field_type, is_nullable=name not in record.required)
        for name, field_type in record.fields
        if not isinstance(field_type, ShapedType)
    }
    items = {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name in record.required],
        "additionalProperties": False,
    }
    return {"type": "array", "items": items}


def build_value_schema(type_: ValueType, *, is_nullable: bool) -> JsonSchema:
    """Build the schema of a value's JSON form, which is the same for parameters and results."""
    schema = _build_non_null_schema(type_)
    if not is_nullable:
        return schema
    # With "enum", null would have to be one of its values too.
    if isinstance(schema.get("type"), str) and "enum" not in schema:
        return {**schema, "type": [schema["type"], "null"]}
    return {"anyOf": [schema, {"type": "null"}]}


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
            # A larger integer is a string of digits.
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
    """Build the schema of a row, or of a node or edge in it; a node or edge may have further properties."""
    fields = list(schema)
    return {
        "type": "object",
        "properties": {field.name: _build_field_schema(field) for field in fields},
        "required": [field.name for field in fields],
        "additionalProperties": isinstance(schema, pa.StructType),
    }


def is_as_declared(actual: pa.Schema | pa.StructType, declared: pa.Schema | pa.StructType) -> bool:
    """Return whether rows with the columns `actual` conform to `build_row_schema(declared)`."""
    for field in declared:
        position = actual.get_field_index(field.name)
        if position < 0:
            return False
        actual_field = actual.field(position)
        is_same = _is_type_as_declared(actual_field, field)
        if not is_same or (actual_field.nullable and not field.nullable):
            return False
    # A node or edge may have gained properties, a row may have no further column.
    return isinstance(actual, pa.StructType) or len(actual) == len(declared)


def _is_type_as_declared(actual: pa.Field, declared: pa.Field) -> bool:
    if pa.types.is_struct(declared.type) and pa.types.is_struct(actual.type):
        return is_as_declared(actual.type, declared.type)
    if pa.types.is_list(declared.type) and pa.types.is_list(actual.type):
        return _is_type_as_declared(actual.type.value_field, declared.type.value_field)
    return bool(actual.type.equals(declared.type) and actual.metadata == declared.metadata)


def _build_field_schema(field: pa.Field) -> JsonSchema:
    if pa.types.is_struct(field.type):
        return _allow_null(build_row_schema(field.type), is_nullable=field.nullable)
    if pa.types.is_list(field.type) and pa.types.is_nested(field.type.value_type):
        items = _build_field_schema(field.type.value_field)
        return _allow_null({"type": "array", "items": items}, is_nullable=field.nullable)
    type_ = type_from_arrow(field)
    # The sum of floats may be infinite, which JSON can't express.
    is_float = isinstance(type_, Scalar) and type_.is_float
    return build_value_schema(type_, is_nullable=field.nullable or is_float)


def _allow_null(schema: JsonSchema, *, is_nullable: bool) -> JsonSchema:
    return {**schema, "type": [schema["type"], "null"]} if is_nullable else schema


@cache
def build_struct_schema(type_: type[msgspec.Struct]) -> JsonSchema:
    """Build the schema of a result, or of another struct without nested structs, kept short because models read it.

    The result is cached and shared: callers must not change it.
    """
    answer = define_answer(type_) if issubclass(type_, JsonStruct) else type_
    _, components = msgspec.json.schema_components([answer], ref_template="{name}")
    schema = components[answer.__name__]
    return {
        "type": "object",
        "properties": {name: _simplify(field_schema) for name, field_schema in schema["properties"].items()},
        "required": schema.get("required", []),
        "additionalProperties": schema.get("additionalProperties", True),
    }


def _simplify(schema: JsonSchema) -> JsonSchema:
    # Null, 0 and other empty defaults are left out, to keep the schema short.
    simplified = {name: value for name, value in schema.items() if name != "default" or value}
    variants = simplified.get("anyOf")
    if not isinstance(variants, list) or len(variants) != 2:
        return simplified
    variant, other = variants
    if other == {"type": "null"} and "enum" not in variant:
        del simplified["anyOf"]
        return {**simplified, **variant, "type": [variant["type"], "null"]}
    return simplified
