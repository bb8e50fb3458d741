"""The distance of two vectors of each row: every distinct vector is read once, and no result depends on the blocks."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from mutating import new_graph
from omnigraph.clock import SystemClock
from omnigraph.engine.bindings import Positions
from omnigraph.engine.query_budget import Budget, QueryMemoryError
from omnigraph.engine.search import pair_distance
from omnigraph.engine.search.nearest_neighbours import to_matrix
from omnigraph.engine.search.pair_distance import VectorSide, compute_pair_distances
from omnigraph.schema.catalog import Metric

WIDTH = 19


def _build_side(vectors: pa.Array, at: NDArray[np.int64], *, has_keys: bool = True) -> VectorSide:
    """Return the vectors at positions, none at -1."""

    def read(rows: Positions) -> pa.Array:
        own = at[rows]
        return vectors.take(pa.array(own, pa.int64(), mask=own < 0))

    return VectorSide(read, at if has_keys else None)


def _compute_distance(a: list[float], b: list[float], metric: Metric) -> float:
    """Compute the distance of one pair alone."""
    first, second = np.array([a]), np.array([b])
    if metric is Metric.DOT:
        return float(-(first * second).sum(axis=1)[0])
    if metric is Metric.L2:
        return float(np.sqrt(np.square(first - second).sum(axis=1))[0])
    norms = [np.sqrt(np.square(side).sum(axis=1))[0] for side in (first, second)]
    product = norms[0] * norms[1]
    return float(np.clip(1.0 - (first * second).sum(axis=1)[0] / product, 0.0, 2.0)) if product > 0 else 1.0


@pytest.fixture
def vectors() -> pa.Array:
    random = np.random.default_rng(7)
    rows: list[Any] = [*random.standard_normal((40, WIDTH)).tolist(), [0.0] * WIDTH, None]
    rows += [[scale] * WIDTH for scale in (1e-30, -3e38, 3e38)]
    return pa.array(rows, pa.list_(pa.float32(), WIDTH))


@pytest.mark.parametrize("blocks", [{}, {"_MAX_VECTOR_BYTES": 0, "_MIN_ROWS": 7, "_BLOCK_BYTES": 300}])
@pytest.mark.parametrize("dense", [8, 0])
@pytest.mark.parametrize("metric", list(Metric))
def test_a_distance_depends_on_its_two_vectors_alone(
    metric: Metric, dense: int, blocks: dict[str, int], vectors: pa.Array, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**blocks, "_DENSE_FACTOR": dense}.items():
        monkeypatch.setattr(pair_distance, name, value)
    random = np.random.default_rng(8)
    left, right = random.integers(-1, len(vectors), (2, 700))
    sides = _build_side(vectors, left), _build_side(vectors, right, has_keys=dense > 0)

    found = compute_pair_distances(*sides, len(left), WIDTH, Budget(SystemClock()), metric).to_pylist()

    rows = [*vectors.to_pylist(), None]
    expected = [
        None if rows[a] is None or rows[b] is None else _compute_distance(rows[a], rows[b], metric)
        for a, b in zip(left, right, strict=True)
    ]
    assert found == expected
    assert None in found


def test_no_rows_have_no_distances(vectors: pa.Array) -> None:
    side = _build_side(vectors, np.zeros(0, np.int64))

    assert len(compute_pair_distances(side, side, 0, WIDTH, Budget(SystemClock()))) == 0


def test_the_vectors_fit_into_the_budget_and_their_memory_is_returned(vectors: pa.Array) -> None:
    at = np.arange(30_000) % len(vectors)
    side, other = _build_side(vectors, at), _build_side(vectors, at[::-1])
    budget = Budget(SystemClock(), memory_bytes=2 * 12 * WIDTH * pair_distance._MIN_ROWS)

    distances = compute_pair_distances(side, other, len(at), WIDTH, budget)

    assert distances.equals(compute_pair_distances(side, other, len(at), WIDTH, Budget(SystemClock())))
    budget.claim(2 * 12 * WIDTH * pair_distance._MIN_ROWS, "all of it again")
    with pytest.raises(QueryMemoryError, match="vectors that are compared with each other"):
        compute_pair_distances(side, other, len(at), WIDTH, budget)


@pytest.mark.parametrize(
    "query, most",
    [
        ("match { $a: A $b: B nearest($a.v, $b.v) < 0.9 } return { count(*) as n }", 70),
        # The vectors of the rows that are returned are read again, for the order and for the column.
        ("match { $a: A $b: B } return { $a.k, $b.k, nearest($a.v, $b.v) as d } order { d, $a.k, $b.k } limit 3", 82),
        ("match { $a: A $b: B } return { max(nearest($a.v, $b.v)) as d }", 72),
        ("match { $a: A $b: B let $v = $a.v nearest($v, $b.v) < 0.9 } return { count(*) as n }", 70),
    ],
)
def test_each_vector_of_a_similarity_join_is_read_once(
    query: str, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = new_graph(tmp_path, "node A { k: I64 @key  v: Vector(4) } node B { k: I64 @key  v: Vector(4) }")
    random = np.random.default_rng(9)
    sizes = {"A": 30, "B": 40}
    records = [
        {"type": name, "data": {"k": k, "v": random.standard_normal(4).tolist()}}
        for name, size in sizes.items()
        for k in range(size)
    ]
    (tmp_path / "data.jsonl").write_text("\n".join(map(json.dumps, records)))
    graph.load(str(tmp_path / "data.jsonl"), mode="append")
    decoded = []

    def count(column: pa.Array) -> NDArray[np.float32]:
        decoded.append(len(column))
        return to_matrix(column)

    monkeypatch.setattr(pair_distance, "to_matrix", count)

    graph.query(query).rows()

    assert sum(sizes.values()) <= sum(decoded) <= most
