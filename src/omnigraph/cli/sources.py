"""Schema and query files: read as sources, written back whole."""

import errno
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

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
TYPED_NAME = "<-e>"
"""What a text is called that was typed on the command line."""
MAX_BYTES = 16 * 1024 * 1024


def read_source(path: str) -> Source:
    """The text of a file, or of stdin for `-`; whatever stands in the way is an error that names the file."""
    name = STDIN_NAME if path == STDIN else path
    try:
        if path == STDIN:
            data = _read_stdin()
        else:
            with Path(path).open("rb") as file:
                data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise _file_error(name, "read", error) from error
    if len(data) > MAX_BYTES:
        raise TextTooLargeError(name, MAX_BYTES)
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
    while len(data) <= MAX_BYTES and (piece := stdin.read1()):
        data += piece
    return bytes(data)


def language_files(path: str, suffixes: Collection[str]) -> list[str]:
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


def existing_directory(path: str) -> Path:
    """A directory that is there; anything else is an error that says so."""
    place = Path(path)
    if place.is_dir():
        return place
    if not place.exists():
        raise FileMissingError(path)
    message = f"`{path}` is a file; name the directory that it is in"
    raise click.UsageError(message, click.get_current_context())


def write_source(path: str, text: str) -> None:
    """Replace the file's text at one moment: a reader sees the old or the new, and a crash leaves the old."""
    with written_file(path) as file:
        file.write(text.encode("utf-8"))


@contextmanager
def written_file(path: str) -> Iterator[BinaryIO]:
    """A file to write bytes to, which takes its name when all of it is written.

    A device or pipe is written to as it is. Whatever stands in the way is an error that names the file.
    """
    from omnigraph.whole_file import whole_file  # noqa: PLC0415 - nothing is loaded for `--help` that it does not need

    try:
        with whole_file(Path(path)) as file:
            yield file
    except OSError as error:
        raise _file_error(path, "write", error) from error


def _file_error(path: str, action: str, error: OSError | ValueError) -> OmnigraphError:
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
