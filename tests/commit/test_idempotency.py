"""A request that is sent again has one effect, whatever became of the first try."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lance import LanceDataset
from lance.commit import CommitConflictError

from branching import branch, put
from omnigraph.commit.group_commit import PublishResult
from omnigraph.commit.manifest_log import Head
from omnigraph.commit.requirements import IdsAbsent
from omnigraph.ops.session import Session
from omnigraph.ops.write_tables import TableWrite, write_tables
from worlds import FAST, reopened, rows, seeded_world, state

ONCE = TableWrite(table_key="node:A", append=rows({"once": 1}))


@pytest.fixture
def world(tmp_path: Path) -> Session:
    return seeded_world(tmp_path / "g")


def send(
    session: Session,
    write: TableWrite = ONCE,
    actor: str = "x",
    *,
    base: Head | None = None,
    is_new: bool = False,
    if_commit: str | None = None,
) -> PublishResult:
    done = write_tables(
        session,
        [write],
        operation="w",
        actor=actor,
        idempotency_key="k1",
        base=base,
        requirements=[IdsAbsent(table_key="node:A", ids=("once",))] if is_new else [],
        if_commit=if_commit,
    )
    assert done is not None
    return done


def test_the_same_idempotency_key_has_one_effect(world: Session) -> None:
    first = send(world)

    second = send(reopened(world))

    assert second.commit == first.commit
    assert second.is_repeated
    assert state(world)["node:A"]["once"] == 1
    assert len(world.log.head().snapshot.manifest.commits) == 3


def test_a_key_is_found_after_its_commit_was_sealed(tmp_path: Path) -> None:
    session = seeded_world(tmp_path / "g", replace(FAST, head_commits=4, sealed_fragments=2))
    first = send(session)
    for number in range(30):
        write_tables(session, [TableWrite(table_key="node:B", upsert=rows({"n": number}))], operation="w", actor="x")

    second = send(session)

    assert second.commit == first.commit
    assert state(session)["node:A"]["once"] == 1


@pytest.mark.parametrize("commits", [0, 9])
def test_a_key_of_the_commit_that_a_branch_was_taken_at_is_another_key_on_the_branch(
    commits: int, tmp_path: Path
) -> None:
    session = seeded_world(tmp_path / "g", replace(FAST, head_commits=4, sealed_fragments=2))
    first = send(session)
    side = branch(session, "side")
    for number in range(commits):
        put(side, {"n": number}, "node:B")

    write = TableWrite(table_key="node:A", append=rows({"twice": 2}))
    second, third = send(side, write), send(side, write)

    assert (second.is_repeated, third.is_repeated) == (False, True)
    assert second.commit.id != first.commit.id
    assert third.commit.id == second.commit.id
    assert state(side)["node:A"]["twice"] == 2


def test_a_key_that_is_not_there_costs_nothing_the_second_time(tmp_path: Path) -> None:
    session = seeded_world(tmp_path / "g", replace(FAST, head_commits=2))
    for number in range(9):
        write_tables(session, [TableWrite(table_key="node:B", upsert=rows({"n": number}))], operation="w", actor="x")
    head = session.head()
    assert session.log.find_by_idempotency_key(head, "x", "k") is None

    with session.runtime.telemetry.count_requests() as requests:
        found = session.log.find_by_idempotency_key(head, "x", "other")

    assert found is None
    assert requests.count() == 0


def test_a_request_that_was_bound_to_a_head_is_recognised_after_it_moved_that_head(world: Session) -> None:
    seen = world.head().snapshot.commit.id
    first = send(world, if_commit=seen)

    second = send(world, if_commit=seen)

    assert second.commit == first.commit


def test_what_the_first_try_wrote_is_no_conflict_for_the_second(world: Session) -> None:
    base = world.head()
    other = reopened(world)
    first = send(other, base=other.head(), is_new=True)

    second = send(world, base=base, is_new=True)

    assert second.commit == first.commit
    assert state(world)["node:A"]["once"] == 1


def test_a_delete_that_was_done_before_names_the_commit_that_did_it(world: Session) -> None:
    gone = TableWrite(table_key="node:A", delete=["a"])
    first = send(world, gone)

    second = send(world, gone)

    assert second.commit == first.commit


@pytest.mark.parametrize("is_late", [False, True])
def test_another_actors_key_is_another_key(is_late: bool, world: Session) -> None:
    base = world.head()
    send(reopened(world), TableWrite(table_key="node:A", append=rows({"p": 1})), actor="p")

    send(
        world,
        TableWrite(table_key="node:A", append=rows({"q": 1})),
        actor="q",
        base=base if is_late else world.head(),
    )

    assert {"p", "q"} <= set(state(world)["node:A"])


def test_a_swap_that_is_called_lost_although_it_was_ours_is_committed_and_keeps_its_files(
    world: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = LanceDataset.commit

    def commit(base: LanceDataset, transaction: Any, **options: Any) -> LanceDataset:
        made = right(base, transaction, **options)
        if not options.get("detached"):
            raise CommitConflictError("somebody was first", retryable=True)
        return made

    with monkeypatch.context() as lying:
        lying.setattr(LanceDataset, "commit", staticmethod(commit))
        done = write_tables(world, [ONCE], operation="w", actor="x")

    assert done is not None
    assert not done.is_repeated
    assert state(reopened(world))["node:A"]["once"] == 1
    assert [commit.id for commit in world.log.iter_history(world.head())].count(done.commit.id) == 1


def test_a_second_try_that_meets_the_first_leaves_no_files(world: Session) -> None:
    base = world.head()
    send(reopened(world))
    before = data_files(world)

    send(world, base=base)

    assert data_files(world) == before


def data_files(session: Session) -> list[str]:
    return [info.key for info in session.store.objects.list_under("nodes") if "/_transactions/" not in info.key]
