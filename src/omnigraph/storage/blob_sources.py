"""Objects outside of the graph that a Blob value may name by its URI: only below places that the settings allow.

Nothing is allowed that is not named. What a URI means is decided from its text, before anything is opened; below an
allowed directory no symbolic link is followed, so that a link can't lead out of it, also not one that is swapped in
while we look. Only regular files are read, only up to a size, and never anything over HTTP.
"""

import errno
import os
import stat
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from omnigraph.errors import Kind, OmnigraphError
from omnigraph.storage.object_store import ObjectMissingError, StoreUnavailableError
from omnigraph.storage.s3_object_store import S3ObjectStore

_MAX_SHOWN_CHARACTERS = 200  # characters of a URI that a message shows
_DIRECTORY_FLAGS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
_FILE_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC  # a pipe must not make us wait for somebody who writes to it


class BlobSourceError(OmnigraphError):
    """A URI that was given as a Blob value can't be read, or must not be."""

    kind = Kind.INVALID
    code = "blob_source"

    def __init__(self, uri: str, reason: str) -> None:
        super().__init__(uri, reason)
        self.uri, self.reason = uri, reason

    def __str__(self) -> str:
        shown = self.uri if len(self.uri) <= _MAX_SHOWN_CHARACTERS else f"{self.uri[:_MAX_SHOWN_CHARACTERS]}…"
        return f"can't read the blob `{shown}`: {self.reason}"


@dataclass(frozen=True, slots=True)
class BlobSourceLocation:
    """A place by its parts: `bucket` is None for this machine's files."""

    bucket: str | None
    segments: tuple[str, ...]

    def contains(self, other: "BlobSourceLocation") -> bool:
        """Whether the other one lies below this one."""
        depth = len(self.segments)
        return other.bucket == self.bucket and len(other.segments) > depth and other.segments[:depth] == self.segments


def parse_blob_location(uri: str) -> BlobSourceLocation:
    """The place of `file:///…` or `s3://bucket/…`, whose paths are percent-encoded; BlobSourceError for other texts."""
    try:
        parts = urlsplit(uri)
        path = unquote(parts.path, errors="strict")
    except ValueError as error:
        raise BlobSourceError(uri, f"it is not a URI: {error}") from error
    match parts.scheme:
        case "file" if parts.netloc.lower() in ("", "localhost") and path.startswith("/"):
            bucket = None
        case "file":
            raise BlobSourceError(uri, "a file's URI has three slashes: file:///directory/name")
        case "s3" if parts.netloc:
            bucket = parts.netloc
        case "s3":
            raise BlobSourceError(uri, "write s3://bucket/key")
        case _:
            raise BlobSourceError(uri, 'only file:// and s3:// are read; give the bytes as "base64:…"')
    if parts.query or parts.fragment:
        raise BlobSourceError(uri, "it has a query or fragment; in a name, `?` is written %3F and `#` %23")
    segments = tuple(path.strip("/").split("/")) if path.strip("/") else ()
    if "\0" in path or any(segment in ("", ".", "..") for segment in segments):
        raise BlobSourceError(uri, "its path has an empty, `.` or `..` segment, or a NUL character")
    return BlobSourceLocation(bucket, segments)


class BlobSources:
    """The places that the settings allow. Safe to share between threads, and to send to another process."""

    def __init__(self, allowed: Sequence[str], *, limit: int, storage: Mapping[str, str]) -> None:
        self._allowed_uris = tuple(allowed)
        self._allowed = sorted((parse_blob_location(uri) for uri in allowed), key=lambda place: -len(place.segments))
        self._limit, self._storage = limit, dict(storage)
        self._lock = threading.Lock()
        self._buckets: dict[str, S3ObjectStore] = {}

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild_sources, (self._allowed_uris, self._limit, self._storage)

    def check(self, uri: str) -> None:
        """Check that a URI lies in an allowed place, by its text alone; else BlobSourceError."""
        self._locate(uri)

    def read_size(self, uri: str) -> int:
        """How many bytes there are to read; BlobSourceError when the URI is not allowed, missing or too large."""
        root, place = self._locate(uri)
        if place.bucket is None:
            with _open_regular_file(uri, root, place) as file:
                found = os.fstat(file).st_size
        else:
            info = self._open_bucket(place.bucket).stat("/".join(place.segments))
            if info is None:
                raise BlobSourceError(uri, "there is no such object")
            found = info.size
        if found > self._limit:
            raise self._build_size_error(uri)
        return found

    def read(self, uri: str) -> bytes:
        """The bytes, or BlobSourceError when the URI is not allowed, missing or too large."""
        root, place = self._locate(uri)
        if place.bucket is None:
            with _open_regular_file(uri, root, place) as file, os.fdopen(file, "rb", closefd=False) as stream:
                data = stream.read(min(os.fstat(file).st_size, self._limit) + 1)
            if len(data) > self._limit:
                raise self._build_size_error(uri)
            return data
        try:
            found = self._open_bucket(place.bucket).get_up_to("/".join(place.segments), self._limit)
        except ObjectMissingError:
            raise BlobSourceError(uri, "there is no such object") from None
        if found is None:
            raise self._build_size_error(uri)
        return found

    def _locate(self, uri: str) -> tuple[BlobSourceLocation, BlobSourceLocation]:
        """The allowed place that a URI lies in, and the URI's own."""
        place = parse_blob_location(uri)
        root = next((one for one in self._allowed if one.contains(place)), None)
        if root is None:
            reason = "it is below none of the places that the settings of this graph allow (OMNIGRAPH_BLOB_SOURCES)"
            raise BlobSourceError(uri, reason)
        return root, place

    def _open_bucket(self, name: str) -> S3ObjectStore:
        with self._lock:
            if name not in self._buckets:
                self._buckets[name] = S3ObjectStore(name, "", self._storage)
            return self._buckets[name]

    def _build_size_error(self, uri: str) -> BlobSourceError:
        return BlobSourceError(uri, f"it has more than {self._limit} bytes, the most for one blob")


def _rebuild_sources(allowed: Sequence[str], limit: int, storage: Mapping[str, str]) -> BlobSources:
    return BlobSources(allowed, limit=limit, storage=storage)


NO_SOURCES = BlobSources((), limit=0, storage={})
"""Allows nothing."""


@contextmanager
def _open_regular_file(uri: str, root: BlobSourceLocation, place: BlobSourceLocation) -> Iterator[int]:
    """The descriptor of a regular file below an allowed directory, reached without following any link."""
    try:
        file = _open_below("/" + "/".join(root.segments), place.segments[len(root.segments) :])
    except OSError as error:
        raise _convert_error(uri, error) from error
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise BlobSourceError(uri, "it is not a regular file")
        yield file
    finally:
        os.close(file)


def _open_below(root: str, segments: Sequence[str]) -> int:
    directory = os.open(root, _DIRECTORY_FLAGS)
    try:
        for segment in segments[:-1]:
            inner = os.open(segment, _DIRECTORY_FLAGS | os.O_NOFOLLOW, dir_fd=directory)
            os.close(directory)
            directory = inner
        return os.open(segments[-1], _FILE_FLAGS | os.O_NOFOLLOW, dir_fd=directory)
    finally:
        os.close(directory)


def _convert_error(uri: str, error: OSError) -> OmnigraphError:
    match error.errno:
        case errno.ENOENT:
            return BlobSourceError(uri, "there is no such file")
        case errno.ELOOP | errno.ENOTDIR:
            return BlobSourceError(uri, "its path has a symbolic link, which is not followed, or a file in the middle")
        case errno.EACCES | errno.EPERM:
            return BlobSourceError(uri, "there is no permission to read it")
        case errno.ENAMETOOLONG | errno.EINVAL | errno.ENXIO | errno.EISDIR:
            return BlobSourceError(uri, "it is not a regular file")
        case _:
            return StoreUnavailableError(f"read `{uri[:_MAX_SHOWN_CHARACTERS]}`", error.strerror or str(error))
