"""A table as it will be once its columns are changed, read from the version that it is now: nothing is written."""

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.commit.manifest_types import Snapshot
from omnigraph.commit.snapshot_tables import SnapshotTables
from omnigraph.storage.columnar_sets import repeat_scalar
from omnigraph.storage.lance_table import ADDRESS, LanceTable
from omnigraph.storage.schema_staging import NewColumns
from omnigraph.storage.table_cache import TableCache


class ProjectedTable(LanceTable):
    """Gives rows in the new columns, for who checks rules over them: whole scans and look-ups by one column."""

    def __init__(self, table: LanceTable, columns: NewColumns) -> None:
        super().__init__(table.handles, table.path, table.version)
        self._table, self._columns = table, columns

    @property
    def schema(self) -> pa.Schema:
        """The columns that it will have."""
        return self._columns.schema

    def scan(
        self,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        limit: int | None = None,
        *,
        with_address: bool = False,
    ) -> pa.Table:
        """All rows; a filter is of columns that may have other names, so there is none."""
        assert where is None  # noqa: S101 - who checks rules looks up by keys
        names = self._columns.schema.names if columns is None else list(columns)
        return self._project(
            self._table.scan(self._map_stored_names(names), limit=limit, with_address=with_address), names
        )

    def find_rows(
        self, column: str, keys: Sequence[str] | pa.Array, columns: Sequence[str], *, with_address: bool = False
    ) -> pa.Table:
        """The rows whose `column` is one of `keys`. All rows say the same in a column that is new."""
        names, stored = list(columns), self._map_stored_names(columns)
        old = self._columns.old_names.get(column)
        if old is not None:
            return self._project(self._table.find_rows(old, keys, stored, with_address=with_address), names)
        wanted = keys if isinstance(keys, pa.Array) else pa.array(keys, pa.string())
        fill = self._columns.fills.get(column)
        is_hit = fill is not None and bool(pc.any(pc.equal(wanted, fill.cast(wanted.type))).as_py())
        found = self._table.scan(stored, limit=None if is_hit else 0, with_address=with_address)
        return self._project(found, names)

    def _map_stored_names(self, columns: Sequence[str]) -> list[str]:
        """What the columns are called now, as far as they are there; at least one, so that rows can be counted."""
        known = self._columns.old_names
        return [known[name] for name in columns if name in known] or [self._table.schema.names[0]]

    def _project(self, rows: pa.Table, columns: Sequence[str]) -> pa.Table:
        made = {name: self._build_column(rows, name) for name in columns}
        if ADDRESS in rows.schema.names:
            made[ADDRESS] = rows.column(ADDRESS)
        return pa.table(made)

    def _build_column(self, rows: pa.Table, name: str) -> pa.Array | pa.ChunkedArray:
        old = self._columns.old_names.get(name)
        if old is not None:
            return rows.column(old)
        fill, type_ = self._columns.fills.get(name), self._columns.schema.field(name).type
        return pa.nulls(rows.num_rows, type_) if fill is None else repeat_scalar(fill.cast(type_), rows.num_rows)


class ProjectedTables(SnapshotTables):
    """The tables of a state, some of them with other columns than their versions have."""

    def __init__(self, handles: TableCache, snapshot: Snapshot, columns: Mapping[str, NewColumns]) -> None:
        super().__init__(handles, snapshot)
        self._columns = columns

    def open_table(self, table_key: str) -> LanceTable:
        """The table at its pin, in the columns that it will have; KeyError when there is none."""
        found = super().open_table(table_key)
        columns = self._columns.get(table_key)
        return found if columns is None else ProjectedTable(found, columns)
