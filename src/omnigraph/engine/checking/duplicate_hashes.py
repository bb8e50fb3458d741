"""Find duplicate hashes among any number of them: sorted in memory, or in partitions on disk if there are many."""

from collections.abc import Iterator
from pathlib import Path
from typing import Self

import numpy as np

from omnigraph.engine.bulk.temp_directory import TempDirectory
from omnigraph.errors import LimitError
from omnigraph.storage.column_hashing import Hashes

# 128 MiB of hashes are held in memory; more are spilled to disk, in partitions that are sorted one after the other.
MAX_HASHES_IN_MEMORY = 16_777_216
# The leading bits of a hash choose its partition.
_PARTITION_BITS = 8
_PARTITION_COUNT = 1 << _PARTITION_BITS
_PREFIX = "omnigraph-check-"


class DuplicateHashes:
    """Collects hashes and finds those added more than once. A context manager: it may create temporary files."""

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
        """Add hashes, and spill to disk once there are too many in memory."""
        self._hashes.append(hashes)
        self._count += len(hashes)
        if self._count >= self._max_hashes:
            self._spill()

    def find_duplicates(self) -> Hashes:
        """Return the hashes that were added more than once, each once, ascending."""
        if self._scratch is None:
            return _find_duplicates(self._take_sorted())
        self._spill()
        # Equal hashes are in the same partition, and partitions ascend, so the results need no merging.
        return np.concatenate([_find_duplicates(partition) for partition in self._iter_partitions()])

    def _take_sorted(self) -> Hashes:
        hashes = np.concatenate(self._hashes) if self._hashes else np.empty(0, np.uint64)
        hashes.sort()
        self._hashes = []
        self._count = 0
        return hashes

    def _spill(self) -> None:
        """Append the hashes in memory to the files of their partitions."""
        hashes = self._take_sorted()
        try:
            if self._scratch is None:
                self._scratch = TempDirectory(_PREFIX)
            firsts = np.arange(_PARTITION_COUNT, dtype=np.uint64) << np.uint64(64 - _PARTITION_BITS)
            starts = [*np.searchsorted(hashes, firsts).tolist(), len(hashes)]
            for number in range(_PARTITION_COUNT):
                partition = hashes[starts[number] : starts[number + 1]]
                if len(partition):
                    with self._build_path(number).open("ab") as file:
                        file.write(partition.data)
        except OSError as error:
            raise self._build_error(error) from error

    def _iter_partitions(self) -> Iterator[Hashes]:
        for number in range(_PARTITION_COUNT):
            path = self._build_path(number)
            try:
                hashes = np.fromfile(path, np.uint64) if path.exists() else np.empty(0, np.uint64)
            except OSError as error:
                raise self._build_error(error) from error
            hashes.sort()
            yield hashes

    def _build_path(self, number: int) -> Path:
        assert self._scratch is not None  # noqa: S101 - only spilled hashes have files
        return self._scratch.directory / f"{number:03d}"

    def _build_error(self, error: OSError) -> LimitError:
        directory = "the directory for temporary files" if self._scratch is None else str(self._scratch.directory)
        return LimitError.check_scratch_failed(directory, error.strerror or str(error))


def _find_duplicates(ordered: Hashes) -> Hashes:
    return np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
