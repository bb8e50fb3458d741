"""What each scalar function means, for one row in plain Python."""

import calendar
import math
import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from omnigraph.query.expr import Computed
from omnigraph.query.scalar_functions import ScalarFunction as F
from omnigraph.schema.types import ListOf, Scalar
from omnigraph.schema.values import InvalidValue, parse_date, parse_datetime
from reference_lists import LIST_FUNCTIONS, WITH_NULLS, compute_list

I64 = range(-(2**63), 2**63)


class CalculationError(Exception):
    """An integer does not fit into 64 bits, or is divided by zero as Cypher divides."""


def compute(expr: Computed, arguments: Sequence[Any], now: datetime) -> Any:
    """The value of a function for the values of its arguments; null for a null, unless it skips them."""
    function = expr.function
    if function is F.TODAY:
        return now.date()
    if function in (F.COALESCE, F.LEAST, F.GREATEST):
        present = [argument for argument in arguments if argument is not None]
        if function is not F.COALESCE:
            present.sort(reverse=function is F.GREATEST)
        return present[0] if present else None
    if function in LIST_FUNCTIONS or function in WITH_NULLS:
        return compute_list(expr, arguments)
    if None in arguments and function is not F.NULLIF:
        return None
    if function in (F.QUOTIENT, F.REMAINDER) and arguments[1] == 0:
        raise CalculationError("a division by zero")
    if function is F.WIDEN:
        is_float = expr.type == ListOf(Scalar.F64)
        return [float(item) if is_float else item for item in arguments[0]]
    value = FUNCTIONS[function](*arguments) if function in FUNCTIONS else _calculate(expr, arguments)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if expr.type is Scalar.I64 and value is not None and value not in I64:
        raise CalculationError(value)
    return value


def _calculate(expr: Computed, arguments: Sequence[Any]) -> Any:
    is_whole = expr.type is Scalar.I64
    if is_whole and any(argument not in I64 for argument in arguments if isinstance(argument, int)):
        raise CalculationError
    numbers = list(arguments) if is_whole else [float(argument) for argument in arguments]
    try:
        return ARITHMETIC[expr.function](*numbers)
    except (ZeroDivisionError, ValueError, OverflowError):
        return None


def _quotient(a: int, b: int) -> int:
    whole = abs(a) // abs(b)
    return whole if (a < 0) == (b < 0) else -whole


def _remainder(a: Any, b: Any) -> Any:
    if isinstance(a, float) or isinstance(b, float):
        return math.fmod(a, b)
    return a - b * _quotient(a, b)


def _round(number: Any, digits: int = 0) -> Any:
    """Halves go away from zero."""
    if isinstance(number, int):
        unit = 10 ** max(-int(digits), 0)
        rounded = (abs(number) + unit // 2) // unit * unit
        return rounded if number >= 0 else -rounded
    scale = 10.0**digits
    scaled = number * scale
    if abs(scaled) >= 2.0**52:
        return number
    return math.copysign(math.floor(abs(scaled) + 0.5), scaled) / scale


def _power(a: float, b: float) -> float:
    return math.pow(a, b)


ARITHMETIC: dict[F, Callable[..., Any]] = {
    F.ADD: lambda a, b: a + b,
    F.SUBTRACT: lambda a, b: a - b,
    F.MULTIPLY: lambda a, b: a * b,
    F.DIVIDE: lambda a, b: a / b,
    F.MODULO: _remainder,
    F.DIV: _quotient,
    F.QUOTIENT: lambda a, b: _quotient(a, b) if isinstance(a, int) and isinstance(b, int) else a / b,
    F.REMAINDER: _remainder,
    F.NEGATE: lambda a: -a,
    F.ABS: abs,
    F.FLOOR: lambda a: a if isinstance(a, int) else float(math.floor(a)),
    F.CEIL: lambda a: a if isinstance(a, int) else float(math.ceil(a)),
    F.ROUND: _round,
    F.SQRT: math.sqrt,
    F.LN: math.log,
    F.LOG10: math.log10,
    F.EXP: math.exp,
    F.POW: _power,
}


def _substring(text: Any, start: int, length: int | None = None) -> Any:
    end = len(text) if length is None else start + max(length, 0)
    return text[max(start, 0) : max(end, 0)]


def _index_of(text: str, part: str) -> int | None:
    at = text.find(part)
    return at if at >= 0 else None


def _extract(text: str, pattern: str) -> str | None:
    found = re.search(pattern, text)
    return found.group() if found else None


def _element(items: Sequence[Any], index: int) -> Any:
    return items[index] if 0 <= index < len(items) else None


def _trunc(moment: Any, unit: str) -> Any:
    if unit == "week":
        day = moment - timedelta(days=moment.weekday())
        return day if type(moment) is date else day.replace(hour=0, minute=0, second=0, microsecond=0)
    parts = ["year", "month", "day", "hour", "minute"]
    kept = "month" if unit == "quarter" else unit
    resets = {"month": 1, "day": 1, "hour": 0, "minute": 0}
    is_date = type(moment) is date
    later = [part for part in parts[parts.index(kept) + 1 :] if not is_date or part in ("month", "day")]
    change = {part: resets[part] for part in later}
    if unit == "quarter":
        change["month"] = (moment.month - 1) // 3 * 3 + 1
    if not is_date:
        change |= {"second": 0, "microsecond": 0}
    return moment.replace(**change)


def _shift(moment: Any, unit: str, amount: int) -> Any:
    try:
        if unit in ("months", "years"):
            months = moment.year * 12 + moment.month - 1 + amount * (12 if unit == "years" else 1)
            year, month = divmod(months, 12)
            last = calendar.monthrange(year, month + 1)[1] if 1 <= year <= 9999 else 31
            return moment.replace(year=year, month=month + 1, day=min(moment.day, last))
        return moment + timedelta(**{unit: amount})
    except (ValueError, OverflowError, calendar.IllegalMonthError):
        return None


def _local_date(moment: datetime, zone: str = "UTC") -> date | None:
    try:
        return moment.astimezone(ZoneInfo(zone)).date()
    except OverflowError:
        return None


def _days_between(start: Any, end: Any) -> int:
    if type(start) is date:
        return int((end - start).days)
    return _quotient(int((end - start) / timedelta(microseconds=1)), 86_400_000_000)


def _to_int(value: Any) -> int | None:
    if isinstance(value, str):
        if not re.fullmatch(r"\s*[+-]?[0-9]{1,30}\s*", value):
            return None
        value = int(value)
    if isinstance(value, float):
        value = math.trunc(value)
    return int(value) if isinstance(value, int) and int(value) in I64 else None


def _to_float(value: Any) -> float | None:
    if isinstance(value, str) and not re.fullmatch(
        r"\s*[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,4})?\s*", value
    ):
        return None
    return float(value) if isinstance(value, str | int | float) else None


def _to_date(value: Any) -> date | None:
    if isinstance(value, datetime):
        return value.astimezone(UTC).date()
    found = value if isinstance(value, date) else parse_date(value) if isinstance(value, str) else None
    return None if isinstance(found, InvalidValue) else found


def _to_string(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    return value.isoformat() if isinstance(value, date) else str(value)


def _to_datetime(value: Any) -> datetime | None:
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime.combine(value, time(), UTC)
    found = value if isinstance(value, datetime) else parse_datetime(value) if isinstance(value, str) else None
    return None if isinstance(found, InvalidValue) else found


FUNCTIONS: dict[F, Callable[..., Any]] = {
    F.SIGN: lambda a: (a > 0) - (a < 0),
    F.CONCATENATE: lambda a, b: a + b,
    F.LIST: lambda *items: list(items),
    F.ELEMENT: _element,
    F.SHIFT: _shift,
    F.LOWER: lambda text: "".join(letter.lower() for letter in text),
    F.UPPER: str.upper,
    F.TRIM: str.strip,
    F.TRIM_LEFT: str.lstrip,
    F.TRIM_RIGHT: str.rstrip,
    F.LENGTH: len,
    F.SUBSTRING: _substring,
    F.INDEX_OF: _index_of,
    F.REPLACE: lambda text, part, by: text.replace(part, by) if part else text,
    F.SPLIT: lambda text, separator: text.split(separator) if separator else list(text),
    F.JOIN: lambda items, separator: separator.join(items),
    F.STARTS_WITH: str.startswith,
    F.ENDS_WITH: str.endswith,
    F.MATCHES: lambda text, pattern: re.search(pattern, text) is not None,
    F.EXTRACT: _extract,
    F.YEAR: lambda moment: moment.year,
    F.MONTH: lambda moment: moment.month,
    F.WEEK: lambda moment: moment.isocalendar().week,
    F.DAY: lambda moment: moment.day,
    F.WEEKDAY: lambda moment: moment.isoweekday(),
    F.HOUR: lambda moment: moment.hour,
    F.MINUTE: lambda moment: moment.minute,
    F.SECOND: lambda moment: moment.second,
    F.TRUNC: _trunc,
    F.DATE: _local_date,
    F.DAYS_BETWEEN: _days_between,
    F.SECONDS_BETWEEN: lambda start, end: (end - start) / timedelta(seconds=1),
    F.SIZE: len,
    F.FIRST: lambda items: items[0] if items else None,
    F.LAST: lambda items: items[-1] if items else None,
    F.SLICE: lambda items, start, length=None: list(_substring(items, start, length)),
    F.SORT: sorted,
    F.UNIQUE: lambda items: list(dict.fromkeys(items)),
    F.NULLIF: lambda a, b: None if a is not None and a == b else a,
    F.TO_STRING: _to_string,
    F.TO_INT: _to_int,
    F.TO_FLOAT: _to_float,
    F.TO_DATE: _to_date,
    F.TO_DATETIME: _to_datetime,
}
