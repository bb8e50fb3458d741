"""Read the time in one place, so that tests can replace it."""

import re
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """The clock that the engine uses."""

    def now(self) -> datetime:
        """Return the current instant, aware and in UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never go backwards, for deadlines and intervals."""
        ...

    def sleep(self, seconds: float) -> None:
        """Block the calling thread for some seconds."""
        ...


class SystemClock:
    """The system's clock."""

    def now(self) -> datetime:
        """Return the current instant in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return the process's monotonic clock."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Block the calling thread."""
        time.sleep(seconds)


def format_instant(instant: datetime) -> str:
    """Format an instant by RFC 3339 in UTC with `Z`; a zero fraction is left out."""
    text = instant.astimezone(UTC).isoformat(timespec="auto")
    return text.replace("+00:00", "Z")


def parse_instant(text: str) -> datetime:
    """Parse the text of an instant, the inverse of `format_instant`.

    Raises:
        ValueError: The text has no zone, or is outside the years 1 to 9999 in UTC.
    """
    instant = datetime.fromisoformat(text)
    if instant.tzinfo is None:
        msg = f"a time needs a zone, such as `Z`: {text!r}"
        raise ValueError(msg)
    try:
        return instant.astimezone(UTC)
    except OverflowError as error:
        msg = f"a time is within the years 1 to 9999 in UTC: {text!r}"
        raise ValueError(msg) from error


_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_DURATION_PATTERN = re.compile(r"([0-9]{1,9})([smhdw])")


def parse_duration(text: str) -> timedelta | None:
    """Parse a duration such as `90s`, `15m`, `24h`, `7d` or `2w`; None if the text is none.

    Raises:
        OverflowError: It is longer than any time.
    """
    match = _DURATION_PATTERN.fullmatch(text)
    return None if match is None else timedelta(**{_UNITS[match[2]]: int(match[1])})


def parse_moment(text: str, now: datetime) -> datetime:
    """Parse an instant, or a duration before `now`: `2h` is two hours ago.

    Raises:
        ValueError: The text is neither, or outside the years 1 to 9999.
    """
    try:
        duration = parse_duration(text)
        return parse_instant(text) if duration is None else now - duration
    except OverflowError as error:
        msg = f"a time is within the years 1 to 9999 in UTC: {text!r}"
        raise ValueError(msg) from error
