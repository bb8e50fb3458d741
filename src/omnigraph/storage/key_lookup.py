"""Look up committed rows by many keys: a few keys are pushed into Lance, more are found by one pass over a column."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.storage.arrow_buffers import read_numbers
from omnigraph.storage.columnar_sets import Column, Mask, Positions, concat_chunks, find_positions, is_among
from omnigraph.storage.lance_table import ADDRESS, BATCH_READAHEAD, MAX_PUSHED_KEYS, LanceTable
from omnigraph.storage.row_addresses import Addresses
from omnigraph.storage.string_hash_index import StringHashIndex, iter_hits

ID = "id"
SCAN_BATCH_ROWS = 131_072
# More keys are looked up in several passes: the hash index takes about a hundred bytes per key.
MAX_KEYS_PER_PASS = 4_000_000
# With at least this many rows per key most rows are no hits; up to this many keys it pays to filter those out first.
_MIN_ROWS_PER_KEY = 4
_MAX_FILTERED_KEYS = 1_000_000


class ExistingRows:
    """The committed rows that have the ids of some other rows."""

    def __init__(
        self, table: LanceTable, at: Positions, positions: Positions | None, rows: pa.Table | None = None
    ) -> None:
        self._table = table
        self._positions = positions
        self._rows = rows
        """The ids and addresses of the rows if they are few; otherwise their positions are known."""
        self.at = at
        """For each of the other rows, the number of its committed row in this object, or -1 if there is none."""

    def get_addresses(self) -> Addresses:
        """Return the address of each committed row, by its number."""
        if self._rows is not None:
            return read_numbers(concat_chunks(self._rows.column(ADDRESS)))
        return self._table.get_address_map().to_addresses(
            self._positions if self._positions is not None else np.empty(0, np.int64)
        )

    def locate(self, rows: Mask) -> "RowLocations":
        """Return the locations of the committed rows of some of the other rows, each of which has one."""
        return RowLocations(
            path=self._table.path, version=self._table.version, addresses=self.get_addresses()[self.at[rows]]
        )

    @property
    def is_located(self) -> bool:
        """Whether rows are fetched by position; otherwise each fetch looks them up by id."""
        return self._positions is not None

    @property
    def mask(self) -> Mask:
        """For each of the other rows, whether it has a committed row."""
        return self.at >= 0

    def fetch(self, numbers: Positions, columns: Sequence[str]) -> pa.Table:
        """Return some columns of the committed rows with these numbers, in that order; a blob as its pointer."""
        if not len(numbers) or not columns:
            return self._table.scan(columns, limit=0) if columns else pa.table({})
        if self._positions is not None:
            return self._table.take(pa.array(self._positions[numbers]), columns)
        assert self._rows is not None  # noqa: S101 - one of the two
        ids = concat_chunks(self._rows.column(ID).take(pa.array(numbers)))
        names = [name for name in dict.fromkeys([ID, *columns]) if name != ADDRESS]
        rows = self._table.find_rows(ID, ids, names, with_address=ADDRESS in columns)
        # Lance returns the rows in its own order.
        return rows.take(pa.array(find_positions(ids, rows.column(ID)))).select(list(columns))


@dataclass(frozen=True, slots=True, kw_only=True)
class RowLocations:
    """The addresses of rows in one version of a table. Another version may have other addresses."""

    path: str
    version: int
    addresses: Addresses

    def is_of(self, table: LanceTable) -> bool:
        """Return whether these are addresses of this version of this table."""
        return (self.path, self.version) == (table.path, table.version)


def build_empty_existing(table: LanceTable, rows: int) -> ExistingRows:
    """Return the result for rows of which none has a committed row."""
    return ExistingRows(table, np.full(rows, -1, np.int64), np.empty(0, np.int64))


def find_existing(table: LanceTable, ids: Callable[[], pa.Array], rows: int) -> ExistingRows:
    """Find the committed rows with these ids. `ids` is called only if both sides have rows."""
    if not rows or not table.count():
        return build_empty_existing(table, rows)
    at = np.full(rows, -1, np.int64)
    keys = ids()
    if rows <= MAX_PUSHED_KEYS:
        committed = table.find_rows(ID, keys, [ID], with_address=True)
        return ExistingRows(table, find_positions(keys, committed.column(ID)), None, committed)
    positions: list[Positions] = []
    count = 0
    for first in range(0, rows, MAX_KEYS_PER_PASS):
        chunk = keys.slice(first, MAX_KEYS_PER_PASS)
        for hits in iter_hits(_iter_overlapping(table, chunk), _build_key_index(table, chunk)):
            is_living, found_at = hits.mark.locate_rows(hits.rows)
            at[first + hits.key_positions[is_living]] = count + np.arange(len(found_at))
            positions.append(found_at)
            count += len(found_at)
    return ExistingRows(table, at, np.concatenate(positions) if positions else np.empty(0, np.int64))


def find_existing_ids(table: LanceTable, ids: Column) -> pa.Array:
    """Return the ids that committed rows have."""
    none = pa.array([], pa.string())
    if not len(ids) or not table.count():
        return none
    keys = concat_chunks(ids)
    if len(keys) <= MAX_PUSHED_KEYS:
        return concat_chunks(table.find_rows(ID, keys, [ID]).column(ID))
    all_hits = iter_hits(_iter_overlapping(table, keys), _build_key_index(table, keys))
    parts = [hits.column.take(pa.array(hits.rows[hits.mark.locate_rows(hits.rows)[0]])) for hits in all_hits]
    return pa.concat_arrays(parts) if parts else none


def find_added_ids(before: LanceTable, table: LanceTable, ids: Column) -> pa.Array:
    """Return which of these ids, of which an earlier version has none, committed rows have now.

    Of many, only the fragments that came since are read: other writers may commit while a whole table is.
    """
    if len(ids) <= MAX_PUSHED_KEYS:
        return find_existing_ids(table, ids)
    deletions = {fragment.files: fragment.deletions for fragment in before.list_fragments()}
    # A fragment that has other deletions than before may have rows again, after a reset of the branch.
    added = [
        fragment
        for fragment in table.list_fragments()
        if deletions.get(fragment.files, "") not in {None, fragment.deletions}
    ]
    if not added:
        return pa.array([], pa.string())
    if sum(fragment.rows for fragment in added) > len(ids):
        return find_existing_ids(table, ids)
    batches = table.iter_batches([ID], fragments=[fragment.number for fragment in added])
    committed = pa.chunked_array([batch.column(ID) for batch in batches], pa.string())
    keys = concat_chunks(ids)
    return keys.filter(pa.array(is_among(keys, committed)))


def find_rows(table: LanceTable, column: str, keys: Column, columns: Sequence[str]) -> pa.Table:
    """Return some columns of the committed rows whose `column` is one of the keys."""
    names = list(dict.fromkeys([*columns, column]))
    if not len(keys) or not table.count():
        return table.scan(names, limit=0).select(list(columns))
    distinct = concat_chunks(keys).unique()
    if len(distinct) <= MAX_PUSHED_KEYS:
        return table.find_rows(column, distinct, names).select(list(columns))
    rows = table.scan(names)
    return rows.filter(pa.array(is_among(rows.column(column), distinct))).select(list(columns))


def _build_key_index(table: LanceTable, keys: pa.Array) -> StringHashIndex:
    """Build a hash index of the keys, with a filter in front if most rows of the table are no hits."""
    is_rarely_hit = len(keys) <= _MAX_FILTERED_KEYS and _MIN_ROWS_PER_KEY * len(keys) < table.count()
    return StringHashIndex(keys, is_rarely_hit=is_rarely_hit)


@dataclass(frozen=True, slots=True)
class _IdChunk:
    """The position of a chunk of consecutive committed ids."""

    start: int
    """The position of its first row; if it includes deleted rows, that of the first row of their fragment."""
    offset: int = 0
    """The offset of its first row in the fragment, if it includes deleted rows."""
    deleted: Positions | None = None
    """The offsets of the deleted rows of the fragment, if the chunk includes deleted rows."""

    def locate_rows(self, rows: Positions) -> tuple[Mask | slice, Positions]:
        """Return which of these rows are live, and the positions of those."""
        if self.deleted is None:
            return slice(None), self.start + rows
        offsets = self.offset + rows
        before = np.searchsorted(self.deleted, offsets)
        # An offset is deleted if the search finds itself; the -1 at the end matches no offset.
        is_living = np.append(self.deleted, -1)[before] != offsets
        return is_living, self.start + (offsets - before)[is_living]


def _iter_overlapping(table: LanceTable, ids: pa.Array) -> Iterator[tuple[_IdChunk, pa.Array]]:
    """Yield the committed ids in batches, without batches that are entirely below or above all of `ids`.

    Generated ids grow, so new ones overlap no old batch.
    """
    bounds = pc.min_max(ids)
    lowest, highest = bounds["min"].as_py(), bounds["max"].as_py()
    for chunk, column in _iter_id_chunks(table):
        if _overlaps(column, lowest, highest):
            yield chunk, column


def _iter_id_chunks(table: LanceTable) -> Iterator[tuple[_IdChunk, pa.Array]]:
    """Yield all committed ids; of fragments whose data file is read directly, those of deleted rows too."""
    fragments = table.list_fragments()
    start = 0
    # Adjacent fragments that Lance reads are one scan, which reads ahead across them.
    for file, group in groupby(
        fragments, lambda fragment: table.open_data_file(fragment.number) if fragment.deleted else None
    ):
        numbers = [fragment.number for fragment in group]
        if file is None:
            selected = None if len(numbers) == len(fragments) else numbers
            batches = table.iter_batches([ID], batch_rows=SCAN_BATCH_ROWS, ahead=BATCH_READAHEAD, fragments=selected)
            for batch in batches:
                yield _IdChunk(start), batch.column(ID)
                start += batch.num_rows
            continue
        (deleted,) = table.read_deleted_offsets(numbers)
        offset = 0
        for batch in file.iter_batches([ID], SCAN_BATCH_ROWS):
            if table.watch is not None:
                table.watch.check()
            yield _IdChunk(start, offset, deleted), batch.column(ID)
            offset += batch.num_rows
        start += offset - len(deleted)


def _overlaps(column: pa.Array, lowest: str, highest: str) -> bool:
    """Return whether some values may be from `lowest` to `highest`."""
    if len(column) and lowest <= column[0].as_py() <= highest:
        return True  # computing the bounds costs as much as a lookup of all values
    bounds = pc.min_max(column)
    return bool(bounds["min"].as_py() <= highest and bounds["max"].as_py() >= lowest)


_NONE = pa.array([], pa.string())


class RowAddressCache:
    """A cache of the ids that were looked up in a table, and the addresses of those that have a row."""

    def __init__(self, table: LanceTable) -> None:
        self._table = table
        self._known_ids = _NONE
        self._existing_ids = _NONE
        self._expected = _NONE
        self._addresses = np.empty(0, np.uint64)

    def note(self, rows: pa.Table) -> None:
        """Add rows that were read with their ids and addresses."""
        ids = concat_chunks(rows.column(ID))
        is_new = ~is_among(ids, self._known_ids)
        new = ids.filter(pa.array(is_new))
        self._known_ids = pa.concat_arrays([self._known_ids, new])
        self._existing_ids = pa.concat_arrays([self._existing_ids, new])
        addresses = read_numbers(concat_chunks(rows.column(ADDRESS)))
        self._addresses = np.concatenate([self._addresses, addresses[is_new]])

    def expect(self, ids: pa.Array) -> None:
        """Add ids that will be looked up, so that the next lookup includes them."""
        self._expected = pa.concat_arrays([self._expected, ids]).unique()

    def fetch_rows(self, ids: pa.Array, columns: Sequence[str], *, with_address: bool = False) -> pa.Table:
        """Return some columns of the rows with these ids, and of no others."""
        if len(ids) > MAX_PUSHED_KEYS and not with_address:
            return find_rows(self._table, ID, ids, columns)
        together = pa.concat_arrays([ids, self._select_unknown(self._expected)]).unique()
        requested = together if len(together) <= MAX_PUSHED_KEYS else ids
        rows = self._table.find_rows(ID, requested, list(dict.fromkeys([ID, *columns])), with_address=True)
        self.note(rows)
        # Ids without a row are known too: they need no second lookup.
        self._known_ids = pa.concat_arrays([self._known_ids, self._select_unknown(requested)])
        if len(requested) > len(ids):
            rows = rows.filter(pa.array(is_among(rows.column(ID), ids)))
        return rows.select([*columns, ADDRESS] if with_address else list(columns))

    def find_existing(self, ids: Column, prefetch: pa.Array = _NONE) -> pa.Array:
        """Return the ids that have a row. The same lookup includes the ids of `prefetch`, for later calls."""
        keys = concat_chunks(ids)
        unknown = self._select_unknown(keys)
        together = pa.concat_arrays([unknown, self._select_unknown(prefetch)]).unique()
        if len(together) > MAX_PUSHED_KEYS:  # by a pass over the column, which gives no addresses to cache
            cached = keys.filter(pa.array(is_among(keys, self._existing_ids)))
            return pa.concat_arrays([cached, find_existing_ids(self._table, unknown)])
        if len(unknown):
            self.fetch_rows(together, [ID])
        return keys.filter(pa.array(is_among(keys, self._existing_ids)))

    def locate(self, ids: pa.Array) -> RowLocations | None:
        """Return the locations of the rows of these ids that have one, or None if some were never looked up."""
        if len(self._select_unknown(ids)):
            return None
        addresses = self._addresses[is_among(self._existing_ids, ids)]
        return RowLocations(path=self._table.path, version=self._table.version, addresses=addresses)

    def _select_unknown(self, ids: pa.Array) -> pa.Array:
        return ids.filter(pa.array(~is_among(ids, self._known_ids)))
