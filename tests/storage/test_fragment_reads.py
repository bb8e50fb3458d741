"""Reading some fragments of a table reads those, and no others."""

from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.engine.view import View
from omnigraph.storage.lance_table import LanceTable
from worlds import runtime


@pytest.fixture
def table(tmp_path: Path) -> LanceTable:
    """Three fragments of two rows each."""
    graph = og.create_graph(str(tmp_path / "g"), "node Person { name: String @key }", runtime=runtime())
    for names in (["a", "b"], ["c", "d"], ["e", "f"]):
        graph.load(nodes={"Person": pa.table({"name": names})}, mode="append")
    session = graph._session
    snapshot = graph.snapshot()
    view = View(session.load_catalog(snapshot), session.open_tables(snapshot))
    found = view.catalog.find_type("Person")
    assert found is not None
    return view.get_table(found)


def names(table: LanceTable, fragments: list[int] | None) -> list[str]:
    return [name for batch in table.iter_batches(["name"], fragments=fragments) for name in batch.column(0).to_pylist()]


@pytest.mark.parametrize(
    "fragments, found",
    [(None, "abcdef"), ([0], "ab"), ([1], "cd"), ([0, 2], "abef"), ([], "")],
    ids=str,
)
def test_batches_are_of_these_fragments(table: LanceTable, fragments: list[int] | None, found: str) -> None:
    assert "".join(names(table, fragments)) == found
