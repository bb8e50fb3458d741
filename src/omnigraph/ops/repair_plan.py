"""What is wrong with a pinned table, and what can take its place: found by reading, decided without writing."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from omnigraph.commit.gc_horizon import build_collected_predicate
from omnigraph.commit.manifest_codec import ManifestCorruptError
from omnigraph.commit.manifest_log import Head, ManifestLog
from omnigraph.commit.manifest_types import Commit, Pin, PinChange
from omnigraph.engine.checking.index_integrity import check_lookups
from omnigraph.engine.checking.row_integrity import find_differing_columns
from omnigraph.ops.check_files import find_table_faults
from omnigraph.ops.session import Session
from omnigraph.schema.arrow import DST, ID, SRC
from omnigraph.schema.catalog import AnyType, EdgeType
from omnigraph.storage.cas_table_errors import DamagedError
from omnigraph.storage.index_staging import list_stored_indexes
from omnigraph.storage.integrity_check import (
    DecodeResults,
    FileFault,
    FileFaultKind,
    TableListing,
    find_column_faults,
    translate_damage,
)
from omnigraph.storage.lance_table import LanceTable, find_row_mismatches
from omnigraph.storage.layout import is_detached
from omnigraph.storage.salvage import count_rows, find_lost_fragments
from omnigraph.storage.verification import SMALL_BYTES
from omnigraph.storage.version_files import UnknownPartError

_GIVEN_UP = "only a version that a cleanup has given up is whole: let no cleanup run until this is repaired"


class Certainty(Enum):
    """How much is known about what a repair would lose."""

    VERIFIED = "verified"
    """Nothing: every step that is undone left all rows as they were."""
    SUSPICIOUS = "suspicious"
    """What some commits did to rows; they are listed."""
    UNVERIFIABLE = "unverifiable"
    """It can't be told: no earlier version is whole, or only one that a cleanup has given up; or the history is not."""


class Remedy(Enum):
    """What is done about a table."""

    EARLIER_VERSION = "earlier_version"
    """The newest whole version that it had before is pinned again."""
    WITHOUT_INDEXES = "without_indexes"
    """A version without the indexes that are damaged; every row stays."""
    RIGHT_COUNT = "right_count"
    """The same version, with the number of rows that it has."""
    WITHOUT_ROWS = "without_rows"
    """A version without the rows whose files can't be read; every other row stays as it is."""
    EMPTY_TABLE = "empty_table"
    """A new table without rows; the old one is left as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LostStep:
    """A commit that is undone for a table."""

    commit_id: str
    at: str
    actor: str
    operation: str
    rows_before: int
    rows_after: int
    is_content: bool
    """Whether it changed what rows say."""

    def to_json(self) -> dict[str, object]:
        """What every door shows."""
        return {
            "commit_id": self.commit_id,
            "at": self.at,
            "actor": self.actor,
            "operation": self.operation,
            "rows_before": self.rows_before,
            "rows_after": self.rows_after,
            "changed_rows": self.is_content,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRepairPlan:
    """What would be done about one table of one branch, and why."""

    pin: Pin
    remedy: Remedy
    certainty: Certainty
    reasons: tuple[str, ...]
    """What is wrong with the version that is pinned."""
    target: Pin | None = None
    """What is pinned instead; None for a table that has to be made."""
    dropped_indexes: tuple[str, ...] = ()
    """Names of indexes that `target` has and that are left out."""
    lost: tuple[LostStep, ...] = ()
    """The steps that are undone, newest first."""
    lost_rows: int = 0
    """How many rows go because their files can't be read."""
    lost_fragments: tuple[int, ...] = ()
    """The fragments of the version that is pinned which hold them."""


@dataclass(frozen=True, slots=True)
class _VersionState:
    """What reading a version has shown."""

    faults: tuple[str, ...]
    """Why its rows can't all be read; none when they can."""
    bad_indexes: Mapping[str, str]
    """Indexes that can't be used, and why."""
    rows: int


class BranchPlanner:
    """Plans for one state of a branch. Versions are read, and nothing is written."""

    def __init__(
        self,
        session: Session,
        log: ManifestLog,
        head: Head,
        listings: Mapping[str, TableListing],
        known: "VersionStateCache",
    ) -> None:
        self._session, self._log, self._head, self._listings, self._cache = session, log, head, listings, known

    def plan(self, type_: AnyType, *, is_deep: bool = False) -> TableRepairPlan | None:
        """What to do about the table of a type; None when it is whole, as far as that was looked at.

        Every column of every row is read when `is_deep`, when anything else is wrong with the table, and before a
        version takes its place.
        """
        pin = self._head.snapshot.manifest.pins[type_.table_key]
        state = self._read_state(pin, type_, is_deep=is_deep)
        if not state.faults and (state.bad_indexes or state.rows != pin.rows):
            state = self._read_state(pin, type_, is_deep=True)
        if state.faults:
            earlier = self._plan_earlier_version(pin, type_, state.faults)
            return earlier if earlier.certainty is Certainty.VERIFIED else self._choose(pin, type_, earlier)
        if state.bad_indexes:
            return TableRepairPlan(
                pin=pin,
                remedy=Remedy.WITHOUT_INDEXES,
                certainty=Certainty.VERIFIED,
                reasons=tuple(f"the index {name}: {reason}" for name, reason in sorted(state.bad_indexes.items())),
                target=_correct_count(pin, state),
                dropped_indexes=tuple(sorted(state.bad_indexes)),
            )
        if state.rows != pin.rows:
            return TableRepairPlan(
                pin=pin,
                remedy=Remedy.RIGHT_COUNT,
                certainty=Certainty.VERIFIED,
                reasons=(f"it has {state.rows:,} rows, and its pin says {pin.rows:,}",),
                target=_correct_count(pin, state),
            )
        return None

    def _choose(self, pin: Pin, type_: AnyType, earlier: TableRepairPlan) -> TableRepairPlan:
        """Return the plan that loses fewer rows: going back, or leaving out the rows that are gone."""
        lost = self._find_lost(pin, type_)
        if lost is None:
            return earlier
        table = LanceTable(self._session.handles, pin.path, pin.version)
        gone = count_rows(one for one in table.list_fragments() if one.number in lost)
        rows = table.count()
        undone = _count_undone(earlier)
        if gone >= undone:
            reason = f"leaving out the rows that can't be read would lose {gone:,} of {rows:,}, which is no less"
            return replace(earlier, reasons=(*earlier.reasons, reason))
        other = "an empty table" if earlier.target is None else "the newest whole version before"
        return TableRepairPlan(
            pin=pin,
            remedy=Remedy.WITHOUT_ROWS,
            certainty=Certainty.SUSPICIOUS,
            reasons=(*earlier.reasons, f"{gone:,} of {rows:,} rows can't be read; {other} would lose {undone:,}"),
            target=replace(pin, rows=rows - gone),
            lost_rows=gone,
            lost_fragments=tuple(sorted(lost)),
        )

    def _find_lost(self, pin: Pin, type_: AnyType) -> frozenset[int] | None:
        """Return the fragments without which a version can be read; None when that is not enough, or all of them."""
        self._session.check_cancelled()
        table = LanceTable(self._session.handles, pin.path, pin.version)
        listing = self._listings.get(pin.path, TableListing(pin.path))
        try:
            with translate_damage(pin.path):
                if any(find_differing_columns(table, type_)):
                    return None
                faults = [one for one in find_table_faults(table, listing) if one.index is None]
                faults += _find_mismatches(table)
                lost = find_lost_fragments(table, listing, faults, self._cache.decoded, self._session.check_cancelled)
        except (DamagedError, UnknownPartError):
            return None
        return lost if lost and len(lost) < len(table.list_fragments()) else None

    def _plan_earlier_version(self, pin: Pin, type_: AnyType, reasons: tuple[str, ...]) -> TableRepairPlan:
        """The newest version before this one that is whole, along the commits that led to it.

        A cleanup removes what it has given up at any moment, also behind a repair that pins it. So such a version is
        never certain; it comes into question when every other one would lose what rows say.
        """
        lost: list[LostStep] = []
        given_up: TableRepairPlan | None = None
        try:
            for step, before, is_kept in self._iter_steps(pin):
                lost.append(step)
                if given_up is not None and not is_kept:
                    continue
                state = self._read_state(before, type_, is_deep=True)
                if state.faults:
                    continue
                is_known = not any(one.is_content for one in lost)
                found = TableRepairPlan(
                    pin=pin,
                    remedy=Remedy.EARLIER_VERSION,
                    certainty=Certainty.VERIFIED if is_known else Certainty.SUSPICIOUS,
                    reasons=reasons,
                    target=_correct_count(before, state),
                    dropped_indexes=tuple(sorted(state.bad_indexes)),
                    lost=tuple(lost),
                )
                if is_kept:
                    return found if given_up is None or found.certainty is Certainty.VERIFIED else given_up
                given_up = replace(found, certainty=Certainty.UNVERIFIABLE, reasons=(*reasons, _GIVEN_UP))
        except (DamagedError, ManifestCorruptError) as error:
            reasons = (*reasons, f"the history before that can't be read: {error.reason}")
        return given_up or TableRepairPlan(
            pin=pin,
            remedy=Remedy.EMPTY_TABLE,
            certainty=Certainty.UNVERIFIABLE,
            reasons=(*reasons, "no earlier version with the columns of the schema is whole"),
            lost=tuple(lost),
        )

    def _iter_steps(self, pin: Pin) -> Iterator[tuple[LostStep, Pin, bool]]:
        """Each commit that moved the table, newest first, with the pin that it left, and whether cleanups keep that.

        They do while they keep one of the commits that had it; and the version that a table was made with they keep
        for ever.
        """
        key, path = pin.table_key, pin.path
        step: LostStep | None = None
        left, is_kept = pin, False
        for commit, is_collected in self._iter_history():
            is_kept = is_kept or not is_collected
            change = _find_change(commit, key, path)
            if change is None:
                continue
            if step is not None:
                yield step, left, is_kept or not is_detached(left.version)
            before = _find_previous_pin(commit, change)
            if before is None:
                return  # here the table was made
            key, path = before.table_key, before.path
            step, is_kept = _build_lost_step(commit, change), False
            left = Pin(
                table_key=pin.table_key,
                path=path,
                version=before.version,
                rows=before.rows,
                branch=before.branch,
                sum=before.sum,
            )
        if step is not None:
            yield step, left, is_kept or not is_detached(left.version)

    def _iter_history(self) -> Iterator[tuple[Commit, bool]]:
        """The commits that led here, newest first, and whether each was collected."""
        with translate_damage(self._log.path):
            is_collected = build_collected_predicate(self._log, self._head)
        history = self._log.iter_history(self._head)
        while True:
            self._session.check_cancelled()
            with translate_damage(self._log.path):
                commit = next(history, None)
            if commit is None:
                return
            yield commit, is_collected(commit)

    def _read_state(self, pin: Pin, type_: AnyType, *, is_deep: bool) -> _VersionState:
        """What reading a version shows; it is read once, however many branches have it."""
        self._session.check_cancelled()
        key = (pin.path, pin.version, self._head.snapshot.manifest.schema.id)
        states = self._cache.states
        if key not in states:
            states[key] = self._read(pin, type_)
        if is_deep and key not in self._cache.whole:
            states[key] = self._read_whole(pin, states[key])
            self._cache.whole.add(key)
        return states[key]

    def _read(self, pin: Pin, type_: AnyType) -> _VersionState:
        table = LanceTable(self._session.handles, pin.path, pin.version)
        listing = self._listings.get(pin.path, TableListing(pin.path))
        try:
            found = [*_find_version_mismatch(table, pin)] or find_table_faults(table, listing)
            if all(fault.index is not None for fault in found):
                found += _find_mismatches(table, SMALL_BYTES)
        except UnknownPartError as error:
            return _VersionState((str(error),), {}, 0)
        faults = [f"{fault.place}: {fault.reason}" for fault in found if fault.index is None]
        bad = {fault.index: fault.reason for fault in found if fault.index is not None}
        if not faults:
            faults += _find_unreadable(table, type_, self._session.check_cancelled)
        if faults:
            return _VersionState(tuple(faults), {}, 0)
        return _VersionState(
            (), {**bad, **dict(_find_useless_indexes(table, bad, self._session.check_cancelled))}, table.count()
        )

    def _read_whole(self, pin: Pin, state: _VersionState) -> _VersionState:
        """What reading every column shows of a version whose ids can be read."""
        if state.faults:
            return state
        table = LanceTable(self._session.handles, pin.path, pin.version)
        found = _find_mismatches(table) or find_column_faults(table, self._cache.decoded, self._session.check_cancelled)
        return _VersionState(tuple(f"{one.place}: {one.reason}" for one in found), {}, 0) if found else state


@dataclass(frozen=True, slots=True)
class VersionStateCache:
    """What was read of versions so far: by path, number, and the schema whose columns they should have."""

    states: dict[tuple[str, int, str], _VersionState] = field(default_factory=dict)
    whole: set[tuple[str, int, str]] = field(default_factory=set)
    """Those of which every column was read."""
    decoded: DecodeResults = field(default_factory=dict)

    def clear(self) -> None:
        """Somebody may have removed what was read."""
        self.states.clear()
        self.whole.clear()
        self.decoded.clear()


def _correct_count(pin: Pin, state: _VersionState) -> Pin:
    return Pin(table_key=pin.table_key, path=pin.path, version=pin.version, rows=state.rows, branch=pin.branch)


def _find_version_mismatch(table: LanceTable, pin: Pin) -> Iterator[FileFault]:
    """Compare the file of a version with what its pin records, before Lance decodes it."""
    verifier = table.handles.store.verifier
    verifier.expect(pin.path, pin.version, pin.sum, pin.rows)
    mismatch = verifier.find_version_mismatch(pin.path, pin.version)
    if mismatch is not None:
        yield FileFault(kind=FileFaultKind.UNREADABLE, place=mismatch.key, reason=mismatch.reason)


def _find_mismatches(table: LanceTable, limit: int | None = None) -> list[FileFault]:
    """Compare files of rows with their names, those up to a size."""
    found = find_row_mismatches(table, table.list_fragments(), limit)
    return [FileFault(kind=FileFaultKind.UNREADABLE, place=one.key, reason=one.reason) for one in found]


def _count_undone(plan: TableRepairPlan) -> int:
    """Return how many rows going back changes at least: each commit that is undone, by how many came or went."""
    if plan.target is None:
        return plan.pin.rows
    return sum(max(1, abs(one.rows_after - one.rows_before)) for one in plan.lost if one.is_content)


def _find_unreadable(table: LanceTable, type_: AnyType, check_cancelled: Callable[[], None]) -> Iterator[str]:
    """Why ids, and the ends of edges, can't be read, or the columns are not those that the schema has now."""
    columns = [ID, SRC, DST] if isinstance(type_, EdgeType) else [ID]
    try:
        with translate_damage(table.path):
            yield from find_differing_columns(table, type_)
            rows = 0
            for batch in table.iter_batches(columns):
                check_cancelled()
                rows += batch.num_rows
            expected = table.count()
    except DamagedError as error:
        yield f"{error.place}: {error.reason}"
        return
    if rows != expected:
        yield f"{table.path}: {rows:,} rows came, and {expected:,} are there"


def _find_useless_indexes(
    table: LanceTable, known: Mapping[str, str], check_cancelled: Callable[[], None]
) -> Iterator[tuple[str, str]]:
    for index in list_stored_indexes(table):
        if index.name in known:
            continue
        check_cancelled()
        try:
            with translate_damage(f"{table.path}/_indices"):
                differs = check_lookups(table, index)
        except DamagedError as error:
            yield index.name, error.reason
        else:
            if differs is not None:
                yield index.name, str(differs)


# --- steps -----------------------------------------------------------------------------------------------


def _find_change(commit: Commit, key: str, path: str) -> PinChange | None:
    """What a commit did to the table that has this key and path after it."""
    return next((one for one in commit.changes if one.table_key == key and one.path == path), None)


def _find_previous_pin(commit: Commit, change: PinChange) -> Pin | None:
    """The pin that a change left; for a table that was renamed, the one that it had under its old name."""
    if change.before is None:
        renamed = next((one for one in commit.changes if one.after is None and one.path == change.path), None)
        return None if renamed is None or renamed.before is None else _find_previous_pin(commit, renamed)
    return Pin(
        table_key=change.table_key,
        path=change.path if change.replaced is None else change.replaced.path,
        version=int(change.before),
        rows=change.rows_before,
        branch=change.branch_before,
        sum=change.sum_before,
    )


def _build_lost_step(commit: Commit, change: PinChange) -> LostStep:
    return LostStep(
        commit_id=commit.id,
        at=commit.at,
        actor=commit.actor,
        operation=commit.operation,
        rows_before=change.rows_before,
        rows_after=change.rows_after,
        is_content=not commit.is_maintenance,
    )
