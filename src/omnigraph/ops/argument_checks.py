"""Arguments of calls from Python that are checked before anything is done."""

from datetime import datetime, timedelta
from enum import Enum
from operator import index
from typing import SupportsFloat, SupportsIndex, TypeVar

from omnigraph.errors import Kind, OmnigraphError
from omnigraph.lang.spelling import find_closest
from omnigraph.schema.values import format_value

Choice = TypeVar("Choice", bound=Enum)


class BadArgumentError(OmnigraphError):
    """An argument of a call has a value that it can't have; `expected` says which it may have."""

    kind = Kind.USAGE
    code = "bad_argument"

    def __init__(self, argument: str, value: str, expected: str) -> None:
        super().__init__(argument, value, expected)
        self.argument, self.value, self.expected = argument, value, expected

    def __str__(self) -> str:
        what = f"`{self.argument}`" if self.argument.isidentifier() else self.argument
        return f"{what} can't be {self.value}: {self.expected}"


def parse_choice(argument: str, choices: type[Choice], value: Choice | str) -> Choice:
    """The choice of that name, or BadArgumentError with all names."""
    if isinstance(value, choices):
        return value
    names = {str(one.value): one for one in choices}
    if isinstance(value, str) and value in names:
        return names[value]
    near = find_closest(value, names) if isinstance(value, str) else None
    hint = f"; did you mean `{near}`?" if near else ""
    raise BadArgumentError(argument, format_value(value), f"it is one of {', '.join(names)}{hint}")


def check_text(argument: str, value: object) -> None:
    """BadArgumentError unless it is a text; `argument` is its name, or what it is, such as `a state`."""
    if not isinstance(value, str):
        raise BadArgumentError(argument, _describe_value(value), "it is a text")


def check_count(argument: str, value: object, *, minimum: int = 0) -> None:
    """BadArgumentError unless it is a whole number that large, or left out."""
    if value is None:
        return
    if isinstance(value, SupportsIndex) and not isinstance(value, bool) and index(value) >= minimum:
        return
    raise BadArgumentError(argument, format_value(value), f"it is a whole number from {minimum} on")


def check_number(argument: str, value: object) -> None:
    """BadArgumentError unless it is a number, not below zero, or left out."""
    if value is None:
        return
    if isinstance(value, SupportsFloat) and not isinstance(value, bool) and float(value) >= 0:
        return
    raise BadArgumentError(argument, format_value(value), "it is a number from 0 on")


def check_duration(argument: str, value: object, longest: timedelta) -> None:
    """BadArgumentError unless it is a length of time that is not below zero nor too long, or left out."""
    if value is None:
        return
    if not isinstance(value, timedelta) or value < timedelta():
        told = str(value) if isinstance(value, timedelta) else format_value(value)
        raise BadArgumentError(argument, told, "it is a length of time, such as timedelta(days=7)")
    if value > longest:
        raise BadArgumentError(argument, str(value), f"it is at most {longest.days} days")


def _describe_value(value: object) -> str:
    return "None" if value is None else f"of type {type(value).__name__}"


def check_instant(argument: str, at: object) -> None:
    """BadArgumentError unless it is a time with a zone: without one, nobody knows which instant is meant."""
    if isinstance(at, datetime) and at.utcoffset() is not None:
        return
    told = f"`{at}` without a zone" if isinstance(at, datetime) else f"of type {type(at).__name__}"
    raise BadArgumentError(argument, told, "it is a time with a zone, such as datetime(2026, 1, 31, 12, tzinfo=UTC)")


def check_max_errors(max_errors: object, *, has_directory: bool) -> None:
    """BadArgumentError unless it is a count, and there is a directory for bad records."""
    if max_errors is None:
        return
    if isinstance(max_errors, bool) or not isinstance(max_errors, int) or max_errors < 0:
        raise BadArgumentError("max_errors", format_value(max_errors), "it is a whole number from 0 on")
    if not has_directory:
        raise BadArgumentError(
            "max_errors", str(max_errors), "without `on_error`, a directory, the first bad record fails the load"
        )


def check_if_exists(if_exists: object, *, has_source: bool) -> None:
    """Check that `if_exists` is a truth value, and is set only for a branch that a load makes.

    Raises:
        BadArgumentError: It is not.
    """
    if not isinstance(if_exists, bool):
        raise BadArgumentError("if_exists", format_value(if_exists), "it is True or False")
    if if_exists and not has_source:
        raise BadArgumentError("if_exists", "True", "it goes with `from_`; without that the branch has to be there")
