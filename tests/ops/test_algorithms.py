"""Algorithms over a graph: of one state, on nodes of one type, and kept as a property in one commit."""

from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph as og
from load_calls import edge, node
from mutating import new_graph, rows, run
from naive_algorithms import naive_components, naive_pagerank, naive_triangles
from omnigraph.errors import BadArgumentError, QueryError
from omnigraph.ops.open_table import TypeMissingError

SCHEMA = """
node Person {
  name: String @key
  rank: F64?
  group: String?
  far: I32?
  place: String @default("here")
}
node Stop {
  label: String?
  reach: F64?
}
node City { name: String @key }
edge Knows: Person -> Person { cost: F64? }
edge Line: Stop -> Stop { minutes: I32 }
edge Lives: Person -> City
"""
NAMES = ["ada", "bob", "cyd", "dan", "eve", "fay"]
EDGES = [(0, 1), (1, 2), (2, 0), (2, 2), (3, 4), (0, 1)]


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    made = new_graph(tmp_path, SCHEMA)
    people = [node("Person", name=name) for name in reversed(NAMES)]
    known = [edge("Knows", NAMES[a], NAMES[b], cost=float(a + b)) for a, b in EDGES]
    stops = [node("Stop", name, label=name) for name in ("s1", "s2", "s3", "s4")]
    lines = [edge("Line", a, b, minutes=m) for a, b, m in (("s1", "s2", 9), ("s1", "s3", 1), ("s3", "s2", 2))]
    made.load([*people, *known, *stops, *lines], mode="append")
    return made


def test_values_come_for_every_node_by_id(graph: og.Graph) -> None:
    found = graph.algorithms.pagerank("Knows", max_rounds=5, tolerance=1e-300)

    assert found.to_arrow().column("id").to_pylist() == NAMES
    ranks = found.to_arrow().column("rank").to_pylist()
    assert ranks == pytest.approx(naive_pagerank(len(NAMES), EDGES, 0.85, 5))
    assert (found.rounds, found.is_converged) == (5, False)


def test_a_component_is_the_smallest_id(graph: og.Graph) -> None:
    found = graph.algorithms.connected_components("knows").to_arrow().column("component").to_pylist()

    assert found == [NAMES[one] for one in naive_components(len(NAMES), EDGES)]


def test_triangles_and_labels(graph: og.Graph) -> None:
    counted = graph.algorithms.triangle_count("Knows").to_arrow().column("triangles").to_pylist()
    labels = graph.algorithms.label_propagation("Knows").to_arrow().column("label").to_pylist()

    assert counted == naive_triangles(len(NAMES), EDGES)
    assert labels[5] == "fay"


def test_paths_count_edges_or_weights_and_none_is_null(graph: og.Graph) -> None:
    edges = graph.algorithms.shortest_paths("Line", "s1").to_arrow().column("distance").to_pylist()
    minutes = graph.algorithms.shortest_paths("Line", "s1", weight="minutes").to_arrow().column("distance").to_pylist()
    back = graph.algorithms.shortest_paths("Line", "s2", direction="in").to_arrow().column("distance").to_pylist()

    assert edges == [0, 1, 1, None]
    assert minutes == [0.0, 3.0, 1.0, None]
    assert back == [1, 0, 1, None]


def test_values_become_a_property_in_one_commit_and_other_values_stay(graph: og.Graph) -> None:
    before = len(graph.commits())

    found = graph.algorithms.connected_components("Knows", into="Person.group", actor="ada")

    assert [one["group"] for one in rows(graph, "Person", "name", "group")] == [
        "ada",
        "ada",
        "ada",
        "dan",
        "dan",
        "fay",
    ]
    assert {one["place"] for one in rows(graph, "Person", "place")} == {"here"}
    assert len(graph.commits()) == before + 1
    assert graph.commits()[0].actor == "ada"
    assert found.written is not None
    assert found.written.nodes["Person"].updated == len(NAMES)


def test_what_is_there_already_makes_no_commit(graph: og.Graph) -> None:
    graph.algorithms.connected_components("Knows", into="Person.group")
    before = graph.commits()[0].id

    graph.algorithms.connected_components("Knows", into="Person.group")

    assert graph.commits()[0].id == before


def test_nodes_without_a_key_are_found_by_their_id(graph: og.Graph) -> None:
    graph.algorithms.shortest_paths("Line", "s1", weight="minutes", into="Stop.reach")

    assert rows(graph, "Stop", "label", "reach") == [
        {"label": "s1", "reach": 0.0},
        {"label": "s2", "reach": 3.0},
        {"label": "s3", "reach": 1.0},
        {"label": "s4", "reach": None},
    ]


def test_values_of_nodes_that_are_gone_bring_nobody_back(graph: og.Graph) -> None:
    then = graph.commits()[0].id
    run(graph, 'delete Person where name = "fay"')

    graph.algorithms.connected_components("Knows", into="Person.group", snapshot=then)

    assert [one["name"] for one in rows(graph, "Person", "name", "group")] == NAMES[:5]


def test_an_older_state_gives_its_own_values(graph: og.Graph) -> None:
    then = graph.commits()[0].id
    run(graph, 'delete Knows where @src = "cyd"')

    assert graph.algorithms.triangle_count("Knows").to_arrow().column("triangles").to_pylist() == [0] * 6
    found = graph.algorithms.triangle_count("Knows", snapshot=then)
    assert found.to_arrow().column("triangles").to_pylist() == naive_triangles(len(NAMES), EDGES)
    assert found.commit_id == then


def test_a_property_that_can_not_have_the_values_is_refused_before_anything_runs(graph: og.Graph) -> None:
    for into in ("Person.name", "Person.group", "Person.nothing", "City.name", "Person"):
        with pytest.raises(QueryError, match="into="):
            graph.algorithms.pagerank("Knows", into=into)
    with pytest.raises(QueryError, match="its values need an F64 or F32, but this is I32"):
        graph.algorithms.pagerank("Knows", into="Person.far")


def test_values_that_do_not_fit_are_told_when_they_are_found(tmp_path: Path) -> None:
    schema = "node N {\n    k: String @key\n    far: I32?\n}\nedge To: N -> N { weight: F64 }"
    graph = og.create_graph(str(tmp_path / "g"), schema)
    edges = pa.table({"from": ["a"], "to": ["b"], "weight": [0.5]})
    graph.load(nodes={"N": pa.table({"k": ["a", "b"]})}, edges={"To": edges}, mode="append")

    with pytest.raises(QueryError, match="can't store every value"):
        graph.algorithms.shortest_paths("To", "a", weight="weight", into="N.far")


def test_wrong_calls_say_what_is_wrong(graph: og.Graph) -> None:
    with pytest.raises(BadArgumentError, match="name one edge type or several"):
        graph.algorithms.pagerank([])
    with pytest.raises(TypeMissingError, match="Knows"):
        graph.algorithms.pagerank("Know")
    with pytest.raises(QueryError, match="no node of this id"):
        graph.algorithms.shortest_paths("Knows", "zoe")
    with pytest.raises(QueryError, match="minutes"):
        graph.algorithms.shortest_paths("Line", "s1", weight="minute")
    with pytest.raises(BadArgumentError, match="out, in, both"):
        graph.algorithms.shortest_paths("Line", "s1", direction="up")
    with pytest.raises(QueryError, match="damping"):
        graph.algorithms.pagerank("Knows", damping=1.0)


def test_edges_without_a_weight_are_counted_in_the_message(graph: og.Graph) -> None:
    run(graph, 'insert Knows { from: "eve", to: "fay" }')

    with pytest.raises(QueryError, match="1 edges of Knows have no weight"):
        graph.algorithms.shortest_paths("Knows", "ada", weight="cost")
