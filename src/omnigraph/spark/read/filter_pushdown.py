"""What Spark filters a table by, as a predicate of the query language that every such row passes.

It may let others pass: Spark asks again. So what can't be said here is left out of a conjunction.
"""

import math
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, TypeAlias

from omnigraph.clock import instant_text

Java: TypeAlias = Any
"""An object of the JVM."""

MOST_VALUES = 1_000
"""Beyond so many values of an `in`, Spark compares them alone."""
_FIRST_YEAR = 1901
"""What the JVM calls a day or an instant before that depends on calendars and zones: not said here."""
_SIGNS = {
    "EqualTo": "=",
    "EqualNullSafe": "=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "StringStartsWith": "starts_with",
    "StringContains": "contains",
}
_OWN = {"id": "@id", "src": "@src", "dst": "@dst"}
"""The columns of a table that are no properties, as a predicate names them."""
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def conjuncts(condition: Java) -> Iterator[Java]:
    """The parts of a condition of Catalyst that must all hold."""
    if condition.getClass().getSimpleName() == "And":
        yield from conjuncts(condition.left())
        yield from conjuncts(condition.right())
    else:
        yield condition


def predicate(jvm: Java, condition: Java) -> str | None:
    """The text of a condition of Catalyst; None when it can't be said."""
    companion = getattr(jvm.org.apache.spark.sql.execution.datasources, "DataSourceStrategy$")
    found = getattr(companion, "MODULE$").translateFilter(condition, False)
    return _text(found.get()) if found.isDefined() else None


def all_of(texts: list[str]) -> str | None:
    """The conjunction; None of nothing, which every row passes."""
    return " and ".join(f"({text})" for text in texts) or None


def any_of(texts: list[str | None]) -> str | None:
    """The disjunction; None when one of them lets every row pass."""
    known = [text for text in texts if text is not None]
    return " or ".join(f"({text})" for text in dict.fromkeys(known)) if known and len(known) == len(texts) else None


def _text(asked: Java, *, is_negated: bool = False) -> str | None:
    """A filter of Spark's sources. Under a negation it must say exactly what Spark says."""
    match asked.getClass().getSimpleName():
        case "And" | "Or" as kind:
            left, right = _text(asked.left(), is_negated=is_negated), _text(asked.right(), is_negated=is_negated)
            return None if left is None or right is None else f"({left}) {kind.lower()} ({right})"
        case "Not":
            inner = _text(asked.child(), is_negated=True)
            return None if inner is None else f"not ({inner})"
        case "IsNull":
            return f"{_column(asked)} is null"
        case "IsNotNull":
            return f"{_column(asked)} is not null"
        case "In":
            return _membership(asked, is_negated=is_negated)
        case "EqualNullSafe" if is_negated:
            return None  # to Spark it is false, not unknown, for a null
        case kind if kind in _SIGNS:
            value = _literal(asked.value())
            return None if value is None else f"{_column(asked)} {_SIGNS[kind]} {value}"
        case _:
            return None


def _column(asked: Java) -> str:
    name = str(asked.attribute())
    return _OWN.get(name, name)


def _membership(asked: Java, *, is_negated: bool) -> str | None:
    given = list(asked.values())
    values = [_literal(value) for value in given if value is not None]
    known = [value for value in values if value is not None]
    is_whole = len(known) == len(values) and not (is_negated and len(values) < len(given))
    return f"{_column(asked)} in [{', '.join(known)}]" if 0 < len(known) <= MOST_VALUES and is_whole else None


def _literal(value: object) -> str | None:
    """A value as the query language writes it; None when it has no such value."""
    match value:
        case bool():
            return str(value).lower()
        case int():
            return str(value)
        case float():
            return _number(value)
        case Decimal():
            return str(int(value)) if value == value.to_integral_value() else None
        case str():
            return '"' + "".join(_character(one) for one in value) + '"'
        case None:
            return None
        case _:
            return _time(value)


def _number(value: float) -> str | None:
    if not math.isfinite(value):
        return None
    digits, sign, exponent = repr(value).partition("e")
    return f"{digits if '.' in digits else digits + '.0'}{sign}{exponent.lstrip('+')}"


def _character(one: str) -> str:
    return _ESCAPES.get(one) or (f"\\u{ord(one):04x}" if ord(one) < 0x20 else one)


def _time(value: Java) -> str | None:
    """A date or instant of Java; None for one before `_FIRST_YEAR`, or that Python's calendar does not have."""
    kind = value.getClass().getName() if hasattr(value, "getClass") else None
    try:
        match kind:
            case "java.sql.Date" | "java.time.LocalDate":
                day = date.fromisoformat(value.toString())
                return f'date("{day.isoformat()}")' if day.year >= _FIRST_YEAR else None
            case "java.sql.Timestamp":
                return _instant(value.getTime() // 1000, value.getNanos())
            case "java.time.Instant":
                return _instant(value.getEpochSecond(), value.getNano())
            case _:
                return None
    except (ValueError, OverflowError, OSError):
        return None


def _instant(seconds: int, nanos: int) -> str | None:
    instant = datetime.fromtimestamp(seconds, UTC).replace(microsecond=nanos // 1000)
    return f'datetime("{instant_text(instant)}")' if instant.year >= _FIRST_YEAR else None
