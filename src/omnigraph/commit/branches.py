"""Look up, create and delete the branches of a graph. A branch is its own manifest plus one row in main's manifest.

    create   write the branch's manifest, invisible; then add its row to main's by one swap, which makes it visible
    delete   mark the row as deleted by one swap, which hides it; then close the branch's manifest and remove the row

No table is touched. A manifest that no row names belongs to no branch. A closed one accepts no further commit, so a
writer that still uses a deleted branch fails. A deletion that was interrupted is finished by the next writer.
"""

import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import msgspec

from omnigraph.clock import format_instant
from omnigraph.commit.branch_errors import (
    BranchGoneError,
    BranchHasChildrenError,
    BranchMissingError,
    OutcomeUnknownError,
)
from omnigraph.commit.branch_lock import get_branch_lock
from omnigraph.commit.branch_registry import change_registry
from omnigraph.commit.gc_horizon import check_reachable, check_staged_files
from omnigraph.commit.manifest_log import Head, LogOpener, ManifestLog, NotAGraphError, create_log
from omnigraph.commit.manifest_types import MAIN, BranchRecord, Fork, GcHorizon, Manifest, Snapshot
from omnigraph.commit.ref_names import check_branch_name, check_name_free, check_untagged
from omnigraph.commit.tags import TagRegistry
from omnigraph.concurrency import create_lock
from omnigraph.errors import OmnigraphError
from omnigraph.lru_cache import LruCache
from omnigraph.storage.cas_table_errors import SwapLostError
from omnigraph.storage.layout import MANIFEST, build_branch_path, format_version_name
from omnigraph.storage.object_store import StoreUnavailableError
from omnigraph.telemetry import log as telemetry_log

# Size of the LRU cache of branch logs; each holds a decoded head.
MAX_OPEN_LOGS = 256

BranchRecords = Mapping[str, BranchRecord]


@dataclass(frozen=True, slots=True)
class BranchDraft:
    """A branch that is not registered yet: its future row, and its manifest, which accepts commits like any other."""

    record: BranchRecord
    fork: Fork
    log: ManifestLog
    main: Head
    """The state of main in which the name was free."""
    source: Snapshot
    """The state the branch starts from."""
    parent: ManifestLog
    """The log whose journal has the commit of that state."""


class BranchRegistry:
    """The branches of one open graph. Thread-safe."""

    def __init__(self, main: ManifestLog) -> None:
        self.main = main
        self.tags = TagRegistry(main)
        self._lock = create_lock()
        self._logs: LruCache[str, ManifestLog] = LruCache(MAX_OPEN_LOGS)
        # Manifest paths of branches by name, so that a known branch costs no request on main.
        self._paths: dict[str, str] = {}
        self._open_log = _build_log_opener(self)

    def list_records(self) -> list[BranchRecord]:
        """Return the records of all branches except main, sorted by name."""
        return [record for _, record in sorted(self.main.head().snapshot.manifest.live_branches.items())]

    def get_log(self, name: str) -> ManifestLog:
        """Return the log of a branch. A branch that was looked up before is not looked up again.

        It may therefore have been deleted, and its name reused: its next use then raises BranchGoneError, and after
        `forget` the name is looked up again.

        Raises:
            BranchMissingError: The graph has no branch of that name.
        """
        if name == MAIN:
            return self.main
        path = self._paths.get(name)
        if path is None:
            path = self._paths[name] = _find_branch(self.main.head().snapshot.manifest.live_branches, name).path
        return self._get_log_at(name, path)

    def get_journal(self, name: str, path: str) -> ManifestLog:
        """Return the log of the manifest at a path; its branch may have been deleted."""
        return self._get_log_at(name, path)

    def forget(self, log: ManifestLog) -> None:
        """Drop the log of a deleted branch from the cache, so that its name is looked up again."""
        with self._lock:
            self._logs.pop(log.path)
            if self._paths.get(log.branch) == log.path:
                del self._paths[log.branch]

    def check_name(self, name: str) -> Head:
        """Check that a name can be given to a new branch, and return the state of main in which it is free.

        Raises:
            BadArgumentError: No branch may have this name.
            BranchExistsError, TagExistsError: The name is taken.
        """
        check_branch_name(name)
        head = self.main.cached_head()
        check_name_free(name, head.snapshot.manifest.live_branches)
        check_untagged(name, head.snapshot.manifest.tags)
        return head

    def draft(self, name: str, parent: ManifestLog, source: Snapshot, actor: str) -> BranchDraft:
        """Write the manifest of a new branch as of `source`, whose commit is in the journal of `parent`.

        The branch stays invisible until `register`.

        Raises:
            BadArgumentError, BranchExistsError, TagExistsError: The name is not allowed, or taken.
            DataDroppedError: `source` is a past state, and data of it was permanently dropped since.
        """
        main = self.check_name(name)
        source.require_whole()
        store = self.main.store
        commit = source.commit
        branch_id = store.runtime.ids.ulid()
        record = BranchRecord(
            name=name,
            id=branch_id,
            path=build_branch_path(branch_id),
            parent_branch=parent.branch,
            parent_commit=commit.id,
            created_at=format_instant(store.runtime.clock.now()),
            created_by=actor,
        )
        fork = Fork(
            branch=name,
            branch_id=branch_id,
            parent_branch=parent.branch,
            parent_path=parent.path,
            commit_id=commit.id,
            seq=commit.seq,
        )
        old = source.manifest
        manifest = Manifest(
            schema=old.schema,
            tables=old.tables,
            pins=old.pins,
            dropped=old.dropped,
            head=commit.id,
            commits=(commit,),
            fork=fork,
            gc_horizon=GcHorizon(epoch=old.gc_horizon.epoch, staged_before=old.gc_horizon.staged_before),
        )
        try:
            log = create_log(store, manifest, name, record.path, open_log=self._open_log)
        except OutcomeUnknownError as error:
            # No row names the manifest yet, so it does not matter whether it was written.
            raise StoreUnavailableError(f"write the manifest of the branch `{name}`", error.reason) from error
        store.runtime.faults.reach("branch.written")
        return BranchDraft(record, fork, log, main, source, parent)

    def register(self, draft: BranchDraft) -> None:
        """Register a draft as a branch, by one swap that makes it visible with everything written to it.

        Raises:
            BranchExistsError: The name was taken in the meantime. Like every failure, it leaves the draft unchanged.
            TagExistsError: A tag has that name.
            BranchGoneError: The branch it was created from was deleted in the meantime.
            CommitCollectedError, TooSlowError: Cleanup has collected the state it starts from, or the draft itself.
            OutcomeUnknownError: The store stopped responding; the branch may exist.
        """
        record = draft.record

        def add_record(manifest: Manifest) -> BranchRecords:
            records = manifest.branches
            check_name_free(record.name, manifest.live_branches)
            check_untagged(record.name, manifest.tags)
            self._check_source(draft, manifest)
            # An old row of the name is that of a deleted branch. Its manifest must be closed before the row is
            # replaced, because `finish_deletions` finds deleted branches by their rows.
            if record.name in records:
                self._close(records[record.name])
            return {**records, record.name: record}

        def is_added(records: BranchRecords) -> bool:
            row = records.get(record.name)
            # Or it was deleted since: only a branch that was registered is closed.
            return (row is not None and row.id == record.id) or draft.log.final_head().snapshot.manifest.is_closed

        self._change(draft.main, record.name, add_record, is_added, may_be_undone=True)
        self.main.store.runtime.faults.reach("branch.registered")
        with self._lock:
            self._cache_log(draft.log)
            self._paths[record.name] = record.path

    def _check_source(self, draft: BranchDraft, manifest: Manifest) -> None:
        """Check that a state of main still has the draft's source, and that cleanup has spared it and the draft."""
        # The draft itself is in danger only if a cleanup ran since the name was checked.
        if manifest.gc_horizon.epoch != draft.main.snapshot.manifest.gc_horizon.epoch:
            first_version = f"{draft.record.path}/{format_version_name(1)}"
            check_staged_files(self.main.store, manifest.gc_horizon, [first_version], None)
        check_reachable(self.main, manifest, draft.source, draft.parent)

    def discard(self, draft: BranchDraft) -> None:
        """Remove the files of a draft that will not be registered. If that fails, cleanup collects them later."""
        objects = self.main.store.objects
        try:
            for info in objects.list_under(draft.record.path):
                objects.delete(info.key)
        except OmnigraphError as error:
            telemetry_log.warning("the unused manifest %s was not removed: %s", draft.record.path, error)

    def delete(self, name: str) -> BranchRecord:
        """Delete a branch and return its record. Operations still using it fail with BranchGoneError.

        Raises:
            BadArgumentError: Main can't be deleted.
            BranchMissingError: The graph has no branch of that name.
            BranchHasChildrenError: Other branches were created from it.
            OutcomeUnknownError: The store stopped responding; the branch may be deleted.
        """
        if name == MAIN:
            check_branch_name(name)  # always raises for main, with the reason
        head = self.main.head()
        record = _find_branch(head.snapshot.manifest.live_branches, name)
        deleted = msgspec.structs.replace(record, is_deleted=True)

        def mark_deleted(manifest: Manifest) -> BranchRecords:
            live = manifest.live_branches
            if _find_branch(live, name).id != record.id:
                raise BranchGoneError(name)
            # Decided by the same swap that marks the row, so no child can be registered in between.
            children = sorted(branch.name for branch in live.values() if branch.parent_branch == name)
            if children:
                raise BranchHasChildrenError(name, tuple(children))
            return {**manifest.branches, name: deleted}

        head = self._change(head, name, mark_deleted, lambda records: records.get(name) != record)
        self.main.store.runtime.faults.reach("branch.marked")
        try:
            self._finish(head, deleted)
        except StoreUnavailableError as error:
            raise OutcomeUnknownError.branch_outcome_unknown(name, error.reason) from error
        return record

    def finish_deletions(self, head: Head) -> None:
        """Finish the interrupted deletions that a state of main shows. Usually there are none."""
        for record in head.snapshot.manifest.branches.values():
            if record.is_deleted:
                self._finish(head, record)

    def _finish(self, head: Head, record: BranchRecord) -> None:
        """Close the manifest of a deleted branch, then remove its row. Several processes may do it concurrently."""
        self._close(record)

        # Compared by id, since the name may belong to a new branch by now.
        def remove_record(manifest: Manifest) -> BranchRecords:
            return {name: branch for name, branch in manifest.branches.items() if branch.id != record.id}

        def is_removed(records: BranchRecords) -> bool:
            return all(branch.id != record.id for branch in records.values())

        try:
            self._change(head, record.name, remove_record, is_removed)
        except OmnigraphError as error:
            # The branch is deleted and closed; only its row is left, which the next writer removes.
            telemetry_log.warning("the row of the deleted branch %s was not removed: %s", record.name, error)
        self.main.store.runtime.faults.reach("branch.removed")

    def _close(self, record: BranchRecord) -> None:
        """Close the manifest of a deleted branch, so that no commit can follow; do nothing if it is closed already."""
        log = self._get_log_at(record.name, record.path)
        self.forget(log)
        while True:
            try:
                head = log.head()
            except (BranchGoneError, NotAGraphError):
                break
            manifest = head.snapshot.manifest
            assert manifest.fork is not None  # noqa: S101 - only main's has none, which is never deleted
            closed = replace(manifest, fork=msgspec.structs.replace(manifest.fork, is_closed=True))
            try:
                with get_branch_lock(log.store.location.uri, log.path):
                    log.publish(head, closed, lambda now: now.snapshot.manifest.is_closed)
            except SwapLostError:
                continue  # another writer's commit came first, and is deleted with the branch
            except OutcomeUnknownError as error:
                raise OutcomeUnknownError.branch_outcome_unknown(record.name, error.reason) from error
            break
        self.main.store.runtime.faults.reach("branch.closed")

    def _change(
        self,
        head: Head,
        name: str,
        change: Callable[[Manifest], BranchRecords],
        is_done: Callable[[BranchRecords], bool],
        *,
        may_be_undone: bool = False,
    ) -> Head:
        """Change the branches in main's manifest; see `change_registry`."""

        def change_branches(manifest: Manifest) -> Manifest:
            return replace(manifest, branches=change(manifest))

        try:
            return change_registry(
                self.main,
                head,
                change_branches,
                lambda manifest: is_done(manifest.branches),
                may_be_undone=may_be_undone,
            )
        except OutcomeUnknownError as error:
            raise OutcomeUnknownError.branch_outcome_unknown(name, error.reason) from error

    def _get_log_at(self, name: str, path: str) -> ManifestLog:
        """Return the log of a manifest from the LRU cache, opening it if necessary."""
        if path == MANIFEST:
            return self.main
        with self._lock:
            log = self._logs.get(path)
            if log is None:
                log = ManifestLog(self.main.store, name, path, open_log=self._open_log)
                self._cache_log(log)
            return log

    def _cache_log(self, log: ManifestLog) -> None:
        """Cache a log, and forget the paths of those that are dropped for it; the caller holds the lock."""
        dropped = self._logs.put(log.path, log)
        if dropped:
            self._paths = {name: path for name, path in self._paths.items() if path not in dropped}


def _build_log_opener(branches: BranchRegistry) -> LogOpener:
    """Return a function by which the logs of a registry open each other through its cache."""
    # The registry holds its logs. A weak reference back avoids a cycle, so that all are freed with the last user.
    registry_ref = weakref.ref(branches)
    store = branches.main.store

    def open_log(name: str, path: str) -> ManifestLog:
        registry = registry_ref()
        return ManifestLog(store, name, path) if registry is None else registry.get_journal(name, path)

    return open_log


def _find_branch(live: BranchRecords, name: str) -> BranchRecord:
    record = live.get(name)
    if record is None:
        raise BranchMissingError(name, (MAIN, *sorted(live)))
    return record
