"""Ids that a load makes itself are nobody else's: committed ids are not read for them."""

from pathlib import Path

import pytest

import omnigraph as og
from load_calls import edge, loaded, node
from omnigraph.engine.bulk import id_checks
from omnigraph.schema.arrow import ID
from omnigraph.spark.load.key_shuffle import KeyRules, KeyShufflePlan
from omnigraph.storage import key_lookup
from worlds import runtime

SCHEMA = "node Person { name: String @key }\nedge Saw: Person -> Person"


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.create_graph(str(tmp_path / "g"), SCHEMA, runtime=runtime())
    loaded(graph, "append", node("Person", name="a"), edge("Saw", "a", "a"))
    return graph


def looked_up(graph: og.Graph, monkeypatch: pytest.MonkeyPatch, *records: object) -> list[str]:
    """The tables whose committed ids a load asks for."""
    asked: list[str] = []
    look = key_lookup.find_existing

    def watched(table: object, *rest: object) -> object:
        asked.append(repr(table).partition("/")[0])
        return look(table, *rest)  # type: ignore[arg-type] # what it was called with

    monkeypatch.setattr(id_checks, "find_existing", watched)
    loaded(graph, "append", *records)  # type: ignore[arg-type] # records
    return asked


def test_made_ids_are_not_looked_up(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = looked_up(graph, monkeypatch, edge("Saw", "a", "a"), edge("Saw", "a", "a"))

    assert asked == []
    assert graph.table("Saw").count_rows() == 3


def test_one_given_id_is_looked_up_with_all_others(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = looked_up(graph, monkeypatch, edge("Saw", "a", "a"), edge("Saw", "a", "a", "mine"))

    assert asked == ["Table('edges"]


def test_the_ledger_of_a_spark_load_does_not_read_them_either(graph: og.Graph) -> None:
    catalog = graph._session.load_catalog(graph.snapshot())
    rules = KeyRules(loaded=frozenset({"Saw"}), replaced=frozenset(), is_append=True, generated=frozenset({"Saw"}))

    needed = KeyShufflePlan(catalog, rules).plan().committed

    assert needed == {"Person": {ID}}
