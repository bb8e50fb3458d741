"""Files that commands write: formatted sources, and results."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from omnigraph.atomic_file import open_atomic_file
from omnigraph.cli.input_files import build_file_error
from omnigraph.locations import resolve_local_path


def write_source(path: str, text: str) -> None:
    """Replace the file's text at one moment: a reader sees the old or the new, and a crash leaves the old."""
    with open_output_file(path) as file:
        file.write(text.encode("utf-8"))


@contextmanager
def open_output_file(path: str) -> Iterator[BinaryIO]:
    """A file to write bytes to, which takes its name when all of it is written.

    A device or pipe is written to as it is. Whatever stands in the way is an error that names the file.
    """
    try:
        with open_atomic_file(resolve_local_path(path)) as file:
            yield file
    except OSError as error:
        raise build_file_error(path, "write", error) from error
