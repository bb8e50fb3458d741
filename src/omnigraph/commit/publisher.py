"""The one way a change becomes visible: arm, apply, publish, disarm.

    A  arm      one sidecar                         names the files, in case we die
    B  apply    one detached version per table      invisible
    C  publish  one swap of the manifest            visible, whole
    D  disarm   the sidecar goes

Losing the swap is normal: the plan is moved onto the new head and tried again, a few times.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from msgspec import structs

from omnigraph.clock import format_instant
from omnigraph.commit.branch_lock import get_branch_lock
from omnigraph.commit.commit_clock import compute_commit_time
from omnigraph.commit.commit_plan import CommitPlan, Move, NewTable
from omnigraph.commit.conflict import ConflictError
from omnigraph.commit.digests import add_digest
from omnigraph.commit.gc_horizon import (
    TooSlowError,
    check_base_retained,
    check_merge_source_retained,
    check_staged_files,
)
from omnigraph.commit.idempotency import check_same_request, find_earlier_commit
from omnigraph.commit.manifest_log import Head, ManifestLog, OutcomeUnknownError, create_log
from omnigraph.commit.manifest_types import (
    MAIN,
    MAINTENANCE,
    Commit,
    Manifest,
    Pin,
    PinChange,
    SchemaRecord,
    TableRecord,
)
from omnigraph.commit.rebase import check_if_commit, find_changed_tables, rebase
from omnigraph.commit.recovery import recover_when_due
from omnigraph.commit.schema_copy import write_schema_copy
from omnigraph.commit.sidecar import FencedError, Lease, Sidecar
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.storage.cas_table_errors import SwapLostError
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.layout import format_version_name
from omnigraph.storage.object_store import StoreUnavailableError
from omnigraph.storage.staging import StagedWrite
from omnigraph.storage.table_cache import TableCache
from omnigraph.storage.version_files import find_used_lists
from omnigraph.storage.versions import apply, build_preview, create_table, list_detached_files
from omnigraph.telemetry import log as telemetry_log

MAX_ROUNDS = 100
"""How many swaps may be lost in all; rounds lost over tables of one's own are bounded by the options."""
MAX_DOUBLINGS = 5


@dataclass(frozen=True, slots=True)
class PublishResult:
    """A publish that happened. `is_repeated` means that an earlier try with the same idempotency key did it."""

    commit: Commit
    head: Head
    is_repeated: bool = False


@dataclass(frozen=True, slots=True)
class _AppliedPlan:
    """The pins that the detached versions of a plan give; moved tables are named as before."""

    moved: dict[str, Pin]
    created: dict[str, Pin]
    new_tables: tuple[NewTable, ...]


@dataclass(frozen=True, slots=True)
class ArmedWrite:
    """A write that has said what it is about to do, before it makes its first file."""

    commit_id: str
    lease: Lease
    keeps_staged: bool = False
    """Whether a conflict leaves the staged files and the lease to the caller, who may try again with both."""
    epoch: int | None = None
    """The last cleanup before the first file was made."""


def arm(log: ManifestLog, base: Head, *, operation: str, actor: str, keeps_staged: bool = False) -> ArmedWrite:
    """Put a sidecar for a write whose staging takes long. It ends by `publish`, or `abandon` if it comes to nothing.

    Name each staged file to its lease as soon as it exists: then nothing of a write that dies is left for long.
    """
    commit_id = log.store.runtime.ids.ulid()
    lease = _arm_lease(log, base, operation, actor, commit_id, ())
    log.store.runtime.faults.reach("publish.armed")
    return ArmedWrite(commit_id, lease, keeps_staged, base.snapshot.manifest.gc_horizon.epoch)


def abandon(
    log: ManifestLog, armed: ArmedWrite | None, files: Iterable[str], error: BaseException | None = None
) -> None:
    """Remove the files of a staged write that will not be published, then its sidecar if it has one.

    Raises:
        FencedError: It ends by `error` after recovery has cancelled it, and that is why, or comes first.
    """
    lease = None if armed is None else armed.lease
    if lease is None or error is None or not lease.is_fenced():
        _give_up(log.store, lease, list(files))
        return
    _give_up(log.store, None, list(files))
    _stop_lease(lease)
    if isinstance(error, Exception):
        fenced = _build_fenced_error(lease, error)
        if fenced is not error:
            raise fenced from error


def publish(log: ManifestLog, handles: TableCache, plan: CommitPlan, armed: ArmedWrite | None = None) -> PublishResult:
    """Make a plan visible, whole; or raise ConflictError, FencedError or a store's error, with nothing visible.

    OutcomeUnknownError alone means that it may be visible. However it ends, `armed` is settled, but for a conflict of
    one that `keeps_staged`.
    """
    store = log.store
    commit_id = store.runtime.ids.ulid() if armed is None else armed.commit_id
    lease = None if armed is None else armed.lease
    made = [*plan.adopted_files, *(file for move in plan.moves for file in move.staged.files)]
    try:
        store.runtime.faults.reach("publish.staged")
        if lease is None and plan.needs_sidecar:
            lease = _arm_lease(log, plan.base, plan.operation, plan.actor, commit_id, made)
            store.runtime.faults.reach("publish.armed")
        if armed is not None and armed.epoch is not None:
            plan = replace(plan, epoch=min(armed.epoch, armed.epoch if plan.epoch is None else plan.epoch))
        done = _run_rounds(log, handles, plan, commit_id, lease, made)
    except OutcomeUnknownError:
        _stop_lease(lease)
        raise
    except Exception as error:
        if lease is not None and lease.is_fenced():
            _give_up(store, None, made)
            _stop_lease(lease)  # recovery is at it, and needs the sidecar until its audit row is written
            fenced = _build_fenced_error(lease, error)
            if fenced is error:
                raise
            raise fenced from error
        if isinstance(error, ConflictError) and armed is not None and armed.keeps_staged:
            kept = {*plan.adopted_files, *(file for move in plan.moves for file in move.staged.files)}
            _give_up(store, None, [file for file in made if file not in kept])
        else:
            _give_up(store, lease, made)
        raise
    except BaseException:
        _stop_lease(lease)  # interrupted at an unknown step: recovery decides
        raise
    if done.is_repeated:
        _give_up(store, lease, made)  # an earlier try did it: these files are nobody's
        return done
    if plan.schema is not None:
        write_schema_copy(log, done.head)  # while the sidecar is there: recovery writes it for a process that dies
    if lease is not None:
        lease.disarm()
        store.runtime.faults.reach("publish.disarmed")
    recover_when_due(store, log)
    return done


def lay_out(handles: TableCache, staged: StagedWrite) -> StagedWrite:
    """Rewritten fragments with a version of their own, which can be read and indexed, and which nobody else knows.

    Or other columns, likewise.
    """
    return replace(staged, preview=build_preview(handles, staged))


def reshape(handles: TableCache, staged: StagedWrite) -> tuple[int, tuple[str, ...]]:
    """A version of a table with other columns, durable, which nobody knows but the caller; and all files of it.

    It is for who adopts it in a commit of its own, or has to write rows on it first. `staged` changes columns alone.
    """
    version = apply(handles, staged, staged.base)
    files = (*staged.files, *list_detached_files(staged.path, [version]))
    handles.store.flush(files)
    handles.store.runtime.faults.reach("schema.reshaped")
    return version, files


def initialise(store: GraphStorage, tables: Iterable[NewTable], schema: SchemaRecord, actor: str) -> ManifestLog:
    """A new graph: its empty tables, then its manifest, whose creation is the visible moment.

    SwapLostError when somebody else made a graph here first.
    """
    faults = store.runtime.faults
    faults.reach("init.begin")
    pins: dict[str, Pin] = {}
    records = {}
    for table in tables:
        record = table.record
        version = create_table(store, record.path, table.schema)
        pin = Pin(table_key=record.table_key, path=record.path, version=version, rows=0)
        pins[record.table_key] = replace(pin, sum=_record_checksum(store, pin.path, pin.version, 0))
        records[record.table_key] = record
        faults.reach("init.table")
    commit = Commit(
        id=store.runtime.ids.ulid(),
        parent=None,
        seq=0,
        branch=MAIN,
        actor=actor,
        at=format_instant(store.runtime.clock.now()),
        operation="init",
        manifest_version=1,
        changes=tuple(_build_first_change(pin) for pin in pins.values()),
        schema_after=schema.id,
    )
    commit = add_digest(commit, None, schema)
    manifest = Manifest(schema=schema, tables=records, pins=pins, head=commit.id, commits=(commit,))
    log = create_log(store, manifest)
    faults.reach("init.manifest")
    return log


def _record_checksum(store: GraphStorage, path: str, version: int, rows: int) -> str | None:
    """Return the checksum of a version's file, which is remembered; None where it is not known or the file is gone.

    A file that a cleanup has taken from a writer that slept is found out before that writer's commit is visible.
    """
    try:
        found = store.verifier.checksum_version(path, version)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreUnavailableError(f"read a version of {path}", str(error)) from error
    store.verifier.expect(path, version, found, rows)
    return found


def _build_first_change(pin: Pin) -> PinChange:
    return PinChange(
        table_key=pin.table_key,
        path=pin.path,
        before=None,
        after=str(pin.version),
        rows_after=pin.rows,
        sum_after=pin.sum,
    )


def _arm_lease(log: ManifestLog, base: Head, operation: str, actor: str, commit_id: str, files: Iterable[str]) -> Lease:
    store = log.store
    lease = Lease(
        store,
        Sidecar(
            id=store.runtime.ids.ulid(),
            commit_id=commit_id,
            branch=log.branch,
            manifest_path=log.path,
            base_seq=base.snapshot.commit.seq,
            operation=operation,
            actor=actor,
            started_at=format_instant(store.runtime.clock.now()),
            files=tuple(files),
        ),
    )
    lease.arm()
    return lease


def _stop_lease(lease: Lease | None) -> None:
    """Stop renewing and let the sidecar be: whoever comes next can tell what happened."""
    if lease is not None:
        lease.stop()


def _build_fenced_error(lease: Lease, error: Exception) -> Exception:
    """Return what a writer is told that recovery has cancelled, whatever it stumbled over: its files may be gone.

    One that is not wanted any more, or has used up its budget, is told that.
    """
    is_own = isinstance(error, OmnigraphError) and error.kind is Kind.EXHAUSTED
    return error if is_own or isinstance(error, FencedError) else FencedError(lease.operation_id)


def _give_up(store: GraphStorage, lease: Lease | None, made: list[str]) -> None:
    """Nothing is visible and nothing will be: remove what was made, then the sidecar; if that fails, recovery does."""
    try:
        for file in dict.fromkeys(made):
            store.objects.delete(file)
    except StoreUnavailableError as error:
        telemetry_log.warning("files of a write that failed were not removed: %s", error)
        _stop_lease(lease)
        return
    if lease is not None:
        lease.disarm()


def _run_rounds(
    log: ManifestLog, handles: TableCache, plan: CommitPlan, commit_id: str, lease: Lease | None, made: list[str]
) -> PublishResult:
    """Apply and swap until one swap is won. Every file that is made on the way is added to `made`."""
    options, clock, ids = log.store.runtime.options, log.store.runtime.clock, log.store.runtime.ids
    earlier = find_earlier_commit(
        log,
        plan.base,
        operation=plan.operation,
        actor=plan.actor,
        key=plan.idempotency_key,
        request=plan.request,
    )
    if earlier is not None:
        return PublishResult(earlier, plan.base, is_repeated=True)
    check_if_commit(plan, log.iter_history(plan.base))
    workshop = _VersionBuilder(log.store, handles, log.branch, made)
    plan = replace(plan, epoch=_find_epoch(plan))
    _check_uncollected(log, plan, plan.base, made, lease)
    contended = lost = 0
    while contended < options.publish_rounds and lost < MAX_ROUNDS:
        if plan.watch is not None:
            plan.watch.check()  # the last look of a round: once its swap is sent, the commit may be visible
        applied = workshop.apply(plan)
        if lease is not None:
            lease.confirm(dict.fromkeys(made))
        manifest = _build_next_manifest(log, plan, applied, commit_id)
        try:
            with get_branch_lock(log.store.location.uri, log.path):
                head = log.publish(plan.base, manifest)
        except SwapLostError:
            lost += 1
            clock.sleep(ids.jitter(options.backoff_seconds * 2 ** min(lost, MAX_DOUBLINGS)))
            newest = log.head()
            between = log.read_since(newest, plan.base.snapshot.commit.seq)
            for commit in between:
                if commit.id == commit_id or _is_same_request(plan, commit):
                    return PublishResult(commit, newest, is_repeated=commit.id != commit_id)
            contended += _is_contended(plan, newest, between)
            _check_uncollected(log, plan, newest, made, lease)
            plan = rebase(plan, newest, between, handles)
            continue
        return PublishResult(manifest.head_commit, head)
    base, found = plan.base.snapshot.commit.id, log.head().snapshot.commit.id
    raise ConflictError("graph_head", base, found, f"{lost} rounds were lost to other writers")


def _find_epoch(plan: CommitPlan) -> int:
    of_base = plan.base.snapshot.manifest.gc_horizon.epoch
    return of_base if plan.epoch is None else min(plan.epoch, of_base)


def _check_uncollected(
    log: ManifestLog, plan: CommitPlan, newest: Head, made: Iterable[str], lease: Lease | None
) -> None:
    """TooSlowError when a cleanup came since the plan was begun, and took something that the plan stands on.

    Nothing to look at when none came; one that comes from now on moves the manifest, and is seen after a lost swap.
    """
    floor = newest.snapshot.manifest.gc_horizon
    if floor.epoch == plan.epoch:
        return
    if not plan.outlives_cleanup:
        raise TooSlowError(floor.epoch, "may have taken the versions that it goes back to")
    check_base_retained(floor, plan.base.snapshot.commit)
    check_staged_files(log.store, floor, made, is_leased=lease is not None)
    if plan.merged_from is not None:
        check_merge_source_retained(log, floor, plan.merged_from)


def _is_contended(plan: CommitPlan, newest: Head, between: Sequence[Commit]) -> bool:
    """Whether a round was lost over a table that matters to this write; losing to strangers is only bad luck.

    Maintenance takes no round from a write, and loses none to one: it gives way for as long as it has to.
    """
    if plan.operation in MAINTENANCE:
        return False
    mine = {move.table_key for move in plan.moves} | {requirement.table_key for requirement in plan.requirements}
    mine |= plan.adopted.keys()
    return bool(mine & find_changed_tables(plan.base.snapshot, newest.snapshot, between))


def _is_same_request(plan: CommitPlan, commit: Commit) -> bool:
    """Whether an earlier try of the same request made this commit; KeyReusedError when it was another request."""
    key = plan.idempotency_key
    if key is None or (commit.actor, commit.idempotency_key) != (plan.actor, key):
        return False
    check_same_request(commit, plan.operation, plan.request)
    return True


class _VersionBuilder:
    """Makes a plan's versions, and keeps those of an earlier round that still fit. Every file goes into `made`."""

    def __init__(self, store: GraphStorage, handles: TableCache, branch: str, made: list[str]) -> None:
        self._store, self._handles, self._branch, self._files = store, handles, branch, made
        self._created: dict[str, Pin] = {}
        self._versions: dict[str, tuple[Move, int, int]] = {}

    def apply(self, plan: CommitPlan) -> _AppliedPlan:
        """The pins of new tables and of every moved one, durable and invisible."""
        known = len(self._files)
        for table in plan.new_tables:
            self._create(table)
        moved: dict[str, Pin] = {}
        for move in plan.moves:
            taken = plan.adopted.get(move.table_key)
            base = plan.base.snapshot.pins[move.table_key] if taken is None else taken.pin
            version = self._build_version(move, base.version)
            lists = base.lists
            if lists and plan.operation in MAINTENANCE:  # which alone rewrites what is there
                lists = find_used_lists(self._handles, base.path, version, lists)
            moved[move.table_key] = replace(
                base, version=version, rows=move.staged.rows_after, branch=self._branch, lists=lists
            )
        self._store.flush(self._files[known:])
        self._store.runtime.faults.reach("publish.flushed")
        return _AppliedPlan(moved, dict(self._created), plan.new_tables)

    def _build_version(self, move: Move, base: int) -> int:
        known = self._versions.get(move.table_key)
        if known is not None and known[0].staged is move.staged and known[1] == base:
            return known[2]
        self._files += move.staged.files
        version = apply(self._handles, move.staged, base)
        _record_checksum(self._store, move.staged.path, version, move.staged.rows_after)
        self._versions[move.table_key] = (move, base, version)
        self._files += list_detached_files(move.staged.path, [version])
        self._store.runtime.faults.reach("publish.applied")
        return version

    def _create(self, table: NewTable) -> None:
        record = table.record
        if record.table_key in self._created:
            return
        version = create_table(self._store, record.path, table.schema)
        _record_checksum(self._store, record.path, version, 0)
        self._files.append(f"{record.path}/{format_version_name(version)}")
        self._created[record.table_key] = Pin(
            table_key=record.table_key, path=record.path, version=version, rows=0, branch=self._branch
        )


def _build_next_manifest(log: ManifestLog, plan: CommitPlan, applied: _AppliedPlan, commit_id: str) -> Manifest:
    """The manifest after this commit: the base's, with new pins, tables, schema and one more commit."""
    snapshot = plan.base.snapshot
    old = snapshot.manifest
    dropped = {key: old.pins[key] for key in plan.dropped_tables}
    purged = {purge.table_key for purge in plan.purged if purge.property is None}
    renamed = plan.renamed_tables
    there = {**old.pins, **applied.moved}
    pins = {key: pin for key, pin in there.items() if key not in dropped and key not in renamed}
    pins |= {new: replace(there[key], table_key=new) for key, new in renamed.items()}
    pins |= applied.created
    pins |= {key: applied.moved.get(key, one.pin) for key, one in plan.adopted.items()}
    tables = {key: table for key, table in old.tables.items() if key not in renamed and key not in purged}
    tables |= {new: structs.replace(old.tables[key], table_key=new) for key, new in renamed.items()}
    tables |= {table.record.table_key: table.record for table in applied.new_tables}
    tables |= {key: one.record for key, one in plan.adopted.items()}
    touched = dict.fromkeys((*applied.created, *applied.moved, *plan.adopted, *dropped, *renamed, *renamed.values()))
    for key in touched.keys() & pins.keys():
        pin = pins[key]
        pins[key] = replace(pin, sum=_record_checksum(log.store, pin.path, pin.version, pin.rows))
    touched |= dict.fromkeys(key for key, pin in pins.items() if pin.path in plan.recorded)
    pins = {key: _add_recorded(plan, pin) for key, pin in pins.items()}
    changes = [_build_change(key, old, pins.get(key), tables.get(key)) for key in touched]
    commit = Commit(
        id=commit_id,
        parent=old.head,
        merged_parent=plan.merged_parent,
        merged_from=plan.merged_from,
        seq=snapshot.commit.seq + 1,
        branch=log.branch,
        actor=plan.actor,
        at=compute_commit_time(log.store, snapshot.commit),
        operation=plan.operation,
        message=plan.message,
        manifest_version=snapshot.manifest_version + 1,
        changes=tuple(changes),
        schema_before=old.schema.id if plan.schema else None,
        schema_after=plan.schema.id if plan.schema else None,
        idempotency_key=plan.idempotency_key,
        request=plan.request,
        affected_nodes=plan.affected[0] if plan.affected else None,
        affected_edges=plan.affected[1] if plan.affected else None,
        summary=plan.summary,
        purged=plan.purged,
    )
    commit = add_digest(commit, snapshot.commit, plan.schema or old.schema)
    hidden = {**old.dropped, **{key: pin for key, pin in dropped.items() if key not in purged}}
    return replace(
        old,
        schema=plan.schema or old.schema,
        old_schemas=(*old.old_schemas, old.schema) if plan.schema else old.old_schemas,
        tables=tables,
        pins=pins,
        dropped={key: _add_recorded(plan, pin) for key, pin in hidden.items() if key not in pins},
        head=commit_id,
        commits=(*old.commits, commit),
    )


def _add_recorded(plan: CommitPlan, pin: Pin) -> Pin:
    recorded = plan.recorded.get(pin.path)
    return pin if recorded is None else recorded.apply(pin)


def _build_change(table_key: str, old: Manifest, after: Pin | None, table: TableRecord | None) -> PinChange:
    """What a commit does to a key: its pin, and which table it stands for."""
    before, known = old.pins.get(table_key), old.tables.get(table_key)
    pin = after or before
    sum_before, lists = (before.sum, before.lists) if before else (None, ())
    if before and after and before.version == after.version:
        # What is recorded of a version that stays is true of it before as well.
        sum_before, lists = after.sum, ()
    return PinChange(
        table_key=table_key,
        path=pin.path if pin else "",
        before=str(before.version) if before else None,
        after=str(after.version) if after else None,
        rows_before=before.rows if before else 0,
        rows_after=after.rows if after else 0,
        replaced=known if known != table else None,
        branch_before=before.branch if before else MAIN,
        sum_before=sum_before,
        sum_after=after.sum if after else None,
        lists_before=tuple(one for one in lists if after and one not in after.lists),
    )
