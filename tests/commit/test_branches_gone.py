"""Branches that go while somebody works on them, and those whose making or deletion goes wrong."""

import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from branching import branch, data_files, put, value
from omnigraph.commit.branch_errors import BranchExistsError, BranchGoneError, BranchMissingError, OutcomeUnknownError
from omnigraph.commit.recovery import recover
from omnigraph.commit.requirements import RowsUnchanged
from omnigraph.commit.sidecar import list_sidecars
from omnigraph.faults import ArmedFaults, InjectedFaultError
from omnigraph.ops.branch import create_branch, delete_branch, draft_branch, list_branches
from omnigraph.ops.history import list_commits
from omnigraph.ops.open import open_session
from omnigraph.ops.session import Session
from omnigraph.ops.write_tables import TableWrite, write_tables
from raised_codes import has_code
from worlds import reopened, rows, runtime, seeded_world, state
from zygote import Zygote

pytestmark = pytest.mark.usefixtures("with_sidecars")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> str:
    return seeded_world(tmp_path_factory.mktemp("template") / "g").uri


@pytest.fixture
def world(template: str, tmp_path: Path) -> Session:
    copy = shutil.copytree(template, tmp_path / "g")
    return open_session(str(copy), is_read_only=False, runtime=runtime())


# --- handles that live long ------------------------------------------------------------------------


def test_a_handle_notices_that_its_branch_was_deleted(world: Session) -> None:
    review = branch(world, "review")
    review.head()

    delete_branch(reopened(world), "review")

    with pytest.raises(BranchGoneError, match="`review` was deleted in the meantime"):
        review.head()
    with pytest.raises(BranchMissingError):
        world.checkout("review").head()


def test_a_handle_on_a_deleted_branch_does_not_move_to_another_of_its_name(world: Session) -> None:
    review = branch(world, "review")
    review.head()
    other = reopened(world)

    delete_branch(other, "review")
    put(branch(other, "review"), {"a": 7})

    with pytest.raises(BranchGoneError):
        review.head()
    assert value(world.checkout("review")) == 7


def test_a_name_that_was_known_is_looked_for_again_when_its_branch_is_gone(world: Session) -> None:
    value(branch(world, "review"))
    named = world.checkout("review")
    other = reopened(world)

    delete_branch(other, "review")
    put(branch(other, "review"), {"a": 7})

    assert value(named) == 7


def test_a_past_read_notices_it_too(world: Session) -> None:
    review = branch(world, "review")
    commit = put(review, {"a": 2})

    delete_branch(reopened(world), "review")

    with pytest.raises(BranchGoneError):
        review.resolve_snapshot(commit_id=commit)


def test_a_snapshot_of_a_deleted_branch_can_still_be_read(world: Session) -> None:
    review = branch(world, "review")
    put(review, {"a": 2})
    taken = review.resolve_snapshot()

    delete_branch(reopened(world), "review")

    assert review.open_tables(taken).open_table("node:A").scan(["v"]).num_rows == 4


def test_a_write_that_was_planned_before_a_deletion_is_a_conflict(world: Session) -> None:
    review = branch(world, "review")
    base = review.head()
    files = data_files(world)

    delete_branch(reopened(world), "review")

    with pytest.raises(BranchGoneError):
        write_tables(
            review,
            [TableWrite(table_key=key, upsert=rows({"a": 2})) for key in ("node:A", "node:B")],
            operation="put",
            actor="test",
            base=base,
        )
    assert list_sidecars(world.store) == ([], [])
    assert data_files(world) == files


def elsewhere(zygote: Zygote, verb: str, session: Session, name: str) -> None:
    """Make or delete a branch in another process: in this one, threads take turns at the swap."""
    ended = zygote.run(f"crash.branch_jobs:{verb}", {"uri": session.uri, "name": name})
    assert ended.error is None


class At:
    """Does something at a point of a publish, once."""

    def __init__(self, point: str, act: Callable[[], object]) -> None:
        self._point, self._act = point, act

    def reach(self, point: str) -> None:
        if point == self._point:
            self._point = ""
            self._act()


BEFORE_THE_SWAP = ("publish.staged", "publish.armed", "publish.applied", "publish.flushed", "publish.head_written")


@pytest.mark.parametrize("point", BEFORE_THE_SWAP)
def test_a_write_on_a_branch_that_is_deleted_before_its_swap_is_a_conflict(
    point: str, world: Session, zygote: Zygote
) -> None:
    review, files, before = branch(world, "review"), data_files(world), state(world)
    world.store.runtime = replace(world.runtime, faults=At(point, lambda: elsewhere(zygote, "delete", world, "review")))

    with pytest.raises(BranchGoneError):
        put(review, {"a": 2}, "node:A", "node:B")

    assert data_files(world) == files
    assert list_sidecars(world.store) == ([], [])
    assert state(world) == before


@pytest.mark.parametrize("tables", [("node:A",), ("node:A", "node:B")])
@pytest.mark.parametrize("point", ["publish.staged", "publish.applied", "publish.flushed"])
def test_a_write_on_a_branch_that_the_same_handle_deletes_is_a_conflict(
    point: str, tables: tuple[str, ...], world: Session
) -> None:
    review, before = branch(world, "review"), state(world)
    files = data_files(world)
    world.store.runtime = replace(world.runtime, faults=At(point, lambda: delete_branch(world, "review")))

    with pytest.raises(BranchGoneError):
        put(review, {"a": 2}, *tables)

    assert data_files(world) == files
    assert state(world) == before


@pytest.mark.parametrize("point", ["publish.swapped", "publish.verified"])
def test_a_write_whose_branch_is_deleted_after_its_swap_has_happened(
    point: str, world: Session, zygote: Zygote
) -> None:
    review = branch(world, "review")
    world.store.runtime = replace(world.runtime, faults=At(point, lambda: elsewhere(zygote, "delete", world, "review")))

    commit = put(review, {"a": 2}, "node:A", "node:B")

    assert show_commit_of(review, commit)
    with pytest.raises(BranchGoneError):
        review.head()


def show_commit_of(session: Session, commit_id: str) -> bool:
    """Whether a commit is part of how a branch ended."""
    return any(commit.id == commit_id for commit in session.log.iter_history(session.log.final_head()))


@pytest.mark.parametrize("is_strict", [False, True])
@pytest.mark.parametrize("point", BEFORE_THE_SWAP)
def test_a_branch_that_is_made_or_deleted_meanwhile_disturbs_no_write(
    point: str, is_strict: bool, world: Session, zygote: Zygote
) -> None:
    create_branch(world, "old", actor="ada")
    base = world.head()

    def meanwhile() -> None:
        elsewhere(zygote, "create", world, "new")
        elsewhere(zygote, "delete", world, "old")

    world.store.runtime = replace(world.runtime, faults=At(point, meanwhile))
    done = write_tables(
        world,
        [TableWrite(table_key=key, upsert=rows({"a": 2})) for key in ("node:A", "node:B")],
        operation="put",
        actor="test",
        base=base,
        requirements=[RowsUnchanged(table_key="node:A", ids=("a",))],
        if_commit=base.snapshot.commit.id if is_strict else None,
    )

    assert done is not None
    assert value(world) == 2
    assert [one.name for one in list_branches(world)] == ["main", "new"]
    assert value(world.checkout("new")) == 1


def test_a_branch_made_from_one_that_is_deleted_meanwhile_is_not_made(world: Session) -> None:
    branch(world, "review")

    with pytest.raises(BranchGoneError), draft_branch(world, "deep", source="review", actor="ada"):
        delete_branch(reopened(world), "review")

    assert [one.name for one in list_branches(world)] == ["main"]


# --- drafts ----------------------------------------------------------------------------------------


def test_what_is_written_to_a_draft_is_there_together_with_the_branch(world: Session) -> None:
    other = reopened(world)

    with draft_branch(world, "review", actor="ada") as draft:
        put(world.checkout_log(draft.log), {"a": 2}, "node:A", "node:B")
        seen = [one.name for one in list_branches(other)]

    assert seen == ["main"]
    assert value(other.checkout("review")) == 2
    assert value(other) == 1


def test_of_two_drafts_of_a_name_one_becomes_the_branch(world: Session) -> None:
    other = reopened(world)

    with pytest.raises(BranchExistsError), draft_branch(world, "review", actor="ada"):
        put(branch(other, "review"), {"a": 5})

    assert value(world.checkout("review")) == 5


# --- what goes wrong -------------------------------------------------------------------------------

HALF_DELETED = [("branch.marked", 1), ("publish.head_written", 2), ("branch.closed", 1), ("publish.head_written", 3)]
"""Points between the visible moment of a deletion and its end, each with the how-manieth time it is reached."""


def half_deleted(session: Session, name: str, point: str, nth: int) -> Session:
    """Another handle dies while it deletes a branch, which is gone by then; a handle on that branch, as it was."""
    held = session.checkout(name)
    held.head()
    victim = reopened(session)
    victim.store.runtime = replace(victim.runtime, faults=ArmedFaults(point, "error", nth))
    with suppress(InjectedFaultError):
        delete_branch(victim, name)
    return held


@pytest.mark.parametrize("point, nth", HALF_DELETED)
def test_a_branch_is_gone_as_soon_as_its_deletion_is_decided(point: str, nth: int, world: Session) -> None:
    branch(world, "review")
    half_deleted(world, "review", point, nth)

    reader = open_session(world.uri, is_read_only=True, runtime=runtime())

    assert [one.name for one in list_branches(reader)] == ["main"]
    with pytest.raises(BranchMissingError):
        reader.checkout("review")


@pytest.mark.parametrize("point, nth", HALF_DELETED)
def test_a_deletion_that_died_is_finished_by_whoever_opens_the_graph_next(point: str, nth: int, world: Session) -> None:
    branch(world, "review")
    held = half_deleted(world, "review", point, nth)

    after = reopened(world)

    assert after.head().snapshot.manifest.branches == {}
    with pytest.raises(BranchGoneError):
        put(held, {"a": 2})


@pytest.mark.parametrize("point, nth", HALF_DELETED)
def test_the_name_of_a_half_deleted_branch_is_free(point: str, nth: int, world: Session) -> None:
    branch(world, "review")
    held = half_deleted(world, "review", point, nth)

    put(branch(world, "review"), {"a": 3})

    assert value(world.checkout("review")) == 3
    with pytest.raises(BranchGoneError):
        put(held, {"a": 2})


def test_a_failed_deletion_that_was_not_decided_changes_nothing(world: Session) -> None:
    review = branch(world, "review")
    world.store.runtime = replace(world.runtime, faults=ArmedFaults("publish.head_written", "error"))

    with pytest.raises(InjectedFaultError):
        delete_branch(world, "review")

    assert value(review) == 1
    delete_branch(world, "review")


def test_a_lost_answer_to_a_deletion_is_told_as_such(world: Session) -> None:
    branch(world, "review")
    world.store.runtime = replace(world.runtime, faults=ArmedFaults("publish.swapped", "error"))

    with pytest.raises(OutcomeUnknownError, match="`review` may or may not have been changed"):
        delete_branch(world, "review")


def test_a_lost_answer_to_a_creation_leaves_what_may_be_seen(world: Session) -> None:
    world.store.runtime = replace(world.runtime, faults=ArmedFaults("publish.swapped", "error"))

    with pytest.raises(OutcomeUnknownError, check=has_code("branch_outcome_unknown")):
        create_branch(world, "review", actor="ada")

    assert value(world.checkout("review")) == 1


def test_an_operation_that_died_on_a_branch_is_rolled_back_there(world: Session) -> None:
    review = branch(world, "review")
    files = data_files(world)
    died_at(review, "publish.flushed")

    waited(world)
    recover(world.store, world.log)

    assert list_sidecars(world.store) == ([], [])
    assert data_files(world) == files
    assert [commit.operation for commit in list_commits(world.checkout("review"), limit=1)] == ["recovery"]
    assert list_commits(world, filters={"operation": "recovery"}) == []


def test_an_operation_that_died_on_a_branch_that_was_deleted_leaves_nothing(world: Session) -> None:
    review = branch(world, "review")
    files = data_files(world)
    died_at(review, "publish.flushed")

    delete_branch(world, "review")
    waited(world)
    report = recover(world.store, world.log)

    assert (len(report.rolled_back), report.failed) == (1, [])
    assert list_sidecars(world.store) == ([], [])
    assert data_files(world) == files


def test_an_operation_that_had_landed_on_a_deleted_branch_is_rolled_forward(world: Session) -> None:
    review = branch(world, "review")
    died_at(review, "publish.verified")

    delete_branch(world, "review")
    report = recover(world.store, world.log)

    assert (len(report.rolled_forward), report.failed) == (1, [])


def test_an_operation_that_died_on_a_draft_leaves_nothing(world: Session) -> None:
    files = data_files(world)
    draft = world.branches.draft("review", world.log, world.resolve_snapshot(), "ada")
    died_at(world.checkout_log(draft.log), "publish.flushed")
    world.branches.discard(draft)

    waited(world)
    report = recover(world.store, world.log)

    assert (len(report.rolled_back), report.failed) == (1, [])
    assert data_files(world) == files


def died_at(session: Session, point: str) -> None:
    """A write of two tables that stops at a point as if its process were killed there: nothing is tidied up."""
    calm = session.store.runtime
    session.store.runtime = replace(calm, faults=_Killed(point))
    with pytest.raises(_KilledError):
        put(session, {"a": 77}, "node:A", "node:B")
    session.store.runtime = calm


class _KilledError(BaseException):
    """As good as a kill: nobody handles it."""


class _Killed:
    def __init__(self, point: str) -> None:
        self._point = point

    def reach(self, point: str) -> None:
        if point == self._point:
            raise _KilledError


def waited(session: Session) -> None:
    time.sleep(session.runtime.options.lease_seconds * 1.5)
