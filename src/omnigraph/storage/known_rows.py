"""Where rows of one table version lie, by id, so that a write that looks for the same row twice asks once."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from omnigraph.storage.arrow_buffers import numbers
from omnigraph.storage.columnar_sets import Column, is_among, one_array
from omnigraph.storage.key_lookup import Located, ids_there, rows_with
from omnigraph.storage.lance_table import ADDRESS, MAX_PUSHED_KEYS, Table

ID = "id"
_NONE = pa.array([], pa.string())


class KnownRows:
    """The ids that were looked up so far in a table, and the addresses of those that have a row."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._asked = self._found = self._expected = _NONE
        self._addresses = np.empty(0, np.uint64)

    def note(self, rows: pa.Table) -> None:
        """Rows that were read with their ids and addresses."""
        ids = one_array(rows.column(ID))
        is_new = ~is_among(ids, self._asked)
        new = ids.filter(pa.array(is_new))
        self._asked, self._found = (pa.concat_arrays([known, new]) for known in (self._asked, self._found))
        self._addresses = np.concatenate([self._addresses, numbers(one_array(rows.column(ADDRESS)))[is_new]])

    def expect(self, ids: pa.Array) -> None:
        """Note ids that `there` will be asked for, so that the next look finds them along with others."""
        self._expected = pa.concat_arrays([self._expected, ids]).unique()

    def rows(self, ids: pa.Array, columns: Sequence[str], *, with_address: bool = False) -> pa.Table:
        """Some columns of the rows with these ids, and of no others."""
        if len(ids) > MAX_PUSHED_KEYS and not with_address:
            return rows_with(self._table, ID, ids, columns)
        together = pa.concat_arrays([ids, self._unknown(self._expected)]).unique()
        asked = together if len(together) <= MAX_PUSHED_KEYS else ids
        found = self._table.matching(ID, asked, list(dict.fromkeys([ID, *columns])), with_address=True)
        self.note(found)
        self._asked = pa.concat_arrays([self._asked, self._unknown(asked)])
        if len(asked) > len(ids):
            found = found.filter(pa.array(is_among(found.column(ID), ids)))
        return found.select([*columns, ADDRESS] if with_address else list(columns))

    def there(self, ids: Column, beside: pa.Array = _NONE) -> pa.Array:
        """Those of the ids that have a row. The same look finds those of `beside`, which somebody will ask for."""
        wanted = one_array(ids)
        unknown = self._unknown(wanted)
        together = pa.concat_arrays([unknown, self._unknown(beside)]).unique()
        if len(together) > MAX_PUSHED_KEYS:  # found by a pass over the column, which tells no addresses
            known = wanted.filter(pa.array(is_among(wanted, self._found)))
            return pa.concat_arrays([known, ids_there(self._table, unknown)])
        if len(unknown):
            self.rows(together, [ID])
        return wanted.filter(pa.array(is_among(wanted, self._found)))

    def located(self, ids: pa.Array) -> Located | None:
        """Where the rows of these ids lie, of those that have one; None when some were never looked up."""
        if len(self._unknown(ids)):
            return None
        mine = self._addresses[is_among(self._found, ids)]
        return Located(path=self._table.path, version=self._table.version, addresses=mine)

    def _unknown(self, ids: pa.Array) -> pa.Array:
        return ids.filter(pa.array(~is_among(ids, self._asked)))
