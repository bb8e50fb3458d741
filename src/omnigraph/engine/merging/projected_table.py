"""A read-only view of a table with its columns already changed, over the stored version that still has the old ones."""

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
    """A table version projected to new columns, for checking constraints: full scans and lookups by one column."""

    # A subclass, because checks take a `LanceTable`. Only the methods that they call are overridden.
    def __init__(self, table: LanceTable, columns: NewColumns) -> None:
        super().__init__(table.handles, table.path, table.version)
        self._table = table
        self._columns = columns

    @property
    def schema(self) -> pa.Schema:
        """The new columns."""
        return self._columns.schema

    def scan(
        self,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        limit: int | None = None,
        *,
        with_address: bool = False,
    ) -> pa.Table:
        """Return all rows. A filter is not supported: its columns may have other names in the stored version."""
        assert where is None  # noqa: S101 - constraint checks look rows up by keys
        names = self._columns.schema.names if columns is None else list(columns)
        return self._project(
            self._table.scan(self._map_stored_names(names), limit=limit, with_address=with_address), names
        )

    def find_rows(
        self, column: str, keys: Sequence[str] | pa.Array, columns: Sequence[str], *, with_address: bool = False
    ) -> pa.Table:
        """Return the rows whose `column` is one of `keys`."""
        names = list(columns)
        stored = self._map_stored_names(columns)
        old = self._columns.old_names.get(column)
        if old is not None:
            return self._project(self._table.find_rows(old, keys, stored, with_address=with_address), names)
        # A new column has the same value, its fill, in every row: all rows match or none.
        key_array = keys if isinstance(keys, pa.Array) else pa.array(keys, pa.string())
        fill = self._columns.fills.get(column)
        is_hit = fill is not None and bool(pc.any(pc.equal(key_array, fill.cast(key_array.type))).as_py())
        rows = self._table.scan(stored, limit=None if is_hit else 0, with_address=with_address)
        return self._project(rows, names)

    def _map_stored_names(self, columns: Sequence[str]) -> list[str]:
        """Return the stored names of those columns that exist; at least one column, so that rows can be counted."""
        old_names = self._columns.old_names
        return [old_names[name] for name in columns if name in old_names] or [self._table.schema.names[0]]

    def _project(self, rows: pa.Table, columns: Sequence[str]) -> pa.Table:
        projected = {name: self._build_column(rows, name) for name in columns}
        if ADDRESS in rows.schema.names:
            projected[ADDRESS] = rows.column(ADDRESS)
        return pa.table(projected)

    def _build_column(self, rows: pa.Table, name: str) -> pa.Array | pa.ChunkedArray:
        old = self._columns.old_names.get(name)
        if old is not None:
            return rows.column(old)
        fill = self._columns.fills.get(name)
        type_ = self._columns.schema.field(name).type
        return pa.nulls(rows.num_rows, type_) if fill is None else repeat_scalar(fill.cast(type_), rows.num_rows)


class ProjectedTables(SnapshotTables):
    """The tables of a snapshot, some of them projected to new columns."""

    def __init__(self, handles: TableCache, snapshot: Snapshot, columns: Mapping[str, NewColumns]) -> None:
        super().__init__(handles, snapshot)
        self._columns = columns

    def open_table(self, table_key: str) -> LanceTable:
        """Open the table at its pin, projected to its new columns.

        Raises:
            KeyError: The snapshot has no such table.
        """
        table = super().open_table(table_key)
        columns = self._columns.get(table_key)
        return table if columns is None else ProjectedTable(table, columns)
