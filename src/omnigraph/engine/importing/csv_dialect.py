"""A reader of CSV in any dialect, which knows for each cell its line and whether it was quoted."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache

from omnigraph.engine.decoding.input_files import FileDamagedError

# The delimiters that a header is searched for, unless one is given.
DELIMITERS = (",", "\t", ";", "|")
BYTE_ORDER_MARK = "\ufeff"


@dataclass(frozen=True, slots=True)
class Cell:
    """The text of a cell. Only a cell without quotes can be a null."""

    text: str
    is_quoted: bool = False


@dataclass(frozen=True, slots=True)
class CsvRecord:
    """The cells of a record, and the line of the file on which it starts, counted from 1 as editors do."""

    line: int
    cells: tuple[Cell, ...]


def guess_delimiter(header: str) -> str:
    """Return the delimiter that occurs most in a header outside of quotes; a comma if none does."""
    bare = re.sub(r'"[^"]*"', "", header)
    return max(DELIMITERS, key=lambda sign: (bare.count(sign), -DELIMITERS.index(sign)))


def read_records(lines: Iterable[str], delimiter: str, path: str) -> Iterator[CsvRecord]:
    """Yield the records of a file's lines, which keep their line breaks; blank lines are none.

    Raises:
        FileDamagedError: A quote is never closed, stands inside of a cell, or is followed by text.
    """
    pending: list[str] = []
    is_quoted = False
    start = 1
    for number, line in enumerate(lines, start=1):
        if not pending:
            start = number
            line = line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line  # noqa: PLW2901 - the rest of the line
        pending.append(line)
        # An even number of quotes closes each one that is opened; a doubled quote counts as two.
        is_quoted ^= line.count('"') % 2 == 1
        if not is_quoted:
            text = "".join(pending).rstrip("\r\n")
            pending.clear()
            if text:
                yield CsvRecord(start, _split_record(text, delimiter, path, start))
    if pending:
        raise FileDamagedError(path, f"the quote that is opened on line {start} is never closed")


def _split_record(text: str, delimiter: str, path: str, line: int) -> tuple[Cell, ...]:
    if '"' not in text:
        return tuple(map(Cell, text.split(delimiter)))
    cells: list[Cell] = []
    position = 0
    pattern = _build_cell_pattern(delimiter)
    while True:
        match = pattern.match(text, position)
        if match is None:
            reason = (
                'a quote stands inside of a cell or text follows one; write the cell in quotes, its own twice (`""`)'
            )
            raise FileDamagedError(path, f"on line {line}, {reason}")
        quoted = match["quoted"]
        cells.append(Cell(match["bare"]) if quoted is None else Cell(quoted.replace('""', '"'), is_quoted=True))
        position = match.end()
        if position >= len(text) and not match["sign"]:
            return tuple(cells)


@cache
def _build_cell_pattern(delimiter: str) -> re.Pattern[str]:
    """Return the pattern of one cell and the delimiter after it; possessive, so that it takes linear time."""
    sign = re.escape(delimiter)
    bare = rf'(?P<bare>(?:(?!{sign})[^"])*+)'
    return re.compile(rf'(?:"(?P<quoted>(?:[^"]++|"")*+)"|{bare})(?P<sign>{sign}|\Z)', re.DOTALL)
