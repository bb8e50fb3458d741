"""Collect the table versions that the retained states of a graph consist of, with their checksums.

The journals of branches and tags, and of their parents, are each walked once, newest commit first. Commits are not kept
in memory: a version costs about 200 bytes.
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
    """The table versions that branches and tags can still read."""

    epoch: int = 0
    """The last cleanup that main recorded before anything else was read."""
    tables: dict[str, dict[int, int | None]] = field(default_factory=dict)
    """By path, the versions of a table with the checksums of their files, None if not recorded."""
    names: dict[str, str] = field(default_factory=dict)
    """By path, the key of a table."""
    broken: dict[str, tuple[str, str]] = field(default_factory=dict)
    """By path, branches whose manifests can't be read, and why; the versions that they retain are unknown."""

    def has(self, path: str, version: int) -> bool:
        """Return whether a version of a table is retained."""
        return version in self.tables.get(path, ())

    def add(self, pin: Pin) -> None:
        """Add the version of a pin."""
        recorded = None if pin.sum is None else int(pin.sum, 16)
        versions = self.tables.setdefault(pin.path, {})
        versions[pin.version] = versions.get(pin.version) if recorded is None else recorded
        self.names.setdefault(pin.path, pin.table_key)


def find_retained_versions(branches: BranchRegistry, main: Head) -> RetainedVersions:
    """Return the versions that the retained states of all branches and tags consist of, as of a state of main.

    Raises:
        OmnigraphError: The store does not answer, or main's journal can't be read.
    """
    manifest = main.snapshot.manifest
    result = RetainedVersions(epoch=manifest.gc_horizon.epoch)
    stack = [
        *((tag.branch, tag.path) for tag in manifest.tags.values()),
        *((record.name, record.path) for record in manifest.live_branches.values()),
        (MAIN, MANIFEST),
    ]
    seen: set[str] = set()
    while stack:
        branch, path = stack.pop()
        if path in seen:
            continue
        seen.add(path)
        try:
            log = branches.get_journal(branch, path)
            head = main if path == MANIFEST else log.final_head()
            for pin in _iter_retained_pins(log, head):
                result.add(pin)
        except OmnigraphError as error:
            # A damaged branch does not keep the others from being read. Damage of main is reported by the caller.
            is_missing = isinstance(error, NotAGraphError)
            if path == MANIFEST or not (is_missing or error.kind is Kind.CORRUPT):
                raise
            result.broken[path] = (branch, "it is missing" if is_missing else str(error))
            continue
        fork = head.snapshot.manifest.fork
        if fork is not None:
            stack.append((fork.parent_branch, fork.parent_path))
    return result


def _iter_retained_pins(log: ManifestLog, head: Head) -> Iterator[Pin]:
    """Yield the pins of all retained states of one journal: the newest, and those that its horizon retains."""
    manifest = head.snapshot.manifest
    tables: dict[str, TableRecord] = dict(manifest.tables)
    pins: dict[str, Pin] = dict(manifest.pins)
    first = -1 if manifest.fork is None else manifest.fork.seq
    purged_paths: set[str] = set()
    # The tables whose pins changed since the last retained state: all others were yielded with that one.
    changed: dict[str, None] = dict.fromkeys(pins)
    for commit in log.iter_history(head):
        if commit.seq < first:
            return
        if manifest.gc_horizon.retains(commit.seq):
            yield from (pins[key] for key in changed if key in pins and pins[key].path not in purged_paths)
            changed = {}
        # States before a hard drop can no longer read the dropped table.
        purged_paths |= {purge.path for purge in commit.purged}
        undo_commit(commit, tables, pins, {})
        changed |= dict.fromkeys(change.table_key for change in commit.changes)
