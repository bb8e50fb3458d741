"""Operations that are at work or died, what they left, and the audit of recoveries."""

from collections.abc import Iterator
from datetime import timedelta

import msgspec

from omnigraph.commit import audit
from omnigraph.commit.going_back import ASIDE
from omnigraph.commit.manifest_log import ManifestLog
from omnigraph.commit.sidecar import FoundSidecar, list_sidecars
from omnigraph.commit.verdict import Verdict, judge
from omnigraph.errors import OmnigraphError
from omnigraph.ops.findings import Finding
from omnigraph.ops.session import Session
from omnigraph.storage.inspection import damage_of
from omnigraph.storage.layout import AUDIT, RECOVERY, TOP_LEVEL
from omnigraph.storage.store import Store
from omnigraph.storage.swap_errors import DamagedError

_CODES = {
    Verdict.IN_FLIGHT: "operation_in_flight",
    Verdict.ROLLED_FORWARD: "operation_landed",
    Verdict.ROLLED_BACK: "operation_dead",
}
_PASSING = ("clock", "probe-")
"""What lies there for a moment whenever a graph is opened or made."""


def check_operations(session: Session) -> list[Finding]:
    """Everything below `__recovery`, the audit, and what is at the root and should not be."""
    store = session.store
    found, broken = list_sidecars(store)
    findings = [
        Finding(code="sidecar_broken", thing=one.key, place=one.key, message=f"it can't be read: {one.reason}")
        for one in broken
    ]
    findings += [_pending(session, item) for item in found]
    known = {item.sidecar.id for item in found}
    findings += _leftovers(store, known)
    findings += _audit(store)
    for name in sorted(set(store.objects.children()) - TOP_LEVEL):
        message = f"`{name}` is not part of a graph"
        findings.append(Finding(code="foreign_object", thing=name, place=name, message=message))
    return findings


def _pending(session: Session, item: FoundSidecar) -> Finding:
    """What became of an operation, as recovery would judge; ages by this machine's clock, since nothing is written."""
    sidecar = item.sidecar
    runtime = session.runtime
    verdict = judge(
        sidecar,
        is_committed=_has(session, item),
        renewed_at=item.modified,
        now=runtime.clock.now(),
        lease=timedelta(seconds=runtime.options.lease_seconds),
    )
    message = f"{sidecar.operation} {sidecar.id} of {sidecar.actor} on `{sidecar.branch}`, since {sidecar.started_at}"
    return Finding(code=_CODES[verdict], thing=sidecar.id, place=item.key, message=message, branches=(sidecar.branch,))


def _has(session: Session, item: FoundSidecar) -> bool:
    sidecar = item.sidecar
    log = ManifestLog(session.store, sidecar.branch, sidecar.manifest_path)
    try:
        with damage_of(sidecar.manifest_path):
            return log.contains(log.last(), sidecar.commit_id, sidecar.base_seq)
    except OmnigraphError:
        return False  # what is wrong with the manifest is told by who looks at that


def _leftovers(store: Store, known: set[str]) -> Iterator[Finding]:
    for info in store.objects.list_under(RECOVERY):
        name = info.key.removeprefix(f"{RECOVERY}/")
        if name.endswith(".json") or name.startswith(_PASSING) or name[:26] in known:
            continue
        if info.key.startswith(ASIDE):
            message = f"`{name}` is a damaged version of a manifest"
            yield Finding(code="version_aside", thing=name, place=info.key, message=message, nbytes=info.size)
            continue
        message = f"`{name}` belongs to no operation that is known"
        yield Finding(code="recovery_leftover", thing=name, place=info.key, message=message, nbytes=info.size)


def _audit(store: Store) -> Iterator[Finding]:
    try:
        with damage_of(AUDIT):
            audit.rows(store)
    except (DamagedError, msgspec.ValidationError) as error:
        yield Finding(code="audit_damaged", thing=AUDIT, place=AUDIT, message=str(error))
    except OmnigraphError as error:  # the newest version of it can't be read
        yield Finding(code="audit_damaged", thing=AUDIT, place=AUDIT, message=str(error))
