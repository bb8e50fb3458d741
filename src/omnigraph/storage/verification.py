"""Compare files with what was recorded of them, each once in a process: they never change.

A reader verifies the file of a table version before Lance opens it, and deletion files and small files before rows are
read. Large files are verified by those who read all of them anyway (`check --deep`, clones, maintenance, the server's
scrub), or by everybody where the settings say so.
"""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from omnigraph.options import Verify
from omnigraph.storage.checksums import (
    blob_checksum,
    checksum_directory,
    checksum_file,
    data_checksum,
    deletion_checksum,
    is_same,
    uuid_checksum,
)
from omnigraph.storage.layout import version_key

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


class Verifier:
    """Knows what was recorded of the files of one graph, and which of them were found to match."""

    def __init__(self, locate: Callable[[str], str] | None, level: Verify, *, follow_links: bool = False) -> None:
        """Take how a key becomes a path; None on an object store, where names carry no checksums."""
        self._locate, self._follow = locate, follow_links
        self.is_eager = level is Verify.ALWAYS
        self._expected: dict[tuple[str, int], Expected] = {}
        self._matched: set[str] = set()

    def expect(self, path: str, version: int, checksum: str | None, rows: int) -> None:
        """Remember what a pin records of a version; a later pin without a checksum does not take one away."""
        known = self._expected.get((path, version))
        if checksum is None and known is not None:
            checksum = known.checksum
        self._expected[path, version] = Expected(checksum, rows)

    def expected(self, path: str, version: int) -> Expected | None:
        """Return what is recorded of a version, as far as a manifest that was read said so."""
        return self._expected.get((path, version))

    def trust(self, keys: Iterable[str]) -> None:
        """Take files as matching: this process has just computed their checksums."""
        self._matched.update(keys)

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
        key = version_key(path, version)
        if known is None or known.checksum is None:
            return None
        return self._compare(key, int(known.checksum, 16))

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
        if self._locate is None or blob_checksum(name) is None:
            return 0
        try:
            with os.scandir(self._locate(f"{path}/data/{name.removesuffix('.lance')}")) as entries:
                return sum(entry.stat(follow_symlinks=False).st_size for entry in entries)
        except FileNotFoundError:
            return 0

    def _compare(self, key: str, recorded: int | None, *, is_directory: bool = False) -> Mismatch | None:
        if self._locate is None or recorded is None or key in self._matched:
            return None
        compute = checksum_directory if is_directory else checksum_file
        try:
            _, found = compute(self._locate(key), follow_links=self._follow)
        except FileNotFoundError:
            return None
        if not is_same(found, recorded):
            return Mismatch(key, MISMATCH)
        self._matched.add(key)
        return None
