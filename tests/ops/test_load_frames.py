"""Frames of polars and pandas, and Arrow tables as other tools write them: taken, or refused in our own words."""

import io
import json
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.engine.decoding.record_error import ColumnError
from omnigraph.errors import BadFileError

SCHEMA = """
node T {
  s: String?
  e: enum(a, b)?
  i: I64?
  f: F64?
  d: Date?
  t: DateTime?
  o: Bool?
  l: [String]?
  n: [I64]?
  v: Vector(2)?
}
"""
ENUM = pl.Enum(["b", "a"])
CATEGORY = pl.Categorical


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    return og.create_graph(str(tmp_path_factory.mktemp("frames") / "g.omni"), schema=SCHEMA)


def loaded(graph: og.Graph, data: Any) -> list[dict[str, Any]]:
    """What the rows say, without nulls, in the order of their ids."""
    graph.load(nodes={"T": data}, mode="overwrite")
    out = io.BytesIO()
    graph.export(out)
    rows = sorted(map(json.loads, out.getvalue().splitlines()), key=lambda one: str(one["id"]))
    return [{name: value for name, value in one["data"].items() if value is not None} for one in rows]


def three(name: str, values: Any) -> pl.DataFrame:
    return pl.DataFrame({"id": ["1", "2", "3"], name: values})


def table(name: str, column: Any) -> pa.Table:
    return pa.table({"id": [str(number) for number in range(len(column))], name: column})


TAKEN = {
    "categories of polars": (three("s", pl.Series(["b", None, "a"], dtype=CATEGORY)), [{"s": "b"}, {}, {"s": "a"}]),
    "categories as an enum": (three("e", pl.Series(["b", None, "a"], dtype=CATEGORY)), [{"e": "b"}, {}, {"e": "a"}]),
    "an enum of polars": (three("e", pl.Series(["b", None, "a"], dtype=ENUM)), [{"e": "b"}, {}, {"e": "a"}]),
    "an enum as text": (three("s", pl.Series(["b", None, "a"], dtype=ENUM)), [{"s": "b"}, {}, {"s": "a"}]),
    "lists of categories": (
        three("l", pl.Series([["b", "a"], None, []], dtype=pl.List(CATEGORY))),
        [{"l": ["b", "a"]}, {}, {"l": []}],
    ),
    "decimals of polars": (
        three("f", pl.Series([Decimal("1.50"), None, Decimal(2)], dtype=pl.Decimal(10, 2))),
        [{"f": 1.5}, {}, {"f": 2.0}],
    ),
    "nothing but nulls": (three("l", pl.Series([None] * 3, dtype=pl.Null)), [{}, {}, {}]),
    "ids that are categories": (pl.DataFrame({"id": pl.Series(["x"], dtype=CATEGORY), "i": [1]}), [{"i": 1}]),
    "categories of pandas": (
        pd.DataFrame({"id": ["1", "2"], "s": pd.Categorical(["b", None])}),
        [{"s": "b"}, {}],
    ),
    "a sliced dictionary of views": (
        table("s", pa.DictionaryArray.from_arrays([1, None, 0], pa.array(["a", "b"], pa.string_view()))).slice(1),
        [{}, {"s": "a"}],
    ),
    "runs": (table("i", pa.RunEndEncodedArray.from_arrays([2, 3], [7, None])), [{"i": 7}, {"i": 7}, {}]),
    "sliced runs": (table("i", pa.RunEndEncodedArray.from_arrays([2, 4], [7, 8])).slice(1, 2), [{"i": 7}, {"i": 8}]),
    "views of lists": (
        table("l", pa.array([["a"], None, ["b", "a"]], pa.list_view(pa.string()))),
        [{"l": ["a"]}, {}, {"l": ["b", "a"]}],
    ),
    "views of large lists": (table("n", pa.array([[1], None], pa.large_list_view(pa.int64()))), [{"n": [1]}, {}]),
    "large lists": (table("v", pa.array([[1, 2], None], pa.large_list(pa.float64()))), [{"v": [1.0, 2.0]}, {}]),
    "small decimals": (table("i", pa.array([Decimal(5), None], pa.decimal32(5, 0))), [{"i": 5}, {}]),
    "Bools in bytes": (table("o", pa.array([1, 0, None], pa.bool8())), [{"o": True}, {"o": False}, {}]),
    "texts of JSON": (table("s", pa.array(["[1]"], pa.json_(pa.string()))), [{"s": "[1]"}]),
}


@pytest.mark.parametrize("name", TAKEN)
def test_what_other_tools_write_is_taken_for_what_it_says(empty: og.Graph, name: str) -> None:
    data, expected = TAKEN[name]

    assert loaded(empty, data) == expected


REFUSED = {
    "durations": (pl.DataFrame({"t": [timedelta(1)]}), ColumnError, "the column of `t` holds duration"),
    "times of day": (pl.DataFrame({"t": [time(1)]}), ColumnError, "the column of `t` holds time64"),
    "times without a zone": (pl.DataFrame({"t": [datetime(2026, 1, 2)]}), ColumnError, "dt.replace_time_zone"),  # noqa: DTZ001 - the point
    "objects of polars": (pl.DataFrame({"s": pl.Series([object()], dtype=pl.Object)}), ColumnError, "is no String"),
    "structs": (pl.DataFrame({"s": [{"a": 1}]}), ColumnError, "which is no String"),
    "categories of numbers": (pd.DataFrame({"s": pd.Categorical([1])}), ColumnError, "holds int64"),
    "numbers among texts": (pd.DataFrame({"s": ["a", 1]}), ColumnError, 'the column "s" of the DataFrame holds object'),
    "complex numbers": (pd.DataFrame({"f": [1j]}), ColumnError, 'the column "f" of the DataFrame holds complex128'),
    "periods": (pd.DataFrame({"i": pd.period_range("2026", periods=1, freq="D")}), ColumnError, "which is no I64"),
    "a column twice": (pd.DataFrame([[1, 2]], columns=["i", "i"]), BadFileError, "a name of its own"),
    "sparse columns": (pd.DataFrame({"i": pd.arrays.SparseArray([0])}), BadFileError, "cast such columns"),
    "wide integers": (pl.DataFrame({"i": pl.Series([1], dtype=pl.Int128)}), BadFileError, "cast such columns"),
    "one column": (pl.Series("s", ["a"]), BadFileError, "give a table, such as series.to_frame()"),
    "a decimal that is no whole number": (
        pl.DataFrame({"i": pl.Series([Decimal("2.50")])}),
        og.LoadError,
        "2.50 can't be held exactly by I64",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_value_of_ours_is_refused_in_our_words(empty: og.Graph, name: str) -> None:
    data, kind, reason = REFUSED[name]

    with pytest.raises(kind) as refused:
        loaded(empty, data)

    assert reason in str(refused.value)


def test_a_plan_is_no_graph_jsonl_either(empty: og.Graph) -> None:
    plan: Any = pl.DataFrame({"s": ["a"]}).lazy()

    with pytest.raises(TypeError, match="a LazyFrame has rows of one type: pass it under the type's name"):
        empty.load(plan, mode="append")


def test_what_is_refused_of_categories_is_kept_as_text(empty: og.Graph, tmp_path: Path) -> None:
    frame = pl.DataFrame({"id": ["1", "2"], "e": pl.Series(["a", "c"], dtype=CATEGORY), "d": [date(2026, 1, 2)] * 2})

    empty.load(nodes={"T": frame}, mode="overwrite", on_error=tmp_path / "kept")

    (kept,) = (tmp_path / "kept" / "rejected.jsonl").read_text().splitlines()
    assert json.loads(kept) == {"type": "T", "id": "2", "data": {"e": "c", "d": "2026-01-02"}}


def test_a_column_of_half_floats_is_a_vector_of_numbers(empty: og.Graph) -> None:
    halves = pa.FixedSizeListArray.from_arrays(pa.array(np.array([0.5, 2], np.float16)), 2)

    assert loaded(empty, table("v", halves)) == [{"v": [0.5, 2.0]}]
