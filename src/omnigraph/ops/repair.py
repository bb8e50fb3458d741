"""Repair what other tools have damaged: tables go back to versions that can be read, in one commit for each branch.

A preview, unless it is confirmed. No data file is rewritten or removed, so whatever is done can be undone by putting
the lost files back and reading an earlier commit.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from omnigraph.commit.branch_errors import BranchMissingError
from omnigraph.commit.commit_plan import AdoptedTable, CommitPlan, Move, NewTable
from omnigraph.commit.commit_references import CommitReference, find_merge_references, find_operation_references
from omnigraph.commit.conflict import ConflictError
from omnigraph.commit.gc_horizon import TooSlowError
from omnigraph.commit.manifest_check import (
    ManifestFault,
    ManifestFaultKind,
    ManifestInspection,
    find_journal_damage,
    inspect_manifest,
    iter_own_commits,
)
from omnigraph.commit.manifest_codec import ManifestCorruptError
from omnigraph.commit.manifest_log import Head, ManifestLog
from omnigraph.commit.manifest_repair import (
    OPERATION,
    cut_history,
    find_unfinished,
    list_asides,
    publish_beyond,
    put_aside,
)
from omnigraph.commit.manifest_types import MAIN, Manifest, Snapshot, TableRecord
from omnigraph.commit.publisher import PublishResult, publish
from omnigraph.commit.requirements import TableUnchanged
from omnigraph.commit.sidecar import list_sidecars
from omnigraph.commit.snapshot_tables import SnapshotTables
from omnigraph.engine.checking.edge_integrity import check_ends
from omnigraph.engine.view import View
from omnigraph.lang.spelling import find_closest
from omnigraph.ops.argument_checks import BadArgumentError
from omnigraph.ops.check import open_fresh_session
from omnigraph.ops.check_files import list_tables
from omnigraph.ops.check_manifests import find_lost_marks, find_manifest_marks, find_unregistered, refuse_no_graph
from omnigraph.ops.commit_signature import check_signature
from omnigraph.ops.indexes import map_types
from omnigraph.ops.repair_from_copy import repair_from
from omnigraph.ops.repair_plan import BranchPlanner, Certainty, Remedy, TableRepairPlan, VersionStateCache
from omnigraph.ops.repair_result import HistoryRepair, ManifestRepair, RepairOutcome, RepairResult, TableRepair
from omnigraph.ops.session import Session, with_cancellation
from omnigraph.policy import Action, ActorDiffersError
from omnigraph.schema.arrow import build_arrow_schema
from omnigraph.schema.catalog import AnyType, Catalog, EdgeType, NodeType
from omnigraph.schema.catalog_codec import CatalogCorruptError, decode_catalog
from omnigraph.storage.cas_table_errors import DamagedError
from omnigraph.storage.index_staging import list_stored_indexes, stage_segments
from omnigraph.storage.integrity_check import TableListing, translate_damage
from omnigraph.storage.lance_table import LanceTable
from omnigraph.storage.layout import MANIFEST, TABLE_ROOTS, build_table_path
from omnigraph.storage.salvage import PartialTable, stage_removal
from omnigraph.telemetry import log as telemetry_log

_MOVING_REMEDIES = (Remedy.EARLIER_VERSION, Remedy.WITHOUT_ROWS, Remedy.EMPTY_TABLE)


def find_dangling_edges(
    session: Session, snapshot: Snapshot, catalog: Catalog, plans: Mapping[str, TableRepairPlan]
) -> dict[str, tuple[str, ...]]:
    """By the key of a table that is repaired, what is said of edges whose ends are missing once all of that is done.

    A table that can't be read and is not repaired has no edges to speak of.
    """
    after = dict(snapshot.manifest.pins)
    after |= {key: plan.target for key, plan in plans.items() if plan.target is not None}
    emptied = {key for key, plan in plans.items() if plan.target is None}
    planned = replace(snapshot, manifest=replace(snapshot.manifest, pins=after))
    view = View(catalog, _PlannedTables(session, planned, plans))
    found: dict[str, list[str]] = {}
    for edge in catalog.edges.values():
        moving = [key for key in _list_table_keys(edge) if key in plans and plans[key].remedy in _MOVING_REMEDIES]
        if not moving or edge.table_key in emptied:
            continue
        for message in _find_broken(view, edge, emptied, session):
            found.setdefault(moving[0], []).append(message)
    return {key: tuple(messages) for key, messages in found.items()}


class _PlannedTables(SnapshotTables):
    """The tables of a snapshot as they will be, without the rows that are left out."""

    def __init__(self, session: Session, snapshot: Snapshot, plans: Mapping[str, TableRepairPlan]) -> None:
        super().__init__(session.handles, snapshot, session.watch)
        self._lost = {key: plan.lost_fragments for key, plan in plans.items() if plan.lost_fragments}

    def open_table(self, table_key: str) -> LanceTable:
        """Return the table as it will be."""
        found = super().open_table(table_key)
        lost = self._lost.get(table_key)
        return found if lost is None else PartialTable(found.handles, found.path, found.version, lost)


def _list_table_keys(edge: EdgeType) -> tuple[str, ...]:
    return f"node:{edge.source}", f"node:{edge.target}", edge.table_key


def _find_broken(view: View, edge: EdgeType, emptied: set[str], session: Session) -> list[str]:
    table = view.get_table(edge)
    try:
        with translate_damage(table.path):
            if emptied & set(_list_table_keys(edge)):
                rows = table.count()
                return [f"every edge of {edge.name} ({rows:,}) without a node"] if rows else []
            found = check_ends(view, edge, on_progress=lambda _: session.check_cancelled())
            broken = [one for one in found if one.rule == "end_missing"]
    except DamagedError:
        return []  # it is not repaired, so nothing of it can be read either way
    return [
        f"{one.count:,} ends of {edge.name} without a node, such as {'; '.join(one.examples[:2])}" for one in broken
    ]


T = TypeVar("T")
MAX_ATTEMPTS = 10
"""How often a branch is planned again because others have written to the tables that are repaired."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairCall:
    """What to repair, and whether to do it."""

    branch: str | None = None
    """Only this branch; None: all."""
    confirm: bool = False
    """Publish what loses nothing; else only tell."""
    force: bool = False
    """With `confirm`, publish the rest too."""
    deep: bool = False
    """Read every column of what is pinned, and not only ids and ends; what takes its place is always read whole."""
    source: str | None = None
    """A copy of the graph: only files that are damaged are fetched from there, and nothing else is done."""
    actor: str = "anonymous"
    message: str | None = None


@dataclass(slots=True)
class _RepairReport:
    tables: list[TableRepair] = field(default_factory=list)
    manifests: list[ManifestRepair] = field(default_factory=list)
    histories: list[HistoryRepair] = field(default_factory=list)
    moved_heads: dict[str, int] = field(default_factory=dict)

    @property
    def has_published(self) -> bool:
        found = [one.outcome for each in (self.manifests, self.histories, self.tables) for one in each]
        return RepairOutcome.PUBLISHED in found


def repair(session: Session, call: RepairCall) -> RepairResult:
    """Find what can't be read, and what can take its place; publish that when it is confirmed.

    It ends when it is not wanted any more, unless something is published by then: that is always told.

    Raises:
        ForeignFileError: Something among the tables is a link, a pipe or a device.
        NotAGraphError: There is nothing that ever was a graph.
        BranchMissingError: There is no branch of that name.
        AnotherGraphError: The copy that files are to come from is of another graph.
        ConflictError: Others kept writing to the tables that are repaired.
        TooSlowError: Cleanups kept coming in between.
    """
    _allow(session, call)
    check_signature(call.actor, call.message, None)
    if call.confirm:
        session.check_writable()
    for error in (error for root in TABLE_ROOTS for error in session.store.find_foreign_files(root)):
        raise error  # what a link hides is not lost, and going back would lose it
    if call.source is not None:
        return _fetch(session, call, call.source)
    report = _RepairReport()
    known = VersionStateCache()

    def go_on() -> None:
        if not report.has_published:
            session.check_cancelled()

    wanted = with_cancellation(session, go_on)
    for look in _inspect_manifests(open_fresh_session(wanted), call.branch):
        _repair_branch(wanted, look, call, report, known)
    return RepairResult(
        uri=session.uri,
        is_confirmed=call.confirm,
        manifests=tuple(report.manifests),
        tables=tuple(report.tables),
        histories=tuple(report.histories),
        moved_heads=report.moved_heads,
    )


def _fetch(session: Session, call: RepairCall, source: str) -> RepairResult:
    """Put back from a copy what is missing or damaged, of all branches; no commit is made."""
    if call.branch is not None:
        raise BadArgumentError("branch", f"`{call.branch}`", "from a copy, files of all branches are put back")
    files = repair_from(session, source, is_confirmed=call.confirm, is_deep=call.deep)
    return RepairResult(uri=session.uri, is_confirmed=call.confirm, manifests=(), tables=(), files=files)


def _allow(session: Session, call: RepairCall) -> None:
    if call.branch is not None:
        session.allow(Action.MAINTAIN, call.branch, signed=call.actor)
        return
    session.allow_on_graph(Action.MAINTAIN)
    if session.actor is not None and session.actor.name != call.actor:
        raise ActorDiffersError(session.actor.name, call.actor)


def _inspect_manifests(session: Session, branch: str | None) -> list[ManifestInspection]:
    """The manifest of main, then those of the other branches, or only that of one."""
    session.check_cancelled()
    main = inspect_manifest(session.store, MAIN, MANIFEST, _check_schema)
    if main.newest == 0:
        refuse_no_graph(session)
    live = {} if main.head is None else main.head.snapshot.manifest.live_branches
    known = (MAIN, *sorted(live))
    if branch is not None and branch not in known:
        raise BranchMissingError(branch, known, find_closest(branch, known))
    looks = [main] if branch in (None, MAIN) else []
    for name in known[1:]:
        if branch in (None, name):
            session.check_cancelled()
            looks.append(inspect_manifest(session.store, name, live[name].path, _check_schema))
    if main.head is None:
        return looks
    unregistered = find_unregistered(session.store, main.head.snapshot.manifest.branches)
    seen = (main, *(look for look in looks if look is not main))
    operations = find_operation_references(one.sidecar for one in list_sidecars(session.store)[0])
    marks = [*find_manifest_marks(seen, unregistered), *_find_merged_marks(session, seen), *operations]
    lost = {mark.path: mark for mark in find_lost_marks(session.store, marks, looks)}
    return [_mark_rolled_back(look, lost.get(look.path)) for look in looks]


def _check_schema(manifest: Manifest) -> None:
    """Check that the schema of a state can be read: without it, none of its tables can."""
    try:
        decode_catalog(manifest.schema.catalog.encode())
    except CatalogCorruptError as error:
        raise ManifestCorruptError(f"the schema can't be read: {error.place} {error.reason}") from error


def _find_merged_marks(session: Session, looks: Iterable[ManifestInspection]) -> Iterator[CommitReference]:
    """Find the commits that branches have merged, as far back as their histories can be read."""
    for look in looks:
        try:
            if look.head is not None:
                yield from find_merge_references(iter_own_commits(look.head, session.store))
        except (DamagedError, ManifestCorruptError) as error:
            telemetry_log.info("the history of %s is read no further: %s", look.branch, error)


def _mark_rolled_back(look: ManifestInspection, mark: CommitReference | None) -> ManifestInspection:
    """Return what was found of a manifest, with the versions that it has lost by what something else names.

    Each commit was a version at least.
    """
    if mark is None or look.head is None:
        return look
    fault = ManifestFault(kind=ManifestFaultKind.ROLLED_BACK, place=look.path, reason=str(mark))
    missing = max(mark.seq - look.head.snapshot.commit.seq, 0)
    return replace(look, newest=look.newest + missing, fault=fault)


def _repair_branch(
    session: Session, look: ManifestInspection, call: RepairCall, report: _RepairReport, known: VersionStateCache
) -> None:
    look, done = _mend_manifest(session, look, call)
    if done is not None:
        report.manifests.append(done)
        if look.head is None or (call.confirm and done.outcome is not RepairOutcome.PUBLISHED):
            return
    report.histories += _retry(look, lambda: _repair_history(open_fresh_session(session), look, call))
    tables, moved = _retry(look, lambda: _attempt(open_fresh_session(session), look, call, known))
    report.tables += tables
    report.moved_heads |= moved


def _retry(look: ManifestInspection, attempt: Callable[[], T]) -> T:
    """Try, and again from the start when somebody else has changed what is repaired."""
    for _ in range(MAX_ATTEMPTS - 1):
        try:
            return attempt()
        except (ConflictError, TooSlowError) as error:
            telemetry_log.info("the repair of %s is planned again: %s", look.branch, error)
    return attempt()


# --- a manifest ------------------------------------------------------------------------------------------


def _mend_manifest(
    session: Session, look: ManifestInspection, call: RepairCall
) -> tuple[ManifestInspection, ManifestRepair | None]:
    """What becomes of a manifest, if anything is wrong with it; looked at again when another repair is at it."""
    for left in reversed(range(MAX_ATTEMPTS)):
        if look.fault is None:
            break
        try:
            return look, _repair_manifest(session, look, call)
        except ConflictError as error:
            if not left:
                raise
            telemetry_log.info("the manifest of %s is looked at again: %s", look.branch, error)
        look = inspect_manifest(session.store, look.branch, look.path, _check_schema)
    if call.confirm and look.fault is None:
        _finish_manifest(open_fresh_session(session), look, call)
    return look, None


def _repair_manifest(session: Session, look: ManifestInspection, call: RepairCall) -> ManifestRepair:
    """What was published by the versions that can't be read is not known: going back needs force."""
    assert look.fault is not None  # noqa: S101 - it is asked only then
    snapshot = None if look.head is None else look.head.snapshot
    found = ManifestRepair(
        branch=look.branch,
        path=look.path,
        reason=f"{look.fault.place}: {look.fault.reason}",
        from_version=look.newest,
        to_version=None if snapshot is None else snapshot.manifest_version,
        to_commit=None if snapshot is None else snapshot.commit.id,
        to_time=None if snapshot is None else snapshot.commit.at,
    )
    is_hopeless = snapshot is None or look.fault.kind is ManifestFaultKind.FORMAT
    if is_hopeless or not call.confirm or not call.force:
        is_refused = is_hopeless or (call.confirm and not call.force)
        return replace(found, outcome=RepairOutcome.REFUSED if is_refused else RepairOutcome.PLANNED)
    session.runtime.faults.reach("repair.looked")
    if look.fault.kind is not ManifestFaultKind.ROLLED_BACK:
        put_aside(session.store, look)
    head = _publish_beyond(open_fresh_session(session), look, look.newest, call)
    return replace(found, outcome=RepairOutcome.PUBLISHED, commit_id=head.snapshot.commit.id)


def _finish_manifest(session: Session, look: ManifestInspection, call: RepairCall) -> None:
    """Go on where a repair of the manifest has died."""
    highest = find_unfinished(list_asides(session.store), look)
    if highest is not None:
        _publish_beyond(session, look, highest, call)


def _publish_beyond(session: Session, look: ManifestInspection, number: int, call: RepairCall) -> Head:
    how = "is lost" if look.fault is not None and look.fault.kind is ManifestFaultKind.ROLLED_BACK else "can't be read"
    message = call.message or f"went back from version {number} of the manifest, which {how}"
    return publish_beyond(_open_log(session, look), number, actor=call.actor, message=message)


def _open_log(session: Session, look: ManifestInspection) -> ManifestLog:
    """The log of a branch, by which those that it comes from are found too."""
    if look.path == MANIFEST:
        return session.log
    return ManifestLog(session.store, look.branch, look.path)


# --- a history ------------------------------------------------------------------------------------------


def _repair_history(session: Session, look: ManifestInspection, call: RepairCall) -> list[HistoryRepair]:
    """What a part of the journal said that can't be read is not known: going on without it needs force."""
    log = _open_log(session, look)
    session.check_cancelled()
    head = _choose_head(log, look, call)
    damage = find_journal_damage(head, session.store)
    if damage is None:
        return []
    found = HistoryRepair(
        branch=look.branch,
        place=damage.place,
        reason=damage.reason,
        oldest_commit=damage.oldest.id,
        oldest_time=damage.oldest.at,
    )
    if not call.confirm:
        return [found]
    if not call.force or not damage.lost:
        return [replace(found, outcome=RepairOutcome.REFUSED)]
    message = call.message or f"the history before commit {damage.oldest.id} can't be read"
    made = cut_history(log, head, damage, actor=call.actor, message=message)
    return [replace(found, outcome=RepairOutcome.PUBLISHED, commit_id=made.snapshot.commit.id)]


def _choose_head(log: ManifestLog, look: ManifestInspection, call: RepairCall) -> Head:
    """The newest state of a branch; in a preview of one that can't be read, the newest whole one."""
    head = log.head() if call.confirm or look.fault is None else look.head
    assert head is not None  # noqa: S101 - without one there is nothing to plan
    return head


# --- tables ----------------------------------------------------------------------------------------------


def _attempt(
    session: Session, look: ManifestInspection, call: RepairCall, known: VersionStateCache
) -> tuple[list[TableRepair], dict[str, int]]:
    """Plan on the newest state of a branch, and publish what may be."""
    log = _open_log(session, look)
    head = _choose_head(log, look, call)
    catalog = session.load_catalog(head.snapshot)
    types = {key: type_ for key, type_ in map_types(catalog).items() if key in head.snapshot.manifest.pins}
    session.check_cancelled()
    listings = list_tables(session)
    planner = BranchPlanner(session, log, head, listings, known)
    looked = {key: planner.plan(type_, is_deep=call.deep) for key, type_ in types.items()}
    plans = {key: plan for key, plan in looked.items() if plan is not None}
    chosen = {key: plan for key, plan in plans.items() if call.force or plan.certainty is Certainty.VERIFIED}
    dangling = find_dangling_edges(session, head.snapshot, catalog, chosen if call.confirm else plans)
    done = None
    if call.confirm and chosen:
        session.runtime.faults.reach("repair.planned")
        try:
            done = _publish(session, log, head, chosen, types, call)
        except TooSlowError:
            known.clear()
            raise
    tables = [
        TableRepair(
            branch=look.branch,
            plan=plan,
            outcome=_choose_outcome(call, is_chosen=key in chosen),
            commit_id=done.commit.id if done is not None and key in chosen else None,
            dangling=dangling.get(key, ()),
        )
        for key, plan in plans.items()
    ]
    return tables, _find_moved_heads(types, head, listings)


def _choose_outcome(call: RepairCall, *, is_chosen: bool) -> RepairOutcome:
    if not call.confirm:
        return RepairOutcome.PLANNED
    return RepairOutcome.PUBLISHED if is_chosen else RepairOutcome.REFUSED


def _find_moved_heads(types: Mapping[str, AnyType], head: Head, listings: Mapping[str, TableListing]) -> dict[str, int]:
    pins = head.snapshot.manifest.pins
    heads = {key: listings[pins[key].path].find_moved_head() for key in types if pins[key].path in listings}
    return {key: newest for key, newest in heads.items() if newest is not None}


def _publish(
    session: Session,
    log: ManifestLog,
    head: Head,
    chosen: Mapping[str, TableRepairPlan],
    types: Mapping[str, AnyType],
    call: RepairCall,
) -> PublishResult:
    """One commit of all that was chosen, unless somebody else has written to one of these tables meanwhile."""
    records = head.snapshot.manifest.tables
    without_rows = {key: plan for key, plan in chosen.items() if plan.remedy is Remedy.WITHOUT_ROWS}
    targets = {key: plan.target for key, plan in chosen.items() if plan.target is not None}
    kept = {key: target for key, target in targets.items() if key not in without_rows}
    moves = [_drop_indexes(session, key, chosen[key]) for key in kept if chosen[key].dropped_indexes]
    moves += [_drop_lost_rows(session, key, plan) for key, plan in without_rows.items()]
    made = [_build_empty_table(session, types[key], records[key]) for key in chosen if key not in targets]
    plan = CommitPlan(
        base=head,
        operation=OPERATION,
        actor=call.actor,
        message=call.message or _format_message(chosen.values()),
        moves=tuple(moves),
        adopted={key: AdoptedTable(record=_build_record(records[key], pin.path), pin=pin) for key, pin in kept.items()},
        new_tables=tuple(made),
        requirements=tuple(TableUnchanged(table_key=key) for key in chosen),
        outlives_cleanup=False,
    )
    return publish(log, session.handles, plan)


def _build_record(record: TableRecord, path: str) -> TableRecord:
    """The registered table, which may have been another one when it was whole."""
    return (
        record
        if record.path == path
        else TableRecord(
            table_key=record.table_key, path=path, identity=record.identity, incarnation=record.incarnation
        )
    )


def _format_message(plans: Iterable[TableRepairPlan]) -> str:
    return ", ".join(f"{plan.pin.table_key}: {plan.remedy.value.replace('_', ' ')}" for plan in plans)


def _drop_indexes(session: Session, key: str, plan: TableRepairPlan) -> Move:
    """A version of the table without the indexes that are of no use; its rows are the same files."""
    assert plan.target is not None  # noqa: S101 - it is asked only then
    table = LanceTable(session.handles, plan.target.path, plan.target.version)
    useless = [
        segment.text
        for index in list_stored_indexes(table)
        for segment in index.segments
        if index.name in plan.dropped_indexes
    ]
    return Move(table_key=key, staged=stage_segments(table, [], useless))


def _drop_lost_rows(session: Session, key: str, plan: TableRepairPlan) -> Move:
    """A version of the table without the fragments whose files can't be read."""
    table = LanceTable(session.handles, plan.pin.path, plan.pin.version)
    return Move(table_key=key, staged=stage_removal(table, plan.lost_fragments))


def _build_empty_table(session: Session, type_: AnyType, record: TableRecord) -> NewTable:
    """A table at a place where there never was one."""
    kind = "node" if isinstance(type_, NodeType) else "edge"
    incarnation = record.incarnation + 1
    while session.store.objects.list_under(build_table_path(kind, type_.name, incarnation)):
        incarnation += 1
    path = build_table_path(kind, type_.name, incarnation)
    made = TableRecord(table_key=type_.table_key, path=path, identity=type_.identity, incarnation=incarnation)
    return NewTable(record=made, schema=build_arrow_schema(type_))
