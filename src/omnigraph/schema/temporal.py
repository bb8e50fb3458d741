"""Dates and times as text: strict in, canonical out."""

import re
from datetime import UTC, date, datetime, timedelta, timezone

from omnigraph.schema.misfit import InvalidValue, format_value

_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_DATETIME = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]+))?"
    r"(?:([Zz])|([+-])([0-9]{2}):([0-9]{2}))"
)
_NO_ZONE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([Tt ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?)?")

EXPECTED_DATE = 'a date "YYYY-MM-DD"'
EXPECTED_DATETIME = 'a time with its zone, such as "2026-01-02T03:04:05Z"'


def parse_date(text: str) -> date | InvalidValue:
    """The date of `YYYY-MM-DD`, years 0001 to 9999; every other spelling is a misfit."""
    if (parts := _DATE.fullmatch(text)) is None:
        return InvalidValue(f"expected {EXPECTED_DATE}, got {format_value(text)}")
    try:
        return date(*map(int, parts.groups()))
    except ValueError:
        return InvalidValue(f"{format_value(text)} is not a day of the calendar (years 0001 to 9999)")


def parse_datetime(text: str) -> datetime | InvalidValue:
    """The instant of an RFC 3339 text, in UTC; what microseconds and the years 0001 to 9999 can't hold is a misfit."""
    if (parts := _DATETIME.fullmatch(text)) is None:
        hint = "; it has no zone" if _NO_ZONE.fullmatch(text) else ""
        return InvalidValue(f"expected {EXPECTED_DATETIME}, got {format_value(text)}{hint}")
    year, month, day, hour, minute, second, fraction, zulu, sign, zone_hour, zone_minute = parts.groups()
    if int(second) == 60:
        return InvalidValue(f"{format_value(text)} is a leap second, which has no place in a DateTime")
    digits = fraction or ""
    if digits[6:].strip("0"):
        return InvalidValue(f"{format_value(text)} is finer than a microsecond: keep at most 6 digits behind the point")
    offset = timedelta()
    if not zulu:
        if int(zone_hour) > 23 or int(zone_minute) > 59:
            return InvalidValue(f"{format_value(text)} has a zone that is no offset from -23:59 to +23:59")
        offset = timedelta(hours=int(zone_hour), minutes=int(zone_minute)) * (-1 if sign == "-" else 1)
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
    """`YYYY-MM-DD`."""
    return value.isoformat()


def format_datetime(value: datetime) -> str:
    """The canonical text of an aware time: UTC with `Z`, six digits of fraction or none."""
    if value.tzinfo is None:
        msg = "a DateTime value needs a zone"
        raise ValueError(msg)
    return value.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"
