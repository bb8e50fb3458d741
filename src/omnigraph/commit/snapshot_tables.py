"""Open the tables of one snapshot on demand."""

from omnigraph.commit.manifest_types import Snapshot
from omnigraph.storage.lance_table import LanceTable
from omnigraph.storage.table_cache import TableCache
from omnigraph.storage.watch import Watch


class SnapshotTables:
    """Opens tables at the pins of a snapshot. Reads count against `watch`, if there is one."""

    def __init__(self, handles: TableCache, snapshot: Snapshot, watch: Watch | None = None) -> None:
        self._handles = handles
        self.snapshot = snapshot
        self._watch = watch
        self.realm = ""
        """What identifies the rows that are left out, in keys of caches; empty if these are all rows."""

    def without_watch(self) -> "SnapshotTables":
        """Return the same tables for reads that are cached, which the limits of one operation must not end."""
        return SnapshotTables(self._handles, self.snapshot)

    def open_table(self, table_key: str) -> LanceTable:
        """Open a table at its pinned version.

        Raises:
            KeyError: The snapshot has no such table.
        """
        pin = self.snapshot.pin(table_key)
        return LanceTable(self._handles, pin.path, pin.version, self._watch)
