"""Convert positions among live rows to row addresses and back, from the deletion vectors alone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from omnigraph.storage.columnar_sets import Positions
from omnigraph.storage.deletion_vectors import to_live_positions, to_offsets

# `fragment << 32 | offset`; offsets count deleted rows too.
Addresses: TypeAlias = npt.NDArray[np.uint64]

# Offsets of deleted rows that are cached for one table, of 8 bytes each.
MAX_CACHED_OFFSETS = 4_000_000
_FRAGMENT_SHIFT, _OFFSET_MASK = np.uint64(32), np.uint64(0xFFFF_FFFF)


@dataclass(frozen=True)
class RowAddressMap:
    """The fragments of a version in order: the number of each, and its counts of live and of deleted rows."""

    numbers: Sequence[int]
    live_rows: Sequence[int]
    deleted: Sequence[int]
    read_deleted_offsets: Callable[[Sequence[int]], Sequence[Positions]]
    """Returns the offsets of the deleted rows of each fragment, by fragment numbers."""
    _cached_offsets: dict[int, Positions] = field(default_factory=dict)

    @cached_property
    def starts(self) -> Positions:
        """The position of the first live row of each fragment, followed by the number of all live rows."""
        return np.concatenate(([0], np.cumsum(np.asarray(self.live_rows, np.int64)))).astype(np.int64)

    def find_fragments(self, positions: Positions) -> Positions:
        """Return the index of the fragment, counted from 0, that each position is in."""
        return np.asarray(np.searchsorted(self.starts, positions, side="right") - 1, np.int64)

    def to_addresses(self, positions: Positions) -> Addresses:
        """Return the addresses of the rows at these positions."""
        if not len(positions):
            return np.empty(0, np.uint64)
        indices = self.find_fragments(positions)
        offsets = positions - self.starts[indices]
        self._convert_offsets(indices, offsets, to_offsets)
        numbers = np.asarray(self.numbers, np.uint64)[indices]
        return np.asarray(numbers << _FRAGMENT_SHIFT | offsets.view(np.uint64), np.uint64)

    def to_positions(self, addresses: Addresses) -> Positions:
        """Return the positions of the live rows at these addresses, as the inverse of `to_addresses`."""
        if not len(addresses):
            return np.empty(0, np.int64)
        # Fragments are in the order of their rows, in which their numbers need not ascend.
        order = np.argsort(np.asarray(self.numbers, np.uint64))
        ranks = np.searchsorted(np.asarray(self.numbers, np.uint64)[order], addresses >> _FRAGMENT_SHIFT)
        indices = order[ranks]
        offsets = (addresses & _OFFSET_MASK).astype(np.int64)
        self._convert_offsets(indices, offsets, to_live_positions)
        return np.asarray(self.starts[indices] + offsets, np.int64)

    def _convert_offsets(
        self, indices: Positions, offsets: Positions, convert: Callable[[Positions, Positions], Positions]
    ) -> None:
        """Convert, in place, the offsets in fragments with deleted rows, where offset and live position differ."""
        with_deletions = [index for index in np.unique(indices).tolist() if self.deleted[index]]
        for index, deleted in zip(with_deletions, self._load_deleted_offsets(with_deletions), strict=True):
            rows = np.flatnonzero(indices == index)
            offsets[rows] = convert(deleted, offsets[rows])

    def _load_deleted_offsets(self, indices: Sequence[int]) -> list[Positions]:
        """Return the offsets of the deleted rows of each of these fragments, and cache them up to a limit."""
        missing = [index for index in indices if index not in self._cached_offsets]
        # A copy, so that the cache is left as it was when the new offsets would exceed the limit.
        offsets = dict(self._cached_offsets)
        if missing:
            offsets |= zip(missing, self.read_deleted_offsets([self.numbers[index] for index in missing]), strict=True)
        if sum(map(len, offsets.values())) <= MAX_CACHED_OFFSETS:
            self._cached_offsets.update(offsets)
        return [offsets[index] for index in indices]
