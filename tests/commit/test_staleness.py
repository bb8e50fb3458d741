"""Handles that live long, writes whose ground moved, operations that slept past their lease."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from omnigraph.commit.plan import CommitPlan, ConflictError, Move
from omnigraph.commit.publisher import publish
from omnigraph.commit.recovery import recover
from omnigraph.commit.requirement import CountsWithin, IdsAbsent, IdsPresent, Requirement, RowsUnchanged, ValuesAbsent
from omnigraph.commit.sidecar import list_sidecars
from omnigraph.ops.session import Session
from omnigraph.ops.write import TableWrite, write_tables
from omnigraph.storage.staging import stage_upsert
from worlds import FAST, reopened, rows, seeded_world, state
from zygote import Zygote


@pytest.fixture
def world(tmp_path: Path) -> Session:
    return seeded_world(tmp_path / "g")


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    zygote = Zygote()
    yield zygote
    zygote.close()


def upsert(session: Session, values: dict[str, int], key: str = "node:A", operation: str = "write") -> None:
    write_tables(session, [TableWrite(table_key=key, upsert=rows(values))], operation=operation, actor="other")


def test_a_long_lived_handle_sees_another_handles_commit_on_its_next_read(world: Session) -> None:
    other = reopened(world)
    assert state(world)["node:A"]["a"] == 1

    upsert(other, {"a": 50})

    assert state(world)["node:A"]["a"] == 50


def test_an_unchanged_handle_is_refreshed_by_one_probe(world: Session) -> None:
    held = world.head()

    with world.runtime.telemetry.counting() as requests:
        again = world.head()

    assert again is held
    assert requests.total(operation="get") == 0


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
    table = other.tables(other.snapshot()).table("node:A")
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
        table = other.tables(other.snapshot()).table("node:A")
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

    report = recover(world.store, world.log)
    os.kill(pid, signal.SIGCONT)
    woken = zygote.wait(pid)

    assert report.rolled_back == []
    assert woken.error is None
    assert state(world)["node:A"]["a"] == 100


def stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T"


def wait_for(condition: Callable[[], bool], seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


def test_the_same_idempotency_key_has_one_effect(world: Session) -> None:
    def once(session: Session) -> str:
        done = write_tables(
            session,
            [TableWrite(table_key="node:A", append=rows({"once": 1}))],
            operation="w",
            actor="x",
            idempotency_key="k1",
        )
        assert done is not None
        return done.commit.id

    first = once(world)
    second = once(reopened(world))

    assert first == second
    assert state(world)["node:A"]["once"] == 1
    assert len(world.log.latest().snapshot.manifest.commits) == 3
