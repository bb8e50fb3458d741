"""A commit by a name: an id, a tag, a branch or a time, wherever one is asked for."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.clock import format_instant, parse_instant
from worlds import runtime

Named = Callable[[og.Graph], str]


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    """Four commits on main, the second one tagged; and a branch of the third with one of its own."""
    graph = og.create_graph(str(tmp_path / "g"), "node P { name: String @key }", runtime=runtime())
    for name in "abc":
        graph.mutate(f'query q() {{ insert P {{ name: "{name}" }} }}')
        if name == "a":
            graph.tags.create("release-1")
        if name == "b":
            graph.branches.create("review")
    graph.mutate('query q() { insert P { name: "r" } }', branch="review")
    return graph


def second(graph: og.Graph) -> str:
    return graph.commits()[-2].id


def just_after_second(graph: og.Graph) -> str:
    after, next_one = (parse_instant(graph.commits()[at].at) for at in (-2, -3))
    return format_instant(max(after, next_one - timedelta(microseconds=1)))


NAMES: dict[str, Named] = {
    "id": second,
    "tag": lambda _: "release-1",
    "time": just_after_second,
    "of a branch": lambda graph: f"review@{second(graph)}",
    "tag of a branch": lambda _: "review@release-1",
    "time of a branch": lambda graph: f"review@{just_after_second(graph)}",
}


@pytest.mark.parametrize("named", NAMES.values(), ids=NAMES)
def test_a_feed_goes_on_behind_whatever_names_a_commit(named: Named, graph: og.Graph) -> None:
    found = [one.commit.id for one in graph.changes(since=named(graph))]

    assert found == [one.id for one in graph.commits()[1::-1]]


@pytest.mark.parametrize("named", NAMES.values(), ids=NAMES)
def test_a_commit_is_shown_by_whatever_names_it(named: Named, graph: og.Graph) -> None:
    assert graph.commit(named(graph)).id == second(graph)
    assert graph.commit_changes(named(graph)).commit.id == second(graph)


@pytest.mark.parametrize("named", NAMES.values(), ids=NAMES)
def test_commits_before_whatever_names_one_are_listed(named: Named, graph: og.Graph) -> None:
    assert graph.commits(before=named(graph)) == graph.commits()[-1:]


@pytest.mark.parametrize("named", NAMES.values(), ids=NAMES)
def test_states_differ_by_whatever_names_them(named: Named, graph: og.Graph) -> None:
    assert graph.diff(named(graph), "main").counts()["P"].inserted == 2


def test_a_branch_names_its_newest_commit(graph: og.Graph) -> None:
    assert graph.commit("review").id == graph.commits(branch="review")[0].id


def test_the_commit_of_a_tag_is_shown_when_its_branch_is_gone(graph: og.Graph) -> None:
    graph.tags.create("kept", "review")
    expected = graph.commits(branch="review")[0].id
    graph.branches.delete("review")

    assert graph.commit("kept").id == expected


def test_a_tag_of_another_line_is_no_place_in_a_feed(graph: og.Graph) -> None:
    graph.tags.create("elsewhere", "review")

    with pytest.raises(og.CommitMissingError, match="the branch `main` has no commit"):
        graph.changes(since="elsewhere")


@pytest.mark.parametrize(
    "call",
    [
        lambda graph: graph.changes(since="relase-1"),
        lambda graph: graph.commit("relase-1"),
        lambda graph: graph.commits(before="relase-1"),
    ],
    ids=["changes", "commit", "commits"],
)
def test_what_names_no_commit_says_what_does(call: Callable[[og.Graph], object], graph: og.Graph) -> None:
    told = "`relase-1` names no commit; use a commit id, a tag, a branch, or a time .*; did you mean `release-1`"

    with pytest.raises(og.CommitMissingError, match=told):
        call(graph)


def test_a_tag_where_a_branch_is_needed_says_how_to_make_one(graph: og.Graph) -> None:
    with pytest.raises(og.BranchMissingError, match="`release-1` is a tag, and this needs a branch") as caught:
        graph.merge("release-1")

    assert "omnigraph branch create NAME --from release-1" in str(caught.value)
