"""Bind the values that an insert or update stores: literals, parameters and expressions that fit the property."""

from dataclasses import dataclass

from omnigraph.lang import query_ast as ast
from omnigraph.lang.expression_tree import walk
from omnigraph.lang.literals import BoolLiteral, FloatLiteral, IntLiteral, Literal, NullLiteral, StringLiteral
from omnigraph.lang.printer import format_expr as print_expr
from omnigraph.lang.printer import print_literal
from omnigraph.query.bind_expr import ExprBinder
from omnigraph.query.bind_literal import clip_text
from omnigraph.query.expr import Const, EdgeRef, Expr, ExprType, NodeRef, Now, ParamRef, RecordsParam, ShapedType
from omnigraph.query.functions import CallContext, resolve_function
from omnigraph.query.mutation_plan import StoredValue
from omnigraph.query.scope import Params
from omnigraph.schema.findings import DiagnosticCollector
from omnigraph.schema.types import INTEGER_RANGES, EnumOf, ListOf, Scalar, ValueType
from omnigraph.schema.values import InvalidValue, describe_type, from_literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """The target of a stored value: a property, or an end of an edge, whose String `meaning` explains in help lines."""

    owner: str
    name: str
    type: ValueType
    nullable: bool = False
    meaning: str | None = None

    def __str__(self) -> str:
        return f"`{self.name}` of `{self.owner}`"


def can_store(column: ValueType, param: ValueType) -> bool:
    """Return whether a column can store every value of a parameter's type without conversion loss.

    An enum accepts a String, because parameters have no enum types; the value is checked when the query runs.
    """
    if isinstance(column, EnumOf) and param is Scalar.STRING:
        return True
    if isinstance(column, Scalar) and isinstance(param, Scalar) and param in INTEGER_RANGES:
        low, high = INTEGER_RANGES[param]
        if column in INTEGER_RANGES:
            return INTEGER_RANGES[column][0] <= low and high <= INTEGER_RANGES[column][1]
        # An F64 has a mantissa of 53 bits: it stores every 32-bit integer exactly, but not every 64-bit one.
        return column is Scalar.F64 and high <= 2**53
    return column == param or (column is Scalar.F64 and param is Scalar.F32)


def bind_property_value(
    node: ast.Expr, slot: Slot, params: Params, findings: DiagnosticCollector, binder: ExprBinder, *, reads_row: bool
) -> Expr | None:
    """Bind the value of a property, which may be an expression; with `reads_row`, over the row as it was before.

    None if it does not fit (T3), is not a value (T14) or is not declared (T6), all reported.
    """
    if isinstance(node, ast.LiteralExpr | ast.Variable) or is_simple_value(node, params):
        return bind_stored_value(node, slot, params, findings)
    names = [part for part in walk(node) if isinstance(part, ast.BareName | ast.PropertyRef)]
    is_slip = isinstance(node, ast.BareName) and node.name.text in params and not reads_row
    if is_slip or (names and not reads_row):
        return bind_stored_value(node, slot, params, findings)
    value = binder.bind_value(node, CallContext.STORED)
    if value is None:
        return None
    return value if check_fits(value, node, slot, findings) else None


def check_fits(value: Expr, node: ast.Expr, slot: Slot, findings: DiagnosticCollector) -> bool:
    """Check that a calculated value has a type that its target can store (T3); return whether it has."""
    type_ = value.type
    if not isinstance(type_, ShapedType) and can_calculate(slot.type, type_):
        return True
    message = f"{slot} is of type {slot.type}, but `{clip_text(print_expr(node))}` is of type {type_}"
    findings.add_error("T3", node.span, message, slot.meaning or _build_conversion_help(slot.type, value.type))
    return False


def can_calculate(column: ValueType, value: ValueType) -> bool:
    """Return whether a column can store a calculated value; whether a number is in range is checked when it runs."""
    # Integers are calculated in I64, so a smaller column would otherwise accept no calculation at all.
    if isinstance(column, Scalar) and isinstance(value, Scalar) and column.is_numeric and value.is_numeric:
        return column.is_float or value.is_integer
    return can_store(column, value)


def is_simple_value(node: ast.Expr, params: Params) -> bool:
    """Return whether a value is known before a row is read: a literal, a parameter or `now()`."""
    match node:
        case ast.LiteralExpr():
            return True
        case ast.Variable(name=name):
            return name in params
        case ast.Call(function=function):
            return function.text == "now"
        case _:
            return False


def _build_conversion_help(type_: ValueType, found: ExprType) -> str | None:
    if isinstance(found, NodeRef | EdgeRef):
        return "name a property of it"
    functions = {
        Scalar.STRING: "to_string",
        Scalar.DATE: "to_date",
        Scalar.DATETIME: "to_datetime",
        Scalar.F32: "to_float",
        Scalar.F64: "to_float",
    }
    function = functions.get(type_) if isinstance(type_, Scalar) else None
    if isinstance(type_, Scalar) and type_.is_integer:
        function = "to_int"
    return None if function is None else f"convert it with `{function}(…)`"


def bind_stored_value(node: ast.Expr, slot: Slot, params: Params, findings: DiagnosticCollector) -> StoredValue | None:
    """Bind a literal, a parameter or `now()`; None if it does not fit (T3), is none (T14) or is not declared (T6)."""
    match node:
        case ast.LiteralExpr():
            return _bind_literal(node.value, slot, findings)
        case ast.Variable():
            return _bind_param(node, slot, params, findings)
        case ast.Call(function=function) if function.text == "now":
            return _bind_now(node, slot, findings)
        case _:
            message = f"{slot} can't be set to `{clip_text(print_expr(node))}`"
            findings.add_error("T14", node.span, message, _build_value_help(node, params))
            return None


def _bind_literal(literal: Literal, slot: Slot, findings: DiagnosticCollector) -> Const | None:
    value = from_literal(slot.type, literal, nullable=slot.nullable)
    if not isinstance(value, InvalidValue):
        return Const(value=value, type=slot.type, origin=literal.span)
    if isinstance(literal, NullLiteral):
        findings.add_error("T3", literal.span, f"{slot} is required and can't be null", slot.meaning)
    elif isinstance(slot.type, EnumOf) and isinstance(literal, StringLiteral):
        message = f'invalid enum value "{clip_text(literal.value)}" for {slot}'
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
    # Declared with an invalid type, which is already reported.
    if param is None:
        return None
    if isinstance(param, RecordsParam):
        message = f"{slot} is of type {slot.type}, but `${param.name}` is a list of records"
        help_ = f"write one row for each record: `match {{ each $r in ${param.name} }}` before the statement"
        findings.add_error("T3", node.span, message, help_)
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
    # Parameters have no enum types.
    return "String" if isinstance(type_, EnumOf) else str(type_)


def _build_literal_help(literal: Literal, type_: ValueType) -> str | None:
    text = clip_text(print_literal(literal))
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
    # A bare name is probably a parameter without its `$`, or a text without its quotes.
    usual = "an insert stores literals, parameters and what is calculated from them"
    if isinstance(node, ast.BareName) and not node.is_meta:
        name = node.name.text
        return f"did you mean `${name}`?" if name in params else f'{usual}; write a text in quotes: `"{name}"`'
    if isinstance(node, ast.PropertyRef) and isinstance(params.resolve(node.variable), RecordsParam):
        rows = f"match {{ each $r in ${node.variable.name} }}"
        return f"make a row of each record, `{rows}`, and write `$r.{node.name.text}`"
    return usual
