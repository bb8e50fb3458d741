"""Find and read the inputs of a load on S3 or Azure, by key, prefix or glob pattern.

Every read carries the etag that the object had when it was found, so parts that different processes read always belong
to the same content.
"""

import io
import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, TypeAlias, cast

from omnigraph.errors import FileMissingError, FileUnreadableError
from omnigraph.locations import AZURE, format_address
from omnigraph.storage.object_store import ObjectChangedError, ObjectKeyError, ObjectMissingError
from omnigraph.storage.s3_object_store import PART_BYTES, ListedObject, S3ObjectStore

_ADDRESS = re.compile(r"(?:(?i:s3[an]?)|(?P<azure>(?i:az)))://(?P<bucket>[^/]+)/(?P<key>.+)", re.DOTALL)
_GLOB_CHARACTERS = frozenset("*?[")
_INVALID_NAMES = frozenset(("", ".", ".."))
_MAX_OPEN_BUCKETS = 8

Storage: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """An object of a bucket as it was when it was found; small, and picklable for other processes."""

    bucket: str
    key: str
    size: int
    etag: str
    # Storage settings may contain secrets, so they are not shown.
    storage: Storage = field(default=(), repr=False, compare=False)

    @property
    def name(self) -> str:
        """The last segment of its key."""
        return self.key.rpartition("/")[2]

    def __str__(self) -> str:
        return format_address(self.bucket, self.key)

    def open(self, mode: str = "rb", buffering: int = PART_BYTES) -> BinaryIO:
        """Return a seekable binary file. `buffering` is the size of one request; with 0 each read is a request.

        Raises:
            FileMissingError: On a read, if the object no longer exists.
            FileUnreadableError: On a read, if the object was overwritten since it was found.
            StoreDeniedError, StoreUnavailableError: On a read, if the store rejects it or does not respond.
        """
        if mode != "rb":
            msg = f"inputs are read-only and can't be opened with {mode!r}"
            raise ValueError(msg)
        raw = _RemoteBytes(self)
        return cast("BinaryIO", raw) if buffering == 0 else cast("BinaryIO", io.BufferedReader(raw, buffering))

    def read_range(self, start: int, end: int) -> bytes:
        """Return the bytes from `start` to `end`; raises as a read of the opened file does."""
        try:
            return _open_bucket(self.bucket, self.storage).read_range(self.key, start, end, self.etag)
        except ObjectMissingError as error:
            raise FileMissingError(str(self)) from error
        except ObjectChangedError as error:
            raise FileUnreadableError(str(self), "it was overwritten while it was being loaded") from error


# An input of a load: both have an `open` and a `name`, whose suffix determines the format.
InputFile: TypeAlias = Path | RemoteFile


class _RemoteBytes(io.RawIOBase):
    """An unbuffered file over an object: every read is a request."""

    def __init__(self, file: RemoteFile) -> None:
        super().__init__()
        self._file = file
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._file.size}[whence]
        self._position = max(0, start + offset)
        return self._position

    def readinto(self, buffer: object) -> int:
        target = memoryview(cast("bytearray", buffer)).cast("B")
        end = min(self._position + len(target), self._file.size)
        if end <= self._position:
            return 0
        data = self._file.read_range(self._position, end)
        target[: len(data)] = data
        self._position += len(data)
        return len(data)


# --- finding inputs -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FileMatch:
    """An object that an address selects: the last name that its pattern matched, if any, and the names after that.

    Below a prefix these are all names after the prefix; for an exact key there are none. The empty object that marks a
    folder gets the name `.`, which is hidden, as that of a directory on disk.
    """

    file: RemoteFile
    matched: str | None
    remaining_names: tuple[str, ...]


def find_remote_files(address: str, storage: Mapping[str, str]) -> list[FileMatch]:
    """Return the object with that key, or all objects below it as a prefix, or those it matches as a pattern, by key.

    An empty object with others below it counts as a directory.

    Raises:
        FileMissingError: The address is no `s3://bucket/key` or `az://container/key`.
        ObjectKeyError: The address, or the key of an object below it, has a segment that is empty, `.` or `..`.
        StoreDeniedError, StoreUnavailableError: The store rejects a request, or does not respond.
    """
    match = _ADDRESS.fullmatch(address)
    if match is None:
        raise FileMissingError(address)
    bucket, key = f"{AZURE if match['azure'] else ''}{match['bucket']}", match["key"]
    segments = key.removesuffix("/").split("/")
    if not _INVALID_NAMES.isdisjoint(segments):
        raise ObjectKeyError(key)
    options = tuple(sorted(storage.items()))
    objects = _open_bucket(bucket, options)

    def to_file(listed: ListedObject) -> RemoteFile:
        return RemoteFile(bucket, listed.key, listed.size, listed.etag, options)

    # An object with content is a file, whatever is below its key.
    exact = None if key.endswith("/") else objects.find(key)
    if exact is not None and exact.size:
        return [FileMatch(to_file(exact), None, ())]
    below = [
        FileMatch(to_file(listed), None, tuple(names[len(segments) :]))
        for listed, names in _list_folder(objects, segments)
    ]
    # Listed as the marker of its own folder, and nothing else is below it: an empty file.
    if exact is not None and all(file_match.remaining_names == (".",) for file_match in below):
        return [FileMatch(to_file(exact), None, ())]
    # A key may contain `*`, `?` or `[`, so the address is a pattern only if it is no key or prefix.
    if below or not _GLOB_CHARACTERS & set(key):
        return below
    first_glob = next(index for index, segment in enumerate(segments) if _GLOB_CHARACTERS & set(segment))
    matches: list[FileMatch] = []
    for listed, names in _list_folder(objects, segments[:first_glob]):
        count = _match_names(names, segments)
        if count is not None:
            matches.append(FileMatch(to_file(listed), names[count - 1], tuple(names[count:])))
    return matches


def _list_folder(objects: S3ObjectStore, folder: Sequence[str]) -> list[tuple[ListedObject, list[str]]]:
    """Return the objects below a folder by key, each with its names; the marker of a folder gets the name `.` in it."""
    prefix = "/".join(folder)
    # An empty file and the marker of a folder may look the same.
    listed_objects = list(dict.fromkeys(objects.iter_below(prefix)))
    keys = [listed.key for listed in listed_objects]

    # Keys are listed without a slash at their end, so a marker looks like an empty file. Other objects below it give it
    # away; without any, it is a marker if no empty object has the key as it is listed.
    def is_marker(listed: ListedObject) -> bool:
        if listed.size:
            return False
        child_prefix = f"{listed.key}/"
        following = bisect_left(keys, child_prefix)
        if listed.key == prefix or (following < len(keys) and keys[following].startswith(child_prefix)):
            return True
        exact = objects.find(listed.key)
        return exact is None or exact.size > 0

    return [(listed, [*listed.key.split("/"), *(["."] if is_marker(listed) else [])]) for listed in listed_objects]


def _match_names(names: Sequence[str], pattern: Sequence[str]) -> int | None:
    """Return the smallest number of leading names that a pattern matches, or None. `**` matches any number."""
    if not pattern:
        return 0
    if pattern[0] == "**":
        # `**` tries the fewest names first, and never crosses a hidden one.
        for skipped in range(len(names) + 1):
            rest = _match_names(names[skipped:], pattern[1:])
            if rest is not None:
                return skipped + rest
            if skipped < len(names) and names[skipped].startswith("."):
                return None
        return None
    is_hidden = bool(names) and names[0].startswith(".") and not pattern[0].startswith(".")
    if not names or is_hidden or not fnmatchcase(names[0], pattern[0]):
        return None
    rest = _match_names(names[1:], pattern[1:])
    return None if rest is None else 1 + rest


@lru_cache(maxsize=_MAX_OPEN_BUCKETS)
def _open_bucket(name: str, storage: Storage) -> S3ObjectStore:
    return S3ObjectStore(name, "", dict(storage))
