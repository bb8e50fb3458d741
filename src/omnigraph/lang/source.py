"""A source text with a name, and spans of it."""

import bisect
import re
from dataclasses import dataclass
from functools import cached_property

BYTE_ORDER_MARK = "\ufeff"

_LINE_BREAK = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A half-open range of characters `[start, end)` of one source."""

    start: int
    end: int

    def to(self, other: "Span") -> "Span":
        """Return the span from the start of this one to the end of `other`."""
        return Span(self.start, max(self.end, other.end))

    @property
    def after(self) -> "Span":
        """The empty span right after this one: where something is missing."""
        return Span(self.end, self.end)


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A position for people: line and column, both from 1, columns in characters."""

    line: int
    column: int


@dataclass(frozen=True)
class Source:
    """A text and the name under which messages show it; a part of a text begins with another line than the first."""

    text: str
    name: str = "<input>"
    first_line: int = 1

    @cached_property
    def line_starts(self) -> tuple[int, ...]:
        r"""The offset at which each line starts; `\n`, `\r\n` and `\r` all end one.

        A byte order mark at the start of the text belongs to no line: editors neither show nor count it.
        """
        return (int(self.text.startswith(BYTE_ORDER_MARK)), *(match.end() for match in _LINE_BREAK.finditer(self.text)))

    def position(self, offset: int) -> Position:
        """Return the line and column of an offset; an offset after the end is the end."""
        offset = min(max(offset, 0), len(self.text))
        line = max(bisect.bisect_right(self.line_starts, offset), 1)
        column = max(offset - self.line_starts[line - 1], 0) + 1
        return Position(line + self.first_line - 1, column)

    def line(self, number: int) -> str:
        """Return the text of a line (from `first_line`), without its line break."""
        index = number - self.first_line
        start = self.line_starts[index]
        end = self.line_starts[index + 1] if index + 1 < len(self.line_starts) else len(self.text)
        return self.text[start:end].rstrip("\r\n")

    def slice(self, span: Span) -> str:
        """Return the text of a span."""
        return self.text[span.start : span.end]
