"""The text of an open file, and its places in the units that a client counts in."""

import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from lsprotocol.types import Position, PositionEncodingKind, Range, TextDocumentContentChangePartial

from omnigraph.lang.source import Span

# Not `str.splitlines`, which knows ten more ends of a line than editors do.
_LINE_BREAK: Final = re.compile(r"\r\n|\n|\r")
_CODECS: Final = {PositionEncodingKind.Utf8: "utf-8", PositionEncodingKind.Utf16: "utf-16-le"}


@dataclass(frozen=True)
class Text:
    """A text whose positions are counted in units of `encoding`; what lies outside of it is its nearest end."""

    value: str
    encoding: str = PositionEncodingKind.Utf16

    @cached_property
    def line_starts(self) -> list[int]:
        """The offset at which each line starts."""
        return [0, *(match.end() for match in _LINE_BREAK.finditer(self.value))]

    def offset(self, position: Position) -> int:
        """Return the offset of a position."""
        if position.line >= len(self.line_starts):
            return len(self.value)
        start = self.line_starts[max(position.line, 0)]
        line = self._line(max(position.line, 0))
        units = max(position.character, 0)
        if line.isascii() or self.encoding == PositionEncodingKind.Utf32:
            return start + min(units, len(line))
        for index, char in enumerate(line):
            # In the middle of a character is before it.
            units -= self._measure(char)
            if units < 0:
                return start + index
        return start + len(line)

    def position(self, offset: int) -> Position:
        """Return the position of an offset."""
        offset = min(max(offset, 0), len(self.value))
        line = bisect_right(self.line_starts, offset) - 1
        return Position(line, self._measure(self.value[self.line_starts[line] : offset]))

    def range(self, span: Span) -> Range:
        """Return the range of a span."""
        return Range(self.position(span.start), self.position(span.end))

    def span(self, range_: Range) -> Span:
        """Return the span of a range."""
        start, end = self.offset(range_.start), self.offset(range_.end)
        return Span(min(start, end), max(start, end))

    def change(self, change: TextDocumentContentChangePartial) -> "Text":
        """Return the text after a change of a part."""
        span = self.span(change.range)
        return Text(self.value[: span.start] + change.text + self.value[span.end :], self.encoding)

    def measure(self, span: Span) -> int:
        """Return the length of a span within one line, in units."""
        return self._measure(self.value[span.start : span.end])

    def _line(self, number: int) -> str:
        starts = self.line_starts
        end = starts[number + 1] if number + 1 < len(starts) else len(self.value)
        return self.value[starts[number] : end].rstrip("\r\n")

    def _measure(self, text: str) -> int:
        codec = _CODECS.get(PositionEncodingKind(self.encoding))
        if codec is None or text.isascii():
            return len(text)
        units = len(text.encode(codec, "surrogatepass"))
        return units // 2 if codec == "utf-16-le" else units
