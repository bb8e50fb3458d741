"""Lists of checksums, for files whose names carry none: those of earlier releases, and all on an object store.

A list is an object `{table}/_checksums/{digest}` of lines `["data/….lance", size, "xxh3"]`, sorted by name. Its name is
the digest of its content, so a reader can verify it, and it never changes. Pins name the lists of a table.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

import msgspec
import xxhash

from omnigraph.concurrency import create_lock
from omnigraph.storage.layout import CHECKSUM_LISTS
from omnigraph.telemetry import log

_Line = tuple[str, int, str]


class FileChecksum(NamedTuple):
    """The size of a file and its checksum."""

    size: int
    checksum: int


class ListDamagedError(ValueError):
    """A list does not match its name, or is missing."""


def build_list_key(path: str, name: str) -> str:
    """Return the key of a list of a table."""
    return f"{path}/{CHECKSUM_LISTS}/{name}"


def encode_list(files: Mapping[str, FileChecksum]) -> tuple[str, bytes]:
    """Return the name and the content of a list of files, which are named relative to their table."""
    # Sorted, so that equal lists have equal names.
    lines = [(name, file.size, f"{file.checksum:016x}") for name, file in sorted(files.items())]
    data = msgspec.json.Encoder().encode_lines(lines)
    return xxhash.xxh3_128_hexdigest(data), data


def decode_list(name: str, data: bytes) -> dict[str, FileChecksum]:
    """Return the files of a list.

    Raises:
        ListDamagedError: The name is not the digest of the content.
    """
    if xxhash.xxh3_128_hexdigest(data) != name:
        raise ListDamagedError("it does not match its checksum")
    try:
        lines = msgspec.json.Decoder(_Line).decode_lines(data)
        return {file: FileChecksum(size, int(checksum, 16)) for file, size, checksum in lines}
    except (msgspec.DecodeError, ValueError) as error:  # another release may use another format
        raise ListDamagedError(f"it can't be decoded: {error}") from error


class StoredFileReader(Protocol):
    """A reader of stored files by key."""

    def read(self, key: str) -> bytes:
        """Return the content of a small object.

        Raises:
            FileNotFoundError: It does not exist.
        """
        ...

    def compute_checksum(self, key: str) -> tuple[int, int]:
        """Return the size and the checksum of a file of an object store.

        Raises:
            FileNotFoundError: It does not exist.
        """
        ...


class ChecksumLists:
    """The lists that the pins of a graph name. A table's lists are read at its first lookup. Thread-safe."""

    def __init__(self, files: StoredFileReader | None) -> None:
        self._files = files
        self._lock = create_lock()
        self._tables: dict[str, _TableLists] = {}
        self.damaged: dict[str, str] = {}
        """Lists that can't be used: the reason by key."""

    def expect(self, path: str, names: Iterable[str]) -> None:
        """Add the lists that a pin of a table names; they are read later."""
        for name in names:
            lists = self._tables.setdefault(path, _TableLists())
            if name not in lists.known:
                lists.known.add(name)
                lists.unread.add(name)

    def read(self, path: str, name: str) -> dict[str, FileChecksum]:
        """Return the files of a list, named relative to the table.

        A list that can't be used is empty; the reason is logged and added to `damaged`.
        """
        key = build_list_key(path, name)
        if self._files is None:
            return {}
        try:
            return decode_list(name, self._files.read(key))
        except (OSError, ListDamagedError) as error:
            reason = "it is missing" if isinstance(error, FileNotFoundError) else str(error)
            self.damaged[key] = reason
            log.warning("ignoring the list of checksums %s: %s", key, reason)
            return {}

    def is_whole(self, key: str) -> bool:
        """Return whether a list exists and matches its name."""
        path, name = _split(key)
        self.read(path, name.rpartition("/")[2])
        return key not in self.damaged

    def find(self, key: str) -> FileChecksum | None:
        """Return the listed checksum of a file, or None if no list has it."""
        path, name = _split(key)
        lists = self._load(path)
        return None if lists is None else lists.files.get(name)

    def find_below(self, directory: str) -> list[tuple[str, FileChecksum]]:
        """Return the listed files below a directory of blobs or of an index, by key."""
        path, name = _split(directory)
        lists = self._load(path)
        return [] if lists is None else [(f"{path}/{file}", lists.files[file]) for file in lists.below.get(name, ())]

    def has_checksum(self, key: str) -> bool:
        """Return whether a list has a file, or files below a directory."""
        return self.find(key) is not None or bool(self.find_below(key))

    def _load(self, path: str) -> "_TableLists | None":
        """Return the lists of a table after reading all of them; None for the many tables that have none."""
        lists = self._tables.get(path)
        if lists is not None and lists.unread:
            # Under the lock, so that concurrent callers wait until all lists of the table are read.
            with self._lock:
                for name in tuple(lists.unread):
                    lists.add(self.read(path, name))
                    lists.unread.discard(name)
        return lists


class _TableLists:
    """The merged content of the lists of one table that were read so far."""

    def __init__(self) -> None:
        self.unread: set[str] = set()
        self.known: set[str] = set()
        self.files: dict[str, FileChecksum] = {}
        self.below: dict[str, list[str]] = {}
        """The files of each directory of blobs or of an index."""

    def add(self, files: Mapping[str, FileChecksum]) -> None:
        for name, checksum in files.items():
            if name not in self.files:
                parent, _, rest = name.partition("/")
                directory, _, inside = rest.partition("/")
                # Only `data/{blobs}/…` and `_indices/{uuid}/…` have a third segment.
                if inside:
                    self.below.setdefault(f"{parent}/{directory}", []).append(name)
            self.files[name] = checksum


def _split(key: str) -> tuple[str, str]:
    """Return the table of a key, and the rest of the key relative to the table."""
    root, table, name = key.split("/", 2)
    return f"{root}/{table}", name
