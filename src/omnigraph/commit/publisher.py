"""Publish commits: arm, apply, publish, disarm. No change becomes visible in any other way.

    A  arm      one sidecar                         names the files, in case we die
    B  apply    one detached version per table      invisible
    C  publish  one swap of the manifest            visible, whole
    D  disarm   the sidecar is removed

Small writes of one process are published in groups, one swap for each group, see `group_commit`.
"""

from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, replace

from omnigraph.clock import format_instant
from omnigraph.commit.branch_errors import OutcomeUnknownError
from omnigraph.commit.commit_plan import CommitPlan, NewTable
from omnigraph.commit.commit_queue import get_queue
from omnigraph.commit.conflict import ConflictError
from omnigraph.commit.digests import add_digest
from omnigraph.commit.group_commit import PendingCommit, PublishResult, Replan, publish_group
from omnigraph.commit.idempotency import find_earlier_commit
from omnigraph.commit.manifest_log import Head, ManifestLog, create_log
from omnigraph.commit.manifest_types import MAIN, Commit, Manifest, Pin, PinChange, SchemaRecord
from omnigraph.commit.rebase import check_if_commit
from omnigraph.commit.recovery import recover_when_due
from omnigraph.commit.schema_copy import write_schema_copy
from omnigraph.commit.sidecar import FencedError, Lease, Sidecar
from omnigraph.commit.version_builder import record_checksum
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.object_store import StoreUnavailableError
from omnigraph.storage.staging import StagedWrite
from omnigraph.storage.table_cache import TableCache
from omnigraph.storage.versions import apply, build_preview, create_table, list_detached_files
from omnigraph.telemetry import log as telemetry_log


@dataclass(frozen=True, slots=True)
class ArmedWrite:
    """A write whose sidecar was put before its first file."""

    commit_id: str
    lease: Lease
    keeps_staged: bool = False
    """Whether a conflict leaves the staged files and the lease to the caller, which may try again with both."""
    epoch: int | None = None
    """The last cleanup before the first file was created."""


def arm(
    log: ManifestLog,
    base: Head,
    *,
    operation: str,
    actor: str,
    keeps_staged: bool = False,
    commit_id: str | None = None,
) -> ArmedWrite:
    """Put the sidecar of a write whose staging takes long.

    `publish` or `abandon` ends it. Name each staged file to its lease as soon as it exists: then the files of a write
    that dies are soon removed.
    """
    commit_id = commit_id or log.store.runtime.ids.ulid()
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
    result = publish_or_replan(log, handles, plan, armed, None)
    assert result is not None  # noqa: S101 - only a write that is run again may turn out to change nothing
    return result


def publish_or_replan(
    log: ManifestLog, handles: TableCache, plan: CommitPlan, armed: ArmedWrite | None, replan: Replan | None
) -> PublishResult | None:
    """Make a plan visible like `publish`; if other commits contradict it, run it again by `replan`.

    Return None if the plan of the last run changes nothing. `replan` may be called from another thread; without a
    sidecar, the write is published together with others of this process that wait.
    """
    store = log.store
    files = [*plan.adopted_files, *(path for move in plan.moves for path in move.staged.files)]
    commit_id = (plan.commit_id or store.runtime.ids.ulid()) if armed is None else armed.commit_id
    write = PendingCommit(log, handles, plan, commit_id, files, replan=replan)
    write.lease = None if armed is None else armed.lease
    try:
        store.runtime.faults.reach("publish.staged")
        with store.runtime.telemetry.span("commit"):
            result = _publish(write, armed)
    # The commit may be visible, so its files must stay; the sidecar stays, and recovery decides.
    except OutcomeUnknownError:
        _stop_lease(write.lease)
        raise
    except Exception as error:
        _clean_up(write, armed, error)
        raise
    except BaseException:
        # Interrupted at an unknown step: recovery decides.
        _stop_lease(write.lease)
        raise
    if result is None or result.is_repeated:
        # Nothing was changed, or an earlier request has done it: no commit refers to these files.
        _give_up(store, write.lease, files)
        return result
    # Before the sidecar is removed: recovery writes the copy for a process that dies here.
    if plan.schema is not None:
        write_schema_copy(log, result.head)
    if write.lease is not None:
        write.lease.disarm()
        store.runtime.faults.reach("publish.disarmed")
    _give_up(store, None, sorted(write.superseded))
    recover_when_due(store, log)
    return result


def _publish(write: PendingCommit, armed: ArmedWrite | None) -> PublishResult | None:
    log, plan = write.log, write.plan
    if write.lease is None and plan.needs_sidecar:
        write.lease = _arm_lease(log, plan.base, plan.operation, plan.actor, write.commit_id, write.files)
        log.store.runtime.faults.reach("publish.armed")
    if armed is not None and armed.epoch is not None:
        write.plan = replace(plan, epoch=min(armed.epoch, armed.epoch if plan.epoch is None else plan.epoch))
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
    queue = get_queue(log)
    if write.lease is None and plan.is_groupable:
        queue.settle(write, lambda group: publish_group(log, write.handles, group, wait_turn=lambda: None))
    else:
        with ExitStack() as turn:
            # Long work stays outside of the queue. But no swap is lost twice to other writers of this process.
            publish_group(log, write.handles, [write], wait_turn=lambda: turn.enter_context(queue.hold()))
    if write.error is not None:
        raise write.error
    return write.result


def _clean_up(write: PendingCommit, armed: ArmedWrite | None, error: Exception) -> None:
    """Remove the files of a write that failed, and end its lease.

    Raises:
        FencedError: Recovery has cancelled the write, and `error` is a consequence of that or came later.
    """
    store, lease, plan = write.log.store, write.lease, write.plan
    if lease is not None and lease.is_fenced():
        _give_up(store, None, write.files)
        # Recovery is working on it, and needs the sidecar until its audit row is written.
        _stop_lease(lease)
        fenced = _build_fenced_error(lease, error)
        if fenced is not error:
            raise fenced from error
    elif isinstance(error, ConflictError) and armed is not None and armed.keeps_staged:
        reusable = {*plan.adopted_files, *(path for move in plan.moves for path in move.staged.files)}
        _give_up(store, None, [path for path in write.files if path not in reusable])
    else:
        _give_up(store, lease, write.files)


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
        pins[record.table_key] = replace(pin, sum=record_checksum(store, pin.path, pin.version, 0))
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
