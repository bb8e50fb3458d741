"""A mutation whose run would be outdated anyway is run once, in its turn."""

from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from grouping import grouped
from mutating import new_graph, run
from omnigraph.lang.source import Source
from omnigraph.ops import mutate

COUNT = "query count($n: String) { update Person set { age: age + 1 } where name = $n }"
AGE = 'query q() { match { $p: Person { name: "a" } } return { $p.age as age } }'


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = new_graph(tmp_path)
    run(graph, 'insert Person { name: "a", age: 1 } insert Person { name: "b", age: 1 }')
    return graph


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The parameter of each run."""
    seen: list[str] = []
    evaluate = mutate._Mutation._evaluate

    def note(mutation: Any, head: Any) -> Any:
        seen.append(str(mutation.call.params.get("n")))
        return evaluate(mutation, head)

    monkeypatch.setattr(mutate._Mutation, "_evaluate", note)
    return seen


def count(graph: og.Graph, name: str = "a") -> Any:
    return lambda: graph.mutate(COUNT, params={"n": name})


def test_increments_that_wait_are_run_once(graph: og.Graph, runs: list[str]) -> None:
    grouped(graph._session, [count(graph)] * 4)
    # The first was placed as it was; the three others were run twice.
    assert len(runs) == 4 + 3

    runs.clear()
    done = grouped(graph._session, [count(graph)] * 4)

    assert len(runs) == 4
    assert [one.affected_nodes for one in done] == [1] * 4
    assert graph.query(AGE).rows() == [{"age": 9}]


def test_other_parameters_and_a_lone_writer_are_run_at_once(graph: og.Graph, runs: list[str]) -> None:
    grouped(graph._session, [count(graph)] * 2)
    runs.clear()

    # With `b` before it, the second call is deferred, and the first is not.
    grouped(graph._session, [count(graph, "b"), count(graph)])
    assert runs == ["b", "a"]

    runs.clear()
    count(graph)()
    # It was run at once, and nothing outdated it: the next one is not deferred either.
    grouped(graph._session, [count(graph, "b"), count(graph)])
    assert runs == ["a", "b", "a"]
    assert graph.query(AGE).rows() == [{"age": 6}]


def test_an_error_of_a_deferred_run_is_its_own(graph: og.Graph) -> None:
    broken = "query q($n: String) { insert Knows { from: $n, to: $n } }"
    mutate.OUTDATED_RUNS.note(
        graph._session.log,
        mutate.MutationCall(source=Source(broken, "query.gq"), name=None, params={"n": "gone"}, actor="x"),
    )

    def insert() -> object:
        return graph.mutate(broken, params={"n": "gone"})

    first, failed, last = grouped(graph._session, [count(graph, "b"), insert, count(graph, "b")])

    assert isinstance(failed, og.ConstraintError)
    assert (first.affected_nodes, last.affected_nodes) == (1, 1)


def test_a_deferred_run_that_changes_nothing_makes_no_commit(graph: og.Graph) -> None:
    grouped(graph._session, [count(graph)] * 2)
    run(graph, 'delete Person where name = "a"')
    before = graph.snapshot().commit.id

    done = grouped(graph._session, [count(graph)] * 2)

    assert [one.commit_id for one in done] == [None, None]
    assert graph.snapshot().commit.id == before
