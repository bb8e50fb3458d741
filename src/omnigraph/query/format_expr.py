"""Bound expressions as text, in the words of the query language; for plans and messages."""

from datetime import date, datetime
from typing import assert_never

from omnigraph.lang.print_values import print_float, quote
from omnigraph.query.expr import (
    Aggregate,
    And,
    Bm25,
    Compare,
    Const,
    Contains,
    Entity,
    Expr,
    Identity,
    In,
    IsNull,
    Nearest,
    Not,
    Now,
    Or,
    ParamRef,
    Prop,
    Rrf,
    StartsWith,
    TextMatch,
)
from omnigraph.query.mutation_plan import ROW
from omnigraph.schema.catalog import Value
from omnigraph.schema.temporal import date_text, datetime_text

_SHOWN_ITEMS = 8
_SHOWN_CHARACTERS = 80
_ENDS = {"src": "from", "dst": "to", "id": "@id"}


def expr_text(expr: Expr) -> str:
    """The expression as it could be written; long lists and texts are clipped. Equal expressions have equal texts."""
    match expr:
        case Const():
            return value_text(expr.value)
        case ParamRef():
            return f"${expr.name}"
        case Now():
            return "now()"
        case Prop():
            return expr.name if expr.variable == ROW else f"${expr.variable}.{expr.name}"
        case Identity():
            return _ENDS[expr.part.value] if expr.variable == ROW else f"${expr.variable}.@{expr.part.value}"
        case Entity():
            return f"${expr.variable}"
        case Aggregate():
            inside = "*" if expr.argument is None else expr_text(expr.argument)
            return f"{expr.fold.value}({'distinct ' if expr.distinct else ''}{inside})"
        case Nearest():
            return _call("nearest", expr.prop, expr.query)
        case Bm25():
            return _call("bm25", expr.prop, expr.query)
        case Rrf():
            return _call("rrf", expr.first, expr.second, expr.k)
        case TextMatch():
            edits = () if expr.edits is None else (expr.edits,)
            return _call(expr.mode.value, expr.prop, expr.query, *edits)
        case Compare() | In() | Contains() | StartsWith() | IsNull() | Not() | And() | Or():
            return _predicate_text(expr)
        case _:
            assert_never(expr)


def _predicate_text(expr: Compare | In | Contains | StartsWith | IsNull | Not | And | Or) -> str:
    match expr:
        case Compare():
            return f"{expr_text(expr.left)} {expr.op.value} {expr_text(expr.right)}"
        case In():
            return f"{expr_text(expr.element)} in {expr_text(expr.collection)}"
        case Contains():
            return f"{expr_text(expr.text)} contains {expr_text(expr.part)}"
        case StartsWith():
            return f"{expr_text(expr.text)} starts_with {expr_text(expr.prefix)}"
        case IsNull():
            return f"{expr_text(expr.operand)} is {'not ' if expr.negated else ''}null"
        case Not():
            return f"not {_inside(expr.term)}"
        case And():
            return " and ".join(_inside(term) if isinstance(term, Or | And) else expr_text(term) for term in expr.terms)
        case Or():
            return " or ".join(_inside(term) if isinstance(term, Or) else expr_text(term) for term in expr.terms)
        case _:
            assert_never(expr)


def _inside(expr: Expr) -> str:
    return (
        f"({expr_text(expr)})" if isinstance(expr, Compare | In | Contains | StartsWith | And | Or) else expr_text(expr)
    )


def _call(name: str, *arguments: Expr) -> str:
    return f"{name}({', '.join(map(expr_text, arguments))})"


def value_text(value: Value) -> str:
    """A typed value as a literal of the language."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return print_float(value)
        case str():
            return quote(value if len(value) <= _SHOWN_CHARACTERS else f"{value[: _SHOWN_CHARACTERS - 1]}…")
        case datetime():
            return f'datetime("{datetime_text(value)}")'
        case date():
            return f'date("{date_text(value)}")'
        case bytes():
            return f"<{len(value)} bytes>"
        case list() | tuple():
            return _list_text(value)
        case _:
            assert_never(value)


def _list_text(values: list[Value] | tuple[Value, ...]) -> str:
    shown = [value_text(value) for value in values[:_SHOWN_ITEMS]]
    if len(values) > _SHOWN_ITEMS:
        shown.append(f"… {len(values) - _SHOWN_ITEMS} more")
    return f"[{', '.join(shown)}]"
