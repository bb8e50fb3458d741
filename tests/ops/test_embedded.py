"""A vector that is computed from a text never outlives it."""

from pathlib import Path

import pytest

import omnigraph as og
from mutating import new_graph, rows, run

SCHEMA = """
node Doc {
  name: String @key
  text: String?
  note: String?
  vec: Vector(2)? @embed("text")
  other: Vector(2)? @embed("note")
}
node Fact { name: String @key  text: String  vec: Vector(2) @embed("text") }
"""


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    """A graph with two documents that have their vectors."""
    graph = new_graph(tmp_path, SCHEMA)
    run(
        graph,
        'insert Doc { name: "a", text: "old", note: "n", vec: [1.0, 2.0], other: [3.0, 4.0] }'
        ' insert Doc { name: "b", text: "new", note: "n", vec: [5.0, 6.0], other: [7.0, 8.0] }'
        ' insert Fact { name: "f", text: "old", vec: [1.0, 2.0] }',
    )
    return graph


def vectors(graph: og.Graph, name: str = "vec") -> dict[str, list[float] | None]:
    return {row["id"]: row[name] for row in rows(graph, "Doc", "id", name)}


def test_a_changed_text_leaves_no_vector(graph: og.Graph) -> None:
    run(graph, 'update Doc set { text: "new" } where name = "a"')

    assert vectors(graph) == {"a": None, "b": [5.0, 6.0]}


def test_only_rows_whose_text_is_another_lose_their_vector(graph: og.Graph) -> None:
    run(graph, 'update Doc set { text: "new" } where name != "z"')

    assert vectors(graph) == {"a": None, "b": [5.0, 6.0]}


def test_vectors_of_other_texts_stay(graph: og.Graph) -> None:
    run(graph, 'update Doc set { text: "new" } where name = "a"')

    assert vectors(graph, "other") == {"a": [3.0, 4.0], "b": [7.0, 8.0]}


def test_a_text_that_is_cleared_leaves_no_vector(graph: og.Graph) -> None:
    run(graph, 'update Doc set { text: null } where name = "a"')

    assert vectors(graph)["a"] is None


def test_an_update_of_something_else_keeps_the_vector(graph: og.Graph) -> None:
    run(graph, 'update Doc set { note: "m" } where name = "a"')

    assert vectors(graph)["a"] == [1.0, 2.0]


def test_a_vector_that_is_given_with_its_text_is_taken(graph: og.Graph) -> None:
    run(graph, 'update Doc set { text: "new", vec: [9.0, 9.0] } where name = "a"')

    assert vectors(graph)["a"] == [9.0, 9.0]


def test_a_later_statement_counts_by_itself(graph: og.Graph) -> None:
    run(graph, 'update Doc set { vec: [9.0, 9.0] } where name = "a" update Doc set { text: "new" } where name = "a"')

    assert vectors(graph)["a"] is None


def test_an_insert_of_the_same_key_is_a_whole_row(graph: og.Graph) -> None:
    run(graph, 'insert Doc { name: "a", text: "new" }')

    assert vectors(graph)["a"] is None


WAY_OUT = (
    r"Fact.vec is required, but '%s' has none; give it together with `text`, or declare it nullable \(`Vector\(2\)\?`\)"
    r" and let `omnigraph embed --type Fact` compute it"
)


def test_a_required_vector_keeps_its_text_from_being_changed_alone(graph: og.Graph) -> None:
    with pytest.raises(og.ConstraintError, match=WAY_OUT % "f"):
        run(graph, 'update Fact set { text: "new" } where name = "f"')


def test_a_required_vector_can_be_changed_with_its_text(graph: og.Graph) -> None:
    run(graph, 'update Fact set { text: "new", vec: [0.0, 0.0] } where name = "f"')

    assert rows(graph, "Fact", "text", "vec") == [{"text": "new", "vec": [0.0, 0.0]}]


def test_an_insert_without_its_required_vector_is_told_the_way_out(graph: og.Graph) -> None:
    with pytest.raises(og.ConstraintError, match=WAY_OUT % "g"):
        run(graph, 'insert Fact { name: "g", text: "new" }')
