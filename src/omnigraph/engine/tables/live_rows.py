"""Which rows of a table version live: the others were deleted, or replaced by rows that stand elsewhere."""

from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.engine.bindings import Positions
from omnigraph.engine.tables.lru_cache import Held, Kept, Key
from omnigraph.engine.tables.row_layout import Layout, bitmap
from omnigraph.storage.arrow_buffers import array_of
from omnigraph.storage.lance_table import Fragment, Table

Element = TypeVar("Element", bound=np.generic)


class Living:
    """The living rows of one table version, read when first asked for. None of its arrays may be written to."""

    def __init__(self, table: Table, layout: Layout, kept: Kept) -> None:
        self._table, self._layout, self._kept = table, layout, kept
        self._key: Key = (Held(table.path, layout.state),)

    def mask(self) -> NDArray[np.bool_] | None:
        """By position, whether a row lives; None when all do."""
        if not self._layout.has_holes:
            return None
        return self._kept.keep((*self._key, "living"), self._read, array_bytes)

    def bits(self) -> NDArray[np.uint8] | None:
        """The mask as Arrow packs it; None when all rows live."""
        mask = self.mask()
        return None if mask is None else self._kept.keep((*self._key, "bits"), lambda: bitmap(mask), array_bytes)

    def positions(self) -> NDArray[np.int64]:
        """All living positions, ascending."""
        return self._kept.keep((*self._key, "positions"), self._list, array_bytes)

    def offsets(self, at: Positions) -> pa.Array:
        """Living positions as Lance's `take` counts them: over living rows only."""
        if self.mask() is None:
            return array_of(at.astype(np.uint64, copy=False))
        return array_of(np.searchsorted(self.positions(), at).astype(np.uint64))

    def _list(self) -> NDArray[np.int64]:
        mask = self.mask()
        return frozen(np.arange(self._layout.size, dtype=np.int64) if mask is None else np.flatnonzero(mask))

    def _read(self) -> NDArray[np.bool_]:
        self._read_deletions()
        mask = np.ones(self._layout.size, np.bool_)
        for fragment, start in zip(self._layout.fragments, self._layout.starts.tolist(), strict=False):
            if fragment.deletions is not None:
                mask[start + self._deleted(fragment)] = False
        return frozen(mask)

    def _deleted(self, fragment: Fragment) -> NDArray[np.int64]:
        """The offsets of a fragment's deleted rows; versions that have its deletion file share them."""
        return self._kept.keep(self._deletions_key(fragment), lambda: self._offsets([fragment])[0], array_bytes)

    def _deletions_key(self, fragment: Fragment) -> Key:
        return (deletions_of(self._table.path, fragment), "deleted")

    def _read_deletions(self) -> None:
        """Read at once what is not known yet of several fragments."""
        unknown = [
            fragment
            for fragment in self._layout.fragments
            if fragment.deletions is not None and self._deletions_key(fragment) not in self._kept
        ]
        if len(unknown) > 1:
            for fragment, deleted in zip(unknown, self._offsets(unknown), strict=True):
                self._kept.put(self._deletions_key(fragment), deleted, deleted.nbytes)

    def _offsets(self, fragments: list[Fragment]) -> list[NDArray[np.int64]]:
        return [frozen(one) for one in self._table.deleted_offsets([fragment.number for fragment in fragments])]


def frozen(array: NDArray[Element]) -> NDArray[Element]:
    """The array, not to be written to any more: many queries share it."""
    array.flags.writeable = False
    return array


def array_bytes(array: NDArray[np.generic]) -> int:
    """The memory of an array."""
    return int(array.nbytes)


def deletions_of(path: str, fragment: Fragment) -> Held:
    """Which rows of a fragment are deleted, as a part of a key."""
    return Held(path, (fragment.files, fragment.deletions))
