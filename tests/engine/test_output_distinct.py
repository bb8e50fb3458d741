"""Equal rows are found whatever their codes look like: dense, sparse, or beyond 64 bits together."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.engine.bindings import Bindings
from omnigraph.engine.output.distinct import Codes, combine_codes, group_codes
from omnigraph.engine.output.projection import build_frame
from plain_tables import World
from schema_making import catalog_from

WORLD = World(catalog_from("node P { k: String? }"), {"P": [{"@id": "a"}]})


@given(numbers=st.lists(st.integers(0, 9), max_size=30), spread=st.sampled_from([1, 10**6, 2**40, 2**58]))
def test_groups_are_the_rows_with_equal_codes(numbers: list[int], spread: int) -> None:
    codes = np.array([number * spread for number in numbers], np.int64)

    found = group_codes(Codes(codes, 9 * spread + 1))

    different = sorted(set(numbers))
    assert found.count == len(different)
    assert found.row_groups.tolist() == [different.index(number) for number in numbers]
    assert found.first.tolist() == [numbers.index(number) for number in different]


@given(
    rows=st.lists(st.tuples(*[st.integers(0, 2)] * 4), max_size=30),
    bounds=st.lists(st.sampled_from([3, 1000, 2**31, 2**61]), min_size=4, max_size=4),
)
def test_combinations_of_codes_stay_apart_however_large_they_are(
    rows: list[tuple[int, ...]], bounds: list[int]
) -> None:
    query = WORLD.query("query q() { match { $p: P } return { 1 as one } }")
    frame = build_frame(query, Bindings({}, len(rows)), WORLD.reading())
    codes = [Codes(np.array([row[n] for row in rows], np.int64), bound) for n, bound in enumerate(bounds)]

    found = group_codes(combine_codes(frame, codes))

    assert found.count == len(set(rows))
    assert all(rows[found.first[group]] == row for row, group in zip(rows, found.row_groups, strict=True))


@pytest.mark.parametrize("bounds", [(3, 3, 3, 2**61), (2**61, 3, 3, 3), (3, 2**61, 2**61, 3), (2**61, 2**61, 2, 2)])
def test_few_groups_times_a_large_bound_do_not_overflow(bounds: tuple[int, ...]) -> None:
    rows = list(product(*(sorted({0, 1, bound - 1}) for bound in bounds)))
    frame = build_frame(
        WORLD.query("query q() { match { $p: P } return { 1 as one } }"), Bindings({}, 0), WORLD.reading()
    )
    codes = [Codes(np.array([row[n] for row in rows], np.int64), bound) for n, bound in enumerate(bounds)]

    found = combine_codes(frame, codes)

    assert found.numbers.min() >= 0
    assert found.numbers.max() < found.bound <= 2**62
    assert group_codes(found).count == len(rows)


@pytest.mark.parametrize("size", [0, 1])
def test_few_rows_are_fine(size: int) -> None:
    assert group_codes(Codes(np.zeros(size, np.int64), 1)).count == size
