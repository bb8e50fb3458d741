"""Rows that are written one by one: Lance writes the first of each form, and this library all others like it."""

from pathlib import Path
from typing import Any

import lance.fragment
import pytest

import omnigraph as og
from omnigraph.storage import row_writer, staging
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.object_store import StoreFullError
from omnigraph.storage.row_file_codec import OtherFormatError

SCHEMA = """
node Person { name: String @key  age: I32?  tags: [String]? }
node Note { text: String? }
edge Knows: Person -> Person
"""


@pytest.fixture
def by_lance(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of rows of each file that Lance writes for a table."""
    written: list[int] = []
    write_fragments = lance.fragment.write_fragments

    def note(rows: Any, *arguments: Any, **options: Any) -> Any:
        written.append(rows.num_rows)
        return write_fragments(rows, *arguments, **options)

    monkeypatch.setattr(staging, "write_fragments", note)
    return written


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return og.create_graph(str(tmp_path / "g"), SCHEMA)


def add_note(graph: og.Graph, text: str | None) -> None:
    graph.mutate("query q($t: String?) { insert Note { text: $t } }", params={"t": text})


def read_notes(graph: og.Graph) -> list[object]:
    rows = graph.query("query q() { match { $n: Note } return { $n.text as t } order { t } }").rows()
    return [row["t"] for row in rows]


def test_lance_writes_the_first_row_of_each_form(graph: og.Graph, by_lance: list[int]) -> None:
    for text in ("a", "b", None, "c", None):
        add_note(graph, text)

    assert by_lance == [1, 1], "one with a text, one without"
    other = og.open_graph(graph.uri)
    assert sorted(map(str, read_notes(other))) == ["None", "None", "a", "b", "c"]
    assert other.check(deep=True).findings == ()


def test_each_process_compares_for_itself(graph: og.Graph, by_lance: list[int]) -> None:
    add_note(graph, "a")
    other = og.open_graph(graph.uri)

    add_note(other, "b")
    add_note(other, "c")

    assert by_lance == [1, 1]
    assert sorted(map(str, read_notes(graph))) == ["a", "b", "c"]


def test_updates_and_edges_of_one_row_are_written_too(graph: og.Graph, by_lance: list[int]) -> None:
    for name in ("a", "b", "c"):
        graph.mutate("query q($n: String) { insert Person { name: $n, age: 1 } }", params={"n": name})
    by_lance.clear()

    for name in ("a", "b", "c"):
        graph.mutate("query q($n: String) { insert Knows { from: $n, to: $n } }", params={"n": name})

    assert by_lance == [1]
    assert graph.check(deep=True).findings == ()


def test_a_list_is_left_to_lance(graph: og.Graph, by_lance: list[int]) -> None:
    for name in ("a", "b"):
        graph.mutate('query q($n: String) { insert Person { name: $n, tags: ["x", "y"] } }', params={"n": name})

    assert by_lance == [1, 1]


def test_another_format_is_left_to_lance(graph: og.Graph, by_lance: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[object] = []

    def refuse(*arguments: object) -> None:
        compared.append(arguments)
        raise OtherFormatError("other bytes")

    monkeypatch.setattr(row_writer, "learn_layout", refuse)

    for text in ("a", "b", "c"):
        add_note(graph, text)

    assert by_lance == [1, 1, 1]
    assert len(compared) == 1, "not compared again"
    assert sorted(map(str, read_notes(graph))) == ["a", "b", "c"]


def test_after_a_change_of_the_schema_lance_writes_the_first_row(graph: og.Graph, by_lance: list[int]) -> None:
    add_note(graph, "a")
    add_note(graph, "b")
    graph.apply_schema(SCHEMA.replace("text: String?", "text: String?  n: I64?"))
    by_lance.clear()

    add_note(graph, "c")
    add_note(graph, "d")

    assert by_lance == [1]
    assert sorted(map(str, read_notes(og.open_graph(graph.uri)))) == ["a", "b", "c", "d"]


def test_half_of_a_file_is_removed(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    add_note(graph, "a")
    write_file = GraphStorage.write_file

    def fail(store: GraphStorage, path: str, data: bytes) -> None:
        if "/data/" in path:
            write_file(store, path, data[:10])
            raise StoreFullError("write it", "no space")
        write_file(store, path, data)

    monkeypatch.setattr(GraphStorage, "write_file", fail)
    with pytest.raises(StoreFullError):
        add_note(graph, "b")

    monkeypatch.undo()
    assert graph.check().findings == ()
    add_note(graph, "c")
    assert sorted(map(str, read_notes(graph))) == ["a", "c"]
