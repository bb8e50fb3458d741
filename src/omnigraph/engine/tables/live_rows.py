"""Which rows of a table version live: the others were deleted, or replaced by rows that stand elsewhere."""

from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.engine.bindings import Positions
from omnigraph.engine.tables.lru_cache import ContentKey, Key, LruCache
from omnigraph.engine.tables.row_layout import Layout, pack_bitmap
from omnigraph.storage.arrow_buffers import build_array
from omnigraph.storage.lance_table import Fragment, LanceTable

Element = TypeVar("Element", bound=np.generic)


class LiveRows:
    """The living rows of one table version, read when first asked for. None of its arrays may be written to."""

    def __init__(self, table: LanceTable, layout: Layout, kept: LruCache) -> None:
        self._table, self._layout, self._cache = table, layout, kept
        self._key: Key = (ContentKey(table.path, layout.state),)

    def get_mask(self) -> NDArray[np.bool_] | None:
        """By position, whether a row lives; None when all do."""
        if not self._layout.has_holes:
            return None
        return self._cache.get_or_build((*self._key, "living"), self._read_mask, measure_array)

    def get_bitmap(self) -> NDArray[np.uint8] | None:
        """The mask as Arrow packs it; None when all rows live."""
        mask = self.get_mask()
        return (
            None
            if mask is None
            else self._cache.get_or_build((*self._key, "bits"), lambda: pack_bitmap(mask), measure_array)
        )

    def get_positions(self) -> NDArray[np.int64]:
        """All living positions, ascending."""
        return self._cache.get_or_build((*self._key, "positions"), self._list_positions, measure_array)

    def to_offsets(self, at: Positions) -> pa.Array:
        """Living positions as Lance's `take` counts them: over living rows only."""
        if self.get_mask() is None:
            return build_array(at.astype(np.uint64, copy=False))
        return build_array(np.searchsorted(self.get_positions(), at).astype(np.uint64))

    def _list_positions(self) -> NDArray[np.int64]:
        mask = self.get_mask()
        return freeze(np.arange(self._layout.size, dtype=np.int64) if mask is None else np.flatnonzero(mask))

    def _read_mask(self) -> NDArray[np.bool_]:
        self._read_deletions()
        mask = np.ones(self._layout.size, np.bool_)
        for fragment, start in zip(self._layout.fragments, self._layout.starts.tolist(), strict=False):
            if fragment.deletions is not None:
                mask[start + self._get_deleted_offsets(fragment)] = False
        return freeze(mask)

    def _get_deleted_offsets(self, fragment: Fragment) -> NDArray[np.int64]:
        """The offsets of a fragment's deleted rows; versions that have its deletion file share them."""
        return self._cache.get_or_build(
            self._build_deletions_key(fragment), lambda: self._read_deleted_offsets([fragment])[0], measure_array
        )

    def _build_deletions_key(self, fragment: Fragment) -> Key:
        return (build_deletions_key(self._table.path, fragment), "deleted")

    def _read_deletions(self) -> None:
        """Read at once what is not known yet of several fragments."""
        unknown = [
            fragment
            for fragment in self._layout.fragments
            if fragment.deletions is not None and self._build_deletions_key(fragment) not in self._cache
        ]
        if len(unknown) > 1:
            for fragment, deleted in zip(unknown, self._read_deleted_offsets(unknown), strict=True):
                self._cache.put(self._build_deletions_key(fragment), deleted, deleted.nbytes)

    def _read_deleted_offsets(self, fragments: list[Fragment]) -> list[NDArray[np.int64]]:
        return [freeze(one) for one in self._table.read_deleted_offsets([fragment.number for fragment in fragments])]


def freeze(array: NDArray[Element]) -> NDArray[Element]:
    """The array, not to be written to any more: many queries share it."""
    array.flags.writeable = False
    return array


def measure_array(array: NDArray[np.generic]) -> int:
    """The memory of an array."""
    return int(array.nbytes)


def build_deletions_key(path: str, fragment: Fragment) -> ContentKey:
    """Which rows of a fragment are deleted, as a part of a key."""
    return ContentKey(path, (fragment.files, fragment.deletions))
