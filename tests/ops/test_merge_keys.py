"""A merge or revert that is sent again with its idempotency key happens once, and tells the commit that it made."""

from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.commit.idempotency import KeyReusedError
from worlds import runtime

SCHEMA = "node Person { name: String @key  age: I64? }\n"
AGED = 'query q($a: I64) { update Person set { age: $a } where name = "Ada" }'


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    made = og.create_graph(str(tmp_path / "g"), SCHEMA, runtime=runtime())
    made.mutate('query q() { insert Person { name: "Ada" } }')
    made.branches.create("review")
    made.mutate(AGED, params={"a": 1}, branch="review")
    made.mutate('query q() { insert Person { name: "Bob" } }')
    return made


def test_a_repeated_merge_returns_the_commit_of_the_first(graph: og.Graph) -> None:
    first = graph.merge("review", idempotency_key="k")
    graph.mutate(AGED, params={"a": 2})
    graph.mutate(AGED, params={"a": 3}, branch="review")

    again = graph.merge("review", idempotency_key="k")

    assert (first.outcome.value, again.outcome.value) == ("merged", "already_up_to_date")
    assert (again.commit_id, again.into_commit) == (first.commit_id, first.into_commit)
    assert graph.query('match { $p: Person { name: "Ada" } } return { $p.age }').rows() == [{"p.age": 2}]


def test_a_repeated_fast_forward_does_too(graph: og.Graph) -> None:
    graph.branches.create("other", from_="review")
    graph.mutate(AGED, params={"a": 5}, branch="other")

    commits = [graph.merge("other", into="review", idempotency_key="k").commit_id for _ in range(2)]

    assert commits[0] is not None
    assert commits[0] == commits[1]


def test_a_repeated_revert_does_not_undo_itself(graph: og.Graph) -> None:
    commit = graph.mutate(AGED, params={"a": 7}).commit_id
    assert commit is not None

    first = graph.revert(commit, idempotency_key="k")
    graph.mutate(AGED, params={"a": 7})
    again = graph.revert(commit, idempotency_key="k")

    assert first.commit_id == again.commit_id
    assert graph.query('match { $p: Person { name: "Ada" } } return { $p.age }').rows() == [{"p.age": 7}]


def test_a_key_is_for_one_request(graph: og.Graph) -> None:
    graph.merge("review", idempotency_key="k")

    with pytest.raises(KeyReusedError):
        graph.merge("review", idempotency_key="k", strategy="ours")
    with pytest.raises(KeyReusedError):
        graph.mutate(AGED, params={"a": 1}, idempotency_key="k")


def test_a_dry_run_ignores_the_key(graph: og.Graph) -> None:
    graph.merge("review", idempotency_key="k", dry_run=True)

    assert graph.merge("review", idempotency_key="k").outcome.value == "merged"
    assert graph.merge("review", idempotency_key="k", dry_run=True).commit_id is None
