"""Copying files from one graph's place to another's: a directory or a bucket on either side, a part at a time.

A file appears whole or not at all. Nothing is held in memory but the parts that are under way.
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

LOCAL_PART_BYTES = 64 * 1024 * 1024
"""How much of a local file is copied by one call of the system, between two looks at how far it is."""
SERVER_COPY_BYTES = 5 * 1024**3
"""S3 copies an object of at most this size by itself."""
_UNSUPPORTED_ERRNOS = frozenset({errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP})
"""What a file system says that can't copy a range by itself."""

ByteProgress = Callable[[int], None]
"""Is told of every part how many bytes it had."""


class Copier:
    """Copies objects between two places under the same keys. Safe to use from several threads.

    What is copied is compared with its checksum, where there is one: on a local disk before, which also brings it into
    memory; from an object store as it comes. Only a bucket that copies by itself is not looked into.

    What is under way on a local disk lies below `__recovery`, where it goes with the operation of that id.
    """

    def __init__(self, source: GraphStorage, target: GraphStorage, operation_id: str) -> None:
        self._source, self._target, self._operation_id = source, target, operation_id
        self._number = count()
        self._source_bucket = _open_bucket(source)
        self._target_bucket = _open_bucket(target)
        is_same = (
            None not in (self._source_bucket, self._target_bucket) and source.location.bucket == target.location.bucket
        )
        self._shared_bucket = _open_bucket(target, is_whole=True) if is_same else None
        self._lock = threading.Lock()
        self._verified: dict[str, Future[Mismatch | None]] = {}

    def copy(self, key: str, size: int, told: ByteProgress) -> None:
        """Copy one object.

        Raises:
            ObjectMissingError: It is not there (any more).
            DamagedError: It does not match its checksum. Nothing of it is at the target.
            StoreUnavailableError: Either store fails.
        """
        if self._source_bucket is None:
            self._verify(key)
        telemetry = self._target.runtime.telemetry
        telemetry.record("control", "get")
        telemetry.record("control", "put")
        if self._target_bucket is None:
            self._copy_to_disk(key, size, told)
        elif self._shared_bucket is not None and size <= SERVER_COPY_BYTES:
            self._shared_bucket.copy(self._source.location.join(key).path, self._target.location.join(key).path)
            told(size)
        else:
            self._target_bucket.put_parts(key, _check_total_size(key, self._iter_parts(key, told), size), size)

    def _copy_to_disk(self, key: str, size: int, told: ByteProgress) -> None:
        temporary = Path(self._target.resolve_uri(build_job_key(self._operation_id, f"{next(self._number)}.part")))
        path = Path(self._target.resolve_uri(key))
        with _translate_disk_errors(f"copy `{key}`", key):
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary.parent.mkdir(parents=True, exist_ok=True)
            try:
                if self._source_bucket is None:
                    _copy_file(Path(self._source.resolve_uri(key)), temporary, told)
                else:
                    with temporary.open("xb") as file:
                        for part in self._iter_parts(key, told):
                            file.write(part)
                _check_size(key, temporary.stat().st_size, size)
                if self._target.must_flush:
                    flush_file(str(temporary))
                temporary.replace(path)
            finally:
                temporary.unlink(missing_ok=True)

    def _iter_parts(self, key: str, told: ByteProgress) -> Iterator[bytes]:
        parts = (
            _iter_file_parts(Path(self._source.resolve_uri(key)), key)
            if self._source_bucket is None
            else self._source_bucket.iter_parts(key)
        )
        listed = None if self._source_bucket is None else self._source.verifier.lists.find(key)
        hasher, size = xxhash.xxh3_64(), 0
        for part in parts:
            told(len(part))
            if listed is not None:
                hasher.update(part)
                size += len(part)
            yield part
        if listed is not None and listed != (size, hasher.intdigest()):
            raise DamagedError(key, MISMATCH)

    def _verify(self, key: str) -> None:
        """Compare a file of a local disk with its checksum; that of a directory of blobs or of an index once."""
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
                future.set_exception(error)  # for whoever waits for it
                raise
        mismatch = future.result()
        if mismatch is not None:
            raise DamagedError(mismatch.key, mismatch.reason)


def _open_bucket(store: GraphStorage, *, is_whole: bool = False) -> S3ObjectStore | None:
    location = store.location
    if location.bucket is None:
        return None
    return S3ObjectStore(location.bucket, "" if is_whole else location.path, store.runtime.options.storage)


def _copy_file(source: Path, target: Path, told: ByteProgress) -> None:
    """By the system itself where it can: then nothing passes through this process, and blocks may be shared."""
    with source.open("rb") as from_, target.open("xb") as to:
        if not _copy_ranges(from_.fileno(), to.fileno(), told):
            while part := from_.read(PART_BYTES):
                to.write(part)
                told(len(part))


def _copy_ranges(source: int, target: int, told: ByteProgress) -> bool:
    """Whether the system could; if not, nothing was copied."""
    done = 0
    while True:
        try:
            copied = os.copy_file_range(source, target, LOCAL_PART_BYTES)
        except OSError as error:
            if done or error.errno not in _UNSUPPORTED_ERRNOS:
                raise
            return False
        if not copied:  # the end; or a file system that can't, and does not say so
            return bool(done)
        done += copied
        told(copied)


def _iter_file_parts(path: Path, key: str) -> Iterator[bytes]:
    with _translate_disk_errors(f"read `{key}`", key), path.open("rb") as file:
        while part := file.read(PART_BYTES):
            yield part


def _check_total_size(key: str, parts: Iterator[bytes], size: int) -> Iterator[bytes]:
    """The parts; an error before the last one is taken for the end when they are not as long as they should be."""
    found = 0
    for part in parts:
        found += len(part)
        yield part
    _check_size(key, found, size)


def _check_size(key: str, found: int, expected: int) -> None:
    if found != expected:
        raise StoreUnavailableError(f"copy `{key}`", f"{found} bytes came instead of {expected}")


@contextmanager
def _translate_disk_errors(action: str, key: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise ObjectMissingError(key) from None
    except OSError as error:
        raise convert_os_error(action, error) from error
