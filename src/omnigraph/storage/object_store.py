"""Define the store of control objects: small objects beside the tables, with conditional writes."""

import errno
import hashlib
import os
import threading
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from omnigraph.clock import Clock
from omnigraph.errors import CorruptError, Kind, OmnigraphError

# The disk is full, or a quota is used up.
DISK_FULL_ERRNOS = (errno.ENOSPC, errno.EDQUOT)


class ObjectMissingError(OmnigraphError):
    """No object has this key."""

    kind = Kind.NOT_FOUND
    code = "object_missing"
    key: str
    message = "there is no object `{key}`"


class ObjectExistsError(OmnigraphError):
    """A put-if-absent failed because the key exists."""

    kind = Kind.CONFLICT
    code = "object_exists"
    key: str
    message = "the object `{key}` already exists"


class ObjectChangedError(OmnigraphError):
    """A put-if-match failed because the object was changed or removed."""

    kind = Kind.CONFLICT
    code = "object_changed"
    key: str
    message = "the object `{key}` was changed or removed by another process"


class ForeignFileError(CorruptError):
    """A link, pipe, socket or device is below a graph's root. It is never followed or opened."""

    kind = Kind.CORRUPT
    code = "foreign_file"
    key: str
    what: str
    message = (
        "`{key}` is {what}, which omnigraph neither follows nor opens below a graph:"
        " find out who put it there, then remove it or replace it by the real file"
    )


class ObjectKeyError(OmnigraphError):
    """A key has a segment that is empty, `.` or `..`, which S3 allows and its client library rejects."""

    kind = Kind.INVALID
    code = "object_key"
    key: str
    message = (
        "the key `{key}` has a segment that is empty, `.` or `..`, and such keys can't be read; correct the"
        " address, or if an object really has this key, copy it to another key and remove it here"
    )


class StoreUnavailableError(OmnigraphError):
    """The store did not respond, or rejected a request."""

    kind = Kind.UNAVAILABLE
    code = "store_unavailable"
    action: str
    reason: str
    message = "the store failed to {action}: {reason}"


class StoreDeniedError(StoreUnavailableError):
    """The store rejected the credentials, or they lack a permission; retrying does not help."""

    kind = Kind.DENIED
    code = "store_denied"

    def __str__(self) -> str:
        return f"the store refused to {self.action}: {self.reason}; check the credentials and their permissions"


class StoreFullError(StoreUnavailableError):
    """The disk is full, or a quota is used up. The object was not written."""

    kind = Kind.UNAVAILABLE
    code = "store_full"

    def __str__(self) -> str:
        return (
            f"there is no space to {self.action}: {self.reason}; free some, for instance with `omnigraph cleanup`,"
            " which works on a full disk too"
        )


def convert_os_error(action: str, error: OSError) -> StoreUnavailableError:
    """Return the store error for an error of the operating system during `action`."""
    failure = StoreFullError if error.errno in DISK_FULL_ERRNOS else StoreUnavailableError
    return failure(action, os.strerror(error.errno) if error.errno else str(error))


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """Key, size and modification time of an object, by the store's own clock."""

    key: str
    size: int
    modified: datetime


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object's content, with the etag for a later put-if-match."""

    data: bytes
    etag: str
    info: ObjectInfo


class ObjectStore(Protocol):
    """Objects below one root, by relative keys with `/`. Every method may raise StoreUnavailableError."""

    def get(self, key: str) -> StoredObject:
        """Return an object.

        Raises:
            ObjectMissingError: No object has this key.
        """
        ...

    def get_range(self, key: str, start: int, size: int) -> bytes:
        """Return at most `size` bytes of an object from `start` on, which lies inside of it.

        Raises:
            ObjectMissingError: No object has this key.
        """
        ...

    def stat(self, key: str) -> ObjectInfo | None:
        """Return size and modification time of an object, or None if there is none, by one request."""
        ...

    def put(self, key: str, data: bytes) -> str:
        """Write an object unconditionally and durably, and return its etag."""
        ...

    def put_if_absent(self, key: str, data: bytes) -> str:
        """Write a new object and return its etag. Of several concurrent writers exactly one succeeds.

        Raises:
            ObjectExistsError: The key exists.
        """
        ...

    def put_if_match(self, key: str, data: bytes, etag: str) -> str:
        """Replace the content that has this etag, and return the new etag.

        Raises:
            ObjectChangedError: The object has another etag, or is missing.
        """
        ...

    def delete(self, key: str) -> None:
        """Remove an object if it exists."""
        ...

    def delete_if_match(self, key: str, etag: str) -> None:
        """Remove the content that has this etag.

        Atomic on local disk. On S3 it is a lookup followed by a removal, so an object that is written between the two
        is removed too: AWS supports a conditional removal, but the client library does not offer it.

        Raises:
            ObjectChangedError: The object has another etag, or is missing.
        """
        ...

    def list_under(self, prefix: str) -> list[ObjectInfo]:
        """Return all objects whose keys start with `prefix/`, sorted by key: a complete list, or an error."""
        ...

    def list_children(self) -> list[str]:
        """Return the names directly below the root, of objects and of prefixes, sorted."""
        ...


class MemoryObjectStore:
    """An ObjectStore in the memory of this process, for tests."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._objects: dict[str, StoredObject] = {}

    def get(self, key: str) -> StoredObject:
        """See ObjectStore."""
        with self._lock:
            if key not in self._objects:
                raise ObjectMissingError(key)
            return self._objects[key]

    def get_range(self, key: str, start: int, size: int) -> bytes:
        """See ObjectStore."""
        return self.get(key).data[start : start + size]

    def stat(self, key: str) -> ObjectInfo | None:
        """See ObjectStore."""
        with self._lock:
            return self._objects[key].info if key in self._objects else None

    def put(self, key: str, data: bytes) -> str:
        """See ObjectStore."""
        with self._lock:
            return self._write(key, data)

    def put_if_absent(self, key: str, data: bytes) -> str:
        """See ObjectStore."""
        with self._lock:
            if key in self._objects:
                raise ObjectExistsError(key)
            return self._write(key, data)

    def put_if_match(self, key: str, data: bytes, etag: str) -> str:
        """See ObjectStore."""
        with self._lock:
            if key not in self._objects or self._objects[key].etag != etag:
                raise ObjectChangedError(key)
            return self._write(key, data)

    def delete(self, key: str) -> None:
        """See ObjectStore."""
        with self._lock:
            self._objects.pop(key, None)

    def delete_if_match(self, key: str, etag: str) -> None:
        """See ObjectStore."""
        with self._lock:
            if key not in self._objects or self._objects[key].etag != etag:
                raise ObjectChangedError(key)
            del self._objects[key]

    def list_under(self, prefix: str) -> list[ObjectInfo]:
        """See ObjectStore."""
        with self._lock:
            return [self._objects[key].info for key in sorted(self._objects) if key.startswith(f"{prefix}/")]

    def list_children(self) -> list[str]:
        """See ObjectStore."""
        with self._lock:
            return sorted({key.split("/", 1)[0] for key in self._objects})

    def _write(self, key: str, data: bytes) -> str:
        # Callers hold the lock. The etag depends on the content alone, as on local disk.
        etag = hashlib.sha256(data).hexdigest()
        self._objects[key] = StoredObject(data, etag, ObjectInfo(key, len(data), self._clock.now()))
        return etag
