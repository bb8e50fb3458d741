"""Flushing to disk: Lance never calls fsync, so what must survive a power loss is flushed here."""

import os
from collections.abc import Iterable


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


def flush(paths: Iterable[str]) -> None:
    """Force files, and each directory that holds one of them, to disk."""
    directories: dict[str, None] = {}
    for path in paths:
        flush_file(path)
        directories[os.path.dirname(path)] = None  # noqa: PTH120 - plain strings on this path
    for directory in directories:
        flush_directory(directory)
