"""List the files of a graph by location, and find those that cleanup may remove; each location has its own rule."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum

from omnigraph.commit.freshness import RECENT_SECONDS
from omnigraph.commit.gc_plan import AllHistories
from omnigraph.commit.sidecar import Sidecar, list_sidecars
from omnigraph.commit.task_journal import find_noted_files
from omnigraph.ops.session import Session
from omnigraph.storage.checksum_lists import build_list_key
from omnigraph.storage.garbage_files import (
    FileKind,
    SweepRules,
    TableGarbage,
    classify_file,
    find_manifest_garbage,
    find_table_garbage,
    is_older,
)
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.layout import (
    AUDIT,
    BRANCHES,
    DERIVED,
    EDGES,
    MANIFEST,
    NODES,
    TOP_LEVEL,
    format_version_name,
    parse_version_number,
)
from omnigraph.storage.object_store import ForeignFileError, ObjectInfo, ObjectMissingError
from omnigraph.storage.table_cache import PinUnreadableError
from omnigraph.storage.version_files import PinnedFiles, list_pinned_files

# Manifest files stay at least this long, whatever the grace, also those of a deleted branch: a writer that saw the head
# less than `RECENT_SECONDS` ago does not check that the files still exist.
MIN_GRACE = timedelta(seconds=6 * RECENT_SECONDS)
# This number of the newest manifest versions keep all of their files, so that a repair can go back if the newest is
# damaged. Of older versions the name alone is enough: a stalled writer loses its swap to it.
MIN_WHOLE_VERSIONS = 16
# Finds the names of table files in the text of a sidecar that can't be decoded.
_TABLE_FILE = re.compile(rf"(?:{NODES}|{EDGES})/[0-9A-Za-z_-]+/[0-9A-Za-z_./#-]+")


class CleanupRule(Enum):
    """How a location is cleaned up."""

    TABLE = "table"
    """A table of rows: versions that manifests pin are kept."""
    MANIFEST = "manifest"
    """A manifest or the recovery log: the newest versions are kept, and the names of older ones as a fence."""
    DERIVED = "derived"
    """Data derived from tables, which can be derived again."""


@dataclass(frozen=True, slots=True)
class CleanupLocation:
    """A Lance table below the root, or the directory of all derived objects."""

    path: str
    rule: CleanupRule


DERIVED_LOCATION = CleanupLocation(DERIVED, CleanupRule.DERIVED)


@dataclass(frozen=True, slots=True)
class GraphListing:
    """All files of a graph by location, and the files that belong to none."""

    locations: Mapping[CleanupLocation, Sequence[ObjectInfo]]
    unknown_files: tuple[str, ...]

    @property
    def table_files(self) -> Iterator[str]:
        """The keys of all table files."""
        return (
            info.key
            for location, files in self.locations.items()
            if location.rule is CleanupRule.TABLE
            for info in files
        )

    @property
    def version_times(self) -> dict[tuple[str, int], datetime]:
        """The creation time of each version of a manifest or a table, by path and version number."""
        return {
            (location.path, _parse_version_number(info.key)): info.modified
            for location, files in self.locations.items()
            for info in files
            if info.key.endswith(".manifest")
        }


def _parse_version_number(key: str) -> int:
    """Return the number of a version, ordinary or detached, from the name of its file."""
    name = key.rpartition("/")[2].removesuffix(".manifest")
    return int(name[1:]) if name.startswith("d") and name[1:].isdigit() else parse_version_number(key)


def list_graph(store: GraphStorage) -> GraphListing:
    """List the whole graph, with one list request per top-level directory (and page)."""
    locations: dict[CleanupLocation, list[ObjectInfo]] = {}
    unknown = [name for name in store.objects.list_children() if name not in TOP_LEVEL]
    # The depth is the number of path parts that make up a location, such as `nodes/person`.
    for root, rule, depth in (
        (NODES, CleanupRule.TABLE, 2),
        (EDGES, CleanupRule.TABLE, 2),
        (MANIFEST, CleanupRule.MANIFEST, 1),
        (BRANCHES, CleanupRule.MANIFEST, 2),
        (AUDIT, CleanupRule.MANIFEST, 1),
        (DERIVED, CleanupRule.DERIVED, 1),
    ):
        for info in store.objects.list_under(root):
            parts = info.key.split("/")
            if len(parts) > depth:
                locations.setdefault(CleanupLocation("/".join(parts[:depth]), rule), []).append(info)
            else:
                unknown.append(info.key)
    return GraphListing(locations, tuple(unknown))


# --- operations in progress -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OperationFiles:
    """The files and branch drafts of operations that are in flight, or died and are not recovered yet."""

    sidecars: tuple[Sidecar, ...]
    files: frozenset[str]

    def __contains__(self, key: str) -> bool:
        """Return whether an operation needs a file."""
        drafts = (sidecar.manifest_path for sidecar in self.sidecars if sidecar.manifest_path != MANIFEST)
        return key in self.files or any(key.startswith(f"{path}/") for path in drafts)


def find_operation_files(store: GraphStorage) -> OperationFiles:
    """Return the files that all sidecars and task notes name now.

    A sidecar that can't be decoded protects every file whose name occurs in its text.
    """
    items, broken = list_sidecars(store)
    files = {file for item in items for file in item.sidecar.files}
    files |= find_noted_files(store)
    for damaged in broken:
        try:
            text = store.objects.get(damaged.key).data.decode(errors="replace")
        except (ObjectMissingError, ForeignFileError):
            continue
        files.update(_TABLE_FILE.findall(text))
    return OperationFiles(tuple(item.sidecar for item in items), frozenset(files))


# --- garbage ---------------------------------------------------------------------------------------


@dataclass
class FileSorter:
    """Find the garbage of tables and manifests. Versions are immutable, so the files of each are read once."""

    session: Session
    now: datetime
    grace: timedelta
    versions_read: int = 0
    unknown_files: set[str] = field(default_factory=set)
    _parts_cache: dict[tuple[str, int], PinnedFiles] = field(default_factory=dict)
    _checksum_lists: tuple[AllHistories, Mapping[str, Collection[str]]] | None = None

    @property
    def before(self) -> datetime:
        """The time before which a file must have been written to be garbage."""
        return self.now - self.grace

    @property
    def _min_grace(self) -> timedelta:
        """The grace of manifest files; see `MIN_GRACE`."""
        return max(self.grace, MIN_GRACE)

    def sort(
        self,
        location: CleanupLocation,
        files: Sequence[ObjectInfo],
        journals: AllHistories,
        versions: Mapping[str, Collection[int]],
        operation_files: OperationFiles,
    ) -> TableGarbage:
        """Return the garbage of a table or a manifest, given the table versions that are needed.

        Raises:
            PinUnreadableError, UnknownPartError: The files of a needed version can't be determined.
        """
        rules = SweepRules(before=self.before, is_named=operation_files.__contains__)
        if location.rule is CleanupRule.TABLE:
            lists = self._find_lists(journals).get(location.path, ())
            result = self._sort_table(location, files, versions.get(location.path, ()), rules, lists)
        else:
            result = self._sort_manifest(location, files, journals, rules)
        self.unknown_files.update(info.key for info in result.unknown_files)
        return result

    def find_table_key(self, location: CleanupLocation, journals: AllHistories) -> str:
        """Return the name of a location for users: a table key, a branch, or the path if it has neither."""
        for history in reversed(journals.live_histories):
            for key, record in history.head.snapshot.manifest.tables.items():
                if record.path == location.path:
                    return key
            if history.path == location.path:
                return f"branch:{history.log.branch}"
        return location.path

    def _find_lists(self, journals: AllHistories) -> Mapping[str, Collection[str]]:
        """Return by table path the checksum lists that kept states reference; found once for all tables."""
        if self._checksum_lists is None or self._checksum_lists[0] is not journals:
            self._checksum_lists = (journals, journals.find_checksum_lists())
        return self._checksum_lists[1]

    def _sort_table(
        self,
        location: CleanupLocation,
        files: Sequence[ObjectInfo],
        needed_versions: Collection[int],
        rules: SweepRules,
        lists: Collection[str],
    ) -> TableGarbage:
        parts = [(info, classify_file(info.key.removeprefix(f"{location.path}/"))) for info in files]
        collectable = [info for info, part in parts if part in {FileKind.VERSION, FileKind.CONTENT}]
        if not any(info.modified < self.before for info in collectable):
            # All files are young and therefore stay, so no version needs to be read.
            needed = PinnedFiles()
        else:
            heads = {parse_version_number(info.key) for info, part in parts if part is FileKind.HEAD}
            # Versions after the first, which is empty, were written by other tools; their files stay too.
            foreign = [number for number in heads if number > 1]
            needed = self._find_needed_files(location.path, [*needed_versions, *foreign])
            needed |= PinnedFiles(frozenset(build_list_key(location.path, name) for name in lists))
        return find_table_garbage(location.path, files, needed, rules)

    def _sort_manifest(
        self, location: CleanupLocation, files: Sequence[ObjectInfo], journals: AllHistories, rules: SweepRules
    ) -> TableGarbage:
        """Return the garbage of a manifest.

        A manifest in use keeps its newest states, and the names of some older ones as a fence. Any other manifest is
        garbage as a whole, once all of its files are old.
        """
        is_needed = location.path in journals.histories or location.path == AUDIT
        if not is_needed:
            is_dead = is_older(files, self.now - self._min_grace)
            return find_manifest_garbage(location.path, files if is_dead else (), PinnedFiles(), rules)
        if not any(info.modified < self.before for info in files):
            return find_manifest_garbage(location.path, (), PinnedFiles(), rules)
        by_number = {parse_version_number(info.key): info for info in files if info.key.endswith(".manifest")}
        numbers = sorted(by_number, reverse=True)
        fence = numbers[: max(self.session.handles.store.runtime.options.manifest_versions, 1)]
        young_since = self.now - self._min_grace
        young = [index for index, number in enumerate(numbers) if by_number[number].modified >= young_since]
        # Also the version before the oldest young one: it was current when the grace began.
        whole = numbers[: max(min(MIN_WHOLE_VERSIONS, len(fence)), max(young, default=-1) + 2)]
        needed = self._find_needed_files(location.path, whole, may_be_missing=whole[1:])
        spared = {*(by_number[number].key for number in fence), *_iter_key_runs(location.path, journals)}
        return find_manifest_garbage(location.path, files, needed | PinnedFiles(frozenset(spared)), rules)

    def _find_needed_files(self, path: str, versions: Iterable[int], may_be_missing: Iterable[int] = ()) -> PinnedFiles:
        """Return the files of several versions. Another writer may just have trimmed those in `may_be_missing`."""
        files: set[str] = set()
        directories: set[str] = set()
        optional = set(may_be_missing)
        for version in versions:
            parts = self._parts_cache.get((path, version))
            if parts is None:
                try:
                    parts = list_pinned_files(self.session.handles, path, [version])
                except PinUnreadableError:
                    # A version that exists but can't be read is damaged, not trimmed.
                    version_file = f"{path}/{format_version_name(version)}"
                    exists = self.session.handles.store.objects.stat(version_file) is not None
                    if exists or version not in optional:
                        raise
                    continue
                self.versions_read += 1
                self._parts_cache[path, version] = parts
            files |= parts.files
            directories |= parts.directories
        return PinnedFiles(frozenset(files), frozenset(directories))


def _iter_key_runs(path: str, journals: AllHistories) -> Iterator[str]:
    """Yield the keys of the objects with idempotency keys that a manifest references."""
    history = journals.histories.get(path)
    for run in () if history is None else history.head.snapshot.manifest.key_runs:
        yield f"{path}/{run.name}"
