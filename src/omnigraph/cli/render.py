"""Output of commands: text for people, one JSON document for programs, colours on a terminal only."""

import codecs
import io
import json
import os
import shutil
import sys
import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO, TextIO, cast

from omnigraph.errors import OutputError
from omnigraph.lang.lexer import is_invisible, reveal

if TYPE_CHECKING:
    from typing_extensions import Buffer

_DIVIDERS = frozenset("\n\r\t")

# Between two columns of a table.
_GAP = "  "
# No column is made narrower to fit a table into a terminal: a few characters tell values apart.
_MIN_COLUMN_WIDTH = 8


class ReaderGoneError(Exception):
    """The reader of stdout has closed the pipe; further output is pointless."""


def use_color(choice: str, stream: TextIO | None) -> bool:
    """Return whether to colour text on `stream`: by the choice, or for `auto` by terminal, NO_COLOR and TERM."""
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream is not None and stream.isatty()


def print_json(document: object) -> None:
    """Print the one JSON document of a command on stdout."""
    print_text(format_json(document, sys.stdout, indent=2) + "\n")


def format_json(document: object, stream: TextIO | None, *, indent: int | None = None) -> str:
    """Encode JSON for `stream`: as UTF-8 if that is its encoding, else in ASCII."""
    encoding = None if stream is None else stream.encoding
    is_utf8 = (encoding or "").lower().replace("-", "") == "utf8"
    text = json.dumps(document, ensure_ascii=not is_utf8, indent=indent, default=str)
    return escape_json(text) if stream is not None and stream.isatty() else text


def escape_json(text: str) -> str:
    """Escape invisible characters of JSON but line feeds, so that a terminal obeys none; its values stay the same."""
    return _replace_invisible(text, lambda char: json.dumps(char)[1:-1])


def reveal_lines(text: str) -> str:
    """Show the invisible characters of a text but those that divide it: line breaks and tabs."""
    return _replace_invisible(text, reveal)


def _replace_invisible(text: str, replace: Callable[[str], str]) -> str:
    found = {char for char in set(text) - _DIVIDERS if is_invisible(char)}
    return text.translate({ord(char): replace(char) for char in found}) if found else text


class TerminalBytes(io.RawIOBase):
    """Bytes of UTF-8 for stdout, of which each text goes through a function before it is printed."""

    def __init__(self, escape: Callable[[str], str]) -> None:
        self._escape = escape
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def writable(self) -> bool:
        """Return that it can be written to."""
        return True

    def write(self, data: "Buffer") -> int:
        """Print some bytes; a character that is cut off waits for its rest."""
        content = bytes(data)
        print_text(self._escape(self._decoder.decode(content)))
        return len(content)


def print_text(text: str) -> None:
    """Print text on stdout unchanged, but escape characters that its encoding does not have."""
    with translate_output_errors():
        try:
            sys.stdout.write(text)
        except UnicodeEncodeError:
            # Such as a lone surrogate, with which Python represents a file name that is not UTF-8.
            encoding = sys.stdout.encoding or "utf-8"
            sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))


def print_error(text: str) -> None:
    """Print a message on stderr, unless the parent process has closed it."""
    if sys.stderr is not None:
        sys.stderr.write(text + "\n")


def require_output() -> None:
    """Check that stdout is open: without it, the result would be lost silently.

    Raises:
        OutputError: the parent process has closed stdout.
    """
    if sys.stdout is None:
        reason = "stdout is closed"
        raise OutputError(reason)


def flush_output() -> None:
    """Flush stdout, so that a full disk is an error and not a silent loss."""
    with translate_output_errors():
        sys.stdout.flush()


def discard_output() -> None:
    """Redirect stdout to the null device, so that the interpreter's last flush does not fail again."""
    if sys.stdout is None:
        return
    try:
        descriptor = sys.stdout.fileno()
    except OSError:  # a stream without a descriptor, in tests
        return
    null_device = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null_device, descriptor)
    os.close(null_device)


def format_count(number: int, thing: str, plural: str | None = None) -> str:
    """Format a number of things: `1 error`, `2 errors`; `plural` is for words that take more than an s."""
    return f"{number} {thing}" if number == 1 else f"{number} {plural or thing + 's'}"


def format_facts(facts: Mapping[str, str | None]) -> str:
    """Format one fact per line, with aligned values; facts without a value are left out."""
    present = {name: value for name, value in facts.items() if value is not None}
    width = max(map(len, present), default=0)
    return "".join(f"{name:{width}}  {reveal(value)}\n" for name, value in present.items())


def format_table(
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: Collection[str] = (),
    max_width: int | None = None,
) -> str:
    """Format a table with aligned columns and no borders; the columns named in `right` are right-aligned.

    With `max_width`, the widest columns are shortened until a line fits into this number of terminal columns.
    """
    cells = [list(headers), *([reveal(cell) for cell in row] for row in rows)]
    widths = [max(map(measure_width, column)) for column in zip(*cells, strict=True)]
    if max_width is not None:
        limit = find_column_limit(widths, max_width)
        cells = [[shorten_to_width(cell, limit) for cell in row] for row in cells]
        widths = [max(map(measure_width, column)) for column in zip(*cells, strict=True)]
    lines = [_GAP.join(_pad_cells(headers, row, widths, right)).rstrip() for row in cells]
    return "\n".join(lines) + "\n"


def _pad_cells(
    headers: Sequence[str], row: Sequence[str], widths: Sequence[int], right: Collection[str]
) -> Iterator[str]:
    for header, cell, width in zip(headers, row, widths, strict=True):
        blank = " " * (width - measure_width(cell))
        yield blank + cell if header in right else cell + blank


def find_column_limit(widths: Sequence[int], max_width: int) -> int:
    """Return the largest width of a column with which a line fits; narrower columns stay as they are.

    Columns stay recognizable: with very many of them a line is wider than the limit.
    """
    missing = max_width - len(_GAP) * (len(widths) - 1)
    for number, width in enumerate(sorted(widths)):
        # What is left is shared evenly by the columns that are at least this wide.
        share = missing // (len(widths) - number)
        if width > share:
            return max(share, _MIN_COLUMN_WIDTH)
        missing -= width
    return max(widths, default=_MIN_COLUMN_WIDTH)


def shorten_to_width(text: str, max_width: int) -> str:
    """Return the beginning of a text that is wider than a number of terminal columns, with an ellipsis."""
    if measure_width(text) <= max_width:
        return text
    # By terminal columns, not characters: an East Asian character takes two. The ellipsis takes the first.
    width = 1
    prefix = ""
    for char in text:
        width += measure_width(char)
        if width > max_width:
            break
        prefix += char
    return prefix + "…"


def measure_terminal() -> int | None:
    """Return the number of columns of the terminal that stdout is, or None if it is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def measure_width(text: str) -> int:
    """Return the number of terminal columns of a text.

    East Asian characters and emoji take two columns, combining marks none.
    """
    if text.isascii():
        return len(text)
    return sum(map(_measure_char, text))


def _measure_char(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def get_binary_stdout() -> BinaryIO:
    """Return stdout for bytes, after flushing the text written so far."""
    sys.stdout.flush()
    return cast("BinaryIO", sys.stdout.buffer)


@contextmanager
def translate_output_errors() -> Iterator[None]:
    """Translate errors of writing to stdout into ReaderGoneError and OutputError."""
    try:
        yield
    except BrokenPipeError as error:
        raise ReaderGoneError from error
    except OSError as error:
        raise OutputError(error.strerror or str(error)) from error
