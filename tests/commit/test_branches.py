"""Branches: each a line of commits of its own, seen by name, with the history of those it comes from."""

import shutil
from pathlib import Path

import msgspec
import pytest

from branching import branch, put, seqs, value
from omnigraph.clock import parse_instant
from omnigraph.commit.branch_errors import BranchExistsError, BranchHasChildrenError, BranchMissingError
from omnigraph.commit.commit_plan import CommitPlan
from omnigraph.commit.manifest_codec import decode_head, encode_head
from omnigraph.commit.publisher import publish
from omnigraph.commit.time_travel import CommitMissingError
from omnigraph.errors import BadArgumentError
from omnigraph.ops.branch import Branch, create_branch, delete_branch, draft_branch, list_branches
from omnigraph.ops.history import list_commits, show_commit
from omnigraph.ops.open import open_session
from omnigraph.ops.session import ReadOnlyError, Session
from omnigraph.options import Durability, Options
from omnigraph.storage.layout import BRANCHES
from worlds import new_world, reopened, runtime, seeded_world, state

SEALING = Options(durability=Durability.OS, head_commits=4, sealed_fragments=3)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> str:
    return seeded_world(tmp_path_factory.mktemp("template") / "g").uri


@pytest.fixture
def world(template: str, tmp_path: Path) -> Session:
    copy = shutil.copytree(template, tmp_path / "g")
    return open_session(str(copy), is_read_only=False, runtime=runtime())


# --- what a branch is ------------------------------------------------------------------------------


def test_a_branch_starts_as_its_parent_is(world: Session) -> None:
    review = branch(world, "review")

    assert state(review) == state(world)
    assert review.resolve_snapshot().commit == world.resolve_snapshot().commit


def test_branches_do_not_see_each_others_commits(world: Session) -> None:
    one, two = branch(world, "one"), branch(world, "two")

    put(world, {"a": 10})
    put(one, {"a": 11})
    put(two, {"a": 12})

    assert (value(world), value(one), value(two)) == (10, 11, 12)


def test_another_process_finds_a_branch_by_its_name(world: Session) -> None:
    put(branch(world, "review/x"), {"a": 50})

    other = open_session(world.uri, is_read_only=True, runtime=runtime())

    assert value(other.checkout("review/x")) == 50
    assert value(other) == 1


def test_a_branch_costs_no_file_of_a_table(world: Session) -> None:
    before = [info.key for info in world.store.objects.list_under("nodes")]

    branch(world, "review")

    assert [info.key for info in world.store.objects.list_under("nodes")] == before


def test_making_a_branch_is_no_commit(world: Session) -> None:
    head = world.resolve_snapshot().commit

    branch(world, "review")
    delete_branch(world, "review")

    assert world.resolve_snapshot().commit == head
    assert world.head().snapshot.manifest_version == head.manifest_version + 3


def test_the_list_says_where_a_branch_comes_from(world: Session) -> None:
    commit = world.resolve_snapshot().commit.id
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
    assert parse_instant(second.created_at or "") >= parse_instant(world.resolve_snapshot().commit.at)


def test_a_pin_names_the_branch_that_wrote_it(world: Session) -> None:
    review = branch(world, "review")
    first = put(review, {"a": 2})
    put(review, {"a": 3})
    put(branch(world, "deep", "review"), {"b": 9}, "node:B")

    pins = world.checkout("deep").resolve_snapshot().pins
    past = world.checkout("deep").resolve_snapshot(commit_id=first).pins
    before = world.checkout("deep").resolve_snapshot(commit_id=list_commits(world)[0].id).pins

    assert {key: pins[key].branch for key in ("node:A", "node:B", "node:C")} == {
        "node:A": "review",
        "node:B": "deep",
        "node:C": "main",
    }
    assert {key: past[key].branch for key in ("node:A", "node:B")} == {"node:A": "review", "node:B": "main"}
    assert {pin.branch for pin in before.values()} == {"main"}


def test_a_manifest_of_a_branch_reads_back_as_it_was_written(world: Session) -> None:
    manifest = branch(world, "review").head().snapshot.manifest

    assert decode_head(encode_head(manifest, 3), 3, 0) == manifest
    assert manifest.fork is not None
    assert "graph_head:review" in encode_head(manifest, 3)["object_id"].to_pylist()


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

    assert value(world.checkout("past")) == 2


def test_a_commit_from_before_a_fork_is_its_own_branchs(world: Session) -> None:
    """What is made from main's commit hangs on main, though it was asked for through a branch."""
    old = world.resolve_snapshot().commit.id
    put(world, {"a": 2})
    branch(world, "review")

    made = create_branch(world, "past", source="review", commit_id=old, actor="ada")
    delete_branch(world, "review")

    assert made.parent_branch == "main"
    assert value(world.checkout("past")) == 1
    assert seqs(world.checkout("past")) == [("main", 1), ("main", 0)]


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
        put(session, {"n": session.resolve_snapshot().commit.seq + 1})


LINES = {
    "main": [("main", range(61))],
    "early": [("main", range(21)), ("early", range(21, 36))],
    "deep": [("main", range(21)), ("early", range(21, 31)), ("deep", range(31, 40))],
}


@pytest.mark.parametrize("name", LINES)
def test_the_history_of_a_branch_goes_on_in_its_parents(name: str, long: Session) -> None:
    expected = [(part, seq) for part, numbers in LINES[name] for seq in numbers]

    assert seqs(long.checkout(name)) == expected[::-1]
    assert long.checkout(name).head().table.sealed_count > 0


@pytest.mark.parametrize("name", LINES)
def test_every_commit_before_and_after_a_fork_reads_as_it_was(name: str, long: Session) -> None:
    session = reopened(long, SEALING).checkout(name)

    for commit in list_commits(session)[:-1]:
        past = session.resolve_snapshot(commit_id=commit.id)
        assert session.open_tables(past).open_table("node:A").scan(["v"])["v"].to_pylist() == [commit.seq]
        assert (past.commit, past.branch) == (commit, commit.branch)
        assert past.pin("node:A").branch == commit.branch


def test_a_time_before_a_fork_is_the_parents(long: Session) -> None:
    session = long.checkout("deep")
    wanted = {commit.seq: commit for commit in list_commits(session)}

    for seq in (5, 20, 21, 30, 31, 39):
        assert session.resolve_snapshot(at=parse_instant(wanted[seq].at)).commit == wanted[seq]


def test_what_comes_before_a_number_is_found_wherever_it_is_sealed(long: Session) -> None:
    head = long.head()

    for limit in range(62):
        found = [commit.seq for commit in long.log.iter_history(head, before=limit)]
        assert found == list(range(limit))[::-1]


def test_the_newest_commits_of_a_branch_need_nothing_of_its_parent(long: Session) -> None:
    session = reopened(long, SEALING).checkout("early")
    session.head()

    with session.runtime.telemetry.count_requests() as requests:
        list_commits(session, limit=3)

    assert requests.count(operation="get") == 0


def test_a_commit_after_the_fork_is_none_of_the_branchs(long: Session) -> None:
    later = list_commits(long)[0].id

    with pytest.raises(CommitMissingError, match="the branch `early` has no commit"):
        long.checkout("early").resolve_snapshot(commit_id=later)


def test_a_replaced_schema_is_found_in_the_parent(world: Session) -> None:
    base = world.head()
    old = base.snapshot.manifest.schema
    new = replace_schema(world, "later")
    review = branch(world, "review")

    schemas = {one.id: one for one in review.log.iter_schemas(review.head())}

    assert new in schemas
    assert schemas[old.id] == old
    assert review.resolve_snapshot(commit_id=base.snapshot.commit.id).manifest.schema == old


def replace_schema(session: Session, schema_id: str) -> str:
    """A commit that changes the accepted schema, and nothing else."""
    head = session.head()
    schema = msgspec.structs.replace(head.snapshot.manifest.schema, id=schema_id)
    plan = CommitPlan(base=head, operation="schema_apply", actor="test", schema=schema)
    publish(session.log, session.handles, plan)
    return schema_id


def test_a_key_of_a_request_belongs_to_one_branch(world: Session) -> None:
    before = branch(world, "before")
    first = put(world, {"a": 2}, idempotency_key="k")
    after = branch(world, "after")

    made = [put(one, {"a": 3}, idempotency_key="k") for one in (before, after)]
    again = [put(one, {"a": 4}, idempotency_key="k") for one in (before, after)]

    assert len({first, *made}) == 3
    assert again == made
    assert (value(before), value(after)) == (3, 3)


# --- deleting --------------------------------------------------------------------------------------


def test_a_deleted_branch_is_not_found(world: Session) -> None:
    branch(world, "review")

    gone = delete_branch(world, "review")

    assert gone.name == "review"
    with pytest.raises(BranchMissingError, match="no branch `review`; it has `main`"):
        world.checkout("review")
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
    with pytest.raises(BadArgumentError, match="neither created nor deleted"):
        delete_branch(world, "main")


def test_a_name_can_be_used_again_and_shows_nothing_of_the_old_branch(world: Session) -> None:
    old = create_branch(world, "review", actor="ada")
    put(world.checkout("review"), {"a": 99})
    delete_branch(world, "review")

    new = create_branch(world, "review", actor="ada")

    assert new.id != old.id
    assert value(world.checkout("review")) == 1
    assert seqs(world.checkout("review")) == [("main", 1), ("main", 0)]


def test_a_taken_name_is_refused_with_a_way_out(world: Session) -> None:
    branch(world, "review/x")

    with pytest.raises(BranchExistsError, match="omnigraph branch delete review/x"):
        create_branch(world, "review/x", actor="ada")
    with pytest.raises(BranchExistsError, match="next to the branch `review/x`"):
        create_branch(world, "review", actor="ada")


def test_a_branch_that_was_not_made_leaves_no_manifest(world: Session) -> None:
    branch(world, "review")
    before = world.store.objects.list_under(BRANCHES)

    with pytest.raises(BranchExistsError):
        create_branch(world, "review", actor="ada")
    with pytest.raises(RuntimeError), draft_branch(world, "other", actor="ada"):
        raise RuntimeError

    assert world.store.objects.list_under(BRANCHES) == before


def test_a_near_miss_is_named(world: Session) -> None:
    branch(world, "review")

    with pytest.raises(BranchMissingError, match="did you mean `review`"):
        world.checkout("reveiw")


def test_a_read_only_graph_makes_and_deletes_no_branch(world: Session) -> None:
    branch(world, "review")
    reader = open_session(world.uri, is_read_only=True, runtime=runtime())

    with pytest.raises(ReadOnlyError):
        create_branch(reader, "other", actor="ada")
    with pytest.raises(ReadOnlyError):
        delete_branch(reader, "review")
