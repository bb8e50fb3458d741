"""Explain why a table version can't be read: which branches and commits need it, and what can still be read.

The explanation is added to the error and never replaces it.
"""

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

# Limits of the search that follows a failed read. Reading 20 versions, or the footers of 100 files, takes about 10 ms
# on local disk.
MAX_BRANCHES = 20
MAX_COMMITS = 1_000
MAX_VERSIONS = 20
MAX_FILES = 100
# A file of a table as the reason of an error names it, with or without the path of the table before it.
_FILE = re.compile(r"(?:data|_deletions|_indices|_versions)/[\w.-]+")


@dataclass(frozen=True, slots=True)
class _UsageSpan:
    """The number of consecutive commits that need a damaged version, and the newest commit that does not."""

    commits: int
    is_whole: bool
    """Whether all commits were counted."""
    readable: str | None


def build_explaining_handles(store: GraphStorage) -> TableCache:
    """Open the tables of a graph for a caller without a session.

    Errors of these tables distinguish collected versions from damaged ones.
    """
    handles = TableCache(store)
    handles.explain = partial(explain_pin, BranchRegistry(ManifestLog(store)))
    return handles


def explain_pin(branches: BranchRegistry, error: PinUnreadableError) -> PinUnreadableError:
    """Return the error of a collected version, or the same error with the commits that need the version.

    It reads a limited part of manifests and journals, and runs only after a read has failed. A failure here is logged
    and returns the original error.
    """
    explained = explain_collected(branches, error)
    if explained is not error:
        return explained
    try:
        return _describe(branches, error)
    except Exception as failure:  # noqa: BLE001 - more may be damaged; the original error counts
        log.info("could not determine which commits need version %s of %s: %s", error.version, error.path, failure)
        return error


def _describe(branches: BranchRegistry, error: PinUnreadableError) -> PinUnreadableError:
    main = branches.main.readable_head()
    usage = _PinUsage(branches, error)
    if usage.file is None:
        usage.file = usage.find_file()
    branch_names: list[str] = []
    table_key: str | None = None
    heads = list(_list_heads(branches, main))
    for name, log_, head in heads:
        manifest = head.snapshot.manifest
        keys = (table.table_key for table in manifest.tables.values() if table.path == error.path)
        table_key = table_key or next(keys, None)
        if any(usage.is_needed_by(pin) for pin in manifest.pins.values()):
            branch_names.append(name)
            if usage.span is None:
                usage.span = _find_span(log_, head, usage)
    # No head needs the version any longer, but the history of a branch may.
    spans = [] if usage.span else [_find_span(log_, head, usage) for _, log_, head in heads]
    span = usage.span or next((span for span in spans if span.commits or not span.is_whole), spans[0])
    file = usage.file and f"{error.path}/{usage.file}"
    return PinUnreadableError(
        error.path,
        error.version,
        error.reason,
        table_key,
        file,
        tuple(branch_names),
        span.commits,
        span.is_whole,
        span.readable,
    )


def _list_heads(branches: BranchRegistry, main: Head) -> Iterator[tuple[str, ManifestLog, Head]]:
    yield MAIN, branches.main, main
    live = sorted(main.snapshot.manifest.live_branches.items())
    for name, record in live[: MAX_BRANCHES - 1]:
        log_ = branches.get_journal(name, record.path)
        yield name, log_, log_.readable_head()


class _PinUsage:
    """Determines which versions of a table need its damaged file.

    If the file is not known, only the version of the error itself needs it.
    """

    def __init__(self, branches: BranchRegistry, error: PinUnreadableError) -> None:
        self._handles = TableCache(branches.main.store, is_verifying=False)
        self._error = error
        match = _FILE.search(error.reason)
        self.file = None if match is None else match[0]
        self.span: _UsageSpan | None = None
        self._usage_by_version: dict[int, bool] = {error.version: True}

    def is_needed_by(self, pin: Pin) -> bool:
        """Return whether a pin needs the damaged file.

        Once MAX_VERSIONS versions were read, the answer is False for all others.
        """
        if pin.path != self._error.path:
            return False
        if pin.version not in self._usage_by_version:
            self._usage_by_version[pin.version] = self._names_file(pin.version)
        return self._usage_by_version[pin.version]

    def find_file(self) -> str | None:
        """Return a file of the version that is missing, has another size or no footer; None if all look intact."""
        path = self._error.path
        table = LanceTable(self._handles, path, self._error.version)
        faults = inspect_version(table, list_table(self._handles.store, path)).faults
        # Reading the footers costs requests per file, so large tables are checked by size alone.
        if not faults and len(table.list_fragments()) <= MAX_FILES:
            faults = tuple(find_footer_faults(table))
        files = (fault.place.removeprefix(f"{path}/") for fault in faults if fault.index is None)
        return next(files, None)

    def _names_file(self, version: int) -> bool:
        # A version file belongs to one version only, which is in the cache from the start.
        if self.file is None or self.file.startswith("_versions/") or len(self._usage_by_version) >= MAX_VERSIONS:
            return False
        with translate_damage(self._error.path):
            parts = list_version_files(self._handles.open(self._error.path, version), self._error.path)
        key = f"{self._error.path}/{self.file}"
        return key in parts or key in parts.directories


def _find_span(log_: ManifestLog, head: Head, usage: _PinUsage) -> _UsageSpan:
    """Count the commits that need the version, from the newest that does back to the first that does not."""
    manifest = head.snapshot.manifest
    tables = dict(manifest.tables)
    pins = dict(manifest.pins)
    dropped = dict(manifest.dropped)
    commits = 0
    readable = None
    for number, commit in enumerate(log_.iter_history(head)):
        if number >= MAX_COMMITS:
            return _UsageSpan(commits, is_whole=False, readable=readable)
        is_needed = any(usage.is_needed_by(pin) for pin in pins.values())
        commits += is_needed
        if not is_needed and manifest.gc_horizon.retains(commit.seq):
            readable = readable or commit.id
        if not is_needed and commits:
            return _UsageSpan(commits, is_whole=True, readable=readable)
        undo_commit(commit, tables, pins, dropped)
    return _UsageSpan(commits, is_whole=True, readable=readable)
