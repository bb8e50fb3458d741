"""Files that a load reads from S3: objects that look like files, found by name, below a prefix, or by a pattern.

What was found is what is read: every request asks for the very object that was there when its name was looked up, so
that parts which different processes read belong together.
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
from omnigraph.storage.object_store import ObjectChangedError, ObjectKeyError, ObjectMissingError
from omnigraph.storage.s3_object_store import PART_BYTES, ListedObject, S3ObjectStore

_ADDRESS = re.compile(r"(?i:s3)://(?P<bucket>[^/]+)/(?P<key>.+)", re.DOTALL)
_GLOB_CHARACTERS = frozenset("*?[")
_INVALID_NAMES = frozenset(("", ".", ".."))
_MAX_OPEN_BUCKETS = 8

Storage: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """An object of a bucket as it was when it was found; small, and the same in every process."""

    bucket: str
    key: str
    size: int
    etag: str
    storage: Storage = field(default=(), repr=False, compare=False)  # they may be secret

    @property
    def name(self) -> str:
        """The last part of its key."""
        return self.key.rpartition("/")[2]

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.key}"

    def open(self, mode: str = "rb", buffering: int = PART_BYTES) -> BinaryIO:
        """Its bytes, from wherever one seeks; read so many at once, or as many as are asked for if that is 0.

        Raises:
            FileMissingError: When bytes are read: it is not there any more.
            FileUnreadableError: It was written again since it was found.
            StoreDeniedError, StoreUnavailableError: The store refuses, or does not answer.
        """
        if mode != "rb":
            msg = f"an input is only read, not opened with {mode!r}"
            raise ValueError(msg)
        raw = _RemoteBytes(self)
        return cast("BinaryIO", raw) if buffering == 0 else cast("BinaryIO", io.BufferedReader(raw, buffering))

    def read_range(self, start: int, end: int) -> bytes:
        """Some of its bytes. Raises what reading an open one raises."""
        try:
            return _open_bucket(self.bucket, self.storage).read_range(self.key, start, end, self.etag)
        except ObjectMissingError as error:
            raise FileMissingError(str(self)) from error
        except ObjectChangedError as error:
            raise FileUnreadableError(str(self), "it was written again while it was being loaded") from error


InputFile: TypeAlias = Path | RemoteFile
"""A file that a load reads: both open in the same way, and have a name whose ending says what they are."""


class _RemoteBytes(io.RawIOBase):
    """An object as an open file: every read is a request."""

    def __init__(self, file: RemoteFile) -> None:
        super().__init__()
        self._file, self._position = file, 0

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


# --- finding them --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FileMatch:
    """An object that an address stands for: the name that a pattern matched, if it was one, and the names behind it.

    Of a prefix those are all behind it; of an object that is named itself there are none. The empty object that marks a
    folder has the name `.` in it, as a directory has on a disk: hidden there and here.
    """

    file: RemoteFile
    matched: str | None
    remaining_names: tuple[str, ...]


def find_remote_files(address: str, storage: Mapping[str, str]) -> list[FileMatch]:
    """The object of that name; or what is below it, as below a directory; or what it matches as a pattern. By key.

    An empty object with others below it is a directory too.

    Raises:
        ObjectKeyError: The address, or the key of an object below it, has a segment that is empty, `.` or `..`.
        StoreDeniedError, StoreUnavailableError: The store refuses, or does not answer.
    """
    found = _ADDRESS.fullmatch(address)
    if found is None:
        raise FileMissingError(address)
    bucket, key = found["bucket"], found["key"]
    segments = key.removesuffix("/").split("/")
    if not _INVALID_NAMES.isdisjoint(segments):
        raise ObjectKeyError(key)
    options = tuple(sorted(storage.items()))
    objects = _open_bucket(bucket, options)

    def file(one: ListedObject) -> RemoteFile:
        return RemoteFile(bucket, one.key, one.size, one.etag, options)

    named = None if key.endswith("/") else objects.find(key)
    if named is not None and named.size:
        return [FileMatch(file(named), None, ())]
    below = [
        FileMatch(file(one), None, tuple(names[len(segments) :])) for one, names in _list_folder(objects, segments)
    ]
    if named is not None and all(one.remaining_names == (".",) for one in below):
        return [FileMatch(file(named), None, ())]
    if below or not _GLOB_CHARACTERS & set(key):
        return below
    plain = next(place for place, segment in enumerate(segments) if _GLOB_CHARACTERS & set(segment))
    matches: list[FileMatch] = []
    for one, names in _list_folder(objects, segments[:plain]):
        count = _match_names(names, segments)
        if count is not None:
            matches.append(FileMatch(file(one), names[count - 1], tuple(names[count:])))
    return matches


def _list_folder(objects: S3ObjectStore, folder: Sequence[str]) -> list[tuple[ListedObject, list[str]]]:
    """What is below a folder, by key, each with its names; the mark of a folder is the `.` in it.

    Keys are shown without a slash at their end, so a mark looks like an empty file. It is known by what is below it;
    failing that, no object with nothing in it has that key.
    """
    found = list(dict.fromkeys(objects.iter_below("/".join(folder))))  # an empty file and a mark may look the same
    keys = [one.key for one in found]

    def is_mark(one: ListedObject) -> bool:
        if one.size:
            return False
        inside = f"{one.key}/"
        after = bisect_left(keys, inside)
        if one.key == "/".join(folder) or (after < len(keys) and keys[after].startswith(inside)):
            return True
        named = objects.find(one.key)
        return named is None or named.size > 0

    return [(one, [*one.key.split("/"), *(["."] if is_mark(one) else [])]) for one in found]


def _match_names(names: Sequence[str], pattern: Sequence[str]) -> int | None:
    """How many of the first names a pattern matches, the fewest; None if it does not. `**` matches any number."""
    if not pattern:
        return 0
    if pattern[0] == "**":
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
