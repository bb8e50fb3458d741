"""Rows by their positions: the same as a scan's, whatever was deleted, in whichever order they are asked for."""

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import omnigraph as og
from omnigraph.engine.view import View
from omnigraph.storage.lance_table import ADDRESS, LanceTable
from worlds import runtime

SCHEMA = """node Person {
    name: String @key
    n: I64?
    tags: [String]
    place: Vector(2)?
    photo: Blob?
}"""
GONE = ("p1", "p2", "p7", "p20", "p23")
"""Of the first fragment and of the third one; the second has no holes."""
COLUMNS = ("photo", "name", "place", ADDRESS, "tags", "n")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> LanceTable:
    """Three fragments of eight rows each, and a column that came later."""
    graph = og.create_graph(str(tmp_path_factory.mktemp("taking") / "g"), SCHEMA, runtime=runtime())
    for start in (0, 8, 16):
        numbers = range(start, start + 8)
        rows = {
            "name": [f"p{one}" for one in numbers],
            "n": pa.array([None if one % 3 else one for one in numbers], pa.int64()),
            "tags": [["a"] * (one % 4) for one in numbers],
            "place": pa.array([None if one % 5 == 0 else [one, 1.0] for one in numbers], pa.list_(pa.float32(), 2)),
            "photo": pa.array([None if one % 4 == 0 else b"x" * one for one in numbers], pa.large_binary()),
        }
        graph.load(nodes={"Person": pa.table(rows)}, mode="append")
    for name in GONE:
        graph.mutate(f'query q() {{ delete Person where name = "{name}" }}')
    graph.apply_schema(SCHEMA.replace("n: I64?", "n: I64?\n    later: String?"))
    return table_of(graph)


def table_of(graph: og.Graph) -> LanceTable:
    snapshot = graph.snapshot()
    view = View(graph._session.load_catalog(snapshot), graph._session.open_tables(snapshot))
    person = view.catalog.find_type("Person")
    assert person is not None
    return view.get_table(person)


def by_scan(table: LanceTable, positions: list[int], columns: tuple[str, ...]) -> list[dict[str, object]]:
    names = [name for name in columns if name != ADDRESS]
    rows = table.scan(names, with_address=ADDRESS in columns).to_pylist()
    return [rows[position] for position in positions]


@given(positions=st.lists(st.integers(0, 18), max_size=30), columns=st.permutations([*COLUMNS, "later"]))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.parametrize("few", [0, 1_000])
def test_any_rows_in_any_order_are_those_of_a_scan(
    few: int, table: LanceTable, positions: list[int], columns: list[str]
) -> None:
    asked = tuple(columns[:4])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("omnigraph.storage.take_rows.MAX_FRAGMENT_TAKE_ROWS", few)
        patched.setattr("omnigraph.storage.take_rows.MAX_ADDRESSES_PER_SCAN", 4)

        found = table.take(positions, asked)

    assert found.schema.names == list(asked)
    assert found.to_pylist() == by_scan(table, positions, asked)


def test_without_columns_all_come(table: LanceTable) -> None:
    assert table.take([17, 0]).to_pylist() == by_scan(table, [17, 0], tuple(table.schema.names))


def test_a_position_beyond_the_rows_is_refused(table: LanceTable) -> None:
    with pytest.raises(OSError, match="non-existent"):
        table.take([0, 19], ["name"])


def test_a_dataset_is_never_asked_where_rows_were_deleted(table: LanceTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would walk a fragment from its start for each row: a thousand times what the fragment itself takes."""
    asked: list[list[int]] = []
    take = lance.LanceDataset.take

    def noted(dataset: lance.LanceDataset, indices: pa.Array, columns: list[str]) -> pa.Table:
        asked.append(indices.to_pylist())
        return take(dataset, indices, columns)

    monkeypatch.setattr(lance.LanceDataset, "take", noted)
    table.take(np.arange(19)[::-1].tolist(), ["name"])

    assert asked == [list(range(5, 13))]
