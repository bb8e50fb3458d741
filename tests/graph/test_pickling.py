"""What can be handed to another process: a result with its rows; a graph only by its address."""

import pickle
from pathlib import Path

import pytest

import omnigraph as og

SCHEMA = "node Person { name: String @key  age: I32? }"
ALL = "query everybody() { match { $p: Person } return { $p.name, $p.age, $p } order { $p.name } }"


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    made = og.create_graph(str(tmp_path / "g.omni"), SCHEMA)
    made.mutate('query add() { insert Person { name: "Ada", age: 36 } insert Person { name: "Bob" } }')
    return made


def test_a_result_is_pickled_with_its_rows(graph: og.Graph) -> None:
    result = graph.query(ALL)

    copy = pickle.loads(pickle.dumps(result))  # noqa: S301 - our own bytes

    assert copy.rows() == result.rows()
    assert copy.to_json() == result.to_json()
    assert repr(copy) == repr(result)
    assert (len(copy), copy.schema) == (2, result.schema)
    assert [batch.num_rows for batch in copy.batches(1)] == [1, 1]


def test_a_result_without_rows_is_pickled_with_its_columns(graph: og.Graph) -> None:
    result = graph.query('query nobody() { match { $p: Person { name: "Eve" } } return { $p.name, $p.age } }')

    copy = pickle.loads(pickle.dumps(result))  # noqa: S301 - our own bytes

    assert copy.rows() == []
    assert copy.columns == ("p.name", "p.age")
    assert copy.schema == result.schema


def test_a_graph_says_how_another_process_gets_it(graph: og.Graph) -> None:
    with pytest.raises(TypeError, match=r"pass its `uri` .*g\.omni.*open_graph"):
        pickle.dumps(graph)
