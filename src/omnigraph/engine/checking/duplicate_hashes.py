"""Which of any number of rows may be equal: their hashes, sorted in memory, or in parts on disk when they are many."""

from collections.abc import Iterator
from pathlib import Path
from typing import Self

import numpy as np

from omnigraph.engine.bulk.temp_directory import Scratch
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.storage.column_hashing import Hashes

HELD_HASHES = 16_777_216
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


class RepeatedHashes:
    """Takes hashes, and tells which came more than once. Use it as a context: it may have files."""

    def __init__(self, held: int = HELD_HASHES) -> None:
        self._most_held = held
        self._held: list[Hashes] = []
        self._count = 0
        self._scratch: Scratch | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._scratch is not None:
            self._scratch.close()

    def add(self, hashes: Hashes) -> None:
        """More of them."""
        self._held.append(hashes)
        self._count += len(hashes)
        if self._count >= self._most_held:
            self._put_aside()

    def shared(self) -> Hashes:
        """Those that came more than once, each once, ascending."""
        if self._scratch is None:
            return _shared(self._sorted())
        self._put_aside()
        return np.concatenate([_shared(part) for part in self._parts()])

    def _sorted(self) -> Hashes:
        held = np.concatenate(self._held) if self._held else np.empty(0, np.uint64)
        held.sort()
        self._held, self._count = [], 0
        return held

    def _put_aside(self) -> None:
        """Append what is held to the files of its parts: equal hashes are in one part, and parts are ascending."""
        hashes = self._sorted()
        try:
            if self._scratch is None:
                self._scratch = Scratch(_PREFIX)
            firsts = np.arange(1 << _PARTS_BITS, dtype=np.uint64) << np.uint64(64 - _PARTS_BITS)
            starts = [*np.searchsorted(hashes, firsts).tolist(), len(hashes)]
            for part in range(1 << _PARTS_BITS):
                own = hashes[starts[part] : starts[part + 1]]
                if len(own):
                    with self._file(part).open("ab") as file:
                        file.write(own.data)
        except OSError as error:
            raise self._failure(error) from error

    def _parts(self) -> Iterator[Hashes]:
        for part in range(1 << _PARTS_BITS):
            path = self._file(part)
            try:
                hashes = np.fromfile(path, np.uint64) if path.exists() else np.empty(0, np.uint64)
            except OSError as error:
                raise self._failure(error) from error
            hashes.sort()
            yield hashes

    def _file(self, part: int) -> Path:
        assert self._scratch is not None  # noqa: S101 - only what was put aside has files
        return self._scratch.directory / f"{part:03d}"

    def _failure(self, error: OSError) -> CheckScratchError:
        directory = "the directory for temporary files" if self._scratch is None else str(self._scratch.directory)
        return CheckScratchError(directory, error.strerror or str(error))


def _shared(ordered: Hashes) -> Hashes:
    return np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
