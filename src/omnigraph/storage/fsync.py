"""Flushing to disk: Lance never calls fsync, so what must survive a power loss is flushed here."""

import os
from collections.abc import Iterable
from contextlib import suppress


def flush_file(path: str) -> None:
    """Force a file's content to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def flush_directory(path: str) -> None:
    """Force a directory's entries to disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def flush(paths: Iterable[str], known: set[str]) -> None:
    """Force files, and each directory that holds one of them, to disk.

    A directory that is not in `known` may be new, so those above it, which have its name, are flushed as well.
    """
    files = list(paths)
    for path in files:
        flush_file(path)
    flush_above(files, known)


def flush_above(paths: Iterable[str], known: set[str]) -> None:
    """As `flush`, for files that were forced to disk already."""
    directories: dict[str, None] = {}
    unknown: set[str] = set()
    for path in paths:
        directory = os.path.dirname(path)  # noqa: PTH120 - plain strings on this path
        directories[directory] = None
        while directory not in known | unknown:
            unknown.add(directory)
            directory = os.path.dirname(directory)  # noqa: PTH120 - as above
            directories[directory] = None
    for directory in directories:
        with suppress(PermissionError):  # one that we may not read is not one that we made
            flush_directory(directory)
    known |= unknown
