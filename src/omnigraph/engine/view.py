"""One snapshot as the engine sees it: its types and its tables."""

from dataclasses import dataclass

from omnigraph.commit.manifest_types import Snapshot
from omnigraph.commit.snapshot_tables import SnapshotTables
from omnigraph.schema.catalog import AnyType, Catalog
from omnigraph.storage.lance_table import Table


@dataclass(frozen=True, slots=True)
class View:
    """A snapshot, the catalog that was accepted in it, and its tables. Immutable: every answer is of one commit."""

    catalog: Catalog
    tables: SnapshotTables

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot."""
        return self.tables.snapshot

    def table(self, type_: AnyType) -> Table:
        """The table of a type, at its pin."""
        return self.tables.table(type_.table_key)

    def type(self, name: str) -> AnyType:
        """The type of that name; KeyError when the catalog has none."""
        found = self.catalog.type(name)
        if found is None:
            raise KeyError(name)
        return found
