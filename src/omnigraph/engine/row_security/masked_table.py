"""A table version in which some rows look deleted.

All reads go through the fragments, their deleted offsets and the addresses of rows, as for rows that were deleted.
Indexes are not shown: what they count, order and return includes hidden rows.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.storage.carried_rows import CarriedRows
from omnigraph.storage.columnar_sets import Positions, concat_chunks
from omnigraph.storage.data_file_reader import DataFileReader
from omnigraph.storage.fragment_list import Fragment
from omnigraph.storage.lance_table import ADDRESS, IndexCoverage, LanceTable
from omnigraph.storage.row_addresses import RowAddressMap

_FRAGMENT_SHIFT, _OFFSET_MASK = np.uint64(32), np.uint64(0xFFFF_FFFF)


@dataclass(frozen=True, slots=True)
class RowMask:
    """The hidden rows of one table version: by fragment number, the ascending offsets of its hidden live rows."""

    fragments: tuple[Fragment, ...]
    """All fragments, those with hidden rows as if these were deleted."""
    hidden: Mapping[int, Positions]
    digest: str
    """What identifies the hidden rows."""

    @property
    def nbytes(self) -> int:
        """The size in memory."""
        return 512 * len(self.fragments) + sum(offsets.nbytes for offsets in self.hidden.values())

    def is_seen(self, addresses: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Return which of the rows at these addresses are not hidden."""
        seen = np.ones(len(addresses), np.bool_)
        numbers = addresses >> _FRAGMENT_SHIFT
        for number in np.unique(numbers).tolist():
            hidden = self.hidden.get(number)
            if hidden is not None:
                rows = np.flatnonzero(numbers == np.uint64(number))
                offsets = (addresses[rows] & _OFFSET_MASK).astype(np.int64)
                at = np.searchsorted(hidden, offsets)
                at[at == len(hidden)] = 0
                seen[rows] = hidden[at] != offsets
        return seen


def build_row_mask(fragments: Sequence[Fragment], is_hidden: NDArray[np.bool_]) -> RowMask | None:
    """Return the mask of a version, from which live rows are hidden by position; None if none is."""
    hidden: dict[int, Positions] = {}
    masked: list[Fragment] = []
    digests: list[str] = []
    start = 0
    for fragment in fragments:
        offsets = np.flatnonzero(is_hidden[start : start + fragment.rows]).astype(np.int64)
        start += fragment.rows
        if len(offsets):
            offsets.flags.writeable = False
            hidden[fragment.number] = offsets
            digest = hashlib.blake2b(offsets.tobytes(), digest_size=16).hexdigest()
            digests.append(f"{fragment.files} {fragment.deletions} {digest}")
            # The name identifies which rows are left, in keys of caches and for comparisons of versions.
            fragment = replace(  # noqa: PLW2901 - the masked form of the same one
                fragment,
                deleted=fragment.deleted + len(offsets),
                deletions=f"{fragment.deletions or ''} hidden {digest}",
            )
        masked.append(fragment)
    if not hidden:
        return None
    return RowMask(tuple(masked), hidden, hashlib.blake2b("\n".join(digests).encode(), digest_size=16).hexdigest())


class MaskedTable(LanceTable):
    """One version of a table without its hidden rows. Positions count the rows that are seen."""

    def __init__(self, table: LanceTable, mask: RowMask) -> None:
        super().__init__(table.handles, table.path, table.version, table.watch)
        # All reads are those of this table, never inherited ones: these would not leave anything out.
        self._whole = table
        self._mask = mask
        self._seen_map: RowAddressMap | None = None
        self.cache_version = f"{table.version} hidden {mask.digest}"

    def count(self, where: str | None = None) -> int:
        """Return the number of seen rows, or of those that match."""
        if where is None:
            return sum(fragment.rows - fragment.deleted for fragment in self._mask.fragments)
        return int(self.scan([], where, with_address=True).num_rows)

    def count_values(self, column: str, fragments: Sequence[int]) -> int:
        """Return the number of seen rows in these fragments whose column is not null."""
        batches = self.iter_batches([column], fragments=fragments)
        return sum(len(batch) - batch.column(column).null_count for batch in batches)

    def scan(
        self,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        limit: int | None = None,
        *,
        with_address: bool = False,
    ) -> pa.Table:
        """Return the matching seen rows."""
        whole_limit = 0 if limit == 0 else None
        rows = self._whole.scan(columns, where, whole_limit, with_address=True)
        rows = rows.filter(pa.array(self._mask.is_seen(_read_addresses(rows))))
        rows = rows if limit is None else rows.slice(0, limit)
        return rows if with_address else rows.drop_columns([ADDRESS])

    def iter_batches(  # noqa: PLR0913 - options of a scan, by keyword except for the first two
        self,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        *,
        batch_rows: int | None = None,
        batch_bytes: int | None = None,
        ahead: int | None = None,
        io_bytes: int | None = None,
        with_blobs: bool = False,
        with_address: bool = False,
        fragments: Sequence[int] | None = None,
        within: range | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the matching seen rows of these fragments; `within` counts seen rows."""
        skipped = 0 if within is None else within.start
        left = None if within is None else len(within)
        for batch in self._whole.iter_batches(
            columns,
            where,
            batch_rows=batch_rows,
            batch_bytes=batch_bytes,
            ahead=ahead,
            io_bytes=io_bytes,
            with_blobs=with_blobs,
            with_address=True,
            fragments=fragments,
        ):
            addresses = np.asarray(batch.column(ADDRESS).to_numpy(zero_copy_only=False), np.uint64)
            seen = batch.filter(pa.array(self._mask.is_seen(addresses)))
            if not with_address:
                seen = seen.select([name for name in seen.schema.names if name != ADDRESS])
            size = len(seen)
            seen = seen.slice(skipped) if skipped < size else seen.slice(size)
            skipped = max(skipped - size, 0)
            if left is not None:
                seen = seen.slice(0, left)
                left -= len(seen)
            if len(seen):
                yield seen
            if left == 0:
                return

    def take(self, positions: Sequence[int] | pa.Array, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows at these positions among the seen rows."""
        return self._whole.take(pa.array(self._to_whole(positions)), columns)

    def take_with_blobs(self, positions: Sequence[int], columns: Sequence[str]) -> pa.Table:
        """Return the same rows, with the bytes of each blob."""
        return self._whole.take_with_blobs(self._to_whole(positions).tolist(), columns)

    def _to_whole(self, positions: Sequence[int] | pa.Array) -> Positions:
        """Return the positions among all live rows of positions among the seen ones."""
        at = np.asarray(positions.to_numpy(zero_copy_only=False) if isinstance(positions, pa.Array) else positions)
        return self._whole.get_address_map().to_positions(self.get_address_map().to_addresses(at.astype(np.int64)))

    def find_rows(
        self, column: str, keys: Sequence[str] | pa.Array, columns: Sequence[str], *, with_address: bool = False
    ) -> pa.Table:
        """Return the seen rows whose `column` is one of `keys`, in any order."""
        rows = self._whole.find_rows(column, keys, columns, with_address=True)
        rows = rows.filter(pa.array(self._mask.is_seen(_read_addresses(rows))))
        return rows if with_address else rows.drop_columns([ADDRESS])

    def list_fragments(self) -> tuple[Fragment, ...]:
        """Return the fragments of this version, in which hidden rows count as deleted."""
        return self._mask.fragments

    def get_address_map(self) -> RowAddressMap:
        """Return the map between positions among the seen rows and addresses."""
        if self._seen_map is None:
            fragments = self._mask.fragments
            self._seen_map = RowAddressMap(
                [fragment.number for fragment in fragments],
                [fragment.rows - fragment.deleted for fragment in fragments],
                [fragment.deleted for fragment in fragments],
                # Not a method of this object, which would then stay in memory until the collector finds the cycle.
                partial(_read_deleted_offsets, self._whole, self._mask),
            )
        return self._seen_map

    def iter_written_rows(self, columns: Sequence[str], fragments: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """Yield some columns of these fragments, with the values of deleted and hidden rows, by offset."""
        return self._whole.iter_written_rows(columns, fragments)

    def list_carried(self) -> dict[tuple[str, ...], CarriedRows]:
        """Return nothing: what a version carries includes hidden rows."""
        return {}

    def read_deleted_offsets(self, fragments: Sequence[int]) -> list[Positions]:
        """Return the ascending offsets of the deleted and hidden rows of each of these fragments."""
        return _read_deleted_offsets(self._whole, self._mask, fragments)

    def open_data_file(self, fragment: int) -> DataFileReader | None:  # noqa: ARG002 - no fragment can be read so
        """Return None: a reader of the file itself would leave nothing out."""
        return None

    def measure_index_coverage(self) -> tuple[IndexCoverage, ...]:
        """Return no index: they have been built with the hidden rows."""
        return ()

    @contextmanager
    def guard_read(
        self, where: str | None = None, *, with_indexes: bool = False, reads_files: bool = True
    ) -> Iterator[None]:
        """Verify files before a read, as for the whole table."""
        with self._whole.guard_read(where, with_indexes=with_indexes, reads_files=reads_files):
            yield


def _read_deleted_offsets(whole: LanceTable, mask: RowMask, fragments: Sequence[int]) -> list[Positions]:
    deleted_by_number = {fragment.number: fragment.deleted for fragment in whole.list_fragments()}
    with_deletions = [number for number in fragments if deleted_by_number[number]]
    deleted = dict(zip(with_deletions, whole.read_deleted_offsets(with_deletions), strict=True))
    nothing = np.empty(0, np.int64)
    return [np.union1d(deleted.get(number, nothing), mask.hidden.get(number, nothing)) for number in fragments]


def _read_addresses(rows: pa.Table) -> NDArray[np.uint64]:
    return np.asarray(concat_chunks(rows.column(ADDRESS)).to_numpy(zero_copy_only=False), np.uint64)
