"""Compare files with what was recorded of them, each once in a process: they never change.

A reader verifies the file of a table version before Lance opens it, and deletion files and small files before rows are
read. Large files are verified by those who read all of them anyway (`check --deep`, clones, maintenance, the server's
scrub), or by everybody where the settings say so. On an object store every comparison is a request, so only these do.

Names of files carry checksums, or lists that pins name hold them. A list that is damaged says nothing of its files, and
keeps nobody from reading them.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from omnigraph.options import Verify
from omnigraph.storage.checksum_lists import ChecksumLists, FileChecksum, StoredFileReader
from omnigraph.storage.checksums import (
    checksum_directory,
    checksum_file,
    is_same,
    parse_blob_checksum,
    parse_checksum,
    parse_data_checksum,
)
from omnigraph.storage.layout import CHECKSUM_LISTS, build_version_key

SMALL_BYTES = 4 * 1024 * 1024
"""Files up to this size are verified at their first read: 0.4 ms of a core for the largest, 10 µs for one of 2 KB."""
MAX_REMEMBERED_VERSIONS = 16_384
MAX_REMEMBERED_FILES = 65_536
"""So many versions and files are remembered, about 15 MB in all. What is forgotten is compared again, or, of a version
that nobody has asked for since, not at all."""
_TABLE_DEPTH = 3
MISMATCH = "it does not match its checksum"


@dataclass(frozen=True, slots=True)
class VersionRecord:
    """What a pin records of a version: the checksum of its file, if any, and how many rows it has."""

    checksum: str | None
    rows: int


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A file, or a directory of files, that is not what was recorded."""

    key: str
    reason: str


class Verifier:
    """Knows what was recorded of the files of one graph, and which of them were found to match."""

    def __init__(
        self,
        locate: Callable[[str], str] | None,
        level: Verify,
        *,
        follow_links: bool = False,
        files: StoredFileReader | None = None,
    ) -> None:
        """Take how a key becomes a path; None on an object store, where `files` are read and names carry nothing."""
        self._locate, self._follow, self._files = locate, follow_links, files
        self._plain: set[str] = set()
        """Directories that are no links."""
        self.is_eager = level is Verify.ALWAYS
        self._expected: dict[tuple[str, int], VersionRecord] = {}
        self._matched: dict[str, None] = {}
        self.lists = ChecksumLists(files)
        """What lists say of files whose names carry nothing."""

    @property
    def is_verifying_reads(self) -> bool:
        """Whether ordinary reads compare small files: on an object store that takes requests, unless it is wanted."""
        return self._locate is not None or self.is_eager

    def locate(self, key: str) -> str:
        """Return the path of a file, whose directories below the root are no links unless the settings allow them.

        Raises:
            FileNotFoundError: One is: nothing is read through it.
        """
        assert self._locate is not None  # noqa: S101 - asked on this machine only
        parts = [] if self._follow else key.split("/")[:-1]
        for depth in range(1, len(parts) + 1):
            above = "/".join(parts[:depth])
            if above in self._plain:
                continue
            if stat.S_ISLNK(os.lstat(self._locate(above)).st_mode):
                raise FileNotFoundError(errno.ENOENT, "a link is not followed", above)
            if depth <= _TABLE_DEPTH:  # those below, of blobs and indexes, may be many
                self._plain.add(above)
        return self._locate(key)

    def expect(self, path: str, version: int, checksum: str | None, rows: int) -> None:
        """Remember what a pin records of a version; a later pin without a checksum does not take one away."""
        known = self._expected.get((path, version))
        if checksum is None and known is not None:
            checksum = known.checksum
        self._expected[path, version] = VersionRecord(checksum, rows)
        while len(self._expected) > MAX_REMEMBERED_VERSIONS:
            self._expected.pop(next(iter(self._expected)), None)

    def get_expected(self, path: str, version: int) -> VersionRecord | None:
        """Return what is recorded of a version, as far as a manifest that was read said so."""
        return self._expected.get((path, version))

    def is_recorded(self, key: str) -> bool:
        """Return whether there is a checksum of a file, or of a directory, which `PinnedFiles` names."""
        return parse_checksum(key) is not None or self.lists.has_checksum(key)

    def trust(self, keys: Iterable[str]) -> None:
        """Take files as matching: this process has just computed their checksums."""
        self._matched |= dict.fromkeys(keys)
        while len(self._matched) > MAX_REMEMBERED_FILES:
            self._matched.pop(next(iter(self._matched)), None)

    @property
    def matched(self) -> frozenset[str]:
        """The files that were found to match so far."""
        return frozenset(self._matched)

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
        key = build_version_key(path, version)
        found = checksum_file(self.locate(key), follow_links=self._follow)[1]
        self.trust([key])
        return f"{found:016x}"

    def find_version_mismatch(self, path: str, version: int) -> Mismatch | None:
        """Compare the file of a version with what its pin records, unless that was done before.

        A file that is gone is left to who reads it, as it is by the other methods.

        Raises:
            OSError: It can't be read.
        """
        known = self._expected.get((path, version))
        recorded = None if known is None or known.checksum is None else int(known.checksum, 16)
        return self._compare(build_version_key(path, version), recorded)

    def find_mismatch(self, key: str) -> Mismatch | None:
        """Compare a data file, a deletion file, or a directory of blobs or of an index, as `PinnedFiles` names it.

        A list of checksums is compared with its own name, and anything else with what lists say of it.

        Raises:
            OSError: It can't be read.
        """
        if f"/{CHECKSUM_LISTS}/" in key:
            return None if self.lists.is_whole(key) else Mismatch(key, MISMATCH)
        is_directory = "/_indices/" in key or ("/data/" in key and not key.endswith(".lance"))
        return self._compare(key, parse_checksum(key), is_directory=is_directory)

    def find_data_mismatch(self, path: str, name: str) -> Mismatch | None:
        """Compare a data file of a table with its checksum; nothing where there is none."""
        return self._compare(f"{path}/data/{name}", parse_data_checksum(name))

    def measure_blobs(self, path: str, name: str) -> int:
        """Return the size of all blobs beside a data file; 0 when there are none, or they are not on this machine."""
        key = f"{path}/data/{name.removesuffix('.lance')}"
        if self._locate is None or parse_blob_checksum(name) is None:
            return sum(one.size for _, one in self.lists.find_below(key))
        try:
            with os.scandir(self.locate(key)) as entries:
                return sum(entry.stat(follow_symlinks=False).st_size for entry in entries)
        except FileNotFoundError:
            return 0

    def checksum_file(self, key: str) -> FileChecksum:
        """Return the size and the checksum of a file as it is.

        Raises:
            OSError: It can't be read, or is not there.
        """
        if self._locate is not None:
            return FileChecksum(*checksum_file(self.locate(key), follow_links=self._follow))
        if self._files is None:
            raise FileNotFoundError(key)
        return FileChecksum(*self._files.compute_checksum(key))

    def _compare(self, key: str, recorded: int | None, *, is_directory: bool = False) -> Mismatch | None:
        if key in self._matched:
            return None
        try:
            if recorded is None:
                is_known, wrong = self._compare_listed(key)
            else:
                is_known, wrong = True, None if self._has_checksum(key, recorded, is_directory=is_directory) else key
        except FileNotFoundError:
            return None
        if wrong is not None:
            return Mismatch(wrong, MISMATCH)
        if is_known:
            self.trust([key])
        return None

    def _has_checksum(self, key: str, recorded: int, *, is_directory: bool) -> bool:
        """Return whether a file, or all files of a directory, have a checksum."""
        if is_directory and self._locate is not None:
            return is_same(checksum_directory(self.locate(key), follow_links=self._follow)[1], recorded)
        return is_same(self.checksum_file(key).checksum, recorded)

    def _compare_listed(self, key: str) -> tuple[bool, str | None]:
        """Return whether lists know a file or a directory, and the file that is not what they say."""
        listed = self.lists.find(key)
        if listed is not None:
            return True, None if self.checksum_file(key) == listed else key
        below = self.lists.find_below(key)
        for file, found in below:
            try:
                is_matching = self.checksum_file(file) == found
            except FileNotFoundError:
                is_matching = False  # the directory lacks it, and nobody else would tell
            if not is_matching:
                return True, file
        return bool(below), None
