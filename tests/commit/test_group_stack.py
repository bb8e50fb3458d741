"""Versions of a group are created side by side, and are those that a chain of writes would have."""

import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from grouping import grouped, increment
from omnigraph.commit import group_commit
from omnigraph.commit.commit_plan import CommitPlan
from omnigraph.commit.manifest_types import Commit
from omnigraph.commit.publisher import publish_or_replan
from omnigraph.commit.time_travel import read_at_commit
from omnigraph.ops.auto_maintenance import compact_tail
from omnigraph.ops.open import open_session
from omnigraph.ops.session import Session
from omnigraph.ops.write_tables import TableWrite, stage_plan, write_tables
from omnigraph.storage import version_stack
from omnigraph.storage.key_lookup import RowLocations, find_existing
from omnigraph.storage.object_store import StoreUnavailableError
from upkeep_calls import MAINTAINED
from worlds import reopened, rows, runtime, seeded_world, state


@pytest.fixture
def world(tmp_path: Path) -> Session:
    """Seven rows in three fragments of A; the last fragment has one row."""
    world = seeded_world(tmp_path / "g")
    for part in ({"e": 5, "f": 6}, {"g": 7}):
        write_tables(world, [TableWrite(table_key="node:A", append=rows(part))], operation="w", actor="x")
    return world


def located(session: Session, key: str, *ids: str) -> RowLocations:
    """Where rows are, as a mutation looks them up before it changes them."""
    table = session.open_tables(session.head().snapshot).open_table(key)
    return find_existing(table, lambda: pa.array(ids), len(ids)).locate(np.ones(len(ids), bool))


def write(session: Session, *writes: TableWrite) -> Callable[[], Commit]:
    """A commit of these writes, to be called."""

    def call() -> Commit:
        done = write_tables(session, writes, operation="w", actor="x")
        assert done is not None
        return done.commit

    return call


def put(session: Session, key: str, **values: int) -> Callable[[], Commit]:
    return write(session, TableWrite(table_key=key, upsert=rows(values)))


def change(session: Session, key: str, **values: int) -> Callable[[], Commit]:
    return write(session, TableWrite(table_key=key, upsert=rows(values), located=located(session, key, *values)))


def remove(session: Session, key: str, *ids: str) -> Callable[[], Commit]:
    return write(session, TableWrite(table_key=key, delete=ids, located=located(session, key, *ids)))


def all_kinds(world: Session) -> list[Callable[[], Commit]]:
    """Writes of which none is in the way of another: new rows, changed and deleted ones, in one table and in two."""
    return [
        put(world, "node:A", n1=1),
        change(world, "node:A", a=10),
        change(world, "node:A", b=20),
        write(
            world,
            TableWrite(table_key="node:A", upsert=rows({"n2": 2})),
            TableWrite(table_key="node:B", upsert=rows({"n2": 2})),
        ),
        remove(world, "node:A", "g"),
        remove(world, "node:A", "e"),
        change(world, "node:A", f=60),
        write(world, TableWrite(table_key="node:A", append=rows({"n3": 3}))),
        change(world, "node:B", a=7),
    ]


def seen(session: Session, commits: list[Commit]) -> list[Any]:
    """All that the tables of each commit say: rows with their ids and addresses, fragments, and counts of the pins."""
    told = []
    for commit in commits:
        snapshot = read_at_commit(session.log, session.head(), commit.id)
        for key in ("node:A", "node:B"):
            pin = snapshot.pin(key)
            dataset = session.handles.open(pin.path, pin.version)
            table = dataset.to_table(with_row_id=True, with_row_address=True)
            fragments = [(one.fragment_id, one.physical_rows, one.num_deletions) for one in dataset.get_fragments()]
            told.append((table.to_pylist(), fragments, pin.rows, table.num_rows == pin.rows))
    return told


@pytest.fixture
def bases(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """The table and base of each version that is created side by side."""
    created: list[tuple[str, int]] = []
    right = vars(version_stack)["create_version"]

    def create(store: Any, path: str, dataset: Any, operation: Any) -> Any:
        created.append((path, int(dataset.version)))
        return right(store, path, dataset, operation)

    monkeypatch.setattr(version_stack, "create_version", create)
    return created


def test_versions_side_by_side_are_those_of_a_chain(
    world: Session, tmp_path: Path, bases: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(tmp_path / "g", tmp_path / "copy")
    pins = world.head().snapshot.pins
    commits = grouped(world, all_kinds(world))
    monkeypatch.setattr(group_commit, "prepare_versions", lambda *_: [])
    chain = open_session(str(tmp_path / "copy"), is_read_only=False, runtime=runtime())
    expected = grouped(chain, all_kinds(chain))

    # One for each table of each write, all made of the version below the group.
    assert sorted(bases) == sorted(
        [(pins["node:A"].path, pins["node:A"].version)] * 8 + [(pins["node:B"].path, pins["node:B"].version)] * 2
    )
    assert seen(reopened(world), commits) == seen(chain, expected)
    assert len({commit.manifest_version for commit in commits}) == 1


def test_a_write_over_another_one_starts_a_new_stack(world: Session, bases: list[tuple[str, int]]) -> None:
    calls = [
        put(world, "node:A", n1=1),
        put(world, "node:A", n2=2),
        lambda: increment(world),
        put(world, "node:A", n3=3),
        lambda: increment(world),
        put(world, "node:A", n4=4),
        put(world, "node:A", n5=5),
    ]

    commits = grouped(world, calls)

    assert all(isinstance(commit, Commit) for commit in commits)
    # Two before the first increment, and two after the second one, whose versions those have to wait for.
    assert len(bases) == 4
    assert len(set(bases)) == 2
    found = state(reopened(world))["node:A"]
    assert (found["a"], {name for name in found if name.startswith("n")}) == (3, {"n1", "n2", "n3", "n4", "n5"})


def test_a_write_that_fails_in_its_turn_takes_no_other_with_it(world: Session, bases: list[tuple[str, int]]) -> None:
    class Cancelled:
        def check(self) -> None:
            raise ValueError("cancelled")

    def cancelled() -> Commit:
        parts = CommitPlan(base=world.head(), operation="w", actor="x")
        staged = stage_plan(world, parts, [TableWrite(table_key="node:A", upsert=rows({"no": 1}))])
        assert staged is not None
        plan = replace(staged[0], watch=Cancelled())  # type: ignore[arg-type]  # only its check is called
        done = publish_or_replan(world.log, world.handles, plan, None, None)
        assert done is not None
        return done.commit

    outcomes = grouped(world, [put(world, "node:A", n1=1), cancelled, *(put(world, "node:A", **{n: 1}) for n in "xyz")])

    assert [type(outcome) for outcome in outcomes] == [Commit, ValueError, Commit, Commit, Commit]
    assert {"n1", *"xyz"} <= set(found := state(reopened(world))["node:A"])
    assert "no" not in found
    # The last three were created again, on the first; what was created in vain is removed.
    assert len(bases) == 5 + 3
    path = world.head().snapshot.pin("node:A").path
    names = [info.key.rpartition("/")[2] for info in world.store.objects.list_under(f"{path}/_versions")]
    detached = {name[1:].removesuffix(".manifest") for name in names if name.startswith("d")}
    assert detached <= {change.after for commit in world.log.iter_history(world.head()) for change in commit.changes}


@pytest.mark.parametrize("failing", ["create_version", "delete_rows"])
def test_if_they_can_not_be_created_side_by_side_they_are_a_chain(
    world: Session, failing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = [put(world, "node:A", n1=1), change(world, "node:A", a=10), change(world, "node:A", b=20)]
    right, lock, left = getattr(version_stack, failing), threading.Lock(), [1]

    def fail(*args: Any) -> Any:
        with lock:
            left[0] -= 1
            if left[0] < 0:
                raise StoreUnavailableError("create a version", "no answer")
        return right(*args)

    monkeypatch.setattr(version_stack, failing, fail)

    commits = grouped(world, calls)

    assert all(isinstance(commit, Commit) for commit in commits)
    assert left[0] < 0
    found = state(reopened(world))["node:A"]
    assert (found["n1"], found["a"], found["b"]) == (1, 10, 20)
    listed = {info.key for info in world.store.objects.list_under(world.head().snapshot.pin("node:A").path)}
    assert len([key for key in listed if "/_deletions/" in key]) == 2


@pytest.mark.parametrize("is_stacked", [True, False])
def test_rows_that_maintenance_has_moved_are_found_again(
    world: Session, is_stacked: bool, bases: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writes that were staged before a compaction are placed after it, side by side or one after the other."""
    if not is_stacked:
        monkeypatch.setattr(group_commit, "prepare_versions", lambda *_: [])
    calls = all_kinds(world)

    def compact() -> None:
        # In this thread, whose turn it is.
        done = compact_tail(reopened(world, MAINTAINED), "node:A", lambda: False, 99)
        assert done is not None
        assert (done.fragments_removed, done.error) == (3, None)

    commits = grouped(world, calls, before=compact)

    assert all(isinstance(commit, Commit) for commit in commits), commits
    assert bool(bases) == is_stacked
    found = state(reopened(world))
    assert found["node:A"] == {"a": 10, "b": 20, "c": 3, "d": 4, "f": 60, "n1": 1, "n2": 2, "n3": 3}
    assert (found["node:B"]["a"], found["node:B"]["n2"]) == (7, 2)
