"""Durations on the command line: `90s`, `15m`, `24h`, `7d`, `2w`."""

import re
from datetime import timedelta

import click

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_DURATION_PATTERN = re.compile(r"(\d{1,9})([smhdw])")


class Duration(click.ParamType[timedelta]):
    """A whole number of seconds, minutes, hours, days or weeks."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """Parse a duration; a usage error shows how one is written."""
        # click may pass a value that is already converted.
        if isinstance(value, timedelta):
            return value
        match = _DURATION_PATTERN.fullmatch(str(value))
        if match is None:
            self.fail(f"`{value}` is not a duration, such as 90s, 15m, 24h, 7d or 2w", param, ctx)
        try:
            return timedelta(**{_UNITS[match[2]]: int(match[1])})
        except OverflowError:
            self.fail(f"`{value}` is too long for a duration", param, ctx)


DURATION = Duration()


def format_duration(duration: timedelta) -> str:
    """Format a duration as `Duration` parses it, in the largest unit up to days that divides it."""
    seconds = int(duration.total_seconds())
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds and seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
