"""Where rows of one table version lie, by id, so that a write that looks for the same row twice asks once."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from omnigraph.storage.arrow_buffers import read_numbers
from omnigraph.storage.columnar_sets import Column, concat_chunks, is_among
from omnigraph.storage.key_lookup import RowLocations, find_existing_ids, find_rows
from omnigraph.storage.lance_table import ADDRESS, MAX_PUSHED_KEYS, LanceTable

ID = "id"
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
