"""Recover from operations that died: complete or roll back what they left. Idempotent and safe to race.

A dead operation that is not in the history is first *fenced*: a conditional put marks its sidecar as abandoned. Then an
empty commit moves the manifest. The owner checks its sidecar before every swap, and its swap fails on a manifest that
moved; after these two steps it can't become visible, and its files may be removed.
"""

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import timedelta

import msgspec

from omnigraph.clock import format_instant
from omnigraph.commit.branch_errors import BranchGoneError
from omnigraph.commit.checksummed_json import encode_with_checksum
from omnigraph.commit.commit_clock import compute_commit_time
from omnigraph.commit.commit_references import find_operation_references, refuse_lost
from omnigraph.commit.digests import add_digest
from omnigraph.commit.manifest_log import Head, ManifestLog, NotAGraphError
from omnigraph.commit.manifest_types import MAIN, Commit
from omnigraph.commit.recovery_log import AuditRow, record_recovery
from omnigraph.commit.schema_copy import write_schema_copy
from omnigraph.commit.sidecar import BrokenSidecar, Sidecar, StoredSidecar, list_operations, read_store_clock
from omnigraph.commit.task_journal import clear, find_stray_operations, sweep
from omnigraph.commit.verdict import Verdict, judge
from omnigraph.errors import CorruptError, OmnigraphError
from omnigraph.storage.cas_table_errors import SwapLostError
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.layout import MANIFEST
from omnigraph.storage.object_store import ObjectChangedError, ObjectMissingError
from omnigraph.telemetry import RECOVERIES, log

ACTOR = "omnigraph:recovery"
OPERATION = "recovery"
_VERSION = re.compile(r"((?:nodes|edges)/[^/]+)/_versions/d(\d+)\.manifest")
# Opening a graph waits up to this many seconds, for all operations together, for owners that have committed to remove
# their sidecars; it checks this number of times.
_MAX_PATIENCE, _PATIENCE_POLLS = 0.5, 5


@dataclass
class RecoveryReport:
    """The outcome of a recovery pass: operation ids by what became of them."""

    rolled_forward: list[str] = field(default_factory=list)
    rolled_back: list[str] = field(default_factory=list)
    in_flight: list[str] = field(default_factory=list)
    broken: list[BrokenSidecar] = field(default_factory=list)
    failed: list[tuple[str, str]] = field(default_factory=list)
    """Operations whose recovery failed, with the reason; the next pass tries again."""


def recover(store: GraphStorage, manifest: ManifestLog, *, spares_live: bool = False) -> RecoveryReport:
    """Recover every operation of the graph whose owner has died.

    An operation that has committed and is still within its lease is completed too, unless its owner removes the sidecar
    within a moment: a graph that is opened after a crash is clean. With `spares_live`, used by periodic passes, it is
    left alone without waiting, since its owner is most likely about to remove it.

    Raises:
        OmnigraphError: The sidecars could not be listed.
    """
    report = RecoveryReport()
    stored, report.broken, other_objects = list_operations(store)
    store.runtime.faults.reach("recovery.listed")
    for broken in report.broken:
        log.warning("the sidecar %s can't be read and is left alone: %s", broken.key, broken.reason)
    sidecar_keys = {*(item.key for item in stored), *(item.key for item in report.broken)}
    strays = find_stray_operations(other_objects, sidecar_keys)
    if not stored and not strays:
        return report
    # Reading the store's clock costs requests, so only when there is something to recover.
    now = read_store_clock(store)
    lease = timedelta(seconds=store.runtime.options.lease_seconds)
    sweep(store, strays, now, lease)
    deadline = store.runtime.clock.monotonic() + _compute_patience(store)
    for item in stored:
        branch = manifest if item.sidecar.manifest_path == manifest.path else _open_log(store, item)
        try:
            is_committed = _is_committed(branch, item.sidecar)
            verdict = judge(item.sidecar, is_committed=is_committed, renewed_at=item.modified, now=now, lease=lease)
            is_alive = item.sidecar.state == "running" and now - item.modified <= lease
            has_just_landed = verdict is Verdict.ROLLED_FORWARD and is_alive
            if has_just_landed and (spares_live or _is_removed_by_owner(store, item, deadline)):
                continue
            _recover_operation(store, branch, item, verdict, report)
        except OmnigraphError as error:
            report.failed.append((item.sidecar.id, str(error)))
            log.warning("the operation %s was not recovered: %s", item.sidecar.id, error)
    return report


def recover_quietly(store: GraphStorage, manifest: ManifestLog, *, spares_live: bool = False) -> RecoveryReport | None:
    """Recover, but log a failure and return None instead of raising."""
    uri = store.location.uri
    try:
        report = recover(store, manifest, spares_live=spares_live)
    except Exception as error:  # noqa: BLE001 - the caller's own work must not fail by it
        log.warning("recovery of %s did not run: %s", uri, error, exc_info=not isinstance(error, OmnigraphError))
        return None
    for outcome in ("rolled_forward", "rolled_back", "failed"):
        RECOVERIES.record(uri, outcome, len(getattr(report, outcome)))
    return report


def recover_when_due(store: GraphStorage, manifest: ManifestLog) -> None:
    """Recover if this handle has not done so for a while; it costs one listing if nothing has died.

    Otherwise a process that stays open would never clean up after others.
    """
    if store.recovery.take(store.runtime.options.recovery_seconds):
        recover_quietly(store, manifest, spares_live=True)


def _is_removed_by_owner(store: GraphStorage, item: StoredSidecar, deadline: float) -> bool:
    """Return whether the owner of a committed operation removes its sidecar before the deadline.

    Between its swap and that removal the operation is in the history and alive; an audit row would report a crash that
    did not happen.
    """
    clock = store.runtime.clock
    while True:
        # Read the clock before the store: the last look then happens after the deadline, not before it.
        is_last = clock.monotonic() >= deadline
        try:
            store.objects.get(item.key)
        except ObjectMissingError:
            return True
        if is_last:
            return False
        clock.sleep(_compute_patience(store) / _PATIENCE_POLLS)


def _compute_patience(store: GraphStorage) -> float:
    return min(store.runtime.options.lease_seconds / 120, _MAX_PATIENCE)


def _open_log(store: GraphStorage, item: StoredSidecar) -> ManifestLog:
    return ManifestLog(store, item.sidecar.branch, item.sidecar.manifest_path)


def _recover_operation(
    store: GraphStorage, branch: ManifestLog, item: StoredSidecar, verdict: Verdict, report: RecoveryReport
) -> None:
    sidecar = item.sidecar
    if verdict is Verdict.IN_FLIGHT:
        report.in_flight.append(sidecar.id)
        return
    if verdict is Verdict.ROLLED_FORWARD:
        write_schema_copy(branch)
        # The commit refers to the files of the sidecar; only files that its tasks noted beside them are removed.
        _audit(store, item, verdict, sidecar.commit_id, clear(store, sidecar.id, keep=frozenset(sidecar.files)))
        report.rolled_forward.append(sidecar.id)
    else:
        _check_unpublished(store, item)
        _check_base(branch, sidecar)
        if sidecar.state == "running" and not _fence(store, item):
            # Its owner has renewed it, or another process is recovering it.
            report.in_flight.append(sidecar.id)
            return
        store.runtime.faults.reach("recovery.fenced")
        commit = None if _is_over(branch) else _publish_empty_commit(branch, item)
        # The owner's last swap may have won before the fence: the operation is then complete.
        if commit is None and _is_committed(branch, sidecar):
            write_schema_copy(branch)
            _audit(store, item, Verdict.ROLLED_FORWARD, sidecar.commit_id, 0)
            report.rolled_forward.append(sidecar.id)
        else:
            store.runtime.faults.reach("recovery.published")
            reclaimed = _reclaim(store, item)
            store.runtime.faults.reach("recovery.reclaimed")
            _audit(store, item, verdict, None if commit is None else commit.id, reclaimed)
            report.rolled_back.append(sidecar.id)
    # The sidecar is removed last, so that a pass that dies before is repeated; the audit row is written only once.
    store.runtime.faults.reach("recovery.audited")
    store.objects.delete(item.key)
    store.runtime.faults.reach("recovery.removed")


def _is_committed(branch: ManifestLog, sidecar: Sidecar) -> bool:
    """Return whether the operation's commit is in the branch's history, even if the branch was deleted since."""
    try:
        return branch.contains(branch.final_head(), sidecar.commit_id, sidecar.base_seq)
    except NotAGraphError:
        return False


def _is_over(branch: ManifestLog) -> bool:
    """Return whether no commit can be published on the branch: it was deleted, or its creation never finished."""
    try:
        branch.head()
    except (BranchGoneError, NotAGraphError):
        return True
    return False


def _check_unpublished(store: GraphStorage, item: StoredSidecar) -> None:
    """Check that neither main nor the operation's branch uses a table version that the operation created.

    An operation whose commit is not in the history can't have published one. If a branch uses one, the sidecar is
    damaged: it and every file that it names are left alone.

    Raises:
        CorruptError: A branch uses one, or used one in one of its latest commits.
    """
    created = {(match[1], match[2]) for match in map(_VERSION.fullmatch, item.sidecar.files) if match}
    # Only its own branch and main: with hundreds of branches, reading them all would cost hundreds of requests.
    for log_ in (ManifestLog(store, MAIN, MANIFEST), _open_log(store, item)) if created else ():
        try:
            manifest = log_.final_head().snapshot.manifest
        except NotAGraphError:
            continue
        used = {(pin.path, str(pin.version)) for pin in manifest.pins.values()}
        used |= {(change.path, str(change.after)) for commit in manifest.commits for change in commit.changes}
        for path, version in sorted(created & used):
            raise CorruptError.sidecar_contradicted(item.key, path, version, log_.branch)


def _check_base(branch: ManifestLog, sidecar: Sidecar) -> None:
    """Check that the manifest still has the base commit of an operation, before a new commit reuses its number.

    Raises:
        CorruptError: The manifest has lost it.
    """
    try:
        newest = branch.final_head().snapshot.commit.seq
    except NotAGraphError:
        return
    refuse_lost(reference for reference in find_operation_references([sidecar]) if reference.seq > newest)


def _fence(store: GraphStorage, item: StoredSidecar) -> bool:
    """Mark the operation as abandoned; return False if its sidecar has changed in the meantime."""
    abandoned = msgspec.structs.replace(item.sidecar, state="abandoned")
    try:
        store.objects.put_if_match(item.key, encode_with_checksum(abandoned), item.etag)
    except ObjectChangedError:
        return False
    return True


def _publish_empty_commit(branch: ManifestLog, item: StoredSidecar) -> Commit | None:
    """Publish an empty commit on a head without the operation's commit; None if the head has it after all.

    A pass that died after this step has left its commit, which is recognised by its message and not created twice.
    """
    message = f"rolled back {item.sidecar.operation} {item.sidecar.id} of {item.sidecar.actor}"
    while True:
        head = branch.head()
        for commit in branch.iter_history(head):
            if commit.seq <= item.sidecar.base_seq:
                break
            if commit.id == item.sidecar.commit_id:
                return None
            if commit.actor == ACTOR and commit.message == message:
                return commit
        commit = _build_empty_commit(branch, head, message)
        old = head.snapshot.manifest
        try:
            branch.publish(head, replace(old, head=commit.id, commits=(*old.commits, commit)))
        except SwapLostError:
            continue
        return commit


def _build_empty_commit(branch: ManifestLog, head: Head, message: str) -> Commit:
    commit = Commit(
        id=branch.store.runtime.ids.ulid(),
        parent=head.snapshot.commit.id,
        seq=head.snapshot.commit.seq + 1,
        branch=branch.branch,
        actor=ACTOR,
        at=compute_commit_time(branch.store, head.snapshot.commit),
        operation=OPERATION,
        message=message,
        manifest_version=head.snapshot.manifest_version + 1,
    )
    return add_digest(commit, head.snapshot.commit, head.snapshot.manifest.schema)


def _reclaim(store: GraphStorage, item: StoredSidecar) -> int:
    """Remove the files that the dead operation and its tasks named; return the bytes freed."""
    freed = clear(store, item.sidecar.id)
    for path in item.sidecar.files:
        info = store.objects.stat(path)
        if info is not None:
            store.objects.delete(path)
            freed += info.size
    return freed


def _audit(store: GraphStorage, item: StoredSidecar, verdict: Verdict, commit_id: str | None, freed: int) -> None:
    sidecar = item.sidecar
    files = Counter("/".join(file.split("/", 2)[:2]) for file in sidecar.files)
    tables = [{"table": path, "outcome": verdict.value, "files": count} for path, count in sorted(files.items())]
    outcomes = {"operation": sidecar.operation, "branch": sidecar.branch, "tables": tables}
    record_recovery(
        store,
        AuditRow(
            recovery_id=store.runtime.ids.ulid(),
            operation_id=sidecar.id,
            kind=verdict.value,
            recovery_for_actor=sidecar.actor,
            graph_commit_id=commit_id,
            outcomes=msgspec.json.encode(outcomes).decode(),
            bytes_reclaimed=freed,
            created_at=format_instant(store.runtime.clock.now()),
        ),
    )
