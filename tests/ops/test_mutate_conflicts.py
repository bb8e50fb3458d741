"""Two writers at once: the second one stages on a state that the first one then changes."""

from collections.abc import Callable
from pathlib import Path

import pytest

import omnigraph as og
from mutating import column, new_graph, people, rows, run
from omnigraph.commit.manifest_log import Head
from omnigraph.ops.session import Session
from worlds import runtime


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = new_graph(tmp_path)
    run(graph, 'insert Person { name: "a", age: 1 } insert Person { name: "b", age: 2 } insert City { name: "Rome" }')
    return graph


def after(graph: og.Graph, first: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> og.Graph:
    """Another handle, whose next mutation reads the state before `first` and publishes after it."""
    other = og.open_graph(graph.uri, runtime=runtime())
    stale = other._session.head()
    first()
    fresh = Session.head
    waiting = [stale]

    def head(session: Session) -> Head:
        return waiting.pop() if session.log is other._session.log and waiting else fresh(session)

    monkeypatch.setattr(Session, "head", head)
    monkeypatch.setattr(Session, "cached_head", head)
    return other


def race(graph: og.Graph, first: str, second: str, monkeypatch: pytest.MonkeyPatch, **params: object) -> object:
    """What the second of two mutations answers, or the error that it meets."""
    other = after(graph, lambda: run(graph, first, **params), monkeypatch)
    try:
        return run(other, second, **params)
    except og.OmnigraphError as error:
        return error


def test_two_inserts_of_other_keys_both_stay(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    result = race(graph, 'insert Person { name: "c" }', 'insert Person { name: "d" }', monkeypatch)

    assert isinstance(result, og.MutationResult)
    assert column(graph, "Person", "id") == ["a", "b", "c", "d"]


def test_the_later_of_two_upserts_of_one_key_wins(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    result = race(graph, 'insert Person { name: "c", age: 1 }', 'insert Person { name: "c", age: 2 }', monkeypatch)

    assert isinstance(result, og.MutationResult)
    assert column(graph, "Person", "age") == [1, 2, 2]


def test_a_unique_value_is_given_once(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (f'insert Person {{ name: "{name}", email: "x@" }}' for name in "cd")

    result = race(graph, first, second, monkeypatch)

    assert isinstance(result, og.ConstraintError)
    assert str(result) == "@unique violation on Person.email: 'x@' is held by 'c' and 'd'"
    assert column(graph, "Person", "id") == ["a", "b", "c"]


@pytest.mark.parametrize("there, new", [("0.0", "-0.0"), ("-0.0", "0.0")])
def test_a_unique_float_is_given_once(graph: og.Graph, there: str, new: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = f'insert Person {{ name: "c", score: {there} }}'
    second = f'update Person set {{ score: {new} }} where name = "a"'  # noqa: S608 - no SQL

    result = race(graph, first, second, monkeypatch)

    assert isinstance(result, og.ConstraintError)
    assert "@unique violation on Person.score" in str(result)


def test_an_edge_to_a_node_that_went_is_refused(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    result = race(graph, 'delete Person where name = "b"', 'insert Knows { from: "a", to: "b" }', monkeypatch)

    assert isinstance(result, og.ConstraintError)
    assert str(result) == "Knows.to: no Person 'b'"
    assert rows(graph, "Knows") == []


@pytest.mark.parametrize("edge", ['from: "a", to: "b"', 'from: "b", to: "a"'])
def test_a_node_that_got_an_edge_is_deleted_with_it(
    graph: og.Graph, edge: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = race(graph, f"insert Knows {{ {edge} }}", 'delete Person where name = "b"', monkeypatch)

    assert isinstance(result, og.MutationResult)
    assert (result.affected_nodes, result.affected_edges) == (1, 1)
    assert rows(graph, "Knows") == []


def test_two_writers_together_stay_below_the_most_edges(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    text = 'query q($c: String) { insert WorksAt { from: "a", to: $c } }'

    result = race(graph, text, text, monkeypatch, c=column(graph, "City", "id")[0])

    assert isinstance(result, og.ConstraintError)
    assert str(result) == "@card violation on WorksAt: 'a' has 2 edges (max 1)"


def test_two_writers_together_leave_the_least_edges(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    run(
        graph,
        'insert Team { name: "t" } insert Leads { from: "t", to: "a" } insert Leads { from: "t", to: "b" }',
    )

    result = race(graph, 'delete Leads where to = "a"', 'delete Leads where to = "b"', monkeypatch)

    assert isinstance(result, og.ConstraintError)
    assert column(graph, "Leads", "dst") == ["b"]


@pytest.mark.parametrize("second", ["update Person set { age: 7 }", "delete Person"])
@pytest.mark.parametrize(
    "first",
    [
        'update Person set { score: 1.0 } where name = "a"',
        'insert Person { name: "a", score: 1.0 }',
        'delete Person where name = "a"',
    ],
)
def test_a_mutation_whose_row_was_changed_meanwhile_is_run_again(
    graph: og.Graph, first: str, second: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = race(graph, first, f'{second} where name = "a"', monkeypatch)

    assert isinstance(result, og.MutationResult)
    is_gone = first.startswith("delete")
    assert result.affected_nodes == (0 if is_gone else 1)
    assert (result.commit_id is None) == is_gone
    is_left = not is_gone and not second.startswith("delete")
    assert column(graph, "Person", "age") == ([7, 2] if is_left else [2])
    assert column(graph, "Person", "score") == ([1.0, None] if is_left else [None])


def test_changes_of_other_rows_both_stay(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (f'update Person set {{ age: 7 }} where name = "{name}"' for name in "ab")  # noqa: S608 - no SQL

    result = race(graph, first, second, monkeypatch)

    assert isinstance(result, og.MutationResult)
    assert column(graph, "Person", "age") == [7, 7]


def test_a_new_row_that_the_predicate_chooses_is_changed_too(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    second = 'update Person set { mood: "sad" } where age < 50'

    result = race(graph, 'insert Person { name: "c", age: 3 }', second, monkeypatch)

    assert isinstance(result, og.MutationResult)
    assert result.affected_nodes == 3


def test_a_new_row_that_the_predicate_does_not_choose_is_none(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    second = 'update Person set { mood: "sad" } where age < 50'

    result = race(graph, 'insert Person { name: "c", age: 77 }', second, monkeypatch)

    assert isinstance(result, og.MutationResult)
    assert column(graph, "Person", "mood") == ["sad", "sad", "glad"]


def test_a_counted_edge_that_was_replaced_meanwhile_is_counted_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "h").mkdir()
    graph = new_graph(
        tmp_path / "h", "node P { n: String @key }\nedge E: P -> P @card(0..1) { w: I32?  @key(src, dst) }"
    )
    run(graph, 'insert P { n: "a" } insert P { n: "b" } insert E { from: "a", to: "b" }')

    def replace_it() -> None:
        run(graph, 'delete E where from = "a"')
        run(graph, 'insert E { from: "a", to: "a" }')

    other = after(graph, replace_it, monkeypatch)
    with pytest.raises(og.ConstraintError, match="'a' has 2 edges"):
        run(other, 'insert E { from: "a", to: "b", w: 1 }')

    assert column(graph, "E", "dst") == ["a"]


def test_if_commit_is_not_tried_again(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    head = graph.snapshot().commit.id
    other = after(graph, lambda: people(graph, "z"), monkeypatch)

    with pytest.raises(og.ConflictError, match="the branch has moved on"):
        other.mutate('query q() { insert City { name: "Oslo" } }', if_commit=head)


def test_the_same_call_twice_at_once_is_one_commit(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    text = 'query q() { update Person set { age: 7 } where name = "a" }'
    first: list[og.MutationResult] = []
    other = after(graph, lambda: first.append(graph.mutate(text, idempotency_key="k")), monkeypatch)

    second = other.mutate(text, idempotency_key="k")

    assert [second] == first
