"""The live rows of a table version: those that were not deleted, or replaced by rows at other positions."""

from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.engine.bindings import Positions
from omnigraph.engine.tables.content_cache import ContentCache, ContentKey, Key
from omnigraph.engine.tables.row_layout import Layout, pack_bitmap
from omnigraph.storage.arrow_buffers import build_array
from omnigraph.storage.fragment_list import Fragment
from omnigraph.storage.lance_table import LanceTable

Element = TypeVar("Element", bound=np.generic)


class LiveRows:
    """The live rows of one table version, read on first use. Its arrays are shared and read-only."""

    def __init__(self, table: LanceTable, layout: Layout, cache: ContentCache) -> None:
        self._table = table
        self._layout = layout
        self._cache = cache
        self._key: Key = (ContentKey(table.path, layout.state),)

    def get_mask(self) -> NDArray[np.bool_] | None:
        """Return by position whether a row is live; None if all are."""
        if not self._layout.has_holes:
            return None
        return self._cache.get_or_build((*self._key, "living"), self._read_mask, measure_array)

    def get_bitmap(self) -> NDArray[np.uint8] | None:
        """Return the mask as an Arrow bitmap; None if all rows are live."""
        mask = self.get_mask()
        if mask is None:
            return None
        return self._cache.get_or_build((*self._key, "bits"), lambda: pack_bitmap(mask), measure_array)

    def get_positions(self) -> NDArray[np.int64]:
        """Return the positions of all live rows, ascending."""
        return self._cache.get_or_build((*self._key, "positions"), self._list_positions, measure_array)

    def to_offsets(self, at: Positions) -> pa.Array:
        """Convert positions of live rows to the offsets of Lance's `take`, which counts live rows only."""
        # Without deleted rows, positions and offsets are equal.
        if self.get_mask() is None:
            return build_array(at.astype(np.uint64, copy=False))
        return build_array(np.searchsorted(self.get_positions(), at).astype(np.uint64))

    def _list_positions(self) -> NDArray[np.int64]:
        mask = self.get_mask()
        return freeze(np.arange(self._layout.size, dtype=np.int64) if mask is None else np.flatnonzero(mask))

    def _read_mask(self) -> NDArray[np.bool_]:
        # Fills the cache in one batch, which the loop below then reads fragment by fragment.
        self._read_deletions()
        mask = np.ones(self._layout.size, np.bool_)
        for fragment, start in zip(self._layout.fragments, self._layout.starts.tolist(), strict=False):
            if fragment.deletions is not None:
                mask[start + self._get_deleted_offsets(fragment)] = False
        return freeze(mask)

    def _get_deleted_offsets(self, fragment: Fragment) -> NDArray[np.int64]:
        """Return the offsets of a fragment's deleted rows, shared by all versions with the same deletion file."""
        return self._cache.get_or_build(
            self._build_deletions_key(fragment), lambda: self._read_deleted_offsets([fragment])[0], measure_array
        )

    def _build_deletions_key(self, fragment: Fragment) -> Key:
        return (build_deletions_key(self._table.path, fragment), "deleted")

    def _read_deletions(self) -> None:
        """Read the deleted rows of all fragments that are not cached yet, if several, in one batch."""
        missing = [
            fragment
            for fragment in self._layout.fragments
            if fragment.deletions is not None and self._build_deletions_key(fragment) not in self._cache
        ]
        # A single fragment is read by `_get_deleted_offsets`.
        if len(missing) > 1:
            for fragment, deleted in zip(missing, self._read_deleted_offsets(missing), strict=True):
                self._cache.put(self._build_deletions_key(fragment), deleted, deleted.nbytes)

    def _read_deleted_offsets(self, fragments: list[Fragment]) -> list[NDArray[np.int64]]:
        numbers = [fragment.number for fragment in fragments]
        return [freeze(offsets) for offsets in self._table.read_deleted_offsets(numbers)]


def freeze(array: NDArray[Element]) -> NDArray[Element]:
    """Make an array read-only and return it: many queries share it."""
    array.flags.writeable = False
    return array


def measure_array(array: NDArray[np.generic]) -> int:
    """Return the size of an array in bytes."""
    return int(array.nbytes)


def build_deletions_key(path: str, fragment: Fragment) -> ContentKey:
    """Return a cache-key part that identifies which rows of a fragment are deleted."""
    return ContentKey(path, (fragment.files, fragment.deletions))
