"""The readable copy of main's schema is the accepted schema, whoever wrote it last."""

from pathlib import Path

import pytest

import omnigraph as og
from mutating import new_graph
from omnigraph.commit.schema_copy import write_schema_copy
from omnigraph.ops import create as create_module

FIRST = "node A { name: String @key }"
SECOND = "node A { name: String @key  n: I32? }"


def read_copy(graph: og.Graph) -> str:
    return (Path(graph.uri) / "_schema.pg").read_text()


def test_a_slow_writer_of_the_copy_leaves_the_newest_schema(tmp_path: Path) -> None:
    graph = new_graph(tmp_path, FIRST)
    before = graph._session.head()
    graph.apply_schema(SECOND)

    write_schema_copy(graph._session.log, before)

    assert read_copy(graph) == SECOND


def test_a_branch_has_no_copy(tmp_path: Path) -> None:
    graph = new_graph(tmp_path, FIRST)
    graph.branches.create("draft")

    graph.apply_schema(SECOND, branch="draft")

    assert read_copy(graph) == FIRST


def test_a_merge_that_changes_the_schema_writes_the_copy(tmp_path: Path) -> None:
    graph = new_graph(tmp_path, FIRST)
    graph.branches.create("draft")
    graph.apply_schema(SECOND, branch="draft")

    graph.merge("draft")

    assert read_copy(graph) == SECOND


def test_an_init_that_comes_second_leaves_the_copy_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = create_module._check_target

    def look_then_lose(store: object) -> set[str]:
        taken = look(store)  # type: ignore[arg-type]
        monkeypatch.setattr(create_module, "_check_target", look)
        new_graph(tmp_path, FIRST)
        return taken

    monkeypatch.setattr(create_module, "_check_target", look_then_lose)
    with pytest.raises(og.PlaceTakenError):
        new_graph(tmp_path, SECOND)

    assert read_copy(og.open_graph(str(tmp_path / "g"))) == FIRST
