"""One snapshot as the engine sees it: its types and its tables."""

from dataclasses import dataclass

from omnigraph.commit.manifest_types import Snapshot
from omnigraph.commit.snapshot_tables import SnapshotTables
from omnigraph.schema.catalog import AnyType, Catalog
from omnigraph.storage.lance_table import LanceTable


@dataclass(frozen=True, slots=True)
class View:
    """A snapshot, the catalog that was accepted in it, and its tables. Immutable: every answer is of one commit."""

    catalog: Catalog
    tables: SnapshotTables

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot."""
        return self.tables.snapshot

    def get_table(self, type_: AnyType) -> LanceTable:
        """The table of a type, at its pin."""
        return self.tables.open_table(type_.table_key)

    def get_type(self, name: str) -> AnyType:
        """The type of that name; KeyError when the catalog has none."""
        found = self.catalog.find_type(name)
        if found is None:
            raise KeyError(name)
        return found
