"""Texts for people in an editor, in which nothing that a schema or a graph holds becomes markup."""

import re

from lsprotocol.types import MarkupContent, MarkupKind

from omnigraph.lang.lexer import reveal

_MAX_LINES = 40
_MAX_CHARACTERS = 2000


def build_markup(code: str, note: str | None, *, language: str, is_plain: bool) -> MarkupContent:
    """Return code and a note about it; both are shown as they are written, whatever they hold."""
    shown = show_lines(code)
    text = "" if note is None else show_lines(note)
    if is_plain:
        return MarkupContent(MarkupKind.PlainText, f"{shown}\n\n{text}".rstrip())
    parts = [_fence(shown, language)]
    if text:
        # A fence too: an escaped text may still hold what one editor or another takes for a link.
        parts.append(_fence(text, "text"))
    return MarkupContent(MarkupKind.Markdown, "\n\n".join(parts))


def show_lines(text: str) -> str:
    """Return a text without invisible characters, clipped."""
    lines = [reveal(line) for line in re.split(r"\r\n|\n|\r", text[:_MAX_CHARACTERS])]
    clipped = len(lines) > _MAX_LINES or len(text) > _MAX_CHARACTERS
    return "\n".join([*lines[:_MAX_LINES], *(["…"] if clipped else [])])


def _fence(text: str, language: str) -> str:
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"
