"""An actor who sees all rows of a branch does not see more of the past that it shares with another."""

from collections.abc import Callable

import pytest

import omnigraph as og
from hidden_rows import EVE, VARIANTS, ask, build_graph, load_policies, open_as

RULES = """
permit(principal, action in [
  Action::"read", Action::"export", Action::"change", Action::"reset", Action::"maintain", Action::"branch_create"
], resource);
permit(principal, action == Action::"see", resource) when { resource.type == "City" };
permit(principal, action == Action::"see", resource in Branch::"g/mine");
"""
COUNT = "query q() { match { $p: Person } return { count(*) as n } }"


@pytest.fixture(scope="module")
def eve(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    home = tmp_path_factory.mktemp("past")
    graph = build_graph(home / "g", VARIANTS[1])
    graph.mutate('query d() { delete Person where name = "h1" }')
    graph.branches.create("mine")
    return open_as(graph, load_policies(home / "p", RULES).of_graph("g"), EVE)


def test_the_newest_state_is_the_branchs_own(eve: og.Graph) -> None:
    assert eve.query(COUNT, branch="mine").rows() == [{"n": 18}]
    assert eve.query(COUNT, branch="mine", snapshot="first").rows() == [{"n": 0}]


def test_the_feed_of_the_branch_hides_rows_in_commits_of_the_other(eve: og.Graph) -> None:
    feed = list(eve.changes(branch="mine"))

    lines = b"".join(block for changes in feed for block in changes.blocks()).decode()
    assert [set(changes.counts()) for changes in feed] == [set(), {"City"}, set(), set(), set()]
    assert ("Rome" in lines, "h1" in lines) == (True, False)


DOORS: dict[str, Callable[[og.Graph, str], object]] = {
    "table": lambda graph, past: graph.table("Person", branch="mine", snapshot=past),
    "indexes": lambda graph, past: graph.indexes(branch="mine", snapshot=past),
    "explain": lambda graph, past: graph.explain(COUNT, branch="mine", snapshot=past),
    "analyze": lambda graph, past: graph.explain(COUNT, branch="mine", snapshot=past, analyze=True),
    "reset": lambda graph, past: graph.reset("mine", to=past),
}


@pytest.mark.parametrize("door", DOORS)
def test_what_shows_or_restores_all_rows_of_a_past_state_is_refused(door: str, eve: og.Graph) -> None:
    past = eve.commits(branch="mine")[-2].id

    answer = ask(eve, lambda graph: DOORS[door](graph, past))

    assert isinstance(answer, dict)
    assert answer["code"] == "rows_hidden"


def test_they_are_not_refused_for_the_newest_state(eve: og.Graph) -> None:
    assert eve.table("Person", branch="mine").count_rows() == 18
    assert eve.explain(COUNT, branch="mine").plan is not None
