"""Filter pushdown: translate Spark's filters to a predicate of the query language.

Every row that passes the filter passes the predicate. Others may pass it, too, because Spark applies its filter again;
so conjuncts that can't be translated are left out.
"""

import math
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, TypeAlias

from omnigraph.clock import format_instant

# An object of the JVM.
JavaObject: TypeAlias = Any

# An `in` with more values is not pushed down: Spark alone compares them.
MAX_VALUES = 1_000
# Earlier dates and instants depend on calendars and time zones in the JVM, so they are not pushed down.
_FIRST_YEAR = 1901
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
# The columns of a table that are not properties, and their names in a predicate.
_ID_COLUMNS = {"id": "@id", "src": "@src", "dst": "@dst"}
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def iter_conjuncts(condition: JavaObject) -> Iterator[JavaObject]:
    """Yield the conjuncts of a Catalyst condition."""
    if condition.getClass().getSimpleName() == "And":
        yield from iter_conjuncts(condition.left())
        yield from iter_conjuncts(condition.right())
    else:
        yield condition


def format_condition(jvm: JavaObject, condition: JavaObject) -> str | None:
    """Return a Catalyst condition as a predicate, or None if it can't be translated."""
    companion = getattr(jvm.org.apache.spark.sql.execution.datasources, "DataSourceStrategy$")
    # Spark's own translation to source filters leaves far fewer cases than Catalyst's expressions.
    source_filter = getattr(companion, "MODULE$").translateFilter(condition, False)
    return _format_filter(source_filter.get()) if source_filter.isDefined() else None


def join_all(texts: list[str]) -> str | None:
    """Return the conjunction of predicates, or None (which every row passes) for an empty list."""
    return " and ".join(f"({text})" for text in texts) or None


def join_any(texts: list[str | None]) -> str | None:
    """Return the disjunction of predicates, or None if the list is empty or contains a None."""
    # None passes every row, and so does a disjunction with it.
    predicates = [text for text in texts if text is not None]
    if not predicates or len(predicates) < len(texts):
        return None
    return " or ".join(f"({predicate})" for predicate in dict.fromkeys(predicates))


def _format_filter(condition: JavaObject, *, is_negated: bool = False) -> str | None:
    """Return a source filter of Spark as a predicate, or None; under a negation, the two must be equivalent."""
    match condition.getClass().getSimpleName():
        case "And" | "Or" as kind:
            left = _format_filter(condition.left(), is_negated=is_negated)
            right = _format_filter(condition.right(), is_negated=is_negated)
            return None if left is None or right is None else f"({left}) {kind.lower()} ({right})"
        case "Not":
            inner = _format_filter(condition.child(), is_negated=True)
            return None if inner is None else f"not ({inner})"
        case "IsNull":
            return f"{_format_column(condition)} is null"
        case "IsNotNull":
            return f"{_format_column(condition)} is not null"
        case "In":
            return _format_in(condition, is_negated=is_negated)
        case "EqualNullSafe" if is_negated:
            return None  # for a null, it is false in Spark, but unknown here
        case kind if kind in _OPERATORS:
            value = _format_literal(condition.value())
            return None if value is None else f"{_format_column(condition)} {_OPERATORS[kind]} {value}"
        case _:
            return None


def _format_column(condition: JavaObject) -> str:
    name = str(condition.attribute())
    return _ID_COLUMNS.get(name, name)


def _format_in(condition: JavaObject, *, is_negated: bool) -> str | None:
    values = list(condition.values())
    texts = [_format_literal(value) for value in values if value is not None]
    literals = [text for text in texts if text is not None]
    # A null in the list matches no row, so it may be left out; but its negation passes no row at all.
    is_equivalent = len(literals) == len(texts) and not (is_negated and len(texts) < len(values))
    if not is_equivalent or not 0 < len(literals) <= MAX_VALUES:
        return None
    return f"{_format_column(condition)} in [{', '.join(literals)}]"


def _format_literal(value: object) -> str | None:
    """Return a value as a literal of the query language, or None if it has no such literal."""
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
            return '"' + "".join(map(_escape_character, value)) + '"'
        case None:
            return None
        case _:
            return _format_time(value)


def _format_float(value: float) -> str | None:
    if not math.isfinite(value):
        return None
    # A float literal needs a decimal point, which `repr` leaves out in `1e+16`.
    digits, sign, exponent = repr(value).partition("e")
    return f"{digits if '.' in digits else digits + '.0'}{sign}{exponent.lstrip('+')}"


def _escape_character(character: str) -> str:
    return _ESCAPES.get(character) or (f"\\u{ord(character):04x}" if ord(character) < 0x20 else character)


def _format_time(value: JavaObject) -> str | None:
    """Return a date or instant of Java as a literal, or None if it is before `_FIRST_YEAR` or beyond Python's range."""
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
