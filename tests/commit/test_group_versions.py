"""Versions of a group are those that Lance would create for a chain of writes."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from grouping import grouped, increment
from omnigraph.commit.commit_plan import CommitPlan
from omnigraph.commit.manifest_types import Commit
from omnigraph.commit.publisher import publish_or_replan
from omnigraph.commit.time_travel import read_at_commit
from omnigraph.ops.auto_maintenance import compact_tail
from omnigraph.ops.open import open_session
from omnigraph.ops.session import Session
from omnigraph.ops.write_tables import TableWrite, stage_plan, write_tables
from omnigraph.storage import versions
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.key_lookup import RowLocations, find_existing
from omnigraph.storage.object_store import StoreUnavailableError
from omnigraph.storage.version_codec import UnknownFormatError, VersionContent
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
def created(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tables of the versions that Lance creates."""
    paths: list[str] = []
    right = versions.create_version

    def create(store: Any, path: str, dataset: Any, operation: Any) -> Any:
        paths.append(path)
        return right(store, path, dataset, operation)

    monkeypatch.setattr(versions, "create_version", create)
    return paths


def refuse(*_: Any) -> VersionContent:
    raise UnknownFormatError("a test wants Lance to do it")


def test_versions_of_a_group_are_those_that_lance_creates(
    world: Session, tmp_path: Path, created: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(tmp_path / "g", tmp_path / "copy")
    commits = grouped(world, all_kinds(world))
    assert created == []
    by_lance = open_session(str(tmp_path / "copy"), is_read_only=False, runtime=runtime())
    monkeypatch.setattr(VersionContent, "apply", refuse)
    expected = grouped(by_lance, all_kinds(by_lance))

    # One for each table of each write.
    assert len(created) == 10
    assert seen(reopened(world), commits) == seen(by_lance, expected)
    assert len({commit.manifest_version for commit in commits}) == 1


def test_a_write_over_another_one_sees_what_is_not_published(world: Session) -> None:
    calls = [
        put(world, "node:A", n1=1),
        lambda: increment(world),
        put(world, "node:A", n3=3),
        lambda: increment(world),
        put(world, "node:A", n4=4),
    ]

    commits = grouped(world, calls)

    assert all(isinstance(commit, Commit) for commit in commits)
    found = state(reopened(world))["node:A"]
    assert (found["a"], {name for name in found if name.startswith("n")}) == (3, {"n1", "n3", "n4"})
    # Each commit has its own state, with the value of the counter then.
    values = []
    for commit in commits:
        snapshot = read_at_commit(world.log, world.head(), commit.id)
        table = world.open_tables(snapshot).open_table("node:A")
        values.append(table.scan(["v"], "id = 'a'").column("v").to_pylist())
    assert values == [[1], [2], [2], [3], [3]]


def test_a_write_that_fails_in_its_turn_takes_no_other_with_it(world: Session) -> None:
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
    path = world.head().snapshot.pin("node:A").path
    names = [info.key.rpartition("/")[2] for info in world.store.objects.list_under(f"{path}/_versions")]
    detached = {name[1:].removesuffix(".manifest") for name in names if name.startswith("d")}
    assert detached <= {change.after for commit in world.log.iter_history(world.head()) for change in commit.changes}


# All three have deletion files before their turns; the second and the third get others in their turns.
@pytest.mark.parametrize("failing, number", [("/_versions/", 2), ("/_deletions/", 4)])
def test_a_file_that_can_not_be_written_fails_its_write_alone(
    world: Session, failing: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = [change(world, "node:A", a=10), change(world, "node:A", b=20), change(world, "node:A", c=30)]
    right, count = GraphStorage.write_file, [0]

    def fail(store: GraphStorage, path: str, data: bytes) -> None:
        count[0] += failing in path
        if failing in path and count[0] == number:
            raise StoreUnavailableError("write a file", "no answer")
        right(store, path, data)

    monkeypatch.setattr(GraphStorage, "write_file", fail)

    outcomes = grouped(world, calls)

    assert [type(outcome) for outcome in outcomes].count(StoreUnavailableError) == 1
    assert [type(outcome) for outcome in outcomes].count(Commit) == 2
    found = state(reopened(world))["node:A"]
    done = [isinstance(outcome, Commit) for outcome in outcomes]
    assert [found[name] == value for name, value in (("a", 10), ("b", 20), ("c", 30))] == done


def test_rows_that_maintenance_has_moved_are_found_again(world: Session) -> None:
    """Writes that were staged before a compaction are placed after it."""
    calls = all_kinds(world)

    def compact() -> None:
        # In this thread, whose turn it is.
        done = compact_tail(reopened(world, MAINTAINED), "node:A", lambda: False, 99)
        assert done is not None
        assert (done.fragments_removed, done.error) == (3, None)

    commits = grouped(world, calls, before=compact)

    assert all(isinstance(commit, Commit) for commit in commits), commits
    found = state(reopened(world))
    assert found["node:A"] == {"a": 10, "b": 20, "c": 3, "d": 4, "f": 60, "n1": 1, "n2": 2, "n3": 3}
    assert (found["node:B"]["a"], found["node:B"]["n2"]) == (7, 2)
