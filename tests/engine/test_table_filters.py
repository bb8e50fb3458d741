"""Numbers in the type of a column: the nearest ones at both sides, so that no row is lost by a conversion."""

import math
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

from omnigraph.engine.predicate_eval import evaluate
from omnigraph.engine.query_inputs import QueryInputs
from omnigraph.engine.table_filters import MAX_PUSHED_VALUES, build_table_filter, find_bounds
from omnigraph.query.expr import Expr, In, Prop
from omnigraph.schema.arrow import to_arrow_type
from omnigraph.schema.types import ListOf, Scalar, ValueType
from query import evaluate as meaning
from query.predicates import NOWHERE, compare, const, member, no

TENTH = 0.10000000149011612
"""The number of single precision that is nearest to a tenth; it is above."""
BELOW_TENTH = 0.09999999403953552


@pytest.mark.parametrize(
    "value, type_, low, high",
    [
        (3, Scalar.I32, 3, 3),
        (2.5, Scalar.I32, 2, 3),
        (-2.5, Scalar.I64, -3, -2),
        (3e9, Scalar.I32, 2**31 - 1, 2**31 - 1),
        (-1, Scalar.U64, 0, 0),
        (2**64, Scalar.U64, 2**64 - 1, 2**64 - 1),
        (math.inf, Scalar.I64, 2**63 - 1, 2**63 - 1),
        (-math.inf, Scalar.U32, 0, 0),
        (0.1, Scalar.F64, 0.1, 0.1),
        (0.1, Scalar.F32, BELOW_TENTH, TENTH),
        (TENTH, Scalar.F32, TENTH, TENTH),
        (2**53 + 1, Scalar.F64, float(2**53), float(2**53 + 2)),
        (2**24 + 1, Scalar.F32, float(2**24), float(2**24 + 2)),
        (1e39, Scalar.F32, 3.4028234663852886e38, math.inf),
        (2**64 - 1, Scalar.F64, 1.844674407370955e19, float(2**64)),
        (2**64 - 1, Scalar.F32, 1.8446742974197924e19, float(2**64)),
        ("a", Scalar.STRING, "a", "a"),
    ],
)
def test_the_neighbours_of_a_number_in_a_type(value: Any, type_: Scalar, low: Any, high: Any) -> None:
    assert find_bounds(value, type_) == (low, high)


@pytest.mark.parametrize("value", [None, math.nan])
def test_nothing_is_near_to_no_number(value: float | None) -> None:
    assert find_bounds(value, Scalar.F64) is None


def asked(type_: ValueType, op: str, value: Any, other: ValueType) -> str | None:
    column = Prop(variable="p", name="x", type=type_, nullable=True, origin=NOWHERE)
    return build_table_filter(compare(column, op, const(value, other)), QueryInputs({}, meaning.NOW))


@pytest.mark.parametrize(
    "op, value, expected",
    [
        ("<", 2.5, "`x` <= 2"),
        (">=", 2.5, "`x` >= 3"),
        ("=", 3.0, "`x` = 3"),
        ("<", 3.0, "`x` < 3"),
        ("<", 3e9, f"`x` <= {2**31 - 1}"),
        (">", -3e9, f"`x` >= {-(2**31)}"),
        ("!=", 2.5, None),
    ],
)
def test_a_comparison_with_a_fraction_is_one_of_integers(op: str, value: float, expected: str | None) -> None:
    assert asked(Scalar.I32, op, value, Scalar.F64) == expected


def test_what_is_not_equal_to_a_float_is_not_pushed() -> None:
    assert asked(Scalar.F64, "!=", 1.0, Scalar.F64) is None
    assert asked(Scalar.F64, "=", 1.0, Scalar.F64) == "`x` = CAST('1.0' AS DOUBLE)"


def test_a_long_list_and_what_is_denied_are_not_pushed() -> None:
    column = Prop(variable="p", name="x", type=Scalar.I32, nullable=True, origin=NOWHERE)
    inputs = QueryInputs({}, meaning.NOW)

    assert build_table_filter(member(column, *range(MAX_PUSHED_VALUES)), inputs) is not None
    assert build_table_filter(member(column, *range(MAX_PUSHED_VALUES + 1)), inputs) is None
    assert build_table_filter(no(compare(column, "=", const(1))), inputs) is None


@pytest.mark.parametrize(
    "column, given", [(Scalar.F32, Scalar.F64), (Scalar.F64, Scalar.F32), (Scalar.F32, Scalar.F32)]
)
@pytest.mark.parametrize("op", ["=", "!=", "<", "<=", ">", ">=", "in"])
def test_a_filter_of_fractions_passes_every_row_that_the_predicate_does(
    tmp_path: Path, op: str, column: Scalar, given: Scalar
) -> None:
    numbers = [0.1, 0.3, -0.1, 0.5, 0.0, -0.0, BELOW_TENTH, TENTH, 16777217.5, 16777217.0, 3.0, 1e-46, None]
    rows = pa.table({"x": pa.array(numbers, pa.float64()).cast(to_arrow_type(column))})
    dataset = lance.write_dataset(rows, str(tmp_path / "rows.lance"))
    prop = Prop(variable="p", name="x", type=column, nullable=True, origin=NOWHERE)
    inputs = QueryInputs({}, meaning.NOW)

    for number in numbers[:-1]:
        value = float(np.float32(number)) if given is Scalar.F32 else number
        if op == "in":
            predicate: Expr = In(element=prop, collection=const((value, 0.5), ListOf(given)), origin=NOWHERE)
        else:
            predicate = compare(prop, op, const(value, given))
        where = build_table_filter(predicate, inputs)
        passed = dataset.to_table(filter=where) if where is not None else dataset.to_table()
        kept = [evaluate(predicate, table, inputs).to_pylist().count(True) for table in (passed, rows)]

        assert kept[0] == kept[1], (number, where)
