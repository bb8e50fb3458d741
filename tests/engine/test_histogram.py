"""What the pages of an index tell of a column: shares of rows, near to the truth, without the column."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.engine.tables.histogram import Histogram
from omnigraph.schema.arrow import to_arrow_type
from omnigraph.schema.types import Scalar
from omnigraph.storage.index_pages import IndexPages

PAGE = 64
DAY, NOON = date(2024, 1, 1), datetime(2024, 1, 1, 12, tzinfo=UTC)


def pages(values: Sequence[Any], type_: Scalar) -> IndexPages:
    """The pages of an index over these values, as Lance makes them: sorted, what is missing first."""
    ordered = [None] * sum(value is None for value in values) + sorted(value for value in values if value is not None)
    parts = [ordered[start : start + PAGE] for start in range(0, len(ordered), PAGE)]
    return IndexPages(
        lows=pa.array([part[0] for part in parts], to_arrow_type(type_)),
        highs=pa.array([part[-1] for part in parts], to_arrow_type(type_)),
        nulls=np.array([sum(value is None for value in part) for part in parts], np.int64),
        page_rows=PAGE,
    )


def histogram(values: Sequence[Any], type_: Scalar, segments: int = 1) -> Histogram:
    return Histogram([pages(values[part::segments], type_) for part in range(segments)], type_)


MADE: dict[Scalar, Any] = {
    Scalar.I32: lambda number: number - 5_000,
    Scalar.U64: lambda number: 2**63 + number * 2**40,
    Scalar.F64: lambda number: number / 7,
    Scalar.DATE: lambda number: DAY + timedelta(days=number),
    Scalar.DATETIME: lambda number: NOON + timedelta(seconds=number),
    Scalar.STRING: lambda number: f"a common beginning {number:06}",
}
ROWS = 10_000


@pytest.mark.parametrize("segments", [1, 3])
@pytest.mark.parametrize("type_", MADE)
def test_the_share_below_a_value_is_near_to_the_truth(type_: Scalar, segments: int) -> None:
    made = MADE[type_]
    known = histogram([made(number) for number in range(ROWS)], type_, segments)

    for number in (0, 1, 63, 64, 3_333, 9_999):
        below, up_to = (known.estimate_below(made(number), or_equal=or_equal) for or_equal in (False, True))
        assert below is not None
        assert up_to is not None
        assert below == pytest.approx(number / ROWS, abs=0.02)
        assert below <= up_to <= below + 0.02
    assert known.estimate_below(made(-10), or_equal=True) == 0.0
    assert known.estimate_below(made(ROWS + 10), or_equal=False) == pytest.approx(1.0)


@pytest.mark.parametrize("type_", MADE)
def test_a_value_that_many_rows_have_is_known(type_: Scalar) -> None:
    made = MADE[type_]
    values = [made(5)] * 3_000 + [made(number) for number in range(10, 7_010)]
    known = histogram(values, type_)

    assert known.estimate_equal(made(5)) == pytest.approx(0.3, abs=0.01)
    assert known.estimate_equal(made(2_000)) < 0.02
    assert known.estimate_equal(made(-1_000)) < 0.001
    below, up_to = (known.estimate_below(made(5), or_equal=or_equal) for or_equal in (False, True))
    assert below == 0.0
    assert up_to == pytest.approx(0.3, abs=0.01)


def test_rows_without_a_value_are_below_none() -> None:
    known = histogram([None] * 2_500 + list(range(7_500)), Scalar.I64)

    assert known.nulls == pytest.approx(0.25, abs=0.01)
    assert known.estimate_below(10**6, or_equal=True) == pytest.approx(0.75, abs=0.01)
    assert known.estimate_below(3_750, or_equal=True) == pytest.approx(0.375, abs=0.01)


def test_integers_that_are_repeated_within_a_page_are_counted_by_its_width() -> None:
    known = histogram([number // 16 for number in range(ROWS)], Scalar.I32)

    assert known.estimate_equal(100) * ROWS == pytest.approx(16, rel=0.5)
    assert known.distinct == pytest.approx(ROWS / 16, rel=0.3)


@pytest.mark.parametrize("values", [[], [None] * 100, [1]])
def test_an_index_of_no_values_has_shares_too(values: list[int | None]) -> None:
    known = histogram(values, Scalar.I32)

    for value in (None, 0, 1):
        assert 0.0 <= known.estimate_equal(value) <= 1.0
    assert 0.0 <= (known.estimate_below(1, or_equal=True) or 0.0) <= 1.0


def test_a_value_of_another_kind_has_no_place() -> None:
    assert histogram(["a", "b"], Scalar.STRING).estimate_below(1, or_equal=True) is None
    assert histogram([1, 2], Scalar.I32).estimate_below("a", or_equal=True) is None
