"""The functions of dates and instants."""

from datetime import date, datetime
from typing import TYPE_CHECKING

from omnigraph.lang.cypher import tree
from omnigraph.query.cypher import values
from omnigraph.query.expr import (
    Const,
    Expr,
    Now,
)
from omnigraph.query.scalar_functions import ScalarFunction
from omnigraph.schema.types import Scalar
from omnigraph.schema.values import parse_date, parse_datetime

if TYPE_CHECKING:
    from omnigraph.query.cypher.expressions import ExpressionBinder

_F = ScalarFunction


def bind_date(binder: "ExpressionBinder", call: tree.Call, arguments: list[Expr]) -> Expr:
    """Bind `date`: today, or a Date from a text, a map or an instant."""
    if not arguments:
        return values.compute(_F.TODAY, (), Scalar.DATE, call.span, "", can_fail=False)
    return _bind_moment(binder, call, arguments[0], Scalar.DATE)


def bind_datetime(binder: "ExpressionBinder", call: tree.Call, arguments: list[Expr]) -> Expr:
    """Bind `datetime`: now, or a DateTime from a text."""
    if not arguments:
        return Now(origin=call.span)
    return _bind_moment(binder, call, arguments[0], Scalar.DATETIME)


def _bind_moment(binder: "ExpressionBinder", call: tree.Call, value: Expr, type_: Scalar) -> Expr:
    if value.type is type_:
        return value
    if isinstance(value, Const) and isinstance(value.value, str):
        parsed = parse_date(value.value) if type_ is Scalar.DATE else parse_datetime(value.value)
        if not isinstance(parsed, date | datetime):
            binder.refuse_type(
                call.span,
                f"{binder.show(call.arguments[0])} is no {type_}",
                "write it as `2026-01-31` or `2026-01-31T09:30:00Z`",
            )
        return Const(value=parsed, type=type_, origin=call.span)
    if values.is_text_value(value) or value.type in (Scalar.DATE, Scalar.DATETIME):
        function = _F.TO_DATE if type_ is Scalar.DATE else _F.TO_DATETIME
        return binder.compute(function, (value,), type_, call.span, can_fail=True)
    help_ = "give its text: `date('2026-01-31')`"
    found = values.describe(value.type)
    return binder.refuse_form(call.span, f"`{call.function.text}` of {found} is not supported", help_)
