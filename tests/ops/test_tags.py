"""Tags: names for states that stay."""

from pathlib import Path

import pytest

import omnigraph as og
from branching import branch, put
from collecting import DAY, collect, content, looked_at, pass_time, small_world
from omnigraph.commit.tag_errors import TagMissingError
from omnigraph.graph import Graph
from omnigraph.ops.branch import create_branch, delete_branch
from omnigraph.ops.history import list_commits
from omnigraph.ops.open import open_session
from omnigraph.ops.revision import resolve_state
from omnigraph.ops.session import Session
from omnigraph.ops.tag import Tag, create_tag, delete_tag, list_tags
from omnigraph.runtime import Runtime
from omnigraph.storage.layout import BRANCHES
from upkeep_calls import AtPoint
from worlds import FAST


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """A row that said 1, 2 and 3."""
    session = small_world(tmp_path / "g")
    for number in (1, 2, 3):
        put(session, {"a": number})
    return session


def another(session: Session, faults: AtPoint | None = None) -> Session:
    runtime = Runtime(options=FAST) if faults is None else Runtime(options=FAST, faults=faults)
    return open_session(session.uri, is_read_only=False, runtime=runtime)


def tag(session: Session, name: str, ref: str = "main") -> Tag:
    return create_tag(session, name, ref=ref, actor="ada")


def said(session: Session, name: str) -> int:
    return content(session, resolve_state(session, name))["node:A"]["a"]


def test_a_tag_stays_where_it_is(session: Session) -> None:
    tag(session, "v1")

    put(session, {"a": 4})

    assert (said(session, "v1"), said(session, "main")) == (3, 4)


@pytest.mark.parametrize("back, expected", [(0, 3), (1, 2), (2, 1)])
def test_a_tag_names_any_state_that_can_be_named(session: Session, back: int, expected: int) -> None:
    commit = list_commits(session)[back]

    made = [tag(session, "by-id", commit.id), tag(session, "by-branch", f"main@{commit.id}")]
    made += [tag(session, "by-time", f"main@{commit.at}"), tag(session, "by-tag", "by-id")]

    assert {one.commit_id for one in made} == {commit.id}
    assert said(session, "by-tag") == expected


def test_a_tag_is_no_commit(session: Session) -> None:
    before = session.head().snapshot.commit.id

    tag(session, "v1")

    assert session.head().snapshot.commit.id == before


def test_tags_are_listed_by_name_with_who_made_them(session: Session) -> None:
    tag(session, "v2")
    tag(session, "v1", list_commits(session)[1].id)

    assert [(one.name, one.branch, one.created_by) for one in list_tags(session)] == [
        ("v1", "main", "ada"),
        ("v2", "main", "ada"),
    ]


def test_a_tag_is_a_state_wherever_a_commit_is(session: Session) -> None:
    tag(session, "v1")
    put(session, {"a": 4})

    made = create_branch(session, "again", source="v1", actor="ada")
    other = create_branch(session, "more", commit_id="v1", actor="ada")

    assert made.parent_commit == other.parent_commit == list_tags(session)[0].commit_id
    assert (said(session, "again"), said(session, "more")) == (3, 3)
    assert content(session, session.resolve_snapshot(commit_id="v1"))["node:A"] == {"a": 3}


@pytest.mark.parametrize(
    "name", ["", "main", "__x", "a//b", "a b", "x@y", "01JC0000000000000000000000", "n" * 129, "ä"]
)
def test_names_that_no_tag_may_have(session: Session, name: str) -> None:
    with pytest.raises(og.BadArgumentError, match="can't be the name of a tag"):
        tag(session, name)


def test_a_name_means_one_state(session: Session) -> None:
    tag(session, "v1")
    branch(session, "side")

    with pytest.raises(og.TagExistsError, match="has a tag `v1` already"):
        tag(session, "v1")
    with pytest.raises(og.BranchExistsError, match="has a branch `side` already"):
        tag(session, "side")
    with pytest.raises(og.TagExistsError, match="has a tag `v1` already"):
        branch(session, "v1")


def test_a_tag_that_is_made_while_a_branch_of_its_name_is_being_made_keeps_the_name(session: Session) -> None:
    before = list(session.store.objects.list_under(BRANCHES))
    drafting = another(session, AtPoint("branch.written", lambda: tag(session, "same")))

    with pytest.raises(og.TagExistsError, match="`same`"):
        create_branch(drafting, "same", actor="ada")

    assert [one.name for one in session.branches.list_records()] == []
    assert [one.name for one in list_tags(session)] == ["same"]
    assert list(session.store.objects.list_under(BRANCHES)) == before


def test_a_branch_that_is_made_while_a_tag_of_its_name_is_being_made_keeps_the_name(session: Session) -> None:
    found = session.locate_snapshot()
    create_branch(another(session), "same", actor="ada")

    with pytest.raises(og.BranchExistsError, match="`same`"):
        session.branches.tags.create("same", found[1], found[0], "ada")

    assert list_tags(session) == []


def test_a_tag_that_is_deleted_is_gone(session: Session) -> None:
    tag(session, "v1")

    deleted = delete_tag(session, "v1")

    assert (deleted.name, list_tags(session)) == ("v1", [])
    with pytest.raises(og.CommitMissingError, match="`v1` names no commit"):
        session.resolve_snapshot(commit_id="v1")


def test_a_missing_tag_comes_with_the_one_that_was_meant(session: Session) -> None:
    tag(session, "release")

    with pytest.raises(TagMissingError, match="did you mean `release`"):
        delete_tag(session, "relase")


def test_a_tag_stays_when_its_branch_is_deleted_and_collected(session: Session) -> None:
    side = branch(session, "side")
    put(side, {"a": 7})
    tag(session, "then", "side")
    put(side, {"a": 8})
    delete_branch(session, "side")

    pass_time(session.uri, 2 * DAY)
    collect(session)

    assert said(looked_at(session.uri), "then") == 7


def test_a_branch_can_be_taken_from_a_tag_whose_branch_is_gone(session: Session) -> None:
    side = branch(session, "side")
    put(side, {"a": 7})
    tag(session, "then", "side")
    delete_branch(session, "side")
    pass_time(session.uri, 2 * DAY)

    create_branch(session, "again", source="then", actor="ada")
    delete_tag(session, "then")
    collect(session)

    assert said(looked_at(session.uri), "again") == 7
    assert [commit.seq for commit in list_commits(looked_at(session.uri).checkout("again"))] == [4, 3, 2, 1, 0]


def test_a_collected_commit_can_be_neither_tagged_nor_branched_from(session: Session) -> None:
    old = list_commits(session)[2]
    pass_time(session.uri, 2 * DAY)
    collect(session)

    with pytest.raises(og.CommitCollectedError, match="cleanup 1 kept only tagged commits and those from number 3 on"):
        tag(session, "late", old.id)
    with pytest.raises(og.CommitCollectedError, match="number 1 on branch `main`"):
        create_branch(session, "late", commit_id=old.id, actor="ada")


@pytest.mark.parametrize("what", ["tag", "branch"])
@pytest.mark.parametrize("place", ["main", "side"])
def test_who_names_a_commit_while_it_is_collected_comes_too_late(session: Session, what: str, place: str) -> None:
    put(branch(session, "side"), {"a": 7})
    put(session.checkout("side"), {"a": 8})
    old = list_commits(session.checkout(place))[1]
    found = session.checkout(place).locate_snapshot(commit_id=old.id)
    pass_time(session.uri, 2 * DAY)
    collect(another(session))

    def name_it() -> None:
        if what == "tag":
            session.branches.tags.create("late", found[1], found[0], "ada")
        else:
            session.branches.register(session.branches.draft("late", *found, "ada"))

    with pytest.raises(og.CommitCollectedError):
        name_it()

    assert (list_tags(session), [one.name for one in session.branches.list_records()]) == ([], ["side"])


@pytest.mark.parametrize("point", ["cleanup.listed", "cleanup.floored"])
def test_a_commit_that_is_named_before_the_floor_is_kept(session: Session, point: str) -> None:
    put(branch(session, "side"), {"a": 7})
    put(session.checkout("side"), {"a": 8})
    old = [list_commits(session.checkout(name))[1] for name in ("main", "side")]
    pass_time(session.uri, 2 * DAY)

    def meanwhile() -> None:
        for name, commit in zip(("one", "two"), old, strict=True):
            log, found = before[commit.id]
            session.branches.tags.create(name, found, log, "ada")

    before = {commit.id: session.checkout(commit.branch).locate_snapshot(commit_id=commit.id) for commit in old}
    collect(another(session, AtPoint(point, meanwhile)))

    there = looked_at(session.uri)
    assert (said(there, "one"), said(there, "two")) == (2, 7)


def test_a_tag_of_a_deleted_branch_is_sound_when_another_branch_has_the_name(session: Session) -> None:
    create_branch(session, "dev", actor="ada")
    put(session.checkout("dev"), {"a": 9})
    tag(session, "v1", "dev")
    delete_branch(session, "dev")
    create_branch(session, "dev", actor="ada")

    assert said(session, "v1") == 9
    assert Graph(session).check().findings == ()
