"""Write files atomically: formatted sources and results."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from omnigraph.atomic_file import open_atomic_file
from omnigraph.cli.input_files import build_file_error
from omnigraph.locations import resolve_local_path


def write_source(path: str, text: str) -> None:
    """Replace the text of a file atomically: readers see the old or the new text, and a crash leaves the old."""
    with open_output_file(path) as file:
        file.write(text.encode("utf-8"))


@contextmanager
def open_output_file(path: str) -> Iterator[BinaryIO]:
    """Open a file for writing bytes that appears under its name once it is complete.

    A device or pipe is written directly. Every error names the file.
    """
    try:
        with open_atomic_file(resolve_local_path(path)) as file:
            yield file
    except OSError as error:
        raise build_file_error(path, "write", error) from error
