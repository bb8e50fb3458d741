"""Sums by group are the exact sums, rounded once, whatever the weights."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from omnigraph.clock import SystemClock
from omnigraph.engine.output.exact_sum import sum_floats, sum_whole
from omnigraph.engine.query_budget import Budget, QueryMemoryError

GROUPS = 3
GROUP = st.integers(0, GROUPS - 1)
WEIGHT = st.integers(1, 5) | st.integers(1, 2**63 - 1)
FLOATS = (
    st.floats(allow_nan=False, allow_infinity=False)
    | st.floats(-1e6, 1e6)
    | st.floats(-1e-300, 1e-300)
    | st.sampled_from([2.0**53, 1.0, -1.0, 5e-324])
)
WHOLE = st.integers(-9, 9) | st.integers(-(2**63), 2**63 - 1) | st.sampled_from([2**53, 2**53 + 1, -(2**53) - 1])


def rounded(exact: Fraction) -> float:
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


@settings(max_examples=250)
@given(
    rows=st.lists(
        st.tuples(GROUP, st.floats(allow_nan=False, allow_infinity=False) | st.floats(-1e6, 1e6), WEIGHT), max_size=12
    ),
    is_weighted=st.booleans(),
)
def test_a_sum_of_floats_is_the_nearest_to_the_exact_one(rows: list[tuple[int, float, int]], is_weighted: bool) -> None:
    groups, values, weights = (np.array([row[n] for row in rows], kind) for n, kind in enumerate(("i8", "f8", "i8")))

    found = sum_floats(groups, GROUPS, values, weights if is_weighted else None).to_float64()

    for group in range(GROUPS):
        exact = sum((Fraction(v) * (w if is_weighted else 1) for g, v, w in rows if g == group), Fraction(0))
        assert found[group] == rounded(exact)


@settings(max_examples=250)
@given(
    rows=st.lists(st.tuples(GROUP, st.integers(-9, 9) | st.integers(-(2**63), 2**63 - 1), WEIGHT), max_size=12),
    is_weighted=st.booleans(),
)
def test_a_sum_of_integers_is_exact_or_does_not_fit(rows: list[tuple[int, int, int]], is_weighted: bool) -> None:
    groups, values, weights = (np.array([row[n] for row in rows], np.int64) for n in range(3))

    sums = sum_whole(groups, GROUPS, values, weights if is_weighted else None)

    exact = [sum(v * (w if is_weighted else 1) for g, v, w in rows if g == group) for group in range(GROUPS)]
    fits = all(-(2**63) <= total < 2**63 for total in exact)
    found = sums.to_int64()
    assert sums.to_ints() == exact
    assert (None if found is None else found.tolist()) == (exact if fits else None)


def test_many_rows_with_large_weights_are_added_in_portions() -> None:
    groups = np.arange(150_000) % GROUPS
    values, weights = np.full(150_000, 2**62), np.full(150_000, 2**40 + 1)

    found = sum_whole(groups, GROUPS, values, weights).to_ints()

    assert found == [50_000 * 2**62 * (2**40 + 1)] * GROUPS


def test_unsigned_integers_are_summed_as_they_are() -> None:
    values = np.array([2**64 - 1, 2**64 - 1], np.uint64)

    assert sum_whole(np.zeros(2, np.int64), 1, values, None).to_ints() == [2**65 - 2]


@pytest.mark.parametrize("values", [[2**53, 2**53, 2**53 + 5], [2**53, 0, 1], [-(2**53), 0, -1], [2**63 - 1] * 3])
def test_an_average_of_integers_is_rounded_once(values: list[int]) -> None:
    sums = sum_whole(np.zeros(3, np.int64), 1, np.array(values), None)

    assert sums.average(np.array([3])).tolist() == [sum(values) / 3]


@pytest.mark.parametrize(
    "values",
    [
        [2.0**53, 1.0, 1.0],
        [2.0**53, 1.0, 0.5],
        [0.1, 0.2, 0.3],
        [1e308, 1e308, 1e308],
        [5e-324, 5e-324, 0.0],
        [5e-324, 5e-324, 5e-324 * 8],
        [1e300, -1e300, 1.0],
        [-1.0, -1e-30, 0.0],
        [1.0, -(1.0 - 2.0**-53), 0.0],  # the sum is a single bit
        [math.ldexp(2**51 + 1, -1074), math.ldexp(2**51 + 1, -1074), 2.0**-1023],  # two thirds behind 2^51 of the least
    ],
)
def test_an_average_of_floats_is_rounded_once(values: list[float]) -> None:
    sums = sum_floats(np.zeros(3, np.int64), 1, np.array(values), None)

    assert sums.average(np.array([3])).tolist() == [float(sum(map(Fraction, values)) / 3)]


@settings(max_examples=150)
@given(
    rows=st.lists(st.tuples(GROUP, FLOATS, WEIGHT), max_size=12),
    is_weighted=st.booleans(),
)
def test_an_average_is_the_nearest_to_the_exact_quotient(rows: list[tuple[int, float, int]], is_weighted: bool) -> None:
    groups, values, weights = (np.array([row[n] for row in rows], kind) for n, kind in enumerate(("i8", "f8", "i8")))
    exact, counts = [Fraction(0)] * GROUPS, [0] * GROUPS
    for group, value, weight in rows:
        exact[group] += Fraction(value) * (weight if is_weighted else 1)
        counts[group] += weight if is_weighted else 1
    assume(max(counts) < 2**63)

    found = sum_floats(groups, GROUPS, values, weights if is_weighted else None).average(np.maximum(counts, 1))

    assert found.tolist() == [float(total / max(count, 1)) for total, count in zip(exact, counts, strict=True)]


@settings(max_examples=150)
@given(rows=st.lists(st.tuples(GROUP, WHOLE, st.integers(1, 2**33)), max_size=12), is_weighted=st.booleans())
def test_an_average_of_whole_numbers_is_the_nearest_to_the_exact_quotient(
    rows: list[tuple[int, int, int]], is_weighted: bool
) -> None:
    groups, values, weights = (np.array([row[n] for row in rows], np.int64) for n in range(3))
    exact, counts = [0] * GROUPS, [0] * GROUPS
    for group, value, weight in rows:
        exact[group] += value * (weight if is_weighted else 1)
        counts[group] += weight if is_weighted else 1

    found = sum_whole(groups, GROUPS, values, weights if is_weighted else None).average(np.maximum(counts, 1))

    assert found.tolist() == [total / max(count, 1) for total, count in zip(exact, counts, strict=True)]


def test_numbers_of_very_different_sizes_need_memory_that_is_asked_for_first() -> None:
    groups, values = np.arange(10_000), np.where(np.arange(10_000) % 2, 1e300, 1e-300)

    with pytest.raises(QueryMemoryError, match="sums of 10,000 groups"):
        sum_floats(groups, 10_000, values, None, Budget(SystemClock(), memory_bytes=1_000_000))
