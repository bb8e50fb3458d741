"""Fetch files from a copy of a graph, and put them in place once they were found to be right.

A file is copied to a temporary directory first, so that nothing that is not verified ever stands in the graph. From
there it goes to its place whole: by a rename on local disk, by one upload on an object store.
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

Verification = Callable[[str], str | None]
"""Takes the local path of a copy, a file or a directory; returns why it is not the right one, None when it is."""
_ABSENT = "the copy has none either"
COPY_MISMATCH = "the copy does not match its checksum either"
_ALIKE = "it is the same in the copy"
_MOVED = "another process has replaced it meanwhile"
_OPERATION = "repair"


@dataclass(frozen=True, slots=True)
class FetchResult:
    """What became of one file, or of one directory of files."""

    nbytes: int
    trouble: str | None = None
    """Why it could not be put in place; None when it was, or could be."""


class Fetcher:
    """Fetches what lies under the same keys in a copy of a graph."""

    def __init__(self, source: GraphStorage, target: GraphStorage, spool: GraphStorage) -> None:
        self._source, self._target, self._spool = source, target, spool
        self._to_spool = Copier(source, spool, _OPERATION)
        self._to_target = Copier(spool, target, _OPERATION)

    def fetch(self, key: str, verify: Verification, *, is_placed: bool, is_directory: bool = False) -> FetchResult:
        """Copy a file or a directory from the source, verify it, and put it in place, or only say that it could be.

        Files that are the same already are not touched.

        Raises:
            StoreUnavailableError: One of the two stores does not answer.
        """
        sizes = self._list_source(key, is_directory=is_directory)
        nbytes = sum(sizes.values())
        if not sizes:
            return FetchResult(0, _ABSENT)
        there = self._read_small(key)
        try:
            for one, size in sizes.items():
                self._to_spool.copy(one, size, lambda _: None)
            trouble = verify(self._spool.resolve_uri(key))
            different = [one for one in sizes if not self._is_same(one)] if trouble is None else []
            if trouble is None and not different:
                trouble = _ALIKE
            if trouble is None and is_placed:
                trouble = self._place(there, {one: sizes[one] for one in different})
        except ObjectMissingError:
            return FetchResult(nbytes, _ABSENT)
        except DamagedError:
            return FetchResult(nbytes, COPY_MISMATCH)
        finally:
            for one in sizes:
                self._spool.objects.delete(one)
        return FetchResult(nbytes, trouble)

    def _list_source(self, key: str, *, is_directory: bool) -> dict[str, int]:
        if is_directory:
            return {one.key: one.size for one in self._source.objects.list_under(key)}
        info = self._source.objects.stat(key)
        return {} if info is None else {key: info.size}

    def _place(self, there: StoredObject | None, sizes: dict[str, int]) -> str | None:
        for key, size in sizes.items():
            if not _is_reused(key):
                self._to_target.copy(key, size, lambda _: None)
                continue
            # A number that is used again: another repair may have published under it since it was looked at.
            data = self._spool.objects.get(key).data
            try:
                if there is None:
                    self._target.objects.put_if_absent(key, data)
                else:
                    self._target.objects.put_if_match(key, data, there.etag)
            except (ObjectExistsError, ObjectChangedError):
                return _MOVED
        self._target.flush_directories(sizes)
        return None

    def _read_small(self, key: str) -> StoredObject | None:
        """Return the file of a version as it is now, for who replaces nothing but that."""
        if not _is_reused(key):
            return None
        try:
            return self._target.objects.get(key)
        except ObjectMissingError:
            return None

    def _is_same(self, key: str) -> bool:
        """Return whether a file in the spool is what the target has already; on an object store only small ones are."""
        copied = self._spool.resolve_uri(key)
        try:
            if self._target.local is not None:
                return checksum_file(self._target.resolve_uri(key)) == checksum_file(copied)
            size = os.stat(copied).st_size  # noqa: PTH116 - plain strings on this path
            info = self._target.objects.stat(key)
            if info is None or info.size != size or size > PART_BYTES:
                return False
            return self._target.objects.get(key).data == self._spool.objects.get(key).data
        except (OSError, ObjectMissingError):  # it is gone, or can't be read: then it is not the same
            return False


def _is_reused(key: str) -> bool:
    """Return whether a name does not tell the content: that of an ordinary version."""
    return "/_versions/" in key and parse_version_number(key) > 0


@contextmanager
def open_fetcher(source: GraphStorage, target: GraphStorage) -> Iterator[Fetcher]:
    """Give a fetcher, and remove its temporary directory at the end."""
    runtime = target.runtime
    options = replace(runtime.options, durability=Durability.OS)
    quiet = replace(runtime, options=options, faults=NoFaults(), telemetry=Telemetry())
    with TemporaryDirectory(prefix="omnigraph-repair-") as directory:
        yield Fetcher(source, target, GraphStorage(Location(directory), quiet))


def verify_size(path: str, expected: int | None) -> str | None:
    """Return why a file is not as long as recorded, None when it is or nothing is recorded.

    Raises:
        StoreUnavailableError: The system can't read it.
    """
    try:
        found = os.stat(path).st_size  # noqa: PTH116 - plain strings on this path
    except OSError as error:
        raise StoreUnavailableError(f"read {path}", str(error)) from error
    return None if expected is None or found == expected else f"it has {found:,} bytes there, instead of {expected:,}"
