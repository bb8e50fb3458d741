"""One graph's storage: its location, control objects and Lance settings, shared by every table."""

import os
import threading
from collections.abc import Iterable

import xxhash
from lance.lance import _Session as Session  # the name lance.dataset gives it is not exported to type checkers

from omnigraph.clock import Clock
from omnigraph.locations import Location
from omnigraph.options import Durability
from omnigraph.runtime import Runtime
from omnigraph.storage.checksums import compute_checksum
from omnigraph.storage.fsync import flush, flush_above
from omnigraph.storage.layout import RESERVE
from omnigraph.storage.local_object_store import LocalObjectStore
from omnigraph.storage.object_store import (
    ForeignFileError,
    ObjectInfo,
    ObjectMissingError,
    ObjectStore,
    StoredObject,
    StoreUnavailableError,
    convert_os_error,
)
from omnigraph.storage.s3_object_store import S3ObjectStore
from omnigraph.storage.verification import Verifier
from omnigraph.telemetry import log

MAX_INDEX_CACHE_BYTES = 512 * 1024 * 1024
MAX_METADATA_CACHE_BYTES = 256 * 1024 * 1024
"""What Lance may keep of indexes and of what files say of themselves; its own bounds are gigabytes, for each handle."""
_MIN_CACHE_BYTES = 16 * 1024 * 1024
"""With less, what a commit has just written is read again by the next one."""


class Interval:
    """Something that is done now and then, by one thread at a time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._done_at = clock.monotonic()

    def take(self, seconds: float) -> bool:
        """Return whether it was last done so long ago; then it counts as done now, and the caller does it."""
        with self._lock:
            now = self._clock.monotonic()
            is_due = now - self._done_at >= seconds
            if is_due:
                self._done_at = now
        return is_due


class GraphStorage:
    """Where a graph lives and how to reach it. Safe to share between threads."""

    def __init__(self, location: Location, runtime: Runtime) -> None:
        self.location, self.runtime = location, runtime
        self.session = _open_session(runtime.options.cache_bytes)
        self._flushed = {"/"}
        """Directories whose own names are known to be on disk."""
        self.recovery = Interval(runtime.clock)
        """When operations that died were last looked for. Opening a graph for writing begins with that."""
        self.future_time: str | None = None
        """The time of a commit that is later than the store's clock was when it was asked about that commit."""
        self._checked_tables: set[str] = set()
        self.local = _open_local_objects(location, runtime)
        """The same objects where they are files of this machine, for what only files have."""
        stored: ObjectStore = self.local or _open_remote_objects(location, runtime)
        self.objects: ObjectStore = CountingObjectStore(stored, runtime)
        # Not a method of this object: nothing that a store holds may hold it, or both would stay for a while.
        locate = (lambda key: location.join(key).uri) if location.is_local else None
        files = _ObjectFileReader(stored, runtime)
        self.verifier = Verifier(locate, runtime.options.verify, follow_links=runtime.options.follow_links, files=files)
        """What was recorded of files, and which were found to match."""

    @property
    def lance_options(self) -> dict[str, str] | None:
        """What Lance is given to reach the store; None on local disk."""
        return None if self.location.is_local else dict(self.runtime.options.storage)

    @property
    def must_flush(self) -> bool:
        """Whether files are flushed before a write is acknowledged."""
        return self.location.is_local and self.runtime.options.durability is Durability.FSYNC

    def resolve_uri(self, path: str) -> str:
        """The address of a table."""
        return self.location.join(path).uri

    def resolve_table_uri(self, path: str) -> str:
        """Return the address of a table for Lance, which opens whatever lies there.

        Raises:
            ForeignFileError: The table, or a file of it, is a link, a pipe or a device. Looked at once for each table.
        """
        if path not in self._checked_tables:
            for error in self.find_foreign_files(path):
                raise error
            self._checked_tables.add(path)
        return self.resolve_uri(path)

    def find_foreign_files(self, path: str) -> list[ForeignFileError]:
        """Return an error for each link, pipe or device at or below a path; none where the settings allow links."""
        return [] if self.local is None or self.runtime.options.follow_links else self.local.find_foreign_files(path)

    def flush(self, paths: Iterable[str]) -> None:
        """Make files durable, given relative to the root; on an object store they already are."""
        if self.must_flush:
            try:
                flush([self.resolve_uri(path) for path in paths], self._flushed)
            except OSError as error:
                raise convert_os_error("flush what was written", error) from error

    def keep_reserve(self) -> None:
        """Take up the room that a cleanup needs on a full disk; where there is none, it is tried again by the next one.

        Without such a setting there is none; nor on an object store, which is never full.
        """
        size = self.runtime.options.reserve_bytes
        if self.local is None or not size:
            return
        try:
            found = self.local.stat(RESERVE)
            if found is None or found.size != size:
                self.local.put_derived(RESERVE, [os.urandom(size)])  # no file system makes such bytes smaller
        except StoreUnavailableError as error:
            log.warning("no room is kept for cleanup: %s", error)

    def release_reserve(self) -> None:
        """Give that room away."""
        if self.local is not None:
            self.local.delete(RESERVE)

    def flush_directories(self, paths: Iterable[str]) -> None:
        """Make the names of files durable whose content is."""
        if self.must_flush:
            try:
                flush_above([self.resolve_uri(path) for path in paths], self._flushed)
            except OSError as error:
                raise convert_os_error("flush what was written", error) from error


class CountingObjectStore:
    """An ObjectStore that counts its requests as `control`."""

    def __init__(self, inner: ObjectStore, runtime: Runtime) -> None:
        self._inner, self._telemetry = inner, runtime.telemetry

    def get(self, key: str) -> StoredObject:
        """See ObjectStore."""
        self._telemetry.record("control", "get")
        return self._inner.get(key)

    def get_start(self, key: str, size: int) -> bytes:
        """See ObjectStore."""
        self._telemetry.record("control", "get")
        return self._inner.get_start(key, size)

    def stat(self, key: str) -> ObjectInfo | None:
        """See ObjectStore."""
        self._telemetry.record("control", "head")
        return self._inner.stat(key)

    def put(self, key: str, data: bytes) -> str:
        """See ObjectStore."""
        self._telemetry.record("control", "put")
        return self._inner.put(key, data)

    def put_if_absent(self, key: str, data: bytes) -> str:
        """See ObjectStore."""
        self._telemetry.record("control", "put")
        return self._inner.put_if_absent(key, data)

    def put_if_match(self, key: str, data: bytes, etag: str) -> str:
        """See ObjectStore."""
        self._telemetry.record("control", "put")
        return self._inner.put_if_match(key, data, etag)

    def delete(self, key: str) -> None:
        """See ObjectStore."""
        self._telemetry.record("control", "delete")
        self._inner.delete(key)

    def delete_if_match(self, key: str, etag: str) -> None:
        """See ObjectStore."""
        self._telemetry.record("control", "delete")
        self._inner.delete_if_match(key, etag)

    def list_under(self, prefix: str) -> list[ObjectInfo]:
        """See ObjectStore."""
        self._telemetry.record("control", "list")
        return self._inner.list_under(prefix)

    def list_children(self) -> list[str]:
        """See ObjectStore."""
        self._telemetry.record("control", "list")
        return self._inner.list_children()


class _ObjectFileReader:
    """What a verifier reads of a store: lists of checksums, and on an object store files, a part at a time."""

    def __init__(self, stored: ObjectStore, runtime: Runtime) -> None:
        self._stored, self._telemetry = stored, runtime.telemetry

    def read(self, key: str) -> bytes:
        """See StoredFiles."""
        self._telemetry.record("control", "get")
        try:
            return self._stored.get(key).data
        except ObjectMissingError as error:
            raise FileNotFoundError(key) from error
        except ForeignFileError as error:
            raise OSError(str(error)) from error

    def compute_checksum(self, key: str) -> tuple[int, int]:
        """See StoredFiles."""
        if not isinstance(self._stored, S3ObjectStore):
            data = self.read(key)
            return len(data), compute_checksum(data)
        self._telemetry.record("control", "get")
        hasher, size = xxhash.xxh3_64(), 0
        try:
            for part in self._stored.iter_parts(key):
                hasher.update(part)
                size += len(part)
        except ObjectMissingError as error:
            raise FileNotFoundError(key) from error
        return size, hasher.intdigest()


def _open_session(cache_bytes: int | None) -> Session:
    """Lance's caches; where it was said how much reads may keep, each of the two keeps no more than that."""
    most = MAX_INDEX_CACHE_BYTES if cache_bytes is None else max(cache_bytes, _MIN_CACHE_BYTES)
    return Session(
        index_cache_size_bytes=min(MAX_INDEX_CACHE_BYTES, most),
        metadata_cache_size_bytes=min(MAX_METADATA_CACHE_BYTES, most),
    )


def _open_local_objects(location: Location, runtime: Runtime) -> LocalObjectStore | None:
    if not location.is_local:
        return None
    is_durable = runtime.options.durability is Durability.FSYNC
    return LocalObjectStore(location.path, is_durable=is_durable, follow_links=runtime.options.follow_links)


def _open_remote_objects(location: Location, runtime: Runtime) -> ObjectStore:
    assert location.bucket is not None  # noqa: S101 - what is not local has a bucket
    return S3ObjectStore(location.bucket, location.path, runtime.options.storage)
