"""Verify files by their recorded checksums, each once per process, because files never change.

A reader verifies the manifest file of a table version before Lance opens it, and deletion files and small files before
it reads rows. Large files are verified by operations that read them completely anyway (`check --deep`, clones,
maintenance, the server's scrub), or by all reads if the settings say so. On an object store every comparison is a
request, so only these operations verify files there.

Checksums are part of file names, or stored in lists that pins reference. A damaged list is ignored: the files that it
lists can be read without verification.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from omnigraph.lru_cache import LruCache
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

# Files up to this size are verified at their first read: 0.4 ms of a core for the largest, 10 µs for one of 2 KB.
SMALL_BYTES = 4 * 1024 * 1024
# Limits of the remembered versions and files, about 15 MB in all. A forgotten file is compared again; a forgotten
# version is not compared until a manifest that pins it is read again.
MAX_REMEMBERED_VERSIONS = 16_384
MAX_REMEMBERED_FILES = 65_536
# Directories down to this depth, such as `nodes/<table>/data`, are few enough to be remembered.
_TABLE_DEPTH = 3
MISMATCH = "it does not match its checksum"


@dataclass(frozen=True, slots=True)
class VersionRecord:
    """The record of a version in a pin: the checksum of its manifest file, if any, and its number of rows."""

    checksum: str | None
    rows: int


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A file, or a directory of files, that does not match its record."""

    key: str
    reason: str


def raise_mismatch(mismatch: Mismatch | None, build_error: Callable[[str, str], Exception]) -> None:
    """Raise the error for the key and the reason of a mismatch, if there is one."""
    if mismatch is not None:
        raise build_error(mismatch.key, mismatch.reason)


class Verifier:
    """Compare the files of one graph with their recorded checksums, and remember those that matched."""

    def __init__(
        self,
        locate: Callable[[str], str] | None,
        level: Verify,
        *,
        follow_links: bool = False,
        files: StoredFileReader | None = None,
    ) -> None:
        """Build a verifier; `locate` maps keys to local paths.

        It is None on an object store, where `files` reads objects, and file names have no checksums.
        """
        self._locate = locate
        self._follow = follow_links
        self._files = files
        # Directories that are known to be no links.
        self._plain: set[str] = set()
        self.is_eager = level is Verify.ALWAYS
        self._expected: LruCache[tuple[str, int], VersionRecord] = LruCache(MAX_REMEMBERED_VERSIONS)
        self._matched: LruCache[str, None] = LruCache(MAX_REMEMBERED_FILES)
        # The checksums of files whose names carry none.
        self.lists = ChecksumLists(files)

    @property
    def is_verifying_reads(self) -> bool:
        """Whether ordinary reads verify small files; on an object store, where it costs requests, a setting decides."""
        return self._locate is not None or self.is_eager

    def locate(self, key: str) -> str:
        """Return the path of a file. Its directories below the root are no links, unless the settings allow them.

        Raises:
            FileNotFoundError: A directory is missing, or a link that must not be followed.
        """
        assert self._locate is not None  # noqa: S101 - called for local graphs only
        parts = [] if self._follow else key.split("/")[:-1]
        for depth in range(1, len(parts) + 1):
            above = "/".join(parts[:depth])
            if above in self._plain:
                continue
            if stat.S_ISLNK(os.lstat(self._locate(above)).st_mode):
                raise FileNotFoundError(errno.ENOENT, "a link is not followed", above)
            # Directories further below, of blobs and indexes, may be many.
            if depth <= _TABLE_DEPTH:
                self._plain.add(above)
        return self._locate(key)

    def expect(self, path: str, version: int, checksum: str | None, rows: int) -> None:
        """Remember the record of a version in a pin; a later pin without a checksum keeps the earlier checksum."""
        record = self._expected.get((path, version))
        if checksum is None and record is not None:
            checksum = record.checksum
        self._expected.put((path, version), VersionRecord(checksum, rows))

    def get_expected(self, path: str, version: int) -> VersionRecord | None:
        """Return the record of a version, or None if no manifest that was read pins it."""
        return self._expected.get((path, version))

    def is_recorded(self, key: str) -> bool:
        """Return whether a file or directory, as in `PinnedFiles`, has a recorded checksum."""
        return parse_checksum(key) is not None or self.lists.has_checksum(key)

    def trust(self, keys: Iterable[str]) -> None:
        """Record files as matching; this process has just computed their checksums."""
        for key in keys:
            self._matched.put(key, None)

    @property
    def matched(self) -> frozenset[str]:
        """The files that have matched so far."""
        return frozenset(self._matched.list_keys())

    def is_trusted(self, key: str) -> bool:
        """Return whether a file has matched, or was written by this process."""
        return key in self._matched

    def checksum_version(self, path: str, version: int) -> str | None:
        """Return the checksum to record for a version's manifest file: the recorded one, else that of the file now.

        None on an object store, where it would cost every commit a request.

        Raises:
            OSError: The file can't be read.
        """
        record = self._expected.get((path, version))
        if record is not None and record.checksum is not None:
            return record.checksum
        if self._locate is None:
            return None
        key = build_version_key(path, version)
        checksum = checksum_file(self.locate(key), follow_links=self._follow)[1]
        self.trust([key])
        return f"{checksum:016x}"

    def find_version_mismatch(self, path: str, version: int) -> Mismatch | None:
        """Compare the manifest file of a version with its pin, unless that was done before.

        As in the other methods, a missing file is no mismatch: the read that needs it reports it.

        Raises:
            OSError: It can't be read.
        """
        record = self._expected.get((path, version))
        recorded = None if record is None or record.checksum is None else int(record.checksum, 16)
        return self._compare(build_version_key(path, version), recorded)

    def find_mismatch(self, key: str) -> Mismatch | None:
        """Compare a data file, a deletion file, or a directory of blobs or of an index, as in `PinnedFiles`.

        A checksum list is compared with the checksum in its own name, and a file without one in its name with the
        lists.

        Raises:
            OSError: It can't be read.
        """
        if f"/{CHECKSUM_LISTS}/" in key:
            return None if self.lists.is_whole(key) else Mismatch(key, MISMATCH)
        is_directory = "/_indices/" in key or ("/data/" in key and not key.endswith(".lance"))
        return self._compare(key, parse_checksum(key), is_directory=is_directory)

    def find_data_mismatch(self, path: str, name: str) -> Mismatch | None:
        """Compare a data file of a table with its checksum, if it has one."""
        return self._compare(f"{path}/data/{name}", parse_data_checksum(name))

    def measure_blobs(self, path: str, name: str) -> int:
        """Return the size of all blobs of a data file; 0 if there are none, or none with a known size."""
        key = f"{path}/data/{name.removesuffix('.lance')}"
        # Without local files or a checksum in the name, the checksum lists know the sizes, and need no request.
        if self._locate is None or parse_blob_checksum(name) is None:
            return sum(listed.size for _, listed in self.lists.find_below(key))
        try:
            with os.scandir(self.locate(key)) as entries:
                return sum(entry.stat(follow_symlinks=False).st_size for entry in entries)
        except FileNotFoundError:
            return 0

    def checksum_file(self, key: str) -> FileChecksum:
        """Return the size and the checksum of a file as it is now.

        Raises:
            OSError: It can't be read, or does not exist.
        """
        if self._locate is not None:
            return FileChecksum(*checksum_file(self.locate(key), follow_links=self._follow))
        if self._files is None:
            raise FileNotFoundError(key)
        return FileChecksum(*self._files.compute_checksum(key))

    def _compare(self, key: str, recorded: int | None, *, is_directory: bool = False) -> Mismatch | None:
        if key in self._matched:
            return None
        is_recorded = True
        wrong: str | None = None
        try:
            if recorded is None:
                is_recorded, wrong = self._compare_listed(key)
            elif not self._has_checksum(key, recorded, is_directory=is_directory):
                wrong = key
        except FileNotFoundError:
            return None
        if wrong is not None:
            return Mismatch(wrong, MISMATCH)
        # A file without any record was not compared, and a list that is read later may have one.
        if is_recorded:
            self.trust([key])
        return None

    def _has_checksum(self, key: str, recorded: int, *, is_directory: bool) -> bool:
        """Return whether a file, or all files of a directory together, have this checksum."""
        if is_directory and self._locate is not None:
            return is_same(checksum_directory(self.locate(key), follow_links=self._follow)[1], recorded)
        return is_same(self.checksum_file(key).checksum, recorded)

    def _compare_listed(self, key: str) -> tuple[bool, str | None]:
        """Return whether lists have a file or a directory, and the first file that does not match them."""
        listed = self.lists.find(key)
        if listed is not None:
            return True, None if self.checksum_file(key) == listed else key
        below = self.lists.find_below(key)
        for file, listed_below in below:
            try:
                is_matching = self.checksum_file(file) == listed_below
            except FileNotFoundError:
                # Unlike the loss of a single file, that of a file in a directory would not be reported elsewhere.
                is_matching = False
            if not is_matching:
                return True, file
        return bool(below), None
