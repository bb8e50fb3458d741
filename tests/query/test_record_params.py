"""Lists of records as parameters: checked field by field, held in columns."""

from datetime import date
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from omnigraph.lang.source import Span
from omnigraph.query.expr import ArrayOf, Parameter, RecordOf
from omnigraph.query.params import ParameterError, ParamText, check_params
from omnigraph.query.record_params import RecordRows
from omnigraph.schema.types import ListOf, Scalar, VectorOf

FIELDS = (
    ("name", Scalar.STRING),
    ("age", Scalar.I32),
    ("born", Scalar.DATE),
    ("tags", ListOf(Scalar.STRING)),
    ("vec", VectorOf(2)),
)
ROWS = Parameter(name="rows", type=ArrayOf(RecordOf(FIELDS, frozenset({"name"}))), origin=Span(0, 0))


def checked(value: object) -> dict[str, tuple[Any, ...]]:
    rows = check_params([ROWS], {"rows": value})["rows"]
    assert isinstance(rows, RecordRows)
    assert all(len(column) == len(rows) for column in rows.columns)
    return dict(zip(rows.names, rows.columns, strict=True))


def test_a_field_that_is_left_out_is_null() -> None:
    found = checked([{"name": "a", "age": 1, "born": "2020-02-29", "tags": ["x"], "vec": [1, 2.5]}, {"name": "b"}])

    assert found == {
        "name": ("a", "b"),
        "age": (1, None),
        "born": (date(2020, 2, 29), None),
        "tags": (("x",), None),
        "vec": ((1.0, 2.5), None),
    }


def test_no_records_are_a_value() -> None:
    assert checked([]) == {"name": (), "age": (), "born": (), "tags": (), "vec": ()}


@pytest.mark.parametrize(
    "value",
    [
        pd.DataFrame({"name": ["a", "b"], "age": [1, None]}),
        pl.DataFrame({"name": ["a", "b"], "age": [1, None]}),
        pa.table({"name": ["a", "b"], "age": [1, None]}),
        pa.record_batch({"name": ["a", "b"], "age": [1, None]}),
        ({"name": "a", "age": np.int64(1)}, {"name": "b", "age": pd.NA}),
        ParamText('[{"name": "a", "age": 1}, {"name": "b"}]'),
    ],
    ids=["pandas", "polars", "arrow table", "arrow batch", "scalars of numpy", "text"],
)
def test_tables_of_other_libraries_are_records(value: object) -> None:
    found = checked(value)

    assert (found["name"], found["age"], found["vec"]) == (("a", "b"), (1, None), (None, None))


def test_a_numpy_array_with_named_fields_is_a_list_of_records() -> None:
    found = checked(np.array([("a", 1), ("b", 2)], dtype=[("name", "U3"), ("age", "i4")]))

    assert (found["name"], found["age"]) == (("a", "b"), (1, 2))


@pytest.mark.parametrize(
    "value, problem",
    [
        ([{"name": "a"}, {"age": 3}], "item 2: `name` is missing, but it is required"),
        ([{"name": None}], "item 1: `name` is null, but it is required"),
        ([{"name": "a"}, {"name": "b", "age": 2**31}], "item 2: `age`: expected a whole number"),
        ([{"name": "a", "age": True}], "item 1: `age`: expected a whole number"),
        ([{"name": "a", "born": "2020-02-30"}], "item 1: `born`: "),
        ([{"name": "a", "tags": ["x", 1]}], "item 1: `tags`: item 2: expected a string"),
        ([{"name": "a", "vec": [1]}], "item 1: `vec`: "),
        ([{"nam": "a"}], "item 1: unknown field `nam`; did you mean `name`?"),
        ([{"name": "a"}, 3], "item 2: expected a record {name: String, age: I32?"),
        ({"name": "a"}, "expected a list of records"),
        ("x", "expected a list of records"),
        (ParamText("{"), "expected a JSON array of records"),
        (pa.table({"name": ["a"], "other": [1]}), "unknown field `other`"),
    ],
)
def test_a_wrong_record_is_refused_with_its_number_and_field(value: object, problem: str) -> None:
    with pytest.raises(ParameterError) as caught:
        check_params([ROWS], {"rows": value})

    (found,) = caught.value.problems
    assert found.name == "rows"
    assert f"parameter `$rows: {ROWS.type}`: {problem}" in found.reason


def test_the_number_counts_across_chunks() -> None:
    rows = [{"name": "a"}] * 70_000 + [{"name": "a", "age": "x"}]

    with pytest.raises(ParameterError, match="item 70001: `age`"):
        check_params([ROWS], {"rows": rows})


def test_a_long_list_can_be_cancelled() -> None:
    calls = iter(range(3))

    def check() -> None:
        if next(calls, None) is None:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        check_params([ROWS], {"rows": [{"name": "a"}] * 200_000}, check)
