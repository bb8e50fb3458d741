"""Algorithms over several edge types, by name, with weights, written back; equal edges give equal bits."""

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from load_calls import edge, node
from mutating import new_graph, rows
from omnigraph.cli.main import main
from omnigraph.errors import QueryError

SCHEMA = """
node Person { name: String @key  rank: F64?  group: String? }
node City { name: String @key  rank: F64? }
edge Knows: Person -> Person { cost: F64? }
edge Lives: Person -> City { cost: F64? }
edge Road: City -> City { cost: F64? }
"""
PEOPLE = [node("Person", name=name) for name in ("ada", "bob", "cyd")]
CITIES = [node("City", name=name) for name in ("ada", "rom")]
EDGES = [
    edge("Knows", "ada", "bob", cost=0.1),
    edge("Knows", "bob", "cyd", cost=0.2),
    edge("Lives", "bob", "rom", cost=0.3),
    edge("Lives", "cyd", "ada", cost=0.7),
    edge("Road", "rom", "ada", cost=1.1),
]
ALL = ["Knows", "Lives", "Road"]


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    made = new_graph(tmp_path, SCHEMA)
    made.load([*PEOPLE, *CITIES, *EDGES], mode="append")
    return made


def test_nodes_of_several_types_are_told_apart(graph: og.Graph) -> None:
    found = graph.algorithms.shortest_paths(ALL, "Person/ada", weight="cost").to_arrow().to_pylist()

    distances = {(row["type"], row["id"]): row["distance"] for row in found}
    assert distances == pytest.approx(
        {
            ("Person", "ada"): 0.0,
            ("Person", "bob"): 0.1,
            ("Person", "cyd"): 0.3,
            ("City", "ada"): 1.0,
            ("City", "rom"): 0.4,
        }
    )


def test_a_start_without_its_type_says_how_to_write_it(graph: og.Graph) -> None:
    with pytest.raises(QueryError, match="write type and id, such as Person/ada"):
        graph.algorithms.shortest_paths(ALL, "ada")


def test_values_are_written_to_the_nodes_of_one_type(graph: og.Graph) -> None:
    result = graph.algorithms.pagerank(ALL, into="City.rank")

    ranks = {row["id"]: row["rank"] for row in result.to_arrow().to_pylist() if row["type"] == "City"}
    assert {row["name"]: row["rank"] for row in rows(graph, "City", "name", "rank")} == ranks
    assert {row["rank"] for row in rows(graph, "Person", "name", "rank")} == {None}


def test_a_component_over_several_types_has_its_type(graph: og.Graph) -> None:
    graph.algorithms.run("connected_components", ALL, into="Person.group")

    assert {row["group"] for row in rows(graph, "Person", "name", "group")} == {"Person/ada"}


def test_an_order_is_refused_by_naming_a_cycle(graph: og.Graph) -> None:
    assert graph.algorithms.topological_order(ALL).to_arrow().num_rows == 5
    graph.load([edge("Road", "ada", "rom", cost=1.0)], mode="append")

    with pytest.raises(QueryError, match="City/ada -> City/rom -> City/ada is a cycle") as refused:
        graph.algorithms.topological_order(ALL)
    assert refused.value.facts()["cycle"] == ["City/ada", "City/rom"]


@pytest.mark.parametrize(
    "name, parameters, message",
    [
        ("pagerang", {}, "did you mean `pagerank`"),
        ("nothing_like_it", {}, "there are pagerank, betweenness"),
        ("pagerank", {"dumping": 0.5}, "it takes damping, tolerance, max_rounds, weight"),
        ("pagerank", {"damping": "much"}, "damping=much"),
        ("pagerank", {"damping": "1.5"}, "between 0 and 1"),
        ("pagerank", {"damping": "nan"}, "between 0 and 1"),
        ("leiden", {"resolution": "-1"}, "above 0"),
        ("leiden", {"seed": "x"}, "seed=x"),
        ("betweenness", {"samples": "0"}, "samples"),
        ("betweenness", {"direction": "up"}, "direction=up"),
        ("node_similarity", {"top": "0"}, "top"),
        ("shortest_paths", {}, "start"),
        ("shortest_paths", {"start": "Person/zoe"}, "no node of this id"),
        ("leiden", {"weight": "kost"}, "did you mean `cost`"),
    ],
)
def test_bad_parameters_are_refused_and_nothing_is_written(
    graph: og.Graph, name: str, parameters: dict[str, object], message: str
) -> None:
    head = graph.snapshot().commit.id

    with pytest.raises(QueryError, match=message):
        graph.algorithms.run(name, ALL, parameters, into="Person.rank" if name == "pagerank" else None)

    assert graph.snapshot().commit.id == head


def test_the_command_prints_and_writes(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    words = [graph.uri, "--edge", "Knows", "--edge", "Road", "--into", "Person.rank", "--param", "weight=cost"]

    assert main(["algorithm", "pagerank", *words, "--format", "csv"]) == 0

    shown = capsys.readouterr()
    assert shown.out.startswith('"type","id","rank"\n"Person","ada",')
    assert "3 nodes changed: commit " in shown.err
    assert None not in {row["rank"] for row in rows(graph, "Person", "name", "rank")}
    assert main(["algorithm", "pagerank", graph.uri]) == 2
    assert main(["algorithm", "pagerank", graph.uri, "--edge", "Knows", "--param", "damping"]) == 2


# --- equal edges give equal bits ---------------------------------------------------------------------------

RUNS: list[tuple[str, dict[str, Any]]] = [
    ("pagerank", {"weight": "cost"}),
    ("betweenness", {"weight": "cost", "direction": "both"}),
    ("betweenness", {"samples": 20, "seed": 4}),
    ("leiden", {"weight": "cost", "seed": 3}),
    ("label_propagation", {"weight": "cost"}),
    ("node_similarity", {"weight": "cost", "top": 3}),
    ("shortest_paths", {"weight": "cost", "start": "p007"}),
]


def build_crowd(place: Path, seed: int, batches: int) -> og.Graph:
    """One graph of 60 people, whose rows are written in an order of their own, some of them twice."""
    facts, order = random.Random(1), random.Random(seed)
    names = [f"p{number:03}" for number in range(60)]
    edges = [(facts.choice(names), facts.choice(names), facts.random() + 0.1) for _ in range(400)]
    order.shuffle(edges)
    order.shuffle(names)
    place.mkdir()
    graph = new_graph(place, SCHEMA)
    graph.load(nodes={"Person": pa.table({"name": names})}, mode="append")
    for batch in range(batches):
        part = edges[batch::batches]
        columns = {"from": [a for a, _, _ in part], "to": [b for _, b, _ in part], "cost": [c for _, _, c in part]}
        graph.load(edges={"Knows": pa.table(columns)}, mode="append")
    return graph


def test_the_history_of_a_graph_does_not_change_a_bit(tmp_path: Path) -> None:
    first = build_crowd(tmp_path / "one", 1, batches=1)
    second = build_crowd(tmp_path / "two", 2, batches=5)
    second.optimize()

    for name, parameters in RUNS:
        found = [graph.algorithms.run(name, "Knows", parameters).to_arrow() for graph in (first, second)]
        assert found[0].equals(found[1]), name
