"""Clean up: collect what no kept commit needs any more. The only verb that removes files of tables.

    plan     which commits are kept; everything is listed, and sorted into needed and garbage
    floor    every branch is told what goes, main last: from here on nobody can build on it
    mark     the kept commits again, with all that came since: what they need
    sweep    what was garbage before the floor and is behind it, is old, and is named by nobody at work; last of all
             what was derived from any of it

The floor takes some room. On a disk that is full, first goes what nobody has to be told of: what readers derived, old
versions of manifests, and the reserve, a file that is kept for this.

Each table is swept by itself, and one that fails does not keep the others from it. A run that dies anywhere leaves a
graph that can be read; the next run goes on.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from omnigraph.clock import format_instant
from omnigraph.commit.commit_references import (
    find_lost,
    find_merge_references,
    find_operation_references,
    find_references,
    refuse_lost,
)
from omnigraph.commit.conflict import ConflictError
from omnigraph.commit.gc_plan import MAX_PLANS, AllHistories, gather_histories, publish_horizon
from omnigraph.commit.gc_retention import Horizons, RetentionPolicy, Times
from omnigraph.commit.manifest_check import inspect_manifest
from omnigraph.commit.sidecar import read_store_clock
from omnigraph.engine.tables.derived_format import read_files
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.ops.argument_checks import BadArgumentError, check_count, check_duration
from omnigraph.ops.cleanup_files import (
    DERIVED_LOCATION,
    CleanupLocation,
    CleanupRule,
    FileSorter,
    GraphListing,
    OperationFiles,
    find_operation_files,
    list_graph,
)
from omnigraph.ops.open import heal
from omnigraph.ops.session import Session
from omnigraph.policy import Action
from omnigraph.storage.garbage_files import TableGarbage, remove_garbage, remove_temporary_files
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.layout import AUDIT, BRANCHES, DERIVED, MANIFEST, RECOVERY
from omnigraph.storage.object_store import ObjectInfo, ObjectMissingError, StoreFullError
from omnigraph.telemetry import log

_NAME = re.compile(rf"{DERIVED}/(?:topology|words)-[0-9a-f]{{16}}")
"""The names that this software gives; objects of other names are reported, and left alone."""


class DerivedSorter:
    """Sorts objects below `_derived`. What each was derived from is read once."""

    def __init__(self, store: GraphStorage) -> None:
        self._store = store
        self._source_cache: dict[ObjectInfo, frozenset[str] | None] = {}

    def sort(self, objects: Iterable[ObjectInfo], is_left: Callable[[str], bool]) -> TableGarbage:
        """Sort objects, where `is_left` tells by its name whether a data file stays.

        One that can't be read, or does not say what it was derived from, is of no use and goes.
        """
        garbage: list[ObjectInfo] = []
        strangers: list[ObjectInfo] = []
        for info in objects:
            if not _NAME.fullmatch(info.key):
                strangers.append(info)
                continue
            files = self._find_source_files(info)
            if files is None or not all(map(is_left, files)):
                garbage.append(info)
        return TableGarbage(tuple(garbage), tuple(strangers))

    def _find_source_files(self, info: ObjectInfo) -> frozenset[str] | None:
        if info not in self._source_cache:
            self._source_cache[info] = self._read(info)
        return self._source_cache[info]

    def _read(self, info: ObjectInfo) -> frozenset[str] | None:
        if not info.size:
            return None
        try:
            return read_files(lambda size: self._store.objects.get_start(info.key, size))
        except ObjectMissingError:  # a reader has just found it damaged, or another cleanup has removed it
            return None


DEFAULT_GRACE = timedelta(days=1)
"""How long what is not needed any more stays, for those who are still at it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupProgress:
    """How far it is: the table that was done last, and how many of how many are."""

    table_key: str
    done: int
    total: int
    bytes_removed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupCall:
    """What to keep: so many commits of each branch, all that were current within a time, or both."""

    keep: int | None = None
    older_than: timedelta | None = None
    grace: timedelta = DEFAULT_GRACE
    is_confirmed: bool = False
    progress: Callable[[CleanupProgress], None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SweptBranch:
    """What becomes of a branch's own commits."""

    branch: str
    commits_kept: int
    commits_collected: int

    def to_json(self) -> dict[str, object]:
        """What every door shows."""
        return {
            "branch": self.branch,
            "commits_kept": self.commits_kept,
            "commits_collected": self.commits_collected,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SweptTable:
    """What was removed of a table, or of a manifest; in a preview, what would be."""

    table_key: str
    location: str
    files_removed: int = 0
    bytes_removed: int = 0
    old_versions_removed: int = 0
    error: str | None = None

    def to_json(self) -> dict[str, object]:
        """What every door shows."""
        return {
            "table_key": self.table_key,
            "location": self.location,
            "files_removed": self.files_removed,
            "bytes_removed": self.bytes_removed,
            "old_versions_removed": self.old_versions_removed,
            "error": self.error,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupResult:
    """What was kept and removed. A preview says what would be, and has changed nothing."""

    is_preview: bool
    before: str
    """Only files older than this were looked at, by the store's clock."""
    epoch: int | None
    """The number of this cleanup; None when nothing was removed."""
    branches: tuple[SweptBranch, ...]
    tables: tuple[SweptTable, ...]
    """Every table and manifest of which something goes, or that could not be cleaned up."""
    unknown_files: tuple[str, ...]
    """Files that are nothing of a graph's; they are left alone."""
    versions_read: int

    @property
    def bytes_removed(self) -> int:
        """All bytes that went."""
        return sum(one.bytes_removed for one in self.tables)

    @property
    def has_failed(self) -> bool:
        """Whether some table could not be cleaned up; the others were."""
        return any(one.error is not None for one in self.tables)

    def to_json(self) -> dict[str, object]:
        """What every door shows."""
        return {
            "preview": self.is_preview,
            "before": self.before,
            "epoch": self.epoch,
            "bytes_removed": self.bytes_removed,
            "branches": [one.to_json() for one in self.branches],
            "tables": [one.to_json() for one in self.tables],
            "unknown_files": list(self.unknown_files),
            "versions_read": self.versions_read,
        }


def cleanup(session: Session, call: CleanupCall) -> CleanupResult:
    """Collect what is not kept, or say what that would be.

    Raises:
        BadArgumentError: Neither a number nor a time is given, or one that makes no sense.
        ConflictError: Another cleanup is at work, or branches and tags kept coming and going.
        ManifestRolledBackError: A manifest has lost commits that something else names.
        StoreFullError: The disk is full, and even what can go at once makes too little room.
    """
    session.allow_on_graph(Action.MAINTAIN)
    _check_call(call)
    if not call.is_confirmed:
        return _Cleanup(session, call).run()
    session.check_writable()
    heal(session, session.branches.main.head())
    try:
        return _Cleanup(session, call).run()
    finally:
        session.store.keep_reserve()


def _read_store_time(session: Session) -> datetime:
    """Return the time by the store's clock; where nothing can be written, one that it is past already."""
    store = session.store
    if session.is_read_only:
        return store.runtime.clock.now()
    try:
        return read_store_clock(store)
    except StoreFullError:
        return max(info.modified for info in store.objects.list_under(MANIFEST))


MAX_DURATION = timedelta(days=36_500)
"""Nothing is older than that."""


def _check_call(call: CleanupCall) -> None:
    if call.keep is None and call.older_than is None:
        raise BadArgumentError("keep", "None", "say how many commits of each branch to keep, or give `older_than`")
    check_count("keep", call.keep, minimum=1)
    check_duration("older_than", call.older_than, MAX_DURATION)
    check_duration("grace", call.grace, MAX_DURATION)


class _Cleanup:
    """One run."""

    def __init__(self, session: Session, call: CleanupCall) -> None:
        self._session, self._call, self._faults = session, call, session.runtime.faults
        now = _read_store_time(session)
        self._before = now - call.grace
        window = max(call.older_than or timedelta(), call.grace)
        self._policy = RetentionPolicy(commits=call.keep or 1, since=now - window)
        self._horizons: Horizons = {}
        """By journal, what earlier cleanups had left when this one began."""
        self._sorter = FileSorter(session, now, call.grace)
        self._derived_sorter = DerivedSorter(session.store)
        self._removed: set[str] = set()
        """The names of all files of tables that this run has removed."""
        self._published_paths: set[str] = set()
        """The journals on which this run has published its floor."""
        self._swept_early: dict[CleanupLocation, SweptTable] = {}
        """What was removed before the floor, because there was no room for that."""

    def run(self) -> CleanupResult:
        """Plan; and unless it is a preview, or there is nothing to do: floor, mark, sweep."""
        listing = list_graph(self._session.store)
        self._session.check_cancelled()
        journals = self._read_histories(listing.version_times)
        self._refuse_rolled_back(listing, journals)
        found = self._sort_files(listing, journals)
        self._faults.reach("cleanup.listed")
        if not self._call.is_confirmed:
            return self._build_result(
                journals, listing, {place: _build_swept_table(place, one) for place, one in found.items()}, None
            )
        self._remove_unplaced()
        if not any(isinstance(one, TableGarbage) and one.garbage for one in found.values()):
            failed = {
                place: _build_swept_table(place, one)
                for place, one in found.items()
                if not isinstance(one, TableGarbage)
            }
            return self._build_result(journals, listing, failed, None)
        try:
            epoch, journals = self._publish_horizon(listing.version_times, journals)
        except StoreFullError as error:
            log.warning("room is made for cleanup: %s", error)
            self._make_room(found, journals)
            epoch, journals = self._publish_horizon(listing.version_times, journals)
        later = self._read_histories(listing.version_times)
        plans = {path: journals.plans.get(path, plan) for path, plan in later.plans.items()}
        later = AllHistories(
            later.main, {**journals.histories, **later.histories}, {**journals.plans, **plans}, later.retained_seqs
        )
        versions, named = later.find_versions(), find_operation_files(self._session.store)
        self._faults.reach("cleanup.marked")
        return self._build_result(journals, listing, self._sweep(found, later, versions, named), epoch)

    def _refuse_rolled_back(self, listing: GraphListing, journals: AllHistories) -> None:
        """Check that no manifest has lost commits that others name: what those commits need looks like garbage.

        Raises:
            ManifestRolledBackError: One has.
        """
        store = self._session.store
        marks = list(find_operation_references(find_operation_files(store).sidecars))
        for line in journals.histories.values():
            marks += find_references(line.head.snapshot.manifest)
            marks += find_merge_references(line.known_commits)
        for path in (place.path for place in listing.locations if place.path.startswith(f"{BRANCHES}/")):
            look = None if path in journals.histories else inspect_manifest(store, path, path)
            if look is not None and look.head is not None:
                marks += find_references(look.head.snapshot.manifest, f"the manifest `{path}`, which no branch has,")
        refuse_lost(find_lost(store, marks, {path: line.iter_own for path, line in journals.histories.items()}))

    def _remove_unplaced(self) -> None:
        """Remove files that were to become objects, and whose writers died.

        A control object is needed by its writer, and there is no hurry. What is derived holds data, and its writer can
        do without it: it goes as everything else does.
        """
        old = self._sorter.now - max(self._call.grace, DEFAULT_GRACE)
        removed = remove_temporary_files(self._session.store, RECOVERY, old)
        removed += remove_temporary_files(self._session.store, DERIVED, self._before)
        if removed:
            log.info("%s files are gone that writers had left below %s and %s", removed, RECOVERY, DERIVED)

    def _read_histories(self, times: Times) -> AllHistories:
        """All journals as they are now. What an earlier cleanup collected stays so; what this one says may change."""
        session = self._session
        sidecars = find_operation_files(session.store).sidecars
        main = session.branches.main.head()
        found = gather_histories(session.branches, main, sidecars, self._policy, times, self._horizons)
        for path, line in found.histories.items():
            self._horizons.setdefault(path, line.head.snapshot.manifest.gc_horizon)
        return found

    def _sort_files(
        self, listing: GraphListing, journals: AllHistories
    ) -> dict[CleanupLocation, TableGarbage | OmnigraphError]:
        """By place, what is garbage now; or why that can't be told."""
        versions, named = journals.find_versions(), find_operation_files(self._session.store)
        found = {
            place: self._sort_location(place, files, journals, versions, named)
            for place, files in listing.locations.items()
            if place.rule is not CleanupRule.DERIVED
        }
        going = {info.key for one in found.values() if isinstance(one, TableGarbage) for info in one.garbage}
        left = {_get_file_name(key) for key in listing.table_files if key not in going}
        found[DERIVED_LOCATION] = self._sort_derived(listing.locations.get(DERIVED_LOCATION, ()), left)
        return found

    def _sort_derived(self, objects: Iterable[ObjectInfo], left: Collection[str]) -> TableGarbage | OmnigraphError:
        try:
            found = self._derived_sorter.sort(objects, left.__contains__)
        except OmnigraphError as error:
            log.warning("%s is not cleaned up: %s", DERIVED, error)
            return error
        self._sorter.unknown_files.update(info.key for info in found.unknown_files)
        return found

    def _sort_location(
        self,
        place: CleanupLocation,
        files: Iterable[ObjectInfo],
        journals: AllHistories,
        versions: Mapping[str, Collection[int]],
        named: OperationFiles,
    ) -> TableGarbage | OmnigraphError:
        self._session.check_cancelled()
        try:
            return self._sorter.sort(place, list(files), journals, versions, named)
        except OmnigraphError as error:
            log.warning("%s is not cleaned up: %s", place.path, error)
            return error

    # --- floor -------------------------------------------------------------------------------------

    def _publish_horizon(self, times: Times, journals: AllHistories) -> tuple[int, AllHistories]:
        """Let every journal say what goes, main's last; planned again while branches or tags come and go."""
        epoch = journals.epoch + 1
        ours = self._published_paths
        for _ in range(MAX_PLANS):
            for line in journals.publish_order:
                is_done = publish_horizon(
                    line, journals, epoch, format_instant(self._before), is_ours=line.path in ours
                )
                if not is_done:
                    break
                ours.add(line.path)
                if line.path == MANIFEST:
                    self._faults.reach("cleanup.floor")
                else:
                    self._faults.reach("cleanup.floored")
            else:
                return epoch, journals
            journals = self._read_histories(times)
        raise ConflictError("branches", "to stay as they are", "others", "branches and tags kept coming and going")

    def _make_room(
        self, found: Mapping[CleanupLocation, TableGarbage | OmnigraphError], journals: AllHistories
    ) -> None:
        """Remove what no writer stands on, whatever it has seen: then there may be room for the floor.

        Of a manifest that is in use, what every publisher may trim; of what readers derived, everything.
        """
        named = find_operation_files(self._session.store)
        for place, before in found.items():
            is_in_use = place.path in journals.histories or place.path == AUDIT
            if isinstance(before, TableGarbage) and place.rule is CleanupRule.LINE and is_in_use:
                self._swept_early[place] = self._sweep_location(place, before, journals, {}, named)
        derived = self._derived_sorter.sort(self._session.store.objects.list_under(DERIVED), lambda _: False)
        remove_garbage(self._session.store, derived.garbage, lambda _: self._session.check_cancelled())
        self._swept_early[DERIVED_LOCATION] = _build_swept_table(DERIVED_LOCATION, derived)
        self._session.store.release_reserve()

    # --- sweep -------------------------------------------------------------------------------------

    def _sweep(
        self,
        found: Mapping[CleanupLocation, TableGarbage | OmnigraphError],
        journals: AllHistories,
        versions: Mapping[str, Collection[int]],
        named: OperationFiles,
    ) -> dict[CleanupLocation, SweptTable]:
        swept: dict[CleanupLocation, SweptTable] = {}
        total = 0
        for number, (place, before) in enumerate(found.items(), start=1):
            if isinstance(before, OmnigraphError):
                swept[place] = _build_swept_table(place, before)
            elif before.garbage or place.rule is CleanupRule.DERIVED:
                swept[place] = self._sweep_location(place, before, journals, versions, named)
            else:
                continue
            if place in self._swept_early:
                swept[place] = _add_swept(self._swept_early[place], swept[place])
            total += swept[place].bytes_removed
            self._faults.reach("cleanup.swept")
            if self._call.progress is not None:
                table_key = self._sorter.find_table_key(place, journals)
                self._call.progress(
                    CleanupProgress(table_key=table_key, done=number, total=len(found), bytes_removed=total)
                )
        return swept

    def _sweep_location(
        self,
        place: CleanupLocation,
        before: TableGarbage,
        journals: AllHistories,
        versions: Mapping[str, Collection[int]],
        named: OperationFiles,
    ) -> SweptTable:
        """Remove what is garbage still, by a new listing and by what is kept now."""
        gone: list[ObjectInfo] = []
        error: OmnigraphError | None = None

        def told(one: ObjectInfo) -> None:
            gone.append(one)
            if place.rule is CleanupRule.TABLE:
                self._removed.add(_get_file_name(one.key))
            self._session.check_cancelled()

        try:
            self._session.check_cancelled()
            files = self._session.store.objects.list_under(place.path)
            if place.rule is CleanupRule.DERIVED:
                # A reader of an older state may have written one since the plan: it goes, too.
                now = self._derived_sorter.sort(files, lambda name: name not in self._removed)
                garbage = {*before.select_unchanged(files).garbage, *now.garbage}
                remove_garbage(self._session.store, sorted(garbage, key=lambda info: info.key), told)
            else:
                now = self._sorter.sort(place, files, journals, versions, named)
                remove_garbage(self._session.store, before.select_unchanged(now.garbage).garbage, told)
        except OmnigraphError as failure:
            if failure.kind is Kind.EXHAUSTED:  # nobody waits for the rest: that is not this table's fault
                raise
            log.warning("%s was not cleaned up: %s", place.path, failure)
            error = failure
        done = _build_swept_table(place, TableGarbage(tuple(gone)))
        return done if error is None else replace(done, error=str(error))

    # --- report ------------------------------------------------------------------------------------

    def _build_result(
        self,
        journals: AllHistories,
        listing: GraphListing,
        swept: Mapping[CleanupLocation, SweptTable],
        epoch: int | None,
    ) -> CleanupResult:
        tables = [
            replace(one, table_key=self._sorter.find_table_key(place, journals))
            for place, one in swept.items()
            if one.files_removed or one.error is not None
        ]
        branches = [
            SweptBranch(
                branch=line.log.branch,
                commits_kept=len(journals.retained_seqs.get(line.path, ())),
                commits_collected=journals.count_collected(line),
            )
            for line in reversed(journals.live_histories)
        ]
        return CleanupResult(
            is_preview=not self._call.is_confirmed,
            before=format_instant(self._before),
            epoch=epoch,
            branches=tuple(branches),
            tables=tuple(tables),
            unknown_files=tuple(sorted({*listing.unknown_files, *self._sorter.unknown_files})),
            versions_read=self._sorter.versions_read,
        )


def _get_file_name(key: str) -> str:
    """Return the last part of a key: names of data files are unique for ever."""
    return key.rpartition("/")[2]


def _add_swept(early: SweptTable, late: SweptTable) -> SweptTable:
    """Return what was removed of a place in two steps."""
    return replace(
        late,
        files_removed=early.files_removed + late.files_removed,
        bytes_removed=early.bytes_removed + late.bytes_removed,
        old_versions_removed=early.old_versions_removed + late.old_versions_removed,
    )


def _build_swept_table(place: CleanupLocation, found: TableGarbage | OmnigraphError) -> SweptTable:
    if isinstance(found, OmnigraphError):
        return SweptTable(table_key=place.path, location=place.path, error=str(found))
    return SweptTable(
        table_key=place.path,
        location=place.path,
        files_removed=len(found.garbage),
        bytes_removed=found.nbytes,
        old_versions_removed=found.versions,
    )
