"""Numbers of any two types compare, and are found in lists, as Python's exact numbers do."""

import operator
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.engine.in_list_eval import is_in_items, is_in_list
from omnigraph.engine.numeric_compare import compare_exactly, round_fractions
from omnigraph.query.expr import Op
from omnigraph.schema.arrow import to_arrow_type
from omnigraph.schema.types import INTEGER_RANGES, Scalar
from property_profiles import profile

OPS: dict[Op, Callable[[float, float], bool]] = {
    Op.EQ: operator.eq,
    Op.NE: operator.ne,
    Op.LT: operator.lt,
    Op.LE: operator.le,
    Op.GT: operator.gt,
    Op.GE: operator.ge,
}
EDGES = (0, 1, 2**24, 2**31, 2**32, 2**53, 2**63, 2**64)
INTEGERS = sorted({sign * edge + step for edge in EDGES for sign in (1, -1) for step in (-1, 0, 1)})
FLOATS = [float(number) for number in INTEGERS] + [-0.0, 0.5, -0.5, 1.5, -1.1, 2.0**53 + 2, 1e300, -1e300]
TYPES = st.sampled_from([Scalar.I32, Scalar.I64, Scalar.U32, Scalar.U64, Scalar.F64])


def numbers(type_: Scalar) -> st.SearchStrategy[list[float | None]]:
    if type_ is Scalar.F64:
        return st.lists(st.sampled_from([*FLOATS, None]), min_size=6, max_size=6)
    low, high = INTEGER_RANGES[type_]
    fitting = [number for number in INTEGERS if low <= number <= high]
    return st.lists(st.sampled_from([*fitting, None]), min_size=6, max_size=6)


@profile(200)
@given(data=st.data(), left=TYPES, right=TYPES, op=st.sampled_from(Op))
def test_columns_compare_exactly_row_by_row(data: st.DataObject, left: Scalar, right: Scalar, op: Op) -> None:
    a, b = data.draw(numbers(left)), data.draw(numbers(right))

    found = compare_exactly(op, pa.array(a, to_arrow_type(left)), pa.chunked_array([pa.array(b, to_arrow_type(right))]))

    expected = [None if x is None or y is None else OPS[op](x, y) for x, y in zip(a, b, strict=True)]
    assert found.to_pylist() == expected


@pytest.mark.parametrize("op", Op)
def test_a_column_compares_with_a_single_value(op: Op) -> None:
    column = pa.array([2**53, 2**53 + 1, None], pa.int64())

    found = compare_exactly(op, column, pa.scalar(2.0**53))

    assert found.to_pylist() == [OPS[op](2**53, 2.0**53), OPS[op](2**53 + 1, 2.0**53), None]


@profile(200)
@given(data=st.data(), element=TYPES, item=TYPES)
def test_a_number_is_one_of_those_that_equal_it_exactly(data: st.DataObject, element: Scalar, item: Scalar) -> None:
    values = data.draw(numbers(element))
    items = [number for number in data.draw(numbers(item)) if number is not None]

    found = is_in_items(pa.array(values, to_arrow_type(element)), element, items, item)

    assert found.to_pylist() == [None if value is None else value in items for value in values]


def test_only_fractions_are_rounded_for_an_f32() -> None:
    column = pa.array([0.1, None, -0.0, 16777217.0, 1e300, -16777217.5, 1e-300])

    found = round_fractions(pa.chunked_array([column.slice(0, 3), column.slice(3)]))

    assert found.to_pylist() == [0.10000000149011612, None, 0.0, 16777217.0, 1e300, -16777218.0, 0.0]
    assert round_fractions(pa.scalar(0.1)).as_py() == 0.10000000149011612
    assert round_fractions(pa.scalar(None, pa.float64())).as_py() is None


def test_a_value_is_in_the_list_beside_it() -> None:
    lists = pa.array([["x", "y"], [], None, ["y"], ["z"]], pa.list_(pa.string()))
    values = pa.array(["y", "y", "y", None, "y"])

    found = is_in_list(values, lists, pc.equal)

    assert found.to_pylist() == [True, False, None, None, False]


def test_a_part_of_a_column_of_lists_is_read_in_its_place() -> None:
    lists = pa.array([["x"], ["y"], ["x", "z"]], pa.list_(pa.string())).slice(1)

    found = is_in_list(pa.array(["y", "x"]), lists, pc.equal)

    assert found.to_pylist() == [True, True]
