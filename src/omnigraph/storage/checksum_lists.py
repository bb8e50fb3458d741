"""Lists of checksums, for files whose names carry none: those of earlier releases, and all on an object store.

A list is an object `{table}/_checksums/{digest}` of lines `["data/….lance", size, "xxh3"]`, sorted by name. Its own
name is the digest of its content, so that whoever reads it can check it, and it never changes. Pins say which lists
there are of a table.
"""

import threading
from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

import msgspec
import xxhash

from omnigraph.storage.layout import CHECKSUM_LISTS
from omnigraph.telemetry import log

_Line = tuple[str, int, str]


class FileChecksum(NamedTuple):
    """The size of a file, and its checksum."""

    size: int
    checksum: int


class ListDamagedError(ValueError):
    """A list is not what its name says, or not there."""


def build_list_key(path: str, name: str) -> str:
    """Return the key of a list of a table."""
    return f"{path}/{CHECKSUM_LISTS}/{name}"


def encode_list(files: Mapping[str, FileChecksum]) -> tuple[str, bytes]:
    """Return the name and the content of a list of files, which are named relative to their table."""
    lines = [(name, one.size, f"{one.checksum:016x}") for name, one in sorted(files.items())]
    data = msgspec.json.Encoder().encode_lines(lines)
    return xxhash.xxh3_128_hexdigest(data), data


def decode_list(name: str, data: bytes) -> dict[str, FileChecksum]:
    """Return the files of a list.

    Raises:
        ListDamagedError: The content is not the one that the name is the digest of.
    """
    if xxhash.xxh3_128_hexdigest(data) != name:
        raise ListDamagedError("it does not match its checksum")
    try:
        lines = msgspec.json.Decoder(_Line).decode_lines(data)
        return {file: FileChecksum(size, int(found, 16)) for file, size, found in lines}
    except (msgspec.DecodeError, ValueError) as error:  # another release may have written it otherwise
        raise ListDamagedError(f"it can't be decoded: {error}") from error


class StoredFileReader(Protocol):
    """Reads files of a graph where they are."""

    def read(self, key: str) -> bytes:
        """Return a small object; FileNotFoundError when it is not there."""
        ...

    def compute_checksum(self, key: str) -> tuple[int, int]:
        """Return the size and the checksum of a file of an object store; FileNotFoundError when it is not there."""
        ...


class ChecksumLists:
    """The lists of a graph that pins name, each read when something of its table is looked up. Safe from threads."""

    def __init__(self, files: StoredFileReader | None) -> None:
        self._files = files
        self._lock = threading.Lock()
        self._tables: dict[str, _TableLists] = {}
        self.damaged: dict[str, str] = {}
        """By key, why a list can't be used."""

    def expect(self, path: str, names: Iterable[str]) -> None:
        """Remember lists that a pin of a table names."""
        for name in names:
            lists = self._tables.setdefault(path, _TableLists())
            if name not in lists.known:
                lists.known.add(name)
                lists.unread.add(name)

    def read(self, path: str, name: str) -> dict[str, FileChecksum]:
        """Return the files of a list, named relative to the table; none of one that can't be used, which is noted."""
        key = build_list_key(path, name)
        if self._files is None:
            return {}
        try:
            return decode_list(name, self._files.read(key))
        except (OSError, ListDamagedError) as error:
            reason = "it is missing" if isinstance(error, FileNotFoundError) else str(error)
            self.damaged[key] = reason
            log.warning("the list of checksums %s is not used: %s", key, reason)
            return {}

    def is_whole(self, key: str) -> bool:
        """Return whether a list is what its name says."""
        path, name = _split(key)
        self.read(path, name.rpartition("/")[2])
        return key not in self.damaged

    def find(self, key: str) -> FileChecksum | None:
        """Return what a list says of a file; None where none does."""
        path, name = _split(key)
        lists = self._load(path)
        return None if lists is None else lists.files.get(name)

    def find_below(self, directory: str) -> list[tuple[str, FileChecksum]]:
        """Return what lists say of files below a directory of blobs or of an index, by their keys."""
        path, name = _split(directory)
        lists = self._load(path)
        return [] if lists is None else [(f"{path}/{file}", lists.files[file]) for file in lists.below.get(name, ())]

    def has_checksum(self, key: str) -> bool:
        """Return whether a list says something of a file, or of files of a directory."""
        return self.find(key) is not None or bool(self.find_below(key))

    def _load(self, path: str) -> "_TableLists | None":
        """Return the lists of a table, all of them read; None where there are none, as of most tables."""
        lists = self._tables.get(path)
        if lists is not None and lists.unread:
            with self._lock:  # whoever comes meanwhile needs all of them too
                for name in tuple(lists.unread):
                    lists.add(self.read(path, name))
                    lists.unread.discard(name)
        return lists


class _TableLists:
    """What the lists of one table say, as far as they were read."""

    def __init__(self) -> None:
        self.unread: set[str] = set()
        self.known: set[str] = set()
        self.files: dict[str, FileChecksum] = {}
        self.below: dict[str, list[str]] = {}
        """By directory of blobs or of an index, its files."""

    def add(self, files: Mapping[str, FileChecksum]) -> None:
        for name, found in files.items():
            if name not in self.files:
                room, _, rest = name.partition("/")
                directory, _, inside = rest.partition("/")
                if inside:
                    self.below.setdefault(f"{room}/{directory}", []).append(name)
            self.files[name] = found


def _split(key: str) -> tuple[str, str]:
    """Return the table of a key, and the rest, which is relative to it."""
    root, table, name = key.split("/", 2)
    return f"{root}/{table}", name
