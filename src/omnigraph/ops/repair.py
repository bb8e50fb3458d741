"""Repair a damaged graph: return tables to versions that can be read, in one commit per branch.

It is a preview unless confirmed. No data file is rewritten or removed, so that a repair can be undone by putting the
lost files back and reading an earlier commit.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

import msgspec

from omnigraph.commit.branch_errors import BranchMissingError
from omnigraph.commit.commit_plan import AdoptedTable, CommitPlan, Move, NewTable
from omnigraph.commit.commit_references import CommitReference, find_merge_references, find_operation_references
from omnigraph.commit.conflict import ConflictError
from omnigraph.commit.gc_horizon import TooSlowError
from omnigraph.commit.group_commit import PublishResult
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
from omnigraph.commit.publisher import publish
from omnigraph.commit.requirements import TableUnchanged
from omnigraph.commit.sidecar import list_sidecars
from omnigraph.commit.snapshot_tables import SnapshotTables
from omnigraph.engine.checking.edge_integrity import check_ends
from omnigraph.engine.view import View
from omnigraph.errors import BadArgumentError
from omnigraph.lang.spelling import find_closest
from omnigraph.ops.check import open_fresh_session
from omnigraph.ops.check_files import list_tables
from omnigraph.ops.check_manifests import find_lost_marks, find_manifest_marks, find_unregistered, refuse_no_graph
from omnigraph.ops.commit_signature import check_signature
from omnigraph.ops.indexes import map_types
from omnigraph.ops.repair_from_copy import repair_from
from omnigraph.ops.repair_plan import BranchPlanner, Certainty, Remedy, TableRepairPlan, VersionStateCache
from omnigraph.ops.repair_result import HistoryRepair, ManifestRepair, RepairOutcome, RepairResult, TableRepair
from omnigraph.ops.session import Session, with_cancellation
from omnigraph.policy import Action, WrongActorError
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

# Remedies that change which rows a table has, and can therefore leave edges without their end nodes.
_MOVING_REMEDIES = (Remedy.EARLIER_VERSION, Remedy.WITHOUT_ROWS, Remedy.EMPTY_TABLE)


def find_dangling_edges(
    session: Session, snapshot: Snapshot, catalog: Catalog, plans: Mapping[str, TableRepairPlan]
) -> dict[str, tuple[str, ...]]:
    """Describe the edges whose end nodes would be missing after all plans, by the key of a repaired table.

    Edge tables that can't be read and are not repaired are left out.
    """
    pins = dict(snapshot.manifest.pins)
    pins |= {key: plan.target for key, plan in plans.items() if plan.target is not None}
    emptied = {key for key, plan in plans.items() if plan.target is None}
    planned = replace(snapshot, manifest=replace(snapshot.manifest, pins=pins))
    view = View(catalog, _PlannedTables(session, planned, plans))
    by_table: dict[str, list[str]] = {}
    for edge in catalog.edges.values():
        moving = [key for key in _list_table_keys(edge) if key in plans and plans[key].remedy in _MOVING_REMEDIES]
        if not moving or edge.table_key in emptied:
            continue
        for message in _describe_dangling(view, edge, emptied, session):
            by_table.setdefault(moving[0], []).append(message)
    return {key: tuple(messages) for key, messages in by_table.items()}


class _PlannedTables(SnapshotTables):
    """The tables of a snapshot after the repair, without the fragments that it drops."""

    def __init__(self, session: Session, snapshot: Snapshot, plans: Mapping[str, TableRepairPlan]) -> None:
        super().__init__(session.handles, snapshot, session.watch)
        self._lost = {key: plan.lost_fragments for key, plan in plans.items() if plan.lost_fragments}

    def open_table(self, table_key: str) -> LanceTable:
        """Return the table after the repair."""
        table = super().open_table(table_key)
        lost = self._lost.get(table_key)
        return table if lost is None else PartialTable(table.handles, table.path, table.version, lost)


def _list_table_keys(edge: EdgeType) -> tuple[str, ...]:
    return f"node:{edge.source}", f"node:{edge.target}", edge.table_key


def _describe_dangling(view: View, edge: EdgeType, emptied: set[str], session: Session) -> list[str]:
    table = view.get_table(edge)
    try:
        with translate_damage(table.path):
            # With an empty table at one end, every edge dangles: no need to read them.
            if emptied & set(_list_table_keys(edge)):
                rows = table.count()
                return [f"every edge of {edge.name} ({rows:,}) without a node"] if rows else []
            findings = check_ends(view, edge, on_progress=lambda _: session.check_cancelled())
            missing = [finding for finding in findings if finding.rule == "end_missing"]
    # The table is damaged and not repaired: its edges can't be read with or without this repair.
    except DamagedError:
        return []
    return [
        f"{finding.count:,} ends of {edge.name} without a node, such as {'; '.join(finding.examples[:2])}"
        for finding in missing
    ]


T = TypeVar("T")
# Attempts to plan a branch again after another writer changed the tables that are repaired.
MAX_ATTEMPTS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairCall:
    """The arguments of a repair."""

    branch: str | None = None
    """Only this branch; None for all."""
    confirm: bool = False
    """Publish the repairs that lose no data; else only report them."""
    force: bool = False
    """With `confirm`, publish the other repairs too."""
    deep: bool = False
    """Read every column of pinned versions, not only ids and ends; replacements are always read completely."""
    source: str | None = None
    """A copy of the graph: damaged files are fetched from it, and nothing else is done."""
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
        repairs: list[ManifestRepair | HistoryRepair | TableRepair] = [*self.manifests, *self.histories, *self.tables]
        return any(repair.outcome is RepairOutcome.PUBLISHED for repair in repairs)


def repair(session: Session, call: RepairCall) -> RepairResult:
    """Find damage and what can replace it; publish the replacements if confirmed.

    It can be cancelled until the first repair is published; from then on it finishes, so that the result is reported.

    Raises:
        ForeignFileError: A link, a pipe or a device lies among the tables.
        NotAGraphError: There is no graph and no trace of one.
        BranchMissingError: There is no branch of that name.
        BadArgumentError: The copy to fetch files from is of another graph.
        ConflictError: Other writers kept writing to the tables that are repaired.
        TooSlowError: Cleanups kept running in the meantime.
    """
    _allow(session, call)
    check_signature(call.actor, call.message, None)
    if call.confirm:
        session.check_writable()
    # A file hidden by a link is not lost, and going back to an earlier version would lose it.
    for error in (error for root in TABLE_ROOTS for error in session.store.find_foreign_files(root)):
        raise error
    if call.source is not None:
        return _fetch(session, call, call.source)
    report = _RepairReport()
    cache = VersionStateCache()

    def check_cancelled() -> None:
        if not report.has_published:
            session.check_cancelled()

    cancellable = with_cancellation(session, check_cancelled)
    for inspection in _inspect_manifests(open_fresh_session(cancellable), call.branch):
        _repair_branch(cancellable, inspection, call, report, cache)
    return RepairResult(
        uri=session.uri,
        is_confirmed=call.confirm,
        manifests=tuple(report.manifests),
        tables=tuple(report.tables),
        histories=tuple(report.histories),
        moved_heads=report.moved_heads,
    )


def _fetch(session: Session, call: RepairCall, source: str) -> RepairResult:
    """Restore missing and damaged files of all branches from a copy; no commit is made."""
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
        raise WrongActorError.actor_differs(session.actor.name, call.actor)


def _inspect_manifests(session: Session, branch: str | None) -> list[ManifestInspection]:
    """Inspect the manifest of main, then those of the other branches, or only that of one branch."""
    session.check_cancelled()
    main = inspect_manifest(session.store, MAIN, MANIFEST, _check_schema)
    if main.newest == 0:
        refuse_no_graph(session)
    live = {} if main.head is None else main.head.snapshot.manifest.live_branches
    names = (MAIN, *sorted(live))
    if branch is not None and branch not in names:
        raise BranchMissingError(branch, names, find_closest(branch, names))
    inspections = [main] if branch in (None, MAIN) else []
    for name in names[1:]:
        if branch in (None, name):
            session.check_cancelled()
            inspections.append(inspect_manifest(session.store, name, live[name].path, _check_schema))
    if main.head is None:
        return inspections
    # A manifest that was rolled back is valid in itself. Commits that other manifests and sidecars reference reveal the
    # versions that it lost.
    unregistered = find_unregistered(session.store, main.head.snapshot.manifest.branches)
    seen = (main, *(inspection for inspection in inspections if inspection is not main))
    operations = find_operation_references(stored.sidecar for stored in list_sidecars(session.store)[0])
    marks = [*find_manifest_marks(seen, unregistered), *_find_merged_marks(session, seen), *operations]
    lost = {mark.path: mark for mark in find_lost_marks(session.store, marks, inspections)}
    return [_mark_rolled_back(inspection, lost.get(inspection.path)) for inspection in inspections]


def _check_schema(manifest: Manifest) -> None:
    """Check that the schema of a state can be read; its tables need it.

    Raises:
        ManifestCorruptError: It can't be decoded.
    """
    try:
        decode_catalog(manifest.schema.catalog.encode())
    except CatalogCorruptError as error:
        raise ManifestCorruptError(f"the schema can't be read: {error.place} {error.reason}") from error


def _find_merged_marks(session: Session, inspections: Iterable[ManifestInspection]) -> Iterator[CommitReference]:
    """Yield references to the commits that branches have merged, from the readable part of their histories."""
    for inspection in inspections:
        try:
            if inspection.head is not None:
                yield from find_merge_references(iter_own_commits(inspection.head, session.store))
        except (DamagedError, ManifestCorruptError) as error:
            telemetry_log.info("stopped reading the history of %s: %s", inspection.branch, error)


def _mark_rolled_back(inspection: ManifestInspection, mark: CommitReference | None) -> ManifestInspection:
    """Return the inspection of a manifest with a fault if something else references a commit that it has lost.

    The number of its newest version is estimated: each commit made at least one version.
    """
    if mark is None or inspection.head is None:
        return inspection
    fault = ManifestFault(kind=ManifestFaultKind.ROLLED_BACK, place=inspection.path, reason=str(mark))
    missing = max(mark.seq - inspection.head.snapshot.commit.seq, 0)
    return replace(inspection, newest=inspection.newest + missing, fault=fault)


def _repair_branch(
    session: Session, inspection: ManifestInspection, call: RepairCall, report: _RepairReport, cache: VersionStateCache
) -> None:
    inspection, repaired = _mend_manifest(session, inspection, call)
    if repaired is not None:
        report.manifests.append(repaired)
        # Without a usable manifest there is no state to plan table repairs on.
        if inspection.head is None or (call.confirm and repaired.outcome is not RepairOutcome.PUBLISHED):
            return
    report.histories += _retry(inspection, lambda: _repair_history(open_fresh_session(session), inspection, call))
    tables, moved = _retry(inspection, lambda: _attempt(open_fresh_session(session), inspection, call, cache))
    report.tables += tables
    report.moved_heads |= moved


def _retry(inspection: ManifestInspection, attempt: Callable[[], T]) -> T:
    """Run an attempt, again from the start if another writer has changed what is repaired."""
    for _ in range(MAX_ATTEMPTS - 1):
        try:
            return attempt()
        except (ConflictError, TooSlowError) as error:
            telemetry_log.info("planning the repair of %s again: %s", inspection.branch, error)
    return attempt()


# --- a manifest ------------------------------------------------------------------------------------------


def _mend_manifest(
    session: Session, inspection: ManifestInspection, call: RepairCall
) -> tuple[ManifestInspection, ManifestRepair | None]:
    """Repair a manifest if it has a fault; inspect it again if another repair is running."""
    for left in reversed(range(MAX_ATTEMPTS)):
        if inspection.fault is None:
            break
        try:
            return inspection, _repair_manifest(session, inspection, call)
        except ConflictError as error:
            if not left:
                raise
            telemetry_log.info("inspecting the manifest of %s again: %s", inspection.branch, error)
        inspection = inspect_manifest(session.store, inspection.branch, inspection.path, _check_schema)
    if call.confirm and inspection.fault is None:
        _finish_manifest(open_fresh_session(session), inspection, call)
    return inspection, None


def _repair_manifest(session: Session, inspection: ManifestInspection, call: RepairCall) -> ManifestRepair:
    """Go back to the newest readable version of a manifest.

    It needs force, because it is unknown what the unreadable versions have published.
    """
    assert inspection.fault is not None  # noqa: S101 - it is called only then
    snapshot = None if inspection.head is None else inspection.head.snapshot
    planned = ManifestRepair(
        branch=inspection.branch,
        path=inspection.path,
        reason=f"{inspection.fault.place}: {inspection.fault.reason}",
        from_version=inspection.newest,
        to_version=None if snapshot is None else snapshot.manifest_version,
        to_commit=None if snapshot is None else snapshot.commit.id,
        to_time=None if snapshot is None else snapshot.commit.at,
    )
    # A manifest in another format may be undamaged, so not even force replaces it.
    is_hopeless = snapshot is None or inspection.fault.kind is ManifestFaultKind.FORMAT
    if is_hopeless or not call.confirm or not call.force:
        is_refused = is_hopeless or (call.confirm and not call.force)
        return msgspec.structs.replace(planned, outcome=RepairOutcome.REFUSED if is_refused else RepairOutcome.PLANNED)
    session.runtime.faults.reach("repair.looked")
    # The versions that a rolled-back manifest lost are not there to be put aside.
    if inspection.fault.kind is not ManifestFaultKind.ROLLED_BACK:
        put_aside(session.store, inspection)
    head = _publish_beyond(open_fresh_session(session), inspection, inspection.newest, call)
    return msgspec.structs.replace(planned, outcome=RepairOutcome.PUBLISHED, commit_id=head.snapshot.commit.id)


def _finish_manifest(session: Session, inspection: ManifestInspection, call: RepairCall) -> None:
    """Finish an earlier repair of the manifest that died after it had put versions aside."""
    highest = find_unfinished(list_asides(session.store), inspection)
    if highest is not None:
        _publish_beyond(session, inspection, highest, call)


def _publish_beyond(session: Session, inspection: ManifestInspection, number: int, call: RepairCall) -> Head:
    how = (
        "is lost"
        if inspection.fault is not None and inspection.fault.kind is ManifestFaultKind.ROLLED_BACK
        else "can't be read"
    )
    message = call.message or f"went back from version {number} of the manifest, which {how}"
    return publish_beyond(_open_log(session, inspection), number, actor=call.actor, message=message)


def _open_log(session: Session, inspection: ManifestInspection) -> ManifestLog:
    """Return the log of a branch, through which its parents can be found too."""
    if inspection.path == MANIFEST:
        return session.log
    return ManifestLog(session.store, inspection.branch, inspection.path)


# --- a history ------------------------------------------------------------------------------------------


def _repair_history(session: Session, inspection: ManifestInspection, call: RepairCall) -> list[HistoryRepair]:
    """Cut the history before a part of the journal that can't be read.

    It needs force, because the content of that part is unknown.
    """
    log = _open_log(session, inspection)
    session.check_cancelled()
    head = _choose_head(log, inspection, call)
    damage = find_journal_damage(head, session.store)
    if damage is None:
        return []
    planned = HistoryRepair(
        branch=inspection.branch,
        place=damage.place,
        reason=damage.reason,
        oldest_commit=damage.oldest.id,
        oldest_time=damage.oldest.at,
    )
    if not call.confirm:
        return [planned]
    if not call.force or not damage.lost:
        return [msgspec.structs.replace(planned, outcome=RepairOutcome.REFUSED)]
    message = call.message or f"the history before commit {damage.oldest.id} can't be read"
    new_head = cut_history(log, head, damage, actor=call.actor, message=message)
    return [msgspec.structs.replace(planned, outcome=RepairOutcome.PUBLISHED, commit_id=new_head.snapshot.commit.id)]


def _choose_head(log: ManifestLog, inspection: ManifestInspection, call: RepairCall) -> Head:
    """Return the newest state of a branch; in a preview of a damaged manifest, the newest readable one."""
    head = log.head() if call.confirm or inspection.fault is None else inspection.head
    assert head is not None  # noqa: S101 - without one there is nothing to plan
    return head


# --- tables ----------------------------------------------------------------------------------------------


def _attempt(
    session: Session, inspection: ManifestInspection, call: RepairCall, cache: VersionStateCache
) -> tuple[list[TableRepair], dict[str, int]]:
    """Plan the repair of all tables on the newest state of a branch, and publish the plans that are allowed."""
    log = _open_log(session, inspection)
    head = _choose_head(log, inspection, call)
    catalog = session.load_catalog(head.snapshot)
    types = {key: type_ for key, type_ in map_types(catalog).items() if key in head.snapshot.manifest.pins}
    session.check_cancelled()
    listings = list_tables(session)
    planner = BranchPlanner(session, log, head, listings, cache)
    candidates = {key: planner.plan(type_, is_deep=call.deep) for key, type_ in types.items()}
    plans = {key: plan for key, plan in candidates.items() if plan is not None}
    chosen = {key: plan for key, plan in plans.items() if call.force or plan.certainty is Certainty.VERIFIED}
    dangling = find_dangling_edges(session, head.snapshot, catalog, chosen if call.confirm else plans)
    published = None
    if call.confirm and chosen:
        session.runtime.faults.reach("repair.planned")
        try:
            published = _publish(session, log, head, chosen, types, call)
        except TooSlowError:
            # A cleanup may have removed versions that were read before.
            cache.clear()
            raise
    tables = [
        TableRepair(
            branch=inspection.branch,
            plan=plan,
            outcome=_choose_outcome(call, is_chosen=key in chosen),
            commit_id=published.commit.id if published is not None and key in chosen else None,
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
    """Publish all chosen plans in one commit, which conflicts with any concurrent write to one of these tables."""
    records = head.snapshot.manifest.tables
    without_rows = {key: plan for key, plan in chosen.items() if plan.remedy is Remedy.WITHOUT_ROWS}
    targets = {key: plan.target for key, plan in chosen.items() if plan.target is not None}
    adopted = {key: target for key, target in targets.items() if key not in without_rows}
    moves = [_drop_indexes(session, key, chosen[key]) for key in adopted if chosen[key].dropped_indexes]
    moves += [_drop_lost_rows(session, key, plan) for key, plan in without_rows.items()]
    new_tables = [_build_empty_table(session, types[key], records[key]) for key in chosen if key not in targets]
    plan = CommitPlan(
        base=head,
        operation=OPERATION,
        actor=call.actor,
        message=call.message or _format_message(chosen.values()),
        moves=tuple(moves),
        adopted={
            key: AdoptedTable(record=_build_record(records[key], pin.path), pin=pin) for key, pin in adopted.items()
        },
        new_tables=tuple(new_tables),
        requirements=tuple(TableUnchanged(table_key=key) for key in chosen),
        outlives_cleanup=False,
    )
    return publish(log, session.handles, plan)


def _build_record(record: TableRecord, path: str) -> TableRecord:
    """Return the table's record with the path of the adopted version, which may be that of an earlier incarnation."""
    if record.path == path:
        return record
    return TableRecord(table_key=record.table_key, path=path, identity=record.identity, incarnation=record.incarnation)


def _format_message(plans: Iterable[TableRepairPlan]) -> str:
    return ", ".join(f"{plan.pin.table_key}: {plan.remedy.value.replace('_', ' ')}" for plan in plans)


def _drop_indexes(session: Session, key: str, plan: TableRepairPlan) -> Move:
    """Stage a version of the table without its damaged indexes; its data files stay the same."""
    assert plan.target is not None  # noqa: S101 - it is called only then
    table = LanceTable(session.handles, plan.target.path, plan.target.version)
    useless = [
        segment.text
        for index in list_stored_indexes(table)
        for segment in index.segments
        if index.name in plan.dropped_indexes
    ]
    return Move(table_key=key, staged=stage_segments(table, [], useless))


def _drop_lost_rows(session: Session, key: str, plan: TableRepairPlan) -> Move:
    """Stage a version of the table without the fragments whose files can't be read."""
    table = LanceTable(session.handles, plan.pin.path, plan.pin.version)
    return Move(table_key=key, staged=stage_removal(table, plan.lost_fragments))


def _build_empty_table(session: Session, type_: AnyType, record: TableRecord) -> NewTable:
    """Return a new, empty table at a path never used before."""
    kind = "node" if isinstance(type_, NodeType) else "edge"
    incarnation = record.incarnation + 1
    # The files of the damaged table stay where they are, so that the repair can be undone.
    while session.store.objects.list_under(build_table_path(kind, type_.name, incarnation)):
        incarnation += 1
    path = build_table_path(kind, type_.name, incarnation)
    new_record = TableRecord(table_key=type_.table_key, path=path, identity=type_.identity, incarnation=incarnation)
    return NewTable(record=new_record, schema=build_arrow_schema(type_))
