"""Algorithms on Spark give what they give in one process."""

import random

import pytest

import omnigraph as og
from load_calls import edge, node
from mutating import new_graph, rows
from omnigraph.errors import QueryError
from omnigraph.ops.graph_algorithms import Algorithms

pytestmark = pytest.mark.usefixtures("spark")

SCHEMA = """
node Person {
  name: String @key
  rank: F64?
}
edge Knows: Person -> Person { cost: F64 }
"""


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    made = new_graph(tmp_path_factory.mktemp("algorithms"), SCHEMA)
    chance = random.Random(7)
    names = [f"p{n:02}" for n in range(14)]
    edges = [(chance.choice(names[:12]), chance.choice(names[:12])) for _ in range(30)]
    people = [node("Person", name=name) for name in chance.sample(names, len(names))]
    made.load([*people, *(edge("Knows", a, b, cost=float(chance.randrange(9))) for a, b in edges)], mode="append")
    return made


def on_both(graph: og.Graph, name: str, *arguments: object, **named: object) -> tuple[list[object], list[object]]:
    """What an algorithm gives here and on Spark."""
    run = getattr(Algorithms, name)
    local, spark = (run(graph.algorithms, "Knows", *arguments, engine=engine, **named) for engine in ("local", "spark"))
    assert (spark.rounds, spark.is_converged) == (local.rounds, local.is_converged)
    assert spark.to_arrow().column("id").equals(local.to_arrow().column("id"))
    return tuple(one.to_arrow().column(1).to_pylist() for one in (local, spark))


def test_ranks_are_equal_but_for_the_order_of_sums(graph: og.Graph) -> None:
    local, spark = on_both(graph, "pagerank", max_rounds=3, tolerance=1e-300)

    assert spark == pytest.approx(local, rel=1e-12)


@pytest.mark.parametrize(
    "name, arguments, named",
    [
        ("connected_components", (), {}),
        ("label_propagation", (), {"max_rounds": 2}),
        ("shortest_paths", ("p00",), {"direction": "both"}),
        ("shortest_paths", ("p00",), {"weight": "cost"}),
        ("triangle_count", (), {}),
    ],
)
def test_values_are_equal(graph: og.Graph, name: str, arguments: tuple[str, ...], named: dict[str, object]) -> None:
    local, spark = on_both(graph, name, *arguments, **named)

    assert spark == local


def test_an_unknown_start_is_told_alike(graph: og.Graph) -> None:
    with pytest.raises(QueryError, match="no node of this id"):
        graph.algorithms.shortest_paths("Knows", "zoe", engine="spark")


def test_ranks_of_spark_become_a_property(graph: og.Graph) -> None:
    found = graph.algorithms.pagerank("Knows", max_rounds=1, into="Person.rank", engine="spark")

    ranks = dict(zip(*found.to_arrow().to_pydict().values(), strict=True))
    assert {one["name"]: one["rank"] for one in rows(graph, "Person", "name", "rank")} == ranks
