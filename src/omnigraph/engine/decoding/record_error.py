"""Errors of records and columns that can't be loaded."""

from collections.abc import Callable
from typing import TypeAlias

from omnigraph.errors import Kind, OmnigraphError


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
