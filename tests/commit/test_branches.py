"""Branches: each a line of commits of its own, seen by name, with the history of those it comes from."""

import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from omnigraph.clock import parse_instant
from omnigraph.commit.branch_errors import (
    BadBranchNameError,
    BranchExistsError,
    BranchGoneError,
    BranchHasChildrenError,
    BranchMissingError,
    BranchOutcomeUnknownError,
)
from omnigraph.commit.manifest import decode_head, head_rows
from omnigraph.commit.plan import CommitPlan
from omnigraph.commit.publisher import publish
from omnigraph.commit.recovery import recover
from omnigraph.commit.refs import CommitMissingError
from omnigraph.commit.requirement import RowsUnchanged
from omnigraph.commit.sidecar import list_sidecars
from omnigraph.faults import ArmedFaults, InjectedFaultError
from omnigraph.ops.branch import Branch, create_branch, delete_branch, drafted, list_branches
from omnigraph.ops.history import list_commits, show_commit
from omnigraph.ops.open import open_session
from omnigraph.ops.session import ReadOnlyError, Session
from omnigraph.ops.write import TableWrite, write_tables
from omnigraph.options import Durability, Options
from omnigraph.storage.layout import BRANCHES
from worlds import new_world, reopened, rows, runtime, seeded_world, state

SEALING = Options(durability=Durability.OS, head_commits=4, sealed_fragments=3)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> str:
    return seeded_world(tmp_path_factory.mktemp("template") / "g").uri


@pytest.fixture
def world(template: str, tmp_path: Path) -> Session:
    copy = shutil.copytree(template, tmp_path / "g")
    return open_session(str(copy), is_read_only=False, runtime=runtime())


def put(session: Session, values: dict[str, int], *keys: str, idempotency_key: str | None = None) -> str:
    """Write rows to tables, node:A by default; the commit's id."""
    done = write_tables(
        session,
        [TableWrite(table_key=key, upsert=rows(values)) for key in keys or ("node:A",)],
        operation="put",
        actor="test",
        idempotency_key=idempotency_key,
    )
    assert done is not None
    return done.commit.id


def branch(session: Session, name: str, source: str = "main", commit_id: str | None = None) -> Session:
    create_branch(session, name, source=source, commit_id=commit_id, actor="ada")
    return session.on(name)


def value(session: Session, row: str = "a") -> int | None:
    return state(session)["node:A"].get(row)


def seqs(session: Session) -> list[tuple[str, int]]:
    return [(commit.branch, commit.seq) for commit in list_commits(session)]


# --- what a branch is ------------------------------------------------------------------------------


def test_a_branch_starts_as_its_parent_is(world: Session) -> None:
    review = branch(world, "review")

    assert state(review) == state(world)
    assert review.snapshot().commit == world.snapshot().commit


def test_branches_do_not_see_each_others_commits(world: Session) -> None:
    one, two = branch(world, "one"), branch(world, "two")

    put(world, {"a": 10})
    put(one, {"a": 11})
    put(two, {"a": 12})

    assert (value(world), value(one), value(two)) == (10, 11, 12)


def test_another_process_finds_a_branch_by_its_name(world: Session) -> None:
    put(branch(world, "review/x"), {"a": 50})

    other = open_session(world.uri, is_read_only=True, runtime=runtime())

    assert value(other.on("review/x")) == 50
    assert value(other) == 1


def test_a_branch_costs_no_file_of_a_table(world: Session) -> None:
    before = [info.key for info in world.store.objects.list_under("nodes")]

    branch(world, "review")

    assert [info.key for info in world.store.objects.list_under("nodes")] == before


def test_making_a_branch_is_no_commit(world: Session) -> None:
    head = world.snapshot().commit

    branch(world, "review")
    delete_branch(world, "review")

    assert world.snapshot().commit == head
    assert world.head().snapshot.manifest_version == head.manifest_version + 3


def test_the_list_says_where_a_branch_comes_from(world: Session) -> None:
    commit = world.snapshot().commit.id
    create_branch(world, "b/x", actor="ada")
    create_branch(world, "a", source="b/x", actor="bob")

    main, first, second = list_branches(reopened(world))

    assert main == Branch(name="main")
    assert (first.name, first.parent_branch, first.parent_commit, first.created_by) == ("a", "b/x", commit, "bob")
    assert (second.name, second.parent_branch, second.parent_commit, second.created_by) == (
        "b/x",
        "main",
        commit,
        "ada",
    )
    assert second.id is not None
    assert parse_instant(second.created_at or "") >= parse_instant(world.snapshot().commit.at)


def test_a_pin_names_the_branch_that_wrote_it(world: Session) -> None:
    review = branch(world, "review")
    first = put(review, {"a": 2})
    put(review, {"a": 3})
    put(branch(world, "deep", "review"), {"b": 9}, "node:B")

    pins = world.on("deep").snapshot().pins
    past = world.on("deep").snapshot(commit_id=first).pins
    before = world.on("deep").snapshot(commit_id=list_commits(world)[0].id).pins

    assert {key: pins[key].branch for key in ("node:A", "node:B", "node:C")} == {
        "node:A": "review",
        "node:B": "deep",
        "node:C": "main",
    }
    assert {key: past[key].branch for key in ("node:A", "node:B")} == {"node:A": "review", "node:B": "main"}
    assert {pin.branch for pin in before.values()} == {"main"}


def test_a_manifest_of_a_branch_reads_back_as_it_was_written(world: Session) -> None:
    manifest = branch(world, "review").head().snapshot.manifest

    assert decode_head(head_rows(manifest)) == manifest
    assert manifest.fork is not None
    assert "graph_head:review" in head_rows(manifest)["object_id"].to_pylist()


# --- from which state ------------------------------------------------------------------------------


def test_a_branch_of_a_branch_has_the_commits_of_both(world: Session) -> None:
    review = branch(world, "review")
    put(review, {"a": 2})
    deep = branch(world, "deep", "review")
    put(deep, {"a": 3})
    put(review, {"a": 4})

    assert value(deep) == 3
    assert seqs(deep) == [("deep", 3), ("review", 2), ("main", 1), ("main", 0)]


def test_a_branch_starts_from_any_commit_of_another(world: Session) -> None:
    second = put(world, {"a": 2})
    put(world, {"a": 3})

    past = branch(world, "past", commit_id=second)
    put(past, {"b": 20})

    assert (value(past), value(past, "b")) == (2, 20)
    assert seqs(past) == [("past", 3), ("main", 2), ("main", 1), ("main", 0)]


def test_a_branch_starts_from_any_time(world: Session) -> None:
    second = show_commit(world, put(world, {"a": 2}))
    put(world, {"a": 3})

    create_branch(world, "past", at=parse_instant(second.at), actor="ada")

    assert value(world.on("past")) == 2


def test_a_commit_from_before_a_fork_is_its_own_branchs(world: Session) -> None:
    """What is made from main's commit hangs on main, though it was asked for through a branch."""
    old = world.snapshot().commit.id
    put(world, {"a": 2})
    branch(world, "review")

    made = create_branch(world, "past", source="review", commit_id=old, actor="ada")
    delete_branch(world, "review")

    assert made.parent_branch == "main"
    assert value(world.on("past")) == 1
    assert seqs(world.on("past")) == [("main", 1), ("main", 0)]


def test_a_commit_of_another_branch_is_none_to_start_from(world: Session) -> None:
    stranger = put(branch(world, "review"), {"a": 2})

    with pytest.raises(CommitMissingError):
        create_branch(world, "past", commit_id=stranger, actor="ada")

    assert [one.name for one in list_branches(world)] == ["main", "review"]


# --- history across the fork -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """Main has 60 commits; `early` was taken at the 20th, and has 15 of its own; `deep` from its 10th, and has 9.

    In each of them `n` says the number of the commit, in main and its branches alike. All are sealed many times over.
    """
    session = new_world(tmp_path_factory.mktemp("long") / "g", SEALING)
    numbered(session, 20)
    early = branch(session, "early")
    numbered(session, 40)
    numbered(early, 10)
    deep = branch(session, "deep", "early")
    numbered(early, 5)
    numbered(deep, 9)
    return session


def numbered(session: Session, commits: int) -> None:
    for _ in range(commits):
        put(session, {"n": session.snapshot().commit.seq + 1})


LINES = {
    "main": [("main", range(61))],
    "early": [("main", range(21)), ("early", range(21, 36))],
    "deep": [("main", range(21)), ("early", range(21, 31)), ("deep", range(31, 40))],
}


@pytest.mark.parametrize("name", LINES)
def test_the_history_of_a_branch_goes_on_in_its_parents(name: str, long: Session) -> None:
    expected = [(part, seq) for part, numbers in LINES[name] for seq in numbers]

    assert seqs(long.on(name)) == expected[::-1]
    assert long.on(name).head().table.sealed_count > 0


@pytest.mark.parametrize("name", LINES)
def test_every_commit_before_and_after_a_fork_reads_as_it_was(name: str, long: Session) -> None:
    session = reopened(long, SEALING).on(name)

    for commit in list_commits(session)[:-1]:
        past = session.snapshot(commit_id=commit.id)
        assert session.tables(past).table("node:A").scan(["v"])["v"].to_pylist() == [commit.seq]
        assert (past.commit, past.branch) == (commit, commit.branch)
        assert past.pin("node:A").branch == commit.branch


def test_a_time_before_a_fork_is_the_parents(long: Session) -> None:
    session = long.on("deep")
    wanted = {commit.seq: commit for commit in list_commits(session)}

    for seq in (5, 20, 21, 30, 31, 39):
        assert session.snapshot(at=parse_instant(wanted[seq].at)).commit == wanted[seq]


def test_what_comes_before_a_number_is_found_wherever_it_is_sealed(long: Session) -> None:
    head = long.head()

    for limit in range(62):
        found = [commit.seq for commit in long.log.history(head, before=limit)]
        assert found == list(range(limit))[::-1]


def test_the_newest_commits_of_a_branch_need_nothing_of_its_parent(long: Session) -> None:
    session = reopened(long, SEALING).on("early")
    session.head()

    with session.runtime.telemetry.counting() as requests:
        list_commits(session, limit=3)

    assert requests.total(operation="get") == 0


def test_a_commit_after_the_fork_is_none_of_the_branchs(long: Session) -> None:
    later = list_commits(long)[0].id

    with pytest.raises(CommitMissingError, match="the branch `early` has no commit"):
        long.on("early").snapshot(commit_id=later)


def test_a_replaced_schema_is_found_in_the_parent(world: Session) -> None:
    base = world.head()
    old = base.snapshot.manifest.schema
    new = replace_schema(world, "later")
    review = branch(world, "review")

    assert review.log.schema(review.head(), new) is not None
    assert review.log.schema(review.head(), old.id) == old
    assert review.snapshot(commit_id=base.snapshot.commit.id).manifest.schema == old


def replace_schema(session: Session, schema_id: str) -> str:
    """A commit that changes the accepted schema, and nothing else."""
    head = session.head()
    schema = msgspec.structs.replace(head.snapshot.manifest.schema, id=schema_id)
    plan = CommitPlan(base=head, operation="schema_apply", actor="test", schema=schema)
    publish(session.log, session.handles, plan)
    return schema_id


def test_a_key_of_a_request_belongs_to_one_branch(world: Session) -> None:
    first = put(world, {"a": 2}, idempotency_key="k")
    review = branch(world, "review")

    second = put(review, {"a": 3}, idempotency_key="k")
    again = put(review, {"a": 4}, idempotency_key="k")

    assert second != first
    assert again == second
    assert value(review) == 3


# --- deleting --------------------------------------------------------------------------------------


def test_a_deleted_branch_is_not_found(world: Session) -> None:
    branch(world, "review")

    gone = delete_branch(world, "review")

    assert gone.name == "review"
    with pytest.raises(BranchMissingError, match="no branch `review`; it has `main`"):
        world.on("review")
    assert [one.name for one in list_branches(world)] == ["main"]


def test_a_branch_that_others_come_from_stays(world: Session) -> None:
    branch(world, "review")
    branch(world, "deep", "review")

    with pytest.raises(BranchHasChildrenError, match="`deep`"):
        delete_branch(world, "review")

    delete_branch(world, "deep")
    delete_branch(world, "review")
    assert [one.name for one in list_branches(world)] == ["main"]


def test_main_is_not_deleted(world: Session) -> None:
    with pytest.raises(BadBranchNameError, match="neither made nor deleted"):
        delete_branch(world, "main")


def test_a_name_can_be_used_again_and_shows_nothing_of_the_old_branch(world: Session) -> None:
    old = create_branch(world, "review", actor="ada")
    put(world.on("review"), {"a": 99})
    delete_branch(world, "review")

    new = create_branch(world, "review", actor="ada")

    assert new.id != old.id
    assert value(world.on("review")) == 1
    assert seqs(world.on("review")) == [("main", 1), ("main", 0)]


def test_a_taken_name_is_refused_with_a_way_out(world: Session) -> None:
    branch(world, "review/x")

    with pytest.raises(BranchExistsError, match="omnigraph branch delete review/x"):
        create_branch(world, "review/x", actor="ada")
    with pytest.raises(BranchExistsError, match="there is a branch `review/x`"):
        create_branch(world, "review", actor="ada")


def test_a_branch_that_was_not_made_leaves_no_manifest(world: Session) -> None:
    branch(world, "review")
    before = world.store.objects.list_under(BRANCHES)

    with pytest.raises(BranchExistsError):
        create_branch(world, "review", actor="ada")
    with pytest.raises(RuntimeError), drafted(world, "other", actor="ada"):
        raise RuntimeError

    assert world.store.objects.list_under(BRANCHES) == before


def test_a_near_miss_is_named(world: Session) -> None:
    branch(world, "review")

    with pytest.raises(BranchMissingError, match="did you mean `review`"):
        world.on("reveiw")


def test_a_read_only_graph_makes_and_deletes_no_branch(world: Session) -> None:
    branch(world, "review")
    reader = open_session(world.uri, is_read_only=True, runtime=runtime())

    with pytest.raises(ReadOnlyError):
        create_branch(reader, "other", actor="ada")
    with pytest.raises(ReadOnlyError):
        delete_branch(reader, "review")


# --- handles that live long ------------------------------------------------------------------------


def test_a_handle_notices_that_its_branch_was_deleted(world: Session) -> None:
    review = branch(world, "review")
    review.head()

    delete_branch(reopened(world), "review")

    with pytest.raises(BranchGoneError, match="`review` was deleted meanwhile"):
        review.head()
    with pytest.raises(BranchMissingError):
        world.on("review").head()


def test_a_handle_on_a_deleted_branch_does_not_move_to_another_of_its_name(world: Session) -> None:
    review = branch(world, "review")
    review.head()
    other = reopened(world)

    delete_branch(other, "review")
    put(branch(other, "review"), {"a": 7})

    with pytest.raises(BranchGoneError):
        review.head()
    assert value(world.on("review")) == 7


def test_a_name_that_was_known_is_looked_for_again_when_its_branch_is_gone(world: Session) -> None:
    value(branch(world, "review"))
    named = world.on("review")
    other = reopened(world)

    delete_branch(other, "review")
    put(branch(other, "review"), {"a": 7})

    assert value(named) == 7


def test_a_past_read_notices_it_too(world: Session) -> None:
    review = branch(world, "review")
    commit = put(review, {"a": 2})

    delete_branch(reopened(world), "review")

    with pytest.raises(BranchGoneError):
        review.snapshot(commit_id=commit)


def test_a_snapshot_of_a_deleted_branch_can_still_be_read(world: Session) -> None:
    review = branch(world, "review")
    put(review, {"a": 2})
    taken = review.snapshot()

    delete_branch(reopened(world), "review")

    assert review.tables(taken).table("node:A").scan(["v"]).num_rows == 4


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
def test_a_write_on_a_branch_that_is_deleted_before_its_swap_is_a_conflict(point: str, world: Session) -> None:
    review, other, files = branch(world, "review"), reopened(world), data_files(world)
    world.store.runtime = replace(world.runtime, faults=At(point, lambda: delete_branch(other, "review")))

    with pytest.raises(BranchGoneError):
        put(review, {"a": 2}, "node:A", "node:B")

    assert data_files(world) == files
    assert list_sidecars(world.store) == ([], [])
    assert state(world) == state(other)


@pytest.mark.parametrize("point", ["publish.swapped", "publish.verified"])
def test_a_write_whose_branch_is_deleted_after_its_swap_has_happened(point: str, world: Session) -> None:
    review, other = branch(world, "review"), reopened(world)
    world.store.runtime = replace(world.runtime, faults=At(point, lambda: delete_branch(other, "review")))

    commit = put(review, {"a": 2}, "node:A", "node:B")

    assert show_commit_of(review, commit)
    with pytest.raises(BranchGoneError):
        review.head()


def show_commit_of(session: Session, commit_id: str) -> bool:
    """Whether a commit is part of how a branch ended."""
    return any(commit.id == commit_id for commit in session.log.history(session.log.last()))


@pytest.mark.parametrize("is_strict", [False, True])
@pytest.mark.parametrize("point", BEFORE_THE_SWAP)
def test_a_branch_that_is_made_or_deleted_meanwhile_disturbs_no_write(
    point: str, is_strict: bool, world: Session
) -> None:
    other = reopened(world)
    create_branch(other, "old", actor="ada")
    base = world.head()

    def meanwhile() -> None:
        create_branch(other, "new", actor="ada")
        delete_branch(other, "old")

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
    assert value(world.on("new")) == 1


def test_a_branch_made_from_one_that_is_deleted_meanwhile_is_not_made(world: Session) -> None:
    branch(world, "review")

    with pytest.raises(BranchGoneError), drafted(world, "deep", source="review", actor="ada"):
        delete_branch(reopened(world), "review")

    assert [one.name for one in list_branches(world)] == ["main"]


# --- drafts ----------------------------------------------------------------------------------------


def test_what_is_written_to_a_draft_is_there_together_with_the_branch(world: Session) -> None:
    other = reopened(world)

    with drafted(world, "review", actor="ada") as draft:
        put(world.on_log(draft.log), {"a": 2}, "node:A", "node:B")
        seen = [one.name for one in list_branches(other)]

    assert seen == ["main"]
    assert value(other.on("review")) == 2
    assert value(other) == 1


def test_of_two_drafts_of_a_name_one_becomes_the_branch(world: Session) -> None:
    other = reopened(world)

    with pytest.raises(BranchExistsError), drafted(world, "review", actor="ada"):
        put(branch(other, "review"), {"a": 5})

    assert value(world.on("review")) == 5


# --- what goes wrong -------------------------------------------------------------------------------

HALF_DELETED = [("branch.marked", 1), ("publish.head_written", 2), ("branch.closed", 1), ("publish.head_written", 3)]
"""Points between the visible moment of a deletion and its end, each with the how-manieth time it is reached."""


def half_deleted(session: Session, name: str, point: str, nth: int) -> Session:
    """Another handle dies while it deletes a branch, which is gone by then; a handle on that branch, as it was."""
    held = session.on(name)
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
        reader.on("review")


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

    assert value(world.on("review")) == 3
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

    with pytest.raises(BranchOutcomeUnknownError, match="`review` is not known"):
        delete_branch(world, "review")


def test_a_lost_answer_to_a_creation_leaves_what_may_be_seen(world: Session) -> None:
    world.store.runtime = replace(world.runtime, faults=ArmedFaults("publish.swapped", "error"))

    with pytest.raises(BranchOutcomeUnknownError):
        create_branch(world, "review", actor="ada")

    assert value(world.on("review")) == 1


def test_an_operation_that_died_on_a_branch_is_rolled_back_there(world: Session) -> None:
    review = branch(world, "review")
    files = data_files(world)
    died_at(review, "publish.flushed")

    waited(world)
    recover(world.store, world.log)

    assert list_sidecars(world.store) == ([], [])
    assert data_files(world) == files
    assert [commit.operation for commit in list_commits(world.on("review"), limit=1)] == ["recovery"]
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
    draft = world.branches.draft("review", world.log, world.snapshot(), "ada")
    died_at(world.on_log(draft.log), "publish.flushed")
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


def data_files(session: Session) -> list[str]:
    return [info.key for info in session.store.objects.list_under("nodes") if "/data/" in info.key]
