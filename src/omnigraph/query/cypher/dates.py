"""Dates of Cypher that the text tells: ISO 8601 in all its forms, maps of parts, and truncation."""

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Final

_FORMS: Final = (
    r"(?P<year>\d{4})-(?P<month>\d\d)(-(?P<day>\d\d))?",
    r"(?P<year>\d{4})(?P<month>\d\d)(?P<day>\d\d)",
    r"(?P<year>\d{4})(?P<month>\d\d)",
    r"(?P<year>\d{4})-W(?P<week>\d\d)(-(?P<dayOfWeek>\d))?",
    r"(?P<year>\d{4})W(?P<week>\d\d)(?P<dayOfWeek>\d)?",
    r"(?P<year>\d{4})-?(?P<ordinalDay>\d{3})",
    r"(?P<year>\d{4})",
)
_COUNTED: Final = {
    frozenset({"year", "month", "day"}): "month",
    frozenset({"year", "week", "dayOfWeek"}): "week",
    frozenset({"year", "quarter", "dayOfQuarter"}): "quarter",
    frozenset({"year", "ordinalDay"}): "year",
}
_MONTHS_OF_QUARTER = 3
# The first years of what a date is cut off to.
_YEARS_OF: Final = {"millennium": 1_000, "century": 100, "decade": 10}
DATE_PARTS: Final = frozenset().union(*_COUNTED)
TIME_PARTS: Final = ("hour", "minute", "second", "millisecond", "microsecond")
_LIMITS: Final = {"hour": 24, "minute": 60, "second": 60, "millisecond": 1_000, "microsecond": 1_000_000}


def parse_iso_date(text: str) -> date | None:
    """Return the date of a text: calendar, week or ordinal date, also without its last parts; None if it is none."""
    for form in _FORMS:
        found = re.fullmatch(form, text)
        if found is not None:
            return build_date({name: int(part) for name, part in found.groupdict().items() if part is not None})
    return None


def build_date(parts: Mapping[str, int], base: date | None = None) -> date | None:
    """Return the date of its parts, the others being those of `base` or the first; None if there is no such date."""
    kinds = [kind for names, kind in _COUNTED.items() if parts.keys() <= names]
    if not kinds or ("year" not in parts and base is None):
        return None
    kind = kinds[0]
    try:
        return _BUILDERS[kind](parts, base)
    except (ValueError, OverflowError):
        return None


def build_datetime(parts: Mapping[str, int]) -> datetime | None:
    """Return the instant of its parts in UTC; None if there is none."""
    day = build_date({name: number for name, number in parts.items() if name not in TIME_PARTS})
    times = {name: parts.get(name, 0) for name in TIME_PARTS}
    if day is None or any(not 0 <= number < _LIMITS[name] for name, number in times.items()):
        return None
    # A microsecond counts those of its second, or those after its millisecond.
    milliseconds, microseconds = times.pop("millisecond"), times.pop("microsecond")
    if milliseconds and microseconds >= _LIMITS["millisecond"]:
        return None
    return datetime(day.year, day.month, day.day, **times, tzinfo=UTC) + timedelta(
        milliseconds=milliseconds, microseconds=microseconds
    )


def truncate_date(unit: str, day: date) -> date | None:
    """Return the first day of a unit; None for a unit that there is not."""
    match unit:
        case "millennium" | "century" | "decade":
            years = _YEARS_OF[unit]
            return date(day.year // years * years, 1, 1) if day.year >= years else None
        case "year":
            return date(day.year, 1, 1)
        case "weekYear":
            return date.fromisocalendar(day.isocalendar().year, 1, 1)
        case "quarter":
            return date(day.year, _find_first_month(day), 1)
        case "month":
            return date(day.year, day.month, 1)
        case "week":
            return day - timedelta(days=day.isoweekday() - 1)
        case "day":
            return day
        case _:
            return None


def _find_first_month(day: date) -> int:
    return (day.month - 1) // _MONTHS_OF_QUARTER * _MONTHS_OF_QUARTER + 1


def _build_calendar_date(parts: Mapping[str, int], base: date | None) -> date:
    start = base or date(1, 1, 1)
    year = parts.get("year", start.year)
    return date(year, parts.get("month", start.month), parts.get("day", start.day))


def _build_week_date(parts: Mapping[str, int], base: date | None) -> date:
    year, week, day = (1, 1, 1) if base is None else base.isocalendar()
    return date.fromisocalendar(parts.get("year", year), parts.get("week", week), parts.get("dayOfWeek", day))


def _build_quarter_date(parts: Mapping[str, int], base: date | None) -> date:
    start = base or date(1, 1, 1)
    first = date(start.year, _find_first_month(start), 1)
    quarter = parts.get("quarter", (first.month + 2) // _MONTHS_OF_QUARTER)
    begin = date(parts.get("year", start.year), (quarter - 1) * _MONTHS_OF_QUARTER + 1, 1)
    result = begin + timedelta(days=parts.get("dayOfQuarter", (start - first).days + 1) - 1)
    if result < begin or (result.year, _find_first_month(result)) != (begin.year, begin.month):
        msg = "a day of another quarter"
        raise ValueError(msg)
    return result


def _build_ordinal_date(parts: Mapping[str, int], base: date | None) -> date:
    start = base or date(1, 1, 1)
    year = parts.get("year", start.year)
    result = date(year, 1, 1) + timedelta(days=parts.get("ordinalDay", start.timetuple().tm_yday) - 1)
    if result.year != year:
        msg = "a day of another year"
        raise ValueError(msg)
    return result


_BUILDERS: Final = {
    "month": _build_calendar_date,
    "week": _build_week_date,
    "quarter": _build_quarter_date,
    "year": _build_ordinal_date,
}
