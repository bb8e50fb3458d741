"""Plan the repair of a pinned table: read its versions, and choose a replacement. Nothing is written."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from omnigraph.commit.gc_horizon import build_collected_predicate
from omnigraph.commit.manifest_codec import ManifestCorruptError
from omnigraph.commit.manifest_log import Head, ManifestLog
from omnigraph.commit.manifest_types import Commit, Pin, PinChange
from omnigraph.engine.checking.index_integrity import check_lookups
from omnigraph.engine.checking.row_integrity import find_differing_columns
from omnigraph.json_struct import JsonStruct
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

_GIVEN_UP = "only a version that a cleanup has collected is whole: run no cleanup until this is repaired"


class Certainty(Enum):
    """What is known about the data that a repair would lose."""

    VERIFIED = "verified"
    """No data is lost: every commit that is undone left all rows unchanged."""
    SUSPICIOUS = "suspicious"
    """The row changes of some commits are lost; they are listed."""
    UNVERIFIABLE = "unverifiable"
    """The loss is unknown: no earlier version is whole, or only a collected one; or the history can't be read."""


class Remedy(Enum):
    """How a table is repaired."""

    EARLIER_VERSION = "earlier_version"
    """Pin the newest whole earlier version again."""
    WITHOUT_INDEXES = "without_indexes"
    """Make a version without the damaged indexes; every row stays."""
    RIGHT_COUNT = "right_count"
    """Pin the same version with its actual number of rows."""
    WITHOUT_ROWS = "without_rows"
    """Make a version without the rows whose files can't be read; all other rows stay."""
    EMPTY_TABLE = "empty_table"
    """Create a new table without rows; the old one is left alone."""


class LostStep(JsonStruct, frozen=True, kw_only=True):
    """A commit whose changes to a table are undone."""

    json_keys = "commit_id at actor operation rows_before rows_after changed_rows=is_content"

    commit_id: str
    at: str
    actor: str
    operation: str
    rows_before: int
    rows_after: int
    is_content: bool
    """Whether it changed rows; maintenance does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRepairPlan:
    """The planned repair of one table of one branch."""

    pin: Pin
    remedy: Remedy
    certainty: Certainty
    reasons: tuple[str, ...]
    """The faults of the pinned version."""
    target: Pin | None = None
    """The new pin; None for a table that has to be created."""
    dropped_indexes: tuple[str, ...] = ()
    """Names of the damaged indexes of `target`, which are dropped."""
    lost: tuple[LostStep, ...] = ()
    """The commits that are undone, newest first."""
    lost_rows: int = 0
    """The number of rows dropped because their files can't be read."""
    lost_fragments: tuple[int, ...] = ()
    """The fragments of the pinned version that hold those rows."""

    # Versions are text: detached ones exceed the integers that JSON readers represent exactly.
    @property
    def from_version(self) -> str:
        """The pinned version, as text."""
        return str(self.pin.version)

    @property
    def to_version(self) -> str | None:
        """The version of the new pin, as text."""
        return None if self.target is None else str(self.target.version)

    @property
    def rows_after(self) -> int:
        """The number of rows after the repair."""
        return 0 if self.target is None else self.target.rows


@dataclass(frozen=True, slots=True)
class _VersionState:
    """The result of reading a version."""

    faults: tuple[str, ...]
    """The reasons why its rows can't all be read; empty if they can."""
    bad_indexes: Mapping[str, str]
    """Unusable indexes by name, with the reason."""
    rows: int


class BranchPlanner:
    """Plans the repair of tables in one state of a branch. It reads versions, and writes nothing."""

    def __init__(
        self,
        session: Session,
        log: ManifestLog,
        head: Head,
        listings: Mapping[str, TableListing],
        cache: "VersionStateCache",
    ) -> None:
        self._session = session
        self._log = log
        self._head = head
        self._listings = listings
        self._cache = cache

    def plan(self, type_: AnyType, *, is_deep: bool = False) -> TableRepairPlan | None:
        """Return the repair of a type's table; None if no fault was found.

        Every column of every row is read if `is_deep`, if the table has any other fault, and before a version replaces
        another.
        """
        pin = self._head.snapshot.manifest.pins[type_.table_key]
        state = self._read_state(pin, type_, is_deep=is_deep)
        # One fault makes the rest suspect: read every column before this version stays pinned.
        if not state.faults and (state.bad_indexes or state.rows != pin.rows):
            state = self._read_state(pin, type_, is_deep=True)
        if state.faults:
            earlier = self._plan_earlier_version(pin, type_, state.faults)
            # Going back without loss can't be improved.
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
        """Return the plan that loses fewer rows: an earlier version, or this one without its unreadable rows."""
        lost = self._find_lost(pin, type_)
        if lost is None:
            return earlier
        table = LanceTable(self._session.handles, pin.path, pin.version)
        unreadable = count_rows(fragment for fragment in table.list_fragments() if fragment.number in lost)
        rows = table.count()
        undone = _count_undone(earlier)
        if unreadable >= undone:
            reason = f"leaving out the rows that can't be read would lose {unreadable:,} of {rows:,}, which is no less"
            return replace(earlier, reasons=(*earlier.reasons, reason))
        other = "an empty table" if earlier.target is None else "the newest whole version before"
        return TableRepairPlan(
            pin=pin,
            remedy=Remedy.WITHOUT_ROWS,
            certainty=Certainty.SUSPICIOUS,
            reasons=(*earlier.reasons, f"{unreadable:,} of {rows:,} rows can't be read; {other} would lose {undone:,}"),
            target=replace(pin, rows=rows - unreadable),
            lost_rows=unreadable,
            lost_fragments=tuple(sorted(lost)),
        )

    def _find_lost(self, pin: Pin, type_: AnyType) -> frozenset[int] | None:
        """Return the fragments without which a version can be read; None if that is not enough, or it is all."""
        self._session.check_cancelled()
        table = LanceTable(self._session.handles, pin.path, pin.version)
        listing = self._listings.get(pin.path, TableListing(pin.path))
        try:
            with translate_damage(pin.path):
                if any(find_differing_columns(table, type_)):
                    return None
                faults = [fault for fault in find_table_faults(table, listing) if fault.index is None]
                faults += _find_mismatches(table)
                lost = find_lost_fragments(table, listing, faults, self._cache.decoded, self._session.check_cancelled)
        except (DamagedError, UnknownPartError):
            return None
        # Dropping every fragment would leave an empty table.
        return lost if lost and len(lost) < len(table.list_fragments()) else None

    def _plan_earlier_version(self, pin: Pin, type_: AnyType, reasons: tuple[str, ...]) -> TableRepairPlan:
        """Plan to go back to the newest whole version along the commits that led to this one.

        A cleanup may remove the files of a collected version at any moment, even after a repair has pinned it. So such
        a version is unverifiable, and chosen only if every retained version would lose row changes.
        """
        lost: list[LostStep] = []
        collected: TableRepairPlan | None = None
        try:
            for step, before, is_retained in self._iter_steps(pin):
                lost.append(step)
                # The newest collected version is enough; from there on only a retained one can be better.
                if collected is not None and not is_retained:
                    continue
                state = self._read_state(before, type_, is_deep=True)
                if state.faults:
                    continue
                is_lossless = not any(lost_step.is_content for lost_step in lost)
                plan = TableRepairPlan(
                    pin=pin,
                    remedy=Remedy.EARLIER_VERSION,
                    certainty=Certainty.VERIFIED if is_lossless else Certainty.SUSPICIOUS,
                    reasons=reasons,
                    target=_correct_count(before, state),
                    dropped_indexes=tuple(sorted(state.bad_indexes)),
                    lost=tuple(lost),
                )
                if is_retained:
                    return plan if collected is None or plan.certainty is Certainty.VERIFIED else collected
                collected = replace(plan, certainty=Certainty.UNVERIFIABLE, reasons=(*reasons, _GIVEN_UP))
        except (DamagedError, ManifestCorruptError) as error:
            reasons = (*reasons, f"the history before that can't be read: {error.reason}")
        return collected or TableRepairPlan(
            pin=pin,
            remedy=Remedy.EMPTY_TABLE,
            certainty=Certainty.UNVERIFIABLE,
            reasons=(*reasons, "no earlier version with the columns of the schema is whole"),
            lost=tuple(lost),
        )

    def _iter_steps(self, pin: Pin) -> Iterator[tuple[LostStep, Pin, bool]]:
        """Yield each commit that moved the table, newest first, with the pin before it, and whether that is retained.

        A pin is retained while a commit that had it is; the version that a table was created with always is.
        """
        key = pin.table_key
        path = pin.path
        # A pin is yielded one change later, when all commits that had it were seen.
        step: LostStep | None = None
        left = pin
        is_retained = False
        for commit, is_collected in self._iter_history():
            is_retained = is_retained or not is_collected
            change = _find_change(commit, key, path)
            if change is None:
                continue
            if step is not None:
                yield step, left, is_retained or not is_detached(left.version)
            before = _find_previous_pin(commit, change)
            # This commit created the table.
            if before is None:
                return
            # Under its earlier name, if the commit renamed it.
            key = before.table_key
            path = before.path
            step = _build_lost_step(commit, change)
            is_retained = False
            left = Pin(
                table_key=pin.table_key,
                path=path,
                version=before.version,
                rows=before.rows,
                branch=before.branch,
                sum=before.sum,
            )
        if step is not None:
            yield step, left, is_retained or not is_detached(left.version)

    def _iter_history(self) -> Iterator[tuple[Commit, bool]]:
        """Yield the commits that led here, newest first, and whether each was collected."""
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
        """Return the state of a version; it is read once, also if several branches have it."""
        self._session.check_cancelled()
        # Branches with different schemas may pin the same version; it fits the columns of one, perhaps not the other's.
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
            # Cheap checks first; later ones would only repeat a fault that is already known.
            file_faults = [*_find_version_mismatch(table, pin)] or find_table_faults(table, listing)
            if all(fault.index is not None for fault in file_faults):
                file_faults += _find_mismatches(table, SMALL_BYTES)
        except UnknownPartError as error:
            return _VersionState((str(error),), {}, 0)
        faults = [f"{fault.place}: {fault.reason}" for fault in file_faults if fault.index is None]
        bad_indexes = {fault.index: fault.reason for fault in file_faults if fault.index is not None}
        if not faults:
            faults += _find_unreadable(table, type_, self._session.check_cancelled)
        if faults:
            return _VersionState(tuple(faults), {}, 0)
        bad_indexes |= dict(_find_useless_indexes(table, bad_indexes, self._session.check_cancelled))
        return _VersionState((), bad_indexes, table.count())

    def _read_whole(self, pin: Pin, state: _VersionState) -> _VersionState:
        """Return the state of a version after reading every column; its ids were read before."""
        if state.faults:
            return state
        table = LanceTable(self._session.handles, pin.path, pin.version)
        faults = _find_mismatches(table)
        faults = faults or find_column_faults(table, self._cache.decoded, self._session.check_cancelled)
        return _VersionState(tuple(f"{fault.place}: {fault.reason}" for fault in faults), {}, 0) if faults else state


@dataclass(frozen=True, slots=True)
class VersionStateCache:
    """A cache of version states by path, version, and the schema whose columns they should have."""

    states: dict[tuple[str, int, str], _VersionState] = field(default_factory=dict)
    whole: set[tuple[str, int, str]] = field(default_factory=set)
    """The versions of which every column was read."""
    decoded: DecodeResults = field(default_factory=dict)

    def clear(self) -> None:
        """Clear the cache, because a cleanup may have removed files that were read."""
        self.states.clear()
        self.whole.clear()
        self.decoded.clear()


def _correct_count(pin: Pin, state: _VersionState) -> Pin:
    return Pin(table_key=pin.table_key, path=pin.path, version=pin.version, rows=state.rows, branch=pin.branch)


def _find_version_mismatch(table: LanceTable, pin: Pin) -> Iterator[FileFault]:
    """Compare the file of a version with the checksum in its pin, before Lance decodes it."""
    verifier = table.handles.store.verifier
    verifier.expect(pin.path, pin.version, pin.sum, pin.rows)
    mismatch = verifier.find_version_mismatch(pin.path, pin.version)
    if mismatch is not None:
        yield FileFault(kind=FileFaultKind.UNREADABLE, place=mismatch.key, reason=mismatch.reason)


def _find_mismatches(table: LanceTable, limit: int | None = None) -> list[FileFault]:
    """Compare data files up to a size with the checksums in their names."""
    mismatches = find_row_mismatches(table, table.list_fragments(), limit)
    return [FileFault(kind=FileFaultKind.UNREADABLE, place=item.key, reason=item.reason) for item in mismatches]


def _count_undone(plan: TableRepairPlan) -> int:
    """Return the minimum number of rows whose changes are undone."""
    if plan.target is None:
        return plan.pin.rows
    # A commit changed at least as many rows as it added or removed on balance, and at least one.
    return sum(max(1, abs(step.rows_after - step.rows_before)) for step in plan.lost if step.is_content)


def _find_unreadable(table: LanceTable, type_: AnyType, check_cancelled: Callable[[], None]) -> Iterator[str]:
    """Yield the reasons why ids and edge ends can't be read, and how the columns differ from the schema."""
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
    # Files can be decoded without an error and still have too few rows.
    if rows != expected:
        yield f"{table.path}: {rows:,} rows were read, but it should have {expected:,}"


def _find_useless_indexes(
    table: LanceTable, bad_indexes: Mapping[str, str], check_cancelled: Callable[[], None]
) -> Iterator[tuple[str, str]]:
    for index in list_stored_indexes(table):
        if index.name in bad_indexes:
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
    """Return the change of a commit to the table that has this key and path after it."""
    return next((change for change in commit.changes if change.table_key == key and change.path == path), None)


def _find_previous_pin(commit: Commit, change: PinChange) -> Pin | None:
    """Return the pin before a change; for a renamed table, the one under its old name."""
    if change.before is None:
        renamed = next((other for other in commit.changes if other.after is None and other.path == change.path), None)
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
