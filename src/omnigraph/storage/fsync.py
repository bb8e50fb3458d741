"""Flush files and directories to disk. Lance never calls fsync, so what must survive a power loss is flushed here."""

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import lru_cache

# For five files threads gain nothing (8 ms either way), for 128 they take 23 ms instead of 330 ms.
MAX_SERIAL_FLUSHES = 4
# A file system writes its journal once for several flushes at a time.
FLUSH_THREADS = 8


@lru_cache(maxsize=1)
def _get_pool(_process: int) -> ThreadPoolExecutor:
    """Return the threads of a process that flush; a process that was forked has none of them."""
    # Kept: starting them for each group took as long as the flushes.
    return ThreadPoolExecutor(FLUSH_THREADS, thread_name_prefix="flush")


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


def flush(paths: Iterable[str], durable: set[str]) -> None:
    """Force files, and the directories that contain them, to disk.

    A directory that is not in `durable` may be new, so its parents, which contain its name, are flushed too.
    """
    files = list(paths)
    if len(files) <= MAX_SERIAL_FLUSHES:
        for path in files:
            flush_file(path)
    else:
        list(_get_pool(os.getpid()).map(flush_file, files))
    flush_above(files, durable)


def flush_above(paths: Iterable[str], durable: set[str]) -> None:
    """Force the directories of files to disk, as `flush` does, for files that are on disk already."""
    directories: dict[str, None] = {}
    new: set[str] = set()
    for path in paths:
        directory = os.path.dirname(path)  # noqa: PTH120 - plain strings on this path
        directories[directory] = None
        while directory not in durable | new:
            new.add(directory)
            directory = os.path.dirname(directory)  # noqa: PTH120 - as above
            directories[directory] = None
    for directory in directories:
        with suppress(PermissionError):  # a directory that we may not read was not created by us
            flush_directory(directory)
    # Only after all flushes succeeded: otherwise the next call has to try again.
    durable |= new
