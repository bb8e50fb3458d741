"""Schema and query files, read as sources."""

import errno
import sys
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from omnigraph.errors import (
    FileDeniedError,
    FileMissingError,
    FileUnreadableError,
    NotAFileError,
    OmnigraphError,
    TextEncodingError,
    TextTooLargeError,
)
from omnigraph.lang.source import Source

if TYPE_CHECKING:
    from io import BufferedReader

STDIN = "-"
STDIN_NAME = "<stdin>"
INLINE_NAME = "<-e>"
"""What a text is called that was typed on the command line."""
MAX_SOURCE_BYTES = 16 * 1024 * 1024


def read_source(path: str) -> Source:
    """The text of a file, or of stdin for `-`; whatever stands in the way is an error that names the file."""
    name = STDIN_NAME if path == STDIN else path
    try:
        if path == STDIN:
            data = _read_stdin()
        else:
            with Path(path).open("rb") as file:
                data = file.read(MAX_SOURCE_BYTES + 1)
    except (OSError, ValueError) as error:
        raise build_file_error(name, "read", error) from error
    if len(data) > MAX_SOURCE_BYTES:
        raise TextTooLargeError(name, MAX_SOURCE_BYTES)
    try:
        return Source(data.decode("utf-8"), name)
    except UnicodeDecodeError as error:
        raise TextEncodingError(name, error.start, data[error.start]) from error


def _read_stdin() -> bytes:
    if sys.stdin is None:  # whoever started us has closed it
        reason = "stdin is closed"
        raise ValueError(reason)
    # In pieces: between two of them an interrupt is noticed, within one long read it may not be.
    stdin = cast("BufferedReader", sys.stdin.buffer)
    data = bytearray()
    while len(data) <= MAX_SOURCE_BYTES and (piece := stdin.read1()):
        data += piece
    return bytes(data)


def find_language_files(path: str, suffixes: Collection[str]) -> list[str]:
    """The files that a word of the command line stands for: itself, or those below a directory, by their suffixes.

    What is hidden is left out. A directory without such a file is an error: nothing would be checked.
    """
    place = Path(path)
    if path == STDIN or not place.is_dir():
        return [path]
    below = sorted(one for one in place.rglob("*") if one.suffix in suffixes and one.is_file())
    found = [str(one) for one in below if not any(part.startswith(".") for part in one.relative_to(place).parts)]
    if not found:
        message = f"`{path}` is a directory without a file that ends in {' or '.join(sorted(suffixes))}"
        raise click.UsageError(message, click.get_current_context())
    return found


def require_directory(path: str) -> Path:
    """A directory that is there; anything else is an error that says so."""
    place = Path(path)
    if place.is_dir():
        return place
    if not place.exists():
        raise FileMissingError(path)
    message = f"`{path}` is a file; name the directory that it is in"
    raise click.UsageError(message, click.get_current_context())


def build_file_error(path: str, action: str, error: OSError | ValueError) -> OmnigraphError:
    """What stands in the way of reading or writing a file, in our words."""
    if isinstance(error, ValueError):  # a path with a NUL, a closed stdin
        return FileUnreadableError(path, str(error))
    match error.errno:
        case errno.ENOENT | errno.ENOTDIR | errno.ENAMETOOLONG:
            return FileMissingError(path)
        case errno.EISDIR:
            return NotAFileError(path)
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return FileDeniedError(path, action)
        case _:
            return FileUnreadableError(path, error.strerror or str(error))
