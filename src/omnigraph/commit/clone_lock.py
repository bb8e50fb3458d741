"""Lock the target of a clone: one writer at a time claims it with a sidecar, until the clone is a graph.

If the writer dies, its sidecar stays: the target does not look empty, and the next clone of the same graph resumes the
work. Once the target is a graph, recovery finds the commit that the sidecar names in it, and removes the sidecar.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from omnigraph.backoff import wait_for_retry
from omnigraph.clock import format_instant
from omnigraph.commit.checksummed_json import encode_with_checksum
from omnigraph.commit.manifest_log import Head
from omnigraph.commit.manifest_types import MAIN
from omnigraph.commit.place_errors import PlaceTakenError
from omnigraph.commit.sidecar import CLONE, CloneOrigin, Lease, Sidecar, StoredSidecar, list_sidecars, read_store_clock
from omnigraph.commit.task_journal import clear
from omnigraph.errors import OmnigraphError
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.layout import MANIFEST
from omnigraph.storage.object_store import ObjectChangedError, ObjectMissingError
from omnigraph.telemetry import log

# Attempts at a claim when several clones claim the same target at the same moment.
MAX_ATTEMPTS = 6


def find_clones(target: GraphStorage) -> list[StoredSidecar]:
    """Return the claims of clones that are in progress at a location, or that were interrupted there."""
    return [stored for stored in list_sidecars(target)[0] if stored.sidecar.operation == CLONE]


@dataclass(frozen=True, slots=True)
class CloneLock:
    """An exclusive claim to the target of a clone, valid while its lease is renewed."""

    lease: Lease
    is_taken_over: bool
    """Whether an interrupted clone may have left files there."""


@contextmanager
def lock_clone_target(
    target: GraphStorage, origin: CloneOrigin, head: Head, check_free: Callable[[], None]
) -> Iterator[CloneLock]:
    """Claim a location for a clone of a graph whose state is `head`, for the duration of the block.

    `check_free` raises if the location holds a graph; it is called once no other clone can start there. After the
    block the location is a graph, and the claim is removed. If the block fails, its files and the claim stay, so that
    the next clone can resume immediately.

    Raises:
        PlaceTakenError: Another clone to this location is in progress.
    """
    lease, old_claims = _acquire_lease(target, origin, head)
    try:
        check_free()
        for claim in old_claims:
            _remove_claim(target, claim)
    except BaseException:
        lease.disarm()
        raise
    try:
        target.runtime.faults.reach("clone.claimed")
        yield CloneLock(lease, is_taken_over=bool(old_claims))
    except BaseException:  # an interrupt too
        lease.stop()
        _release_claim(target, lease.operation_id)
        raise
    lease.disarm()


def _acquire_lease(target: GraphStorage, origin: CloneOrigin, head: Head) -> tuple[Lease, list[StoredSidecar]]:
    """Return the lease of the only live claim to the target, and the claims of interrupted clones.

    Raises:
        PlaceTakenError: Another clone has a live claim.
    """
    for attempt in range(1, MAX_ATTEMPTS + 1):
        check_no_live_clone(target, find_clones(target))
        lease = Lease(target, _build_sidecar(target, origin, head))
        lease.arm()
        # Listed again after the claim is written: clones that claim the target at the same moment see each other,
        # withdraw their claims, and try again after random waits.
        try:
            other_claims = [claim for claim in find_clones(target) if claim.sidecar.id != lease.operation_id]
            check_no_live_clone(target, other_claims)
        except PlaceTakenError:
            lease.disarm()
            if attempt == MAX_ATTEMPTS:
                raise
            wait_for_retry(target.runtime, attempt)
        except BaseException:
            lease.disarm()
            raise
        else:
            return lease, other_claims
    raise AssertionError  # pragma: no cover - the last attempt returns or raises


def finish_clone(target: GraphStorage, claims: Sequence[StoredSidecar]) -> None:
    """Remove the claims, and their unfinished files, from a clone that is a complete graph.

    Raises:
        PlaceTakenError: A claim is live.
    """
    check_no_live_clone(target, claims)
    for claim in claims:
        _remove_claim(target, claim)


def _build_sidecar(target: GraphStorage, origin: CloneOrigin, head: Head) -> Sidecar:
    runtime = target.runtime
    return Sidecar(
        id=runtime.ids.ulid(),
        commit_id=head.snapshot.commit.id,
        branch=MAIN,
        manifest_path=MANIFEST,
        base_seq=head.snapshot.commit.seq - 1,
        operation=CLONE,
        actor=CLONE,
        started_at=format_instant(runtime.clock.now()),
        origin=origin,
    )


def check_no_live_clone(target: GraphStorage, claims: Sequence[StoredSidecar]) -> None:
    """Check that no clone among these claims is in progress.

    Raises:
        PlaceTakenError: One is.
    """
    if not claims:
        return
    now = read_store_clock(target)
    for claim in claims:
        left = _compute_time_left(target, claim, now)
        if claim.sidecar.state == "running" and left > timedelta():
            raise PlaceTakenError.clone_busy(target.location.uri, left.total_seconds())


def _compute_time_left(target: GraphStorage, claim: StoredSidecar, now: datetime) -> timedelta:
    """Return the time until the lease of a claim expires; `now` is the store's."""
    return claim.modified + timedelta(seconds=target.runtime.options.lease_seconds) - now


def _remove_claim(target: GraphStorage, claim: StoredSidecar) -> None:
    """Remove a claim with its unfinished files."""
    # Fenced first: its writer, if it wakes up, fails to renew the sidecar and stops.
    _abandon(target, claim)
    clear(target, claim.sidecar.id)
    target.objects.delete(claim.key)


def _abandon(target: GraphStorage, claim: StoredSidecar) -> None:
    """Mark a claim as abandoned, unless another process has changed or removed it."""
    try:
        abandoned = msgspec.structs.replace(claim.sidecar, state="abandoned")
        target.objects.put_if_match(claim.key, encode_with_checksum(abandoned), claim.etag)
    except (ObjectChangedError, ObjectMissingError):
        return


def _release_claim(target: GraphStorage, operation_id: str) -> None:
    """Mark a claim as abandoned, so that the next clone need not wait until the lease has expired."""
    try:
        for claim in find_clones(target):
            if claim.sidecar.id == operation_id:
                clear(target, operation_id)
                _abandon(target, claim)
    except OmnigraphError as error:
        log.warning("the claim of the clone %s was not released: %s", target.location.uri, error)
