"""The versions of tables that reads know: the newest of each branch, and a few of the past."""

from collections import OrderedDict
from dataclasses import dataclass, field

from omnigraph.commit.manifest_types import Pin, Snapshot
from omnigraph.engine.tables.table_reader import TableReader

_MAX_TABLES = 1_024
MAX_BRANCHES = 16
"""Of how many branches the newest version of a table stays: of those that were read last."""
MAX_PAST_VERSIONS = 4
"""How many other versions of a table stay: those that time travel reads, and those that a newer one has replaced."""


@dataclass(slots=True)
class _TableVersions:
    """What is known of one table."""

    rows: OrderedDict[int, TableReader] = field(default_factory=OrderedDict)
    """By version, the one that was asked for last at the end."""
    newest: OrderedDict[str, tuple[str, int]] = field(default_factory=OrderedDict)
    """Of each branch the newest version that was read, and the commit whose state that was."""


class VersionCache:
    """Rows of table versions. What is kept of a version goes with its rows, so a commit leaves nothing behind for long.

    Not safe from several threads: whoever has it has a lock.
    """

    def __init__(self) -> None:
        self._tables: OrderedDict[str, _TableVersions] = OrderedDict()

    def get(self, snapshot: Snapshot, pin: Pin) -> TableReader | None:
        """The rows at a pin of a snapshot, if they are known."""
        versions = self._tables.get(pin.path)
        if versions is None:
            return None
        found = versions.rows.get(pin.version)
        if found is not None:
            _mark_used(versions, snapshot, pin)
            self._tables.move_to_end(pin.path)
        return found

    def add(self, snapshot: Snapshot, pin: Pin, rows: TableReader) -> None:
        """Know these rows from now on, and forget those in whose place they are."""
        versions = self._tables.setdefault(pin.path, _TableVersions())
        versions.rows[pin.version] = rows
        _mark_used(versions, snapshot, pin)
        self._tables.move_to_end(pin.path)
        newest = {version for _, version in versions.newest.values()}
        past = [version for version in versions.rows if version not in newest]
        for version in past[:-MAX_PAST_VERSIONS]:
            del versions.rows[version]
        while len(self._tables) > _MAX_TABLES:
            self._tables.popitem(last=False)


def _mark_used(versions: _TableVersions, snapshot: Snapshot, pin: Pin) -> None:
    versions.rows.move_to_end(pin.version)
    known = versions.newest.get(snapshot.branch)
    if known is None or known[0] < snapshot.commit.id:  # ids grow with time, also when a branch is made anew
        versions.newest[snapshot.branch] = (snapshot.commit.id, pin.version)
    versions.newest.move_to_end(snapshot.branch)
    while len(versions.newest) > MAX_BRANCHES:
        versions.newest.popitem(last=False)
