"""Lengths of time on the command line: `90s`, `15m`, `24h`, `7d`, `2w`."""

import re
from datetime import timedelta

import click

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_DURATION_PATTERN = re.compile(r"(\d{1,9})([smhdw])")


class Duration(click.ParamType[timedelta]):
    """A whole number of seconds, minutes, hours, days or weeks."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """The length of time, or a usage error that says how one is written."""
        if isinstance(value, timedelta):
            return value
        found = _DURATION_PATTERN.fullmatch(str(value))
        if found is None:
            self.fail(f"`{value}` is no length of time: write 90s, 15m, 24h, 7d or 2w", param, ctx)
        try:
            return timedelta(**{_UNITS[found[2]]: int(found[1])})
        except OverflowError:
            self.fail(f"`{value}` is longer than anything", param, ctx)


DURATION = Duration()


def format_duration(length: timedelta) -> str:
    """A length of time as it is written here, in the largest unit that fits."""
    seconds = int(length.total_seconds())
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds and seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
