"""The tables of one snapshot, opened when asked for."""

from omnigraph.commit.records import Snapshot
from omnigraph.storage.dataset import Table
from omnigraph.storage.handles import Handles


class SnapshotTables:
    """Gives each table at the snapshot's pin."""

    def __init__(self, handles: Handles, snapshot: Snapshot) -> None:
        self._handles, self.snapshot = handles, snapshot

    def table(self, table_key: str) -> Table:
        """The table at its pin; KeyError when there is none."""
        pin = self.snapshot.pin(table_key)
        return Table(self._handles, pin.path, pin.version)
