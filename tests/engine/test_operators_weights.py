"""Counts that are exact, and refuse to overflow."""

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.engine.bindings import Bindings
from omnigraph.engine.operators.distinct import compact
from omnigraph.engine.operators.multiplicity import (
    OVERFLOWED,
    add_counts,
    check_multiplicity,
    multiply_counts,
    pack_keys,
    sum_by_key,
    sum_by_position,
    sum_counts,
    sum_segments,
    unpack_keys,
)
from omnigraph.errors import LimitError
from property_profiles import profile
from raised_codes import has_code

HUGE = 2**62
WEIGHTS = st.sampled_from([1, 2, 3, 2**31, 2**53 + 1, 2**60 + 1])
ROWS = st.lists(st.tuples(st.integers(0, 5), WEIGHTS), max_size=6)


def ints(values: list[int]) -> np.ndarray:
    return np.array(values, np.int64)


@profile(150)
@given(st.lists(st.lists(WEIGHTS, max_size=3), max_size=8))
def test_the_sum_of_a_run_is_exact(runs: list[list[int]]) -> None:
    values = ints([value for run in runs for value in run])

    assert sum_segments(values, ints([len(run) for run in runs])).tolist() == [sum(run) for run in runs]


@profile(150)
@given(ROWS)
def test_sums_by_position_and_by_key_are_exact(rows: list[tuple[int, int]]) -> None:
    positions, weights = ints([row[0] for row in rows]), ints([row[1] for row in rows])
    expected: Counter[int] = Counter()
    for position, weight in rows:
        expected[position] += weight

    dense = sum_by_position(positions, weights, 6)
    keys, sums = sum_by_key(positions, weights)

    assert dense.tolist() == [expected[position] for position in range(6)]
    assert dict(zip(keys.tolist(), sums.tolist(), strict=True)) == expected


@pytest.mark.parametrize(
    "counted",
    [
        pytest.param(lambda: multiply_counts(ints([HUGE, 3]), ints([2, 1])), id="product"),
        pytest.param(lambda: add_counts(ints([HUGE, 1]), ints([HUGE, 2])), id="sum"),
        pytest.param(lambda: sum_segments(ints([HUGE, HUGE, 1, 2]), ints([2, 2])), id="run"),
        pytest.param(lambda: sum_by_position(ints([0, 0, 1]), ints([HUGE, HUGE, 3]), 2), id="position"),
        pytest.param(lambda: sum_by_key(ints([0, 1, 0]), ints([HUGE, 3, HUGE]))[1], id="key"),
        pytest.param(
            lambda: (
                compact(
                    Bindings({"a": ints([0, 1, 0])}, 3, ints([HUGE, 3, HUGE])), ("a",), has_multiplicity=True
                ).multiplicity
            ),
            id="rows",
        ),
    ],
)
def test_what_64_bits_do_not_hold_is_beyond_and_the_others_are_exact(counted: Callable[[], np.ndarray]) -> None:
    found = counted()

    assert found.tolist() == [OVERFLOWED, 3]
    with pytest.raises(LimitError, check=has_code("count_overflow")):
        check_multiplicity(found)


def test_a_total_that_64_bits_do_not_hold_is_beyond() -> None:
    assert sum_counts(ints([HUGE, HUGE]), 2) == OVERFLOWED


@profile(100)
@given(
    st.lists(st.tuples(WEIGHTS | st.just(0) | st.just(int(OVERFLOWED)), WEIGHTS | st.just(0)), min_size=1, max_size=6)
)
def test_what_is_beyond_stays_beyond_unless_nothing_is_made_of_it(pairs: list[tuple[int, int]]) -> None:
    a, b = ints([pair[0] for pair in pairs]), ints([pair[1] for pair in pairs])

    product, sum_ = multiply_counts(a, b), add_counts(a, b)

    assert product is not None
    assert product.tolist() == [min(x * y, OVERFLOWED) for x, y in pairs]
    assert sum_.tolist() == [min(x + y, OVERFLOWED) for x, y in pairs]


def test_counts_that_fit_pass() -> None:
    assert check_multiplicity(None) is None
    assert check_multiplicity(ints([])) is not None
    assert check_multiplicity(ints([HUGE])) is not None


def test_large_sums_that_fit_are_not_refused() -> None:
    assert add_counts(ints([HUGE]), ints([HUGE - 2**40])).tolist() == [2 * HUGE - 2**40]
    assert sum_segments(ints([HUGE, HUGE]), ints([1, 1])).tolist() == [HUGE, HUGE]
    assert sum_by_position(ints([0, 1]), ints([HUGE, HUGE + 1]), 2).tolist() == [HUGE, HUGE + 1]


@profile(100)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2), st.integers(0, 4)), min_size=1))
def test_packed_columns_can_be_unpacked(rows: list[tuple[int, int, int]]) -> None:
    columns = [ints(list(column)) for column in zip(*rows, strict=True)]

    keys = pack_keys(columns, (10, 3, 5))

    assert keys is not None
    assert [column.tolist() for column in unpack_keys(keys, (10, 3, 5))] == [column.tolist() for column in columns]


def test_columns_that_64_bits_do_not_hold_are_not_packed() -> None:
    assert pack_keys([ints([1]), ints([1])], (2**40, 2**40)) is None


@profile(150)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 9))), st.booleans(), st.booleans())
def test_compacted_rows_are_distinct_and_stand_for_as_many_matches(
    rows: list[tuple[int, int, int]], counts: bool, is_far: bool
) -> None:
    far = 2**40 if is_far else 1  # positions that don't fit into one number together
    columns = {"a": ints([row[0] * far for row in rows]), "b": ints([row[1] * far for row in rows])}
    bindings = Bindings(columns, len(rows), ints([row[2] for row in rows]) if counts else None)

    for keep in ((), ("a",), ("a", "b")):
        found = compact(bindings, keep, has_multiplicity=counts)

        expected: Counter[tuple[int, ...]] = Counter()
        for a, b, weight in rows:
            expected[tuple({"a": a * far, "b": b * far}[name] for name in keep)] += weight
        keys = list(zip(*(found.columns[name].tolist() for name in keep), strict=True)) if keep else [()] * found.size
        assert len(set(keys)) == len(keys) == found.size
        if counts:
            assert found.multiplicity is not None
            assert dict(zip(keys, found.multiplicity.tolist(), strict=True)) == expected
        else:
            assert set(keys) == set(expected)
