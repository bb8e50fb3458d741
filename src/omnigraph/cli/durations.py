"""Durations on the command line: `90s`, `15m`, `24h`, `7d`, `2w`."""

from datetime import timedelta

import click

from omnigraph.clock import parse_duration


class Duration(click.ParamType[timedelta]):
    """A whole number of seconds, minutes, hours, days or weeks."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """Parse a duration; a usage error shows how one is written."""
        # click may pass a value that is already converted.
        if isinstance(value, timedelta):
            return value
        try:
            duration = parse_duration(str(value))
        except OverflowError:
            self.fail(f"`{value}` is too long for a duration", param, ctx)
        if duration is None:
            self.fail(f"`{value}` is not a duration, such as 90s, 15m, 24h, 7d or 2w", param, ctx)
        return duration


DURATION = Duration()


def format_duration(duration: timedelta) -> str:
    """Format a duration as `Duration` parses it, in the largest unit up to days that divides it."""
    seconds = int(duration.total_seconds())
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds and seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
