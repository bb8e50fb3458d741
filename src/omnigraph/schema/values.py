"""Convert literals and JSON values to typed Python values and back; decides which value fits which type.

A value that does not fit is an `InvalidValue`, never an exception: callers add the name of the property, parameter or
line.
"""

import base64
import binascii
import json
import math
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any, TypeAlias, assert_never

from omnigraph.lang.expression_printer import print_float, quote
from omnigraph.lang.literals import (
    BoolLiteral,
    DateLiteral,
    DateTimeLiteral,
    FloatLiteral,
    IntLiteral,
    ListLiteral,
    Literal,
    NullLiteral,
    StringLiteral,
)
from omnigraph.schema.catalog import Value
from omnigraph.schema.types import INTEGER_RANGES, EnumOf, ListOf, Scalar, ValueType, VectorOf, is_scalar

# Messages stay short whatever the value: long texts are clipped, and long enums and numbers are not spelled out.
_MAX_TEXT_LENGTH = 60
_MAX_TYPE_ENUM_VALUES = 8
# The same for literals: a line of a plan stays readable, whatever the literals of the query.
_MAX_LITERAL_LENGTH = 80
_MAX_ITEMS = 8
# The languages accept numbers of up to 40 digits.
_MAX_NUMBER = 10**40


@dataclass(frozen=True, slots=True)
class InvalidValue:
    """The reason why a value does not fit: what was expected and what was given, in the user's words."""

    reason: str


def format_value(value: object, *, is_typed: bool = False, in_query: bool = False) -> str:
    """Format a value on one line, text in quotes, and never long.

    In its JSON form, for messages and reports. `is_typed` says that a property has the value, so that dates and times
    are shown; of others, which may be anything that a caller has given, only the kind. With `in_query`, a typed value
    is formatted as a literal of the query language, for plans.
    """
    match value:
        case None:
            return "null"
        # Before `int` and `date`: in Python a bool is an int and a datetime is a date.
        case bool():
            return "true" if value else "false"
        case int() if abs(value) >= _MAX_NUMBER:
            return "a number of more than 40 digits"
        case float() if in_query:
            return print_float(value)
        case int() | float():
            return str(value)
        case str() if in_query:
            return quote(value if len(value) <= _MAX_LITERAL_LENGTH else f"{value[: _MAX_LITERAL_LENGTH - 1]}…")
        case str():
            return _quote_text(value)
        case datetime() if is_typed or in_query:
            text = format_value(format_datetime(value))
            return f"datetime({text})" if in_query else text
        case date() if is_typed or in_query:
            text = format_value(format_date(value))
            return f"date({text})" if in_query else text
        case bytes() if in_query:
            return f"<{len(value)} bytes>"
        case list() | tuple() if in_query:
            return _format_list(value)
        case list() | tuple():
            return f"a list of {len(value)} {'item' if len(value) == 1 else 'items'}"
        case Mapping():
            return "an object"
        case _:
            return f"a {type(value).__name__}"


def _format_list(values: Sequence[object]) -> str:
    items = [format_value(value, in_query=True) for value in values[:_MAX_ITEMS]]
    if len(values) > _MAX_ITEMS:
        items.append(f"… {len(values) - _MAX_ITEMS} more")
    return f"[{', '.join(items)}]"


def format_type(type_: ValueType) -> str:
    """Format a type for a message: only the first values of a long enum."""
    if isinstance(type_, EnumOf) and len(type_.values) > _MAX_TYPE_ENUM_VALUES:
        return f"enum({', '.join(type_.values[:_MAX_TYPE_ENUM_VALUES])}, …)"
    return str(type_)


def _quote_text(text: str) -> str:
    clipped = text if len(text) <= _MAX_TEXT_LENGTH else text[: _MAX_TEXT_LENGTH - 1]
    # Control characters are escaped, so that a value can't change the terminal that shows the message.
    quoted = json.dumps(clipped, ensure_ascii=not clipped.isprintable())
    return quoted if clipped == text else f'{quoted[:-1]}…" ({len(text)} characters)'


# A value that `json.loads` returns and `json.dumps` accepts.
Json: TypeAlias = str | int | float | bool | list["Json"] | dict[str, "Json"] | None

BASE64_PREFIX = "base64:"


# `[0-9]` instead of `\d`, which also matches the digits of other scripts.
_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_DATETIME = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]+))?"
    r"(?:([Zz])|([+-])([0-9]{2}):([0-9]{2}))"
)
# A time or date without a zone: matched only to explain what is missing.
_NO_ZONE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([Tt ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?)?")

EXPECTED_DATE = 'a date "YYYY-MM-DD"'
EXPECTED_DATETIME = 'a time with its zone, such as "2026-01-02T03:04:05Z"'


def parse_date(text: str) -> date | InvalidValue:
    """Parse a date `YYYY-MM-DD`, years 0001 to 9999; any other form is an `InvalidValue`."""
    if (parts := _DATE.fullmatch(text)) is None:
        return InvalidValue(f"expected {EXPECTED_DATE}, got {format_value(text)}")
    try:
        return date(*map(int, parts.groups()))
    except ValueError:
        return InvalidValue(f"{format_value(text)} is not a day of the calendar (years 0001 to 9999)")


def parse_datetime(text: str) -> datetime | InvalidValue:
    """Parse an RFC 3339 instant to UTC; one finer than a microsecond or outside years 0001 to 9999 is invalid."""
    if (parts := _DATETIME.fullmatch(text)) is None:
        hint = "; it has no zone" if _NO_ZONE.fullmatch(text) else ""
        return InvalidValue(f"expected {EXPECTED_DATETIME}, got {format_value(text)}{hint}")
    year, month, day, hour, minute, second, fraction, zulu, sign, zone_hour, zone_minute = parts.groups()
    if int(second) == 60:
        return InvalidValue(f"{format_value(text)} is a leap second, which a DateTime can't represent")
    # Zeros after the sixth digit lose nothing, so they are accepted.
    digits = fraction or ""
    if digits[6:].strip("0"):
        return InvalidValue(
            f"{format_value(text)} is finer than a microsecond: keep at most 6 digits after the decimal point"
        )
    offset = timedelta()
    if not zulu:
        if int(zone_hour) > 23 or int(zone_minute) > 59:
            return InvalidValue(f"{format_value(text)} has a zone offset that is not between -23:59 and +23:59")
        offset = timedelta(hours=int(zone_hour), minutes=int(zone_minute)) * (-1 if sign == "-" else 1)
    # Converting to UTC may leave the years that Python has, which is an OverflowError.
    try:
        local = datetime(
            int(year),
            int(month),
            int(day),
            int(hour),
            int(minute),
            int(second),
            int(digits[:6].ljust(6, "0")),
            tzinfo=timezone(offset),
        )
        return local.astimezone(UTC)
    except (ValueError, OverflowError):
        return InvalidValue(f"{format_value(text)} is not a time of the calendar (years 0001 to 9999 in UTC)")


def format_date(value: date) -> str:
    """Format a date as `YYYY-MM-DD`."""
    return value.isoformat()


def format_datetime(value: datetime) -> str:
    """Format an aware time canonically: UTC with `Z`, a fraction of six digits or none."""
    if value.tzinfo is None:
        msg = "a DateTime value needs a zone"
        raise ValueError(msg)
    return value.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"


# 20 digits are enough for any U64; a longer text is rejected without converting it.
_DECIMAL = re.compile(r"-?[0-9]{1,20}")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s]+")
_MAX_EXPECTED_ENUM_VALUES = 12


def describe_type(type_: ValueType) -> str:
    """Describe the values of a type for messages: `a whole number from 0 to 4294967295`."""
    match type_:
        case EnumOf(values=values):
            more = "" if len(values) <= _MAX_EXPECTED_ENUM_VALUES else f", … ({len(values)} values)"
            return f"one of {', '.join(values[:_MAX_EXPECTED_ENUM_VALUES])}{more}"
        case ListOf(element=element):
            return f"a list of {element}"
        case VectorOf(size=size):
            return f"a list of {size} {'number' if size == 1 else 'numbers'}"
        case Scalar.STRING:
            return "a string"
        case Scalar.BLOB:
            return '"base64:…" or a URI'
        case Scalar.BOOL:
            return "true or false"
        case Scalar.I32 | Scalar.I64 | Scalar.U32 | Scalar.U64:
            low, high = INTEGER_RANGES[type_]
            return f"a whole number from {low} to {high}"
        case Scalar.F32 | Scalar.F64:
            return "a number"
        case Scalar.DATE:
            return EXPECTED_DATE
        case Scalar.DATETIME:
            return EXPECTED_DATETIME
        case _:
            assert_never(type_)


# --- from JSON -------------------------------------------------------------------------------------


def from_json(type_: ValueType, value: object, *, nullable: bool = False) -> Value | InvalidValue:
    """Convert a decoded JSON value, or return why it does not fit. Conversions never lose information or guess."""
    if value is None:
        return None if nullable else _reject_value(type_, value)
    match type_:
        case Scalar():
            return _scalar_from_json(type_, value)
        case EnumOf():
            return _check_enum(type_, value)
        case ListOf(element=element):
            if not isinstance(value, list | tuple):
                return _reject_value(type_, value)
            # A list may have a million items: those that need no conversion are not converted individually.
            if _are_all_plain(element, value):
                return tuple(value)
            return _convert_items(value, lambda item: _scalar_from_json(element, item))
        case VectorOf():
            return _convert_vector(type_, value)
        case _:
            assert_never(type_)


def _scalar_from_json(scalar: Scalar, value: object) -> Value | InvalidValue:
    # Beyond 2**53 a JSON number is not exact in clients that read it as a float: 64-bit integers may be strings too.
    match scalar:
        case Scalar.I64 | Scalar.U64 if isinstance(value, str) and _DECIMAL.fullmatch(value):
            return _check_integer(scalar, int(value))
        case Scalar.DATE if isinstance(value, str):
            return parse_date(value)
        case Scalar.DATETIME if isinstance(value, str):
            return parse_datetime(value)
        case _:
            return _convert_scalar(scalar, value)


# --- from literals ----------------------------------------------------------------------------------


def from_literal(type_: ValueType, literal: Literal, *, nullable: bool = False) -> Value | InvalidValue:
    """Convert a literal, or return why it does not fit; dates are written `date("…")`, times `datetime("…")`."""
    match literal:
        case NullLiteral():
            return None if nullable else _reject_literal(type_, literal)
        case DateLiteral(text=text):
            return parse_date(text) if type_ is Scalar.DATE else _reject_literal(type_, literal)
        case DateTimeLiteral(text=text):
            return parse_datetime(text) if type_ is Scalar.DATETIME else _reject_literal(type_, literal)
        case ListLiteral(items=items):
            return _list_from_literal(type_, literal, items)
        case StringLiteral() | IntLiteral() | FloatLiteral() | BoolLiteral():
            match type_:
                case Scalar.DATE | Scalar.DATETIME | ListOf() | VectorOf():
                    return _reject_literal(type_, literal)
                case EnumOf():
                    return _check_enum(type_, literal.value)
                case Scalar():
                    return _convert_scalar(type_, literal.value)
                case _:
                    assert_never(type_)
        case _:
            assert_never(literal)


def _list_from_literal(type_: ValueType, literal: ListLiteral, items: tuple[Literal, ...]) -> Value | InvalidValue:
    match type_:
        case ListOf(element=element):
            return _convert_items(items, lambda item: from_literal(element, item))
        case VectorOf(size=size):
            if len(items) != size:
                return InvalidValue(f"expected {describe_type(type_)}, got {len(items)}")
            return _convert_items(items, lambda item: from_literal(Scalar.F32, item))
        case _:
            return _reject_literal(type_, literal)


def format_literal(literal: Literal) -> str:
    """Format a literal for a message, clipped."""
    match literal:
        case NullLiteral():
            return "null"
        case DateLiteral(text=text):
            return f"date({format_value(text)})"
        case DateTimeLiteral(text=text):
            return f"datetime({format_value(text)})"
        case ListLiteral(items=items):
            return format_value(items)
        case _:
            return format_value(literal.value)


def _reject_literal(type_: ValueType, literal: Literal) -> InvalidValue:
    if type_ is Scalar.DATE:
        expected = '`date("YYYY-MM-DD")`'
    elif type_ is Scalar.DATETIME:
        expected = '`datetime("2026-01-02T03:04:05Z")`'
    else:
        expected = describe_type(type_)
    return InvalidValue(f"expected {expected}, got {format_literal(literal)}")


# --- from both -------------------------------------------------------------------------


def _reject_value(type_: ValueType, value: object) -> InvalidValue:
    return InvalidValue(f"expected {describe_type(type_)}, got {format_value(value)}")


def _convert_scalar(scalar: Scalar, value: object) -> Value | InvalidValue:
    match scalar:
        case Scalar.STRING:
            return _check_string(value)
        case Scalar.BLOB:
            return _check_blob(value)
        case Scalar.BOOL:
            return value if isinstance(value, bool) else _reject_value(scalar, value)
        case Scalar.I32 | Scalar.I64 | Scalar.U32 | Scalar.U64:
            return _check_integer(scalar, value)
        case Scalar.F32 | Scalar.F64:
            return _convert_float(scalar, value)
        case Scalar.DATE | Scalar.DATETIME:
            return _reject_value(scalar, value)
        case _:
            assert_never(scalar)


def _check_string(value: object) -> str | InvalidValue:
    if not isinstance(value, str):
        return _reject_value(Scalar.STRING, value)
    # JSON escapes can form half of a surrogate pair, which has no UTF-8 encoding and can't be stored.
    try:
        value.encode()
    except UnicodeEncodeError as error:
        return InvalidValue(
            f"the string has half of a surrogate pair at character {error.start + 1}, which is not valid text"
        )
    return value


def _check_enum(type_: EnumOf, value: object) -> str | InvalidValue:
    return value if isinstance(value, str) and value in type_.values else _reject_value(type_, value)


def _check_blob(value: object) -> str | InvalidValue:
    if not isinstance(value, str):
        return _reject_value(Scalar.BLOB, value)
    if value.startswith(BASE64_PREFIX):
        try:
            base64.b64decode(value[len(BASE64_PREFIX) :], validate=True)
        except (binascii.Error, ValueError):
            return InvalidValue(f"the text after `{BASE64_PREFIX}` is not base64 with its padding")
        return value
    return _check_string(value) if _URI.fullmatch(value) else _reject_value(Scalar.BLOB, value)


def _check_integer(scalar: Scalar, value: object) -> int | InvalidValue:
    low, high = INTEGER_RANGES[scalar]
    if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
        return value
    return _reject_value(scalar, value)


def _convert_float(scalar: Scalar, value: object) -> float | InvalidValue:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _reject_value(scalar, value)
    if isinstance(value, float) and not math.isfinite(value):
        return InvalidValue(f"expected a finite number, got {format_value(value)}")
    try:
        number = float(value)
        if scalar is Scalar.F32:
            number = _as_float32(number)
    except OverflowError:
        return InvalidValue(f"{format_value(value)} is too large for {scalar}")
    # A fraction is rounded to the nearest float, but an integer that is not exact would be stored as another number.
    if isinstance(value, int) and number != value:
        return InvalidValue(
            f"{format_value(value)} can't be held exactly by {scalar}: write a fraction if rounding is meant"
        )
    return number


def _as_float32(number: float) -> float:
    rounded: float = struct.unpack("<f", struct.pack("<f", number))[0]
    return rounded


def _convert_vector(type_: VectorOf, value: object) -> tuple[Value, ...] | InvalidValue:
    if not isinstance(value, list | tuple):
        return _reject_value(type_, value)
    if len(value) != type_.size:
        return InvalidValue(f"expected {describe_type(type_)}, got {len(value)}")
    if all(type(item) is float for item in value):
        # Convert the whole vector in one call; if that fails, the slow path below finds the item to report.
        packing = f"<{type_.size}f"
        try:
            packed: tuple[float, ...] = struct.unpack(packing, struct.pack(packing, *value))
        except OverflowError:
            packed = (math.inf,)
        if all(map(math.isfinite, packed)):
            return packed
    return _convert_items(value, lambda item: _convert_float(Scalar.F32, item))


def _are_all_plain(element: Scalar, items: Sequence[Any]) -> bool:
    """Return whether no item needs conversion: all are of one plain type and in range."""
    kinds = set(map(type, items))
    if element.is_integer and kinds == {int}:
        low, high = INTEGER_RANGES[element]
        return bool(low <= min(items) and max(items) <= high)
    if element is Scalar.F64 and kinds == {float}:
        return all(map(math.isfinite, items))
    # ASCII text has no surrogates, so it needs no further check.
    return element is Scalar.STRING and kinds == {str} and all(map(str.isascii, items))


def _convert_items(
    items: Sequence[object], convert: Callable[..., Value | InvalidValue]
) -> tuple[Value, ...] | InvalidValue:
    values: list[Value] = []
    for position, item in enumerate(items, start=1):
        value = convert(item)
        if isinstance(value, InvalidValue):
            return InvalidValue(f"item {position}: {value.reason}")
        values.append(value)
    return tuple(values)


# --- to JSON -----------------------------------------------------------------------------------------


def to_json(type_: ValueType, value: Value) -> Json:
    """Return the JSON form of a typed value, which `from_json` converts back; None is null for every type.

    Integers stay numbers. An F32 has as few digits as identify it, at most nine.

    Raises:
        TypeError: The value is not of this type, which is a bug of the caller.
    """
    match type_, value:
        case _, None:
            return None
        case ListOf(element=element), list() | tuple():
            return [to_json(element, item) for item in value]
        case VectorOf(), list() | tuple():
            return [to_json(Scalar.F32, item) for item in value]
        case Scalar.F32, float():
            return _shorten_float32(value)
        case Scalar.F64, float():
            return value
        case Scalar.DATETIME, datetime():
            return format_datetime(value)
        case Scalar.DATE, date() if not isinstance(value, datetime):
            return format_date(value)
        case Scalar.BLOB, bytes():
            return BASE64_PREFIX + base64.b64encode(value).decode()
        case Scalar.BOOL, bool():
            return value
        case Scalar.I32 | Scalar.I64 | Scalar.U32 | Scalar.U64, int() if not isinstance(value, bool):
            return value
        case Scalar.STRING | Scalar.BLOB | EnumOf(), str():
            return value
        case _:
            msg = f"{format_value(value)} is not a value of {type_}"
            raise TypeError(msg)


def _shorten_float32(value: float) -> float:
    # The first of 7, 8 or 9 digits that gives the same float32 again: nine are always enough.
    for digits in (7, 8):
        short = float(f"{value:.{digits}g}")
        try:
            if _as_float32(short) == value:
                return short
        except OverflowError:
            continue  # near the largest float32, fewer digits round beyond it
    return float(f"{value:.9g}")


# --- ids -----------------------------------------------------------------------------------------


def format_key(type_: ValueType, value: Value) -> str:
    """Format the value of a key column as ids contain it.

    Raises:
        TypeError: The value is null, or no key may have this type.
    """
    if value is None or not is_scalar(type_) or type_ in (Scalar.F32, Scalar.F64):
        msg = f"{format_value(value)} of {type_} can't be part of a key"
        raise TypeError(msg)
    text = to_json(type_, value)
    if isinstance(text, bool):
        return "true" if text else "false"
    return str(text)


def derive_id(texts: Sequence[str]) -> str:
    """Derive the id of a row from the texts of its key: the text of a single column, or a compact JSON array."""
    if not texts:
        msg = "a key has at least one column"
        raise ValueError(msg)
    if len(texts) == 1:
        return texts[0]
    # A JSON array, so that no value can be mistaken for a separator.
    return json.dumps(list(texts), ensure_ascii=False, separators=(",", ":"))
