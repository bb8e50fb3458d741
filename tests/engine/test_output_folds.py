"""Statistics and products by group are what exact arithmetic says, whatever the order and the merging of rows."""

import math
import statistics
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.clock import SystemClock
from omnigraph.engine.output.exact_sum import accumulate_floats, accumulate_whole
from omnigraph.engine.output.folds import (
    GroupedNumbers,
    compute_percentiles,
    compute_variances,
    multiply_floats,
    multiply_whole,
)
from omnigraph.engine.query_budget import Budget, QueryMemoryError
from property_profiles import profile

FLOATS = st.floats(allow_nan=False, allow_infinity=False)
TAME = st.floats(-1e6, 1e6, allow_subnormal=False)
INTEGERS = st.integers(-(2**63), 2**63 - 1)
SMALL = st.integers(-9, 9)


def unlimited() -> Budget:
    return Budget(SystemClock())


def grouped(members: Sequence[Sequence[float]], dtype: type = np.float64, seed: int = 0) -> GroupedNumbers:
    """The values of each group, shuffled, with equal ones merged now and then."""
    rows = [(group, value) for group, values in enumerate(members) for value in values]
    np.random.default_rng(seed).shuffle(rows)
    times: dict[tuple[int, float], int] = {}
    for row in rows:
        times[row] = times.get(row, 0) + 1
    if seed % 2:
        listed = list(times)
        counts = np.array([times[row] for row in listed], np.int64)
    else:
        listed, counts = rows, None
    groups = np.array([group for group, _ in listed], np.int64)
    values: np.ndarray[Any, Any] = np.array([value for _, value in listed], dtype)
    return GroupedNumbers(groups, len(members), values, counts, unlimited())


@profile(100)
@given(st.lists(st.lists(FLOATS, min_size=2, max_size=6), min_size=1, max_size=4), st.integers(0, 9))
def test_a_deviation_is_that_of_exact_arithmetic(members: list[list[float]], seed: int) -> None:
    numbers = grouped(members, seed=seed)

    found = compute_variances(numbers, numbers.count_values(), is_root=True)

    for value, values in zip(found, members, strict=True):
        assert math.isclose(value, statistics.stdev(map(Fraction, values)), rel_tol=1e-14, abs_tol=1e-320)


@profile(100)
@given(st.lists(st.lists(INTEGERS, min_size=2, max_size=6), min_size=1, max_size=4), st.integers(0, 9))
def test_large_integers_that_are_close_have_their_own_variance(members: list[list[int]], seed: int) -> None:
    numbers = grouped(members, np.int64, seed)

    found = compute_variances(numbers, numbers.count_values(), is_root=False)

    for value, values in zip(found, members, strict=True):
        assert math.isclose(value, float(statistics.variance(map(Fraction, values))), rel_tol=1e-12)


def test_digits_do_not_cancel() -> None:
    numbers = grouped([[2**60 + 1, 2**60 + 2, 2**60 + 3]], np.int64)

    assert compute_variances(numbers, numbers.count_values(), is_root=False).tolist() == [1.0]


@profile(60)
@given(st.lists(st.lists(TAME, min_size=1, max_size=8), min_size=1, max_size=3))
def test_the_order_and_the_merging_of_rows_change_no_bit(members: list[list[float]]) -> None:
    def all_folds(seed: int) -> list[list[float]]:
        numbers = grouped(members, seed=seed)
        counts = numbers.count_values()
        found = [compute_variances(numbers, counts, is_root=True), multiply_floats(numbers)]
        found += [compute_percentiles(numbers, counts, fraction) for fraction in (0.0, 0.3, 0.5, 1.0)]
        return [[repr(value) for value in values.tolist()] for values in found]  # type: ignore[misc]  # texts: NaN equals itself

    assert all_folds(0) == all_folds(1) == all_folds(2) == all_folds(5)


@profile(100)
@given(st.lists(st.lists(TAME, min_size=1, max_size=9), min_size=1, max_size=3), st.floats(0, 1), st.integers(0, 5))
def test_a_percentile_lies_between_its_neighbours(members: list[list[float]], fraction: float, seed: int) -> None:
    numbers = grouped(members, seed=seed)

    found = compute_percentiles(numbers, numbers.count_values(), fraction)

    for value, values in zip(found, members, strict=True):
        ordered = sorted(values)
        place = fraction * (len(values) - 1)
        low, high = ordered[math.floor(place)], ordered[math.ceil(place)]
        assert math.isclose(value, low + (high - low) * (place - math.floor(place)), rel_tol=1e-12, abs_tol=1e-12)


def test_a_group_without_values_has_none() -> None:
    numbers = GroupedNumbers(np.zeros(1, np.int64), 2, np.array([3.0]), None, unlimited())

    assert np.isnan(compute_percentiles(numbers, numbers.count_values(), 0.5)).tolist() == [False, True]
    assert np.isnan(compute_variances(numbers, numbers.count_values(), is_root=True)).tolist() == [True, True]


@profile(200)
@given(st.lists(st.lists(st.one_of(INTEGERS, SMALL), max_size=7), min_size=1, max_size=4), st.integers(0, 5))
def test_a_product_of_integers_is_exact_or_does_not_fit(members: list[list[int]], seed: int) -> None:
    expected = [math.prod(values) for values in members]

    found = multiply_whole(grouped(members, np.int64, seed))

    fits = all(-(2**63) <= value < 2**63 for value in expected)
    assert found is None if not fits else found is not None and found.tolist() == expected


@pytest.mark.parametrize(
    "values, fits", [([-(2**63)], True), ([2**62, 2], False), ([-(2**62), 2], True), ([3] * 40, False)]
)
def test_the_ends_of_the_range_of_a_product(values: list[int], fits: bool) -> None:
    found = multiply_whole(grouped([values], np.int64))

    assert (found is not None) is fits


@profile(100)
@given(st.lists(FLOATS, min_size=1, max_size=8), st.integers(0, 5))
def test_a_product_of_floats_does_not_overflow_on_the_way(values: list[float], seed: int) -> None:
    (found,) = multiply_floats(grouped([values], seed=seed)).tolist()

    exact = math.prod(map(Fraction, values), start=Fraction(1))
    if abs(exact) < Fraction(2) ** 1024 * (1 - Fraction(1, 2**50)):
        assert math.isclose(found, float(exact), rel_tol=1e-14, abs_tol=5e-324 * 16)
    else:
        assert math.isinf(found) or abs(found) > 1e308


@profile(150)
@given(st.lists(st.lists(FLOATS, min_size=1, max_size=6), min_size=1, max_size=4))
def test_a_running_sum_is_rounded_once(members: list[list[float]]) -> None:
    values = np.array([value for group in members for value in group], np.float64)
    ends = np.cumsum([len(group) for group in members])
    starts = np.repeat(ends - [len(group) for group in members], [len(group) for group in members])

    found = accumulate_floats(values, starts.astype(np.int64), unlimited()).to_float64().tolist()

    expected = [
        sum(map(Fraction, group[: place + 1]), start=Fraction(0)) for group in members for place in range(len(group))
    ]
    for value, exact in zip(found, expected, strict=True):
        assert math.isinf(value) if abs(exact) >= 2**1024 - 2**970 else value == float(exact)


def test_running_sums_of_integers_are_exact_beyond_64_bits() -> None:
    values = np.array([2**63 - 1, 2**63 - 1, -(2**63), 5], np.int64)

    found = accumulate_whole(values, np.array([0, 0, 0, 3], np.int64))

    assert found.to_ints() == [2**63 - 1, 2**64 - 2, 2**63 - 2, 5]


def test_running_sums_claim_their_memory() -> None:
    values = np.array([1e300, 1e-300] * 500)

    with pytest.raises(QueryMemoryError):
        accumulate_floats(values, np.zeros(1000, np.int64), Budget(SystemClock(), memory_bytes=10_000))
