"""Restore a manifest whose newest version is damaged, from its newest readable version.

A repair has two steps:

    aside    copy the file of each damaged version below `__recovery`, then remove the original
    publish  publish the newest readable state again, with a commit of the operation `repair`

The numbers of damaged versions are used again, and a reader may still hold a state that had one of them. The state is
therefore published until its version number exceeds them all, which every reader notices. A repair that dies half-way
leaves the copies, from which the next one sees that publishing is still to be done.

A damaged version may be the one in which a cleanup published its garbage-collection horizon. The restored state
therefore gets a new horizon that retains the commits whose table versions all exist: cleanup removes table versions
before their files.
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
# The start of the keys of damaged versions that were put aside.
ASIDE_PREFIX = f"{RECOVERY}/damaged-"


def build_aside_key(path: str, number: int) -> str:
    """Return the key under which the file of a damaged manifest version is put aside."""
    return f"{ASIDE_PREFIX}{path.replace('/', '-')}-{number}"


def list_asides(store: GraphStorage) -> dict[str, int]:
    """Return the highest version of each manifest that was put aside, by the start of its keys.

    It takes a single listing.
    """
    highest: dict[str, int] = {}
    for info in store.objects.list_under(RECOVERY):
        prefix, _, number = info.key.rpartition("-")
        if info.key.startswith(ASIDE_PREFIX) and number.isdigit():
            highest[prefix] = max(highest.get(prefix, 0), int(number))
    return highest


def find_unfinished(asides: Mapping[str, int], inspection: ManifestInspection) -> int | None:
    """Return the highest version of a manifest that was put aside, if the repair did not finish.

    None if a version with a higher number was published since, or if none was put aside.
    """
    highest = asides.get(build_aside_key(inspection.path, 0).rpartition("-")[0], 0)
    return highest if inspection.fault is None and highest >= inspection.newest > 0 else None


def put_aside(store: GraphStorage, inspection: ManifestInspection) -> None:
    """Move the damaged versions of a manifest out of the way, the newest first.

    Removing one frees its number for other writers, so only the very versions that were inspected are removed.

    Raises:
        ConflictError: Another writer or repair has changed the manifest since it was inspected.
    """
    readable = 0 if inspection.head is None else inspection.head.snapshot.manifest_version
    numbers = sorted(_list_versions(store, inspection.path), reverse=True)
    lost = find_lost_version(store, inspection.path, numbers[0]) if numbers else None
    newest = lost or (numbers[0] if numbers else 0)
    if not readable or newest != inspection.newest:
        raise ConflictError(
            "manifest", str(inspection.newest), str(newest or "none"), "it has changed since it was inspected"
        )
    # The newest version may have a hint and no file: the hint is then all there is to move aside.
    _move_hint_aside(store, inspection.path, inspection.newest)
    if lost is not None:
        store.runtime.faults.reach("repair.aside")
    for number in numbers:
        if number <= readable:
            break
        try:
            _move_aside(store, inspection.path, number, inspection.damaged.get(number))
        except (ObjectMissingError, ObjectChangedError):
            reason = "another repair is running"
            raise ConflictError("manifest", f"{number}, damaged", "another version", reason) from None
        store.runtime.faults.reach("repair.aside")


def _move_aside(store: GraphStorage, path: str, number: int, etag: str | None) -> None:
    """Copy the file of a version aside and remove the original, provided that it has this etag.

    Raises:
        ObjectMissingError: The file no longer exists.
        ObjectChangedError: The file has another etag.
    """
    key = f"{path}/{format_version_name(number)}"
    stored = store.objects.get(key)
    if stored.etag != etag:
        raise ObjectChangedError(key)
    store.objects.put(build_aside_key(path, number), stored.data)
    store.objects.delete_if_match(key, stored.etag)


def _move_hint_aside(store: GraphStorage, path: str, newest: int) -> None:
    """Remove the hint and the note of a version that is lost or about to be removed.

    The copy records the number of the version, even if the version has no file.
    """
    for key in (build_hint_key(path), build_note_key(path)):
        # There may be none, or a newer one of a writer that has published since.
        with suppress(ObjectMissingError, ObjectChangedError):
            hint = store.objects.get(key)
            # A repair that died may have copied the version itself to this key.
            with suppress(ObjectExistsError):
                store.objects.put_if_absent(build_aside_key(path, newest), hint.data)
            store.objects.delete_if_match(key, hint.etag)


def publish_beyond(log: ManifestLog, number: int, *, actor: str, message: str) -> Head:
    """Publish the newest state with one more commit, until its version number exceeds `number`.

    Returns the head that is reached. Swaps lost to other writers are retried.
    """
    commit_id = log.store.runtime.ids.ulid()
    while True:
        head = log.head()
        manifest = head.snapshot.manifest
        is_committed = manifest.head == commit_id or any(commit.id == commit_id for commit in manifest.commits)
        if is_committed and head.snapshot.manifest_version > number:
            return head
        # Later rounds publish the same manifest: only its version number has to grow, and one commit records the
        # repair.
        if not is_committed:
            commit = _build_commit(log, head, commit_id, actor, message)
            horizon = _build_horizon(log, head)
            manifest = replace(manifest, head=commit_id, commits=(*manifest.commits, commit), gc_horizon=horizon)
        try:
            with get_branch_lock(log.store.location.uri, log.path):
                log.publish(
                    head,
                    manifest,
                    lambda now: any(commit.id == commit_id for commit in now.snapshot.manifest.commits),
                )
        except SwapLostError:
            continue
        log.store.runtime.faults.reach("repair.beyond")


def cut_history(log: ManifestLog, head: Head, damage: JournalDamage, *, actor: str, message: str) -> Head:
    """Publish a commit after which the history of a branch begins where it is readable again.

    Earlier commits count as collected.

    Raises:
        ConflictError: Another writer has published in the meantime; inspect the manifest again.
    """
    manifest = head.snapshot.manifest
    commit = _build_commit(log, head, log.store.runtime.ids.ulid(), actor, message)
    horizon = structs.replace(
        manifest.gc_horizon, kept_from=max(manifest.gc_horizon.kept_from, damage.oldest.seq), kept=()
    )
    shortened = replace(manifest, head=commit.id, commits=(*manifest.commits, commit), gc_horizon=horizon)
    try:
        with get_branch_lock(log.store.location.uri, log.path):
            return log.publish(head, shortened, lost=damage.lost)
    except SwapLostError:
        newest = str(log.head().snapshot.manifest_version)
        raise ConflictError(
            "manifest", str(head.snapshot.manifest_version), newest, "another writer was faster"
        ) from None


def _build_horizon(log: ManifestLog, head: Head) -> GcHorizon:
    """Build the horizon of a restored state, with a new epoch that running writes and cleanups notice."""
    old = head.snapshot.manifest.gc_horizon
    *ranges, last = group_ranges({*_iter_readable_seqs(log, head), head.snapshot.commit.seq})
    return structs.replace(old, epoch=old.epoch + 1, kept_from=last[0], kept=tuple(ranges))


def _iter_readable_seqs(log: ManifestLog, head: Head) -> Iterator[int]:
    """Yield the numbers of the commits in a branch's own journal whose states can still be read.

    Those are the commits that the horizon retains and whose table versions all exist.
    """
    manifest = head.snapshot.manifest
    listings = (log.store.objects.list_under(directory) for directory in (NODES, EDGES))
    version_keys = {info.key for listing in listings for info in listing if info.key.endswith(".manifest")}
    tables = dict(manifest.tables)
    pins = dict(manifest.pins)
    purged_paths = set[str]()
    # Commits before the fork are in the parent's journal, which has its own horizon.
    first = -1 if manifest.fork is None else manifest.fork.seq
    for commit in _iter_readable_commits(log, head):
        if commit.seq < first:
            return
        keys = (build_version_key(pin.path, pin.version) for pin in pins.values() if pin.path not in purged_paths)
        if manifest.gc_horizon.retains(commit.seq) and all(key in version_keys for key in keys):
            yield commit.seq
        # States before a hard drop no longer count the dropped table: cleanup may have removed its versions.
        purged_paths |= {purge.path for purge in commit.purged}
        undo_commit(commit, tables, pins, {})


def _iter_readable_commits(log: ManifestLog, head: Head) -> Iterator[Commit]:
    """Yield the commits of a history back to the first that can't be read.

    Damage further back is left to a repair of the history.
    """
    try:
        yield from log.iter_history(head)
    except OmnigraphError as error:
        telemetry_log.info("the history of %s can't be read further back: %s", log.branch, error)


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
