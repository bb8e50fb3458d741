"""Writers of one process that wait are published together: one swap, and a commit of its own for each."""

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from grouping import grouped, increment, plan_increment
from omnigraph.commit import group_commit, manifest_log
from omnigraph.commit.branch_errors import OutcomeUnknownError
from omnigraph.commit.commit_plan import CommitPlan
from omnigraph.commit.commit_queue import CommitQueue, get_queue
from omnigraph.commit.conflict import ConflictError
from omnigraph.commit.group_commit import PendingCommit, publish_group
from omnigraph.commit.manifest_log import Head, ManifestLog
from omnigraph.commit.manifest_types import Commit, Manifest
from omnigraph.commit.publisher import publish_or_replan
from omnigraph.commit.requirements import CountsWithin, RowsUnchanged
from omnigraph.commit.time_travel import read_at_commit, read_at_version
from omnigraph.concurrency import Event, create_event
from omnigraph.ops.session import Session
from omnigraph.ops.write_tables import TableWrite, stage_plan, write_tables
from omnigraph.runtime import Runtime
from omnigraph.storage.cas_table import CasTable
from omnigraph.storage.cas_table_errors import SwapLostError
from omnigraph.storage.object_store import StoreUnavailableError
from worlds import FAST, reopened, rows, seeded_world, state


@pytest.fixture
def world(tmp_path: Path) -> Session:
    return seeded_world(tmp_path / "g")


def put(session: Session, row: str, value: int = 7, **named: Any) -> Callable[[], Commit]:
    """A write of one row, to be called."""

    def call() -> Commit:
        done = write_tables(
            session, [TableWrite(table_key="node:A", upsert=rows({row: value}))], operation="w", actor="x", **named
        )
        assert done is not None
        return done.commit

    return call


def history(session: Session) -> list[Commit]:
    """The commits, oldest first."""
    return list(session.log.iter_history(session.head()))[::-1]


def values_at(session: Session, commit_id: str) -> dict[str, int]:
    snapshot = read_at_commit(session.log, session.head(), commit_id)
    table = session.open_tables(snapshot).open_table("node:A").scan(["id", "v"])
    assert snapshot.pin("node:A").rows == table.num_rows
    return dict(zip(table["id"].to_pylist(), table["v"].to_pylist(), strict=True))


class Hook:
    """Faults that call a function when a point is reached for the n-th time."""

    def __init__(self, point: str, act: Callable[[], object], nth: int = 1) -> None:
        self.point, self.act, self.left = point, act, nth

    def reach(self, point: str) -> None:
        if point == self.point:
            self.left -= 1
            if self.left == 0:
                self.act()


def hooked(session: Session, hook: Hook) -> Session:
    session.store.runtime = Runtime(options=FAST, faults=hook)
    return session


def interrupt() -> None:
    raise KeyboardInterrupt


def test_eight_increments_of_one_row_are_eight(world: Session) -> None:
    commits = grouped(world, [lambda: increment(world)] * 8)

    assert state(reopened(world))["node:A"]["a"] == 9
    assert len({commit.manifest_version for commit in commits}) == 1
    assert [values_at(world, commit.id)["a"] for commit in commits] == list(range(2, 10))


def test_a_group_is_one_version_and_a_commit_for_each(world: Session) -> None:
    first = world.head().snapshot.commit
    before = world.head().table.version

    commits = grouped(world, [put(world, f"n{number}", number) for number in range(16)])

    opened = reopened(world)
    assert opened.head().table.version == before + 1
    assert {commit.manifest_version for commit in commits} == {before + 1}
    assert [commit.seq for commit in commits] == list(range(first.seq + 1, first.seq + 17))
    assert [commit.parent for commit in commits] == [first.id, *(commit.id for commit in commits[:-1])]
    assert history(opened)[-16:] == commits
    assert len({commit.digest for commit in commits}) == 16
    for number, commit in enumerate(commits):
        assert set(values_at(opened, commit.id)) == {*"abcd", *(f"n{n}" for n in range(number + 1))}
    newest = read_at_version(opened.log, opened.head(), before + 1)
    assert newest.commit.id == commits[-1].id
    assert read_at_version(opened.log, opened.head(), before).commit.id == first.id


def test_writes_of_other_handles_are_in_the_same_group(world: Session) -> None:
    handles = [world, *(reopened(world) for _ in range(3))]

    commits = grouped(world, [lambda handle=handle: increment(handle) for handle in handles])  # type: ignore[misc]

    assert len({commit.manifest_version for commit in commits}) == 1
    assert [state(handle)["node:A"]["a"] for handle in handles] == [5] * 4


def test_handles_that_store_in_another_way_have_another_queue(world: Session) -> None:
    other = reopened(world, replace(FAST, storage={"aws_access_key_id": "other"}))

    assert get_queue(world.log) is get_queue(reopened(world).log)
    assert get_queue(world.log) is not get_queue(other.log)


def test_a_member_that_fails_leaves_alone(world: Session) -> None:
    head = world.head().snapshot.commit.id
    calls = [put(world, "n1"), put(world, "n2", if_commit=head), put(world, "n3")]

    first, failed, last = grouped(world, calls)

    assert isinstance(failed, ConflictError)
    assert last.parent == first.id
    assert set(state(reopened(world))["node:A"]) == {*"abcd", "n1", "n3"}


def test_if_commit_holds_for_the_first_of_a_group(world: Session) -> None:
    head = world.head().snapshot.commit.id

    first, second = grouped(world, [put(world, f"n{number}", if_commit=head) for number in range(2)])

    assert isinstance(first, Commit)
    assert isinstance(second, ConflictError)


def test_a_repeated_request_in_a_group_is_one_commit(world: Session) -> None:
    calls = [put(world, "n", idempotency_key="k"), put(world, "m"), put(world, "n", idempotency_key="k")]

    commits = grouped(world, calls)

    assert commits[0] == commits[2] != commits[1]
    assert len(history(world)) == 4


def test_a_group_that_loses_its_swap_is_moved_in_order(world: Session) -> None:
    other = reopened(world)
    hooked(world, Hook("publish.flushed", put(other, "a", 100)))

    commits = grouped(world, [*[lambda: increment(world)] * 3, put(world, "n")])

    assert [commit.operation for commit in history(other)[-5:]] == ["w", "count", "count", "count", "w"]
    assert history(other)[-4:] == commits
    assert state(other)["node:A"]["a"] == 103
    assert len({commit.manifest_version for commit in commits}) == 1


def test_an_unknown_outcome_is_unknown_to_all(world: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> CasTable:
        raise StoreUnavailableError("swap", "no answer")

    monkeypatch.setattr(CasTable, "commit", fail)

    errors = grouped(world, [put(world, f"n{number}") for number in range(3)])

    assert all(isinstance(error, OutcomeUnknownError) for error in errors)
    assert len({error.commit_id for error in errors}) == 3


@pytest.mark.parametrize("point", ["group.led", "group.placed", "publish.flushed", "publish.head_written"])
def test_an_interrupted_leader_leaves_nobody_waiting(world: Session, point: str) -> None:
    hooked(world, Hook(point, interrupt))

    outcomes = grouped(world, [put(world, f"n{number}") for number in range(4)])

    assert isinstance(outcomes[0], KeyboardInterrupt)
    seen = set(state(reopened(world))["node:A"])
    for number, outcome in enumerate(outcomes[1:], 1):
        # After the swap may have been sent, its outcome is not known; before it, the next writer leads.
        expected = OutcomeUnknownError if point == "publish.head_written" else Commit
        assert isinstance(outcome, expected)
        assert (f"n{number}" in seen) == isinstance(outcome, Commit)
    assert "n0" not in seen
    put(world, "later")()
    assert "later" in state(world)["node:A"]


def test_files_whose_flush_was_interrupted_are_flushed_by_the_next_leader(
    world: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = CommitPlan(base=world.head(), operation="w", actor="x")
    staged = stage_plan(world, parts, [TableWrite(table_key="node:A", upsert=rows({"n": 7}))])
    assert staged is not None
    files = [file for move in staged[0].moves for file in move.staged.files]
    write = PendingCommit(world.log, world.handles, staged[0], world.runtime.ids.ulid(), files)
    flush, flushed = world.store.flush, list[str]()

    def flush_late(paths: Iterable[str]) -> None:
        if not flushed:
            flushed.append("")
            raise KeyboardInterrupt
        flushed.extend(paths)
        flush(paths)

    monkeypatch.setattr(world.store, "flush", flush_late)
    with pytest.raises(KeyboardInterrupt):
        publish_group(world.log, world.handles, [write], lambda: None)

    publish_group(world.log, world.handles, [write], lambda: None)

    assert write.result is not None
    assert set(write.files) <= set(flushed)


def test_a_write_over_which_lance_panics_fails_alone(world: Session) -> None:
    panic = type("PanicException", (BaseException,), {})

    def fail(_head: Head) -> CommitPlan:
        raise panic

    def put_changed() -> Commit:
        requirements = (RowsUnchanged(table_key="node:A", ids=("a",)),)
        parts = CommitPlan(base=world.head(), operation="w", actor="x", requirements=requirements)
        staged = stage_plan(world, parts, [TableWrite(table_key="node:A", upsert=rows({"a": 7}))])
        assert staged is not None
        done = publish_or_replan(world.log, world.handles, staged[0], None, fail)
        assert done is not None
        return done.commit

    outcomes = grouped(world, [put(world, "a"), put_changed, put(world, "n")])

    assert isinstance(outcomes[1], panic)
    assert [type(outcomes[0]), type(outcomes[2])] == [Commit, Commit]


def test_an_interrupt_after_the_swap_leaves_it_unknown_and_whole(world: Session) -> None:
    hooked(world, Hook("publish.swapped", interrupt))

    outcomes = grouped(world, [put(world, f"n{number}") for number in range(3)])

    assert isinstance(outcomes[0], KeyboardInterrupt)
    assert all(isinstance(outcome, OutcomeUnknownError) for outcome in outcomes[1:])
    assert {outcome.commit_id for outcome in outcomes[1:]} <= {commit.id for commit in history(reopened(world))}
    assert {"n0", "n1", "n2"} <= set(state(reopened(world))["node:A"])


def test_an_interrupted_follower_is_withdrawn(world: Session) -> None:
    queue, write = CommitQueue(), put(world, "n")
    del write

    class Waiting:
        is_settled = False
        wake: Event = create_event()

        def settle_interrupted(self) -> bool:
            return False

    def wait(_seconds: float) -> bool:
        raise KeyboardInterrupt

    waiting = Waiting()
    waiting.wake.wait = wait  # type: ignore[method-assign, assignment]
    entered, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with queue.hold():
            entered.set()
            leave.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    entered.wait()
    with pytest.raises(KeyboardInterrupt):
        queue.settle(waiting, lambda _group: None)
    leave.set()
    thread.join()

    assert not queue._waiting


def test_a_follower_that_was_interrupted_while_led_does_not_come_back() -> None:
    queue = CommitQueue()
    led: list[int] = []

    class Waiting:
        is_settled = False

        def __init__(self) -> None:
            self.wake: Event = create_event()

        def settle_interrupted(self) -> bool:
            return False

    own, other = Waiting(), Waiting()
    queue._waiting.append(other)

    def lead(group: Sequence[Waiting]) -> None:
        led.append(len(group))
        # Its thread is interrupted now, and leaves the queue; the journal is sealed before its turn.
        queue._remove(other)
        own.is_settled = True

    queue.settle(own, lead)

    assert led == [2]
    assert not queue._waiting


def test_what_a_moved_write_replaces_counts_in_the_checks_of_others(world: Session) -> None:
    """An upsert of a new row, moved behind an insert of the same row, replaces it."""
    before = world.head()
    put(world, "n", 77)()
    between = world.head()
    put(world, "n", 78, base=before)()
    needed = CountsWithin(table_key="node:A", column="v", keys=pa.array([77]), added=(0,), low=1)

    with pytest.raises(ConflictError, match="would have 0 rows"):
        put(world, "z", base=between, requirements=[needed])()


def test_groups_are_cut_where_the_journal_is_sealed(tmp_path: Path) -> None:
    options = replace(FAST, head_commits=4, sealed_fragments=3)
    world = seeded_world(tmp_path / "g", options)

    commits = grouped(world, [put(world, f"n{number}") for number in range(20)])

    opened = reopened(world, options)
    assert history(opened)[-20:] == commits
    assert len(opened.head().snapshot.manifest.commits) <= 4
    assert opened.head().table.sealed_count > 1
    assert len({commit.manifest_version for commit in commits}) == 6


def test_a_group_whose_writes_are_run_again_for_long_is_cut(world: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "MAX_PLACING_SECONDS", 0.0)

    commits = grouped(world, [lambda: increment(world)] * 3)

    assert len({commit.manifest_version for commit in commits}) == 3
    assert state(reopened(world))["node:A"]["a"] == 4


def test_a_write_that_publishes_alone_waits_for_the_group_that_is_placed(world: Session) -> None:
    sent: list[str] = []

    class Noting:
        def reach(self, point: str) -> None:
            if point == "publish.head_written":
                sent.append(threading.current_thread().name)

    other = reopened(world)
    other.store.runtime = Runtime(options=FAST, faults=Noting())
    flushed = threading.Event()
    hooked(world, Hook("publish.flushed", flushed.set))
    overwrite = TableWrite(table_key="node:B", overwrite=rows({"z": 1}))

    def load() -> None:
        write_tables(world, [overwrite], operation="load", actor="x")

    loading = threading.Thread(target=load)
    with get_queue(world.log).hold():
        loading.start()
        assert flushed.wait(60)
        # The turn is this thread's: its own writes go on, and that of the other thread waits.
        put(other, "n")()
        assert sent == [threading.current_thread().name]
        assert loading.is_alive()
    loading.join()

    assert [commit.operation for commit in history(reopened(world))[-2:]] == ["w", "load"]


def test_a_write_that_publishes_alone_takes_a_turn_after_a_lost_swap(world: Session) -> None:
    other, holders = reopened(world), []

    class Losing:
        def reach(self, point: str) -> None:
            if point == "publish.flushed":
                holders.append(get_queue(world.log)._holder)
                if len(holders) == 1:
                    put(other, "n")()

    world.store.runtime = Runtime(options=FAST, faults=Losing())
    overwrite = TableWrite(table_key="node:B", overwrite=rows({"z": 1}))
    write_tables(world, [overwrite], operation="load", actor="x")

    assert holders == [None, threading.get_ident()]
    assert state(other)["node:B"] == {"z": 1}
    assert state(other)["node:A"]["n"] == 7


def test_a_lone_writer_leads_at_once_and_leaves_no_queue(world: Session) -> None:
    put(world, "n")()

    assert not get_queue(world.log)._waiting


def test_files_of_an_earlier_run_are_removed(world: Session) -> None:
    grouped(world, [lambda: increment(world)] * 4)

    snapshot = world.head().snapshot
    path = snapshot.pin("node:A").path
    data = [info.key for info in world.store.objects.list_under(f"{path}/data")]
    # The seed, and one for each increment.
    assert len(data) == 5


def test_what_came_since_is_read_without_the_sealed_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The members of a group whose journal was sealed a moment ago are checked against what came since."""
    world = seeded_world(tmp_path / "g", replace(FAST, head_commits=4))
    base = world.head().snapshot.commit.seq
    while not world.head().table.sealed_count:
        base = world.head().snapshot.commit.seq
        put(world, f"n{base}")()

    def fail(*_: object) -> None:
        raise AssertionError("the sealed journal was read")

    monkeypatch.setattr(manifest_log, "decode_sealed", fail)

    assert [commit.seq for commit in world.log.read_since(world.head(), base)] == [base + 1]
    assert world.log.read_since(world.head(), base + 1) == []


def test_a_deferred_write_whose_swap_seemed_lost_is_not_done_twice(
    world: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It happened, and only the answer was lost; then the leader was interrupted, and another one goes on."""
    publish = ManifestLog.publish

    def lose(log: ManifestLog, base: Head, manifest: Manifest) -> Head:
        publish(log, base, manifest)
        raise SwapLostError(log.path, base.table.version)

    deferred = CommitPlan(base=world.head(), operation="count", actor="x", is_deferred=True)
    write = PendingCommit(
        world.log, world.handles, deferred, "01HZ0000000000000000000000", [], replan=partial(plan_increment, world)
    )
    before = state(world)["node:A"]["a"]
    with monkeypatch.context() as patched:
        patched.setattr(ManifestLog, "publish", lose)
        with pytest.raises(KeyboardInterrupt):
            publish_group(world.log, world.handles, [write], wait_turn=interrupt)
    assert not write.is_settled

    publish_group(world.log, world.handles, [write], wait_turn=lambda: None)

    assert write.result is not None
    assert write.result.commit.id == write.commit_id
    assert state(reopened(world))["node:A"]["a"] == before + 1
