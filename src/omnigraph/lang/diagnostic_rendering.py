"""Diagnostics for people (text with a caret) and for programs (JSON); both can be printed whatever the source holds."""

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from omnigraph.lang.diagnostic_codes import DiagnosticSeverity
from omnigraph.lang.diagnostics import MAX_DIAGNOSTICS, Diagnostic
from omnigraph.lang.lexer import reveal
from omnigraph.lang.source import Source, Span

# The limit of columns that are shown of a source line.
MAX_LINE_COLUMNS = 100

_COLUMNS_BEFORE_CARET = 30  # columns kept in front of the caret when a line is clipped
_TAB_WIDTH = 4
_RESET = "\x1b[0m"
_BOLD = "\x1b[1m"
_BLUE = "\x1b[1;34m"
_COLORS = {DiagnosticSeverity.ERROR: "\x1b[1;31m", DiagnosticSeverity.WARNING: "\x1b[1;33m"}


def render_text(source: Source, diagnostics: Iterable[Diagnostic], *, color: bool = False) -> str:
    """Render each diagnostic with its source line and carets, separated by blank lines; "" for none.

    Of errors and of warnings the first 50 each are shown, and a last line tells how many more there are.
    """
    shown: dict[DiagnosticSeverity, int] = dict.fromkeys(DiagnosticSeverity, 0)
    left_out = dict(shown)
    parts: list[str] = []
    for diagnostic in diagnostics:
        counts = shown if shown[diagnostic.severity] < MAX_DIAGNOSTICS else left_out
        counts[diagnostic.severity] += 1
        if counts is shown:
            parts.append(_render_diagnostic(source, diagnostic, _Painter(color)))
    more = " and ".join(
        _format_count(number, f"more {severity.value}") for severity, number in left_out.items() if number
    )
    if more:
        parts.append(f"… and {more} in {reveal(source.name)}\n")
    return "\n".join(parts)


def diagnostic_to_json(source: Source, diagnostic: Diagnostic) -> dict[str, object]:
    """Return the diagnostic as JSON values, whose strings can all be encoded as UTF-8."""
    return {
        "code": diagnostic.code,
        "severity": diagnostic.severity.value,
        "message": _escape_surrogates(diagnostic.message),
        "help": None if diagnostic.help is None else _escape_surrogates(diagnostic.help),
        "file": _escape_surrogates(source.name),
        "start": _position_to_json(source, diagnostic.span.start),
        "end": _position_to_json(source, diagnostic.span.end),
    }


# --- text ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Painter:
    """A painter that wraps text in escape codes if colours are on."""

    on: bool

    def __call__(self, code: str, text: str) -> str:
        return f"{code}{text}{_RESET}" if self.on else text


@dataclass(frozen=True, slots=True)
class _Cell:
    """One character of a source line as it is shown, and the columns this takes."""

    text: str
    width: int


def _render_diagnostic(source: Source, diagnostic: Diagnostic, paint: _Painter) -> str:
    place = source.position(diagnostic.span.start)
    severity = diagnostic.severity
    shown, marks = _render_line(source, diagnostic.span)
    number = f"{place.line:>3}"
    margin = " " * len(number)
    title = paint(_COLORS[severity], f"{severity.value}[{diagnostic.code}]")
    lines = [
        title + paint(_BOLD, f": {reveal(diagnostic.message)}"),
        f"{margin[2:]}{paint(_BLUE, '-->')} {reveal(source.name)}:{place.line}:{place.column}",
        f"{paint(_BLUE, f'{number} |')} {shown}".rstrip(),
        f"{paint(_BLUE, f'{margin} |')} {marks[0]}{paint(_COLORS[severity], marks[1])}",
    ]
    if diagnostic.help is not None:
        lines.append(f"{margin} {paint(_BLUE, '=')} {paint(_BOLD, 'help')}: {reveal(diagnostic.help)}")
    return "\n".join(lines) + "\n"


def _render_line(source: Source, span: Span) -> tuple[str, tuple[str, str]]:
    """Return the first line of the span as shown, the blanks before the carets, and the carets."""
    place = source.position(span.start)
    line = source.line(place.line)
    first = min(place.column - 1, len(line))
    last = max(first + 1, min(first + span.end - span.start, len(line)))
    # Only the part that may be shown is measured, so that a file of one huge line costs no more than another.
    cut = max(first - MAX_LINE_COLUMNS, 0)
    cells = _split_cells(line[cut : first + MAX_LINE_COLUMNS + 1])
    low, high = _select_window(cells, first - cut)
    before = sum(cell.width for cell in cells[low : first - cut])
    marked = sum(cell.width for cell in cells[first - cut : min(last - cut, high)])
    shown = "".join(cell.text for cell in cells[low:high])
    if cut + low > 0:
        shown = f"…{shown}"
        before += 1
    if cut + high < len(line):
        shown = f"{shown}…"
    return shown, (" " * before, "^" * max(marked, 1))


def _split_cells(line: str) -> list[_Cell]:
    cells = []
    column = 0
    for char in line:
        text = " " * (_TAB_WIDTH - column % _TAB_WIDTH) if char == "\t" else reveal(char)
        cell = _Cell(text, len(text) if text != char else _measure_width(char))
        column += cell.width
        cells.append(cell)
    return cells


def _measure_width(char: str) -> int:
    """Return the number of terminal columns of a visible character."""
    if unicodedata.combining(char) or unicodedata.category(char) in {"Mn", "Me"}:
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _select_window(cells: list[_Cell], first: int) -> tuple[int, int]:
    """Select the cells to show: all, or `MAX_LINE_COLUMNS` columns from a little before the first marked one."""
    if sum(cell.width for cell in cells) <= MAX_LINE_COLUMNS:
        return 0, len(cells)
    low, room = first, _COLUMNS_BEFORE_CARET
    while low > 0 and cells[low - 1].width <= room:
        low -= 1
        room -= cells[low].width
    high, room = low, MAX_LINE_COLUMNS
    while high < len(cells) and cells[high].width <= room:
        room -= cells[high].width
        high += 1
    return low, high


def _format_count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


# --- JSON ------------------------------------------------------------------------------------------------


def _position_to_json(source: Source, offset: int) -> dict[str, int]:
    place = source.position(offset)
    return {"line": place.line, "column": place.column, "offset": min(max(offset, 0), len(source.text))}


def _escape_surrogates(text: str) -> str:
    r"""Return the text with lone surrogates, which no encoding accepts, written as `\ud800`."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
