"""Which of any number of rows may be equal: their hashes, sorted in memory, or in parts on disk when they are many."""

from collections.abc import Iterator
from pathlib import Path
from typing import Self

import numpy as np

from omnigraph.engine.bulk.temp_directory import TempDirectory
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.storage.column_hashing import Hashes

MAX_HASHES_IN_MEMORY = 16_777_216
"""So many are kept in memory, in 128 MiB; more go to disk, in parts of which each is sorted by itself."""
_PARTS_BITS = 8
_PREFIX = "omnigraph-check-"


class CheckScratchError(OmnigraphError):
    """The temporary files of a check can't be written or read, most likely because the disk is full."""

    kind = Kind.EXHAUSTED
    code = "check_scratch_failed"

    def __init__(self, directory: str, reason: str) -> None:
        super().__init__(directory, reason)
        self.directory, self.reason = directory, reason

    def __str__(self) -> str:
        return (
            f"a check of many rows keeps eight bytes for each in `{self.directory}`, and that failed: {self.reason};"
            " free some space, set TMPDIR to a directory that has more, or check with --quick"
        )


class DuplicateHashes:
    """Takes hashes, and tells which came more than once. Use it as a context: it may have files."""

    def __init__(self, max_hashes: int = MAX_HASHES_IN_MEMORY) -> None:
        self._max_hashes = max_hashes
        self._hashes: list[Hashes] = []
        self._count = 0
        self._scratch: TempDirectory | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._scratch is not None:
            self._scratch.close()

    def add(self, hashes: Hashes) -> None:
        """More of them."""
        self._hashes.append(hashes)
        self._count += len(hashes)
        if self._count >= self._max_hashes:
            self._spill()

    def find_duplicates(self) -> Hashes:
        """Those that came more than once, each once, ascending."""
        if self._scratch is None:
            return _find_duplicates(self._take_sorted())
        self._spill()
        return np.concatenate([_find_duplicates(part) for part in self._iter_partitions()])

    def _take_sorted(self) -> Hashes:
        held = np.concatenate(self._hashes) if self._hashes else np.empty(0, np.uint64)
        held.sort()
        self._hashes, self._count = [], 0
        return held

    def _spill(self) -> None:
        """Append what is held to the files of its parts: equal hashes are in one part, and parts are ascending."""
        hashes = self._take_sorted()
        try:
            if self._scratch is None:
                self._scratch = TempDirectory(_PREFIX)
            firsts = np.arange(1 << _PARTS_BITS, dtype=np.uint64) << np.uint64(64 - _PARTS_BITS)
            starts = [*np.searchsorted(hashes, firsts).tolist(), len(hashes)]
            for part in range(1 << _PARTS_BITS):
                own = hashes[starts[part] : starts[part + 1]]
                if len(own):
                    with self._build_path(part).open("ab") as file:
                        file.write(own.data)
        except OSError as error:
            raise self._build_error(error) from error

    def _iter_partitions(self) -> Iterator[Hashes]:
        for part in range(1 << _PARTS_BITS):
            path = self._build_path(part)
            try:
                hashes = np.fromfile(path, np.uint64) if path.exists() else np.empty(0, np.uint64)
            except OSError as error:
                raise self._build_error(error) from error
            hashes.sort()
            yield hashes

    def _build_path(self, part: int) -> Path:
        assert self._scratch is not None  # noqa: S101 - only what was put aside has files
        return self._scratch.directory / f"{part:03d}"

    def _build_error(self, error: OSError) -> CheckScratchError:
        directory = "the directory for temporary files" if self._scratch is None else str(self._scratch.directory)
        return CheckScratchError(directory, error.strerror or str(error))


def _find_duplicates(ordered: Hashes) -> Hashes:
    return np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
