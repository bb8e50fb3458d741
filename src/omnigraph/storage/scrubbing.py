"""Compare the files of a table version with their recorded checksums, chunk by chunk, bypassing the page cache."""

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

# One chunk is 4 ms of a disk with 1 GB/s. A scrub checks for a signal to stop after each.
CHUNK_BYTES = 4 * 1024 * 1024
_MISSING = "it is missing"
UNREADABLE = "it can't be read"

# Yields the number of bytes read, chunk by chunk, and returns the fault of the file, or None if there is none.
Scan = Generator[int, None, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file, or a directory of files, of a table version, with its recorded checksum and size."""

    key: str
    checksum: int | None = None
    nbytes: int | None = None
    is_directory: bool = False


def describe_version_file(path: str, version: int, checksum: int | None) -> StoredFile:
    """Return the manifest file of a version, with the checksum of its pin."""
    return StoredFile(key=build_version_key(path, version), checksum=checksum)


def list_stored_files(table: LanceTable) -> list[StoredFile]:
    """Return the files that a version references, with the checksums and sizes known for them; one request.

    The transaction file is left out, because no later operation reads it.

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
            blob_checksum = parse_blob_checksum(file.path)
            if blob_checksum is not None:
                files.append(StoredFile(key=key.removesuffix(".lance"), checksum=blob_checksum, is_directory=True))
        if fragment.deletion_file is not None:
            key = f"{path}/{fragment.deletion_file.path(fragment.id)}"
            files.append(StoredFile(key=key, checksum=_find_checksum(lists, key, parse_deletion_checksum(key))))
    for segment in segments:
        checksum = parse_uuid_checksum(str(segment.uuid))
        nbytes = segment.size_bytes or None
        key = f"{path}/_indices/{segment.uuid}"
        files.append(StoredFile(key=key, checksum=checksum, nbytes=nbytes, is_directory=True))
    return files


def _find_checksum(lists: ChecksumLists, key: str, checksum_in_name: int | None) -> int | None:
    """Return the checksum of a file: the one in its name, else the one in a checksum list of a pin."""
    listed = lists.find(key) if checksum_in_name is None else None
    return checksum_in_name if listed is None else listed.checksum


def scan_file(store: GraphStorage, file: StoredFile) -> Scan:
    """Compare a file with its record.

    The checksum is compared if one is recorded and the file is local; else the size, if it is known. A read error of
    the medium counts as damage, although it may be transient.

    Raises:
        StoreUnavailableError: The store could not be read, so nothing is known about the file.
    """
    if store.local is None or file.checksum is None:
        return _compare_size(store, file)
    follow = store.runtime.options.follow_links
    try:
        path = store.verifier.locate(file.key)
        if file.is_directory:
            parts: list[tuple[str, int, int]] = []
            for name in list_names(path):
                size, checksum = yield from _read_file(f"{path}/{name}", follow_links=follow)
                parts.append((name, size, checksum))
            _, checksum = combine_checksums(parts)
        else:
            _, checksum = yield from _read_file(path, follow_links=follow)
    except (FileNotFoundError, NotADirectoryError):
        return _MISSING
    except OSError as error:
        # The medium can't return the bytes, or a link is in place of the file. Other errors say nothing about the file.
        if error.errno in (errno.EIO, errno.ELOOP):
            return f"{UNREADABLE}: {error.strerror}"
        raise convert_store_error(f"read {file.key}", error) from error
    return None if is_same(checksum, file.checksum) else MISMATCH


def verify_file(store: GraphStorage, file: StoredFile) -> str | None:
    """Compare a file with its record without pausing, and return its fault, or None; raises as `scan_file`."""
    scan = scan_file(store, file)
    while True:
        try:
            next(scan)
        except StopIteration as end:
            return None if end.value is None else str(end.value)


def fingerprint(store: GraphStorage, file: StoredFile) -> tuple[ObjectInfo, ...]:
    """Return key, size and modification time of a file's objects: if they differ, the file was replaced.

    The result is empty if there is no regular file.
    """
    try:
        return tuple(_stat_file(store, file))
    except ForeignFileError:
        return ()


def _compare_size(store: GraphStorage, file: StoredFile) -> str | None:
    try:
        objects = _stat_file(store, file)
    except ForeignFileError as error:
        return f"it is {error.what}"
    if not objects:
        return _MISSING
    size = sum(info.size for info in objects)
    # No file of a table is empty, so an empty one is damaged even if its size was not recorded.
    if not size or (file.nbytes is not None and size != file.nbytes):
        expected = "" if file.nbytes is None else f", and should have {file.nbytes:,}"
        return f"it has {size:,} bytes{expected}"
    return None


def _stat_file(store: GraphStorage, file: StoredFile) -> Sequence[ObjectInfo]:
    if file.is_directory:
        return store.objects.list_under(file.key)
    info = store.objects.stat(file.key)
    return () if info is None else (info,)


def _read_file(path: str, *, follow_links: bool) -> Generator[int, None, tuple[int, int]]:
    """Read a regular file from its medium; yield the size of each chunk, return the size and checksum of the file."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow_links else os.O_NOFOLLOW)
    descriptor = os.open(path, flags)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.ELOOP, "it is not a regular file")
        hasher, size = xxhash.xxh3_64(), 0
        while True:
            # A cached page may be right where the medium is damaged, so the chunk is dropped from the page cache and
            # read from the medium. Queries lose only the pages of this chunk.
            _drop_pages(descriptor, size)
            chunk = os.read(descriptor, CHUNK_BYTES)
            if not chunk:
                break
            hasher.update(chunk)
            # With this, nothing of a file of 1 GiB was left in the page cache; without it, all of it was.
            _drop_pages(descriptor, size)
            size += len(chunk)
            yield len(chunk)
        return size, hasher.intdigest()
    finally:
        os.close(descriptor)


def _drop_pages(descriptor: int, start: int) -> None:
    """Drop a chunk of a file from the page cache, on systems that support it."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(descriptor, start, CHUNK_BYTES, os.POSIX_FADV_DONTNEED)
