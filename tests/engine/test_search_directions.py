"""Groups of like direction leave out vectors that can't be among the nearest, and never one that is."""

import logging
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from omnigraph.engine.search import nearest_neighbours as vectors_module
from omnigraph.engine.search.nearest_neighbours import load_vectors, select_finalists
from omnigraph.engine.search.ranking import rank_rows
from omnigraph.engine.search.scores import Scores
from omnigraph.engine.search.vector_clusters import BOUND_ERROR, VectorClusters, build_clusters
from omnigraph.engine.search.vector_metric import compute_distances
from omnigraph.engine.tables.row_layout import Layout
from property_profiles import profile
from searching import Rows, Shelf, naive_cosine, nearest

OFTEN = 16
"""Questions before directions are made."""


class OnePiece(Layout):
    """A layout of one fragment, of which only the rows count here."""

    def __init__(self, rows: int) -> None:
        super().__init__(())
        object.__setattr__(self, "rows", rows)

    def match_runs(self, older: Layout) -> list:  # type: ignore[type-arg]  # only its `start` and `rows` are read
        del older
        return [type("Piece", (), {"start": None, "rows": self.rows})]  # type: ignore[attr-defined]  # set above


def nothing() -> None:
    """Nobody stops it."""


def directions_of(matrix: np.ndarray) -> VectorClusters:
    usable = np.flatnonzero(np.abs(matrix).max(axis=1) > 0)
    return build_clusters(matrix, OnePiece(len(matrix)), usable, None, nothing)


NUMBERS = st.floats(-1, 1, width=32) | st.sampled_from([0.0, 1.0, -1.0, 1e-30, 1e30, 1e-3])


@profile(150)
@given(st.data())
def test_no_cosine_is_above_its_bound(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 6))
    matrix = data.draw(arrays(np.float32, (data.draw(st.integers(1, 60)), size), elements=NUMBERS))
    matrix[0, 0] = 1.0  # one at least has a direction
    query = data.draw(arrays(np.float64, size, elements=st.floats(-1, 1)))
    length = np.sqrt(np.square(query).sum())
    unit = query / length if length > 1e-6 else np.zeros(size)

    bounds = directions_of(matrix).compute_bounds(unit, None)

    assert (bounds + BOUND_ERROR >= 1 - compute_distances(matrix, unit)).all()


def clustered(random: np.random.Generator, rows: int) -> np.ndarray:
    centres = random.standard_normal((20, 24))
    return (centres[random.integers(0, 20, rows)] + 0.3 * random.standard_normal((rows, 24))).astype(np.float32)


def test_most_vectors_of_other_groups_are_left_out() -> None:
    matrix = clustered(np.random.default_rng(3), 4_000)
    query = matrix[7].astype(np.float64)
    unit = query / np.sqrt(np.square(query).sum())

    bounds = directions_of(matrix).compute_bounds(unit, None)

    tenth = np.partition(1 - compute_distances(matrix, unit), -10)[-10]
    assert np.count_nonzero(bounds >= tenth) < len(matrix) / 4


def test_the_same_rows_make_the_same_groups() -> None:
    matrix = clustered(np.random.default_rng(4), 500)

    one, other = directions_of(matrix), directions_of(matrix)

    assert one.group.tolist() == other.group.tolist()
    assert one.along.tolist() == other.along.tolist()


# --- in a query ------------------------------------------------------------------------------------------


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shelf:
    """A shelf on which directions are made for a few short vectors, too."""
    limits = {
        "_MIN_CLUSTERED_ROWS": 8,
        "_MIN_CLUSTERED_SIZE": 1,
        "_MAX_EXACT_VECTORS": 4,
        "_CANDIDATES_PER_RESULT": 1,
    }
    for name, value in limits.items():
        monkeypatch.setattr(vectors_module, name, value)
    monkeypatch.setattr("omnigraph.engine.search.vector_clusters._CENTRES_PER_LEVEL", 4)
    return Shelf(tmp_path / "g")


def some_rows(random: Random, numbers: range) -> Rows:
    """Vectors near the axes, some of them equal, of zeros, wild, or none."""
    found: dict[str, tuple[None, list[float] | None]] = {}
    for number in numbers:
        vector = [random.choice((0.0, 0.1, -0.1, 0.1 * random.random())) for _ in range(3)]
        vector[random.randrange(3)] = random.choice((1.0, -1.0, 2.0))
        odd = random.random()
        if odd < 0.1:
            vector = [[0.0] * 3, [1e-25, 0.0, 0.0], [0.0, 1e25, 1e24]][number % 3]
        found[f"d{number:03}"] = (None, None if odd > 0.95 else vector)
    return found


def ask(shelf: Shelf, vector: tuple[float, ...], among: list[str], top: int) -> Scores:
    return rank_rows(shelf.reading(), nearest(vector), "Doc", shelf.at(among), top)


def check(shelf: Shelf, random: Random) -> None:
    vector = tuple(random.choice((0.0, 1.0, -1.0, random.random())) for _ in range(3))
    ids = sorted(shelf.docs)
    among = ids if random.random() < 0.5 else sorted(random.sample(ids, len(ids) // 2))
    top = random.choice((1, 3, 10))

    found = ask(shelf, vector, among, top)

    given_ = {i: shelf.docs[i][1] for i in among}
    scores = {i: naive_cosine(v, vector) for i, v in given_.items() if v is not None}
    assert found.values.tolist() == pytest.approx(sorted(scores.values())[:top], abs=1e-12)
    pairs = list(zip(found.values.tolist(), shelf.ids(found.positions), strict=True))
    assert pairs == sorted(pairs)


def _load(shelf: Shelf) -> vectors_module.VectorColumn:
    context = shelf.reading()
    return load_vectors(context, context.get_reader("Doc"), "vec")


def known(shelf: Shelf) -> VectorClusters | None:
    return _load(shelf).clusters


@pytest.mark.parametrize("seed", range(2))
def test_the_nearest_are_the_nearest_before_and_after_directions_are_made(shelf: Shelf, seed: int) -> None:
    random = Random(seed)
    shelf.write(some_rows(random, range(150)))

    for _ in range(OFTEN + 4):
        check(shelf, random)
    shelf.cache.wait_for_workers()
    assert known(shelf) is not None
    for _ in range(30):
        check(shelf, random)


def test_later_versions_are_searched_as_they_are(shelf: Shelf) -> None:
    random = Random(9)
    shelf.write(some_rows(random, range(100)))
    for _ in range(OFTEN):
        known(shelf)
    shelf.cache.wait_for_workers()

    for start in (100, 120, 140):
        shelf.write(some_rows(random, range(start, start + 20)))
        shelf.delete(random.sample(sorted(shelf.docs), 5))
        check(shelf, random)
        shelf.cache.wait_for_workers()
        assert known(shelf) is not None
        for _ in range(5):
            check(shelf, random)


def test_a_later_version_looks_at_its_new_rows_only(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(2)
    shelf.write(some_rows(random, range(100)))
    for _ in range(OFTEN):
        known(shelf)
    shelf.cache.wait_for_workers()
    first = known(shelf)
    assigned: list[int] = []

    def noted(matrix: object, found: VectorClusters, start: int, stop: int, check: object) -> None:
        del matrix, found, check
        assigned.append(stop - start)

    monkeypatch.setattr("omnigraph.engine.search.vector_clusters._assign", noted)
    shelf.write(some_rows(random, range(100, 107)))
    known(shelf)
    shelf.cache.wait_for_workers()

    second = known(shelf)
    assert assigned == [7]
    assert first is not None
    assert second is not None
    assert second.centres is first.centres


def test_directions_are_made_for_those_who_ask_often(shelf: Shelf) -> None:
    shelf.write(some_rows(Random(1), range(100)))

    for _ in range(OFTEN // 2):
        known(shelf)
    shelf.cache.wait_for_workers()
    before = known(shelf)
    for _ in range(OFTEN // 2):
        known(shelf)
    shelf.cache.wait_for_workers()

    assert before is None
    assert known(shelf) is not None


def test_few_vectors_are_compared_one_by_one(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors_module, "_MIN_CLUSTERED_ROWS", 101)
    shelf.write(some_rows(Random(1), range(100)))

    for _ in range(2 * OFTEN):
        known(shelf)
    shelf.cache.wait_for_workers()

    assert known(shelf) is None


def test_rows_are_left_out_by_their_directions(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    shelf.write(
        {f"d{n:03}": (None, [1.0, 0.001 * n, 0.0] if n % 10 == 0 else [0.0, 0.001 * n, 1.0]) for n in range(200)}
    )
    for _ in range(OFTEN):
        known(shelf)
    shelf.cache.wait_for_workers()
    compared: list[int] = []
    alike = vectors_module._estimate_cosines

    def noted(found: vectors_module.VectorColumn, query: np.ndarray, rows: np.ndarray) -> np.ndarray:
        compared.append(len(rows))
        return alike(found, query, rows)

    monkeypatch.setattr(vectors_module, "_estimate_cosines", noted)
    near = select_finalists(_load(shelf), np.array([1.0, 0.0, 0.0]), np.arange(200), 3)

    assert set(shelf.ids(near)) >= {"d000", "d010", "d020"}
    assert max(compared) <= 20


@pytest.mark.parametrize("vector", [None, [0.0, 0.0, 0.0], [1e-25, 0.0, 0.0]], ids=["none", "zeros", "wild"])
def test_vectors_without_a_direction_get_none(shelf: Shelf, vector: list[float] | None) -> None:
    shelf.write({f"d{number:02}": (None, vector) for number in range(20)})

    for _ in range(2 * OFTEN):
        known(shelf)
    shelf.cache.wait_for_workers()
    found = ask(shelf, (1.0, 0.0, 0.0), sorted(shelf.docs), 3)

    assert known(shelf) is None
    assert len(found.positions) == (0 if vector is None else 3)


def test_a_making_that_fails_is_told_once_and_nobody_is_the_worse_for_it(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tried: list[None] = []

    def fails(*_: object) -> None:
        tried.append(None)
        raise MemoryError

    monkeypatch.setattr(vectors_module, "build_clusters", fails)
    shelf.write(some_rows(Random(1), range(100)))

    with caplog.at_level(logging.WARNING):
        for _ in range(2 * OFTEN):
            known(shelf)
            shelf.cache.wait_for_workers()
        check(shelf, Random(3))

    assert caplog.text.count("could not build") == len(tried) == 1
