"""Rows that were fetched once are not fetched again, within the room that the cache has."""

from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import omnigraph as og
from omnigraph.engine.tables.content_cache import ContentCache
from omnigraph.engine.tables.taken_rows import MAX_KEPT_ROWS, take_cached
from omnigraph.storage.lance_table import LanceTable

KEY = ("column", "rows")


class Column:
    """A column of texts that notes which rows were read."""

    def __init__(self) -> None:
        self.read: list[int] = []

    def fetch(self, at: NDArray[np.int64]) -> pa.Array:
        assert (np.diff(at) > 0).all()
        self.read += at.tolist()
        return pa.array([f"row {row}" for row in at])


def test_each_row_is_read_once_whatever_is_asked() -> None:
    random = np.random.default_rng(5)
    column, cache = Column(), ContentCache(1 << 24)

    for _ in range(50):
        at = random.integers(0, 300, random.integers(0, 40))
        assert take_cached(cache, KEY, at, column.fetch).to_pylist() == [f"row {row}" for row in at]

    assert len(column.read) == len(set(column.read))


def test_no_more_rows_are_kept_than_may_be() -> None:
    column, cache = Column(), ContentCache(1 << 30)

    for start in range(0, 3 * MAX_KEPT_ROWS, MAX_KEPT_ROWS // 2):
        take_cached(cache, KEY, np.arange(start, start + MAX_KEPT_ROWS // 2), column.fetch)
    read = len(column.read)
    take_cached(cache, KEY, np.arange(start, start + 10), column.fetch)

    assert len(column.read) == read
    assert cache.get_stats().nbytes < 40 * MAX_KEPT_ROWS


def test_a_small_cache_keeps_none() -> None:
    column, cache = Column(), ContentCache(64)

    for _ in range(2):
        take_cached(cache, KEY, np.arange(10), column.fetch)

    assert len(column.read) == 20
    assert cache.get_stats().nbytes == 0


def test_a_question_that_is_repeated_fetches_nothing(tmp_path: Path) -> None:
    graph = og.create_graph(str(tmp_path / "graph"), "node P { k: String @key  text: String }")
    rows = pa.table({"k": [f"k{number}" for number in range(5_000)], "text": [f"text {n}" for n in range(5_000)]})
    graph.load(nodes={"P": rows}, mode="append")
    fetched: list[int] = []
    take = LanceTable.take

    def note(self: LanceTable, positions: pa.Array, columns: list[str]) -> pa.Table:
        fetched.append(len(positions))
        return take(self, positions, columns)

    query = 'query q() { match { $p: P  $p.k in ["k17", "k4000"] } return { $p.text as t } order { t asc } }'
    with (
        patch("omnigraph.engine.tables.column_residency._LIGHT_BYTES", 0),
        patch("omnigraph.engine.tables.column_residency._TAKE_COST", 0),
        patch("omnigraph.engine.tables.column_residency._TAKEN_ROW_COST", 0),
        patch.object(LanceTable, "take", note),
    ):
        answers = [graph.query(query).rows() for _ in range(2)]

    assert answers == [[{"t": "text 17"}, {"t": "text 4000"}]] * 2
    assert fetched
    assert sum(fetched) <= 2 * 2
