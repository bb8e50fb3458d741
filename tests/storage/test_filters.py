"""Filters as text: every literal arrives as the value that it stands for, whatever the type of its column."""

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.storage import filters
from property_profiles import profile

VALUES: dict[pa.DataType, list[Any]] = {
    pa.string(): ["", "'", "''", "a'b", "\\", "%", "_", "`", '"', "--", "\n", "\0", "日本", "\U0010ffff"],
    pa.bool_(): [True, False],
    pa.int32(): [-(2**31), -1, 0, 2**31 - 1],
    pa.int64(): [-(2**63), -(2**63) + 1, 0, 2**63 - 1],
    pa.uint32(): [0, 2**31, 2**32 - 1],
    pa.uint64(): [0, 2**63, 2**64 - 1],
    pa.float32(): [-3.4028234663852886e38, 1.401298464324817e-45, 0.10000000149011612],
    pa.float64(): [-1.7976931348623157e308, 5e-324, 0.1, 1e22],
    pa.date32(): [date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31)],
    pa.timestamp("us", "UTC"): [
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    ],
}


@pytest.mark.parametrize("type_", VALUES, ids=str)
def test_each_value_finds_its_own_row_alone(type_: pa.DataType, tmp_path: Path) -> None:
    values = VALUES[type_]
    rows = pa.table(
        {
            "x y": pa.array(values, type_),
            "group": pa.array([[value] for value in values], pa.list_(type_)),
            # A list of unsigned integers beside it makes Lance refuse every filter that is not text.
            "numbers": pa.array([[1]] * len(values), pa.list_(pa.uint64())),
        }
    )
    dataset = lance.write_dataset(rows, str(tmp_path / "t.lance"))
    dataset.create_scalar_index("x y", "BITMAP" if type_ == pa.bool_() else "BTREE")
    dataset.create_scalar_index("group", "LABEL_LIST")

    for value in values:
        literal = pa.scalar(value, type_)
        asked = [
            filters.build_comparison("x y", "=", literal),
            filters.build_in_list("x y", pa.array([value], type_)),
            filters.build_in_list("x y", pa.array([value, value], type_)),
            filters.build_list_contains("group", literal),
        ]
        for where in asked:
            for is_asked in (True, False):
                scanner = dataset.scanner(columns=["x y"], filter=where, use_scalar_index=is_asked)
                assert ("ScalarIndexQuery" in scanner.explain_plan(verbose=True)) == is_asked, where
                assert scanner.to_table().column("x y").to_pylist() == [value], where
    everything = filters.build_in_list("x y", pa.array(values, type_))
    assert dataset.count_rows(everything) == len(values)


def test_a_prefix_ends_before_the_next_text() -> None:
    @settings(profile(500))
    @given(st.text(min_size=1), st.text())
    def check(prefix: str, text: str) -> None:
        end = filters.find_prefix_end(prefix)

        assert (prefix <= text and (end is None or text < end)) == text.startswith(prefix)

    check()


@pytest.mark.parametrize(
    "prefix, expected", [("a", "b"), ("a\U0010ffff", "b"), ("\U0010ffff", None), ("\ud7ff", "\ue000"), ("zz", "z{")]
)
def test_the_end_of_a_prefix_is_a_text(prefix: str, expected: str | None) -> None:
    assert filters.find_prefix_end(prefix) == expected


def test_many_filters_are_joined_without_depth(tmp_path: Path) -> None:
    dataset = lance.write_dataset(pa.table({"x": pa.array(range(10), pa.int32())}), str(tmp_path / "t.lance"))
    every = [filters.build_comparison("x", "=", pa.scalar(number % 5, pa.int32())) for number in range(3_000)]

    assert dataset.count_rows(filters.join_with_or(every)) == 5
    assert dataset.count_rows(filters.join_with_and(every)) == 0
