"""Which versions of tables the kept states of a graph are made of, and what is recorded of each version's file.

The journals of branches and tags, and those that they were taken from, are each walked once, newest commit first. No
commit is held: a version costs about 200 bytes while its number is known.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from omnigraph.commit.branches import BranchRegistry
from omnigraph.commit.manifest_log import Head, ManifestLog, NotAGraphError
from omnigraph.commit.manifest_types import MAIN, Pin, TableRecord
from omnigraph.commit.time_travel import undo_commit
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.storage.layout import MANIFEST


@dataclass(slots=True)
class RetainedVersions:
    """The versions that a cleanup, as far as one was run, has left to branches and tags."""

    epoch: int = 0
    """The last cleanup that main knew of before anything else was read."""
    tables: dict[str, dict[int, int | None]] = field(default_factory=dict)
    """By path, the versions of a table, each with the checksum of its file where one was recorded."""
    names: dict[str, str] = field(default_factory=dict)
    """By path, the key of a table."""
    broken: dict[str, tuple[str, str]] = field(default_factory=dict)
    """By path, the branches whose manifests can't be read, and why: nothing is known of what they keep."""

    def has(self, path: str, version: int) -> bool:
        """Return whether a version of a table is one of them."""
        return version in self.tables.get(path, ())

    def add(self, pin: Pin) -> None:
        """Add the version that a pin names."""
        recorded = None if pin.sum is None else int(pin.sum, 16)
        versions = self.tables.setdefault(pin.path, {})
        versions[pin.version] = versions.get(pin.version) if recorded is None else recorded
        self.names.setdefault(pin.path, pin.table_key)


def find_retained_versions(branches: BranchRegistry, main: Head) -> RetainedVersions:
    """Return the versions that the kept states of all branches and tags are made of, as of a state of main.

    Raises:
        OmnigraphError: The store does not answer, or main's journal can't be read.
    """
    manifest = main.snapshot.manifest
    found = RetainedVersions(epoch=manifest.gc_horizon.epoch)
    waiting = [
        *((tag.branch, tag.path) for tag in manifest.tags.values()),
        *((record.name, record.path) for record in manifest.live_branches.values()),
        (MAIN, MANIFEST),
    ]
    seen: set[str] = set()
    while waiting:
        branch, path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        try:
            log = branches.get_journal(branch, path)
            head = main if path == MANIFEST else log.final_head()
            for pin in _iter_retained_pins(log, head):
                found.add(pin)
        except OmnigraphError as error:
            # Others can be read whatever is wrong with one branch; what is wrong with main is the caller's to tell.
            is_gone = isinstance(error, NotAGraphError)
            if path == MANIFEST or not (is_gone or error.kind is Kind.CORRUPT):
                raise
            found.broken[path] = (branch, "it is missing" if is_gone else str(error))
            continue
        fork = head.snapshot.manifest.fork
        if fork is not None:
            waiting.append((fork.parent_branch, fork.parent_path))
    return found


def _iter_retained_pins(log: ManifestLog, head: Head) -> Iterator[Pin]:
    """Yield the pins of all kept states of one journal: its newest, and those before it that its floor covers."""
    manifest = head.snapshot.manifest
    tables: dict[str, TableRecord] = dict(manifest.tables)
    pins: dict[str, Pin] = dict(manifest.pins)
    first = -1 if manifest.fork is None else manifest.fork.seq
    lost: set[str] = set()
    fresh: dict[str, None] = dict.fromkeys(pins)
    """The tables whose pins changed since the last kept state."""
    for commit in log.iter_history(head):
        if commit.seq < first:
            return
        if manifest.gc_horizon.retains(commit.seq):
            yield from (pins[key] for key in fresh if key in pins and pins[key].path not in lost)
            fresh = {}
        # States from before data was dropped for good do not have it any more.
        lost |= {purge.path for purge in commit.purged}
        undo_commit(commit, tables, pins, {})
        fresh |= dict.fromkeys(change.table_key for change in commit.changes)
