"""A snapshot with its catalog and tables, as the engine reads it."""

from dataclasses import dataclass

from omnigraph.commit.manifest_types import Snapshot
from omnigraph.commit.snapshot_tables import SnapshotTables
from omnigraph.schema.catalog import AnyType, Catalog
from omnigraph.storage.lance_table import LanceTable


@dataclass(frozen=True, slots=True)
class View:
    """A snapshot, the catalog that was accepted in it, and its tables. Immutable: all reads see the same commit."""

    catalog: Catalog
    tables: SnapshotTables

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot of the tables."""
        return self.tables.snapshot

    @property
    def realm(self) -> str:
        """What identifies the rows that are left out, in keys of caches; empty if all rows are there."""
        return self.tables.realm

    def get_table(self, type_: AnyType) -> LanceTable:
        """Return the table of a type, at the version that the snapshot pins."""
        return self.tables.open_table(type_.table_key)

    def get_type(self, name: str) -> AnyType:
        """Return the type with this name.

        Raises:
            KeyError: The catalog has none.
        """
        type_ = self.catalog.find_type(name)
        if type_ is None:
            raise KeyError(name)
        return type_
