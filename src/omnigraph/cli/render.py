"""What commands print: text for people, one JSON document for programs, colours on a terminal only."""

import json
import os
import sys
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import BinaryIO, TextIO, cast

from omnigraph.errors import OutputError
from omnigraph.lang.lexer import reveal


class ReaderGoneError(Exception):
    """Whoever read our output has stopped reading; there is nobody left to tell anything."""


def use_color(choice: str, stream: TextIO | None) -> bool:
    """Whether to colour what goes to `stream`: `always`, `never`, or by terminal, NO_COLOR and TERM."""
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream is not None and stream.isatty()


def print_json(document: object) -> None:
    """The one JSON document of a command, on stdout."""
    print_text(format_json(document, sys.stdout, indent=2) + "\n")


def format_json(document: object, stream: TextIO | None, *, indent: int | None = None) -> str:
    """JSON that `stream` can encode: readable where that is UTF-8, in ASCII where it is not."""
    encoding = None if stream is None else stream.encoding
    is_utf8 = (encoding or "").lower().replace("-", "") == "utf8"
    return json.dumps(document, ensure_ascii=not is_utf8, indent=indent, default=str)


def print_text(text: str) -> None:
    """Text on stdout, as it is. A lone surrogate of a file name is shown escaped, never an exception."""
    try:
        sys.stdout.write(text)
    except UnicodeEncodeError:
        encoding = sys.stdout.encoding or "utf-8"
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
    except BrokenPipeError as error:
        raise ReaderGoneError from error
    except OSError as error:
        raise OutputError(error.strerror or str(error)) from error


def print_error(text: str) -> None:
    """A message on stderr, on lines of its own; nobody reads it if whoever started us has closed that."""
    if sys.stderr is not None:
        sys.stderr.write(text + "\n")


def require_output() -> None:
    """Refuse to run with stdout closed: Python then has none, and the result would be lost without a word."""
    if sys.stdout is None:
        reason = "stdout is closed"
        raise OutputError(reason)


def flush_output() -> None:
    """Write what is still buffered, so that a full disk is an error and not a silent loss."""
    try:
        sys.stdout.flush()
    except BrokenPipeError as error:
        raise ReaderGoneError from error
    except OSError as error:
        raise OutputError(error.strerror or str(error)) from error


def discard_output() -> None:
    """Point stdout at nothing, so that the interpreter's last flush does not fail again."""
    if sys.stdout is None:
        return
    try:
        descriptor = sys.stdout.fileno()
    except OSError:  # a stream without a descriptor, in tests
        return
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, descriptor)
    os.close(nothing)


def format_count(number: int, thing: str) -> str:
    """`1 error`, `2 errors`."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def format_facts(facts: Mapping[str, str | None]) -> str:
    """One fact a line, the values below each other; a fact without a value is left out."""
    shown = {name: value for name, value in facts.items() if value is not None}
    width = max(map(len, shown), default=0)
    return "".join(f"{name:{width}}  {reveal(value)}\n" for name, value in shown.items())


def format_table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, right: Collection[str] = ()) -> str:
    """A table with aligned columns and no lines; the columns named in `right` are numbers."""
    cells = [list(headers), *([reveal(cell) for cell in row] for row in rows)]
    widths = [max(map(measure_width, column)) for column in zip(*cells, strict=True)]
    lines = ["  ".join(_pad_cells(headers, row, widths, right)).rstrip() for row in cells]
    return "\n".join(lines) + "\n"


def _pad_cells(
    headers: Sequence[str], row: Sequence[str], widths: Sequence[int], right: Collection[str]
) -> Iterator[str]:
    for header, cell, width in zip(headers, row, widths, strict=True):
        blank = " " * (width - measure_width(cell))
        yield blank + cell if header in right else cell + blank


def measure_width(text: str) -> int:
    """How many columns of a terminal a text takes: East Asian characters and emoji two, marks on others none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def get_binary_stdout() -> BinaryIO:
    """Stdout for bytes, behind what was written as text."""
    sys.stdout.flush()
    return cast("BinaryIO", sys.stdout.buffer)


@contextmanager
def translate_output_errors() -> Iterator[None]:
    """What goes wrong with writing to stdout, in our terms."""
    try:
        yield
    except BrokenPipeError as error:
        raise ReaderGoneError from error
    except OSError as error:
        raise OutputError(error.strerror or str(error)) from error
