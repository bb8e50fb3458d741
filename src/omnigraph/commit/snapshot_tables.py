"""The tables of one snapshot, opened when asked for."""

from omnigraph.commit.manifest_types import Snapshot
from omnigraph.storage.lance_table import LanceTable
from omnigraph.storage.table_cache import TableCache
from omnigraph.storage.watch import Watch


class SnapshotTables:
    """Gives each table at the snapshot's pin. What is read of them is subject to `watch`, if there is one."""

    def __init__(self, handles: TableCache, snapshot: Snapshot, watch: Watch | None = None) -> None:
        self._handles, self.snapshot, self._watch = handles, snapshot, watch

    def open_table(self, table_key: str) -> LanceTable:
        """The table at its pin; KeyError when there is none."""
        pin = self.snapshot.pin(table_key)
        return LanceTable(self._handles, pin.path, pin.version, self._watch)
