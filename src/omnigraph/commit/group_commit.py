"""Publish the writes of a group with one swap: one version of the manifest, and in it a commit for each write.

Each write is checked on the state that those before it make, and is run again there if something that it read has
changed. A lost swap moves the whole group, in its order. A write that fails leaves alone, with its error. No write is
settled before the swap is verified.
"""

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from omnigraph.backoff import wait_for_retry
from omnigraph.commit.branch_errors import OutcomeUnknownError
from omnigraph.commit.branch_lock import get_branch_lock
from omnigraph.commit.commit_plan import CommitPlan
from omnigraph.commit.commit_queue import get_queue
from omnigraph.commit.conflict import ConflictError
from omnigraph.commit.gc_horizon import (
    TooSlowError,
    check_base_retained,
    check_merge_source_retained,
    check_staged_files,
)
from omnigraph.commit.idempotency import check_same_request
from omnigraph.commit.manifest_log import Head, ManifestLog, expect_pins
from omnigraph.commit.manifest_types import MAINTENANCE, Commit, Snapshot
from omnigraph.commit.next_manifest import build_next_manifest
from omnigraph.commit.rebase import find_changed_tables, rebase
from omnigraph.commit.row_changes import RECENT_CHANGES, RowChange, combine_changes, find_change, is_overtaken
from omnigraph.commit.sidecar import Lease
from omnigraph.commit.version_builder import VersionBuilder
from omnigraph.concurrency import Event, create_event
from omnigraph.errors import CorruptError
from omnigraph.storage.cas_table_errors import SwapLostError
from omnigraph.storage.table_cache import PANIC, TableCache

# The number of swaps that a write may lose in all. Rounds lost over tables that the write itself uses have a lower
# limit, `Options.publish_rounds`.
MAX_ROUNDS = 100

# After this time a group is published, and the others form the next one. It matters to writes of one row, which are all
# run again: 64 of them took 12 s on an object store, and again if another process won the swap.
MAX_PLACING_SECONDS = 0.5

# Runs a write again on another state, and returns its new plan; None if it changes nothing there.
Replan: TypeAlias = Callable[[Head], CommitPlan | None]


@dataclass(frozen=True, slots=True)
class PublishResult:
    """The commit of a publish. With `is_repeated`, an earlier request with the same idempotency key created it."""

    commit: Commit
    head: Head
    is_repeated: bool = False
    answer: object = None
    """The `answer` of the plan that was committed, which may not be the first one."""


# The commit of a write and whether an earlier request made it; None if it changes nothing; or why it failed.
_Outcome: TypeAlias = tuple[Commit, bool] | BaseException | None


@dataclass(eq=False)
class PendingCommit:
    """A write on its way to a commit. Its plan is based on a published state; the group does not change it."""

    log: ManifestLog
    handles: TableCache
    plan: CommitPlan
    commit_id: str
    files: list[str]
    """Every file that was created for it so far."""
    lease: Lease | None = None
    replan: Replan | None = None
    wake: Event = field(default_factory=create_event)
    is_settled: bool = False
    result: PublishResult | None = None
    error: BaseException | None = None
    superseded: frozenset[str] = frozenset()
    """Files that its commit does not need: of an earlier round, or from before it was run again."""
    is_sent: bool = False
    """Whether a swap that contains it may have been sent, and is not known to be lost."""
    was_sent: bool = False
    """Whether any swap that contains it was sent: one that seems lost may have happened."""
    contended: int = 0
    builder: VersionBuilder = field(init=False)

    def __post_init__(self) -> None:
        self.builder = VersionBuilder(self.log.store, self.handles, self.log.branch, self.files)

    def settle(self, *, result: PublishResult | None = None, error: BaseException | None = None) -> None:
        """Set the outcome."""
        self.result = result
        self.error = error
        self.is_settled = True

    def settle_interrupted(self) -> bool:
        """Settle it as unknown if its swap may have been sent when a leader was interrupted; return whether it was."""
        if self.is_sent:
            self.settle(error=OutcomeUnknownError(self.commit_id, "the writer was interrupted", self.log.branch))
        return self.is_sent


class _GroupRound:
    """The writes of a group, placed one after the other on a base, for one swap."""

    def __init__(self, log: ManifestLog, handles: TableCache, base: Head) -> None:
        self._log = log
        self._handles = handles
        self.base = base
        # The state after the writes placed so far; its table is that of the base until the swap.
        self.state = base
        self.commits: list[Commit] = []
        self.outcomes: dict[PendingCommit, _Outcome] = {}
        self.plans: dict[PendingCommit, CommitPlan] = {}
        self._since: dict[int, list[Commit]] = {}
        # By base and table: what the commits since then changed, and how many of this round's are included.
        self._changes: dict[tuple[int, str], tuple[RowChange | None, int]] = {}
        self._began = log.store.runtime.clock.monotonic()

    @property
    def is_full(self) -> bool:
        """Whether the head has no room for another commit: the journal is sealed as by single commits."""
        commits = len(self.base.snapshot.manifest.commits) + len(self.commits)
        return bool(self.commits) and commits > self._log.store.runtime.options.head_commits

    @property
    def is_late(self) -> bool:
        """Whether the first writes have waited long enough for their swap."""
        seconds = self._log.store.runtime.clock.monotonic() - self._began
        return bool(self.commits) and seconds > MAX_PLACING_SECONDS

    def place_all(self, writes: Sequence[PendingCommit]) -> None:
        """Add writes one after the other, until the head has no room for another commit or the time is over."""
        for write in writes:
            if self.is_full or self.is_late:
                return
            self.place(write)

    def place(self, write: PendingCommit) -> None:
        """Add a write after the others, or record that it fails, repeats another or changes nothing."""
        try:
            self.outcomes[write] = self._place(write)
        except BaseException as error:  # it fails alone: the others do not depend on it
            # A panic of Rust is not an Exception either; but an interrupt is the leader's.
            if not isinstance(error, Exception) and type(error).__name__ != PANIC:
                raise
            self.outcomes[write] = error
        self._log.store.runtime.faults.reach("group.placed")

    def _place(self, write: PendingCommit) -> _Outcome:
        plan = write.plan
        if plan.base.table.version > self.base.table.version:
            raise CorruptError.graph_replaced(
                self._log.store.location.uri, plan.base.table.version, self.base.table.version
            )
        _check_uncollected(self._log, plan, self.base, write.files, write.lease)
        if plan.base.table.version < self.base.table.version or self.commits or not plan.is_placed:
            between = self._list_commits_since(plan.base)
            for commit in between:
                # A swap whose response was lost looks like a lost swap: this write's own commit is then in the history.
                if commit.id == write.commit_id or _is_same_request(plan, commit):
                    return commit, commit.id != write.commit_id
            moved = self._move(write, plan, between)
            if moved is None:
                return None
            plan = moved
        if plan.watch is not None:
            # The last check of the round: once its swap is sent, the commit may be visible.
            plan.watch.check()
        applied = write.builder.apply(plan)
        manifest = build_next_manifest(self._log, plan, applied, write.commit_id)
        snapshot = Snapshot(
            branch=self._log.branch, manifest_version=manifest.head_commit.manifest_version, manifest=manifest
        )
        self.state = Head(snapshot, self.base.table)
        self.commits.append(manifest.head_commit)
        # A move of an adopted table starts from another branch, so its change says nothing about the rows before.
        changes = {move.table_key: move.change for move in plan.moves}
        # Known to the writes after it; if the swap is lost, no commit has this digest.
        RECENT_CHANGES.get().remember(
            manifest.head_commit, {key: None if key in plan.adopted else change for key, change in changes.items()}
        )
        self.plans[write] = plan
        return manifest.head_commit, False

    def _move(self, write: PendingCommit, plan: CommitPlan, between: Sequence[Commit]) -> CommitPlan | None:
        """Move a plan onto the state so far, or run the write again there; None if it changes nothing there."""
        may_run_again = write.replan is not None and plan.if_commit is None
        try:
            if not plan.is_deferred:
                known = {key: self._find_change(key, plan.base) for key in plan.used_tables}
                # Whether a row that was written again has other values than before is not worth reading it twice.
                if not (may_run_again and _is_overtaken(plan, known)):
                    return rebase(plan, self.state, between, self._handles, known)
        except ConflictError:
            if not may_run_again:
                raise
        assert write.replan is not None  # noqa: S101 - a deferred plan comes with it
        # Another handle has not seen the pins of writes that are not published yet.
        expect_pins(write.log.store, self.state.snapshot.pins.values())
        again = write.replan(self.state)
        if again is not None:
            write.files += [file for move in again.moves for file in move.staged.files]
            again = replace(again, epoch=_find_epoch(again))
        return again

    def _list_commits_since(self, head: Head) -> list[Commit]:
        """Return the commits after a published state, newest first: those of the group, then published ones."""
        return [*reversed(self.commits), *self._list_published_since(head)]

    def _list_published_since(self, head: Head) -> list[Commit]:
        seq = head.snapshot.commit.seq
        if seq not in self._since:
            self._since[seq] = self._log.read_since(self.base, seq)
        return self._since[seq]

    def _find_change(self, table_key: str, head: Head) -> RowChange | None:
        """Return what the commits after a published state changed about a table; None if that is not known.

        What is known of the writes placed before is extended: together, the members of a group would look through
        each other's changes as often as there are pairs of them.
        """
        key = (head.snapshot.commit.seq, table_key)
        if key in self._changes:
            change, count = self._changes[key]
        else:
            change, count = find_change(table_key, self._list_published_since(head)), 0
        new = self.commits[count:]
        if new and change is not None:
            later = find_change(table_key, new)
            change = None if later is None else combine_changes([change, later])
        self._changes[key] = change, len(self.commits)
        return change


def publish_group(
    log: ManifestLog, handles: TableCache, writes: Sequence[PendingCommit], wait_turn: Callable[[], None]
) -> None:
    """Publish writes in order, with one swap, and settle them.

    Some may be left unsettled, if the journal is to be sealed before them, or if the first have taken long. `wait_turn`
    is called after a lost swap.
    """
    log.store.runtime.faults.reach("group.led")
    try:
        _run_rounds(log, handles, writes, wait_turn)
    except OutcomeUnknownError as error:
        for write in writes:
            if not write.is_settled:
                write.settle(error=OutcomeUnknownError(write.commit_id, error.reason, error.branch))
    except Exception as error:  # noqa: BLE001 - each writer raises it
        for write in writes:
            if not write.is_settled:
                write.settle(error=error if len(writes) == 1 else _copy_error(error))


def _copy_error(error: Exception) -> Exception:
    """Return an error that another thread may raise; each raise changes the traceback of an exception."""
    try:
        return copy.copy(error)
    except Exception:  # noqa: BLE001 - an exception of a library that can't be copied
        return error


def _run_rounds(
    log: ManifestLog, handles: TableCache, writes: Sequence[PendingCommit], wait_turn: Callable[[], None]
) -> None:
    """Repeat rounds until a swap is won, and settle the writes."""
    runtime = log.store.runtime
    options = runtime.options
    base = _find_base(log, writes)
    for write in writes:
        # It has read nothing yet, and it was not sent: only a repeated request could have been committed since.
        if write.plan.is_deferred and not write.was_sent and write.plan.idempotency_key is None:
            write.plan = replace(write.plan, base=base, epoch=None)
        write.plan = replace(write.plan, epoch=_find_epoch(write.plan))
    lost = 0
    while True:
        group = _GroupRound(log, handles, base)
        group.place_all([write for write in writes if not write.is_settled])
        if not group.commits:
            _settle(group, base)
            return
        _flush(log, group)
        try:
            # A write that publishes alone waits for a group that is being placed, and does not make it start again.
            with get_queue(log).hold(), get_branch_lock(log.store.location.uri, log.path):
                for write in group.outcomes:
                    write.is_sent = write.was_sent = True
                head = log.publish(base, group.state.snapshot.manifest)
        except SwapLostError:
            for write in group.outcomes:
                write.is_sent = False
        else:
            _settle(group, head)
            return
        lost += 1
        wait_turn()
        newest = log.head()
        between = log.read_since(newest, base.snapshot.commit.seq)
        # A commit of maintenance comes alone: after it there is nothing to wait for.
        if not all(commit.is_maintenance for commit in between):
            wait_for_retry(runtime, lost)
            newest = log.head()
            between = log.read_since(newest, base.snapshot.commit.seq)
        for write, plan in group.plans.items():
            write.contended += _is_contended(plan if write.plan.is_deferred else write.plan, base, newest, between)
            is_own = any(commit.id == write.commit_id for commit in between)
            # A write that can't be run again here was checked as a whole, which takes longer than any round.
            rounds = MAX_ROUNDS if write.replan is None else options.publish_rounds
            if (write.contended >= rounds or lost >= MAX_ROUNDS) and not is_own:
                reason = f"{lost} rounds were lost to other writers"
                base_id = base.snapshot.commit.id
                write.settle(error=ConflictError("graph_head", base_id, newest.snapshot.commit.id, reason))
        base = newest


def _find_base(log: ManifestLog, writes: Sequence[PendingCommit]) -> Head:
    """Return the newest state that this process knows; older plans are moved onto it without losing a swap first."""
    newest = max((write.plan.base for write in writes), key=lambda head: head.table.version)
    known = log.peek_head()
    if known is not None and known.table.version >= newest.table.version:
        return known
    # Another handle has seen a newer state; a single write brings its own.
    return newest if len(writes) == 1 else log.head()


def _flush(log: ManifestLog, group: _GroupRound) -> None:
    """Make all files of a round durable, and prove that none of its writes was fenced."""
    files: list[str] = []
    for write in group.plans:
        files += write.builder.list_unflushed()
    log.store.flush(files)
    # Not before: if the leader is interrupted, the next one flushes them.
    for write in group.plans:
        write.builder.mark_flushed()
    log.store.runtime.faults.reach("publish.flushed")
    for write in group.plans:
        if write.lease is not None:
            write.lease.confirm(dict.fromkeys(write.files))


def _settle(group: _GroupRound, head: Head) -> None:
    for write, outcome in group.outcomes.items():
        if isinstance(outcome, BaseException):
            write.settle(error=outcome)
        elif outcome is None:
            write.settle()
        else:
            commit, is_repeated = outcome
            plan = group.plans.get(write)
            if plan is not None and plan.is_groupable:
                write.superseded = frozenset(write.files) - write.builder.list_files(plan)
            answer = None if plan is None or is_repeated else plan.answer
            write.settle(result=PublishResult(commit, head, is_repeated, answer))


def _find_epoch(plan: CommitPlan) -> int:
    base_epoch = plan.base.snapshot.manifest.gc_horizon.epoch
    return base_epoch if plan.epoch is None else min(plan.epoch, base_epoch)


def _check_uncollected(
    log: ManifestLog, plan: CommitPlan, newest: Head, files: Iterable[str], lease: Lease | None
) -> None:
    """Check that no cleanup since the plan was begun has removed data that the plan depends on.

    Without a cleanup since, nothing is checked. A cleanup that runs from now on moves the manifest, so the swap is lost
    and this check is repeated.

    Raises:
        TooSlowError: A cleanup has removed such data, or may have.
    """
    horizon = newest.snapshot.manifest.gc_horizon
    if horizon.epoch == plan.epoch:
        return
    if not plan.outlives_cleanup:
        raise TooSlowError(horizon.epoch, "may have removed the versions that it restores")
    check_base_retained(horizon, plan.base.snapshot.commit)
    check_staged_files(log.store, horizon, files, lease)
    if plan.merged_from is not None:
        check_merge_source_retained(log, horizon, plan.merged_from)


def _is_contended(plan: CommitPlan, base: Head, newest: Head, between: Sequence[Commit]) -> bool:
    """Return whether a round was lost over a table that this write uses.

    Rounds lost to unrelated commits do not count towards the lower limit. Maintenance never counts: it gives way to
    writes for as many rounds as it takes.
    """
    if plan.operation in MAINTENANCE:
        return False
    return bool(plan.used_tables & find_changed_tables(base.snapshot, newest.snapshot, between))


def _is_overtaken(plan: CommitPlan, known: Mapping[str, RowChange | None]) -> bool:
    """Return whether changes of tables are known to include rows that a plan requires to be unchanged."""
    changes = [(requirement, known.get(requirement.table_key)) for requirement in plan.requirements]
    return any(change is not None and is_overtaken(requirement, change) for requirement, change in changes)


def _is_same_request(plan: CommitPlan, commit: Commit) -> bool:
    """Return whether an earlier try of the same request created this commit.

    Raises:
        KeyReusedError: The commit has the same idempotency key, but was another request.
    """
    key = plan.idempotency_key
    if key is None or (commit.actor, commit.idempotency_key) != (plan.actor, key):
        return False
    check_same_request(commit, plan.operation, plan.request)
    return True
