"""Work on several threads gives what one thread gives, and ends with its budget."""

import os
import threading
from unittest.mock import patch

import numpy as np
import pytest

from omnigraph.clock import SystemClock
from omnigraph.engine import parallel
from omnigraph.engine.parallel import (
    count_threads,
    find_nth_values,
    map_parts,
    run_threads,
    sort_integers,
    split_by_weight,
    split_rows,
)
from omnigraph.engine.query_budget import Budget, QueryCancelledError


def budget(threads: int) -> Budget:
    return Budget(SystemClock(), threads=threads)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_are_in_the_order_of_the_parts(threads: int) -> None:
    assert map_parts(lambda part: part * part, range(40), budget(threads)) == [n * n for n in range(40)]


def test_no_more_threads_work_than_may() -> None:
    seen: set[int] = set()
    both = threading.Barrier(2, timeout=20)

    def work(part: int) -> None:
        seen.add(threading.get_ident())
        if part < 2:
            both.wait()  # two threads at the same time

    run_threads(work, range(50), 2)

    assert len(seen) == 2
    assert threading.get_ident() in seen


@pytest.mark.parametrize("threads", [1, 3])
def test_the_first_error_is_raised_and_ends_the_work(threads: int) -> None:
    done: list[int] = []

    def work(part: int) -> None:
        if part == 3:
            raise ValueError("three")
        done.append(part)

    with pytest.raises(ValueError, match="three"):
        run_threads(work, range(10_000), threads)

    assert len(done) < 10_000


@pytest.mark.parametrize("threads", [1, 3])
def test_cancelled_work_ends_before_its_next_part(threads: int) -> None:
    limits = budget(threads)
    done: list[int] = []

    def work(part: int) -> None:
        done.append(part)
        limits.cancel()

    with pytest.raises(QueryCancelledError):
        map_parts(work, range(1_000), limits)

    assert len(done) <= threads


def test_work_goes_on_where_no_thread_can_be_started() -> None:
    with patch.object(threading.Thread, "start", side_effect=RuntimeError("can't start new thread")):
        assert run_threads(str, range(3), 2) == ["0", "1", "2"]


@pytest.mark.parametrize("threads", [1, 2, 7])
@pytest.mark.parametrize("rows", [0, 1, 100, 1_001])
def test_integers_are_sorted_whatever_the_threads(threads: int, rows: int) -> None:
    values = np.random.default_rng(rows).integers(-50, 50, rows)

    with patch.object(parallel, "MIN_PARALLEL_ROWS", 1):
        found = sort_integers(values.copy(), threads)

    assert found.tolist() == sorted(values.tolist())


@pytest.mark.parametrize("rows", [0, 1, 10, 1_000])
def test_slices_cover_all_rows_once(rows: int) -> None:
    with patch.object(parallel, "MIN_PARALLEL_ROWS", 3):
        slices = split_rows(rows, budget(4))

    assert [row for part in slices for row in range(rows)[part]] == list(range(rows))
    assert len(slices) == max(1, min(4, rows // 3))


def test_slices_have_about_the_same_weight() -> None:
    weights = np.array([5, 1, 1, 1, 9, 0, 2, 2])

    slices = split_by_weight(np.cumsum(weights), 4)

    assert [row for part in slices for row in range(8)[part]] == list(range(8))
    assert all(weights[part].sum() <= 4 or part.stop - part.start == 1 for part in slices)


def test_the_cores_are_taken_unless_a_number_is_set() -> None:
    assert count_threads(3) == 3
    assert count_threads(None) >= 1


def test_a_system_without_affinity_has_its_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 5)

    assert count_threads(None) == 5


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("kind", ["random", "few", "descending", "periodic"])
def test_values_at_places_are_those_of_the_sorted_order(kind: str, threads: int) -> None:
    random = np.random.default_rng(7)
    values = {
        "random": random.integers(-(2**62), 2**62, 2_000),
        "few": random.integers(0, 3, 2_000),
        "descending": np.arange(2_000)[::-1].copy(),
        "periodic": np.arange(2_000) % 8,
    }[kind]
    ordered = np.sort(values).tolist()

    with patch.multiple(parallel, MIN_PARALLEL_ROWS=1, MAX_CHUNK_ROWS=300, _SELECTION_SAMPLES=250, _SAMPLE_MARGIN=3):
        for low, high in ((0, 0), (0, 1_999), (1_000, 1_019), (1_999, 1_999), (17, 1_500)):
            assert find_nth_values(values, low, high, budget(threads)) == (ordered[low], ordered[high])
