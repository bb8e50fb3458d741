"""Garbage collection: remove the data that no kept commit needs. The only operation that removes files of tables.

    plan      choose the commits to keep, list all files, and split them into needed files and garbage
    horizon   publish the horizon on every branch, main last; from here on no writer can build on collected commits
    mark      find again what the kept commits need, including commits that were published since the plan
    sweep     remove files that are garbage by both the plan and the mark, old, and not named by an operation in
              progress; last, data that was derived from any of them

Publishing the horizon needs some disk space. On a full disk, data that no writer depends on is removed first: derived
data, old versions of manifests, and the reserve, a file that exists for this purpose.

Tables are swept independently: if one fails, the others are still swept. A run that dies leaves a graph that can be
read; the next run continues.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

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
from omnigraph.errors import BadArgumentError, Kind, OmnigraphError
from omnigraph.json_struct import JsonStruct
from omnigraph.ops.argument_checks import check_count, check_duration
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

# Names of derived objects that omnigraph writes; objects of other names are reported and left alone.
_NAME = re.compile(rf"{DERIVED}/(?:(?:keys|recall|topology)-[0-9a-f]{{16}}|text-[0-9a-f]{{16}}-[0-9a-f-]+)")
# Names of objects that earlier releases wrote, and none reads any more.
_OUTDATED_NAME = re.compile(rf"{DERIVED}/words-[0-9a-f]{{16}}")


class DerivedSorter:
    """Find the garbage among the objects below `_derived`. The source files of each object are read once."""

    def __init__(self, store: GraphStorage) -> None:
        self._store = store
        self._source_cache: dict[ObjectInfo, frozenset[str] | None] = {}

    def sort(self, objects: Iterable[ObjectInfo], is_left: Callable[[str], bool]) -> TableGarbage:
        """Return the objects that are garbage; `is_left` returns by name whether a data file stays.

        An object that can't be read, or does not state what it was derived from, is useless and therefore garbage.
        """
        garbage: list[ObjectInfo] = []
        unknown: list[ObjectInfo] = []
        for info in objects:
            if _OUTDATED_NAME.fullmatch(info.key):
                garbage.append(info)
                continue
            if not _NAME.fullmatch(info.key):
                unknown.append(info)
                continue
            files = self._find_source_files(info)
            if files is None or not all(map(is_left, files)):
                garbage.append(info)
        return TableGarbage(tuple(garbage), tuple(unknown))

    def _find_source_files(self, info: ObjectInfo) -> frozenset[str] | None:
        if info not in self._source_cache:
            self._source_cache[info] = self._read_source_files(info)
        return self._source_cache[info]

    def _read_source_files(self, info: ObjectInfo) -> frozenset[str] | None:
        if not info.size:
            return None
        try:
            return read_files(lambda size: self._store.objects.get_range(info.key, 0, size))
        # A reader has found it damaged, or another cleanup has removed it.
        except ObjectMissingError:
            return None


# Data that is no longer needed stays for this long, for reads and writes that are still in progress.
DEFAULT_GRACE = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupProgress:
    """The progress of a sweep: the table that was done last, and the number of tables done of all."""

    table_key: str
    done: int
    total: int
    bytes_removed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupCall:
    """The arguments of a cleanup: how many commits of each branch to keep, up to which age, or both."""

    keep: int | None = None
    older_than: timedelta | None = None
    grace: timedelta = DEFAULT_GRACE
    is_confirmed: bool = False
    progress: Callable[[CleanupProgress], None] | None = None


class SweptBranch(JsonStruct, frozen=True, kw_only=True):
    """The number of a branch's own commits that are kept and collected."""

    branch: str
    commits_kept: int
    commits_collected: int


class SweptTable(JsonStruct, frozen=True, kw_only=True):
    """What was removed from a table or a manifest; in a preview, what would be."""

    table_key: str
    location: str
    files_removed: int = 0
    bytes_removed: int = 0
    old_versions_removed: int = 0
    error: str | None = None


class CleanupResult(JsonStruct, frozen=True, kw_only=True):
    """The data that a cleanup kept and removed. A preview shows what would be, and has changed nothing."""

    json_keys = "preview=is_preview before epoch bytes_removed branches tables unknown_files versions_read"

    is_preview: bool
    before: str
    """Only files older than this were considered, by the store's clock."""
    epoch: int | None
    """The number of this cleanup; None when nothing was removed."""
    branches: tuple[SweptBranch, ...]
    tables: tuple[SweptTable, ...]
    """Every table and manifest that lost files, or that could not be cleaned up."""
    unknown_files: tuple[str, ...]
    """Files that are not part of the graph; they are left alone."""
    versions_read: int

    @property
    def bytes_removed(self) -> int:
        """The number of bytes that were removed."""
        return sum(table.bytes_removed for table in self.tables)

    @property
    def has_failed(self) -> bool:
        """Whether some table could not be cleaned up; the others were."""
        return any(table.error is not None for table in self.tables)


def cleanup(session: Session, call: CleanupCall) -> CleanupResult:
    """Remove the data that no kept commit needs; without confirmation, only return what would be removed.

    Raises:
        BadArgumentError: Neither `keep` nor `older_than` is set, or one is invalid.
        ConflictError: Another cleanup is running, or branches and tags kept changing.
        CorruptError: A manifest has lost commits that something else references.
        StoreFullError: The disk is full, and the data that can be removed immediately frees too little space.
    """
    session.allow_on_graph(Action.MAINTAIN)
    _check_call(call)
    if not call.is_confirmed:
        return _Cleanup(session, call).run()
    session.check_writable()
    # The sidecars of dead operations spare their files; recovery removes both.
    heal(session, session.branches.main.head())
    try:
        return _Cleanup(session, call).run()
    finally:
        session.store.keep_reserve()


def _read_store_time(session: Session) -> datetime:
    """Return the time by the store's clock, or if nothing can be written, a time that it has already passed."""
    store = session.store
    if session.is_read_only:
        return store.runtime.clock.now()
    try:
        return read_store_clock(store)
    # An earlier time is safe: it only makes files look younger.
    except StoreFullError:
        return max(info.modified for info in store.objects.list_under(MANIFEST))


# A hundred years: no data is older, and `now - MAX_DURATION` is still a valid datetime.
MAX_DURATION = timedelta(days=36_500)


def _check_call(call: CleanupCall) -> None:
    if call.keep is None and call.older_than is None:
        raise BadArgumentError("keep", "None", "specify the number of commits of each branch to keep, or `older_than`")
    check_count("keep", call.keep, minimum=1)
    check_duration("older_than", call.older_than, MAX_DURATION)
    check_duration("grace", call.grace, MAX_DURATION)


class _Cleanup:
    """One run of a cleanup."""

    def __init__(self, session: Session, call: CleanupCall) -> None:
        self._session = session
        self._call = call
        self._faults = session.runtime.faults
        now = _read_store_time(session)
        self._before = now - call.grace
        # A state that was current within the grace may still be read, so it is kept whatever the policy.
        window = max(call.older_than or timedelta(), call.grace)
        self._policy = RetentionPolicy(commits=call.keep or 1, since=now - window)
        # By journal, the horizon of earlier cleanups when this one began.
        self._horizons: Horizons = {}
        self._sorter = FileSorter(session, now, call.grace)
        self._derived_sorter = DerivedSorter(session.store)
        # The names of all files of tables that this run has removed.
        self._removed: set[str] = set()
        # The journals on which this run has published its horizon.
        self._published_paths: set[str] = set()
        # What was removed before the horizon was published, to make space for that.
        self._swept_early: dict[CleanupLocation, SweptTable] = {}

    def run(self) -> CleanupResult:
        """Plan; then, unless it is a preview or there is no garbage, publish the horizon, mark and sweep."""
        listing = list_graph(self._session.store)
        self._session.check_cancelled()
        journals = self._read_histories(listing.version_times)
        self._refuse_rolled_back(listing, journals)
        planned = self._sort_files(listing, journals)
        self._faults.reach("cleanup.listed")
        if not self._call.is_confirmed:
            preview = {location: _build_swept_table(location, outcome) for location, outcome in planned.items()}
            return self._build_result(journals, listing, preview, None)
        self._remove_unplaced()
        if not any(isinstance(outcome, TableGarbage) and outcome.garbage for outcome in planned.values()):
            failed = {
                location: _build_swept_table(location, outcome)
                for location, outcome in planned.items()
                if not isinstance(outcome, TableGarbage)
            }
            return self._build_result(journals, listing, failed, None)
        try:
            epoch, journals = self._publish_horizon(listing.version_times, journals)
        except StoreFullError as error:
            log.warning("cleanup frees disk space before it publishes its horizon: %s", error)
            self._free_space(planned, journals)
            epoch, journals = self._publish_horizon(listing.version_times, journals)
        later = self._read_histories(listing.version_times)
        # The published plan applies to the journals it covers; journals that appeared since bring their own.
        plans = {path: journals.plans.get(path, plan) for path, plan in later.plans.items()}
        later = AllHistories(
            later.main, {**journals.histories, **later.histories}, {**journals.plans, **plans}, later.retained_seqs
        )
        versions = later.find_versions()
        operation_files = find_operation_files(self._session.store)
        self._faults.reach("cleanup.marked")
        return self._build_result(journals, listing, self._sweep(planned, later, versions, operation_files), epoch)

    def _refuse_rolled_back(self, listing: GraphListing, journals: AllHistories) -> None:
        """Check that no manifest has lost commits: the data that only lost commits need looks like garbage.

        Raises:
            CorruptError: A commit that something references is missing.
        """
        store = self._session.store
        references = list(find_operation_references(find_operation_files(store).sidecars))
        for history in journals.histories.values():
            references += find_references(history.head.snapshot.manifest)
            references += find_merge_references(history.known_commits)
        # Manifests of drafts and deleted branches reference commits too.
        branch_paths = (location.path for location in listing.locations if location.path.startswith(f"{BRANCHES}/"))
        for path in branch_paths:
            if path in journals.histories:
                continue
            inspection = inspect_manifest(store, path, path)
            if inspection.head is not None:
                name = f"the manifest `{path}`, which belongs to no branch,"
                references += find_references(inspection.head.snapshot.manifest, name)
        own_commits = {path: history.iter_own for path, history in journals.histories.items()}
        refuse_lost(find_lost(store, references, own_commits))

    def _remove_unplaced(self) -> None:
        """Remove temporary files of objects whose writers died before the object was complete."""
        # A control object is small and its writer depends on it, so at least the default grace applies. A derived
        # object contains data, and its writer can do without it, so the grace of the call applies.
        old = self._sorter.now - max(self._call.grace, DEFAULT_GRACE)
        removed = remove_temporary_files(self._session.store, RECOVERY, old)
        removed += remove_temporary_files(self._session.store, DERIVED, self._before)
        if removed:
            log.info("removed %s temporary files below %s and %s", removed, RECOVERY, DERIVED)

    def _read_histories(self, times: Times) -> AllHistories:
        """Read all journals as they are now. Earlier horizons stay in force; that of this run may change."""
        session = self._session
        sidecars = find_operation_files(session.store).sidecars
        main = session.branches.main.head()
        journals = gather_histories(session.branches, main, sidecars, self._policy, times, self._horizons)
        for path, history in journals.histories.items():
            self._horizons.setdefault(path, history.head.snapshot.manifest.gc_horizon)
        return journals

    def _sort_files(
        self, listing: GraphListing, journals: AllHistories
    ) -> dict[CleanupLocation, TableGarbage | OmnigraphError]:
        """Return by location the garbage, or the error if that can't be determined."""
        versions = journals.find_versions()
        operation_files = find_operation_files(self._session.store)
        planned = {
            location: self._sort_location(location, files, journals, versions, operation_files)
            for location, files in listing.locations.items()
            if location.rule is not CleanupRule.DERIVED
        }
        sorted_out = (outcome for outcome in planned.values() if isinstance(outcome, TableGarbage))
        garbage = {info.key for outcome in sorted_out for info in outcome.garbage}
        remaining = {_get_file_name(key) for key in listing.table_files if key not in garbage}
        planned[DERIVED_LOCATION] = self._sort_derived(listing.locations.get(DERIVED_LOCATION, ()), remaining)
        return planned

    def _sort_derived(self, objects: Iterable[ObjectInfo], remaining: Collection[str]) -> TableGarbage | OmnigraphError:
        try:
            result = self._derived_sorter.sort(objects, remaining.__contains__)
        except OmnigraphError as error:
            log.warning("%s is not cleaned up: %s", DERIVED, error)
            return error
        self._sorter.unknown_files.update(info.key for info in result.unknown_files)
        return result

    def _sort_location(
        self,
        location: CleanupLocation,
        files: Iterable[ObjectInfo],
        journals: AllHistories,
        versions: Mapping[str, Collection[int]],
        operation_files: OperationFiles,
    ) -> TableGarbage | OmnigraphError:
        self._session.check_cancelled()
        try:
            return self._sorter.sort(location, list(files), journals, versions, operation_files)
        except OmnigraphError as error:
            log.warning("%s is not cleaned up: %s", location.path, error)
            return error

    # --- horizon -----------------------------------------------------------------------------------

    def _publish_horizon(self, times: Times, journals: AllHistories) -> tuple[int, AllHistories]:
        """Publish the horizon on every journal, main's last; plan again if branches or tags have changed."""
        epoch = journals.epoch + 1
        published = self._published_paths
        for _ in range(MAX_PLANS):
            for history in journals.publish_order:
                is_done = publish_horizon(
                    history, journals, epoch, format_instant(self._before), is_ours=history.path in published
                )
                if not is_done:
                    break
                published.add(history.path)
                if history.path == MANIFEST:
                    self._faults.reach("cleanup.floor")
                else:
                    self._faults.reach("cleanup.floored")
            else:
                return epoch, journals
            journals = self._read_histories(times)
        raise ConflictError("branches", "to stay unchanged", "other writers", "branches and tags kept changing")

    def _free_space(
        self, planned: Mapping[CleanupLocation, TableGarbage | OmnigraphError], journals: AllHistories
    ) -> None:
        """Remove data that no writer depends on, to make space for the horizon.

        These are old versions of manifests in use, which any publisher may trim, and all derived data.
        """
        operation_files = find_operation_files(self._session.store)
        for location, before in planned.items():
            is_in_use = location.path in journals.histories or location.path == AUDIT
            if isinstance(before, TableGarbage) and location.rule is CleanupRule.MANIFEST and is_in_use:
                self._swept_early[location] = self._sweep_location(location, before, journals, {}, operation_files)
        derived = self._derived_sorter.sort(self._session.store.objects.list_under(DERIVED), lambda _: False)
        remove_garbage(self._session.store, derived.garbage, lambda _: self._session.check_cancelled())
        self._swept_early[DERIVED_LOCATION] = _build_swept_table(DERIVED_LOCATION, derived)
        self._session.store.release_reserve()

    # --- sweep -------------------------------------------------------------------------------------

    def _sweep(
        self,
        planned: Mapping[CleanupLocation, TableGarbage | OmnigraphError],
        journals: AllHistories,
        versions: Mapping[str, Collection[int]],
        operation_files: OperationFiles,
    ) -> dict[CleanupLocation, SweptTable]:
        swept: dict[CleanupLocation, SweptTable] = {}
        total = 0
        for number, (location, before) in enumerate(planned.items(), start=1):
            if isinstance(before, OmnigraphError):
                swept[location] = _build_swept_table(location, before)
            elif before.garbage or location.rule is CleanupRule.DERIVED:
                swept[location] = self._sweep_location(location, before, journals, versions, operation_files)
            else:
                continue
            if location in self._swept_early:
                swept[location] = _add_swept(self._swept_early[location], swept[location])
            total += swept[location].bytes_removed
            self._faults.reach("cleanup.swept")
            if self._call.progress is not None:
                table_key = self._sorter.find_table_key(location, journals)
                self._call.progress(
                    CleanupProgress(table_key=table_key, done=number, total=len(planned), bytes_removed=total)
                )
        return swept

    def _sweep_location(
        self,
        location: CleanupLocation,
        before: TableGarbage,
        journals: AllHistories,
        versions: Mapping[str, Collection[int]],
        operation_files: OperationFiles,
    ) -> SweptTable:
        """Remove what is still garbage by a new listing and by what is kept now."""
        removed: list[ObjectInfo] = []
        error: OmnigraphError | None = None

        def on_removed(info: ObjectInfo) -> None:
            removed.append(info)
            if location.rule is CleanupRule.TABLE:
                self._removed.add(_get_file_name(info.key))
            self._session.check_cancelled()

        try:
            self._session.check_cancelled()
            files = self._session.store.objects.list_under(location.path)
            if location.rule is CleanupRule.DERIVED:
                # A reader of an older state may have written an object since the plan; it is garbage too.
                now = self._derived_sorter.sort(files, lambda name: name not in self._removed)
                garbage = {*before.select_unchanged(files).garbage, *now.garbage}
                remove_garbage(self._session.store, sorted(garbage, key=lambda info: info.key), on_removed)
            else:
                now = self._sorter.sort(location, files, journals, versions, operation_files)
                remove_garbage(self._session.store, before.select_unchanged(now.garbage).garbage, on_removed)
        except OmnigraphError as failure:
            # The call was cancelled or has used up its limits: no failure of this table, so it ends the run.
            if failure.kind is Kind.EXHAUSTED:
                raise
            log.warning("%s was not cleaned up: %s", location.path, failure)
            error = failure
        swept = _build_swept_table(location, TableGarbage(tuple(removed)))
        return swept if error is None else msgspec.structs.replace(swept, error=str(error))

    # --- report ------------------------------------------------------------------------------------

    def _build_result(
        self,
        journals: AllHistories,
        listing: GraphListing,
        swept: Mapping[CleanupLocation, SweptTable],
        epoch: int | None,
    ) -> CleanupResult:
        tables = [
            msgspec.structs.replace(table, table_key=self._sorter.find_table_key(location, journals))
            for location, table in swept.items()
            if table.files_removed or table.error is not None
        ]
        branches = [
            SweptBranch(
                branch=history.log.branch,
                commits_kept=len(journals.retained_seqs.get(history.path, ())),
                commits_collected=journals.count_collected(history),
            )
            for history in reversed(journals.live_histories)
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
    """Return the last part of a key; names of data files are never used twice."""
    return key.rpartition("/")[2]


def _add_swept(early: SweptTable, late: SweptTable) -> SweptTable:
    """Return the sum of what was removed from a location in two steps."""
    return msgspec.structs.replace(
        late,
        files_removed=early.files_removed + late.files_removed,
        bytes_removed=early.bytes_removed + late.bytes_removed,
        old_versions_removed=early.old_versions_removed + late.old_versions_removed,
    )


def _build_swept_table(location: CleanupLocation, outcome: TableGarbage | OmnigraphError) -> SweptTable:
    if isinstance(outcome, OmnigraphError):
        return SweptTable(table_key=location.path, location=location.path, error=str(outcome))
    return SweptTable(
        table_key=location.path,
        location=location.path,
        files_removed=len(outcome.garbage),
        bytes_removed=outcome.nbytes,
        old_versions_removed=outcome.versions,
    )
