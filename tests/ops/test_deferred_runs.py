"""What would be outdated anyway is done once, in its turn: the run of a mutation, and the deletions of a write."""

import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from grouping import grouped
from mutating import new_graph, run
from omnigraph.ops import mutate, run_notes
from omnigraph.ops.run_notes import RUN_NOTES
from omnigraph.storage.graph_storage import GraphStorage

COUNT = "query count($n: String) { update Person set { age: age + 1 } where name = $n }"
COUNT_ALL = "query q() { match { $p: Person } return { count(*) as c } }"
AGE = 'query q() { match { $p: Person { name: "a" } } return { $p.age as age } }'


@pytest.fixture(autouse=True)
def _none_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """However fast the machine is, only an outdated run is deferred."""
    monkeypatch.setattr(run_notes, "MAX_TURN_SECONDS", -1.0)


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
    session = graph._session
    key = (session.log.store.location.uri, session.log.path, broken, None)
    RUN_NOTES.get().note_outdated(key, {"n": "gone"}, is_outdated=True)

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


def test_deletions_of_writes_that_wait_are_written_once(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the state before its group, a deletion file would be replaced by that of the writer before it."""
    run(graph, " ".join(f'insert Person {{ name: "n{number}", age: 1 }}' for number in range(5)))
    graph.optimize()
    written: list[str] = []
    write_file = GraphStorage.write_file

    def note(store: GraphStorage, path: str, data: bytes) -> None:
        written.append(path)
        write_file(store, path, data)

    monkeypatch.setattr(GraphStorage, "write_file", note)
    calls = [
        count(graph, "n0"),
        lambda: run(graph, 'delete Person where name = "n1"'),
        lambda: run(graph, 'insert Person { name: "n2", age: 7 }'),
        lambda: run(graph, 'insert Person { name: "new", age: 8 }'),
        count(graph, "n3"),
    ]

    done = grouped(graph._session, calls)

    assert [one.affected_nodes for one in done] == [1] * 5
    deletions = [path for path in written if "/_deletions/" in path]
    assert len(deletions) == 4, "of all but the new row"
    assert all(graph._session.store.objects.stat(path) is not None for path in deletions)
    ages = graph.query("query q() { match { $p: Person } return { $p.name as n, $p.age as a } order { n } }").rows()
    assert {row["n"]: row["a"] for row in ages} == {"a": 1, "b": 1, "n0": 2, "n2": 7, "n3": 2, "n4": 1, "new": 8}
    # Each commit has the rows of those before it.
    counts = [graph.query(COUNT_ALL, snapshot=one.commit_id).rows()[0]["c"] for one in done]
    assert counts == [7, 6, 6, 7, 7]


@pytest.mark.parametrize("between", ["nothing", "optimize", "the same row", "gone"])
def test_a_write_that_waited_alone_is_placed_on_what_came_before_it(graph: og.Graph, between: str) -> None:
    run(graph, 'insert Person { name: "c", age: 5 }')
    other = og.open_graph(graph.uri)
    acts: dict[str, Any] = {
        "nothing": lambda: None,
        "optimize": other.optimize,
        "the same row": lambda: run(other, 'update Person set { age: 10 } where name = "a"'),
        "gone": lambda: run(other, 'delete Person where name = "a"'),
    }

    (done,) = grouped(graph._session, [count(graph)], before=acts[between])

    assert done.affected_nodes == (0 if between == "gone" else 1)
    expected = {"the same row": [{"age": 11}], "gone": []}.get(between, [{"age": 2}])
    assert graph.query(AGE).rows() == expected
    assert graph.check().findings == ()


ADD = "query add($n: String) { insert Person { name: $n, age: 1 } }"
ADD_ALL = "query add($n: [String]) { update Person set { age: 5 } where name in $n }"


@pytest.fixture
def all_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine too, a run of few rows is short."""
    monkeypatch.setattr(run_notes, "MAX_TURN_SECONDS", float("inf"))


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The thread of each run."""
    seen: list[int] = []
    evaluate = mutate._Mutation._evaluate

    def note(mutation: Any, head: Any) -> Any:
        seen.append(threading.get_ident())
        return evaluate(mutation, head)

    monkeypatch.setattr(mutate._Mutation, "_evaluate", note)
    return seen


@pytest.mark.usefixtures("all_short")
def test_short_runs_of_different_rows_wait_for_the_thread_that_publishes(graph: og.Graph, threads: list[int]) -> None:
    graph.mutate(ADD, params={"n": "first"})
    threads.clear()

    done = grouped(graph._session, [partial(graph.mutate, ADD, params={"n": f"n{n}"}) for n in range(6)])

    assert len(threads) == 6, "each is run once"
    assert len(set(threads)) == 1
    assert len({one.commit_id for one in done}) == 6
    assert graph.query(COUNT_ALL).rows() == [{"c": 9}]
    # Each commit has the rows of those before it.
    counts = [graph.query(COUNT_ALL, snapshot=one.commit_id).rows()[0]["c"] for one in done]
    assert counts == [4, 5, 6, 7, 8, 9]


@pytest.mark.usefixtures("all_short")
@pytest.mark.parametrize(
    "text, params, is_deferred",
    [
        (ADD, {"n": "x"}, True),
        (COUNT, {"n": "a"}, True),
        (ADD_ALL, {"n": ["a", "b"]}, True),
        (ADD_ALL, {"n": [f"n{n}" for n in range(run_notes.MAX_TURN_KEYS + 1)]}, False),
        (ADD, {"n": "x" * (run_notes.MAX_TURN_LENGTH + 1)}, False),
        ("query q() { update Person set { age: 3 } where age > 0 }", {}, False),
        ('query q() { delete Person where name = "a" }', {}, False),
    ],
)
def test_only_writes_of_few_rows_wait_for_their_turn(
    graph: og.Graph, runs: list[str], text: str, params: dict[str, Any], is_deferred: bool
) -> None:
    graph.mutate(text, params={name: value[:1] for name, value in params.items()})
    runs.clear()
    before: list[int] = []

    grouped(graph._session, [lambda: graph.mutate(text, params=params)], before=lambda: before.append(len(runs)))

    assert before == [0 if is_deferred else 1]


def test_a_run_that_was_long_is_not_deferred(graph: og.Graph, runs: list[str]) -> None:
    graph.mutate(ADD, params={"n": "first"})
    runs.clear()
    before: list[int] = []

    grouped(graph._session, [lambda: graph.mutate(ADD, params={"n": "x"})], before=lambda: before.append(len(runs)))

    assert before == [1]


@pytest.mark.usefixtures("all_short")
def test_errors_of_short_runs_are_their_own(graph: og.Graph) -> None:
    link = "query link($a: String, $b: String) { insert Knows { from: $a, to: $b } }"
    graph.mutate(link, params={"a": "a", "b": "b"})

    def insert(end: str) -> Any:
        return lambda: graph.mutate(link, params={"a": "a", "b": end})

    first, failed, last = grouped(graph._session, [insert("a"), insert("gone"), insert("a")])

    assert isinstance(failed, og.ConstraintError)
    assert (first.affected_edges, last.affected_edges) == (1, 1)
    assert graph.check().findings == ()
