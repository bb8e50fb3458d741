"""Committed rows by many keys at once: pushed into Lance while they are few, else by one pass over a column."""

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
MAX_KEYS_PER_PASS = 4_000_000
"""More keys are looked up in several passes, because what finds them takes about a hundred bytes for each."""
_MIN_ROWS_PER_KEY, _MAX_FILTERED_KEYS = 4, 1_000_000
"""Of so many rows for each key most are not asked for; for up to so many keys it pays to tell these apart first."""


class ExistingRows:
    """The committed rows that have the ids of other rows."""

    def __init__(
        self, table: LanceTable, at: Positions, positions: Positions | None, found: pa.Table | None = None
    ) -> None:
        self._table, self._positions = table, positions
        self._rows = found
        """The ids and addresses of the rows, when they are few; else their positions are known."""
        self.at = at
        """For each of the other rows, the number of the committed row of its id here; -1 where there is none."""

    def get_addresses(self) -> Addresses:
        """The address of each committed row, by its number here."""
        if self._rows is not None:
            return read_numbers(concat_chunks(self._rows.column(ADDRESS)))
        return self._table.get_address_map().to_addresses(
            self._positions if self._positions is not None else np.empty(0, np.int64)
        )

    def locate(self, rows: Mask) -> "RowLocations":
        """Where the committed rows lie of some of the other rows, each of which has one."""
        return RowLocations(
            path=self._table.path, version=self._table.version, addresses=self.get_addresses()[self.at[rows]]
        )

    @property
    def is_located(self) -> bool:
        """Whether rows are fetched from where they lie; else each time they are looked up by their ids."""
        return self._positions is not None

    @property
    def mask(self) -> Mask:
        """For each of the other rows, whether there is one."""
        return self.at >= 0

    def fetch(self, numbers: Positions, columns: Sequence[str]) -> pa.Table:
        """Some columns of the committed rows of these numbers, in that order; a blob as its description."""
        if not len(numbers) or not columns:
            return self._table.scan(columns, limit=0) if columns else pa.table({})
        if self._positions is not None:
            return self._table.take(pa.array(self._positions[numbers]), columns)
        assert self._rows is not None  # noqa: S101 - one of the two
        wanted = concat_chunks(self._rows.column(ID).take(pa.array(numbers)))
        names = [name for name in dict.fromkeys([ID, *columns]) if name != ADDRESS]
        found = self._table.find_rows(ID, wanted, names, with_address=ADDRESS in columns)
        return found.take(pa.array(find_positions(wanted, found.column(ID)))).select(list(columns))


@dataclass(frozen=True, slots=True, kw_only=True)
class RowLocations:
    """Where rows lie in one version of a table. In another version they may lie elsewhere."""

    path: str
    version: int
    addresses: Addresses

    def is_of(self, table: LanceTable) -> bool:
        """Whether the rows lie there in this table."""
        return (self.path, self.version) == (table.path, table.version)


def build_empty_existing(table: LanceTable, rows: int) -> ExistingRows:
    """None of so many rows has a committed one."""
    return ExistingRows(table, np.full(rows, -1, np.int64), np.empty(0, np.int64))


def find_existing(table: LanceTable, ids: Callable[[], pa.Array], rows: int) -> ExistingRows:
    """Which of so many ids committed rows have; they are asked for only when there are any rows."""
    if not rows or not table.count():
        return build_empty_existing(table, rows)
    at = np.full(rows, -1, np.int64)
    wanted = ids()
    if rows <= MAX_PUSHED_KEYS:
        found = table.find_rows(ID, wanted, [ID], with_address=True)
        return ExistingRows(table, find_positions(wanted, found.column(ID)), None, found)
    positions: list[Positions] = []
    known = 0
    for first in range(0, rows, MAX_KEYS_PER_PASS):
        some = wanted.slice(first, MAX_KEYS_PER_PASS)
        for hits in iter_hits(_iter_overlapping(table, some), _build_key_index(table, some)):
            is_living, found_at = hits.mark.locate_rows(hits.rows)
            at[first + hits.key_positions[is_living]] = known + np.arange(len(found_at))
            positions.append(found_at)
            known += len(found_at)
    return ExistingRows(table, at, np.concatenate(positions) if positions else np.empty(0, np.int64))


def find_existing_ids(table: LanceTable, ids: Column) -> pa.Array:
    """Those of the ids that committed rows have."""
    nothing = pa.array([], pa.string())
    if not len(ids) or not table.count():
        return nothing
    wanted = concat_chunks(ids)
    if len(wanted) <= MAX_PUSHED_KEYS:
        return concat_chunks(table.find_rows(ID, wanted, [ID]).column(ID))
    every = iter_hits(_iter_overlapping(table, wanted), _build_key_index(table, wanted))
    parts = [hits.column.take(pa.array(hits.rows[hits.mark.locate_rows(hits.rows)[0]])) for hits in every]
    return pa.concat_arrays(parts) if parts else nothing


def find_rows(table: LanceTable, column: str, keys: Column, columns: Sequence[str]) -> pa.Table:
    """Some columns of the committed rows whose `column` is one of the keys."""
    names = list(dict.fromkeys([*columns, column]))
    if not len(keys) or not table.count():
        return table.scan(names, limit=0).select(list(columns))
    wanted = concat_chunks(keys).unique()
    if len(wanted) <= MAX_PUSHED_KEYS:
        return table.find_rows(column, wanted, names).select(list(columns))
    found = table.scan(names)
    return found.filter(pa.array(is_among(found.column(column), wanted))).select(list(columns))


def _build_key_index(table: LanceTable, wanted: pa.Array) -> StringHashIndex:
    """Keys that every row of a table is asked for."""
    return StringHashIndex(
        wanted, is_rarely_hit=len(wanted) <= _MAX_FILTERED_KEYS and _MIN_ROWS_PER_KEY * len(wanted) < table.count()
    )


@dataclass(frozen=True, slots=True)
class _IdChunk:
    """Some committed rows, one behind the other."""

    start: int
    """The position of the first of them; where deleted ones are among them, that of the first of their fragment."""
    offset: int = 0
    """Where the first of them lies in its fragment, if deleted ones are among them."""
    deleted: Positions | None = None
    """The offsets of the deleted rows of the fragment, if such are among them."""

    def locate_rows(self, rows: Positions) -> tuple[Mask | slice, Positions]:
        """Which of these rows live, and the positions of those."""
        if self.deleted is None:
            return slice(None), self.start + rows
        offsets = self.offset + rows
        before = np.searchsorted(self.deleted, offsets)
        is_living = np.append(self.deleted, -1)[before] != offsets
        return is_living, self.start + (offsets - before)[is_living]


def _iter_overlapping(table: LanceTable, ids: pa.Array) -> Iterator[tuple[_IdChunk, pa.Array]]:
    """The committed ids, a batch at a time.

    Left out are batches that lie before or behind all of `ids`: made ids grow, so new ones meet no old ones.
    """
    ends = pc.min_max(ids)
    lowest, highest = ends["min"].as_py(), ends["max"].as_py()
    for stretch, column in _iter_id_chunks(table):
        if _overlaps(column, lowest, highest):
            yield stretch, column


def _iter_id_chunks(table: LanceTable) -> Iterator[tuple[_IdChunk, pa.Array]]:
    """All committed ids. Of fragments whose files can be read by themselves, those of deleted rows are among them."""
    every = table.list_fragments()
    start = 0
    for file, group in groupby(every, lambda one: table.open_data_file(one.number) if one.deleted else None):
        numbers = [one.number for one in group]
        if file is None:
            chosen = None if len(numbers) == len(every) else numbers
            for batch in table.iter_batches([ID], batch_rows=SCAN_BATCH_ROWS, ahead=BATCH_READAHEAD, fragments=chosen):
                yield _IdChunk(start), batch.column(ID)
                start += batch.num_rows
            continue
        (deleted,), offset = table.read_deleted_offsets(numbers), 0
        for batch in file.iter_batches([ID], SCAN_BATCH_ROWS):
            if table.watch is not None:
                table.watch.check()
            yield _IdChunk(start, offset, deleted), batch.column(ID)
            offset += batch.num_rows
        start += offset - len(deleted)


def _overlaps(column: pa.Array, lowest: str, highest: str) -> bool:
    """Whether some values may be from `lowest` to `highest`."""
    if len(column) and lowest <= column[0].as_py() <= highest:
        return True  # no need to look at all values, which costs as much as asking for them
    own = pc.min_max(column)
    return bool(own["min"].as_py() <= highest and own["max"].as_py() >= lowest)


_NONE = pa.array([], pa.string())


class RowAddressCache:
    """The ids that were looked up so far in a table, and the addresses of those that have a row."""

    def __init__(self, table: LanceTable) -> None:
        self._table = table
        self._known_ids = self._existing_ids = self._expected = _NONE
        self._addresses = np.empty(0, np.uint64)

    def note(self, rows: pa.Table) -> None:
        """Rows that were read with their ids and addresses."""
        ids = concat_chunks(rows.column(ID))
        is_new = ~is_among(ids, self._known_ids)
        new = ids.filter(pa.array(is_new))
        self._known_ids, self._existing_ids = (
            pa.concat_arrays([known, new]) for known in (self._known_ids, self._existing_ids)
        )
        self._addresses = np.concatenate([self._addresses, read_numbers(concat_chunks(rows.column(ADDRESS)))[is_new]])

    def expect(self, ids: pa.Array) -> None:
        """Note ids that `there` will be asked for, so that the next look finds them along with others."""
        self._expected = pa.concat_arrays([self._expected, ids]).unique()

    def fetch_rows(self, ids: pa.Array, columns: Sequence[str], *, with_address: bool = False) -> pa.Table:
        """Some columns of the rows with these ids, and of no others."""
        if len(ids) > MAX_PUSHED_KEYS and not with_address:
            return find_rows(self._table, ID, ids, columns)
        together = pa.concat_arrays([ids, self._select_unknown(self._expected)]).unique()
        asked = together if len(together) <= MAX_PUSHED_KEYS else ids
        found = self._table.find_rows(ID, asked, list(dict.fromkeys([ID, *columns])), with_address=True)
        self.note(found)
        self._known_ids = pa.concat_arrays([self._known_ids, self._select_unknown(asked)])
        if len(asked) > len(ids):
            found = found.filter(pa.array(is_among(found.column(ID), ids)))
        return found.select([*columns, ADDRESS] if with_address else list(columns))

    def find_existing(self, ids: Column, beside: pa.Array = _NONE) -> pa.Array:
        """Those of the ids that have a row. The same look finds those of `beside`, which somebody will ask for."""
        wanted = concat_chunks(ids)
        unknown = self._select_unknown(wanted)
        together = pa.concat_arrays([unknown, self._select_unknown(beside)]).unique()
        if len(together) > MAX_PUSHED_KEYS:  # found by a pass over the column, which tells no addresses
            known = wanted.filter(pa.array(is_among(wanted, self._existing_ids)))
            return pa.concat_arrays([known, find_existing_ids(self._table, unknown)])
        if len(unknown):
            self.fetch_rows(together, [ID])
        return wanted.filter(pa.array(is_among(wanted, self._existing_ids)))

    def locate(self, ids: pa.Array) -> RowLocations | None:
        """Where the rows of these ids lie, of those that have one; None when some were never looked up."""
        if len(self._select_unknown(ids)):
            return None
        mine = self._addresses[is_among(self._existing_ids, ids)]
        return RowLocations(path=self._table.path, version=self._table.version, addresses=mine)

    def _select_unknown(self, ids: pa.Array) -> pa.Array:
        return ids.filter(pa.array(~is_among(ids, self._known_ids)))
