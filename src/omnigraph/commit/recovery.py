"""Clearing up after operations that died. Idempotent, may be raced, and never in anybody's way.

A dead operation that is not in the history is first *fenced* (its sidecar says abandoned, by a conditional put),
then the manifest is moved by an empty commit. The owner looks at its sidecar before every swap, and its swap fails
on a manifest that moved; so after these two steps it can't become visible, and its files may go.
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
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.storage.cas_table_errors import SwapLostError
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.layout import MANIFEST
from omnigraph.storage.object_store import ObjectChangedError, ObjectMissingError
from omnigraph.telemetry import RECOVERIES, log

ACTOR = "omnigraph:recovery"
OPERATION = "recovery"
_VERSION = re.compile(r"((?:nodes|edges)/[^/]+)/_versions/d(\d+)\.manifest")
_MAX_PATIENCE, _PATIENCE_POLLS = 0.5, 5
"""For how many seconds those that have landed are waited for, all together, and how often they are looked at."""


class SidecarContradictedError(OmnigraphError):
    """A sidecar says that its operation never came to be, and a branch shows what it made."""

    kind = Kind.CORRUPT
    code = "sidecar_contradicted"

    def __init__(self, key: str, path: str, version: str, branch: str) -> None:
        super().__init__(key, path, version, branch)
        self.key, self.path, self.version, self.branch = key, path, version, branch

    def __str__(self) -> str:
        return (
            f"the sidecar `{self.key}` names no commit of the history, but `{self.branch}` shows version {self.version}"
            f" of {self.path}, which its operation made: it is damaged and left alone. Remove it when nothing writes"
        )


@dataclass
class RecoveryReport:
    """What a recovery pass found and did."""

    rolled_forward: list[str] = field(default_factory=list)
    rolled_back: list[str] = field(default_factory=list)
    in_flight: list[str] = field(default_factory=list)
    broken: list[BrokenSidecar] = field(default_factory=list)
    failed: list[tuple[str, str]] = field(default_factory=list)
    """Operation ids whose recovery failed, with the reason; the next pass tries again."""


def recover(store: GraphStorage, manifest: ManifestLog, *, spares_live: bool = False) -> RecoveryReport:
    """Settle every sidecar of this branch's graph that can be settled. A listing that fails raises.

    One that has landed and is within its lease is settled unless its owner removes it in a moment: whoever opens a
    graph behind a crash finds it clear. With `spares_live`, of those who look again and again, it is left alone and
    not waited for: most likely its owner is about to remove it.
    """
    report = RecoveryReport()
    found, report.broken, others = list_operations(store)
    store.runtime.faults.reach("recovery.listed")
    for broken in report.broken:
        log.warning("the sidecar %s can't be read and is left alone: %s", broken.key, broken.reason)
    known = {*(item.key for item in found), *(item.key for item in report.broken)}
    strays = find_stray_operations(others, known)
    if not found and not strays:
        return report
    now = read_store_clock(store)
    lease = timedelta(seconds=store.runtime.options.lease_seconds)
    sweep(store, strays, now, lease)
    patience = store.runtime.clock.monotonic() + _compute_patience(store)
    for item in found:
        branch = manifest if item.sidecar.manifest_path == manifest.path else _open_log(store, item)
        try:
            is_committed = _is_committed(branch, item.sidecar)
            verdict = judge(item.sidecar, is_committed=is_committed, renewed_at=item.modified, now=now, lease=lease)
            is_alive = item.sidecar.state == "running" and now - item.modified <= lease
            has_just_landed = verdict is Verdict.ROLLED_FORWARD and is_alive
            if has_just_landed and (spares_live or _is_removed_by_owner(store, item, patience)):
                continue
            _settle(store, branch, item, verdict, report)
        except OmnigraphError as error:
            report.failed.append((item.sidecar.id, str(error)))
            log.warning("the operation %s was not recovered: %s", item.sidecar.id, error)
    return report


def recover_quietly(store: GraphStorage, manifest: ManifestLog, *, spares_live: bool = False) -> RecoveryReport | None:
    """Recover without getting in anyone's way: a failure is logged, and gives None."""
    uri = store.location.uri
    try:
        report = recover(store, manifest, spares_live=spares_live)
    except Exception as error:  # noqa: BLE001 - a fault of recovery is reported, never in a user's way
        log.warning("recovery of %s did not run: %s", uri, error, exc_info=not isinstance(error, OmnigraphError))
        return None
    for outcome in ("rolled_forward", "rolled_back", "failed"):
        RECOVERIES.record(uri, outcome, len(getattr(report, outcome)))
    return report


def recover_when_due(store: GraphStorage, manifest: ManifestLog) -> None:
    """Recover if this handle has not looked for a while: one listing, unless there is something to settle.

    A process that stays open would otherwise never clear up after others that died.
    """
    if store.recovery.take(store.runtime.options.recovery_seconds):
        recover_quietly(store, manifest, spares_live=True)


def _is_removed_by_owner(store: GraphStorage, item: StoredSidecar, until: float) -> bool:
    """Whether the owner of an operation that has landed removes its sidecar, given a moment.

    Between its swap and that removal it is in the history and alive; an audit would tell of a crash that was none.
    """
    clock = store.runtime.clock
    while True:
        is_last = clock.monotonic() >= until
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


def _settle(
    store: GraphStorage, branch: ManifestLog, item: StoredSidecar, verdict: Verdict, report: RecoveryReport
) -> None:
    sidecar = item.sidecar
    if verdict is Verdict.IN_FLIGHT:
        report.in_flight.append(sidecar.id)
        return
    if verdict is Verdict.ROLLED_FORWARD:
        write_schema_copy(branch)
        _audit(store, item, verdict, sidecar.commit_id, clear(store, sidecar.id, keep=frozenset(sidecar.files)))
        report.rolled_forward.append(sidecar.id)
    else:
        _check_unpublished(store, item)
        _check_base(branch, sidecar)
        if sidecar.state == "running" and not _fence(store, item):
            report.in_flight.append(sidecar.id)  # it woke up, or somebody else is at it
            return
        store.runtime.faults.reach("recovery.fenced")
        commit = None if _is_over(branch) else _bump(branch, item)
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
    store.runtime.faults.reach("recovery.audited")
    store.objects.delete(item.key)
    store.runtime.faults.reach("recovery.removed")


def _is_committed(branch: ManifestLog, sidecar: Sidecar) -> bool:
    """Whether the operation's commit is part of the branch's history, also when the branch was deleted since."""
    try:
        return branch.contains(branch.final_head(), sidecar.commit_id, sidecar.base_seq)
    except NotAGraphError:
        return False


def _is_over(branch: ManifestLog) -> bool:
    """Whether nothing can be published on the branch any more: it was deleted, or never came to be."""
    try:
        branch.head()
    except (BranchGoneError, NotAGraphError):
        return True
    return False


def _check_unpublished(store: GraphStorage, item: StoredSidecar) -> None:
    """Check that neither main nor the operation's branch shows a table version that it made, before anything goes.

    An operation whose commit is not in the history can't have published one. Where one is, the sidecar is not what
    was written: it is left alone, with every file that it names.

    Raises:
        SidecarContradictedError: One of them shows one now, or did in one of its latest commits.
    """
    named = {(match[1], match[2]) for match in map(_VERSION.fullmatch, item.sidecar.files) if match}
    # Its own branch and main: with hundreds of branches, a look at each would cost hundreds of requests.
    for log_ in (ManifestLog(store, MAIN, MANIFEST), _open_log(store, item)) if named else ():
        try:
            manifest = log_.final_head().snapshot.manifest
        except NotAGraphError:
            continue
        shown = {(pin.path, str(pin.version)) for pin in manifest.pins.values()}
        shown |= {(change.path, str(change.after)) for commit in manifest.commits for change in commit.changes}
        for path, version in sorted(named & shown):
            raise SidecarContradictedError(item.key, path, version, log_.branch)


def _check_base(branch: ManifestLog, sidecar: Sidecar) -> None:
    """Check that the manifest has the commit that an operation stands on, before another one takes its number.

    Raises:
        ManifestRolledBackError: It has lost it.
    """
    try:
        newest = branch.final_head().snapshot.commit.seq
    except NotAGraphError:
        return
    refuse_lost(mark for mark in find_operation_references([sidecar]) if mark.seq > newest)


def _fence(store: GraphStorage, item: StoredSidecar) -> bool:
    """Mark the operation as abandoned, unless its sidecar has moved meanwhile."""
    abandoned = msgspec.structs.replace(item.sidecar, state="abandoned")
    try:
        store.objects.put_if_match(item.key, encode_with_checksum(abandoned), item.etag)
    except ObjectChangedError:
        return False
    return True


def _bump(branch: ManifestLog, item: StoredSidecar) -> Commit | None:
    """An empty commit on a head without the operation's commit; None when the commit is there after all.

    A pass that died here left its commit behind; it is found by its message and not made twice.
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
    """Remove the files that the dead operation and its tasks named; the bytes freed."""
    freed = clear(store, item.sidecar.id)
    for file in item.sidecar.files:
        info = store.objects.stat(file)
        if info is not None:
            store.objects.delete(file)
            freed += info.size
    return freed


def _audit(store: GraphStorage, item: StoredSidecar, verdict: Verdict, commit_id: str | None, freed: int) -> None:
    sidecar = item.sidecar
    files = Counter("/".join(file.split("/", 2)[:2]) for file in sidecar.files)
    tables = [{"table": path, "outcome": verdict.value, "files": number} for path, number in sorted(files.items())]
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
