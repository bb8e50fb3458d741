"""Copy files between the locations of two graphs, in parts: a directory or a bucket on either side.

A file appears complete or not at all. Only the parts in transit are in memory.
"""

import errno
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import xxhash

from omnigraph.storage.cas_table_errors import DamagedError
from omnigraph.storage.checksums import find_checksum_unit
from omnigraph.storage.fsync import flush_file
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.layout import build_job_key
from omnigraph.storage.object_store import ObjectMissingError, StoreUnavailableError, convert_os_error
from omnigraph.storage.s3_object_store import PART_BYTES, S3ObjectStore
from omnigraph.storage.verification import MISMATCH, Mismatch

# Bytes of a local file that one system call copies, between two reports of progress.
LOCAL_PART_BYTES = 64 * 1024 * 1024
# S3 copies objects up to this size on the server.
SERVER_COPY_BYTES = 5 * 1024**3
# Errors of a file system that can't copy a range on its own.
_UNSUPPORTED_ERRNOS = frozenset({errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP})

# Receives the size of each copied part.
ByteProgress = Callable[[int], None]


class Copier:
    """Copies objects between two locations under the same keys. Thread-safe.

    Copied objects are verified if they have a checksum: from a local disk before the copy, which also brings the file
    into the page cache; from an object store during it. Only copies within a bucket are not verified.

    Unfinished copies to a local disk are below `__recovery`, and are removed with the operation of that id.
    """

    def __init__(self, source: GraphStorage, target: GraphStorage, operation_id: str) -> None:
        self._source = source
        self._target = target
        self._operation_id = operation_id
        self._number = count()
        self._source_bucket = _open_bucket(source)
        self._target_bucket = _open_bucket(target)
        has_buckets = None not in (self._source_bucket, self._target_bucket)
        is_same = has_buckets and source.location.bucket == target.location.bucket
        # Opened without a prefix: a copy on the server names both objects in full.
        self._shared_bucket = _open_bucket(target, with_prefix=False) if is_same else None
        self._lock = threading.Lock()
        self._verified: dict[str, Future[Mismatch | None]] = {}

    def copy(self, key: str, size: int, on_progress: ByteProgress) -> None:
        """Copy one object.

        Raises:
            ObjectMissingError: The source does not have it (any longer).
            DamagedError: It does not match its checksum. The target is unchanged.
            StoreUnavailableError: Either store fails.
        """
        if self._source_bucket is None:
            self._verify(key)
        telemetry = self._target.runtime.telemetry
        telemetry.record("control", "get")
        telemetry.record("control", "put")
        if self._target_bucket is None:
            self._copy_to_disk(key, size, on_progress)
        elif self._shared_bucket is not None and size <= SERVER_COPY_BYTES:
            self._shared_bucket.copy(self._source.location.join(key).path, self._target.location.join(key).path)
            on_progress(size)
        else:
            self._target_bucket.put_parts(key, _check_total_size(key, self._iter_parts(key, on_progress), size), size)

    def _copy_to_disk(self, key: str, size: int, on_progress: ByteProgress) -> None:
        temporary = Path(self._target.resolve_uri(build_job_key(self._operation_id, f"{next(self._number)}.part")))
        path = Path(self._target.resolve_uri(key))
        with _translate_disk_errors(f"copy `{key}`", key):
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary.parent.mkdir(parents=True, exist_ok=True)
            try:
                if self._source_bucket is None:
                    _copy_file(Path(self._source.resolve_uri(key)), temporary, on_progress)
                else:
                    with temporary.open("xb") as file:
                        for part in self._iter_parts(key, on_progress):
                            file.write(part)
                _check_size(key, temporary.stat().st_size, size)
                # Durable before it gets its name: after a power loss no incomplete file has that name.
                if self._target.must_flush:
                    flush_file(str(temporary))
                temporary.replace(path)
            finally:
                temporary.unlink(missing_ok=True)

    def _iter_parts(self, key: str, on_progress: ByteProgress) -> Iterator[bytes]:
        # A local file was verified by `copy` already; one of an object store is compared with its list entry here.
        listed = None
        if self._source_bucket is None:
            parts = _iter_file_parts(Path(self._source.resolve_uri(key)), key)
        else:
            parts = self._source_bucket.iter_parts(key)
            listed = self._source.verifier.lists.find(key)
        hasher = xxhash.xxh3_64()
        size = 0
        for part in parts:
            on_progress(len(part))
            if listed is not None:
                hasher.update(part)
                size += len(part)
            yield part
        if listed is not None and listed != (size, hasher.intdigest()):
            raise DamagedError(key, MISMATCH)

    def _verify(self, key: str) -> None:
        """Compare a file of a local disk with its checksum; a directory of blobs or of an index only once."""
        unit = find_checksum_unit(key)
        with self._lock:
            future = self._verified.get(unit)
            is_mine = future is None
            if future is None:
                future = self._verified[unit] = Future()
        if is_mine:
            try:
                with _translate_disk_errors(f"read `{key}`", key):
                    future.set_result(self._source.verifier.find_mismatch(unit))
            except BaseException as error:
                future.set_exception(error)  # other threads may wait for it
                raise
        mismatch = future.result()
        if mismatch is not None:
            raise DamagedError(mismatch.key, mismatch.reason)


def _open_bucket(store: GraphStorage, *, with_prefix: bool = True) -> S3ObjectStore | None:
    location = store.location
    if location.bucket is None:
        return None
    return S3ObjectStore(location.bucket, location.path if with_prefix else "", store.runtime.options.storage)


def _copy_file(source: Path, target: Path, on_progress: ByteProgress) -> None:
    """Copy a file by the system if possible: then no data passes through this process, and blocks may be shared."""
    with source.open("rb") as from_, target.open("xb") as to:
        if not _copy_ranges(from_.fileno(), to.fileno(), on_progress):
            while part := from_.read(PART_BYTES):
                to.write(part)
                on_progress(len(part))


def _copy_ranges(source: int, target: int, on_progress: ByteProgress) -> bool:
    """Copy a file by `copy_file_range`, and return whether the system supports it; if not, nothing was copied."""
    done = 0
    while True:
        try:
            copied = os.copy_file_range(source, target, LOCAL_PART_BYTES)
        except OSError as error:
            if done or error.errno not in _UNSUPPORTED_ERRNOS:
                raise
            return False
        if not copied:  # the end of the file, or a file system that does not support it and reports no error
            return bool(done)
        done += copied
        on_progress(copied)


def _iter_file_parts(path: Path, key: str) -> Iterator[bytes]:
    with _translate_disk_errors(f"read `{key}`", key), path.open("rb") as file:
        while part := file.read(PART_BYTES):
            yield part


def _check_total_size(key: str, parts: Iterator[bytes], size: int) -> Iterator[bytes]:
    """Yield the parts, and raise before the end if their total size is wrong, so that no upload completes."""
    received = 0
    for part in parts:
        received += len(part)
        yield part
    _check_size(key, received, size)


def _check_size(key: str, received: int, expected: int) -> None:
    if received != expected:
        raise StoreUnavailableError(f"copy `{key}`", f"received {received} bytes instead of {expected}")


@contextmanager
def _translate_disk_errors(action: str, key: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise ObjectMissingError(key) from None
    except OSError as error:
        raise convert_os_error(action, error) from error
