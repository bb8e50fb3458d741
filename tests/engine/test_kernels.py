"""Long columns are sorted, looked up and encoded in parts: with the same outcome, and a look at the clock for each."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from omnigraph.engine import kernels
from omnigraph.engine.kernels import (
    argsort_stable,
    encode_dictionary,
    find_distinct,
    look_up,
    rank_distinct,
    search_sorted,
    skip_check,
)

PART = 16
LONG = st.lists(st.integers(-5, 5) | st.integers(-(2**63), 2**63 - 1), min_size=PART + 1, max_size=20 * PART)


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "MAX_KERNEL_ROWS", PART)


class Counted:
    """Counts how often the clock is looked at."""

    def __init__(self) -> None:
        self.looks = 0

    def __call__(self) -> None:
        self.looks += 1


def ints(values: list[int]) -> NDArray[np.int64]:
    return np.array(values, np.int64)


@given(LONG)
def test_a_long_sort_is_that_of_numpy(values: list[int]) -> None:
    assert argsort_stable(ints(values), skip_check).tolist() == np.argsort(ints(values), kind="stable").tolist()


@given(LONG, LONG, st.sampled_from(["left", "right"]))
def test_values_are_looked_up_as_by_numpy(values: list[int], others: list[int], side: str) -> None:
    ordered = np.sort(ints(others))

    found = search_sorted(ordered, ints(values), side, skip_check)

    assert found.tolist() == [int(np.searchsorted(ordered, value, side=side)) for value in ints(values)]  # type: ignore[call-overload]  # it is one of the two


@given(st.lists(st.none() | st.text(max_size=2), min_size=PART + 1, max_size=10 * PART))
def test_texts_are_encoded_as_by_arrow(values: list[str | None]) -> None:
    texts = pa.array(values, pa.string())

    codes, distinct = encode_dictionary(texts, skip_check)

    assert distinct.take(codes).to_pylist() == values
    assert len(distinct.unique()) == len(distinct)


@pytest.mark.parametrize("size", [10 * PART, 50 * PART])
def test_no_more_than_a_part_is_done_between_two_looks(size: int) -> None:
    values = ints(list(np.random.default_rng(1).permutation(size)))
    sorting, looking, encoding = Counted(), Counted(), Counted()

    argsort_stable(values, sorting)
    search_sorted(np.sort(values), values, "left", looking)
    encode_dictionary(pa.array(values), encoding)

    assert sorting.looks >= 2 * size / PART
    assert looking.looks == size / PART
    assert encoding.looks >= size / PART


def test_a_sort_is_ended_between_its_parts() -> None:
    class EndedError(Exception):
        pass

    def ended() -> None:
        raise EndedError

    with pytest.raises(EndedError):
        argsort_stable(ints(list(range(2 * PART))), ended)


TEXTS = st.lists(st.none() | st.text(max_size=2), min_size=PART + 1, max_size=20 * PART)


@given(TEXTS)
def test_values_are_ranked_as_by_arrow(values: list[str | None]) -> None:
    once = list(dict.fromkeys(values))

    places = rank_distinct(pa.array(once, pa.string()), skip_check).tolist()

    ordered = [*sorted(text for text in once if text is not None), *([None] if None in once else [])]
    assert [ordered[place] for place in places] == once


@given(st.lists(st.floats(allow_nan=True), min_size=PART + 1, max_size=10 * PART, unique_by=repr))
def test_numbers_that_do_not_compare_are_ranked_last(values: list[float]) -> None:
    numbers = pa.array(values)

    places = rank_distinct(numbers, skip_check)

    assert np.argsort(places).tolist() == pc.sort_indices(numbers).to_pylist()


@given(TEXTS, TEXTS)
def test_values_are_found_where_they_are(wanted: list[str | None], values: list[str | None]) -> None:
    once = list(dict.fromkeys(values))

    found = look_up(pa.array(wanted, pa.string()), pa.array(once, pa.string()), skip_check).tolist()

    assert found == [once.index(one) if one is not None and one in once else -1 for one in wanted]


@given(LONG)
def test_distinct_values_are_those_of_numpy(values: list[int]) -> None:
    assert find_distinct(ints(values), skip_check).tolist() == np.unique(ints(values)).tolist()


def test_a_column_of_one_value_and_a_few_others_is_encoded() -> None:
    values = [f"other {place}" if place % 997 == 7 else "the same" for place in range(400 * PART)]

    codes, distinct = encode_dictionary(pa.array([*map(str, range(PART)), *values]), skip_check)

    assert distinct.take(codes).to_pylist()[PART:] == values
    assert len(distinct.unique()) == len(distinct)


@pytest.mark.parametrize("size", [20 * PART, 300 * PART])
def test_no_more_than_a_part_is_ranked_encoded_and_looked_up_between_two_looks(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = pa.array([f"a text of number {number}" for number in np.random.default_rng(1).permutation(size)])
    most = Counted()
    seen: list[tuple[int, int]] = []
    sort, find = pc.sort_indices, pc.index_in

    def sorted_rows(some: pa.Array) -> pa.Array:
        seen.append((most.looks, len(some)))
        return sort(some)

    def found_rows(some: pa.Array, *, value_set: pa.Array, skip_nulls: bool) -> pa.Array:
        seen.append((most.looks, len(value_set)))
        return find(some, value_set=value_set, skip_nulls=skip_nulls)

    monkeypatch.setattr(kernels, "_SAMPLES_PER_BUCKET", 1)
    monkeypatch.setattr(pc, "sort_indices", sorted_rows)
    monkeypatch.setattr(pc, "index_in", found_rows)

    rank_distinct(texts, most)
    look_up(texts, texts, most)
    codes, distinct = encode_dictionary(texts, most)

    assert all(rows <= 2 * PART for _, rows in seen)  # with what is sorted to choose where ranges begin
    assert len({looks for looks, rows in seen if rows <= PART}) >= size / PART
    assert len(distinct) == len(codes) == size
