"""The one way a change becomes visible: arm, apply, publish, disarm.

    A  arm      one sidecar                         names the files, in case we die
    B  apply    one detached version per table      invisible
    C  publish  one swap of the manifest            visible, whole
    D  disarm   the sidecar goes

Losing the swap is normal: the plan is moved onto the new head and tried again, a few times.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from omnigraph.clock import instant_text
from omnigraph.commit.gates import gate
from omnigraph.commit.manifest_log import Head, ManifestLog, OutcomeUnknownError, create_log
from omnigraph.commit.plan import CommitPlan, ConflictError, NewTable
from omnigraph.commit.rebase import check_if_commit, rebase
from omnigraph.commit.records import MAIN, Commit, Manifest, Pin, PinChange, SchemaRecord
from omnigraph.commit.sidecar import Lease, Sidecar
from omnigraph.storage.handles import Handles
from omnigraph.storage.layout import version_file
from omnigraph.storage.objects import StoreUnavailableError
from omnigraph.storage.store import Store
from omnigraph.storage.swap_errors import SwapLostError
from omnigraph.storage.versions import apply, create_table, version_files
from omnigraph.telemetry import log as telemetry_log


@dataclass(frozen=True, slots=True)
class Committed:
    """A publish that happened. `was_there` means that an earlier try with the same idempotency key did it."""

    commit: Commit
    head: Head
    was_there: bool = False


@dataclass(frozen=True, slots=True)
class _Applied:
    """The pins that the detached versions of a plan give, and the files behind them."""

    pins: dict[str, Pin]
    new_tables: tuple[NewTable, ...]
    files: tuple[str, ...]


def publish(log: ManifestLog, handles: Handles, plan: CommitPlan) -> Committed:
    """Make a plan visible, whole; or raise ConflictError, FencedError or a store's error, with nothing visible.

    OutcomeUnknownError alone means that it may be visible.
    """
    store = log.store
    store.runtime.faults.reach("publish.staged")
    commit_id = store.runtime.ids.ulid()
    lease = _arm(store, log, plan, commit_id) if plan.needs_sidecar else None
    made = [file for move in plan.moves for file in move.staged.files]
    try:
        if lease is not None:
            store.runtime.faults.reach("publish.armed")
        done = _rounds(log, handles, plan, commit_id, lease, made)
    except OutcomeUnknownError:
        _leave(lease)
        raise
    except Exception:
        _give_up(store, lease, made)
        raise
    except BaseException:
        _leave(lease)  # interrupted at an unknown step: recovery decides
        raise
    if done.was_there:
        _give_up(store, lease, made)  # an earlier try did it: these files are nobody's
    elif lease is not None:
        lease.disarm()
        store.runtime.faults.reach("publish.disarmed")
    return done


def initialise(store: Store, tables: Iterable[NewTable], schema: SchemaRecord, actor: str) -> ManifestLog:
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
        pins[record.table_key] = Pin(table_key=record.table_key, path=record.path, version=version, rows=0)
        records[record.table_key] = record
        faults.reach("init.table")
    commit = Commit(
        id=store.runtime.ids.ulid(),
        parent=None,
        seq=0,
        branch=MAIN,
        actor=actor,
        at=instant_text(store.runtime.clock.now()),
        operation="init",
        manifest_version=1,
        changes=tuple(_change(pin.table_key, None, pin) for pin in pins.values()),
        schema_after=schema.id,
    )
    manifest = Manifest(schema=schema, tables=records, pins=pins, head=commit.id, commits=(commit,))
    log = create_log(store, manifest)
    faults.reach("init.manifest")
    return log


def _arm(store: Store, log: ManifestLog, plan: CommitPlan, commit_id: str) -> Lease:
    lease = Lease(
        store,
        Sidecar(
            id=store.runtime.ids.ulid(),
            commit_id=commit_id,
            branch=log.branch,
            manifest_path=log.path,
            base_seq=plan.base.snapshot.commit.seq,
            operation=plan.operation,
            actor=plan.actor,
            started_at=instant_text(store.runtime.clock.now()),
            files=tuple(file for move in plan.moves for file in move.staged.files),
        ),
    )
    lease.arm()
    return lease


def _leave(lease: Lease | None) -> None:
    """Stop renewing and let the sidecar be: whoever comes next can tell what happened."""
    if lease is not None:
        lease.stop()


def _give_up(store: Store, lease: Lease | None, made: list[str]) -> None:
    """Nothing is visible and nothing will be: remove what was made, then the sidecar; if that fails, recovery does."""
    try:
        for file in dict.fromkeys(made):
            store.objects.delete(file)
    except StoreUnavailableError as error:
        telemetry_log.warning("files of a write that failed were not removed: %s", error)
        _leave(lease)
        return
    if lease is not None:
        lease.disarm()


def _rounds(
    log: ManifestLog, handles: Handles, plan: CommitPlan, commit_id: str, lease: Lease | None, made: list[str]
) -> Committed:
    """Apply and swap until one swap is won. Every file that is made on the way is added to `made`."""
    store = log.store
    options, clock, ids = store.runtime.options, store.runtime.clock, store.runtime.ids
    check_if_commit(plan, plan.base.snapshot)
    created: tuple[Pin, ...] | None = None
    for round_ in range(options.publish_rounds):
        earlier = _done_before(plan)
        if earlier is not None:
            return Committed(earlier, plan.base, was_there=True)
        if created is None:
            created = _create(store, plan)
        applied = _apply(store, handles, plan, created)
        made += applied.files
        if lease is not None:
            lease.confirm(applied.files)
        manifest = _next_manifest(log, plan, applied, commit_id)
        try:
            with gate(store.location.uri, log.path):
                head = log.publish(plan.base, manifest)
        except SwapLostError:
            if round_ + 1 < options.publish_rounds:
                clock.sleep(ids.jitter(options.backoff_seconds * 2**round_))
            plan = rebase(plan, log.latest(), handles)
            continue
        return Committed(manifest.head_commit, head)
    base = plan.base.snapshot
    raise ConflictError(
        "graph_head", base.commit.id, log.latest().snapshot.commit.id, f"{options.publish_rounds} rounds were lost"
    )


def _done_before(plan: CommitPlan) -> Commit | None:
    """The commit that an earlier try with the same key made, if it is still in the head."""
    if plan.idempotency_key is None:
        return None
    for commit in reversed(plan.base.snapshot.manifest.commits):
        if commit.idempotency_key == plan.idempotency_key:
            return commit
    return None


def _create(store: Store, plan: CommitPlan) -> tuple[Pin, ...]:
    pins = []
    for table in plan.new_tables:
        record = table.record
        version = create_table(store, record.path, table.schema)
        pins.append(Pin(table_key=record.table_key, path=record.path, version=version, rows=0))
    return tuple(pins)


def _apply(store: Store, handles: Handles, plan: CommitPlan, created: tuple[Pin, ...]) -> _Applied:
    pins = {pin.table_key: pin for pin in created}
    files = [f"{pin.path}/{version_file(pin.version)}" for pin in created]
    before = plan.base.snapshot.pins
    for move in plan.moves:
        staged = move.staged
        base = pins.get(move.table_key) or before[move.table_key]
        version = apply(handles, staged, base.version)
        pins[move.table_key] = replace(base, version=version, rows=staged.rows_after, branch=plan.base.snapshot.branch)
        files += [*staged.files, *version_files(staged.path, [version])]
        store.runtime.faults.reach("publish.applied")
    store.flush(files)
    store.runtime.faults.reach("publish.flushed")
    return _Applied(pins, plan.new_tables, tuple(files))


def _next_manifest(log: ManifestLog, plan: CommitPlan, applied: _Applied, commit_id: str) -> Manifest:
    """The manifest after this commit: the base's, with new pins, tables, schema and one more commit."""
    snapshot = plan.base.snapshot
    old = snapshot.manifest
    runtime = log.store.runtime
    dropped = {key: old.pins[key] for key in plan.dropped_tables}
    pins = {key: pin for key, pin in {**old.pins, **applied.pins}.items() if key not in dropped}
    changes = [_change(key, old.pins.get(key), pins.get(key)) for key in (*applied.pins, *dropped)]
    commit = Commit(
        id=commit_id,
        parent=old.head,
        merged_parent=plan.merged_parent,
        seq=snapshot.commit.seq + 1,
        branch=log.branch,
        actor=plan.actor,
        at=instant_text(runtime.clock.now()),
        operation=plan.operation,
        message=plan.message,
        manifest_version=snapshot.manifest_version + 1,
        changes=tuple(changes),
        schema_before=old.schema.id if plan.schema else None,
        schema_after=plan.schema.id if plan.schema else None,
        idempotency_key=plan.idempotency_key,
    )
    return replace(
        old,
        schema=plan.schema or old.schema,
        old_schemas=(*old.old_schemas, old.schema) if plan.schema else old.old_schemas,
        tables={**old.tables, **{t.record.table_key: t.record for t in applied.new_tables}},
        pins=pins,
        dropped={**old.dropped, **dropped},
        head=commit_id,
        commits=(*old.commits, commit),
    )


def _change(table_key: str, before: Pin | None, after: Pin | None) -> PinChange:
    known = after or before
    return PinChange(
        table_key=table_key,
        path=known.path if known else "",
        before=str(before.version) if before else None,
        after=str(after.version) if after else None,
        rows_before=before.rows if before else 0,
        rows_after=after.rows if after else 0,
    )
