"""Algorithms on Spark give what they give in one process."""

import random
from typing import Any

import pytest

import omnigraph as og
from load_calls import edge, node
from mutating import new_graph, rows
from omnigraph.errors import QueryError
from omnigraph.ops.graph_algorithms import Algorithms
from omnigraph.spark.algorithms import run_algorithm
from omnigraph.spark.algorithms.rounds import RoundRecord, Rounds
from omnigraph.storage.layout import RECOVERY

pytestmark = pytest.mark.usefixtures("spark")

SCHEMA = """
node Person {
  name: String @key
  rank: F64?
  rounded: I32?
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
    made.load([*people, *(edge("Knows", a, b, cost=chance.randrange(18) / 2) for a, b in edges)], mode="append")
    return made


@pytest.fixture(autouse=True)
def divided(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small networks have several parts, too."""
    monkeypatch.setattr(run_algorithm, "count_parts", lambda *_, **__: 3)


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


def test_a_run_that_dies_is_gone_on_with(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers: list[int] = []
    keep = Rounds._keep

    def die_late(self: Rounds, number: int, *rest: Any) -> RoundRecord:
        numbers.append(number)
        if numbers == [0, 1, 2, 3]:
            raise KeyboardInterrupt
        return keep(self, number, *rest)

    monkeypatch.setattr(Rounds, "_keep", die_late)
    with pytest.raises(KeyboardInterrupt):
        graph.algorithms.pagerank("Knows", max_rounds=5, tolerance=1e-300, engine="spark")
    objects = graph._session.store.objects
    assert objects.list_under(RECOVERY)

    local, spark = on_both(graph, "pagerank", max_rounds=5, tolerance=1e-300)

    assert spark == pytest.approx(local, rel=1e-12)
    # Neither the network nor the rounds before are computed again.
    assert numbers == [0, 1, 2, 3, 3, 4, 5]
    assert not objects.list_under(RECOVERY)


def test_nothing_is_left_of_a_run(graph: og.Graph) -> None:
    graph.algorithms.connected_components("Knows", engine="spark")

    with pytest.raises(QueryError):
        graph.algorithms.shortest_paths("Knows", "nobody", engine="spark")

    assert not graph._session.store.objects.list_under(RECOVERY)


def test_values_are_a_frame(graph: og.Graph) -> None:
    frame = graph.spark.algorithm("shortest_paths", "Knows", start="p00")

    expected = graph.algorithms.shortest_paths("Knows", "p00", engine="local").to_arrow()
    assert frame.columns == ["id", "distance"]
    assert [tuple(row) for row in frame.collect()] == list(zip(*expected.to_pydict().values(), strict=True))
    # Its rows are read from blocks that stay; the same call finds them and computes nothing.
    assert graph._session.store.objects.list_under(RECOVERY)
    for wrong in ("Nobody", "Person"):
        with pytest.raises(og.TypeMissingError):
            graph.spark.algorithm("pagerank", wrong)
    with pytest.raises(QueryError, match="runs in this process only"):
        graph.spark.algorithm("leiden", "Knows")
    with pytest.raises(og.ReadOnlyError):
        og.open_graph(graph.uri, read_only=True).spark.algorithm("connected_components", "Knows")
    for info in graph._session.store.objects.list_under(RECOVERY):
        graph._session.store.objects.delete(info.key)


def test_a_property_that_cannot_store_the_values_is_told(graph: og.Graph) -> None:
    with pytest.raises(QueryError, match="I32 can't store every value"):
        graph.algorithms.shortest_paths("Knows", "p00", weight="cost", into="Person.rounded", engine="spark")


def test_ranks_of_spark_become_a_property(graph: og.Graph) -> None:
    found = graph.algorithms.pagerank("Knows", max_rounds=1, into="Person.rank", engine="spark")

    ranks = dict(zip(*found.to_arrow().to_pydict().values(), strict=True))
    assert {one["name"]: one["rank"] for one in rows(graph, "Person", "name", "rank")} == ranks
