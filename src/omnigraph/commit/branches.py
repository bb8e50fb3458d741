"""The branches of a graph: found by name, made and deleted. A branch is a manifest of its own, and one row of main's.

    make     the branch's manifest, seen by nobody; then its row in main's, by one swap: there, whole
    delete   the row is marked, by one swap: gone; then the branch's manifest is closed, and the row removed

No table is touched. A manifest that no row names is nobody's. A closed one takes no commit any more, so that whoever
still works on a deleted branch finds out. A deletion that died half-way is finished by the next who comes along.
"""

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import msgspec

from omnigraph.clock import format_instant
from omnigraph.commit.branch_errors import (
    BranchGoneError,
    BranchHasChildrenError,
    BranchMissingError,
    BranchOutcomeUnknownError,
)
from omnigraph.commit.branch_lock import get_branch_lock
from omnigraph.commit.branch_registry import change_registry
from omnigraph.commit.gc_horizon import check_reachable, check_staged_files
from omnigraph.commit.manifest_log import Head, LogOpener, ManifestLog, NotAGraphError, OutcomeUnknownError, create_log
from omnigraph.commit.manifest_types import MAIN, BranchRecord, Fork, GcHorizon, Manifest, Snapshot
from omnigraph.commit.ref_names import check_branch_name, check_name_free, check_untagged
from omnigraph.commit.tags import TagRegistry
from omnigraph.errors import OmnigraphError
from omnigraph.storage.cas_table_errors import SwapLostError
from omnigraph.storage.layout import MANIFEST, build_branch_path, format_version_name
from omnigraph.storage.object_store import StoreUnavailableError
from omnigraph.telemetry import log as telemetry_log

MAX_OPEN_LOGS = 256
"""How many logs of branches are kept open."""

Register = Mapping[str, BranchRecord]


@dataclass(frozen=True, slots=True)
class BranchDraft:
    """A branch that nobody sees yet: its row to be, and its manifest, which may be written to like any other."""

    record: BranchRecord
    fork: Fork
    log: ManifestLog
    main: Head
    """The state of main in which the name was free."""
    source: Snapshot
    """What it was taken from,"""
    parent: ManifestLog
    """and the log that has its commit."""


class BranchRegistry:
    """All branches of one open graph. Safe to share between threads."""

    def __init__(self, main: ManifestLog) -> None:
        self.main = main
        self.tags = TagRegistry(main)
        self._lock = threading.Lock()
        self._logs: OrderedDict[str, ManifestLog] = OrderedDict()
        self._paths: dict[str, str] = {}
        self._others = _build_log_opener(self)
        """By name, the manifest of a branch that was found before."""

    def list_records(self) -> list[BranchRecord]:
        """Every branch but main, by name."""
        return [record for _, record in sorted(self.main.head().snapshot.manifest.live_branches.items())]

    def get_log(self, name: str) -> ManifestLog:
        """The log of a branch, or BranchMissingError. One that was found before is not looked for again.

        So it may have been deleted since, and be another one by now: then its next use is a BranchGoneError, and after
        `forget` it is looked for anew.
        """
        if name == MAIN:
            return self.main
        path = self._paths.get(name)
        if path is None:
            path = self._paths[name] = _find_branch(self.main.head().snapshot.manifest.live_branches, name).path
        return self._get_log_at(name, path)

    def get_journal(self, name: str, path: str) -> ManifestLog:
        """The log of a manifest, by its place; its branch may have been deleted."""
        return self._get_log_at(name, path)

    def forget(self, log: ManifestLog) -> None:
        """A log turned out to be that of a deleted branch."""
        with self._lock:
            self._logs.pop(log.path, None)
            if self._paths.get(log.branch) == log.path:
                del self._paths[log.branch]

    def check_name(self, name: str) -> Head:
        """The state of main, in which the name is free; or BadBranchNameError, BranchExistsError, TagExistsError."""
        check_branch_name(name)
        head = self.main.cached_head()
        check_name_free(name, head.snapshot.manifest.live_branches)
        check_untagged(name, head.snapshot.manifest.tags)
        return head

    def draft(self, name: str, parent: ManifestLog, source: Snapshot, actor: str) -> BranchDraft:
        """A branch of that name as of `source`, whose commit is in the journal of `parent`; nobody sees it yet.

        Raises:
            BadBranchNameError, BranchExistsError: The name won't do.
            DataDroppedError: The state is of the past, and data of it was dropped for good since.
        """
        main = self.check_name(name)
        source.require_whole()
        store, commit = self.main.store, source.commit
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
            log = create_log(store, manifest, name, record.path, others=self._others)
        except OutcomeUnknownError as error:  # nobody looks for it there, whether it was written or not
            raise StoreUnavailableError(f"write the manifest of the branch `{name}`", error.reason) from error
        store.runtime.faults.reach("branch.written")
        return BranchDraft(record, fork, log, main, source, parent)

    def register(self, draft: BranchDraft) -> None:
        """Make a draft a branch, by one swap: from now on it is there, with everything that was written to it.

        Raises:
            BranchExistsError: The name was taken meanwhile. Like every failure, it leaves the draft as it was.
            TagExistsError: A tag has that name.
            BranchGoneError: The branch that it comes from was deleted meanwhile.
            CommitCollectedError, TooSlowError: Cleanup has collected what it starts from, or the draft itself.
            BranchOutcomeUnknownError: The store stopped answering; it may be there.
        """
        record = draft.record

        def added(manifest: Manifest) -> Register:
            old = manifest.branches
            check_name_free(record.name, manifest.live_branches)
            check_untagged(record.name, manifest.tags)
            self._check_source(draft, manifest)
            if record.name in old:
                self._close(old[record.name])
            return {**old, record.name: record}

        self._change(draft.main, record.name, added, lambda now: now.get(record.name) == record, may_be_undone=True)
        self.main.store.runtime.faults.reach("branch.registered")
        with self._lock:
            self._logs[record.path] = draft.log
            self._paths[record.name] = record.path

    def _check_source(self, draft: BranchDraft, manifest: Manifest) -> None:
        """What a draft was taken from is still there in a state of main, and cleanup has spared it and the draft."""
        if manifest.gc_horizon.epoch != draft.main.snapshot.manifest.gc_horizon.epoch:
            first = f"{draft.record.path}/{format_version_name(1)}"
            check_staged_files(self.main.store, manifest.gc_horizon, [first], is_leased=False)
        check_reachable(self.main, manifest, draft.source, draft.parent)

    def discard(self, draft: BranchDraft) -> None:
        """Nobody will see a draft: its files go. If that fails, they are nobody's and clean-up's."""
        objects = self.main.store.objects
        try:
            for info in objects.list_under(draft.record.path):
                objects.delete(info.key)
        except OmnigraphError as error:
            telemetry_log.warning("the manifest %s, which is nobody's, was not removed: %s", draft.record.path, error)

    def delete(self, name: str) -> BranchRecord:
        """Delete a branch; what it was. Whoever works on it gets a BranchGoneError from now on.

        Raises:
            BranchMissingError: There is none of that name.
            BranchHasChildrenError: Others were taken from it.
            BranchOutcomeUnknownError: The store stopped answering; it may be gone.
        """
        if name == MAIN:
            check_branch_name(name)  # which says why not
        head = self.main.head()
        record = _find_branch(head.snapshot.manifest.live_branches, name)
        gone = msgspec.structs.replace(record, is_deleted=True)

        def marked(manifest: Manifest) -> Register:
            live = manifest.live_branches
            if _find_branch(live, name).id != record.id:
                raise BranchGoneError(name)
            children = sorted(one.name for one in live.values() if one.parent_branch == name)
            if children:
                raise BranchHasChildrenError(name, tuple(children))
            return {**manifest.branches, name: gone}

        head = self._change(head, name, marked, lambda now: now.get(name) != record)
        self.main.store.runtime.faults.reach("branch.marked")
        try:
            self._finish(head, gone)
        except StoreUnavailableError as error:
            raise BranchOutcomeUnknownError(name, error.reason) from error
        return record

    def finish_deletions(self, head: Head) -> None:
        """Go on where somebody who deleted a branch has died, by what a state of main says. Usually there is none."""
        for record in head.snapshot.manifest.branches.values():
            if record.is_deleted:
                self._finish(head, record)

    def _finish(self, head: Head, record: BranchRecord) -> None:
        """Close the manifest of a deleted branch, then remove its row; may be done by several at once."""
        self._close(record)

        def removed(manifest: Manifest) -> Register:
            return {name: one for name, one in manifest.branches.items() if one.id != record.id}

        def is_removed(now: Register) -> bool:
            return all(one.id != record.id for one in now.values())

        try:
            self._change(head, record.name, removed, is_removed)
        except OmnigraphError as error:  # the branch is gone, and nobody can write to it: only its row is left
            telemetry_log.warning("the row of the deleted branch %s was not removed: %s", record.name, error)
        self.main.store.runtime.faults.reach("branch.removed")

    def _close(self, record: BranchRecord) -> None:
        """Let no commit follow on a deleted branch; nothing to do when that was done before."""
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
                continue  # a commit came first, and goes with the branch
            except OutcomeUnknownError as error:
                raise BranchOutcomeUnknownError(record.name, error.reason) from error
            break
        self.main.store.runtime.faults.reach("branch.closed")

    def _change(
        self,
        head: Head,
        name: str,
        change: Callable[[Manifest], Register],
        is_done: Callable[[Register], bool],
        *,
        may_be_undone: bool = False,
    ) -> Head:
        """Swap main's register of branches; see `change_registry`."""

        def changed(manifest: Manifest) -> Manifest:
            return replace(manifest, branches=change(manifest))

        try:
            return change_registry(
                self.main, head, changed, lambda manifest: is_done(manifest.branches), may_be_undone=may_be_undone
            )
        except OutcomeUnknownError as error:
            raise BranchOutcomeUnknownError(name, error.reason) from error

    def _get_log_at(self, name: str, path: str) -> ManifestLog:
        """The log of a manifest; the same one for as long as it is kept."""
        if path == MANIFEST:
            return self.main
        with self._lock:
            log = self._logs.get(path)
            if log is None:
                log = self._logs[path] = ManifestLog(self.main.store, name, path, others=self._others)
            self._logs.move_to_end(path)
            while len(self._logs) > MAX_OPEN_LOGS:
                _, oldest = self._logs.popitem(last=False)
                self._paths.pop(oldest.branch, None)
            return log


def _build_log_opener(branches: BranchRegistry) -> LogOpener:
    """How its logs find each other, without holding it: what nobody has any more is freed at once."""
    held, store = weakref.ref(branches), branches.main.store

    def others(name: str, path: str) -> ManifestLog:
        there = held()
        return ManifestLog(store, name, path) if there is None else there.get_journal(name, path)

    return others


def _find_branch(live: Register, name: str) -> BranchRecord:
    record = live.get(name)
    if record is None:
        raise BranchMissingError(name, (MAIN, *sorted(live)))
    return record
