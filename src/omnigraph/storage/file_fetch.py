"""Fetch files from a copy of a graph, and put them in place after they were verified.

A file is copied to a temporary directory (the spool) first, so that no unverified file is ever in the graph. From there
it gets to its place atomically: by a rename on local disk, by one upload on an object store.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from tempfile import TemporaryDirectory

from omnigraph.faults import NoFaults
from omnigraph.locations import Location
from omnigraph.options import Durability
from omnigraph.storage.cas_table_errors import DamagedError
from omnigraph.storage.checksums import checksum_file
from omnigraph.storage.file_copy import Copier
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.layout import parse_version_number
from omnigraph.storage.object_store import (
    ObjectChangedError,
    ObjectExistsError,
    ObjectMissingError,
    StoredObject,
    StoreUnavailableError,
)
from omnigraph.storage.s3_object_store import PART_BYTES
from omnigraph.telemetry import Telemetry

# Takes the local path of a copied file or directory; returns why it is not the right one, or None if it is.
Verification = Callable[[str], str | None]
_ABSENT = "the copy does not have it either"
COPY_MISMATCH = "the copy does not match its checksum either"
_ALIKE = "it is the same in the copy"
_MOVED = "another process has replaced it in the meantime"
_OPERATION = "repair"


@dataclass(frozen=True, slots=True)
class FetchResult:
    """The outcome of fetching one file or one directory."""

    nbytes: int
    trouble: str | None = None
    """Why it could not be put in place; None when it was, or could be."""


class Fetcher:
    """Fetches files from a copy of a graph, under the same keys."""

    def __init__(self, source: GraphStorage, target: GraphStorage, spool: GraphStorage) -> None:
        self._source = source
        self._target = target
        self._spool = spool
        self._to_spool = Copier(source, spool, _OPERATION)
        self._to_target = Copier(spool, target, _OPERATION)

    def fetch(self, key: str, verify: Verification, *, is_placed: bool, is_directory: bool = False) -> FetchResult:
        """Copy a file or a directory from the source, verify it, and put it in place if `is_placed`.

        Files that are the same already are not touched.

        Raises:
            StoreUnavailableError: One of the two stores does not answer.
        """
        sizes = self._list_source(key, is_directory=is_directory)
        nbytes = sum(sizes.values())
        if not sizes:
            return FetchResult(0, _ABSENT)
        # Read before the copy: `_place` replaces the file only if it is still the same.
        current = self._read_version(key)
        try:
            for file, size in sizes.items():
                self._to_spool.copy(file, size, lambda _: None)
            trouble = verify(self._spool.resolve_uri(key))
            different = [file for file in sizes if not self._is_same(file)] if trouble is None else []
            if trouble is None and not different:
                trouble = _ALIKE
            if trouble is None and is_placed:
                trouble = self._place(current, {file: sizes[file] for file in different})
        except ObjectMissingError:
            return FetchResult(nbytes, _ABSENT)
        except DamagedError:
            return FetchResult(nbytes, COPY_MISMATCH)
        finally:
            for file in sizes:
                self._spool.objects.delete(file)
        return FetchResult(nbytes, trouble)

    def _list_source(self, key: str, *, is_directory: bool) -> dict[str, int]:
        if is_directory:
            return {info.key: info.size for info in self._source.objects.list_under(key)}
        info = self._source.objects.stat(key)
        return {} if info is None else {key: info.size}

    def _place(self, current: StoredObject | None, sizes: dict[str, int]) -> str | None:
        for key, size in sizes.items():
            if not _is_reused(key):
                self._to_target.copy(key, size, lambda _: None)
                continue
            # A version number can be reused: another repair may have published under it since `current` was read.
            data = self._spool.objects.get(key).data
            try:
                if current is None:
                    self._target.objects.put_if_absent(key, data)
                else:
                    self._target.objects.put_if_match(key, data, current.etag)
            except (ObjectExistsError, ObjectChangedError):
                return _MOVED
        self._target.flush_directories(sizes)
        return None

    def _read_version(self, key: str) -> StoredObject | None:
        """Return the current file of a version, for a conditional replacement; None for other files."""
        if not _is_reused(key):
            return None
        try:
            return self._target.objects.get(key)
        except ObjectMissingError:
            return None

    def _is_same(self, key: str) -> bool:
        """Return whether the target already has a file of the spool; on an object store, never for a large file."""
        copied = self._spool.resolve_uri(key)
        try:
            if self._target.local is not None:
                return checksum_file(self._target.resolve_uri(key)) == checksum_file(copied)
            # A larger file would have to be downloaded for the comparison: it is uploaded again instead.
            size = os.stat(copied).st_size  # noqa: PTH116 - plain strings on this path
            info = self._target.objects.stat(key)
            if info is None or info.size != size or size > PART_BYTES:
                return False
            return self._target.objects.get(key).data == self._spool.objects.get(key).data
        except (OSError, ObjectMissingError):  # a missing or unreadable file is not the same
            return False


def _is_reused(key: str) -> bool:
    """Return whether the name does not determine the content, as with an ordinary version."""
    return "/_versions/" in key and parse_version_number(key) > 0


@contextmanager
def open_fetcher(source: GraphStorage, target: GraphStorage) -> Iterator[Fetcher]:
    """Open a fetcher, and remove its temporary directory at the end."""
    runtime = target.runtime
    options = replace(runtime.options, durability=Durability.OS)
    # The spool is temporary: it needs no flush, and its requests and faults are not those of the graph.
    quiet = replace(runtime, options=options, faults=NoFaults(), telemetry=Telemetry())
    with TemporaryDirectory(prefix="omnigraph-repair-") as directory:
        yield Fetcher(source, target, GraphStorage(Location(directory), quiet))


def verify_size(path: str, expected: int | None) -> str | None:
    """Return why the size of a copied file is not the recorded one, or None if it is or none is recorded.

    Raises:
        StoreUnavailableError: The file can't be read.
    """
    try:
        size = os.stat(path).st_size  # noqa: PTH116 - plain strings on this path
    except OSError as error:
        raise StoreUnavailableError(f"read {path}", str(error)) from error
    return None if expected is None or size == expected else f"the copy has {size:,} bytes instead of {expected:,}"
