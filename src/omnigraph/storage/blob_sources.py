"""Read objects outside of the graph that a Blob value names by its URI, only in locations that the settings allow.

Nothing is allowed by default. What a URI names is decided from its text, before anything is opened. Below an allowed
directory no symbolic link is followed, so that a link can't escape from it, not even one that is swapped in during the
read. Only regular files up to a size limit are read, and never anything over HTTP.
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
from omnigraph.locations import AZURE
from omnigraph.storage.object_store import ObjectMissingError, StoreUnavailableError
from omnigraph.storage.s3_object_store import S3ObjectStore

# The part of a URI that a message shows.
_MAX_SHOWN_CHARACTERS = 200
_DIRECTORY_FLAGS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
# Without O_NONBLOCK, opening a named pipe would wait until another process writes to it.
_FILE_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC


class BlobSourceError(OmnigraphError):
    """A URI given as a Blob value can't be read, or is not allowed."""

    kind = Kind.INVALID
    code = "blob_source"
    uri: str
    reason: str

    def __str__(self) -> str:
        shown = self.uri if len(self.uri) <= _MAX_SHOWN_CHARACTERS else f"{self.uri[:_MAX_SHOWN_CHARACTERS]}…"
        return f"can't read the blob `{shown}`: {self.reason}"


@dataclass(frozen=True, slots=True)
class BlobSourceLocation:
    """A location as bucket and path segments; `bucket` is None for files of this machine."""

    bucket: str | None
    segments: tuple[str, ...]

    def contains(self, other: "BlobSourceLocation") -> bool:
        """Return whether another location is strictly below this one."""
        depth = len(self.segments)
        return other.bucket == self.bucket and len(other.segments) > depth and other.segments[:depth] == self.segments


def parse_blob_location(uri: str) -> BlobSourceLocation:
    """Return the location of `file:///…`, `s3://bucket/…` or `az://container/…`, whose path is percent-encoded.

    Raises:
        BlobSourceError: The text is not such a URI.
    """
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
        case "s3" | "s3a" | "s3n" if parts.netloc:
            bucket = parts.netloc
        case "s3" | "s3a" | "s3n":
            raise BlobSourceError(uri, "write s3://bucket/key")
        case "az" if parts.netloc:
            bucket = f"{AZURE}{parts.netloc}"
        case "az":
            raise BlobSourceError(uri, "write az://container/key")
        case _:
            raise BlobSourceError(uri, 'only file://, s3:// and az:// are read; give the bytes as "base64:…"')
    if parts.query or parts.fragment:
        raise BlobSourceError(uri, "it has a query or fragment; in a name, `?` is written %3F and `#` %23")
    segments = tuple(path.strip("/").split("/")) if path.strip("/") else ()
    if "\0" in path or any(segment in ("", ".", "..") for segment in segments):
        raise BlobSourceError(uri, "its path has an empty, `.` or `..` segment, or a NUL character")
    return BlobSourceLocation(bucket, segments)


class BlobSources:
    """A reader of the locations that the settings allow. Thread-safe, and can be pickled."""

    def __init__(self, allowed: Sequence[str], *, limit: int, storage: Mapping[str, str]) -> None:
        self._allowed_uris = tuple(allowed)
        # Deepest first: a URI is opened relative to the closest allowed directory above it.
        locations = map(parse_blob_location, allowed)
        self._allowed = sorted(locations, key=lambda location: -len(location.segments))
        self._limit = limit
        self._storage = dict(storage)
        self._lock = threading.Lock()
        self._buckets: dict[str, S3ObjectStore] = {}

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild_sources, (self._allowed_uris, self._limit, self._storage)

    def check(self, uri: str) -> None:
        """Check by its text alone that a URI is in an allowed location.

        Raises:
            BlobSourceError: It is not.
        """
        self._locate(uri)

    def read_size(self, uri: str) -> int:
        """Return the number of bytes of an object.

        Raises:
            BlobSourceError: The URI is not allowed, or the object is missing or too large.
        """
        root, location = self._locate(uri)
        if location.bucket is None:
            with _open_regular_file(uri, root, location) as file:
                size = os.fstat(file).st_size
        else:
            info = self._open_bucket(location.bucket).stat("/".join(location.segments))
            if info is None:
                raise BlobSourceError(uri, "there is no such object")
            size = info.size
        if size > self._limit:
            raise self._build_size_error(uri)
        return size

    def read(self, uri: str) -> bytes:
        """Return the bytes of an object.

        Raises:
            BlobSourceError: The URI is not allowed, or the object is missing or too large.
        """
        root, location = self._locate(uri)
        if location.bucket is None:
            with _open_regular_file(uri, root, location) as file, os.fdopen(file, "rb", closefd=False) as stream:
                # One byte more than expected, so that a file that has grown beyond the limit is noticed.
                data = stream.read(min(os.fstat(file).st_size, self._limit) + 1)
            if len(data) > self._limit:
                raise self._build_size_error(uri)
            return data
        try:
            content = self._open_bucket(location.bucket).get_up_to("/".join(location.segments), self._limit)
        except ObjectMissingError:
            raise BlobSourceError(uri, "there is no such object") from None
        if content is None:
            raise self._build_size_error(uri)
        return content

    def _locate(self, uri: str) -> tuple[BlobSourceLocation, BlobSourceLocation]:
        """Return the allowed location that contains a URI, and the location of the URI itself."""
        location = parse_blob_location(uri)
        root = next((allowed for allowed in self._allowed if allowed.contains(location)), None)
        if root is None:
            reason = "it is below none of the places that the settings of this graph allow (OMNIGRAPH_BLOB_SOURCES)"
            raise BlobSourceError(uri, reason)
        return root, location

    def _open_bucket(self, name: str) -> S3ObjectStore:
        with self._lock:
            if name not in self._buckets:
                self._buckets[name] = S3ObjectStore(name, "", self._storage)
            return self._buckets[name]

    def _build_size_error(self, uri: str) -> BlobSourceError:
        return BlobSourceError(uri, f"it has more than {self._limit} bytes, the limit for one blob")


def _rebuild_sources(allowed: Sequence[str], limit: int, storage: Mapping[str, str]) -> BlobSources:
    return BlobSources(allowed, limit=limit, storage=storage)


# Allows nothing.
NO_SOURCES = BlobSources((), limit=0, storage={})


@contextmanager
def _open_regular_file(uri: str, root: BlobSourceLocation, location: BlobSourceLocation) -> Iterator[int]:
    """Open a regular file below an allowed directory without following links, and yield its descriptor."""
    try:
        file = _open_below("/" + "/".join(root.segments), location.segments[len(root.segments) :])
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
            # Relative to the open parent: a rename of a directory above can no longer redirect this.
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
