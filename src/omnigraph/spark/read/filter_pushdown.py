"""What Spark filters a table by, as a predicate of the query language that every such row passes.

It may let others pass: Spark asks again. So what can't be said here is left out of a conjunction.
"""

import math
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, TypeAlias

from omnigraph.clock import format_instant

JavaObject: TypeAlias = Any
"""An object of the JVM."""

MAX_VALUES = 1_000
"""Beyond so many values of an `in`, Spark compares them alone."""
_FIRST_YEAR = 1901
"""What the JVM calls a day or an instant before that depends on calendars and zones: not said here."""
_OPERATORS = {
    "EqualTo": "=",
    "EqualNullSafe": "=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "StringStartsWith": "starts_with",
    "StringContains": "contains",
}
_ID_COLUMNS = {"id": "@id", "src": "@src", "dst": "@dst"}
"""The columns of a table that are no properties, as a predicate names them."""
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def iter_conjuncts(condition: JavaObject) -> Iterator[JavaObject]:
    """The parts of a condition of Catalyst that must all hold."""
    if condition.getClass().getSimpleName() == "And":
        yield from iter_conjuncts(condition.left())
        yield from iter_conjuncts(condition.right())
    else:
        yield condition


def format_condition(jvm: JavaObject, condition: JavaObject) -> str | None:
    """The text of a condition of Catalyst; None when it can't be said."""
    companion = getattr(jvm.org.apache.spark.sql.execution.datasources, "DataSourceStrategy$")
    found = getattr(companion, "MODULE$").translateFilter(condition, False)
    return _format_filter(found.get()) if found.isDefined() else None


def join_all(texts: list[str]) -> str | None:
    """The conjunction; None of nothing, which every row passes."""
    return " and ".join(f"({text})" for text in texts) or None


def join_any(texts: list[str | None]) -> str | None:
    """The disjunction; None when one of them lets every row pass."""
    known = [text for text in texts if text is not None]
    return " or ".join(f"({text})" for text in dict.fromkeys(known)) if known and len(known) == len(texts) else None


def _format_filter(asked: JavaObject, *, is_negated: bool = False) -> str | None:
    """A filter of Spark's sources. Under a negation it must say exactly what Spark says."""
    match asked.getClass().getSimpleName():
        case "And" | "Or" as kind:
            left, right = (
                _format_filter(asked.left(), is_negated=is_negated),
                _format_filter(asked.right(), is_negated=is_negated),
            )
            return None if left is None or right is None else f"({left}) {kind.lower()} ({right})"
        case "Not":
            inner = _format_filter(asked.child(), is_negated=True)
            return None if inner is None else f"not ({inner})"
        case "IsNull":
            return f"{_format_column(asked)} is null"
        case "IsNotNull":
            return f"{_format_column(asked)} is not null"
        case "In":
            return _format_in(asked, is_negated=is_negated)
        case "EqualNullSafe" if is_negated:
            return None  # to Spark it is false, not unknown, for a null
        case kind if kind in _OPERATORS:
            value = _format_literal(asked.value())
            return None if value is None else f"{_format_column(asked)} {_OPERATORS[kind]} {value}"
        case _:
            return None


def _format_column(asked: JavaObject) -> str:
    name = str(asked.attribute())
    return _ID_COLUMNS.get(name, name)


def _format_in(asked: JavaObject, *, is_negated: bool) -> str | None:
    given = list(asked.values())
    values = [_format_literal(value) for value in given if value is not None]
    known = [value for value in values if value is not None]
    is_whole = len(known) == len(values) and not (is_negated and len(values) < len(given))
    return f"{_format_column(asked)} in [{', '.join(known)}]" if 0 < len(known) <= MAX_VALUES and is_whole else None


def _format_literal(value: object) -> str | None:
    """A value as the query language writes it; None when it has no such value."""
    match value:
        case bool():
            return str(value).lower()
        case int():
            return str(value)
        case float():
            return _format_float(value)
        case Decimal():
            return str(int(value)) if value == value.to_integral_value() else None
        case str():
            return '"' + "".join(_escape_character(one) for one in value) + '"'
        case None:
            return None
        case _:
            return _format_time(value)


def _format_float(value: float) -> str | None:
    if not math.isfinite(value):
        return None
    digits, sign, exponent = repr(value).partition("e")
    return f"{digits if '.' in digits else digits + '.0'}{sign}{exponent.lstrip('+')}"


def _escape_character(one: str) -> str:
    return _ESCAPES.get(one) or (f"\\u{ord(one):04x}" if ord(one) < 0x20 else one)


def _format_time(value: JavaObject) -> str | None:
    """A date or instant of Java; None for one before `_FIRST_YEAR`, or that Python's calendar does not have."""
    kind = value.getClass().getName() if hasattr(value, "getClass") else None
    try:
        match kind:
            case "java.sql.Date" | "java.time.LocalDate":
                day = date.fromisoformat(value.toString())
                return f'date("{day.isoformat()}")' if day.year >= _FIRST_YEAR else None
            case "java.sql.Timestamp":
                return _format_instant(value.getTime() // 1000, value.getNanos())
            case "java.time.Instant":
                return _format_instant(value.getEpochSecond(), value.getNano())
            case _:
                return None
    except (ValueError, OverflowError, OSError):
        return None


def _format_instant(seconds: int, nanos: int) -> str | None:
    instant = datetime.fromtimestamp(seconds, UTC).replace(microsecond=nanos // 1000)
    return f'datetime("{format_instant(instant)}")' if instant.year >= _FIRST_YEAR else None
