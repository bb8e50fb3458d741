"""Who needs a version of a table that can't be read, and what can still be read: told with the error, never instead."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from omnigraph.commit.branches import BranchRegistry
from omnigraph.commit.gc_errors import explain_collected
from omnigraph.commit.manifest_log import Head, ManifestLog
from omnigraph.commit.manifest_types import MAIN, Pin
from omnigraph.commit.time_travel import undo_commit
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.integrity_check import find_footer_faults, inspect_version, list_table, translate_damage
from omnigraph.storage.lance_table import LanceTable
from omnigraph.storage.table_cache import PinUnreadableError, TableCache
from omnigraph.storage.version_files import list_version_files
from omnigraph.telemetry import log

MAX_BRANCHES = 20
MAX_COMMITS = 1_000
MAX_VERSIONS = 20
MAX_FILES = 100
"""How far an error looks around: 20 versions, or the ends of 100 files, take about 10 ms on local disk."""
_FILE = re.compile(r"(?:data|_deletions|_indices|_versions)/[\w.-]+")
"""How the text of a reason names a file of a table, with the table's path before it or without."""


@dataclass(frozen=True, slots=True)
class _UsageSpan:
    """How many commits of a branch need something, and the newest commit that does not."""

    commits: int
    is_whole: bool
    """Whether that was counted to the end."""
    readable: str | None


def build_explaining_handles(store: GraphStorage) -> TableCache:
    """Open the tables of a graph for a caller that has no session: what was collected is told from what is damaged."""
    handles = TableCache(store)
    handles.explain = partial(explain_pin, BranchRegistry(ManifestLog(store)))
    return handles


def explain_pin(branches: BranchRegistry, error: PinUnreadableError) -> PinUnreadableError:
    """Return the error of a version that was collected, or the same with who needs it and what can be read.

    It reads manifests and journals, a limited part of them, and is asked only when a read has failed. Nothing that goes
    wrong here hides the error itself.
    """
    found = explain_collected(branches, error)
    if found is not error:
        return found
    try:
        return _describe(branches, error)
    except Exception as failure:  # noqa: BLE001 - more may be damaged, and the error is told all the same
        log.info("it is not known who needs version %s of %s: %s", error.version, error.path, failure)
        return error


def _describe(branches: BranchRegistry, error: PinUnreadableError) -> PinUnreadableError:
    main = branches.main.readable_head()
    need = _PinUsage(branches, error)
    if need.file is None:
        need.file = need.find_file()
    names: list[str] = []
    key: str | None = None
    for name, log_, head in _list_heads(branches, main):
        manifest = head.snapshot.manifest
        known = (one.table_key for one in manifest.tables.values() if one.path == error.path)
        key = key or next(known, None)
        if any(need.is_needed_by(pin) for pin in manifest.pins.values()):
            names.append(name)
            if need.span is None:
                need.span = _find_span(log_, head, need)
    span = need.span or _find_span(branches.main, main, need)
    file = need.file and f"{error.path}/{need.file}"
    return PinUnreadableError(
        error.path, error.version, error.reason, key, file, tuple(names), span.commits, span.is_whole, span.readable
    )


def _list_heads(branches: BranchRegistry, main: Head) -> Iterator[tuple[str, ManifestLog, Head]]:
    yield MAIN, branches.main, main
    live = sorted(main.snapshot.manifest.live_branches.items())
    for name, record in live[: MAX_BRANCHES - 1]:
        log_ = branches.get_journal(name, record.path)
        yield name, log_, log_.readable_head()


class _PinUsage:
    """Knows which versions of a table need the file that is damaged; without a file, only the version itself does."""

    def __init__(self, branches: BranchRegistry, error: PinUnreadableError) -> None:
        self._handles = TableCache(branches.main.store, is_verifying=False)
        self._error = error
        named = _FILE.search(error.reason)
        self.file = None if named is None else named[0]
        self.span: _UsageSpan | None = None
        self._known: dict[int, bool] = {error.version: True}

    def is_needed_by(self, pin: Pin) -> bool:
        """Return whether a pin needs it. Beyond so many versions, it is taken not to."""
        if pin.path != self._error.path:
            return False
        if pin.version not in self._known:
            self._known[pin.version] = self._names_file(pin.version)
        return self._known[pin.version]

    def find_file(self) -> str | None:
        """Look for a file of the version that is missing, of another size, or without an end, where none is named."""
        path = self._error.path
        table = LanceTable(self._handles, path, self._error.version)
        faults = inspect_version(table, list_table(self._handles.store, path)).faults
        if not faults and len(table.list_fragments()) <= MAX_FILES:
            faults = tuple(find_footer_faults(table))
        places = (one.place.removeprefix(f"{path}/") for one in faults if one.index is None)
        return next(places, None)

    def _names_file(self, version: int) -> bool:
        if self.file is None or self.file.startswith("_versions/") or len(self._known) >= MAX_VERSIONS:
            return False
        with translate_damage(self._error.path):
            parts = list_version_files(self._handles.open(self._error.path, version), self._error.path)
        key = f"{self._error.path}/{self.file}"
        return key in parts or key in parts.directories


def _find_span(log_: ManifestLog, head: Head, need: _PinUsage) -> _UsageSpan:
    """Walk back from a state to the commits that need it, and on to the first that does not."""
    manifest = head.snapshot.manifest
    tables, pins, dropped = dict(manifest.tables), dict(manifest.pins), dict(manifest.dropped)
    commits, readable = 0, None
    for number, commit in enumerate(log_.iter_history(head)):
        if number >= MAX_COMMITS:
            return _UsageSpan(commits, is_whole=False, readable=readable)
        is_needed = any(need.is_needed_by(pin) for pin in pins.values())
        commits += is_needed
        if not is_needed and manifest.gc_horizon.retains(commit.seq):
            readable = readable or commit.id
        if not is_needed and commits:
            return _UsageSpan(commits, is_whole=True, readable=readable)
        undo_commit(commit, tables, pins, dropped)
    return _UsageSpan(commits, is_whole=True, readable=readable)
