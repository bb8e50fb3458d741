"""Read schema and query files, and stdin."""

import errno
import sys
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from omnigraph.errors import (
    BadFileError,
    FileDeniedError,
    FileMissingError,
    FileUnreadableError,
    LimitError,
    OmnigraphError,
)
from omnigraph.lang.source import Source

if TYPE_CHECKING:
    from io import BufferedReader

STDIN = "-"
STDIN_NAME = "<stdin>"
# The source name of a text given with -e.
INLINE_NAME = "<-e>"
# The limit that the reference of the command line documents.
MAX_SOURCE_BYTES = 16 * 1024 * 1024


def read_source(path: str) -> Source:
    """Read the text of a file, or of stdin for `-`; every error names the file."""
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
        raise LimitError.text_too_large(name, MAX_SOURCE_BYTES)
    try:
        return Source(data.decode("utf-8"), name)
    except UnicodeDecodeError as error:
        raise BadFileError.not_utf8(name, error.start, data[error.start]) from error


def _read_stdin() -> bytes:
    if sys.stdin is None:  # closed by the parent process
        reason = "stdin is closed"
        raise ValueError(reason)
    # In chunks: an interrupt is noticed between two of them, but perhaps not within one long read.
    stdin = cast("BufferedReader", sys.stdin.buffer)
    data = bytearray()
    while len(data) <= MAX_SOURCE_BYTES and (chunk := stdin.read1()):
        data += chunk
    return bytes(data)


def find_language_files(path: str, suffixes: Collection[str]) -> list[str]:
    """Return the path itself, or the files with one of the suffixes below a directory, except hidden ones.

    Raises:
        click.UsageError: the directory has no such file, so that nothing would be checked.
    """
    directory = Path(path)
    if path == STDIN or not directory.is_dir():
        return [path]
    below = sorted(file for file in directory.rglob("*") if file.suffix in suffixes and file.is_file())
    files = [str(file) for file in below if not _is_hidden(file.relative_to(directory))]
    if not files:
        message = f"`{path}` is a directory without a file that ends in {' or '.join(sorted(suffixes))}"
        raise click.UsageError(message, click.get_current_context())
    return files


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def require_directory(path: str) -> Path:
    """Return an existing directory.

    Raises:
        FileMissingError: nothing exists at the path.
        click.UsageError: the path is a file.
    """
    directory = Path(path)
    if directory.is_dir():
        return directory
    if not directory.exists():
        raise FileMissingError(path)
    message = f"`{path}` is a file; name the directory that it is in"
    raise click.UsageError(message, click.get_current_context())


def build_file_error(path: str, action: str, error: OSError | ValueError) -> OmnigraphError:
    """Translate an error of reading or writing a file."""
    if isinstance(error, ValueError):  # a path with a NUL, a closed stdin
        return FileUnreadableError(path, str(error))
    match error.errno:
        case errno.ENOENT | errno.ENOTDIR | errno.ENAMETOOLONG:
            return FileMissingError(path)
        case errno.EISDIR:
            return BadFileError.not_a_file(path)
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return FileDeniedError(path, action)
        case _:
            return FileUnreadableError(path, error.strerror or str(error))
