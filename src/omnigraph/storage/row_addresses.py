"""Positions among the rows that live, as addresses, and back: no row is read, only which rows were deleted."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from omnigraph.storage.columnar_sets import Positions
from omnigraph.storage.deletion_vectors import to_live_positions, to_offsets

Addresses: TypeAlias = npt.NDArray[np.uint64]
"""`fragment << 32 | offset`; offsets are counted over deleted rows too."""

MAX_CACHED_OFFSETS = 4_000_000
"""How many offsets of deleted rows are kept for a table, of 8 bytes each."""
_HIGH, _OFFSET = np.uint64(32), np.uint64(0xFFFF_FFFF)


@dataclass(frozen=True)
class RowAddressMap:
    """The fragments of a version in their order: their numbers, how many rows of each live, how many are deleted."""

    numbers: Sequence[int]
    live_rows: Sequence[int]
    deleted: Sequence[int]
    read_deleted_offsets: Callable[[Sequence[int]], Sequence[Positions]]
    """For the numbers of fragments, the offsets of the deleted rows of each."""
    _cached_offsets: dict[int, Positions] = field(default_factory=dict)

    @cached_property
    def starts(self) -> Positions:
        """The position of the first row of each fragment, and behind them how many rows there are."""
        return np.concatenate(([0], np.cumsum(np.asarray(self.live_rows, np.int64)))).astype(np.int64)

    def find_fragments(self, positions: Positions) -> Positions:
        """For each position which of the fragments, counted from 0, it is in."""
        return np.asarray(np.searchsorted(self.starts, positions, side="right") - 1, np.int64)

    def to_addresses(self, positions: Positions) -> Addresses:
        """Where the rows at these positions lie."""
        if not len(positions):
            return np.empty(0, np.uint64)
        at = self.find_fragments(positions)
        offsets = positions - self.starts[at]
        self._correct(at, offsets, to_offsets)
        return np.asarray(np.asarray(self.numbers, np.uint64)[at] << _HIGH | offsets.view(np.uint64), np.uint64)

    def to_positions(self, addresses: Addresses) -> Positions:
        """The inverse, for rows that live."""
        if not len(addresses):
            return np.empty(0, np.int64)
        order = np.argsort(np.asarray(self.numbers, np.uint64))
        there = np.searchsorted(np.asarray(self.numbers, np.uint64)[order], addresses >> _HIGH)
        at = order[there]
        offsets = (addresses & _OFFSET).astype(np.int64)
        self._correct(at, offsets, to_live_positions)
        return np.asarray(self.starts[at] + offsets, np.int64)

    def _correct(self, at: Positions, offsets: Positions, by: Callable[[Positions, Positions], Positions]) -> None:
        """Deleted rows leave holes: in fragments that have some, an offset is not a position."""
        holed = [number for number in np.unique(at).tolist() if self.deleted[number]]
        for number, deleted in zip(holed, self._load_deleted_offsets(holed), strict=True):
            mine = np.flatnonzero(at == number)
            offsets[mine] = by(deleted, offsets[mine])

    def _load_deleted_offsets(self, holed: Sequence[int]) -> list[Positions]:
        """The offsets of the deleted rows of these fragments. They are kept while they are not too many."""
        unknown = [number for number in holed if number not in self._cached_offsets]
        found = dict(self._cached_offsets)
        if unknown:
            found |= zip(unknown, self.read_deleted_offsets([self.numbers[number] for number in unknown]), strict=True)
        if sum(map(len, found.values())) <= MAX_CACHED_OFFSETS:
            self._cached_offsets.update(found)
        return [found[number] for number in holed]
