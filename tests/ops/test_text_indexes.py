"""The stored words of large texts, as `indexes` lists them."""

from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.engine.search import column_index, text_upkeep
from omnigraph.ops import indexes, keep_derived
from worlds import runtime

SCHEMA = "node Doc { key: String @key  text: String? @index  note: String? }"


@pytest.fixture
def graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> og.Graph:
    """Thirty documents, which are many here."""
    for module in (column_index, text_upkeep, indexes, keep_derived):
        monkeypatch.setattr(module, "MIN_STORED_ROWS", 20)
    graph = og.create_graph(str(tmp_path / "g"), SCHEMA, runtime=runtime())
    add(graph, 0, 30)
    return graph


def add(graph: og.Graph, first: int, count: int) -> None:
    rows = [{"key": f"d{number}", "text": f"graph {number}", "note": "x"} for number in range(first, first + count)]
    graph.load(nodes={"Doc": rows}, mode="append")


def words(graph: og.Graph) -> list[tuple[str, str, int, int]]:
    listed = [index for index in graph.indexes() if index.kind == "WORDS"]
    return [(index.column, index.state.value, index.covered, index.rows) for index in listed]


def test_words_are_missing_then_complete_then_lag_behind(graph: og.Graph) -> None:
    assert words(graph) == [("text", "missing", 0, 30)]

    graph.optimize()

    assert words(graph) == [("text", "complete", 30, 30)]
    (index,) = [index for index in graph.indexes() if index.kind == "WORDS"]
    assert (index.name, index.segments) == ("text_words", 1)
    stored = [file for file in Path(graph.uri, "_derived").iterdir() if file.name.startswith("text-")]
    assert index.nbytes == pytest.approx(stored[0].stat().st_size, abs=64)
    graph.mutate('query q() { delete Doc where key = "d3" }')
    assert words(graph) == [("text", "complete", 29, 29)]
    add(graph, 30, 4)
    assert words(graph) == [("text", "lagging", 29, 33)]


def test_a_text_without_an_index_is_listed_once_it_was_searched(graph: og.Graph) -> None:
    graph.query('match { $d: Doc search($d.note, "x") } return { count(*) }')
    graph._session.reads.wait_for_workers()

    assert [column for column, *_ in words(graph)] == ["text", "note"]


def test_small_tables_have_no_words(tmp_path: Path) -> None:
    graph = og.create_graph(str(tmp_path / "g"), SCHEMA, runtime=runtime())
    add(graph, 0, 30)

    assert words(graph) == []
