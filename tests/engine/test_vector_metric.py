"""Distances by metric, and what single precision may exclude: never a row that is near enough."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import omnigraph as og
from mutating import new_graph
from omnigraph.engine import executor
from omnigraph.engine.output import score_cache
from omnigraph.engine.search import nearest_neighbours
from omnigraph.engine.search.ranking import score_rows
from omnigraph.engine.search.vector_metric import bound_distances, can_be_within, compute_distances, normalize
from omnigraph.schema.catalog import Metric

SCALES = (1.0, 1e-3, 1e-12, 1e12, 1e18)


@pytest.mark.parametrize("metric", list(Metric))
@pytest.mark.parametrize("scale", SCALES)
def test_no_row_within_the_limit_is_excluded(metric: Metric, scale: float) -> None:
    random = np.random.default_rng(3)
    matrix = (random.standard_normal((500, 24)) * scale).astype(np.float32)
    matrix[::7] = 0
    matrix[1::7] = matrix[2]
    query = random.standard_normal(24)
    distances = compute_distances(matrix, query, metric)

    for limit in np.quantile(distances, [0.0, 0.01, 0.5, 1.0]).tolist():
        can_be = can_be_within(matrix, query, limit, metric)
        assert can_be[distances <= limit].all()


@pytest.mark.parametrize("metric", [Metric.L2, Metric.DOT])
def test_most_rows_are_excluded_and_bounds_hold(metric: Metric) -> None:
    random = np.random.default_rng(4)
    matrix = random.standard_normal((2_000, 32)).astype(np.float32)
    query = random.standard_normal(32)
    distances = compute_distances(matrix, query, metric)
    tenth = float(np.partition(distances, 9)[9])

    assert can_be_within(matrix, query, tenth, metric).sum() < 20
    products = np.vecdot(matrix, normalize(query).astype(np.float32)).astype(np.float64)
    norms = np.linalg.norm(matrix.astype(np.float64), axis=1)
    low, high = bound_distances(products, norms, query, metric)
    square = float(query @ query)
    true = (np.square(distances) - square) / 2 if metric is Metric.L2 else distances
    assert (low <= true + 1e-9).all()
    assert (true <= high + 1e-9).all()


@pytest.mark.parametrize("metric", [metric.value for metric in Metric])
def test_a_query_ranks_by_the_metric_of_the_property(
    metric: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nearest_neighbours, "_MAX_EXACT_VECTORS", 16)
    random = np.random.default_rng(5)
    graph = new_graph(tmp_path, f'node Doc {{ key: String @key  vec: Vector(8) @metric("{metric}") }}')
    vectors = random.standard_normal((300, 8)).astype(np.float32)
    table = pa.table(
        {"key": [f"{n:03}" for n in range(300)], "vec": pa.array(vectors.tolist(), pa.list_(pa.float32(), 8))}
    )
    graph.load(nodes={"Doc": table}, mode="append")
    query = random.standard_normal(8)
    distances = compute_distances(vectors, query, Metric(metric))
    expected = [f"{n:03}" for n in np.argsort(distances, kind="stable")[:7]]

    assert ask(graph, query, 7) == expected


def load(graph: og.Graph, vectors: np.ndarray) -> None:
    keys = [f"{number:03}" for number in range(len(vectors))]
    listed = pa.array(vectors.tolist(), pa.list_(pa.float32(), vectors.shape[1]))
    graph.load(nodes={"Doc": pa.table({"key": keys, "vec": listed})}, mode="append")


def ask(graph: og.Graph, query: np.ndarray, top: int) -> list[str]:
    text = f"query q($v: Vector({len(query)})) {{ match {{ $d: Doc }} return {{ $d.key as key }}"
    result = graph.query(f"{text} order {{ nearest($d.vec, $v) }} limit {top} }}", params={"v": query.tolist()})
    return [row["key"] for row in result.rows()]


def test_many_matches_are_searched_and_not_scored_one_by_one(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = new_graph(tmp_path, "node Doc { key: String @key  vec: Vector(4)? }")
    vectors = np.random.default_rng(6).standard_normal((400, 4)).astype(np.float32)
    table = pa.table(
        {"key": [f"{n:03}" for n in range(400)], "vec": pa.array(vectors.tolist(), pa.list_(pa.float32(), 4))}
    )
    graph.load(nodes={"Doc": table}, mode="append")
    whole = ask(graph, vectors[0], 5)
    scored: list[int] = []

    def counted(context: Any, rank: Any, type_name: str, at: Any) -> pa.Array:
        scored.append(len(at))
        return score_rows(context, rank, type_name, at)

    monkeypatch.setattr(score_cache, "score_rows", counted)
    # With few rows a chunk, the sink prunes as it does for hundreds of thousands of rows.
    monkeypatch.setattr(executor, "_limit_chunk_rows", lambda *_: 64)

    assert ask(graph, vectors[0], 5) == whole
    assert sum(scored) <= 5
