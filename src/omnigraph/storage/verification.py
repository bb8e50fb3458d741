"""Compare files with what was recorded of them, each once in a process: they never change.

A reader verifies the file of a table version before Lance opens it, and deletion files and small files before rows are
read. Large files are verified by those who read all of them anyway (`check --deep`, clones, maintenance, the server's
scrub), or by everybody where the settings say so. On an object store every comparison is a request, so only these do.

Names of files carry checksums, or lists that pins name hold them. A list that is damaged says nothing of its files, and
keeps nobody from reading them.
"""

import os
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from omnigraph.options import Verify
from omnigraph.storage.checksum_lists import FileSum, ListDamagedError, decode_list, list_key
from omnigraph.storage.checksums import (
    blob_checksum,
    checksum_directory,
    checksum_file,
    data_checksum,
    deletion_checksum,
    is_same,
    uuid_checksum,
)
from omnigraph.storage.layout import CHECKSUM_LISTS, version_key
from omnigraph.telemetry import log

SMALL_BYTES = 4 * 1024 * 1024
"""Files up to this size are verified at their first read: 0.4 ms of a core for the largest, 10 µs for one of 2 KB."""
MISMATCH = "it does not match its checksum"


@dataclass(frozen=True, slots=True)
class Expected:
    """What a pin records of a version: the checksum of its file, if any, and how many rows it has."""

    checksum: str | None
    rows: int


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A file, or a directory of files, that is not what was recorded."""

    key: str
    reason: str


class StoredFiles(Protocol):
    """Reads files of a graph where they are: the object store's part of a verifier."""

    def read(self, key: str) -> bytes:
        """Return a small object; FileNotFoundError when it is not there."""
        ...

    def checksum(self, key: str) -> tuple[int, int]:
        """Return the size and the checksum of a file of an object store; FileNotFoundError when it is not there."""
        ...


class Verifier:
    """Knows what was recorded of the files of one graph, and which of them were found to match."""

    def __init__(
        self,
        locate: Callable[[str], str] | None,
        level: Verify,
        *,
        follow_links: bool = False,
        files: StoredFiles | None = None,
    ) -> None:
        """Take how a key becomes a path; None on an object store, where `files` are read and names carry nothing."""
        self._locate, self._follow, self._files = locate, follow_links, files
        self.is_eager = level is Verify.ALWAYS
        self._expected: dict[tuple[str, int], Expected] = {}
        self._matched: set[str] = set()
        self._lock = threading.Lock()
        self._lists: dict[str, _Lists] = {}
        """By table, the lists that its pins name."""
        self.damaged_lists: dict[str, str] = {}
        """By key, why a list can't be used."""

    @property
    def is_verifying_reads(self) -> bool:
        """Whether ordinary reads compare small files: on an object store that takes requests, unless it is wanted."""
        return self._locate is not None or self.is_eager

    def expect(self, path: str, version: int, checksum: str | None, rows: int) -> None:
        """Remember what a pin records of a version; a later pin without a checksum does not take one away."""
        known = self._expected.get((path, version))
        if checksum is None and known is not None:
            checksum = known.checksum
        self._expected[path, version] = Expected(checksum, rows)

    def expected(self, path: str, version: int) -> Expected | None:
        """Return what is recorded of a version, as far as a manifest that was read said so."""
        return self._expected.get((path, version))

    def expect_lists(self, path: str, names: Iterable[str]) -> None:
        """Remember lists of checksums that a pin of a table names; they are read when something is looked up."""
        for name in names:
            lists = self._lists.setdefault(path, _Lists())
            if name not in lists.known:
                lists.known.add(name)
                lists.unread.add(name)

    def read_list(self, path: str, name: str) -> dict[str, FileSum]:
        """Return the files of a list, named relative to the table; none of one that can't be used, which is noted."""
        key = list_key(path, name)
        if self._files is None:
            return {}
        try:
            return decode_list(name, self._files.read(key))
        except (OSError, ListDamagedError) as error:
            reason = "it is missing" if isinstance(error, FileNotFoundError) else str(error)
            self.damaged_lists[key] = reason
            log.warning("the list of checksums %s is not used: %s", key, reason)
            return {}

    def listed(self, key: str) -> FileSum | None:
        """Return what a list says of a file; None where none does."""
        path, name = _split(key)
        lists = self._load_lists(path)
        return None if lists is None else lists.files.get(name)

    def is_recorded(self, key: str) -> bool:
        """Return whether there is a checksum of a file, or of a directory, which `PinnedFiles` names."""
        return self._named(key) is not None or self.listed(key) is not None or bool(self._below(key))

    def is_named(self, key: str) -> bool:
        """Return whether the name of a file, or of the directory of blobs or of an index above it, has a checksum."""
        return self._named(verified_unit(key)) is not None

    def trust(self, keys: Iterable[str]) -> None:
        """Take files as matching: this process has just computed their checksums."""
        self._matched.update(keys)

    def is_trusted(self, key: str) -> bool:
        """Return whether a file was found to match, or was written by this process."""
        return key in self._matched

    def checksum_version(self, path: str, version: int) -> str | None:
        """Return the checksum to record for a version's file: the recorded one, else that of what is there now.

        None on an object store, where it takes a request that a commit does not make.

        Raises:
            OSError: The file can't be read.
        """
        known = self._expected.get((path, version))
        if known is not None and known.checksum is not None:
            return known.checksum
        if self._locate is None:
            return None
        key = version_key(path, version)
        found = checksum_file(self._locate(key), follow_links=self._follow)[1]
        self._matched.add(key)
        return f"{found:016x}"

    def find_version_mismatch(self, path: str, version: int) -> Mismatch | None:
        """Compare the file of a version with what its pin records, unless that was done before.

        A file that is gone is left to who reads it, as it is by the other methods.

        Raises:
            OSError: It can't be read.
        """
        known = self._expected.get((path, version))
        recorded = None if known is None or known.checksum is None else int(known.checksum, 16)
        return self._compare(version_key(path, version), recorded)

    def find_mismatch(self, key: str) -> Mismatch | None:
        """Compare a data file, a deletion file, or a directory of blobs or of an index, as `PinnedFiles` names it.

        A list of checksums is compared with its own name, and anything else with what lists say of it.

        Raises:
            OSError: It can't be read.
        """
        if f"/{CHECKSUM_LISTS}/" in key:
            path, name = _split(key)
            self.read_list(path, name.rpartition("/")[2])
            return Mismatch(key, MISMATCH) if key in self.damaged_lists else None
        is_directory = "/_indices/" in key or ("/data/" in key and not key.endswith(".lance"))
        return self._compare(key, self._named(key), is_directory=is_directory)

    def find_data_mismatch(self, path: str, name: str) -> Mismatch | None:
        """Compare a data file with its name; nothing where the name carries no checksum."""
        return self._compare(f"{path}/data/{name}", data_checksum(name))

    def find_blob_mismatch(self, path: str, name: str) -> Mismatch | None:
        """Compare all files of blobs beside a data file with that file's name."""
        return self._compare(f"{path}/data/{name.removesuffix('.lance')}", blob_checksum(name), is_directory=True)

    def find_deletion_mismatch(self, path: str, file: str) -> Mismatch | None:
        """Compare a deletion file, named relative to its table, with its name."""
        return self._compare(f"{path}/{file}", deletion_checksum(file))

    def find_segment_mismatch(self, path: str, uuid: str) -> Mismatch | None:
        """Compare all files of an index segment with its UUID."""
        return self._compare(f"{path}/_indices/{uuid}", uuid_checksum(uuid), is_directory=True)

    def blob_bytes(self, path: str, name: str) -> int:
        """Return the size of all blobs beside a data file; 0 when there are none, or they are not on this machine."""
        key = f"{path}/data/{name.removesuffix('.lance')}"
        if self._locate is None or blob_checksum(name) is None:
            return sum(one.size for _, one in self._below(key))
        try:
            with os.scandir(self._locate(key)) as entries:
                return sum(entry.stat(follow_symlinks=False).st_size for entry in entries)
        except FileNotFoundError:
            return 0

    def checksum_file(self, key: str) -> FileSum:
        """Return the size and the checksum of a file as it is.

        Raises:
            OSError: It can't be read, or is not there.
        """
        if self._locate is not None:
            return FileSum(*checksum_file(self._locate(key), follow_links=self._follow))
        if self._files is None:
            raise FileNotFoundError(key)
        return FileSum(*self._files.checksum(key))

    def _named(self, key: str) -> int | None:
        """Return the checksum that a name carries: of a data file, a deletion file, or a directory."""
        if "/_deletions/" in key:
            return deletion_checksum(key)
        if "/_indices/" in key:
            return uuid_checksum(key.rpartition("/")[2])
        if "/data/" not in key:
            return None
        return data_checksum(key) if key.endswith(".lance") else blob_checksum(f"{key}.lance")

    def _below(self, directory: str) -> list[tuple[str, FileSum]]:
        """Return what lists say of files below a directory of blobs or of an index, by their keys."""
        path, name = _split(directory)
        lists = self._load_lists(path)
        return [] if lists is None else [(f"{path}/{file}", lists.files[file]) for file in lists.below.get(name, ())]

    def _load_lists(self, path: str) -> "_Lists | None":
        """Return the lists of a table, all of them read; None where there are none, as of most tables."""
        lists = self._lists.get(path)
        if lists is not None and lists.unread:
            with self._lock:  # whoever comes meanwhile needs all of them too
                for name in tuple(lists.unread):
                    lists.add(self.read_list(path, name))
                    lists.unread.discard(name)
        return lists

    def _compare(self, key: str, recorded: int | None, *, is_directory: bool = False) -> Mismatch | None:
        if key in self._matched:
            return None
        try:
            if recorded is None:
                is_known, wrong = self._compare_listed(key)
            else:
                is_known, wrong = True, None if self._has(key, recorded, is_directory=is_directory) else key
        except FileNotFoundError:
            return None
        if wrong is not None:
            return Mismatch(wrong, MISMATCH)
        if is_known:
            self._matched.add(key)
        return None

    def _has(self, key: str, recorded: int, *, is_directory: bool) -> bool:
        """Return whether a file, or all files of a directory, have a checksum."""
        if is_directory and self._locate is not None:
            return is_same(checksum_directory(self._locate(key), follow_links=self._follow)[1], recorded)
        return is_same(self.checksum_file(key).checksum, recorded)

    def _compare_listed(self, key: str) -> tuple[bool, str | None]:
        """Return whether lists know a file or a directory, and the file that is not what they say."""
        listed = self.listed(key)
        files = self._below(key) if listed is None else [(key, listed)]
        return bool(files), next((file for file, found in files if self.checksum_file(file) != found), None)


class _Lists:
    """What the lists of one table say, as far as they were read."""

    def __init__(self) -> None:
        self.unread: set[str] = set()
        self.known: set[str] = set()
        self.files: dict[str, FileSum] = {}
        self.below: dict[str, list[str]] = {}
        """By directory of blobs or of an index, its files."""

    def add(self, files: Mapping[str, FileSum]) -> None:
        for name, found in files.items():
            if name not in self.files:
                room, _, rest = name.partition("/")
                directory, _, inside = rest.partition("/")
                if inside:
                    self.below.setdefault(f"{room}/{directory}", []).append(name)
            self.files[name] = found


def verified_unit(key: str) -> str:
    """Return what has the checksum that covers a file: itself, or the directory of blobs or of an index above it."""
    path, name = _split(key)
    room, _, rest = name.partition("/")
    directory, _, inside = rest.partition("/")
    return f"{path}/{room}/{directory}" if inside and room in ("data", "_indices") else key


def _split(key: str) -> tuple[str, str]:
    """Return the table of a key, and the rest, which is relative to it."""
    root, table, name = key.split("/", 2)
    return f"{root}/{table}", name
