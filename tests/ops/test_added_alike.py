"""What two branches added alike, each for itself, is one thing to feeds, histories and differences.

Which of the two identities stays is up to chance; each test looks at both branches, so at both cases.
"""

import json
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from feeding import head, held, replayed, run
from merging import change
from omnigraph.ops.merge_result import MergeOutcome
from worlds import runtime

SCHEMA = "node P { name: String @key  n: I32? }\n"
ADDED = "node P { name: String @key  n: I32?  z: I32? }\nnode T { name: String @key  v: I32? }\n"
RENAMED = """
node P { name: String @key  n: I32?  zed: I32? @rename_from("z") }
node Team @rename_from("T") { name: String @key  v: I32? }
"""


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    """Both branches have the property `z` and the type `T`; each gave `z` to another person, and teams overlap."""
    graph = og.create_graph(str(tmp_path / "g"), SCHEMA, runtime=runtime())
    run(graph, 'insert P { name: "a" } insert P { name: "b" } insert P { name: "c" }')
    graph.branches.create("dev")
    for branch, person, team in (("main", "a", "mains"), ("dev", "b", "devs")):
        graph.apply_schema(ADDED, branch=branch)
        run(graph, change("P", "z", 5, name=person), branch)
        run(graph, f'insert T {{ name: "{team}", v: 1 }} insert T {{ name: "both", v: 1 }}', branch)
    return graph


def merged(graph: og.Graph) -> None:
    assert graph.merge("dev").outcome is MergeOutcome.MERGED
    assert graph.merge("main", into="dev").outcome is MergeOutcome.FAST_FORWARD


def lines(graph: og.Graph, before: str, after: str) -> list[tuple[str, str, str, list[str]]]:
    found = [json.loads(line) for line in graph.diff(before, after).json_lines()]
    return [(one["type"], one["id"], one["change"], one.get("changed", [])) for one in found]


@pytest.mark.parametrize("branch", ["main", "dev"])
def test_a_follower_has_what_the_branch_has(branch: str, graph: og.Graph) -> None:
    merged(graph)

    assert replayed(graph, branch).contents() == held(graph, branch)


@pytest.mark.parametrize("branch", ["main", "dev"])
def test_the_feed_tells_a_merge_of_it_as_the_rows_that_came(branch: str, graph: og.Graph) -> None:
    cursor = head(graph, branch)

    merged(graph)

    (found,) = graph.changes(branch=branch, since=cursor)
    assert found.schema is not None
    assert found.schema.to_json()["types"] == []
    person, team = ("b", "devs") if branch == "main" else ("a", "mains")
    told: list[dict[str, Any]] = list(found.records())
    assert [(one["type"], one["id"], one["change"]) for one in told] == [
        ("P", person, "updated"),
        ("T", team, "inserted"),
    ]


@pytest.mark.parametrize("branch", ["main", "dev"])
def test_a_feed_of_one_type_goes_on_when_its_table_is_another_one(branch: str, graph: og.Graph) -> None:
    cursor = head(graph, branch)
    merged(graph)
    run(graph, 'insert T { name: "late" }', branch)

    found = [one["id"] for part in graph.changes(branch=branch, since=cursor, types=["T"]) for one in part.records()]

    assert found == ["devs" if branch == "main" else "mains", "late"]


@pytest.mark.parametrize("branch", ["main", "dev"])
@pytest.mark.parametrize("type_name, key", [("P", "a"), ("P", "c"), ("T", "both")])
def test_a_merge_that_changed_nothing_of_a_row_is_no_version_of_it(
    type_name: str, key: str, branch: str, graph: og.Graph
) -> None:
    earlier = [one.to_json() for one in graph.history(type_name, key, branch=branch).versions]
    merged(graph)

    found = [one.to_json() for one in graph.history(type_name, key, branch=branch).versions]

    came = [one["changed"] for one in found[: len(found) - len(earlier)]]
    assert found[len(came) :] == earlier
    assert came == ([["z"]] if (branch, key) == ("dev", "a") else [])


@pytest.mark.parametrize("branch", ["main", "dev"])
def test_versions_from_before_the_merge_are_told_also_under_a_name_that_came_with_it(
    branch: str, graph: og.Graph
) -> None:
    other = "dev" if branch == "main" else "main"
    graph.branches.create("early", from_=branch)
    merged(graph)
    graph.apply_schema(RENAMED, branch=other)
    run(graph, change("Team", "v", 2, name="both"), other)
    assert graph.merge(other, into="early").outcome is MergeOutcome.FAST_FORWARD

    found = [(one.change, one.changed, one.before) for one in graph.history("Team", "both", branch="early").versions]

    assert found == [("updated", ("v",), {"name": "both", "v": 1}), ("inserted", (), None)]


def test_branches_that_were_not_merged_yet_differ_in_rows_only(graph: og.Graph) -> None:
    assert lines(graph, "main", "dev") == [
        ("P", "a", "updated", ["z"]),
        ("P", "b", "updated", ["z"]),
        ("T", "devs", "inserted", []),
        ("T", "mains", "deleted", []),
    ]


@pytest.mark.parametrize("branch", ["main", "dev"])
def test_states_before_and_behind_the_merge_differ_in_what_came_also_under_new_names(
    branch: str, graph: og.Graph
) -> None:
    before = {one: head(graph, one) for one in ("main", "dev")}
    merged(graph)
    graph.apply_schema(RENAMED, branch=branch)

    found = {one: lines(graph, f"{one}@{before[one]}", branch) for one in before}

    assert found == {
        "main": [("P", "b", "updated", ["zed"]), ("Team", "devs", "inserted", [])],
        "dev": [("P", "a", "updated", ["zed"]), ("Team", "mains", "inserted", [])],
    }


def test_a_type_that_was_dropped_and_made_anew_is_compared_row_by_row(graph: og.Graph) -> None:
    before = head(graph)
    graph.apply_schema(SCHEMA, allow_drops=True)
    graph.apply_schema(ADDED)
    run(graph, 'insert T { name: "both", v: 2 }')

    assert [one for one in lines(graph, before, "main") if one[0] == "T"] == [
        ("T", "both", "updated", ["v"]),
        ("T", "mains", "deleted", []),
    ]
