"""A load and an optimization leave the topologies of large edge types for the next process."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.engine.tables import graph_cache
from omnigraph.ops import keep_derived

SCHEMA = "node P { k: String @key }\nedge Knows: P -> P\nedge Likes: P -> P"
COUNT = "query q() { match { $a: P  $a knows $b } return { count(*) as n } }"
PEOPLE = 300


@pytest.fixture(autouse=True)
def few_edges_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (graph_cache, keep_derived):
        monkeypatch.setattr(module, "MIN_DERIVED_EDGES", 1_000)


def edges(count: int, seed: int) -> pa.Table:
    random = np.random.default_rng(seed)
    return pa.table({end: [f"k{n}" for n in random.integers(0, PEOPLE, count)] for end in ("from", "to")})


def made(path: Path, knows: int, *, keep_derived: bool | None = None) -> og.Graph:
    graph = og.create_graph(str(path), SCHEMA)
    if keep_derived is not None:
        graph = og.open_graph(str(path), keep_derived=keep_derived)
    people = pa.table({"k": [f"k{number}" for number in range(PEOPLE)]})
    graph.load(nodes={"P": people}, edges={"Knows": edges(knows, 1), "Likes": edges(10, 2)}, mode="append")
    graph._session.reads.wait_for_workers()
    return graph


def kept(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.glob("_derived/topology-*")}


def ask_without_building(path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(graph_cache, "resolve_endpoints", lambda *_: pytest.fail("it was built again"))
    rows = og.open_graph(str(path), read_only=True).query(COUNT).rows()
    monkeypatch.undo()
    found: int = rows[0]["n"]
    return found


def test_a_load_leaves_what_the_first_question_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(tmp_path / "g", 2_000)

    assert len(kept(tmp_path / "g")) == 1
    monkeypatch.setattr(graph_cache, "MIN_DERIVED_EDGES", 1_000)
    distinct = len(set(zip(*(edges(2_000, 1)[end].to_pylist() for end in ("from", "to")), strict=True)))
    assert ask_without_building(tmp_path / "g", monkeypatch) == distinct


def test_a_load_of_few_edges_leaves_nothing(tmp_path: Path) -> None:
    made(tmp_path / "g", 999)

    assert not kept(tmp_path / "g")


def test_a_load_of_a_small_share_leaves_what_there_is(tmp_path: Path) -> None:
    graph = made(tmp_path / "g", 5_000)
    before = kept(tmp_path / "g")

    graph.load(edges={"Knows": edges(100, 3)}, mode="append")
    graph._session.reads.wait_for_workers()

    assert kept(tmp_path / "g") == before


def test_nothing_is_left_where_derived_data_is_not_kept(tmp_path: Path) -> None:
    made(tmp_path / "g", 2_000, keep_derived=False)

    assert not kept(tmp_path / "g")


def test_a_topology_beyond_the_memory_limit_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_cache, "_BUILD_BYTES", 2**40)

    made(tmp_path / "g", 2_000)

    assert not kept(tmp_path / "g")


def test_an_optimization_that_moves_rows_leaves_new_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = made(tmp_path / "g", 1_500)
    for seed in range(5):
        graph.load(edges={"Knows": edges(60, 10 + seed)}, mode="append")
    expected = graph.query(COUNT).rows()[0]["n"]
    graph._session.reads.wait_for_workers()
    before = kept(tmp_path / "g")

    graph.optimize()
    graph._session.reads.wait_for_workers()

    assert kept(tmp_path / "g") != before
    monkeypatch.setattr(graph_cache, "MIN_DERIVED_EDGES", 1_000)
    assert ask_without_building(tmp_path / "g", monkeypatch) == expected
