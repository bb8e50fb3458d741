"""Cache the readers of table versions: the newest one of each branch, and a few older ones."""

from collections import OrderedDict
from dataclasses import dataclass, field

from omnigraph.commit.manifest_types import Pin, Snapshot
from omnigraph.engine.tables.table_reader import TableReader

_MAX_TABLES = 1_024
# The newest version of a table is kept for this number of branches, those read most recently (decision 42).
MAX_BRANCHES = 16
# Of each table this number of other versions is kept: for time travel, and to extend a replaced version.
MAX_PAST_VERSIONS = 4


@dataclass(slots=True)
class _TableVersions:
    """The cached versions of one table."""

    # By version, the most recently used one last.
    readers: OrderedDict[int, TableReader] = field(default_factory=OrderedDict)
    # By branch, the newest commit that was read and the version of the table in it.
    newest: OrderedDict[str, tuple[str, int]] = field(default_factory=OrderedDict)


class VersionCache:
    """An LRU cache of table readers; what was loaded for a version can be freed with its reader.

    Not thread-safe: its owner holds a lock.
    """

    def __init__(self) -> None:
        self._tables: OrderedDict[str, _TableVersions] = OrderedDict()

    def get(self, snapshot: Snapshot, pin: Pin) -> TableReader | None:
        """Return the reader of the version that a snapshot pins, if it is cached."""
        versions = self._tables.get(pin.path)
        if versions is None:
            return None
        reader = versions.readers.get(pin.version)
        if reader is not None:
            _mark_used(versions, snapshot, pin)
            self._tables.move_to_end(pin.path)
        return reader

    def add(self, snapshot: Snapshot, pin: Pin, reader: TableReader) -> None:
        """Cache a reader, and drop those that it replaces."""
        versions = self._tables.setdefault(pin.path, _TableVersions())
        versions.readers[pin.version] = reader
        _mark_used(versions, snapshot, pin)
        self._tables.move_to_end(pin.path)
        newest = {version for _, version in versions.newest.values()}
        past = [version for version in versions.readers if version not in newest]
        for version in past[:-MAX_PAST_VERSIONS]:
            del versions.readers[version]
        while len(self._tables) > _MAX_TABLES:
            self._tables.popitem(last=False)


def _mark_used(versions: _TableVersions, snapshot: Snapshot, pin: Pin) -> None:
    versions.readers.move_to_end(pin.version)
    newest = versions.newest.get(snapshot.branch)
    # Commit ids grow with time, even when a branch is deleted and created again.
    if newest is None or newest[0] < snapshot.commit.id:
        versions.newest[snapshot.branch] = (snapshot.commit.id, pin.version)
    versions.newest.move_to_end(snapshot.branch)
    while len(versions.newest) > MAX_BRANCHES:
        versions.newest.popitem(last=False)
