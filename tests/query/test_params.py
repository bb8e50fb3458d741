import pickle
from array import array
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from omnigraph.errors import Kind
from omnigraph.lang.source import Span
from omnigraph.query.expr import Parameter
from omnigraph.query.params import ParameterError, check_param_texts, check_params, parse_param_text
from omnigraph.schema.types import EnumOf, ListOf, Scalar, ValueType, VectorOf
from omnigraph.schema.values import InvalidValue

NOWHERE = Span(0, 0)
NAME = Parameter(name="name", type=Scalar.STRING, origin=NOWHERE)
AGE = Parameter(name="age", type=Scalar.I32, origin=NOWHERE)
CITY = Parameter(name="city", type=Scalar.STRING, nullable=True, origin=NOWHERE)


def check_one(type_: ValueType, value: object) -> object:
    return check_params([Parameter(name="x", type=type_, origin=NOWHERE)], {"x": value})["x"]


def problem_of(type_: ValueType, value: object) -> str:
    with pytest.raises(ParameterError) as caught:
        check_one(type_, value)
    return str(caught.value)


def test_values_come_back_typed_and_in_declared_order() -> None:
    given = {"age": 42, "name": "Ada"}

    checked = check_params([NAME, AGE, CITY], given)

    assert list(checked.items()) == [("name", "Ada"), ("age", 42), ("city", None)]


def test_an_explicit_null_is_a_value_of_a_nullable_parameter() -> None:
    assert check_params([CITY], {"city": None}) == {"city": None}


def test_an_unknown_name_is_refused_with_a_near_miss() -> None:
    with pytest.raises(ParameterError) as caught:
        check_params([NAME], {"name": "Ada", "nmae": "Bob"})

    assert str(caught.value) == "unknown parameter `$nmae`; did you mean `$name`?"


def test_of_many_unknown_names_the_first_get_a_near_miss() -> None:
    given = {f"name{number:03}": "x" for number in range(200)}

    with pytest.raises(ParameterError) as caught:
        check_params([Parameter(name="name001x", type=Scalar.STRING, origin=NOWHERE)], given)

    near = [problem for problem in caught.value.problems if problem.help == "did you mean `$name001x`?"]
    assert 0 < len(near) <= 50


def test_an_unknown_name_far_from_all_lists_what_the_query_takes() -> None:
    with pytest.raises(ParameterError) as caught:
        check_params([NAME, CITY], {"name": "Ada", "zzzzzz": 1})

    assert str(caught.value) == "unknown parameter `$zzzzzz`; the query takes `$name`, `$city`"


def test_any_parameter_of_a_query_without_parameters_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"the query takes no parameters"):
        check_params([], {"name": "Ada"})


def test_a_missing_required_parameter_is_refused() -> None:
    with pytest.raises(ParameterError) as caught:
        check_params([NAME], {})

    assert str(caught.value) == "parameter `$name: String` is missing; give it, or declare it `String?`"


def test_null_for_a_required_parameter_is_refused() -> None:
    with pytest.raises(ParameterError) as caught:
        check_params([NAME], {"name": None})

    assert "parameter `$name: String` is null, but it is required" in str(caught.value)


def test_all_problems_stand_in_one_error() -> None:
    with pytest.raises(ParameterError) as caught:
        check_params([NAME, AGE, CITY], {"nmae": "Ada", "age": "old", "city": 7})

    assert [problem.name for problem in caught.value.problems] == ["nmae", "name", "age", "city"]


def test_a_refused_value_is_named_with_parameter_type_and_value() -> None:
    with pytest.raises(ParameterError) as caught:
        check_params([AGE], {"age": 2**40})

    problem = caught.value.problems[0]
    assert (problem.name, problem.type, problem.value) == ("age", "I32", str(2**40))
    assert problem.reason.startswith("parameter `$age: I32`: expected a whole number from -2147483648 to")


@pytest.mark.parametrize("value", ["x" * 10_000, [0.5] * 10_000, 10**5_000], ids=["text", "list", "number"])
def test_a_long_value_is_clipped_in_the_message(value: object) -> None:
    assert len(problem_of(Scalar.BOOL, value)) < 400


def test_the_error_survives_pickling_with_its_facts() -> None:
    with pytest.raises(ParameterError) as caught:
        check_params([NAME, AGE], {"age": True})

    copy = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own bytes, made one call earlier

    assert str(copy) == str(caught.value)
    assert copy.facts() == caught.value.facts()
    assert (copy.kind, copy.code) == (Kind.INVALID, "invalid_parameters")


@pytest.mark.parametrize(
    "type_,value",
    [
        (Scalar.STRING, 1),
        (Scalar.STRING, datetime(2026, 1, 2, tzinfo=UTC)),
        (Scalar.BOOL, 1),
        (Scalar.BOOL, "true"),
        (Scalar.I32, True),
        (Scalar.I32, 1.0),
        (Scalar.I32, "1"),
        (Scalar.U64, -1),
        (Scalar.F64, True),
        (Scalar.F64, "1.5"),
        (Scalar.F64, float("nan")),
        (Scalar.F64, float("inf")),
        (Scalar.DATE, datetime(2026, 1, 2, tzinfo=UTC)),
        (Scalar.DATE, "2026-1-2"),
        (Scalar.DATETIME, datetime(2026, 1, 2)),  # noqa: DTZ001 - the naive datetime is the point
        (Scalar.DATETIME, date(2026, 1, 2)),
        (Scalar.DATETIME, "2026-01-02T03:04:05"),
        (Scalar.BLOB, [1, 2]),
        (ListOf(Scalar.STRING), "abc"),
        (ListOf(Scalar.I64), {1: 2}),
        (ListOf(Scalar.I64), [1, "x"]),
        (ListOf(Scalar.DATETIME), [datetime(2026, 1, 2)]),  # noqa: DTZ001 - as above
        (VectorOf(2), [1.0]),
        (VectorOf(2), [1.0, float("inf")]),
        (VectorOf(2), b"ab"),
        (EnumOf(("a", "b")), "c"),
    ],
)
def test_nothing_is_converted_silently(type_: ValueType, value: object) -> None:
    assert problem_of(type_, value).startswith(f"parameter `$x: {type_}`: ")


@pytest.mark.parametrize(
    "type_,value,expected",
    [
        (Scalar.DATE, date(2026, 1, 2), date(2026, 1, 2)),
        (Scalar.BLOB, b"\x00\xff", "base64:AP8="),
        (ListOf(Scalar.I64), (1, 2), (1, 2)),
        (ListOf(Scalar.DATE), [date(2026, 1, 2), "2026-01-03"], (date(2026, 1, 2), date(2026, 1, 3))),
        (VectorOf(2), array("f", [0.5, 0.25]), (0.5, 0.25)),
        (VectorOf(3), range(3), (0.0, 1.0, 2.0)),
        (Scalar.U64, 2**64 - 1, 2**64 - 1),
    ],
)
def test_python_values_of_the_type_are_taken(type_: ValueType, value: object, expected: object) -> None:
    assert check_one(type_, value) == expected


@pytest.mark.parametrize(
    "type_,value,expected",
    [
        (Scalar.F64, np.float16(0.5), 0.5),
        (Scalar.F64, np.float32(0.1), 0.10000000149011612),
        (Scalar.F32, np.float32(0.1), 0.10000000149011612),
        (Scalar.F64, np.int32(3), 3.0),
        (Scalar.F64, np.longdouble(0.5), 0.5),
        (Scalar.BOOL, np.bool_(True), True),
        (Scalar.I64, np.uint8(7), 7),
        (Scalar.STRING, np.str_("a"), "a"),
        (Scalar.DATE, np.datetime64("2026-01-02"), date(2026, 1, 2)),
        (Scalar.F64, Decimal("1.5"), 1.5),
        (Scalar.F64, Decimal(2), 2.0),
        (Scalar.I64, Decimal(9007199254740993), 9007199254740993),
        (Scalar.DATETIME, pd.Timestamp("2026-01-02T03:04:05", tz="UTC"), datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        (ListOf(Scalar.F64), np.array([1, 2], np.int32), (1.0, 2.0)),
        (ListOf(Scalar.F64), [np.float32(0.5), Decimal("0.25"), 1], (0.5, 0.25, 1.0)),
        (ListOf(Scalar.DATE), np.array(["2026-01-02"], "datetime64[D]"), (date(2026, 1, 2),)),
        (VectorOf(2), [np.float16(0.5), np.int8(1)], (0.5, 1.0)),
    ],
)
def test_values_of_other_libraries_are_taken_where_they_say_exactly_the_same(
    type_: ValueType, value: object, expected: object
) -> None:
    checked = check_one(type_, value)

    assert checked == expected
    assert type(checked) is type(expected)


@pytest.mark.parametrize("value", [pd.NA, pd.NaT, np.datetime64("NaT"), None])
def test_a_missing_value_of_pandas_is_null(value: object) -> None:
    assert check_params([CITY], {"city": value}) == {"city": None}
    assert "is null, but it is required" in problem_of(Scalar.I64, value)


@pytest.mark.parametrize(
    "type_,value,reason",
    [
        (Scalar.DATETIME, pd.Timestamp("2026-01-02"), 'value.tz_localize("UTC")'),
        (Scalar.DATETIME, datetime(2026, 1, 2), "value.replace(tzinfo=UTC)"),  # noqa: DTZ001 - the naive one is the point
        (Scalar.DATETIME, np.datetime64("2026-01-02T03:04:05", "ns"), "a time needs its zone"),
        (ListOf(Scalar.DATETIME), np.array(["2026-01-02T03"], "datetime64[ns]"), "a time needs its zone"),
        (Scalar.DATETIME, np.datetime64("2026-01-02T03:04:05.000000001", "ns"), "finer than a microsecond"),
        (Scalar.DATE, np.datetime64("2026-01-02T03", "ns"), "expected a date"),
        (Scalar.DATE, np.datetime64("2026"), "is not a single day; give value.astype('datetime64[D]')"),
        (Scalar.F64, Decimal("0.1"), "can't be held exactly by a float; give float(…) if rounding is meant"),
        (Scalar.F64, Decimal("NaN"), "is not a number"),
        (Scalar.I64, Decimal("1.5"), "expected a whole number"),
        (Scalar.I64, Decimal("1e400"), "more than 40 digits"),
        (Scalar.F64, np.longdouble(1) / 3, "give float(…)"),
        (Scalar.F64, np.float32("nan"), "expected a finite number"),
        (Scalar.I64, np.float32(1), "expected a whole number"),
        (Scalar.I64, np.bool_(True), "expected a whole number"),
        (Scalar.I64, np.datetime64("2026-01-02T03", "ns"), "expected a whole number"),
        (Scalar.F64, np.complex64(1), "got a complex"),
        (Scalar.STRING, Decimal(1), "expected a string"),
        (ListOf(Scalar.I64), [1, pd.NA], "item 2: expected a whole number"),
    ],
)
def test_what_another_library_says_otherwise_is_refused_with_the_way_out(
    type_: ValueType, value: object, reason: str
) -> None:
    assert reason in problem_of(type_, value)


def test_an_integer_of_another_library_is_taken_for_what_it_says() -> None:
    class Seven:
        def __index__(self) -> int:
            return 7

    checked = check_one(Scalar.I64, Seven())

    assert checked == 7
    assert type(checked) is int


def test_an_array_is_no_integer() -> None:
    class Pair:
        def __index__(self) -> int:
            message = "only single integers"
            raise TypeError(message)

    assert "got a Pair" in problem_of(Scalar.I64, Pair())


def test_an_aware_datetime_becomes_the_same_instant_in_utc() -> None:
    local = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=timezone(timedelta(hours=5, minutes=30)))

    checked = check_one(Scalar.DATETIME, local)

    assert checked == local
    assert isinstance(checked, datetime)
    assert checked.tzinfo is UTC


def test_an_instant_that_utc_cannot_hold_is_refused() -> None:
    first = datetime.min.replace(tzinfo=timezone(timedelta(hours=1)))

    assert "outside the years" in problem_of(Scalar.DATETIME, first)


@pytest.mark.parametrize(
    "type_,text,expected",
    [
        (Scalar.STRING, "42", "42"),
        (Scalar.STRING, "null", "null"),
        (Scalar.STRING, "", ""),
        (Scalar.BOOL, "true", True),
        (Scalar.I64, "-42", -42),
        (Scalar.U64, str(2**64 - 1), 2**64 - 1),
        (Scalar.F64, "1.5e3", 1500.0),
        (Scalar.F64, "2", 2.0),
        (Scalar.DATE, "2026-01-02", date(2026, 1, 2)),
        (Scalar.DATETIME, "2026-01-02T03:04:05Z", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        (Scalar.BLOB, "base64:AP8=", "base64:AP8="),
        (EnumOf(("a", "b")), "b", "b"),
        (ListOf(Scalar.STRING), '["a", "b"]', ("a", "b")),
        (VectorOf(2), "[1, 0.5]", (1.0, 0.5)),
    ],
)
def test_a_text_is_read_by_the_declared_type(type_: ValueType, text: str, expected: object) -> None:
    value = parse_param_text(type_, text)

    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(
    "type_,text",
    [
        (Scalar.BOOL, "True"),
        (Scalar.BOOL, "1"),
        (Scalar.I64, "4.0"),
        (Scalar.I64, '"42"'),
        (Scalar.I64, "null"),
        (Scalar.I64, "0x10"),
        (Scalar.I64, "9" * 5_000),
        (Scalar.F64, "NaN"),
        (Scalar.F64, "1e999"),
        (Scalar.DATE, "yesterday"),
        (ListOf(Scalar.I64), "1,2"),
        (ListOf(Scalar.I64), "[" * 100_000),
        (VectorOf(2), "null"),
    ],
)
def test_a_text_that_is_no_value_of_the_type_is_refused(type_: ValueType, text: str) -> None:
    assert isinstance(parse_param_text(type_, text), InvalidValue)


def test_texts_of_a_command_line_are_checked_together() -> None:
    with pytest.raises(ParameterError) as caught:
        check_param_texts([NAME, AGE], {"age": "old", "nam": "Ada"})

    assert [problem.name for problem in caught.value.problems] == ["nam", "name", "age"]


def test_texts_of_a_command_line_give_typed_values() -> None:
    assert check_param_texts([NAME, AGE, CITY], {"name": "7", "age": "7"}) == {"name": "7", "age": 7, "city": None}


def test_a_long_list_is_checked_as_a_short_one_and_looks_at_the_clock_on_the_way() -> None:
    names = Parameter(name="names", type=ListOf(Scalar.STRING), origin=NOWHERE)
    looked: list[None] = []

    checked = check_params([names], {"names": ["a", "b"] * 100_000}, lambda: looked.append(None))

    assert checked == {"names": ("a", "b") * 100_000}
    assert len(looked) > 2


def test_the_message_about_a_long_list_says_where_it_is_wrong() -> None:
    names = Parameter(name="names", type=ListOf(Scalar.STRING), origin=NOWHERE)
    given = ["a"] * 100_000 + [1] + ["a"] * 100_000

    with pytest.raises(ParameterError) as caught:
        check_params([names], {"names": given})
    with pytest.raises(ParameterError) as short:
        check_params([names], {"names": ["a", 1]})

    assert str(caught.value) == str(short.value).replace("item 2", "item 100001").replace("[1]", "[100000]")


def test_a_caller_who_gives_up_meanwhile_is_obeyed() -> None:
    class GoneError(Exception):
        """The caller has left."""

    def leave() -> None:
        raise GoneError

    with pytest.raises(GoneError):
        check_params([NAME], {"name": "Ada"}, leave)
