"""Bugs that are planted into the commit package, one for each rule of its protocol; exploring must find them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from unittest.mock import patch

from omnigraph.commit import group_commit, publisher, recovery, sidecar, version_builder
from omnigraph.commit.branch_errors import OutcomeUnknownError
from omnigraph.commit.manifest_log import ManifestLog
from omnigraph.commit.rebase import rebase
from omnigraph.commit.verdict import Verdict
from omnigraph.ops import cleanup as cleanup_module
from omnigraph.storage.cas_table_errors import SwapLostError
from omnigraph.storage.layout import format_version_name
from omnigraph.storage.object_store import StoreUnavailableError
from schedules.model_room import ModelCasTable


@dataclass(frozen=True, slots=True)
class Planted:
    """A bug: the rule that it breaks, the cases in which it is looked for, and what replaces the code."""

    rule: str
    cases: tuple[str, ...]
    names: Mapping[str, Any]


def _none(*_: object, **__: object) -> None:
    """Do nothing."""


def _rebase_without_checks(plan: Any, now: Any, between: Any, handles: Any, known: Any) -> Any:
    return rebase(replace(plan, requirements=()), now, between, handles, known)


def _rebase_without_reads(plan: Any, now: Any, between: Any, handles: Any, known: Any) -> Any:
    written = {move.table_key for move in plan.moves}
    needs = tuple(each for each in plan.requirements if each.table_key in written)
    return rebase(replace(plan, requirements=needs), now, between, handles, known)


def _build_version_once(self: Any, move: Any, base: int) -> int:
    built = self._versions.get(move.table_key)
    if built is not None:
        return int(built[2])
    return int(_BUILD(self, move, base))


_BUILD = version_builder.VersionBuilder._build_version


def _disarm_before_swap(log: Any, group: Any) -> None:
    _FLUSH(log, group)
    for write in group.plans:
        if write.lease is not None:
            write.lease.disarm()


_FLUSH = group_commit._flush


def _settle_early(log: Any, group: Any) -> None:
    _FLUSH(log, group)
    for write, outcome in group.outcomes.items():
        if isinstance(outcome, tuple):
            write.settle(result=group_commit.PublishResult(outcome[0], group.state, outcome[1]))
            write.wake.set()


def _audit_before_fence(store: Any, item: Any) -> bool:
    recovery._audit(store, item, Verdict.ROLLED_BACK, None, 0)
    return bool(_FENCE(store, item))


_FENCE = recovery._fence


def _remove_sidecar_first(store: Any, branch: Any, item: Any, verdict: Any, report: Any) -> None:
    if verdict is Verdict.ROLLED_BACK:
        store.objects.delete(item.key)
    _RECOVER(store, branch, item, verdict, report)


_RECOVER = recovery._recover_operation


def _reclaim_before_commit(branch: Any, item: Any) -> Any:
    recovery._reclaim(branch.store, item)
    return _EMPTY(branch, item)


_EMPTY = recovery._publish_empty_commit


def _swap_without_comparison(self: Any, prepared: Any) -> Any:
    key = f"{self.path}/{format_version_name(self.version + 1)}"
    room = self.store.room
    self.store.model.request(
        "swap", key, lambda: room.write(key, prepared.content, self.store.scheduler.now), writes=True
    )
    return ModelCasTable(self.store, self.path, self.version + 1, prepared.content)


def _swap_on_newest(self: Any, prepared: Any) -> Any:
    try:
        return _COMMIT(self, prepared)
    except SwapLostError:
        return _COMMIT(self.open_latest(), prepared)


_COMMIT = ModelCasTable.commit


def _fail_on_unknown(self: Any, base: Any, prepared: Any, has_landed: Any, commit_id: str) -> Any:
    try:
        return _SWAP(self, base, prepared, has_landed, commit_id)
    except OutcomeUnknownError as error:
        raise StoreUnavailableError("swap", error.reason) from error


_SWAP = ManifestLog._swap


def _mark_nothing_new(self: Any, times: Any) -> Any:
    if not hasattr(self, "first_plan"):
        self.first_plan = _READ_HISTORIES(self, times)
    return self.first_plan


_READ_HISTORIES = cleanup_module._Cleanup._read_histories


def _replan_on_old_state(self: Any, write: Any, plan: Any, between: Any) -> Any:
    if write.replan is not None and not plan.is_deferred:
        again = write.replan(plan.base)
        write.files += [file for move in again.moves for file in move.staged.files]
        return replace(again, base=self.state)
    return _MOVE(self, write, plan, between)


_MOVE = group_commit._GroupRound._move


def _give_up_everything(store: Any, lease: Any, files: Any) -> None:
    _GIVE_UP(store, None, files)
    if lease is not None:
        lease.stop()


_GIVE_UP = publisher._give_up


def _publish_table_by_table(log: Any, handles: Any, plan: Any, armed: Any, replan: Any) -> Any:
    done = None
    for move in plan.moves:
        done = _PUBLISH(log, handles, replace(plan, moves=(move,)), armed, replan)
    return done


_PUBLISH = publisher.publish_or_replan


def _confirm_without_end(self: Any, files: Any) -> None:
    names = list(files)
    for _ in range(500):
        _CONFIRM(self, names)


_CONFIRM = sidecar.Lease.confirm


def _trust_every_lease(self: Any, files: Any, instant: Any) -> list[str]:
    del self, files, instant
    return []


def _trust_every_note(self: Any, named: Any) -> None:
    _LEARN(self, dict.fromkeys(named, datetime.min.replace(tzinfo=UTC)))


_LEARN = sidecar.Lease.learn_notes


_C = "omnigraph.commit"
BUGS: Mapping[str, Planted] = {
    "requirements-are-not-checked": Planted(
        "A plan that moves to a newer state checks again what it relied on.",
        ("two-writers-and-a-recovery", "a-schema-apply-and-a-writer"),
        {f"{_C}.group_commit.rebase": _rebase_without_checks},
    ),
    "reads-are-not-checked": Planted(
        "A plan that moves checks also what it has read and does not write.",
        ("a-skew",),
        {f"{_C}.group_commit.rebase": _rebase_without_reads},
    ),
    "a-version-is-reused-on-another-pin": Planted(
        "A version that was built on one pin is not the version for another.",
        ("a-disjoint-race",),
        {f"{_C}.version_builder.VersionBuilder._build_version": _build_version_once},
    ),
    "the-fence-is-skipped": Planted(
        "Recovery fences a dead operation before anything else.",
        ("an-armed-load-and-a-recovery", "an-armed-load-alone"),
        {f"{_C}.recovery._fence": lambda *_: True},
    ),
    "the-lease-is-not-confirmed": Planted(
        "A writer with a sidecar proves before its swap that it was not fenced.",
        ("an-armed-load-and-a-recovery", "an-armed-load-alone"),
        {f"{_C}.sidecar.Lease.confirm": _none},
    ),
    "no-empty-commit": Planted(
        "Recovery moves the manifest before it removes files, so that a swap on its way is lost.",
        ("an-armed-load-and-a-recovery", "an-armed-load-alone"),
        {f"{_C}.recovery._publish_empty_commit": _none},
    ),
    "files-go-before-the-empty-commit": Planted(
        "Recovery removes files only after the manifest has moved.",
        ("an-armed-load-and-a-recovery", "an-armed-load-alone"),
        {f"{_C}.recovery._publish_empty_commit": _reclaim_before_commit},
    ),
    "disarmed-before-the-swap": Planted(
        "The sidecar stays until the commit is published.",
        ("two-writers-and-a-recovery",),
        {f"{_C}.group_commit._flush": _disarm_before_swap},
    ),
    "told-before-the-swap": Planted(
        "No writer learns that it has committed before its swap.",
        ("a-group-and-a-crash", "two-writers-and-a-recovery"),
        {f"{_C}.group_commit._flush": _settle_early},
    ),
    "audited-before-the-fence": Planted(
        "What is audited has happened: the row is written after the fence and the commit.",
        ("an-armed-load-and-a-recovery", "an-armed-load-alone"),
        {f"{_C}.recovery._fence": _audit_before_fence},
    ),
    "the-sidecar-goes-first": Planted(
        "The sidecar is removed last, so that a recovery that dies is repeated.",
        ("an-armed-load-and-a-recovery", "an-armed-load-alone"),
        {f"{_C}.recovery._recover_operation": _remove_sidecar_first},
    ),
    "recovery-does-not-audit": Planted(
        "Every recovered operation has a row in the audit.",
        ("an-armed-load-and-a-recovery",),
        {f"{_C}.recovery._audit": _none},
    ),
    "a-swap-without-comparison": Planted(
        "A swap creates the next version, or fails.",
        ("two-writers-and-a-recovery",),
        {"schedules.model_room.ModelCasTable.commit": _swap_without_comparison},
    ),
    "a-lost-swap-is-repeated-on-the-newest": Planted(
        "A lost swap is never repeated as it is on the newest version.",
        ("two-writers-and-a-recovery",),
        {"schedules.model_room.ModelCasTable.commit": _swap_on_newest},
    ),
    "unknown-is-told-as-failed": Planted(
        "A swap without a response is reported as unknown, and its files stay.",
        ("two-writers-and-a-recovery", "a-repeated-request"),
        {f"{_C}.manifest_log.ManifestLog._swap": _fail_on_unknown},
    ),
    "the-floor-is-not-checked": Planted(
        "After a lost swap a writer checks that no cleanup has removed what it depends on.",
        ("a-writer-a-cleanup-and-a-reader", "a-slow-writer-and-a-cleanup"),
        {f"{_C}.group_commit._check_uncollected": _none},
    ),
    "cleanup-does-not-mark": Planted(
        "Cleanup looks again, after its horizon, at what is needed now.",
        ("a-writer-a-cleanup-and-a-reader", "a-slow-writer-and-a-cleanup"),
        {"omnigraph.ops.cleanup._Cleanup._read_histories": _mark_nothing_new},
    ),
    "no-horizon": Planted(
        "Cleanup publishes its horizon before it removes anything.",
        ("a-slow-writer-and-a-cleanup", "a-tag"),
        {"omnigraph.ops.cleanup.publish_horizon": lambda *_, **__: True},
    ),
    "a-tag-of-collected-data": Planted(
        "A tag or branch that is registered names a state that cleanup keeps.",
        ("a-tag", "a-late-branch"),
        {f"{_C}.tags.check_reachable": _none, f"{_C}.branches.check_reachable": _none},
    ),
    "a-stale-state-is-trusted": Planted(
        "A state that was not looked up lately is compared with the newest before a swap, and after it.",
        ("a-slow-writer-and-many-commits",),
        {
            f"{_C}.manifest_log._check_newest": _none,
            f"{_C}.manifest_log._verify": _none,
        },
    ),
    "run-again-on-the-old-state": Planted(
        "A mutation that is run again reads the newest state.",
        ("two-writers-and-a-recovery", "a-group-and-a-crash"),
        {f"{_C}.group_commit._GroupRound._move": _replan_on_old_state},
    ),
    "keys-are-forgotten": Planted(
        "A request that is sent again with its key has one effect.",
        ("a-repeated-request",),
        {
            f"{_C}.publisher.find_earlier_commit": _none,
            f"{_C}.group_commit._is_same_request": lambda *_: False,
        },
    ),
    "a-branch-is-not-closed": Planted(
        "A deleted branch accepts no commit.",
        ("a-branch-that-is-deleted",),
        {f"{_C}.branches.BranchRegistry._close": _none},
    ),
    "an-empty-turn": Planted(
        "Writers of one process take turns, and one that waits is woken.",
        ("a-group-and-a-crash", "a-slow-group"),
        {f"{_C}.commit_queue.CommitQueue._wake_next": _none, f"{_C}.commit_queue._PATIENCE_SECONDS": None},
    ),
    "sidecars-stay": Planted(
        "A writer that ends removes its sidecar.",
        ("an-armed-race",),
        {f"{_C}.publisher._give_up": _give_up_everything},
    ),
    "a-late-lease-is-trusted": Planted(
        "A lease protects from a cleanup only the files that it had named before.",
        ("an-armed-write-and-a-cleanup", "a-writer-a-cleanup-and-a-reader"),
        {f"{_C}.sidecar.Lease.list_named_late": _trust_every_lease},
    ),
    "a-late-note-is-trusted": Planted(
        "A note of a task protects from a cleanup only the files that it had named before.",
        ("a-distributed-load-and-a-cleanup",),
        {f"{_C}.sidecar.Lease.learn_notes": _trust_every_note},
    ),
    "table-by-table": Planted(
        "A commit of several tables is one swap.",
        ("a-large-write",),
        {"schedules.model_actors.publish_or_replan": _publish_table_by_table},
    ),
    "cleanup-forgets": Planted(
        "What no state needs and no operation names is removed by a cleanup.",
        ("many-commits",),
        {"omnigraph.ops.cleanup.remove_garbage": _none},
    ),
    "renewed-without-end": Planted(
        "A lease is renewed once for a swap.",
        ("two-writers-and-a-recovery",),
        {f"{_C}.sidecar.Lease.confirm": _confirm_without_end},
    ),
}


ONLY: Mapping[str, tuple[str, str]] = {
    "strict serializability": ("reads-are-not-checked", "a-skew"),
    "one effect of a key": ("keys-are-forgotten", "a-repeated-request"),
    "no acknowledged write lost": ("told-before-the-swap", "a-group-and-a-crash"),
    "no half": ("table-by-table", "a-large-write"),
    "every pin readable": ("the-floor-is-not-checked", "a-slow-writer-and-a-cleanup"),
    "a complete audit": ("recovery-does-not-audit", "an-armed-load-and-a-recovery"),
    "no file leaked": ("cleanup-forgets", "many-commits"),
    "no sidecar left": ("sidecars-stay", "an-armed-race"),
    "no wedge": ("an-empty-turn", "a-slow-group"),
    "costs": ("renewed-without-end", "two-writers-and-a-recovery"),
}
"""For each oracle, a bug that no other one finds, and the case in which it is looked for."""


@contextmanager
def plant(bug: Planted) -> Iterator[None]:
    """Break the rule inside the block."""
    patches = [patch(name, new) for name, new in bug.names.items()]
    for each in patches:
        each.start()
    try:
        yield
    finally:
        for each in reversed(patches):
            each.stop()
