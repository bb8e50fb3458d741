"""Commits that one swap published are told apart: by history, diffs, the change feed and time travel."""

from pathlib import Path

import pytest

import omnigraph as og
from grouping import grouped
from mutating import new_graph, run


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = new_graph(tmp_path)
    run(graph, 'insert Person { name: "a", age: 1 } insert Person { name: "b", age: 2 }')
    return graph


CHANGES = (
    'insert Person { name: "c", age: 3 }',
    'update Person set { age: 10 } where name = "a"',
    'insert Person { name: "d" } insert Knows { from: "d", to: "a" }',
    'update Person set { age: 11 } where name = "a"',
    'delete Person where name = "b"',
    'insert Knows { from: "a", to: "a" }',
)


def ages(graph: og.Graph, commit: str) -> dict[str, int | None]:
    text = "query q() { match { $p: Person } return { $p.name as n, $p.age as a } }"
    return {row["n"]: row["a"] for row in graph.query(text, snapshot=commit).rows()}


@pytest.fixture
def results(graph: og.Graph) -> list[og.MutationResult]:
    done = grouped(graph._session, [lambda text=text: run(graph, text) for text in CHANGES])  # type: ignore[misc]
    assert all(isinstance(one, og.MutationResult) for one in done), done
    return done


def test_every_commit_of_a_group_can_be_read(graph: og.Graph, results: list[og.MutationResult]) -> None:
    commits = [result.commit_id for result in results]
    opened = og.open_graph(graph.uri)

    history = list(opened.commits())

    assert [commit.id for commit in history[: len(CHANGES)]] == commits[::-1]
    assert len({commit.manifest_version for commit in history[: len(CHANGES)]}) == 1
    assert [ages(opened, str(commit)) for commit in commits] == [
        {"a": 1, "b": 2, "c": 3},
        {"a": 10, "b": 2, "c": 3},
        {"a": 10, "b": 2, "c": 3, "d": None},
        {"a": 11, "b": 2, "c": 3, "d": None},
        {"a": 11, "c": 3, "d": None},
        {"a": 11, "c": 3, "d": None},
    ]
    # Their digests form a chain, and nothing is left of the runs before.
    og.verify_graph(graph.uri)
    assert og.check_graph(graph.uri).findings == ()


def test_the_change_feed_has_each_commit_of_a_group(graph: og.Graph, results: list[og.MutationResult]) -> None:
    first = list(graph.commits())[len(CHANGES)].id

    feed = list(graph.changes(since=first))

    assert [change.commit.id for change in feed] == [result.commit_id for result in results]
    assert [len(list(change.records())) for change in feed] == [1, 1, 2, 1, 1, 1]


def test_a_diff_within_a_group(graph: og.Graph, results: list[og.MutationResult]) -> None:
    diff = graph.diff(str(results[1].commit_id), str(results[3].commit_id))

    assert {row["id"] for changes in diff for row in changes.records()} == {"a", "d", '["d","a"]'}


def test_a_member_that_breaks_a_rule_fails_alone(graph: og.Graph) -> None:
    texts = [f'insert Person {{ name: "{name}", email: "same@" }}' for name in "xy"]

    first, second, third = grouped(
        graph._session,
        [lambda text=text: run(graph, text) for text in (*texts, 'insert Person { name: "z" }')],  # type: ignore[misc]
    )

    assert isinstance(first, og.MutationResult)
    assert isinstance(second, og.ConstraintError)
    assert str(second) == "@unique violation on Person.email: 'same@' is held by 'x' and 'y'"
    assert isinstance(third, og.MutationResult)


def test_a_group_of_a_clone_and_after_optimize(
    graph: og.Graph, results: list[og.MutationResult], tmp_path: Path
) -> None:
    graph.optimize()
    graph.clone(str(tmp_path / "copy"))

    opened = og.open_graph(str(tmp_path / "copy"))

    assert ages(opened, str(results[1].commit_id)) == {"a": 10, "b": 2, "c": 3}
