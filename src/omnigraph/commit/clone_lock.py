"""Who makes a clone at a place: one at a time, told by a sidecar there until the clone is a graph.

A clone whose maker died stays claimed by its sidecar, so that nobody takes it for an empty place, and the next clone of
the same graph goes on with it. Once the place is a graph, recovery finds the commit that the sidecar names in it, and
removes the sidecar.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from omnigraph.clock import format_instant
from omnigraph.commit.checksummed_json import encode_with_checksum
from omnigraph.commit.manifest_log import Head
from omnigraph.commit.manifest_types import MAIN
from omnigraph.commit.sidecar import CLONE, CloneOrigin, Lease, Sidecar, StoredSidecar, list_sidecars, read_store_clock
from omnigraph.commit.task_journal import clear
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.layout import MANIFEST
from omnigraph.storage.object_store import ObjectChangedError, ObjectMissingError
from omnigraph.telemetry import log

MAX_ATTEMPTS = 6
"""How often a place is claimed by those who claim it in one moment."""


class CloneBusyError(OmnigraphError):
    """Another clone is being made at the same place."""

    kind = Kind.CONFLICT
    code = "clone_busy"

    def __init__(self, uri: str, seconds: float) -> None:
        super().__init__(uri, seconds)
        self.uri, self.seconds = uri, seconds

    def __str__(self) -> str:
        return (
            f"somebody else is making a clone at {self.uri}: wait for it, or choose another place;"
            f" if it has died, try again in {self.seconds:.0f} seconds"
        )


def find_clones(target: GraphStorage) -> list[StoredSidecar]:
    """The claims of clones that are being made at a place, or were when their makers died."""
    return [found for found in list_sidecars(target)[0] if found.sidecar.operation == CLONE]


@dataclass(frozen=True, slots=True)
class CloneLock:
    """A place that is ours for as long as the lease lasts."""

    lease: Lease
    is_taken_over: bool
    """Whether a clone that died may have left files there."""


@contextmanager
def lock_clone_target(
    target: GraphStorage, origin: CloneOrigin, head: Head, check_free: Callable[[], None]
) -> Iterator[CloneLock]:
    """Claim a place for a clone of a graph that has the state `head`; CloneBusyError when somebody else makes one.

    `check_free` fails where there is a graph; it is asked once nobody else can begin one. Behind the block the place is
    a graph, and the claim is gone. When the block fails, what it has made stays, and so does the claim, for the next
    one to go on at once.
    """
    lease, others = _acquire_lease(target, origin, head)
    try:
        check_free()
        for found in others:
            _remove_claim(target, found)
    except BaseException:
        lease.disarm()
        raise
    try:
        target.runtime.faults.reach("clone.claimed")
        yield CloneLock(lease, is_taken_over=bool(others))
    except BaseException:  # an interrupt too
        lease.stop()
        _release_claim(target, lease.operation_id)
        raise
    lease.disarm()


def _acquire_lease(target: GraphStorage, origin: CloneOrigin, head: Head) -> tuple[Lease, list[StoredSidecar]]:
    """A claim beside which nobody else has one that lives, and those of makers that died.

    Two that claim the place in one moment see each other: both step back, and try again after a while of their own.
    """
    runtime = target.runtime
    for attempt in range(1, MAX_ATTEMPTS + 1):
        check_no_live_clone(target, find_clones(target))
        lease = Lease(target, _build_sidecar(target, origin, head))
        lease.arm()
        try:
            others = [found for found in find_clones(target) if found.sidecar.id != lease.operation_id]
            check_no_live_clone(target, others)
        except CloneBusyError:
            lease.disarm()
            if attempt == MAX_ATTEMPTS:
                raise
            runtime.clock.sleep(runtime.ids.jitter(runtime.options.backoff_seconds * 2**attempt))
        except BaseException:
            lease.disarm()
            raise
        else:
            return lease, others
    raise AssertionError  # pragma: no cover - the last attempt returns or raises


def finish_clone(target: GraphStorage, found: Sequence[StoredSidecar]) -> None:
    """A clone is a graph already; only claims, and what was under way, are left. CloneBusyError if one lives."""
    check_no_live_clone(target, found)
    for one in found:
        _remove_claim(target, one)


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
    """CloneBusyError when whoever made one of the claims is at work."""
    if not claims:
        return
    now = read_store_clock(target)
    for found in claims:
        left = _compute_time_left(target, found, now)
        if found.sidecar.state == "running" and left > timedelta():
            raise CloneBusyError(target.location.uri, left.total_seconds())


def _compute_time_left(target: GraphStorage, found: StoredSidecar, now: datetime) -> timedelta:
    """How long a claim may still go without a sign of life."""
    return found.modified + timedelta(seconds=target.runtime.options.lease_seconds) - now


def _remove_claim(target: GraphStorage, found: StoredSidecar) -> None:
    """A claim goes, with what was under way; its maker, should it wake up, finds that out before it does harm."""
    _abandon(target, found)
    clear(target, found.sidecar.id)
    target.objects.delete(found.key)


def _abandon(target: GraphStorage, found: StoredSidecar) -> None:
    try:
        abandoned = msgspec.structs.replace(found.sidecar, state="abandoned")
        target.objects.put_if_match(found.key, encode_with_checksum(abandoned), found.etag)
    except (ObjectChangedError, ObjectMissingError):
        return  # somebody else is at it: ours is the only claim that counts from now on


def _release_claim(target: GraphStorage, operation_id: str) -> None:
    """Let the next one take over at once, if that can be told; else it has to wait until the lease has run out."""
    try:
        for found in find_clones(target):
            if found.sidecar.id == operation_id:
                clear(target, operation_id)
                _abandon(target, found)
    except OmnigraphError as error:
        log.warning("the claim of the clone %s was not released: %s", target.location.uri, error)
