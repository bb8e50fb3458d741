"""Compare the files of a table version with what is recorded of them, a chunk at a time, past the page cache."""

import errno
import os
import stat
from collections.abc import Generator, Sequence
from dataclasses import dataclass

import xxhash

from omnigraph.storage.checksum_lists import ChecksumLists
from omnigraph.storage.checksums import (
    combine_checksums,
    is_same,
    list_names,
    parse_blob_checksum,
    parse_data_checksum,
    parse_deletion_checksum,
    parse_uuid_checksum,
)
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.io_counters import attribute_requests, convert_store_error
from omnigraph.storage.lance_table import LanceTable
from omnigraph.storage.layout import build_version_key
from omnigraph.storage.object_store import ForeignFileError, ObjectInfo
from omnigraph.storage.table_cache import translate_read_errors
from omnigraph.storage.verification import MISMATCH

CHUNK_BYTES = 4 * 1024 * 1024
"""Read at a time: 4 ms of a disk that gives 1 GB/s, and the most that is done between two looks at a signal to stop."""
_MISSING = "it is missing"
UNREADABLE = "it can't be read"

Scan = Generator[int, None, str | None]
"""Yields how many bytes it has read, chunk by chunk, and returns what is wrong with the file; None: nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file, or a directory of files, that a version of a table names, and what is recorded of it."""

    key: str
    checksum: int | None = None
    nbytes: int | None = None
    is_directory: bool = False


def describe_version_file(path: str, version: int, checksum: int | None) -> StoredFile:
    """Return the file of a version itself, with the checksum of its pin."""
    return StoredFile(key=build_version_key(path, version), checksum=checksum)


def list_stored_files(table: LanceTable) -> list[StoredFile]:
    """Return the files that a version names, with what their names and the version say of them; one request.

    Not the file of its transaction: nobody reads it any more.

    Raises:
        PinUnreadableError: The version can't be opened.
    """
    path = table.path
    dataset = table.handles.open_uncached(path, table.version)
    with attribute_requests(table.handles.store.runtime.telemetry, "table"), translate_read_errors(path, table.version):
        fragments = [fragment.metadata for fragment in dataset.get_fragments()]
        segments = [segment for index in dataset.describe_indices() for segment in index.segments]
    files: list[StoredFile] = []
    lists = table.handles.store.verifier.lists
    for fragment in fragments:
        for file in fragment.files:
            key = f"{path}/data/{file.path}"
            recorded = _find_checksum(lists, key, parse_data_checksum(file.path))
            files.append(StoredFile(key=key, checksum=recorded, nbytes=file.file_size_bytes))
            blobs = parse_blob_checksum(file.path)
            if blobs is not None:
                files.append(StoredFile(key=key.removesuffix(".lance"), checksum=blobs, is_directory=True))
        if fragment.deletion_file is not None:
            key = f"{path}/{fragment.deletion_file.path(fragment.id)}"
            files.append(StoredFile(key=key, checksum=_find_checksum(lists, key, parse_deletion_checksum(key))))
    for segment in segments:
        checksum, nbytes = parse_uuid_checksum(str(segment.uuid)), segment.size_bytes or None
        key = f"{path}/_indices/{segment.uuid}"
        files.append(StoredFile(key=key, checksum=checksum, nbytes=nbytes, is_directory=True))
    return files


def _find_checksum(lists: ChecksumLists, key: str, named: int | None) -> int | None:
    """Return the checksum of a file: that of its name, else that of a list that a pin names."""
    listed = lists.find(key) if named is None else None
    return named if listed is None else listed.checksum


def scan_file(store: GraphStorage, file: StoredFile) -> Scan:
    """Compare a file with what is recorded of it.

    With its checksum where one is recorded and the file is on this machine; else with its size, if that is known.
    A medium that fails to give its bytes is damage too, though it may be a passing one.

    Raises:
        StoreUnavailableError: Nothing could be found out.
    """
    if store.local is None or file.checksum is None:
        return _compare_size(store, file)
    follow = store.runtime.options.follow_links
    try:
        path = store.verifier.locate(file.key)
        if file.is_directory:
            parts: list[tuple[str, int, int]] = []
            for name in list_names(path):
                size, found = yield from _read_file(f"{path}/{name}", follow_links=follow)
                parts.append((name, size, found))
            _, found = combine_checksums(parts)
        else:
            _, found = yield from _read_file(path, follow_links=follow)
    except (FileNotFoundError, NotADirectoryError):
        return _MISSING
    except OSError as error:
        if error.errno in (errno.EIO, errno.ELOOP):
            return f"{UNREADABLE}: {error.strerror}"
        raise convert_store_error(f"read {file.key}", error) from error
    return None if is_same(found, file.checksum) else MISMATCH


def verify_file(store: GraphStorage, file: StoredFile) -> str | None:
    """Compare a file with what is recorded of it, at once, and return what is wrong with it; raises as `scan_file`."""
    scan = scan_file(store, file)
    while True:
        try:
            next(scan)
        except StopIteration as end:
            return None if end.value is None else str(end.value)


def fingerprint(store: GraphStorage, file: StoredFile) -> tuple[ObjectInfo, ...]:
    """Return what the store says of a file without reading it: another answer means that it was replaced.

    Nothing where there is no plain file.
    """
    try:
        return tuple(_look_up(store, file))
    except ForeignFileError:
        return ()


def _compare_size(store: GraphStorage, file: StoredFile) -> str | None:
    try:
        objects = _look_up(store, file)
    except ForeignFileError as error:
        return f"it is {error.what}"
    if not objects:
        return _MISSING
    found = sum(info.size for info in objects)
    if not found or (file.nbytes is not None and found != file.nbytes):
        should = "" if file.nbytes is None else f", and should have {file.nbytes:,}"
        return f"it has {found:,} bytes{should}"
    return None


def _look_up(store: GraphStorage, file: StoredFile) -> Sequence[ObjectInfo]:
    if file.is_directory:
        return store.objects.list_under(file.key)
    info = store.objects.stat(file.key)
    return () if info is None else (info,)


def _read_file(path: str, *, follow_links: bool) -> Generator[int, None, tuple[int, int]]:
    """Read a plain file from its medium: yield the size of each chunk, return the size and the checksum of the file."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow_links else os.O_NOFOLLOW)
    descriptor = os.open(path, flags)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.ELOOP, "it is no plain file")
        hasher, size = xxhash.xxh3_64(), 0
        while True:
            # What is in memory may be right where the medium is not, so the chunk is read from there. Queries lose no
            # more of the page cache by this than the scrub reads, chunk by chunk.
            _drop_pages(descriptor, size)
            chunk = os.read(descriptor, CHUNK_BYTES)
            if not chunk:
                break
            hasher.update(chunk)
            # Of a file of 1 GiB nothing was left in the page cache; without this, all of it was.
            _drop_pages(descriptor, size)
            size += len(chunk)
            yield len(chunk)
        return size, hasher.intdigest()
    finally:
        os.close(descriptor)


def _drop_pages(descriptor: int, start: int) -> None:
    """Tell the system that a chunk of a file is not needed in memory; not every system can be told."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(descriptor, start, CHUNK_BYTES, os.POSIX_FADV_DONTNEED)
