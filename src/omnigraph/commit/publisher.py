"""Publish commits: arm, apply, publish, disarm. No change becomes visible in any other way.

    A  arm      one sidecar                         names the files, in case we die
    B  apply    one detached version per table      invisible
    C  publish  one swap of the manifest            visible, whole
    D  disarm   the sidecar is removed

Losing the swap is normal: the plan is moved onto the new head and tried again, a few times.
"""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack, nullcontext
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

# The number of swaps that a write may lose in all. Rounds lost over tables that the write itself uses have a lower
# limit, `Options.publish_rounds`.
MAX_ROUNDS = 100
# Back-off doubles up to 32 times `Options.backoff_seconds`.
MAX_DOUBLINGS = 5


@dataclass(frozen=True, slots=True)
class PublishResult:
    """The commit of a publish. With `is_repeated`, an earlier request with the same idempotency key created it."""

    commit: Commit
    head: Head
    is_repeated: bool = False


@dataclass(frozen=True, slots=True)
class _AppliedPlan:
    """The pins of the detached versions that a plan creates; moved tables are under their old keys."""

    moved: dict[str, Pin]
    created: dict[str, Pin]
    new_tables: tuple[NewTable, ...]


@dataclass(frozen=True, slots=True)
class ArmedWrite:
    """A write whose sidecar was put before its first file."""

    commit_id: str
    lease: Lease
    keeps_staged: bool = False
    """Whether a conflict leaves the staged files and the lease to the caller, which may try again with both."""
    epoch: int | None = None
    """The last cleanup before the first file was created."""


def arm(log: ManifestLog, base: Head, *, operation: str, actor: str, keeps_staged: bool = False) -> ArmedWrite:
    """Put the sidecar of a write whose staging takes long.

    `publish` or `abandon` ends it. Name each staged file to its lease as soon as it exists: then the files of a write
    that dies are soon removed.
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
        FencedError: Recovery has cancelled the write, and `error` is a consequence of that or came later.
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
    """Make a plan visible as a whole.

    The lease of `armed` is ended, except after a conflict of a write that `keeps_staged`.

    Raises:
        ConflictError: Another commit contradicts the plan.
        FencedError: Recovery has cancelled the write.
        OutcomeUnknownError: The store stopped answering; the commit may be visible. After any other error it is not.
    """
    store = log.store
    commit_id = store.runtime.ids.ulid() if armed is None else armed.commit_id
    lease = None if armed is None else armed.lease
    files = [*plan.adopted_files, *(path for move in plan.moves for path in move.staged.files)]
    try:
        store.runtime.faults.reach("publish.staged")
        if lease is None and plan.needs_sidecar:
            lease = _arm_lease(log, plan.base, plan.operation, plan.actor, commit_id, files)
            store.runtime.faults.reach("publish.armed")
        if armed is not None and armed.epoch is not None:
            plan = replace(plan, epoch=min(armed.epoch, armed.epoch if plan.epoch is None else plan.epoch))
        with ExitStack() as turn:
            result = _run_rounds(log, handles, plan, commit_id, lease, files, turn)
    # The commit may be visible, so its files must stay; the sidecar stays, and recovery decides.
    except OutcomeUnknownError:
        _stop_lease(lease)
        raise
    except Exception as error:
        if lease is not None and lease.is_fenced():
            _give_up(store, None, files)
            # Recovery is working on it, and needs the sidecar until its audit row is written.
            _stop_lease(lease)
            fenced = _build_fenced_error(lease, error)
            if fenced is error:
                raise
            raise fenced from error
        if isinstance(error, ConflictError) and armed is not None and armed.keeps_staged:
            reusable = {*plan.adopted_files, *(path for move in plan.moves for path in move.staged.files)}
            _give_up(store, None, [path for path in files if path not in reusable])
        else:
            _give_up(store, lease, files)
        raise
    except BaseException:
        # Interrupted at an unknown step: recovery decides.
        _stop_lease(lease)
        raise
    if result.is_repeated:
        # An earlier request has committed the change: no commit refers to these files.
        _give_up(store, lease, files)
        return result
    # Before the sidecar is removed: recovery writes the copy for a process that dies here.
    if plan.schema is not None:
        write_schema_copy(log, result.head)
    if lease is not None:
        lease.disarm()
        store.runtime.faults.reach("publish.disarmed")
    recover_when_due(store, log)
    return result


def lay_out(handles: TableCache, staged: StagedWrite) -> StagedWrite:
    """Return a staged rewrite of fragments or columns with a preview version, which can be read and indexed.

    No manifest refers to the preview.
    """
    return replace(staged, preview=build_preview(handles, staged))


def reshape(handles: TableCache, staged: StagedWrite) -> tuple[int, tuple[str, ...]]:
    """Apply a staged change of columns; return the durable version and all its files.

    No manifest refers to the version yet. The caller adopts it in its own commit, or writes rows on it first.
    """
    version = apply(handles, staged, staged.base)
    files = (*staged.files, *list_detached_files(staged.path, [version]))
    handles.store.flush(files)
    handles.store.runtime.faults.reach("schema.reshaped")
    return version, files


def initialise(store: GraphStorage, tables: Iterable[NewTable], schema: SchemaRecord, actor: str) -> ManifestLog:
    """Create a new graph: its empty tables, then its manifest, which makes it visible.

    Raises:
        SwapLostError: Another process has created a graph here first.
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
    """Return the checksum of a version's file, and register it with the verifier.

    None if it is not known, or if the file does not exist: if cleanup has removed a file of a stalled writer, that is
    detected before the writer's commit is visible.
    """
    try:
        checksum = store.verifier.checksum_version(path, version)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreUnavailableError(f"read a version of {path}", str(error)) from error
    store.verifier.expect(path, version, checksum, rows)
    return checksum


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
    """Stop renewing a lease and leave its sidecar, from which recovery can determine what happened."""
    if lease is not None:
        lease.stop()


def _build_fenced_error(lease: Lease, error: Exception) -> Exception:
    """Return the error that a writer cancelled by recovery raises instead of `error`.

    Recovery may have removed its files, so any error may be a consequence. An exceeded budget or a cancellation by the
    caller is still reported as such.
    """
    is_exhausted = isinstance(error, OmnigraphError) and error.kind is Kind.EXHAUSTED
    return error if is_exhausted or isinstance(error, FencedError) else FencedError(lease.operation_id)


def _give_up(store: GraphStorage, lease: Lease | None, files: list[str]) -> None:
    """Remove the files of a write that is not visible and never will be, then its sidecar.

    If a file can't be removed, the sidecar stays and recovery removes the rest.
    """
    try:
        for path in dict.fromkeys(files):
            store.objects.delete(path)
    except StoreUnavailableError as error:
        telemetry_log.warning("files of a write that failed were not removed: %s", error)
        _stop_lease(lease)
        return
    if lease is not None:
        lease.disarm()


def _run_rounds(
    log: ManifestLog,
    handles: TableCache,
    plan: CommitPlan,
    commit_id: str,
    lease: Lease | None,
    files: list[str],
    turn: ExitStack,
) -> PublishResult:
    """Apply and swap until a swap is won. Every file that is created on the way is added to `files`.

    `turn` holds the lock of the branch while a plan that takes turns is rebased and tried again.
    """
    runtime = log.store.runtime
    options = runtime.options
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
    check_if_commit(plan.if_commit, log.iter_history(plan.base))
    builder = _VersionBuilder(log.store, handles, log.branch, files)
    plan = replace(plan, epoch=_find_epoch(plan))
    _check_uncollected(log, plan, plan.base, files, lease)
    contended = lost = 0
    while contended < options.publish_rounds and lost < MAX_ROUNDS:
        if plan.watch is not None:
            # The last check of the round: once its swap is sent, the commit may be visible.
            plan.watch.check()
        applied = builder.apply(plan)
        if lease is not None:
            lease.confirm(dict.fromkeys(files))
        manifest = _build_next_manifest(log, plan, applied, commit_id)
        try:
            # After a lost round, a plan that takes turns has the lock already.
            with nullcontext() if plan.takes_turn and lost else get_branch_lock(log.store.location.uri, log.path):
                head = log.publish(plan.base, manifest)
        except SwapLostError:
            lost += 1
            newest, between = _read_newer(log, plan, lost, turn)
            for commit in between:
                # A swap whose response was lost looks like a lost swap: this write's own commit is then in the history.
                if commit.id == commit_id or _is_same_request(plan, commit):
                    return PublishResult(commit, newest, is_repeated=commit.id != commit_id)
            contended += _is_contended(plan, newest, between)
            _check_uncollected(log, plan, newest, files, lease)
            plan = rebase(plan, newest, between, handles)
            continue
        return PublishResult(manifest.head_commit, head)
    base_id, newest_id = plan.base.snapshot.commit.id, log.head().snapshot.commit.id
    raise ConflictError("graph_head", base_id, newest_id, f"{lost} rounds were lost to other writers")


def _read_newer(log: ManifestLog, plan: CommitPlan, lost: int, turn: ExitStack) -> tuple[Head, list[Commit]]:
    """Return the newest head and the commits since the plan's base, after the wait that a lost swap calls for."""
    runtime = log.store.runtime
    turn.close()
    newest = log.head()
    between = log.read_since(newest, plan.base.snapshot.commit.seq)
    is_maintained = all(commit.is_maintenance for commit in between)
    # A commit of maintenance comes alone: after it there is nothing to wait for.
    if is_maintained and not plan.takes_turn:
        return newest, between
    if not is_maintained and not (plan.takes_turn and lost == 1):
        runtime.clock.sleep(runtime.ids.jitter(runtime.options.backoff_seconds * 2 ** min(lost, MAX_DOUBLINGS)))
    if plan.takes_turn:
        turn.enter_context(get_branch_lock(log.store.location.uri, log.path))
    newest = log.head()
    return newest, log.read_since(newest, plan.base.snapshot.commit.seq)


def _find_epoch(plan: CommitPlan) -> int:
    base_epoch = plan.base.snapshot.manifest.gc_horizon.epoch
    return base_epoch if plan.epoch is None else min(plan.epoch, base_epoch)


def _check_uncollected(
    log: ManifestLog, plan: CommitPlan, newest: Head, files: Iterable[str], lease: Lease | None
) -> None:
    """Check that no cleanup since the plan was begun has removed data that the plan depends on.

    Without a cleanup since, nothing is checked. A cleanup that runs from now on moves the manifest, so the swap is lost
    and this check is repeated.

    Raises:
        TooSlowError: A cleanup has removed such data, or may have.
    """
    horizon = newest.snapshot.manifest.gc_horizon
    if horizon.epoch == plan.epoch:
        return
    if not plan.outlives_cleanup:
        raise TooSlowError(horizon.epoch, "may have removed the versions that it restores")
    check_base_retained(horizon, plan.base.snapshot.commit)
    check_staged_files(log.store, horizon, files, is_leased=lease is not None)
    if plan.merged_from is not None:
        check_merge_source_retained(log, horizon, plan.merged_from)


def _is_contended(plan: CommitPlan, newest: Head, between: Sequence[Commit]) -> bool:
    """Return whether a round was lost over a table that this write uses.

    Rounds lost to unrelated commits do not count towards the lower limit. Maintenance never counts: it gives way to
    writes for as many rounds as it takes.
    """
    if plan.operation in MAINTENANCE:
        return False
    used_tables = {move.table_key for move in plan.moves} | {requirement.table_key for requirement in plan.requirements}
    used_tables |= plan.adopted.keys()
    return bool(used_tables & find_changed_tables(plan.base.snapshot, newest.snapshot, between))


def _is_same_request(plan: CommitPlan, commit: Commit) -> bool:
    """Return whether an earlier try of the same request created this commit.

    Raises:
        KeyReusedError: The commit has the same idempotency key, but was another request.
    """
    key = plan.idempotency_key
    if key is None or (commit.actor, commit.idempotency_key) != (plan.actor, key):
        return False
    check_same_request(commit, plan.operation, plan.request)
    return True


class _VersionBuilder:
    """Creates the table versions of a plan, and reuses those of an earlier round that still fit.

    Every file is appended to `files`.
    """

    def __init__(self, store: GraphStorage, handles: TableCache, branch: str, files: list[str]) -> None:
        self._store = store
        self._handles = handles
        self._branch = branch
        self._files = files
        self._created: dict[str, Pin] = {}
        # By table key: the move, the version it was applied to, and the version that resulted.
        self._versions: dict[str, tuple[Move, int, int]] = {}

    def apply(self, plan: CommitPlan) -> _AppliedPlan:
        """Create the new tables and the moved versions of a plan, durable and invisible; return their pins."""
        flushed = len(self._files)
        for table in plan.new_tables:
            self._create(table)
        moved: dict[str, Pin] = {}
        for move in plan.moves:
            adopted = plan.adopted.get(move.table_key)
            base = plan.base.snapshot.pins[move.table_key] if adopted is None else adopted.pin
            version = self._build_version(move, base.version)
            lists = base.lists
            # Only maintenance rewrites existing files, so only there a checksum list may no longer be needed.
            if lists and plan.operation in MAINTENANCE:
                lists = find_used_lists(self._handles, base.path, version, lists)
            moved[move.table_key] = replace(
                base, version=version, rows=move.staged.rows_after, branch=self._branch, lists=lists
            )
        self._store.flush(self._files[flushed:])
        self._store.runtime.faults.reach("publish.flushed")
        return _AppliedPlan(moved, dict(self._created), plan.new_tables)

    def _build_version(self, move: Move, base: int) -> int:
        built = self._versions.get(move.table_key)
        if built is not None and built[0].staged is move.staged and built[1] == base:
            return built[2]
        # Listed before the version is created, so that the files of a failed attempt are removed too.
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
    """Build the manifest of this commit: the base's, with new pins, tables and schema, and one more commit."""
    snapshot = plan.base.snapshot
    old = snapshot.manifest
    dropped = {key: old.pins[key] for key in plan.dropped_tables}
    # A hard drop of a whole type removes its record too, a soft drop keeps the table under `dropped`.
    purged = {purge.table_key for purge in plan.purged if purge.property is None}
    renamed = plan.renamed_tables
    current_pins = {**old.pins, **applied.moved}
    pins = {key: pin for key, pin in current_pins.items() if key not in dropped and key not in renamed}
    pins |= {new: replace(current_pins[key], table_key=new) for key, new in renamed.items()}
    pins |= applied.created
    pins |= {key: applied.moved.get(key, adopted.pin) for key, adopted in plan.adopted.items()}
    tables = {key: table for key, table in old.tables.items() if key not in renamed and key not in purged}
    tables |= {new: structs.replace(old.tables[key], table_key=new) for key, new in renamed.items()}
    tables |= {table.record.table_key: table.record for table in applied.new_tables}
    tables |= {key: adopted.record for key, adopted in plan.adopted.items()}
    touched = dict.fromkeys((*applied.created, *applied.moved, *plan.adopted, *dropped, *renamed, *renamed.values()))
    for key in touched.keys() & pins.keys():
        pin = pins[key]
        pins[key] = replace(pin, sum=_record_checksum(log.store, pin.path, pin.version, pin.rows))
    # `check --record` changes only what is recorded about a version, not the version.
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
    """Build the record of a commit's change to one table key: its pin, and the table that the key names."""
    before = old.pins.get(table_key)
    old_table = old.tables.get(table_key)
    pin = after or before
    sum_before, lists = (before.sum, before.lists) if before else (None, ())
    if before and after and before.version == after.version:
        # The checksum of a version that does not change holds for the state before as well.
        sum_before, lists = after.sum, ()
    return PinChange(
        table_key=table_key,
        path=pin.path if pin else "",
        before=str(before.version) if before else None,
        after=str(after.version) if after else None,
        rows_before=before.rows if before else 0,
        rows_after=after.rows if after else 0,
        replaced=old_table if old_table != table else None,
        branch_before=before.branch if before else MAIN,
        sum_before=sum_before,
        sum_after=after.sum if after else None,
        lists_before=tuple(name for name in lists if after and name not in after.lists),
    )
