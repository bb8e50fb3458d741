"""The functions of dates and instants."""

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

from omnigraph.lang.cypher import tree
from omnigraph.lang.source import Span
from omnigraph.query.cypher import values
from omnigraph.query.cypher.dates import (
    DATE_PARTS,
    TIME_PARTS,
    build_date,
    build_datetime,
    parse_iso_date,
    truncate_date,
)
from omnigraph.query.expr import (
    Const,
    Expr,
    Now,
    RecordExpr,
)
from omnigraph.query.scalar_functions import TRUNC_UNITS, ScalarFunction
from omnigraph.schema.types import Scalar
from omnigraph.schema.values import format_datetime, parse_datetime

if TYPE_CHECKING:
    from omnigraph.query.cypher.expressions import ExpressionBinder

_F = ScalarFunction
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UTC_ENDS = ("Z", "+00:00", "+0000", "+00")
_UNITS = ("millennium", "century", "decade", "year", "weekYear", "quarter", "month", "week", "day")


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
        return Const(value=_parse(binder, call, value.value, type_), type=type_, origin=call.span)
    if values.is_text_value(value) or value.type in (Scalar.DATE, Scalar.DATETIME):
        function = _F.TO_DATE if type_ is Scalar.DATE else _F.TO_DATETIME
        return binder.compute(function, (value,), type_, call.span, can_fail=True)
    if isinstance(value, RecordExpr):
        return Const(value=_build(binder, call, value, type_), type=type_, origin=call.span)
    help_ = "give its text: `date('2026-01-31')`"
    found = values.describe(value.type)
    return binder.refuse_form(call.span, f"`{call.function.text}` of {found} is not supported", help_)


def _parse(binder: "ExpressionBinder", call: tree.Call, text: str, type_: Scalar) -> date | datetime:
    parsed = parse_iso_date(text) if type_ is Scalar.DATE else parse_datetime(text)
    if isinstance(parsed, datetime) and not text.upper().endswith(_UTC_ENDS):
        help_ = f"instants are those of UTC: `{format_datetime(parsed)}`"
        binder.refuse_form(call.span, "a zone is not supported", help_)
    if not isinstance(parsed, date | datetime):
        shown = binder.show(call.arguments[0])
        binder.refuse_type(call.span, f"{shown} is no {type_}", "write it as `2026-01-31` or `2026-01-31T09:30:00Z`")
    return parsed


def _build(binder: "ExpressionBinder", call: tree.Call, value: RecordExpr, type_: Scalar) -> date | datetime:
    """Return the moment of a map of its parts."""
    items = dict(value.items)
    base = items.pop("date", None) if type_ is Scalar.DATE else None
    allowed = DATE_PARTS if type_ is Scalar.DATE else DATE_PARTS.union(TIME_PARTS)
    unknown = next((name for name in items if name not in allowed), None)
    if unknown is not None:
        help_ = f"a {type_} has {', '.join(sorted(allowed))}"
        binder.refuse_form(call.span, f"`{unknown}` as a part of a {type_} is not supported", help_)
    constants = {name: part.value for name, part in items.items() if isinstance(part, Const)}
    parts = {name: number for name, number in constants.items() if isinstance(number, int)}
    is_known = base is None or (isinstance(base, Const) and isinstance(base.value, date))
    if len(parts) < len(items) or not is_known:
        help_ = "give its text: `date('2026-01-31')`"
        binder.refuse_form(call.span, "parts of a moment that are no numbers in the text are not supported", help_)
    day = base.value if isinstance(base, Const) and isinstance(base.value, date) else None
    built = build_date(parts, day) if type_ is Scalar.DATE else build_datetime(parts)
    if built is None:
        binder.refuse_type(
            call.span, f"{binder.show(call.arguments[0])} is no {type_}", "as in `{year: 2026, month: 1}`"
        )
    return built


def bind_date_truncate(binder: "ExpressionBinder", call: tree.Call, arguments: list[Expr]) -> Expr:
    """Bind `date.truncate`: the first day of a unit, with other parts if a map gives them."""
    unit = arguments[0].value if isinstance(arguments[0], Const) else None
    help_ = "the unit is a text: `date.truncate('month', n.born)`"
    if not isinstance(unit, str) or unit not in _UNITS:
        binder.refuse_type(call.arguments[0].span, f"a unit is one of {', '.join(_UNITS)}", help_)
    day = arguments[1]
    if day.type not in (Scalar.DATE, Scalar.DATETIME):
        binder.refuse_type(call.arguments[1].span, f"this needs a Date, but it is {values.describe(day.type)}")
    if isinstance(day, Const) and isinstance(day.value, date):
        plain = day.value.date() if isinstance(day.value, datetime) else day.value
        first = truncate_date(unit, plain)
        parts = _read_parts(binder, call, arguments)
        built = first if first is None or not parts else build_date(parts, first)
        if built is None:
            binder.refuse_type(call.span, f"{binder.show(call.arguments[1])} has no such part")
        return Const(value=built, type=Scalar.DATE, origin=call.span)
    if len(arguments) > 2 or unit not in TRUNC_UNITS:
        help_ = f"truncate to {', '.join(TRUNC_UNITS[:5])}"
        binder.refuse_form(call.span, f"`date.truncate` to `{unit}` of a property is not supported", help_)
    if day.type is Scalar.DATETIME:
        day = binder.compute(_F.TO_DATE, (day,), Scalar.DATE, call.span, can_fail=False)
    return binder.compute(_F.TRUNC, (day, arguments[0]), Scalar.DATE, call.span, can_fail=False)


def _read_parts(binder: "ExpressionBinder", call: tree.Call, arguments: list[Expr]) -> dict[str, int]:
    if len(arguments) < 3:
        return {}
    items = dict(arguments[2].items) if isinstance(arguments[2], RecordExpr) else None
    parts = {name: each.value for name, each in (items or {}).items() if isinstance(each, Const)}
    numbers = {name: number for name, number in parts.items() if isinstance(number, int)}
    if items is None or len(numbers) < len(items):
        binder.refuse_type(call.arguments[2].span, "the parts are a map of whole numbers: `{day: 2}`")
    return numbers


def read_component(binder: "ExpressionBinder", moment: Expr, name: str, span: Span) -> Expr | None:
    """Return a component that is calculated from the parts of a moment; None if there is none of this name."""

    def compute(function: ScalarFunction, *arguments: Expr, type_: Scalar = Scalar.I64) -> Expr:
        return binder.compute(function, arguments, type_, span, can_fail=False)

    def count_from(unit: str) -> Expr:
        first = compute(_F.TRUNC, moment, values.build_const(unit, span), type_=Scalar(str(moment.type)))
        days = compute(_F.DAYS_BETWEEN, first, moment)
        return compute(_F.ADD, days, values.build_const(1, span))

    match name.lower():
        case "quarter":
            later = compute(_F.ADD, compute(_F.MONTH, moment), values.build_const(2, span))
            return compute(_F.QUOTIENT, later, values.build_const(3, span))
        case "ordinalday":
            return count_from("year")
        case "dayofquarter":
            return count_from("quarter")
        case "weekyear":
            # The year of the Thursday of the week.
            monday = compute(_F.TRUNC, moment, values.build_const("week", span), type_=Scalar(str(moment.type)))
            days = values.build_const("days", span)
            thursday = compute(_F.SHIFT, monday, days, values.build_const(3, span), type_=Scalar(str(moment.type)))
            return compute(_F.YEAR, thursday)
        case "epochseconds" if moment.type is Scalar.DATETIME:
            start = Const(value=_EPOCH, type=Scalar.DATETIME, origin=span)
            seconds = compute(_F.SECONDS_BETWEEN, start, moment)
            return values.convert(seconds, Scalar.I64)
        case _:
            return None
