"""A manifest whose newest version is damaged goes back to the newest whole one, and says so by a commit.

    aside    each damaged version's file is copied below `__recovery`, then removed from its place; nothing else is
    publish  a commit of the operation `repair` on the state that is the newest now

Numbers of damaged versions are used again, and somebody may still hold a state that had one. So the state is published
until its number is beyond them all: then everybody notices. Whoever dies half-way leaves the copies, by which the next
one knows that this is still to be done.

A damaged version may have been the one by which a cleanup said what it takes. So the state that is published has a
floor of its own: it keeps those commits whose versions of tables are all there. A cleanup removes these before their
files.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace

from msgspec import structs

from omnigraph.commit.branch_lock import get_branch_lock
from omnigraph.commit.commit_clock import compute_commit_time
from omnigraph.commit.conflict import ConflictError
from omnigraph.commit.digests import add_digest
from omnigraph.commit.gc_retention import group_ranges
from omnigraph.commit.manifest_check import JournalDamage, ManifestInspection
from omnigraph.commit.manifest_log import Head, ManifestLog, find_lost_version
from omnigraph.commit.manifest_types import Commit, GcHorizon
from omnigraph.commit.time_travel import undo_commit
from omnigraph.errors import OmnigraphError
from omnigraph.storage.cas_table_errors import SwapLostError
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.layout import (
    EDGES,
    NODES,
    RECOVERY,
    build_hint_key,
    build_note_key,
    build_version_key,
    format_version_name,
    parse_version_number,
)
from omnigraph.storage.object_store import ObjectChangedError, ObjectExistsError, ObjectMissingError
from omnigraph.telemetry import log as telemetry_log

OPERATION = "repair"
ASIDE_PREFIX = f"{RECOVERY}/damaged-"
"""What the keys of versions that were put aside begin with."""


def build_aside_key(path: str, number: int) -> str:
    """Where the file of a damaged version of a manifest is kept."""
    return f"{ASIDE_PREFIX}{path.replace('/', '-')}-{number}"


def list_asides(store: GraphStorage) -> dict[str, int]:
    """The highest version that was put aside of each manifest, by the beginning of the keys of those; one list."""
    found: dict[str, int] = {}
    for info in store.objects.list_under(RECOVERY):
        start, _, number = info.key.rpartition("-")
        if info.key.startswith(ASIDE_PREFIX) and number.isdigit():
            found[start] = max(found.get(start, 0), int(number))
    return found


def find_unfinished(found: Mapping[str, int], look: ManifestInspection) -> int | None:
    """The highest version of a manifest that was put aside, when nothing was published beyond it yet."""
    highest = found.get(build_aside_key(look.path, 0).rpartition("-")[0], 0)
    return highest if look.fault is None and highest >= look.newest > 0 else None


def put_aside(store: GraphStorage, look: ManifestInspection) -> None:
    """Take the damaged versions of a manifest out of the way, the newest first.

    Whoever removes one frees its number, and others publish under it: so only what was looked at goes.

    Raises:
        ConflictError: Somebody has published meanwhile, so that the manifest is not as it was looked at.
    """
    whole = 0 if look.head is None else look.head.snapshot.manifest_version
    numbers = sorted(_list_versions(store, look.path), reverse=True)
    lost = find_lost_version(store, look.path, numbers[0]) if numbers else None
    newest = lost or (numbers[0] if numbers else 0)
    if not whole or newest != look.newest:
        raise ConflictError("manifest", str(look.newest), str(newest or "none"), "it is not as it was looked at")
    _move_hint_aside(store, look.path, look.newest)
    if lost is not None:
        store.runtime.faults.reach("repair.aside")
    for number in numbers:
        if number <= whole:
            break
        try:
            _move_aside(store, look.path, number, look.damaged.get(number))
        except (ObjectMissingError, ObjectChangedError):
            reason = "another repair is at it"
            raise ConflictError("manifest", f"{number}, damaged", "another version", reason) from None
        store.runtime.faults.reach("repair.aside")


def _move_aside(store: GraphStorage, path: str, number: int, etag: str | None) -> None:
    """ObjectMissingError or ObjectChangedError unless the version is the one that has this etag."""
    key = f"{path}/{format_version_name(number)}"
    found = store.objects.get(key)
    if found.etag != etag:
        raise ObjectChangedError(key)
    store.objects.put(build_aside_key(path, number), found.data)
    store.objects.delete_if_match(key, found.etag)


def _move_hint_aside(store: GraphStorage, path: str, newest: int) -> None:
    """Forget that a version was made which is gone or goes; its number stays known by the copy, even without a file."""
    for key in (build_hint_key(path), build_note_key(path)):
        # There may be none, or a newer one of somebody who has published since.
        with suppress(ObjectMissingError, ObjectChangedError):
            hint = store.objects.get(key)
            with suppress(ObjectExistsError):  # a repair that died has kept the version itself under that name
                store.objects.put_if_absent(build_aside_key(path, newest), hint.data)
            store.objects.delete_if_match(key, hint.etag)


def publish_beyond(log: ManifestLog, number: int, *, actor: str, message: str) -> Head:
    """Publish the newest state with one more commit, and until its version has a larger number than this."""
    commit_id = log.store.runtime.ids.ulid()
    while True:
        head = log.head()
        manifest = head.snapshot.manifest
        has_it = manifest.head == commit_id or any(one.id == commit_id for one in manifest.commits)
        if has_it and head.snapshot.manifest_version > number:
            return head
        if not has_it:
            commit = _build_commit(log, head, commit_id, actor, message)
            floor = _build_horizon(log, head)
            manifest = replace(manifest, head=commit_id, commits=(*manifest.commits, commit), gc_horizon=floor)
        try:
            with get_branch_lock(log.store.location.uri, log.path):
                log.publish(
                    head, manifest, lambda now: any(one.id == commit_id for one in now.snapshot.manifest.commits)
                )
        except SwapLostError:
            continue
        log.store.runtime.faults.reach("repair.beyond")


def cut_history(log: ManifestLog, head: Head, damage: JournalDamage, *, actor: str, message: str) -> Head:
    """Let the history of a branch begin behind what can't be read: earlier commits count as collected.

    Raises:
        ConflictError: Somebody else has published meanwhile: look again.
    """
    manifest = head.snapshot.manifest
    commit = _build_commit(log, head, log.store.runtime.ids.ulid(), actor, message)
    floor = structs.replace(
        manifest.gc_horizon, kept_from=max(manifest.gc_horizon.kept_from, damage.oldest.seq), kept=()
    )
    begun = replace(manifest, head=commit.id, commits=(*manifest.commits, commit), gc_horizon=floor)
    try:
        with get_branch_lock(log.store.location.uri, log.path):
            return log.publish(head, begun, lost=damage.lost)
    except SwapLostError:
        found = str(log.head().snapshot.manifest_version)
        raise ConflictError("manifest", str(head.snapshot.manifest_version), found, "somebody was quicker") from None


def _build_horizon(log: ManifestLog, head: Head) -> GcHorizon:
    """The floor of a state that was gone back to; a new one, by which writers and cleanups at work notice."""
    old = head.snapshot.manifest.gc_horizon
    *kept, last = group_ranges({*_iter_readable_seqs(log, head), head.snapshot.commit.seq})
    return structs.replace(old, epoch=old.epoch + 1, kept_from=last[0], kept=tuple(kept))


def _iter_readable_seqs(log: ManifestLog, head: Head) -> Iterator[int]:
    """The commits of a branch's own journal that no cleanup has collected, by its floor and by what is there."""
    manifest = head.snapshot.manifest
    rooms = (log.store.objects.list_under(room) for room in (NODES, EDGES))
    there = {info.key for room in rooms for info in room if info.key.endswith(".manifest")}
    tables, pins, lost = dict(manifest.tables), dict(manifest.pins), set[str]()
    first = -1 if manifest.fork is None else manifest.fork.seq
    for commit in _iter_readable_commits(log, head):
        if commit.seq < first:
            return
        shown = (pin for pin in pins.values() if pin.path not in lost)
        if manifest.gc_horizon.retains(commit.seq) and all(
            build_version_key(pin.path, pin.version) in there for pin in shown
        ):
            yield commit.seq
        lost |= {purge.path for purge in commit.purged}
        undo_commit(commit, tables, pins, {})


def _iter_readable_commits(log: ManifestLog, head: Head) -> Iterator[Commit]:
    """The commits as far back as they can be read: what is damaged behind that is another repair's."""
    try:
        yield from log.iter_history(head)
    except OmnigraphError as error:
        telemetry_log.info("the history of %s is read no further: %s", log.branch, error)


def _build_commit(log: ManifestLog, head: Head, commit_id: str, actor: str, message: str) -> Commit:
    commit = Commit(
        id=commit_id,
        parent=head.snapshot.commit.id,
        seq=head.snapshot.commit.seq + 1,
        branch=log.branch,
        actor=actor,
        at=compute_commit_time(log.store, head.snapshot.commit),
        operation=OPERATION,
        message=message,
        manifest_version=head.snapshot.manifest_version + 1,
    )
    return add_digest(commit, head.snapshot.commit, head.snapshot.manifest.schema)


def _list_versions(store: GraphStorage, path: str) -> Iterable[int]:
    return filter(None, (parse_version_number(info.key) for info in store.objects.list_under(f"{path}/_versions")))
