"""What lies where below a graph's root, and what of it cleanup may take: each place by its own rule."""

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

MIN_GRACE = timedelta(seconds=6 * RECENT_SECONDS)
"""How long a state of a manifest stays whole at least, whatever the grace; that of a deleted branch too."""
MIN_WHOLE_VERSIONS = 16
"""So many of the newest versions of a manifest stay with all that they are made of: one to go back to, if the newest
is damaged. Of older ones the name is enough to keep a writer that was stalled from using it again."""
_TABLE_FILE = re.compile(rf"(?:{NODES}|{EDGES})/[0-9A-Za-z_-]+/[0-9A-Za-z_./#-]+")


class CleanupRule(Enum):
    """How a place is cleaned up."""

    TABLE = "table"
    """Rows, in versions that manifests pin."""
    LINE = "line"
    """A manifest, or the audit of recoveries: the newest versions, and a fence of older ones."""
    DERIVED = "derived"
    """What was derived from tables, and can be again."""


@dataclass(frozen=True, slots=True)
class CleanupLocation:
    """A Lance dataset below the root, or all objects of a kind."""

    path: str
    rule: CleanupRule


DERIVED_LOCATION = CleanupLocation(DERIVED, CleanupRule.DERIVED)


@dataclass(frozen=True, slots=True)
class GraphListing:
    """Everything there is: by place its files; and what belongs to no place."""

    locations: Mapping[CleanupLocation, Sequence[ObjectInfo]]
    unknown_files: tuple[str, ...]

    @property
    def table_files(self) -> Iterator[str]:
        """The keys of all files of tables."""
        return (
            info.key for place, files in self.locations.items() if place.rule is CleanupRule.TABLE for info in files
        )

    @property
    def version_times(self) -> dict[tuple[str, int], datetime]:
        """When each version of a manifest or a table was made."""
        return {
            (place.path, _parse_version_number(info.key)): info.modified
            for place, files in self.locations.items()
            for info in files
            if info.key.endswith(".manifest")
        }


def _parse_version_number(key: str) -> int:
    """The number of a version, ordinary or detached, by the name of its file."""
    name = key.rpartition("/")[2].removesuffix(".manifest")
    return int(name[1:]) if name.startswith("d") and name[1:].isdigit() else parse_version_number(key)


def list_graph(store: GraphStorage) -> GraphListing:
    """List the whole graph, by one request for each room (and page)."""
    places: dict[CleanupLocation, list[ObjectInfo]] = {}
    strangers = [name for name in store.objects.list_children() if name not in TOP_LEVEL]
    for room, rule, depth in (
        (NODES, CleanupRule.TABLE, 2),
        (EDGES, CleanupRule.TABLE, 2),
        (MANIFEST, CleanupRule.LINE, 1),
        (BRANCHES, CleanupRule.LINE, 2),
        (AUDIT, CleanupRule.LINE, 1),
        (DERIVED, CleanupRule.DERIVED, 1),
    ):
        for info in store.objects.list_under(room):
            parts = info.key.split("/")
            if len(parts) > depth:
                places.setdefault(CleanupLocation("/".join(parts[:depth]), rule), []).append(info)
            else:
                strangers.append(info.key)
    return GraphListing(places, tuple(strangers))


# --- who is at work --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OperationFiles:
    """What operations in flight name, and dead ones until recovery has seen to them: files, and drafts of branches."""

    sidecars: tuple[Sidecar, ...]
    files: frozenset[str]

    def __contains__(self, key: str) -> bool:
        """Whether a file is spared for somebody's sake."""
        drafts = (one.manifest_path for one in self.sidecars if one.manifest_path != MANIFEST)
        return key in self.files or any(key.startswith(f"{path}/") for path in drafts)


def find_operation_files(store: GraphStorage) -> OperationFiles:
    """What all sidecars and notes name now. One that can't be read spares every file whose name stands in it."""
    found, broken = list_sidecars(store)
    files = {file for one in found for file in one.sidecar.files}
    files |= find_noted_files(store)
    for one in broken:
        try:
            text = store.objects.get(one.key).data.decode(errors="replace")
        except (ObjectMissingError, ForeignFileError):
            continue
        files.update(_TABLE_FILE.findall(text))
    return OperationFiles(tuple(one.sidecar for one in found), frozenset(files))


# --- what can go -----------------------------------------------------------------------------------


@dataclass
class FileSorter:
    """Sorts the files of places. Versions never change, so what each is made of is read once."""

    session: Session
    now: datetime
    grace: timedelta
    versions_read: int = 0
    unknown_files: set[str] = field(default_factory=set)
    _parts_cache: dict[tuple[str, int], PinnedFiles] = field(default_factory=dict)
    _checksum_lists: tuple[AllHistories, Mapping[str, Collection[str]]] | None = None

    @property
    def before(self) -> datetime:
        """Only what is older can go."""
        return self.now - self.grace

    @property
    def _min_grace(self) -> timedelta:
        """How long what manifests are made of stays: writers that sleep for less don't look whether it is there."""
        return max(self.grace, MIN_GRACE)

    def sort(
        self,
        place: CleanupLocation,
        files: Sequence[ObjectInfo],
        journals: AllHistories,
        versions: Mapping[str, Collection[int]],
        named: OperationFiles,
    ) -> TableGarbage:
        """What of a table or a manifest can go, when these versions of tables are needed.

        Raises:
            PinUnreadableError, UnknownPartError: It can't be told what some needed version is made of.
        """
        rules = SweepRules(before=self.before, is_named=named.__contains__)
        if place.rule is CleanupRule.TABLE:
            lists = self._find_lists(journals).get(place.path, ())
            found = self._sort_table(place, files, versions.get(place.path, ()), rules, lists)
        else:
            found = self._sort_line(place, files, journals, rules)
        self.unknown_files.update(info.key for info in found.unknown_files)
        return found

    def find_table_key(self, place: CleanupLocation, journals: AllHistories) -> str:
        """The name of a place that people know: a table's key, or the path of what has none."""
        for line in reversed(journals.live_histories):
            for key, record in line.head.snapshot.manifest.tables.items():
                if record.path == place.path:
                    return key
            if line.path == place.path:
                return f"branch:{line.log.branch}"
        return place.path

    def _find_lists(self, journals: AllHistories) -> Mapping[str, Collection[str]]:
        """Return by table the lists of checksums that kept states name; looked up once for all tables."""
        if self._checksum_lists is None or self._checksum_lists[0] is not journals:
            self._checksum_lists = (journals, journals.find_checksum_lists())
        return self._checksum_lists[1]

    def _sort_table(
        self,
        place: CleanupLocation,
        files: Sequence[ObjectInfo],
        wanted: Collection[int],
        rules: SweepRules,
        lists: Collection[str],
    ) -> TableGarbage:
        parts = [(info, classify_file(info.key.removeprefix(f"{place.path}/"))) for info in files]
        if not any(info.modified < self.before for info, part in parts if part in {FileKind.VERSION, FileKind.CONTENT}):
            needed = PinnedFiles()  # all of it is young: nothing needs to be read
        else:
            heads = {parse_version_number(info.key) for info, part in parts if part is FileKind.HEAD}
            foreign = [number for number in heads if number > 1]  # the first one is empty
            needed = self._find_needed_files(place.path, [*wanted, *foreign])
            needed |= PinnedFiles(frozenset(build_list_key(place.path, name) for name in lists))
        return find_table_garbage(place.path, files, needed, rules)

    def _sort_line(
        self, place: CleanupLocation, files: Sequence[ObjectInfo], journals: AllHistories, rules: SweepRules
    ) -> TableGarbage:
        """Of a manifest that is looked into: all but the newest states, and the names of some older ones as a fence.

        Of another one: everything, when all of it is old.
        """
        is_needed = place.path in journals.histories or place.path == AUDIT
        if not is_needed:
            is_dead = is_older(files, self.now - self._min_grace)
            return find_manifest_garbage(place.path, files if is_dead else (), PinnedFiles(), rules)
        if not any(info.modified < self.before for info in files):
            return find_manifest_garbage(place.path, (), PinnedFiles(), rules)
        made = {parse_version_number(info.key): info for info in files if info.key.endswith(".manifest")}
        numbers = sorted(made, reverse=True)
        fence = numbers[: max(self.session.handles.store.runtime.options.manifest_versions, 1)]
        young = [place for place, one in enumerate(numbers) if made[one].modified >= self.now - self._min_grace]
        # Those that were current within the grace: the newest of the others was when that began.
        whole = numbers[: max(min(MIN_WHOLE_VERSIONS, len(fence)), max(young, default=-1) + 2)]
        needed = self._find_needed_files(place.path, whole, may_be_missing=whole[1:])
        spared = {*(made[one].key for one in fence), *_iter_key_runs(place.path, journals)}
        return find_manifest_garbage(place.path, files, needed | PinnedFiles(frozenset(spared)), rules)

    def _find_needed_files(self, path: str, versions: Iterable[int], may_be_missing: Iterable[int] = ()) -> PinnedFiles:
        """The files of several versions. Those that `may_be_missing` are missing when somebody else has just trimmed them."""
        files: set[str] = set()
        directories: set[str] = set()
        passing = set(may_be_missing)
        for version in versions:
            parts = self._parts_cache.get((path, version))
            if parts is None:
                try:
                    parts = list_pinned_files(self.session.handles, path, [version])
                except PinUnreadableError:
                    is_there = (
                        self.session.handles.store.objects.stat(f"{path}/{format_version_name(version)}") is not None
                    )
                    if is_there or version not in passing:
                        raise
                    continue
                self.versions_read += 1
                self._parts_cache[path, version] = parts
            files |= parts.files
            directories |= parts.directories
        return PinnedFiles(frozenset(files), frozenset(directories))


def _iter_key_runs(path: str, journals: AllHistories) -> Iterator[str]:
    """Name the objects with idempotency keys that a manifest refers to."""
    line = journals.histories.get(path)
    for run in () if line is None else line.head.snapshot.manifest.key_runs:
        yield f"{path}/{run.name}"
