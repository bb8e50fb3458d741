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

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from omnigraph.clock import instant_text
from omnigraph.commit.commit_references import (
    find_lost,
    find_marks,
    find_merge_marks,
    find_operation_marks,
    refuse_lost,
)
from omnigraph.commit.conflict import ConflictError
from omnigraph.commit.gc_plan import MOST_PLANS, Journals, gathered, publish_floor
from omnigraph.commit.gc_retention import Floors, Policy, Times
from omnigraph.commit.manifest_check import look_at
from omnigraph.commit.sidecar import store_now
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.ops.argument_checks import BadArgumentError, check_count, check_duration
from omnigraph.ops.cleanup_derived import DerivedSorter
from omnigraph.ops.cleanup_files import (
    DERIVED_PLACE,
    Ground,
    Listing,
    Named,
    Place,
    Rule,
    list_graph,
    named_by_operations,
)
from omnigraph.ops.open import heal
from omnigraph.ops.session import Session
from omnigraph.policy import Action
from omnigraph.storage.garbage_files import Sorted, remove, remove_unplaced
from omnigraph.storage.layout import AUDIT, BRANCHES, DERIVED, MANIFEST, RECOVERY
from omnigraph.storage.object_store import ObjectInfo, StoreFullError
from omnigraph.telemetry import log

GRACE = timedelta(days=1)
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
    grace: timedelta = GRACE
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
    _check(call)
    if not call.is_confirmed:
        return _Cleanup(session, call).run()
    session.check_writable()
    heal(session, session.branches.main.latest())
    try:
        return _Cleanup(session, call).run()
    finally:
        session.store.keep_reserve()


def _store_time(session: Session) -> datetime:
    """Return the time by the store's clock; where nothing can be written, one that it is past already."""
    store = session.store
    if session.is_read_only:
        return store.runtime.clock.now()
    try:
        return store_now(store)
    except StoreFullError:
        return max(info.modified for info in store.objects.list_under(MANIFEST))


LONGEST = timedelta(days=36_500)
"""Nothing is older than that."""


def _check(call: CleanupCall) -> None:
    if call.keep is None and call.older_than is None:
        raise BadArgumentError("keep", "None", "say how many commits of each branch to keep, or give `older_than`")
    check_count("keep", call.keep, least=1)
    check_duration("older_than", call.older_than, LONGEST)
    check_duration("grace", call.grace, LONGEST)


class _Cleanup:
    """One run."""

    def __init__(self, session: Session, call: CleanupCall) -> None:
        self._session, self._call, self._faults = session, call, session.runtime.faults
        now = _store_time(session)
        self._before = now - call.grace
        window = max(call.older_than or timedelta(), call.grace)
        self._policy = Policy(commits=call.keep or 1, since=now - window)
        self._floors: Floors = {}
        """By journal, what earlier cleanups had left when this one began."""
        self._ground = Ground(session, now, call.grace)
        self._derived = DerivedSorter(session.store)
        self._removed: set[str] = set()
        """The names of all files of tables that this run has removed."""
        self._floored: set[str] = set()
        """The journals on which this run has published its floor."""
        self._early: dict[Place, SweptTable] = {}
        """What was removed before the floor, because there was no room for that."""

    def run(self) -> CleanupResult:
        """Plan; and unless it is a preview, or there is nothing to do: floor, mark, sweep."""
        listing = list_graph(self._session.store)
        self._session.go_on()
        journals = self._gathered(listing.times)
        self._refuse_rolled_back(listing, journals)
        found = self._sorted(listing, journals)
        self._faults.reach("cleanup.listed")
        if not self._call.is_confirmed:
            return self._result(journals, listing, {place: _swept(place, one) for place, one in found.items()}, None)
        self._remove_unplaced()
        if not any(isinstance(one, Sorted) and one.garbage for one in found.values()):
            failed = {place: _swept(place, one) for place, one in found.items() if not isinstance(one, Sorted)}
            return self._result(journals, listing, failed, None)
        try:
            epoch, journals = self._publish(listing.times, journals)
        except StoreFullError as error:
            log.warning("room is made for cleanup: %s", error)
            self._make_room(found, journals)
            epoch, journals = self._publish(listing.times, journals)
        later = self._gathered(listing.times)
        plans = {path: journals.plans.get(path, plan) for path, plan in later.plans.items()}
        later = Journals(later.main, {**journals.lines, **later.lines}, {**journals.plans, **plans}, later.kept)
        versions, named = later.versions(), named_by_operations(self._session.store)
        self._faults.reach("cleanup.marked")
        return self._result(journals, listing, self._sweep(found, later, versions, named), epoch)

    def _refuse_rolled_back(self, listing: Listing, journals: Journals) -> None:
        """Check that no manifest has lost commits that others name: what those commits need looks like garbage.

        Raises:
            ManifestRolledBackError: One has.
        """
        store = self._session.store
        marks = list(find_operation_marks(named_by_operations(store).sidecars))
        for line in journals.lines.values():
            marks += find_marks(line.head.snapshot.manifest)
            marks += find_merge_marks(line.known_commits)
        for path in (place.path for place in listing.places if place.path.startswith(f"{BRANCHES}/")):
            look = None if path in journals.lines else look_at(store, path, path)
            if look is not None and look.head is not None:
                marks += find_marks(look.head.snapshot.manifest, f"the manifest `{path}`, which no branch has,")
        refuse_lost(find_lost(store, marks, {path: line.own for path, line in journals.lines.items()}))

    def _remove_unplaced(self) -> None:
        """Remove files that were to become objects, and whose writers died.

        A control object is needed by its writer, and there is no hurry. What is derived holds data, and its writer can
        do without it: it goes as everything else does.
        """
        old = self._ground.now - max(self._call.grace, GRACE)
        removed = remove_unplaced(self._session.store, RECOVERY, old)
        removed += remove_unplaced(self._session.store, DERIVED, self._before)
        if removed:
            log.info("%s files are gone that writers had left below %s and %s", removed, RECOVERY, DERIVED)

    def _gathered(self, times: Times) -> Journals:
        """All journals as they are now. What an earlier cleanup collected stays so; what this one says may change."""
        session = self._session
        sidecars = named_by_operations(session.store).sidecars
        main = session.branches.main.latest()
        found = gathered(session.branches, main, sidecars, self._policy, times, self._floors)
        for path, line in found.lines.items():
            self._floors.setdefault(path, line.head.snapshot.manifest.floor)
        return found

    def _sorted(self, listing: Listing, journals: Journals) -> dict[Place, Sorted | OmnigraphError]:
        """By place, what is garbage now; or why that can't be told."""
        versions, named = journals.versions(), named_by_operations(self._session.store)
        found = {
            place: self._judged(place, files, journals, versions, named)
            for place, files in listing.places.items()
            if place.rule is not Rule.DERIVED
        }
        going = {info.key for one in found.values() if isinstance(one, Sorted) for info in one.garbage}
        left = {_name(key) for key in listing.table_files if key not in going}
        found[DERIVED_PLACE] = self._judge_derived(listing.places.get(DERIVED_PLACE, ()), left)
        return found

    def _judge_derived(self, objects: Iterable[ObjectInfo], left: Collection[str]) -> Sorted | OmnigraphError:
        try:
            found = self._derived.sort(objects, left.__contains__)
        except OmnigraphError as error:
            log.warning("%s is not cleaned up: %s", DERIVED, error)
            return error
        self._ground.strangers.update(info.key for info in found.strangers)
        return found

    def _judged(
        self,
        place: Place,
        files: Iterable[ObjectInfo],
        journals: Journals,
        versions: Mapping[str, Collection[int]],
        named: Named,
    ) -> Sorted | OmnigraphError:
        self._session.go_on()
        try:
            return self._ground.sort(place, list(files), journals, versions, named)
        except OmnigraphError as error:
            log.warning("%s is not cleaned up: %s", place.path, error)
            return error

    # --- floor -------------------------------------------------------------------------------------

    def _publish(self, times: Times, journals: Journals) -> tuple[int, Journals]:
        """Let every journal say what goes, main's last; planned again while branches or tags come and go."""
        epoch = journals.epoch + 1
        ours = self._floored
        for _ in range(MOST_PLANS):
            for line in journals.told:
                is_done = publish_floor(line, journals, epoch, instant_text(self._before), is_ours=line.path in ours)
                if not is_done:
                    break
                ours.add(line.path)
                if line.path == MANIFEST:
                    self._faults.reach("cleanup.floor")
                else:
                    self._faults.reach("cleanup.floored")
            else:
                return epoch, journals
            journals = self._gathered(times)
        raise ConflictError("branches", "to stay as they are", "others", "branches and tags kept coming and going")

    def _make_room(self, found: Mapping[Place, Sorted | OmnigraphError], journals: Journals) -> None:
        """Remove what no writer stands on, whatever it has seen: then there may be room for the floor.

        Of a manifest that is in use, what every publisher may trim; of what readers derived, everything.
        """
        named = named_by_operations(self._session.store)
        for place, before in found.items():
            is_in_use = place.path in journals.lines or place.path == AUDIT
            if isinstance(before, Sorted) and place.rule is Rule.LINE and is_in_use:
                self._early[place] = self._swept_place(place, before, journals, {}, named)
        derived = self._derived.sort(self._session.store.objects.list_under(DERIVED), lambda _: False)
        remove(self._session.store, derived.garbage, lambda _: self._session.go_on())
        self._early[DERIVED_PLACE] = _swept(DERIVED_PLACE, derived)
        self._session.store.release_reserve()

    # --- sweep -------------------------------------------------------------------------------------

    def _sweep(
        self,
        found: Mapping[Place, Sorted | OmnigraphError],
        journals: Journals,
        versions: Mapping[str, Collection[int]],
        named: Named,
    ) -> dict[Place, SweptTable]:
        swept: dict[Place, SweptTable] = {}
        total = 0
        for number, (place, before) in enumerate(found.items(), start=1):
            if isinstance(before, OmnigraphError):
                swept[place] = _swept(place, before)
            elif before.garbage or place.rule is Rule.DERIVED:
                swept[place] = self._swept_place(place, before, journals, versions, named)
            else:
                continue
            if place in self._early:
                swept[place] = _joined(self._early[place], swept[place])
            total += swept[place].bytes_removed
            self._faults.reach("cleanup.swept")
            if self._call.progress is not None:
                table_key = self._ground.table_key(place, journals)
                self._call.progress(
                    CleanupProgress(table_key=table_key, done=number, total=len(found), bytes_removed=total)
                )
        return swept

    def _swept_place(
        self, place: Place, before: Sorted, journals: Journals, versions: Mapping[str, Collection[int]], named: Named
    ) -> SweptTable:
        """Remove what is garbage still, by a new listing and by what is kept now."""
        gone: list[ObjectInfo] = []
        error: OmnigraphError | None = None

        def told(one: ObjectInfo) -> None:
            gone.append(one)
            if place.rule is Rule.TABLE:
                self._removed.add(_name(one.key))
            self._session.go_on()

        try:
            self._session.go_on()
            files = self._session.store.objects.list_under(place.path)
            if place.rule is Rule.DERIVED:
                # A reader of an older state may have written one since the plan: it goes, too.
                now = self._derived.sort(files, lambda name: name not in self._removed)
                garbage = {*before.still(files).garbage, *now.garbage}
                remove(self._session.store, sorted(garbage, key=lambda info: info.key), told)
            else:
                now = self._ground.sort(place, files, journals, versions, named)
                remove(self._session.store, before.still(now.garbage).garbage, told)
        except OmnigraphError as failure:
            if failure.kind is Kind.EXHAUSTED:  # nobody waits for the rest: that is not this table's fault
                raise
            log.warning("%s was not cleaned up: %s", place.path, failure)
            error = failure
        done = _swept(place, Sorted(tuple(gone)))
        return done if error is None else replace(done, error=str(error))

    # --- report ------------------------------------------------------------------------------------

    def _result(
        self, journals: Journals, listing: Listing, swept: Mapping[Place, SweptTable], epoch: int | None
    ) -> CleanupResult:
        tables = [
            replace(one, table_key=self._ground.table_key(place, journals))
            for place, one in swept.items()
            if one.files_removed or one.error is not None
        ]
        branches = [
            SweptBranch(
                branch=line.log.branch,
                commits_kept=len(journals.kept.get(line.path, ())),
                commits_collected=journals.collected(line),
            )
            for line in reversed(journals.live)
        ]
        return CleanupResult(
            is_preview=not self._call.is_confirmed,
            before=instant_text(self._before),
            epoch=epoch,
            branches=tuple(branches),
            tables=tuple(tables),
            unknown_files=tuple(sorted({*listing.strangers, *self._ground.strangers})),
            versions_read=self._ground.versions_read,
        )


def _name(key: str) -> str:
    """Return the last part of a key: names of data files are unique for ever."""
    return key.rpartition("/")[2]


def _joined(early: SweptTable, late: SweptTable) -> SweptTable:
    """Return what was removed of a place in two steps."""
    return replace(
        late,
        files_removed=early.files_removed + late.files_removed,
        bytes_removed=early.bytes_removed + late.bytes_removed,
        old_versions_removed=early.old_versions_removed + late.old_versions_removed,
    )


def _swept(place: Place, found: Sorted | OmnigraphError) -> SweptTable:
    if isinstance(found, OmnigraphError):
        return SweptTable(table_key=place.path, location=place.path, error=str(found))
    return SweptTable(
        table_key=place.path,
        location=place.path,
        files_removed=len(found.garbage),
        bytes_removed=found.nbytes,
        old_versions_removed=found.versions,
    )
