"""Check operations in flight, the remains of dead ones, and the recovery log."""

from collections.abc import Iterator
from datetime import datetime, timedelta

import msgspec

from omnigraph.commit import recovery_log
from omnigraph.commit.commit_references import find_operation_references
from omnigraph.commit.manifest_log import ManifestLog
from omnigraph.commit.manifest_repair import ASIDE_PREFIX
from omnigraph.commit.sidecar import StoredSidecar, list_sidecars, read_store_clock
from omnigraph.commit.verdict import Verdict, judge
from omnigraph.errors import OmnigraphError
from omnigraph.ops.check_findings import Finding
from omnigraph.ops.check_manifests import build_lost_finding
from omnigraph.ops.session import Session
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.integrity_check import translate_damage
from omnigraph.storage.layout import AUDIT, RECOVERY, TOP_LEVEL
from omnigraph.storage.object_store import StoreUnavailableError
from omnigraph.telemetry import log

_CODES = {
    Verdict.IN_FLIGHT: "operation_in_flight",
    Verdict.ROLLED_FORWARD: "operation_landed",
    Verdict.ROLLED_BACK: "operation_dead",
}
# Objects that exist for a moment while a graph is opened or created.
_TRANSIENT_PREFIXES = ("clock", "probe-")


def check_operations(session: Session) -> list[Finding]:
    """Check everything below `__recovery`, the recovery log, and for unknown objects at the root."""
    store = session.store
    sidecars, broken = list_sidecars(store)
    findings = [
        Finding(code="sidecar_broken", thing=item.key, place=item.key, message=f"it can't be read: {item.reason}")
        for item in broken
    ]
    # Reading the store's clock writes an object, so it is done only if there is a lease to check.
    if sidecars:
        now = _read_clock(session)
        findings += [_report_pending(session, item, now) for item in sidecars]
        findings += [finding for item in sidecars for finding in _report_lost_base(session, item)]
    findings += _report_leftovers(store, {item.sidecar.id for item in sidecars})
    findings += _check_audit(store)
    for name in sorted(set(store.objects.list_children()) - TOP_LEVEL):
        message = f"`{name}` is not part of a graph"
        findings.append(Finding(code="foreign_object", thing=name, place=name, message=message))
    return findings


def _read_clock(session: Session) -> datetime:
    """Return the time by the store's clock, as recovery does: by an object that is put for a moment.

    Without write access it is the time of this machine.
    """
    if not session.is_read_only:
        try:
            return read_store_clock(session.store)
        except StoreUnavailableError as error:
            log.warning("leases are checked against the clock of this machine: %s", error)
    return session.runtime.clock.now()


def _report_pending(session: Session, item: StoredSidecar, now: datetime) -> Finding:
    """Return the finding about an operation, with the verdict that recovery would reach."""
    sidecar = item.sidecar
    runtime = session.runtime
    verdict = judge(
        sidecar,
        is_committed=_is_committed(session, item),
        renewed_at=item.modified,
        now=now,
        lease=timedelta(seconds=runtime.options.lease_seconds),
    )
    message = f"{sidecar.operation} {sidecar.id} of {sidecar.actor} on `{sidecar.branch}`, since {sidecar.started_at}"
    return Finding(code=_CODES[verdict], thing=sidecar.id, place=item.key, message=message, branches=(sidecar.branch,))


def _is_committed(session: Session, item: StoredSidecar) -> bool:
    sidecar = item.sidecar
    log = ManifestLog(session.store, sidecar.branch, sidecar.manifest_path)
    try:
        with translate_damage(sidecar.manifest_path):
            return log.contains(log.final_head(), sidecar.commit_id, sidecar.base_seq)
    except OmnigraphError:
        # The check of the manifests reports what is wrong with this one.
        return False


def _report_lost_base(session: Session, item: StoredSidecar) -> Iterator[Finding]:
    """Report a manifest that lacks the commit which an operation started from."""
    sidecar = item.sidecar
    try:
        with translate_damage(sidecar.manifest_path):
            newest = ManifestLog(session.store, sidecar.branch, sidecar.manifest_path).final_head().snapshot.commit.seq
    except OmnigraphError:
        return
    for reference in find_operation_references([sidecar]):
        if reference.seq > newest:
            yield build_lost_finding(reference)


def _report_leftovers(store: GraphStorage, operation_ids: set[str]) -> Iterator[Finding]:
    for info in store.objects.list_under(RECOVERY):
        name = info.key.removeprefix(f"{RECOVERY}/")
        # The files of an operation begin with its id, a ULID of 26 characters.
        if name.endswith(".json") or name.startswith(_TRANSIENT_PREFIXES) or name[:26] in operation_ids:
            continue
        if info.key.startswith(ASIDE_PREFIX):
            message = f"`{name}` is a damaged version of a manifest"
            yield Finding(code="version_aside", thing=name, place=info.key, message=message, nbytes=info.size)
            continue
        message = f"`{name}` belongs to no known operation"
        yield Finding(code="recovery_leftover", thing=name, place=info.key, message=message, nbytes=info.size)


def _check_audit(store: GraphStorage) -> Iterator[Finding]:
    try:
        with translate_damage(AUDIT):
            recovery_log.read_rows(store)
    except (OmnigraphError, msgspec.ValidationError) as error:
        yield Finding(code="audit_damaged", thing=AUDIT, place=AUDIT, message=str(error))
