"""Values that an insert or update stores: a literal, a parameter or `now()`, in a type that the property holds."""

from dataclasses import dataclass
from typing import assert_never

from omnigraph.lang import query_ast as ast
from omnigraph.lang.literals import BoolLiteral, FloatLiteral, IntLiteral, Literal, NullLiteral, StringLiteral
from omnigraph.lang.printer import format_expr as print_expr
from omnigraph.lang.printer import print_literal
from omnigraph.query.expr import Const, Now, ParamRef
from omnigraph.query.functions import CallContext, resolve_function
from omnigraph.query.mutation_plan import StoredValue
from omnigraph.query.scope import Params
from omnigraph.schema.findings import DiagnosticCollector
from omnigraph.schema.types import INTEGER_RANGES, EnumOf, ListOf, Scalar, ValueType
from omnigraph.schema.values import InvalidValue, describe_type, from_literal

_MAX_TEXT_LENGTH = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """What a value is stored in: a property, or an end of an edge (`meaning` then says what a String there is)."""

    owner: str
    name: str
    type: ValueType
    nullable: bool = False
    meaning: str | None = None

    def __str__(self) -> str:
        return f"`{self.name}` of `{self.owner}`"


def can_store(column: ValueType, given: ValueType) -> bool:
    """Whether a column takes every value of another type as it is.

    An enum takes a String, for parameters have no enum types: its values are checked when they are given.
    """
    if isinstance(column, EnumOf) and given is Scalar.STRING:
        return True
    if isinstance(column, Scalar) and isinstance(given, Scalar) and given in INTEGER_RANGES:
        low, high = INTEGER_RANGES[given]
        if column in INTEGER_RANGES:
            return INTEGER_RANGES[column][0] <= low and high <= INTEGER_RANGES[column][1]
        return column is Scalar.F64 and high <= 2**53
    return column == given or (column is Scalar.F64 and given is Scalar.F32)


def bind_stored_value(node: ast.Expr, slot: Slot, params: Params, findings: DiagnosticCollector) -> StoredValue | None:
    """The typed value, or None when it does not fit (T3), is no value (T14) or is not declared (T6); all reported."""
    match node:
        case ast.LiteralExpr():
            return _bind_literal(node.value, slot, findings)
        case ast.Variable():
            return _bind_param(node, slot, params, findings)
        case ast.Call(function=function) if function.text == "now":
            return _bind_now(node, slot, findings)
        case ast.Call() | ast.PropertyRef() | ast.BareName() | ast.Star():
            message = f"{slot} can't be set to `{_clip_expr(node)}`"
            findings.add_error("T14", node.span, message, _build_value_help(node, params))
            return None
        case _:
            assert_never(node)


def _bind_literal(literal: Literal, slot: Slot, findings: DiagnosticCollector) -> Const | None:
    value = from_literal(slot.type, literal, nullable=slot.nullable)
    if not isinstance(value, InvalidValue):
        return Const(value=value, type=slot.type, origin=literal.span)
    if isinstance(literal, NullLiteral):
        findings.add_error("T3", literal.span, f"{slot} is required and can't be null", slot.meaning)
    elif isinstance(slot.type, EnumOf) and isinstance(literal, StringLiteral):
        message = f'invalid enum value "{_clip_text(literal.value)}" for {slot}'
        near = findings.suggest_closest(literal.value, slot.type.values)
        findings.add_error("T3", literal.span, message, near or f"write {describe_type(slot.type)}")
    else:
        message = f"{slot} is of type {slot.type}: {value.reason}"
        findings.add_error("T3", literal.span, message, slot.meaning or _build_literal_help(literal, slot.type))
    return None


def _bind_param(node: ast.Variable, slot: Slot, params: Params, findings: DiagnosticCollector) -> ParamRef | None:
    if node.name not in params:
        near = findings.suggest_closest(f"${node.name}", (f"${name}" for name in params.names))
        help_ = near or f"declare it: `${node.name}: {_format_param_type(slot.type)}`"
        findings.add_error("T6", node.span, f"`${node.name}` is not a declared parameter", help_)
        return None
    param = params.resolve(node)
    if param is None:
        return None
    if not can_store(slot.type, param.type):
        message = f"{slot} is of type {slot.type}, but `${param.name}` is of type {param.type}"
        help_ = f"declare it `${param.name}: {_format_param_type(slot.type)}`"
        findings.add_error("T3", node.span, message, help_)
        return None
    if param.nullable and not slot.nullable:
        message = f"{slot} is required, but `${param.name}` can be null"
        findings.add_error("T3", node.span, message, f"declare it `${param.name}: {param.type}`, without `?`")
        return None
    return param


def _bind_now(call: ast.Call, slot: Slot, findings: DiagnosticCollector) -> Now | None:
    if resolve_function(call, CallContext.STORED, findings) is None:
        return None
    if slot.type is not Scalar.DATETIME:
        message = f"{slot} is of type {slot.type}, but `now()` is a DateTime"
        findings.add_error("T3", call.span, message, slot.meaning)
        return None
    return Now(origin=call.span)


def _format_param_type(type_: ValueType) -> str:
    return "String" if isinstance(type_, EnumOf) else str(type_)


def _build_literal_help(literal: Literal, type_: ValueType) -> str | None:
    text = _clip_text(print_literal(literal))
    match literal, type_:
        case StringLiteral(), Scalar.DATE:
            return f"write `date({text})`"
        case StringLiteral(), Scalar.DATETIME:
            return f"write `datetime({text})`"
        case StringLiteral() | IntLiteral() | FloatLiteral() | BoolLiteral(), ListOf():
            return f"write `[{text}]`"
        case _:
            return None


def _build_value_help(node: ast.Expr, params: Params) -> str:
    usual = "a stored value is a literal, a parameter or `now()`"
    if isinstance(node, ast.BareName) and not node.is_meta:
        name = node.name.text
        return f"did you mean `${name}`?" if name in params else f'{usual}; a text stands in quotes: `"{name}"`'
    return usual


def _clip_expr(node: ast.Expr) -> str:
    return _clip_text(print_expr(node))


def _clip_text(text: str) -> str:
    return text if len(text) <= _MAX_TEXT_LENGTH else f"{text[: _MAX_TEXT_LENGTH - 1]}…"
