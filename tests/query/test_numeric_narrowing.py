import math
import operator
import struct
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from omnigraph.query.expr import Op
from omnigraph.query.numeric_narrowing import find_exact, find_min_value, narrow, round_to_type
from omnigraph.schema.types import INTEGER_RANGES, Scalar
from property_profiles import SOME_AND_MANY, profile

COMPARE: dict[Op, Callable[[float, float], bool]] = {
    Op.EQ: operator.eq,
    Op.NE: operator.ne,
    Op.LT: operator.lt,
    Op.LE: operator.le,
    Op.GT: operator.gt,
    Op.GE: operator.ge,
}
NUMERIC = [scalar for scalar in Scalar if scalar.is_numeric]


def values(column: Scalar) -> st.SearchStrategy[float]:
    if column.is_integer:
        low, high = INTEGER_RANGES[column]
        return st.integers(low, high)
    return st.floats(allow_nan=False, allow_infinity=False, width=32 if column is Scalar.F32 else 64)


NUMBERS = st.one_of(
    st.integers(-(10**40), 10**40),
    st.integers(-5, 5),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63) - 1, 2**53 + 1, 0.1, -0.0, 3.4e38, 1e308]),
)


def as_stored(number: float, column: Scalar) -> float:
    """What an insert of the number would make of it, where that is a matter of rounding alone."""
    if column is Scalar.F32 and number % 1 != 0:
        return float(struct.unpack("<f", struct.pack("<f", number))[0])
    return number


def test_what_was_stored_as_a_fraction_is_found_by_it() -> None:
    stored = struct.unpack("<f", struct.pack("<f", 0.1))[0]

    found = narrow(Op.EQ, 0.1, Scalar.F32)

    assert (found.op, found.value) == (Op.EQ, stored)
    assert find_exact(0.1, Scalar.F32) == stored


@SOME_AND_MANY
def test_a_narrowed_comparison_says_the_same_of_every_value(examples: int) -> None:
    @profile(examples)
    @given(data=st.data(), column=st.sampled_from(NUMERIC), op=st.sampled_from(list(Op)), number=NUMBERS)
    def check(data: st.DataObject, column: Scalar, op: Op, number: float) -> None:
        value = data.draw(values(column) | st.just(round_to_type(number, column)) | st.just(find_min_value(column)))

        narrowed = narrow(op, number, column)

        assert COMPARE[narrowed.op](value, narrowed.value) == COMPARE[op](value, as_stored(number, column))

    check()


@given(column=st.sampled_from(NUMERIC), number=NUMBERS)
@example(column=Scalar.F32, number=0.1)
@example(column=Scalar.F32, number=1e300)
@example(column=Scalar.F64, number=10**400)
def test_a_narrowed_number_is_a_value_of_the_column(column: Scalar, number: float) -> None:
    value = narrow(Op.LT, number, column).value

    if column.is_integer:
        low, high = INTEGER_RANGES[column]
        assert isinstance(value, int)
        assert low <= value <= high
    else:
        assert isinstance(value, float)
        assert math.isfinite(value)
        assert column is Scalar.F64 or struct.unpack("<f", struct.pack("<f", value))[0] == value


@pytest.mark.parametrize(
    "number, column, expected",
    [(3, Scalar.F64, 3.0), (3.0, Scalar.I32, 3), (2.5, Scalar.I64, None), (2**31, Scalar.I32, None)],
)
def test_an_exact_number_has_the_columns_type(number: float, column: Scalar, expected: float | None) -> None:
    found = find_exact(number, column)

    assert found == expected
    assert type(found) is type(expected)
