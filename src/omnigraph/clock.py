"""Time, read in one place so that every test can replay it."""

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What the engine may ask about time."""

    def now(self) -> datetime:
        """The current instant, aware and in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go backwards, for deadlines and intervals."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        """The current instant in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """The process's monotonic clock."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Block the calling thread."""
        time.sleep(seconds)


def format_instant(instant: datetime) -> str:
    """RFC 3339 in UTC with `Z`; a zero fraction is left out."""
    text = instant.astimezone(UTC).isoformat(timespec="auto")
    return text.replace("+00:00", "Z")


def parse_instant(text: str) -> datetime:
    """The inverse of `format_instant`; ValueError for a text without zone, or beyond the years 1 to 9999 in UTC."""
    instant = datetime.fromisoformat(text)
    if instant.tzinfo is None:
        msg = f"a time needs a zone, such as `Z`: {text!r}"
        raise ValueError(msg)
    try:
        return instant.astimezone(UTC)
    except OverflowError as error:
        msg = f"a time is within the years 1 to 9999 in UTC: {text!r}"
        raise ValueError(msg) from error
