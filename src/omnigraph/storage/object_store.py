"""Control objects: small files beside the tables, with conditional writes."""

import errno
import hashlib
import os
import threading
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from omnigraph.clock import Clock
from omnigraph.errors import Kind, OmnigraphError

DISK_FULL_ERRNOS = (errno.ENOSPC, errno.EDQUOT)
"""What the system says when a disk is full, or a quota used up."""


class ObjectMissingError(OmnigraphError):
    """No object has this key."""

    kind = Kind.NOT_FOUND
    code = "object_missing"

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key

    def __str__(self) -> str:
        return f"there is no object `{self.key}`"


class ObjectExistsError(OmnigraphError):
    """A put-if-absent found the key taken."""

    kind = Kind.CONFLICT
    code = "object_exists"

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key

    def __str__(self) -> str:
        return f"the object `{self.key}` exists already"


class ObjectChangedError(OmnigraphError):
    """A put-if-match found other content, or none."""

    kind = Kind.CONFLICT
    code = "object_changed"

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key

    def __str__(self) -> str:
        return f"the object `{self.key}` was changed or removed by somebody else"


class ForeignFileError(OmnigraphError):
    """Something below a root is no plain file or directory but a link, a pipe, a device. It is never followed."""

    kind = Kind.CORRUPT
    code = "foreign_file"

    def __init__(self, key: str, what: str) -> None:
        super().__init__(key, what)
        self.key, self.what = key, what

    def __str__(self) -> str:
        return (
            f"`{self.key}` is {self.what}, and omnigraph follows or opens none below a graph:"
            " find out who put it there, then remove it or put the real file in its place"
        )


class ObjectKeyError(OmnigraphError):
    """A key has a segment that is empty, `.` or `..`: S3 allows that, its client library does not."""

    kind = Kind.INVALID
    code = "object_key"

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key

    def __str__(self) -> str:
        return (
            f"the key `{self.key}` has a segment that is empty, `.` or `..`, and such keys can't be read; correct the"
            " address, or if an object is really called that, copy it to another key and remove it here"
        )


class StoreUnavailableError(OmnigraphError):
    """The store did not answer, or refused."""

    kind = Kind.UNAVAILABLE
    code = "store_unavailable"

    def __init__(self, action: str, reason: str) -> None:
        super().__init__(action, reason)
        self.action, self.reason = action, reason

    def __str__(self) -> str:
        return f"the store failed to {self.action}: {self.reason}"


class StoreDeniedError(StoreUnavailableError):
    """The store refused the credentials, or they may not do this; trying again does not help."""

    kind = Kind.DENIED
    code = "store_denied"

    def __str__(self) -> str:
        return f"the store refused to {self.action}: {self.reason}; check the credentials and what they may do"


class StoreFullError(StoreUnavailableError):
    """The disk is full, or a quota is used up; what was being written is not there."""

    kind = Kind.UNAVAILABLE
    code = "store_full"

    def __str__(self) -> str:
        return (
            f"there is no room to {self.action}: {self.reason}; make some, for instance by `omnigraph cleanup`, which"
            " works on a full disk too"
        )


def convert_os_error(action: str, error: OSError) -> StoreUnavailableError:
    """Return our error for one of the system's, which tells what was being done."""
    failure = StoreFullError if error.errno in DISK_FULL_ERRNOS else StoreUnavailableError
    return failure(action, os.strerror(error.errno) if error.errno else str(error))


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """What a listing tells. `modified` is the store's own clock."""

    key: str
    size: int
    modified: datetime


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object's content, with the tag for a later put-if-match."""

    data: bytes
    etag: str
    info: ObjectInfo


class ObjectStore(Protocol):
    """Objects below one root. Keys are relative, with `/`; every method may raise StoreUnavailableError."""

    def get(self, key: str) -> StoredObject:
        """The object, or ObjectMissingError."""
        ...

    def get_start(self, key: str, size: int) -> bytes:
        """Read the first bytes of an object that is not empty, at most so many; ObjectMissingError when it is gone."""
        ...

    def stat(self, key: str) -> ObjectInfo | None:
        """Size and time of an object, or None, by one request."""
        ...

    def put(self, key: str, data: bytes) -> str:
        """Write unconditionally and durably; the new etag."""
        ...

    def put_if_absent(self, key: str, data: bytes) -> str:
        """Write unless the key exists (ObjectExistsError): one of any number of racers wins."""
        ...

    def put_if_match(self, key: str, data: bytes, etag: str) -> str:
        """Write only over the content with this etag, else ObjectChangedError."""
        ...

    def delete(self, key: str) -> None:
        """Remove; a missing key is fine."""
        ...

    def delete_if_match(self, key: str, etag: str) -> None:
        """Remove only the content with this etag, else ObjectChangedError.

        One step on local disk. On S3 it is a look, and a removal right behind it: what somebody writes in between is
        removed too. AWS knows a removal with a condition, but the client library does not offer it.
        """
        ...

    def list_under(self, prefix: str) -> list[ObjectInfo]:
        """All objects whose key starts with `prefix/`, sorted by key; complete, or an error."""
        ...

    def list_children(self) -> list[str]:
        """The names directly below the root, files and prefixes alike, sorted."""
        ...


class MemoryObjectStore:
    """An ObjectStore of this process, for tests."""

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

    def get_start(self, key: str, size: int) -> bytes:
        """See ObjectStore."""
        return self.get(key).data[:size]

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
        etag = hashlib.sha256(data).hexdigest()
        self._objects[key] = StoredObject(data, etag, ObjectInfo(key, len(data), self._clock.now()))
        return etag
