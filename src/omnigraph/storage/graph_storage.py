"""The storage of one graph: its location, control objects and Lance settings, shared by all its tables."""

import os
from collections.abc import Iterable

import xxhash
from lance.lance import _Session as Session  # the name lance.dataset gives it is not exported to type checkers

from omnigraph.clock import Clock
from omnigraph.concurrency import create_lock
from omnigraph.ids import draw_bytes
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
from omnigraph.storage.uploads import UPLOADS
from omnigraph.storage.verification import Verifier
from omnigraph.telemetry import log

# Limits of Lance's caches of indexes and of file metadata. Its defaults are gigabytes per handle.
MAX_INDEX_CACHE_BYTES = 512 * 1024 * 1024
MAX_METADATA_CACHE_BYTES = 256 * 1024 * 1024
# With less, metadata that a commit has just written is read again by the next one.
_MIN_CACHE_BYTES = 16 * 1024 * 1024


class Interval:
    """A timer of periodic work, which one thread at a time claims."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = create_lock()
        self._done_at = clock.monotonic()

    def take(self, seconds: float) -> bool:
        """Return whether the work is due. If so, it counts as done now, and the caller does it."""
        with self._lock:
            now = self._clock.monotonic()
            is_due = now - self._done_at >= seconds
            if is_due:
                self._done_at = now
        return is_due


class GraphStorage:
    """The location of a graph, and the access to its files. Thread-safe."""

    def __init__(self, location: Location, runtime: Runtime) -> None:
        self.location = location
        self.runtime = runtime
        self.session = _open_session(runtime.options.cache_bytes, runtime.options.cache_shares)
        self._flushed = {"/"}
        """Directories whose names are known to be on disk."""
        self.recovery = Interval(runtime.clock)
        """Timer of the search for dead operations, with which opening a graph for writing begins."""
        self.future_time: str | None = None
        """The time of a commit that was in the future by the store's clock when it was checked."""
        self._checked_tables: set[str] = set()
        self.local = _open_local_objects(location, runtime)
        """The local object store, for operations that only files have; None on an object store."""
        stored: ObjectStore = self.local or _open_remote_objects(location, runtime)
        self.objects: ObjectStore = CountingObjectStore(stored, runtime, location)
        self._stored = stored
        # Not a method of this object: a reference cycle would keep both alive until the garbage collector runs.
        locate = (lambda key: location.join(key).uri) if location.is_local else None
        files = _ObjectFileReader(stored, runtime)
        self.verifier = Verifier(locate, runtime.options.verify, follow_links=runtime.options.follow_links, files=files)
        """The recorded checksums of files, and which files were verified."""

    @property
    def lance_options(self) -> dict[str, str] | None:
        """The options with which Lance reaches the store; None on local disk."""
        return None if self.location.is_local else dict(self.runtime.options.storage)

    @property
    def must_flush(self) -> bool:
        """Whether files are flushed before a write is acknowledged."""
        return self.location.is_local and self.runtime.options.durability is Durability.FSYNC

    def resolve_uri(self, path: str) -> str:
        """Return the URI of a path below the root."""
        return self.location.join(path).uri

    def resolve_table_uri(self, path: str) -> str:
        """Return the URI of a table for Lance, which follows links. Each table is checked once.

        Raises:
            ForeignFileError: The table, or a file of it, is a link, a pipe or a device.
        """
        if path not in self._checked_tables:
            for error in self.find_foreign_files(path):
                raise error
            self._checked_tables.add(path)
        return self.resolve_uri(path)

    def find_foreign_files(self, path: str) -> list[ForeignFileError]:
        """Return an error for each link, pipe or device at or below a path; none if the settings allow links."""
        return [] if self.local is None or self.runtime.options.follow_links else self.local.find_foreign_files(path)

    def flush(self, paths: Iterable[str]) -> None:
        """Make files durable, given relative to the root; on an object store they are once they are written."""
        if self.local is None:
            UPLOADS.get().wait(map(self.resolve_uri, paths))
        elif self.must_flush:
            try:
                flush([self.resolve_uri(path) for path in paths], self._flushed)
            except OSError as error:
                raise convert_os_error("flush written files", error) from error

    def write_file(self, path: str, data: bytes) -> None:
        """Write a new file of a table, which no manifest refers to before it is flushed.

        On an object store it is written in the background.
        """
        self.runtime.telemetry.record("table", "put")
        if self.local is None:
            stored = self._stored
            UPLOADS.get().start(self.resolve_uri(path), lambda: stored.put(path, data))
            return
        try:
            descriptor = _create_file(self.resolve_uri(path))
            try:
                _write_all(descriptor, data)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise convert_os_error(f"write `{path}`", error) from error

    def read_file(self, path: str) -> bytes:
        """Return the content of a file of a table.

        Raises:
            ObjectMissingError: There is none.
        """
        self.runtime.telemetry.record("table", "get")
        return self._stored.get(path).data

    def wait_for_uploads(self, path: str) -> None:
        """Wait until the files of a table that are written in the background can be read."""
        if self.local is None:
            UPLOADS.get().wait_below(f"{self.resolve_uri(path)}/")

    def keep_reserve(self) -> None:
        """Reserve the disk space that a cleanup needs on a full disk, if the settings ask for it.

        A failure is logged; the next cleanup tries again. An object store is never full and needs no reserve.
        """
        size = self.runtime.options.reserve_bytes
        if self.local is None or not size:
            return
        try:
            info = self.local.stat(RESERVE)
            if info is None or info.size != size:
                self.local.put_derived(RESERVE, [draw_bytes(size)])  # no file system can compress random bytes
        except StoreUnavailableError as error:
            log.warning("could not reserve disk space for cleanup: %s", error)

    def release_reserve(self) -> None:
        """Free the reserved disk space."""
        if self.local is not None:
            self.local.delete(RESERVE)

    def flush_directories(self, paths: Iterable[str]) -> None:
        """Make the names of files durable whose content already is."""
        if self.must_flush:
            try:
                flush_above([self.resolve_uri(path) for path in paths], self._flushed)
            except OSError as error:
                raise convert_os_error("flush written files", error) from error


def _create_file(path: str) -> int:
    """Create a file, and its directory if that is new; return its descriptor."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o666)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120 - plain strings on this path
        return os.open(path, flags, 0o666)


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


class CountingObjectStore:
    """An ObjectStore that counts its requests as `control`."""

    def __init__(self, inner: ObjectStore, runtime: Runtime, location: Location | None = None) -> None:
        self._inner = inner
        self._telemetry = runtime.telemetry
        # Where files may be written in the background.
        self._location = None if location is None or location.is_local else location

    def get(self, key: str) -> StoredObject:
        """See ObjectStore."""
        self._telemetry.record("control", "get")
        if self._location is not None:
            UPLOADS.get().wait([self._location.join(key).uri])
        return self._inner.get(key)

    def get_range(self, key: str, start: int, size: int) -> bytes:
        """See ObjectStore."""
        self._telemetry.record("control", "get")
        return self._inner.get_range(key, start, size)

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
        if self._location is not None:
            UPLOADS.get().discard(self._location.join(key).uri)
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
    """The reader of a verifier: lists of checksums, and on an object store files, in parts."""

    def __init__(self, stored: ObjectStore, runtime: Runtime) -> None:
        self._stored = stored
        self._telemetry = runtime.telemetry

    def read(self, key: str) -> bytes:
        """See StoredFileReader."""
        self._telemetry.record("control", "get")
        try:
            return self._stored.get(key).data
        except ObjectMissingError as error:
            raise FileNotFoundError(key) from error
        except ForeignFileError as error:  # callers treat an OSError as a damaged list
            raise OSError(str(error)) from error

    def compute_checksum(self, key: str) -> tuple[int, int]:
        """See StoredFileReader."""
        # Only S3 can be read in parts.
        if not isinstance(self._stored, S3ObjectStore):
            data = self.read(key)
            return len(data), compute_checksum(data)
        self._telemetry.record("control", "get")
        hasher = xxhash.xxh3_64()
        size = 0
        try:
            for part in self._stored.iter_parts(key):
                hasher.update(part)
                size += len(part)
        except ObjectMissingError as error:
            raise FileNotFoundError(key) from error
        return size, hasher.intdigest()


def _open_session(cache_bytes: int | None, shares: int) -> Session:
    """Create the caches of Lance; with a limit on what reads may cache, each of the two stays within it.

    Of `shares` processes, each gets its part of the largest sizes.
    """
    limit = MAX_INDEX_CACHE_BYTES if cache_bytes is None else max(cache_bytes, _MIN_CACHE_BYTES)
    return Session(
        index_cache_size_bytes=min(max(MAX_INDEX_CACHE_BYTES // shares, _MIN_CACHE_BYTES), limit),
        metadata_cache_size_bytes=min(max(MAX_METADATA_CACHE_BYTES // shares, _MIN_CACHE_BYTES), limit),
    )


def _open_local_objects(location: Location, runtime: Runtime) -> LocalObjectStore | None:
    if not location.is_local:
        return None
    is_durable = runtime.options.durability is Durability.FSYNC
    return LocalObjectStore(
        location.path, is_durable=is_durable, follow_links=runtime.options.follow_links, clock=runtime.clock
    )


def _open_remote_objects(location: Location, runtime: Runtime) -> ObjectStore:
    assert location.bucket is not None  # noqa: S101 - a location that is not local has a bucket
    return S3ObjectStore(location.bucket, location.path, runtime.options.storage)
