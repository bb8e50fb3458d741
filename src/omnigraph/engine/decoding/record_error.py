"""Errors of records and columns that can't be loaded."""

from collections.abc import Callable, Iterable
from typing import NamedTuple, Self, TypeAlias, cast

from omnigraph.errors import Kind, OmnigraphError

RECORD_RULE = "record"
"""The rule of a record that has not the form of its type."""


class FurtherProblem(NamedTuple):
    """Another problem of a record that is rejected for the first."""

    rule: str
    property: str | None
    value: str | None
    reason: str


class RecordError(OmnigraphError):
    """A record does not fit the schema; `unit` says whether `line` counts lines of text or rows after a header."""

    kind = Kind.INVALID
    code = "bad_record"
    file: str
    line: int
    type: str | None
    property: str | None
    value: str | None
    reason: str
    unit: str = "line"

    # No field of the error: whoever raises it stops at its first problem.
    def list_more(self) -> tuple[FurtherProblem, ...]:
        """Return the other problems of the record."""
        return cast("tuple[FurtherProblem, ...]", vars(self).get("_more", ()))

    def with_more(self, more: Iterable[FurtherProblem]) -> Self:
        """Add the other problems of the record, and return the error."""
        vars(self)["_more"] = (*self.list_more(), *more)
        return self

    def __str__(self) -> str:
        about = ".".join(part for part in (self.type, self.property) if part)
        return f"{self.file}, {self.unit} {self.line}: " + (f"`{about}`: " if about else "") + self.reason


class ColumnError(OmnigraphError):
    """A file of one type has a column that can't be loaded, or lacks a required one."""

    kind = Kind.INVALID
    code = "bad_column"
    file: str
    type: str
    column: str
    reason: str
    message = "{file}: {reason}"


Reject: TypeAlias = Callable[[RecordError, bytes], None]
"""A callback for a bad record: the reason and its original text. The record is left out; raising stops the read."""


def refuse(error: RecordError, text: bytes) -> None:  # noqa: ARG001 - the simplest `Reject`
    """Raise the error: stop at the first bad record."""
    raise error
