"""Cache the readers of table versions: the newest one of each branch, and a few older ones."""

from dataclasses import dataclass, field

from omnigraph.commit.manifest_types import Pin, Snapshot
from omnigraph.engine.tables.table_reader import TableReader
from omnigraph.lru_cache import LruCache

_MAX_TABLES = 1_024
# The newest version of a table is kept for this number of branches, those read most recently (decision 42).
MAX_BRANCHES = 16
# Of each table this number of other versions is kept: for time travel, and to extend a replaced version.
MAX_PAST_VERSIONS = 4


@dataclass(slots=True)
class _TableVersions:
    """The cached versions of one table."""

    # By version. The limit is never reached: `add` removes past versions earlier, and one may be added before.
    readers: LruCache[int, TableReader] = field(default_factory=lambda: LruCache(MAX_BRANCHES + MAX_PAST_VERSIONS + 1))
    # By branch, the newest commit that was read and the version of the table in it.
    newest: LruCache[str, tuple[str, int]] = field(default_factory=lambda: LruCache(MAX_BRANCHES))


class VersionCache:
    """An LRU cache of table readers; what was loaded for a version can be freed with its reader.

    Not thread-safe: its owner holds a lock.
    """

    def __init__(self) -> None:
        self._tables: LruCache[str, _TableVersions] = LruCache(_MAX_TABLES)

    def get(self, snapshot: Snapshot, pin: Pin) -> TableReader | None:
        """Return the reader of the version that a snapshot pins, if it is cached."""
        versions = self._tables.get(pin.path)
        if versions is None:
            return None
        reader = versions.readers.get(pin.version)
        if reader is not None:
            _mark_used(versions, snapshot, pin)
        return reader

    def remove(self, path: str, version: int) -> None:
        """Drop the reader of a version."""
        versions = self._tables.get(path)
        if versions is not None:
            versions.readers.pop(version)

    def add(self, snapshot: Snapshot, pin: Pin, reader: TableReader) -> None:
        """Cache a reader, and drop those that it replaces."""
        versions = self._tables.get_or_build(pin.path, _TableVersions)
        versions.readers.put(pin.version, reader)
        _mark_used(versions, snapshot, pin)
        newest = {version for _, version in versions.newest.list_values()}
        past = [version for version in versions.readers.list_keys() if version not in newest]
        for version in past[:-MAX_PAST_VERSIONS]:
            versions.readers.pop(version)


def _mark_used(versions: _TableVersions, snapshot: Snapshot, pin: Pin) -> None:
    newest = versions.newest.get(snapshot.branch)
    # Commit ids grow with time, even when a branch is deleted and created again.
    if newest is None or newest[0] < snapshot.commit.id:
        versions.newest.put(snapshot.branch, (snapshot.commit.id, pin.version))
