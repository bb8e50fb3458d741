"""Where versions of a table differ, and rows at places: the same rows as a whole scan has there."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.engine import changed_ranges
from omnigraph.engine.changed_ranges import concat_positions, find_changed_ranges, read_rows_at
from omnigraph.ops.write_tables import TableWrite, write_tables
from omnigraph.storage.lance_table import LanceTable
from worlds import rows, runtime


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    """Three fragments of 400 rows; of the second, every third row is deleted, of the third a stretch."""
    graph = og.create_graph(str(tmp_path_factory.mktemp("places") / "g"), "node P { v: I64 }", runtime=runtime())
    for part in "abc":
        write(graph, append=rows({f"{part}{number:03}": number for number in range(400)}))
    write(graph, delete=[*(f"b{number:03}" for number in range(0, 400, 3)), *(f"c{n:03}" for n in range(100, 300))])
    return graph


def write(graph: og.Graph, **how: Any) -> None:
    write_tables(graph._session, [TableWrite(table_key="node:P", **how)], operation="w", actor="x")


def table_at(graph: og.Graph, ago: int = 0) -> LanceTable:
    snapshot = graph.snapshot(snapshot=graph.commits()[ago].id)
    pin = snapshot.pins["node:P"]
    return LanceTable(graph._session.handles, pin.path, pin.version)


@pytest.mark.parametrize("gap, runs", [(1_024, 64), (1, 64), (1, 2), (10, 1_000)])
@pytest.mark.parametrize("seed", range(4))
def test_rows_at_places_are_those_of_a_scan_in_the_order_asked_for(
    gap: int, runs: int, seed: int, graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changed_ranges, "RUN_GAP", gap)
    monkeypatch.setattr(changed_ranges, "MAX_RUNS", runs)
    chance = np.random.default_rng(seed)
    table = table_at(graph)
    whole = table.scan(["id", "v"])
    size = int(chance.integers(1, whole.num_rows))
    places = chance.permutation(whole.num_rows)[:size].astype(np.int64)
    if seed == 3:
        places = np.arange(size, dtype=np.int64)

    assert read_rows_at(table, places, ["id", "v"]).equals(whole.take(pa.array(places)))


def test_no_row_is_asked_for(graph: og.Graph) -> None:
    assert read_rows_at(table_at(graph), np.empty(0, np.int64), ["id"]).num_rows == 0


def test_only_what_one_version_has_and_the_other_has_not_may_differ(graph: og.Graph) -> None:
    before, after = table_at(graph, 1), table_at(graph)

    gone, come = (concat_positions(pieces) for pieces in find_changed_ranges(before, after))

    ids = set(read_rows_at(before, gone, ["id"]).column("id").to_pylist())
    assert ids == {*(f"b{number:03}" for number in range(0, 400, 3)), *(f"c{number:03}" for number in range(100, 300))}
    assert len(come) == 0


def test_a_fragment_that_got_columns_differs_where_they_say_something_else(tmp_path: Path) -> None:
    graph = og.create_graph(str(tmp_path / "g"), "node P { v: I64 }", runtime=runtime())
    write(graph, append=rows({f"a{number}": number for number in range(5)}))
    graph.apply_schema("node P { v: I64  x: I64? @default(7) }")
    before, after = table_at(graph, 1), table_at(graph)

    found = [
        [len(concat_positions(pieces)) for pieces in find_changed_ranges(before, after, fills)]
        for fills in (None, {"x": pa.scalar(7, pa.int64())}, {"x": pa.scalar(8, pa.int64())}, {"x": None})
    ]

    assert found == [[5, 5], [0, 0], [5, 5], [5, 5]]
