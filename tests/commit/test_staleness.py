"""Handles that live long, writes whose ground moved, operations that slept past their lease."""

import os
import shutil
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from omnigraph.clock import SystemClock
from omnigraph.commit import freshness, manifest_log, recovery_log
from omnigraph.commit.commit_plan import CommitPlan, Move
from omnigraph.commit.conflict import ConflictError
from omnigraph.commit.publisher import publish
from omnigraph.commit.recovery import RecoveryReport, recover
from omnigraph.commit.requirements import CountsWithin, IdsAbsent, IdsPresent, Requirement, RowsUnchanged, ValuesAbsent
from omnigraph.commit.sidecar import FencedError, Lease, Sidecar, list_sidecars
from omnigraph.errors import CorruptError
from omnigraph.faults import ArmedFaults
from omnigraph.ops.open import open_session
from omnigraph.ops.session import ReadOnlyError, Session
from omnigraph.ops.write_tables import TableWrite, write_tables
from omnigraph.storage.cas_table_errors import SwapLostError
from omnigraph.storage.layout import MANIFEST, build_hint_key, build_sidecar_key, format_version_name
from omnigraph.storage.staging import stage_upsert
from raised_codes import has_code
from worlds import FAST, reopened, rows, runtime, seeded_world, state
from zygote import Zygote

TWO = ("node:A", "node:B")
pytestmark = pytest.mark.usefixtures("with_sidecars")


@pytest.fixture
def world(tmp_path: Path) -> Session:
    return seeded_world(tmp_path / "g")


def upsert(session: Session, values: dict[str, int], key: str = "node:A", operation: str = "write") -> None:
    write_tables(session, [TableWrite(table_key=key, upsert=rows(values))], operation=operation, actor="other")


def test_a_long_lived_handle_sees_another_handles_commit_on_its_next_read(world: Session) -> None:
    other = reopened(world)
    assert state(world)["node:A"]["a"] == 1

    upsert(other, {"a": 50})

    assert state(world)["node:A"]["a"] == 50


def test_an_unchanged_handle_is_refreshed_by_one_probe(world: Session) -> None:
    held = world.head()

    with world.runtime.telemetry.count_requests() as requests:
        again = world.head()

    assert again is held
    assert requests.count(operation="get") == 0


def test_an_update_whose_row_changed_names_table_expected_and_actual(world: Session) -> None:
    base = world.head()
    expected = base.snapshot.pin("node:A").version
    upsert(reopened(world), {"a": 50})

    with pytest.raises(ConflictError) as conflict:
        write_tables(
            world,
            [TableWrite(table_key="node:A", upsert=rows({"a": 2}))],
            operation="update",
            actor="late",
            base=base,
            requirements=[RowsUnchanged(table_key="node:A", ids=("a",))],
        )

    facts = conflict.value.facts()
    assert facts["table_key"] == "node:A"
    assert facts["expected"] == str(expected)
    assert facts["actual"] == str(world.head().snapshot.pin("node:A").version)
    assert state(world)["node:A"]["a"] == 50


def test_an_update_of_another_row_is_rebased(world: Session) -> None:
    base = world.head()
    upsert(reopened(world), {"a": 50})

    write_tables(
        world,
        [TableWrite(table_key="node:A", upsert=rows({"b": 60}))],
        operation="update",
        actor="late",
        base=base,
        requirements=[RowsUnchanged(table_key="node:A", ids=("b",))],
    )

    assert state(world)["node:A"] == {"a": 50, "b": 60, "c": 3, "d": 4}


def test_a_delete_on_a_moved_table_deletes_exactly_its_rows(world: Session) -> None:
    base = world.head()
    upsert(reopened(world), {"a": 50, "e": 5})

    write_tables(world, [TableWrite(table_key="node:A", delete=["b"])], operation="delete", actor="late", base=base)

    assert state(world)["node:A"] == {"a": 50, "c": 3, "d": 4, "e": 5}


def test_an_overwrite_of_a_changed_table_is_a_conflict(world: Session) -> None:
    base = world.head()
    upsert(reopened(world), {"a": 50})

    with pytest.raises(ConflictError):
        write_tables(
            world, [TableWrite(table_key="node:A", overwrite=rows({}))], operation="load", actor="late", base=base
        )


def test_a_write_after_a_maintenance_only_advance_succeeds(world: Session) -> None:
    base = world.head()
    other = reopened(world)
    table = other.open_tables(other.resolve_snapshot()).open_table("node:A")
    same = stage_upsert(table, rows({"a": 1}))  # rewrites a row as it is: all that maintenance may do
    publish(
        other.log,
        other.handles,
        CommitPlan(base=other.head(), operation="optimize", actor="m", moves=(Move(table_key="node:A", staged=same),)),
    )

    write_tables(
        world,
        [TableWrite(table_key="node:A", overwrite=rows({"z": 26}))],
        operation="load",
        actor="late",
        base=base,
        requirements=[RowsUnchanged(table_key="node:A", ids=("a",))],
    )

    assert state(world)["node:A"] == {"z": 26}


def test_maintenance_never_makes_a_write_fail_even_when_its_commits_are_sealed(tmp_path: Path) -> None:
    sealing = replace(FAST, head_commits=2)
    session = seeded_world(tmp_path / "g", sealing)
    base = session.head()
    other = reopened(session, sealing)
    for _ in range(5):
        table = other.open_tables(other.resolve_snapshot()).open_table("node:A")
        move = Move(table_key="node:A", staged=stage_upsert(table, rows({"a": 1})))
        plan = CommitPlan(base=other.head(), operation="optimize", actor="m", moves=(move,))
        publish(other.log, other.handles, plan)

    write_tables(
        session, [TableWrite(table_key="node:A", overwrite=rows({"z": 26}))], operation="load", actor="late", base=base
    )

    assert state(session)["node:A"] == {"z": 26}


REQUIREMENTS: dict[str, tuple[Requirement, dict[str, int] | None, list[str] | None]] = {
    "an id that must be new": (IdsAbsent(table_key="node:B", ids=("n",)), {"n": 1}, None),
    "an id that must exist": (IdsPresent(table_key="node:B", ids=("a",)), None, ["a"]),
    "a value that must be free": (
        ValuesAbsent(table_key="node:B", columns=("v",), values=rows({"x": 77}).select(["v"])),
        {"q": 77},
        None,
    ),
    "a count with a bound": (
        CountsWithin(table_key="node:B", column="id", keys=("n",), added=(1,), high=1),
        {"n": 5},
        None,
    ),
}


@pytest.mark.parametrize("name", REQUIREMENTS)
def test_what_a_write_relied_on_in_another_table_is_checked_again(name: str, world: Session) -> None:
    requirement, added, removed = REQUIREMENTS[name]
    base = world.head()
    change = (
        TableWrite(table_key="node:B", append=rows(added)) if added else TableWrite(table_key="node:B", delete=removed)
    )
    write_tables(reopened(world), [change], operation="write", actor="first")

    with pytest.raises(ConflictError) as conflict:
        write_tables(
            world,
            [TableWrite(table_key="node:A", append=rows({"new": 1}))],
            operation="insert",
            actor="late",
            base=base,
            requirements=[requirement],
        )

    assert conflict.value.table_key == "node:B"
    assert "new" not in state(world)["node:A"]


@pytest.mark.parametrize("name", REQUIREMENTS)
def test_a_requirement_that_still_holds_lets_the_write_through(name: str, world: Session) -> None:
    requirement, _, _ = REQUIREMENTS[name]
    base = world.head()
    upsert(reopened(world), {"harmless": 1}, key="node:B")

    write_tables(
        world,
        [TableWrite(table_key="node:A", append=rows({"new": 1}))],
        operation="insert",
        actor="late",
        base=base,
        requirements=[requirement],
    )

    assert state(world)["node:A"]["new"] == 1


def test_if_commit_refuses_a_head_that_moved(world: Session) -> None:
    seen = world.head().snapshot.commit.id
    upsert(reopened(world), {"a": 50}, key="node:C")

    with pytest.raises(ConflictError, match="the branch has moved on"):
        write_tables(
            world, [TableWrite(table_key="node:A", append=rows({"n": 1}))], operation="w", actor="x", if_commit=seen
        )

    assert "n" not in state(world)["node:A"]


def test_a_graph_opened_read_only_is_not_written_from_a_base_either(world: Session) -> None:
    reader = open_session(world.uri, is_read_only=True, runtime=runtime())

    with pytest.raises(ReadOnlyError):
        write_tables(
            reader,
            [TableWrite(table_key="node:A", append=rows({"n": 1}))],
            operation="w",
            actor="x",
            base=reader.head(),
        )

    assert "n" not in state(world)["node:A"]


def test_what_a_write_relied_on_needs_the_base_it_was_read_from(world: Session) -> None:
    relied_on = [RowsUnchanged(table_key="node:A", ids=("a",))]

    with pytest.raises(ValueError, match="the base that they were read from"):
        write_tables(
            world,
            [TableWrite(table_key="node:A", upsert=rows({"a": 2}))],
            operation="w",
            actor="x",
            requirements=relied_on,
        )


@pytest.mark.parametrize("who", ["optimize", "recovery"])
def test_if_commit_passes_over_commits_that_changed_nothing(who: str, world: Session) -> None:
    base = world.head()
    seen = base.snapshot.commit.id
    other = reopened(world)
    quiet(other, who)

    write_tables(
        world, [TableWrite(table_key="node:A", append=rows({"n": 1}))], operation="w", actor="x", if_commit=seen
    )
    with pytest.raises(ConflictError, match="the branch has moved on"):
        write_tables(
            other, [TableWrite(table_key="node:A", append=rows({"m": 1}))], operation="w", actor="x", if_commit=seen
        )

    assert state(world)["node:A"] == {"a": 1, "b": 2, "c": 3, "d": 4, "n": 1}


@pytest.mark.parametrize("who", ["optimize", "recovery"])
def test_a_write_with_if_commit_is_rebased_over_commits_that_changed_nothing(who: str, world: Session) -> None:
    base = world.head()
    quiet(reopened(world), who)

    write_tables(
        world,
        [TableWrite(table_key="node:A", append=rows({"n": 1}))],
        operation="w",
        actor="x",
        base=base,
        if_commit=base.snapshot.commit.id,
    )

    assert state(world)["node:A"]["n"] == 1


def quiet(session: Session, who: str) -> None:
    """A commit that leaves every row as it was."""
    if who == "recovery":
        publish(session.log, session.handles, CommitPlan(base=session.head(), operation=who, actor="m"))
        return
    table = session.open_tables(session.resolve_snapshot()).open_table("node:A")
    move = Move(table_key="node:A", staged=stage_upsert(table, rows({"a": 1})))
    publish(session.log, session.handles, CommitPlan(base=session.head(), operation=who, actor="m", moves=(move,)))


def test_a_conflict_leaves_no_files(world: Session) -> None:
    base = world.head()
    upsert(reopened(world), {"a": 50})
    before = [info.key for info in world.store.objects.list_under("nodes") if "/data/" in info.key]

    with pytest.raises(ConflictError):
        write_tables(
            world,
            [
                TableWrite(table_key="node:A", overwrite=rows({"z": 1})),
                TableWrite(table_key="node:B", append=rows({"z": 1})),
            ],
            operation="load",
            actor="late",
            base=base,
        )

    after = [info.key for info in world.store.objects.list_under("nodes") if "/data/" in info.key]
    assert after == before
    assert list_sidecars(world.store) == ([], [])


@pytest.mark.parametrize("point", ["publish.armed", "publish.applied", "publish.flushed", "publish.head_written"])
def test_an_operation_that_slept_past_its_lease_cannot_become_visible(
    point: str, world: Session, zygote: Zygote
) -> None:
    before = state(world)
    job = {"uri": world.uri, "kind": "upsert", "tables": ["node:A", "node:B"]}
    pid = zygote.start("crash.jobs:write", job, f"{point}=stop")
    wait_for(lambda: stopped(pid))
    time.sleep(FAST.lease_seconds * 1.5)

    report = recover(world.store, world.log)
    os.kill(pid, signal.SIGCONT)
    woken = zygote.wait(pid)

    assert len(report.rolled_back) == 1
    assert woken.error is not None
    assert "FencedError" in woken.error
    assert state(world) == before
    assert list_sidecars(world.store) == ([], [])


def test_an_operation_that_wakes_before_it_is_declared_dead_goes_on(world: Session, zygote: Zygote) -> None:
    job = {"uri": world.uri, "kind": "upsert", "tables": ["node:A", "node:B"]}
    pid = zygote.start("crash.jobs:write", job, "publish.flushed=stop")
    wait_for(lambda: stopped(pid))
    world.store.runtime = runtime(replace(FAST, lease_seconds=600))

    report = recover(world.store, world.log)
    os.kill(pid, signal.SIGCONT)
    woken = zygote.wait(pid)

    assert report.rolled_back == []
    assert woken.error is None
    assert state(world)["node:A"]["a"] == 100


def stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T"


def wait_for(condition: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


class Meanwhile:
    """Faults that do something else when a point is reached for the first time."""

    def __init__(self, point: str, what: Callable[[], object]) -> None:
        self._point, self._what, self._is_done = point, what, False

    def reach(self, point: str) -> None:
        if point == self._point and not self._is_done:
            self._is_done = True
            self._what()


def test_an_owner_that_was_fenced_leaves_its_sidecar_to_the_recovery_that_has_not_finished(tmp_path: Path) -> None:
    silent = replace(FAST, heartbeat_seconds=1_000, lease_seconds=0.01)
    session = seeded_world(tmp_path / "g", silent)
    other = reopened(session, silent)
    before = state(session)

    def recovery_that_dies() -> None:
        time.sleep(silent.lease_seconds * 3)
        other.store.runtime = replace(other.store.runtime, faults=ArmedFaults("recovery.fenced", "error"))
        recover(other.store, other.log)
        other.store.runtime = runtime(silent)

    session.store.runtime = replace(runtime(silent), faults=Meanwhile("publish.flushed", recovery_that_dies))
    with pytest.raises(FencedError):
        write_tables(
            session, [TableWrite(table_key=key, append=rows({"n": 1})) for key in TWO], operation="w", actor="x"
        )
    left = len(list_sidecars(other.store)[0])
    recover(other.store, other.log)

    assert left == 1
    assert [row.kind for row in recovery_log.read_rows(other.store)] == ["RolledBack"]
    assert list_sidecars(other.store) == ([], [])
    assert state(other) == before


def test_an_owner_that_stirs_while_recovery_looks_at_it_is_left_alone(tmp_path: Path) -> None:
    silent = replace(FAST, heartbeat_seconds=1_000, lease_seconds=0.01)
    session = seeded_world(tmp_path / "g", silent)
    lease = Lease(session.store, dead_sidecar())
    lease.arm()
    time.sleep(silent.lease_seconds * 3)
    other = reopened(session, replace(silent, lease_seconds=1_000))
    other.store.runtime = replace(runtime(silent), faults=Meanwhile("recovery.listed", lambda: lease.confirm(())))

    report = recover(other.store, other.log)
    lease.confirm(())
    lease.stop()

    assert report.in_flight == ["01"]
    assert len(list(other.log.iter_history(other.head()))) == 2
    assert recovery_log.read_rows(other.store) == []


def test_an_operation_that_lasts_longer_than_its_lease_is_kept_alive_by_its_heartbeat(world: Session) -> None:
    patient = replace(FAST, lease_seconds=3)  # thirty heartbeats: a busy machine may leave most of them out
    world.store.runtime = runtime(patient)
    lease = Lease(world.store, dead_sidecar())
    lease.arm()

    time.sleep(patient.lease_seconds * 1.2)
    report = recover(world.store, world.log)
    lease.disarm()

    assert report.in_flight == ["01"]


def test_an_operation_that_is_about_to_say_that_it_has_landed_is_not_recovered(tmp_path: Path) -> None:
    patient = replace(FAST, lease_seconds=60)
    session = seeded_world(tmp_path / "g", patient)
    neighbour = reopened(session, patient)
    looked, ended = threading.Event(), threading.Event()

    class Waiting(SystemClock):
        """Its moment is over when the owner has ended."""

        def monotonic(self) -> float:
            return 0.0

        def sleep(self, seconds: float) -> None:
            del seconds
            assert ended.wait(60)

    def meanwhile() -> None:
        threads.append(executor.submit(recover, neighbour.store, neighbour.log))
        assert looked.wait(60)

    faults = Meanwhile("recovery.listed", looked.set)
    neighbour.store.runtime = replace(runtime(patient), faults=faults, clock=Waiting())
    session.store.runtime = replace(runtime(patient), faults=Meanwhile("publish.verified", meanwhile))
    writes = [TableWrite(table_key=key, append=rows({"n": 1})) for key in TWO]
    threads: list[Future[RecoveryReport]] = []
    with ThreadPoolExecutor(1) as executor:
        done = write_tables(session, writes, operation="w", actor="x")
        ended.set()
        report = threads[0].result(60)

    assert done is not None
    assert (report.rolled_forward, report.in_flight, report.failed) == ([], [], [])
    assert recovery_log.read_rows(neighbour.store) == []
    assert list_sidecars(neighbour.store) == ([], [])


def test_an_operation_that_landed_and_died_is_recovered_though_its_lease_is_not_over(tmp_path: Path) -> None:
    patient = replace(FAST, lease_seconds=60)
    session = seeded_world(tmp_path / "g", patient)

    def die() -> None:
        raise SystemExit

    session.store.runtime = replace(runtime(patient), faults=Meanwhile("publish.verified", die))
    writes = [TableWrite(table_key=key, append=rows({"n": 1})) for key in TWO]
    with pytest.raises(SystemExit):
        write_tables(session, writes, operation="w", actor="x")

    neighbour = reopened(session, patient)

    assert list_sidecars(neighbour.store) == ([], [])
    assert [row.kind for row in recovery_log.read_rows(neighbour.store)] == ["RolledForward"]


@pytest.mark.parametrize("hours", [-24, 24])
def test_a_machine_whose_clock_is_off_declares_nobody_dead(hours: int, world: Session) -> None:
    world.store.objects.put_if_absent(build_sidecar_key("01"), msgspec.json.encode(dead_sidecar()))
    clock = LateClock()
    clock.off = timedelta(hours=hours)
    world.store.runtime = replace(runtime(replace(FAST, lease_seconds=600)), clock=clock)

    report = recover(world.store, world.log)

    assert report.in_flight == ["01"]


def test_an_owner_whose_swap_lands_after_the_fence_and_before_the_bump_is_rolled_forward(tmp_path: Path) -> None:
    silent = replace(FAST, heartbeat_seconds=1_000, lease_seconds=0.01)
    owner = seeded_world(tmp_path / "g", silent)
    other = reopened(owner, silent)
    has_confirmed, may_go = threading.Event(), threading.Event()

    def pause() -> None:
        has_confirmed.set()
        assert may_go.wait(60)

    owner.store.runtime = replace(runtime(silent), faults=Meanwhile("publish.head_written", pause))
    thread = threading.Thread(
        target=lambda: write_tables(
            owner, [TableWrite(table_key=key, append=rows({"n": 1})) for key in TWO], operation="w", actor="x"
        )
    )
    thread.start()
    assert has_confirmed.wait(60)
    time.sleep(silent.lease_seconds * 3)

    def swap_lands() -> None:
        may_go.set()
        thread.join(60)

    other.store.runtime = replace(runtime(silent), faults=Meanwhile("recovery.fenced", swap_lands))
    report = recover(other.store, other.log)

    assert len(report.rolled_forward) == 1
    assert report.rolled_back == []
    assert [row.kind for row in recovery_log.read_rows(other.store)] == ["RolledForward"]
    assert [commit.operation for commit in other.log.iter_history(other.head())] == ["w", "seed", "init"]
    assert all(state(reopened(other))[key]["n"] == 1 for key in TWO)


def dead_sidecar() -> Sidecar:
    return Sidecar(
        id="01", commit_id="02", branch="main", manifest_path="__manifest", base_seq=1, operation="w", actor="a",
        started_at="",
    )  # fmt: skip


def test_two_recoveries_of_one_operation_leave_one_commit_and_one_row(tmp_path: Path) -> None:
    silent = replace(FAST, heartbeat_seconds=1_000, lease_seconds=0.01)
    session = seeded_world(tmp_path / "g", silent)
    session.store.objects.put_if_absent(build_sidecar_key("01"), msgspec.json.encode(dead_sidecar()))
    time.sleep(silent.lease_seconds * 3)
    other = reopened(session, replace(silent, lease_seconds=1_000))
    other.store.runtime = runtime(silent)
    first = replace(runtime(silent), faults=Meanwhile("recovery.fenced", lambda: recover(other.store, other.log)))
    session.store.runtime = first

    recover(session.store, session.log)

    assert len(recovery_log.read_rows(session.store)) == 1
    assert [c.operation for c in session.log.iter_history(session.head())] == ["recovery", "seed", "init"]
    assert list_sidecars(session.store) == ([], [])


def test_a_base_whose_files_were_trimmed_is_left_and_the_write_goes_on(tmp_path: Path) -> None:
    """Its turn to merge sealed fragments has come, but while it slept others have merged and trimmed them."""
    small = replace(FAST, head_commits=2, sealed_fragments=2, manifest_versions=2)
    sleeper = seeded_world(tmp_path / "g", small)
    other = reopened(sleeper, replace(small, trim_every=1))
    while len(sleeper.head().snapshot.manifest.commits) < 2 or sleeper.head().table.sealed_count < 2:
        upsert(sleeper, {"n": 1})
    for number in range(12):
        upsert(other, {"m": number})

    upsert(sleeper, {"late": 1})

    assert state(other)["node:A"] == {"a": 1, "b": 2, "c": 3, "d": 4, "n": 1, "m": 11, "late": 1}


class LateClock(SystemClock):
    """A clock that can be moved on."""

    late = 0.0
    off = timedelta()

    def now(self) -> datetime:
        return super().now() + self.off

    def monotonic(self) -> float:
        return super().monotonic() + self.late


def test_a_graph_that_was_made_anew_is_not_written_by_a_handle_on_the_old_one(tmp_path: Path) -> None:
    clock = LateClock()
    old = seeded_world(tmp_path / "g")
    old.store.runtime = replace(runtime(), clock=clock)
    upsert(old, {"old": 1})
    shutil.rmtree(tmp_path / "g")
    new = seeded_world(tmp_path / "g")
    clock.late = freshness.RECENT_SECONDS

    with pytest.raises(CorruptError, check=has_code("graph_replaced")):
        upsert(old, {"evil": 1})
    with pytest.raises(CorruptError, check=has_code("graph_replaced")):
        old.resolve_snapshot()

    assert "evil" not in state(reopened(new))["node:A"]


def test_a_thread_that_was_overtaken_writes_no_manifest_it_can_not_place(world: Session) -> None:
    base = world.head()
    upsert(world, {"a": 50})
    manifests = len(world.store.objects.list_under("__manifest/data"))

    with pytest.raises(SwapLostError):
        world.log.publish(base, base.snapshot.manifest)

    assert len(world.store.objects.list_under("__manifest/data")) == manifests


@pytest.mark.parametrize("is_read", [False, True])
def test_a_late_swap_on_a_number_that_a_trim_has_freed_is_lost_even_if_a_reader_has_looked(
    is_read: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request that takes two minutes, while other processes commit and trim, and a thread of this one reads."""
    small = replace(FAST, manifest_versions=2)
    session, clock = seeded_world(tmp_path / "g", small), LateClock()
    monkeypatch.setattr(manifest_log, "TRIM_AGE", timedelta())
    base, other = session.head(), reopened(session, replace(small, trim_every=1))
    path = tmp_path / "g" / MANIFEST / format_version_name(base.table.version + 1)

    class Late:
        def reach(self, point: str) -> None:
            if point != "publish.swapped":
                return
            arriving = path.read_bytes()
            for file in (path, tmp_path / "g" / build_hint_key(MANIFEST)):
                file.unlink()
            for number in range(4):
                upsert(other, {"n": number})
            assert not path.exists()
            path.write_bytes(arriving)
            clock.late = 120
            if is_read:
                session.head()

    session.store.runtime = replace(runtime(small), clock=clock, faults=Late())
    session.head()

    with pytest.raises(SwapLostError):
        session.log.publish(base, base.snapshot.manifest, lambda _head: False)
