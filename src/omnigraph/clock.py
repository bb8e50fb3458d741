"""Read the time in one place, so that tests can replace it."""

import time
from datetime import UTC, datetime
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
