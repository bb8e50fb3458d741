"""Values: what fits which type, what is said when it does not, and the way back to JSON."""

import math
from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.lang.literals import (
    BoolLiteral,
    DateLiteral,
    DateTimeLiteral,
    FloatLiteral,
    IntLiteral,
    ListLiteral,
    Literal,
    NullLiteral,
    StringLiteral,
)
from omnigraph.lang.source import Span
from omnigraph.schema.catalog import Value
from omnigraph.schema.types import INTEGER_RANGES, EnumOf, ListOf, Scalar, ValueType, VectorOf
from omnigraph.schema.values import InvalidValue, derive_id, format_key, format_value, from_json, from_literal, to_json

HERE = Span(0, 1)
STATE = EnumOf(("on", "off"))
INTEGERS = tuple(INTEGER_RANGES)
EVERY_TYPE: tuple[ValueType, ...] = (*Scalar, STATE, ListOf(Scalar.I64), ListOf(Scalar.DATE), VectorOf(3))


def reason(value: Value | InvalidValue) -> str:
    assert isinstance(value, InvalidValue), f"{value!r} fits"
    return value.reason


# --- whole numbers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("scalar", INTEGERS)
def test_an_integer_type_takes_its_bounds_and_nothing_beyond(scalar: Scalar) -> None:
    low, high = INTEGER_RANGES[scalar]

    taken = (from_json(scalar, low), from_json(scalar, high))
    refused = (from_json(scalar, low - 1), from_json(scalar, high + 1))

    assert taken == (low, high)
    assert all(isinstance(value, InvalidValue) for value in refused)


def test_a_misfit_says_the_range_and_the_value() -> None:
    found = from_json(Scalar.I32, 3_000_000_000)

    assert found == InvalidValue("expected a whole number from -2147483648 to 2147483647, got 3000000000")


@pytest.mark.parametrize("value", [1.0, True, "1", [1], {"a": 1}, None, math.nan])
@pytest.mark.parametrize("scalar", [Scalar.I32, Scalar.U32])
def test_only_a_whole_number_is_an_integer(scalar: Scalar, value: object) -> None:
    assert isinstance(from_json(scalar, value), InvalidValue)


@pytest.mark.parametrize(
    "text, value", [("0", 0), ("-9223372036854775808", -(2**63)), ("9223372036854775807", 2**63 - 1), ("007", 7)]
)
def test_a_64_bit_integer_may_be_a_decimal_string(text: str, value: int) -> None:
    assert from_json(Scalar.I64, text) == value


@pytest.mark.parametrize(
    "text", ["", "+1", " 1", "1 ", "1.0", "1e3", "0x1", "١", "1_000", "9223372036854775808", "9" * 5000]
)
def test_other_strings_are_no_64_bit_integer(text: str) -> None:
    assert isinstance(from_json(Scalar.I64, text), InvalidValue)


def test_a_decimal_string_is_for_json_only() -> None:
    assert isinstance(from_literal(Scalar.I64, StringLiteral("1", HERE)), InvalidValue)


# --- floats --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("type_", [Scalar.F32, Scalar.F64])
def test_a_float_is_finite(type_: Scalar, value: float) -> None:
    assert "finite" in reason(from_json(type_, value))


def test_a_float_takes_an_integer_that_it_can_hold() -> None:
    assert from_json(Scalar.F64, 2**53) == float(2**53)
    assert from_json(Scalar.F32, 2**24) == float(2**24)


@pytest.mark.parametrize("type_, value", [(Scalar.F64, 2**53 + 1), (Scalar.F32, 2**24 + 1)])
def test_a_float_refuses_an_integer_that_it_would_round(type_: Scalar, value: int) -> None:
    assert "exactly" in reason(from_json(type_, value))


@pytest.mark.parametrize("type_, value", [(Scalar.F32, 1e39), (Scalar.F32, 3.5e38), (Scalar.F64, 10**400)])
def test_a_float_refuses_what_is_too_large(type_: Scalar, value: float) -> None:
    assert "too large" in reason(from_json(type_, value))


def test_a_32_bit_float_is_rounded_once_and_shown_short() -> None:
    value = from_json(Scalar.F32, 0.1)

    assert not isinstance(value, InvalidValue)
    assert value == 0.10000000149011612
    assert to_json(Scalar.F32, value) == 0.1


def test_a_32_bit_float_that_needs_8_digits_has_8() -> None:
    value = from_json(Scalar.F32, 0.13436424732208252)

    assert not isinstance(value, InvalidValue)
    assert repr(to_json(Scalar.F32, value)) == "0.13436425"


def test_a_float32_that_needs_nine_digits_is_shown_with_nine() -> None:
    value = from_json(Scalar.F32, -0.0141924545)

    assert value == -0.014192454516887665
    assert repr(to_json(Scalar.F32, value)) == "-0.0141924545"


def test_a_boolean_is_not_a_number() -> None:
    assert isinstance(from_json(Scalar.F64, True), InvalidValue)


# --- text ------------------------------------------------------------------------------------------------


def test_half_of_a_surrogate_pair_is_no_text() -> None:
    assert "surrogate" in reason(from_json(Scalar.STRING, "ab\ud800"))


def test_an_enum_says_its_values() -> None:
    assert reason(from_json(STATE, "half")) == 'expected one of on, off, got "half"'


def test_a_long_value_is_clipped_in_the_message() -> None:
    found = reason(from_json(Scalar.BOOL, "x" * 10_000))

    assert len(found) < 150
    assert "10000 characters" in found


def test_a_huge_number_is_not_spelled_out() -> None:
    assert reason(from_json(Scalar.U64, 10**5000)).endswith("a number of more than 40 digits")


def test_control_characters_are_escaped_in_messages() -> None:
    assert format_value("a\x1b[31mb") == r'"a\u001b[31mb"'


@pytest.mark.parametrize("text", ["base64:", "base64:AAEC", "s3://bucket/key", "file:///a%20b", "https://x.org/a?b#c"])
def test_a_blob_is_base64_or_a_uri_and_stays_text(text: str) -> None:
    assert from_json(Scalar.BLOB, text) == text


@pytest.mark.parametrize("text", ["base64:AAE", "base64:A A=", "base64:é", "just text", "", "a b://c", "s3:"])
def test_other_text_is_no_blob(text: str) -> None:
    assert isinstance(from_json(Scalar.BLOB, text), InvalidValue)


def test_bytes_are_shown_as_base64() -> None:
    assert to_json(Scalar.BLOB, b"\x00\x01") == "base64:AAE="


# --- dates and times -------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["0001-01-01", "2024-02-29", "9999-12-31"])
def test_a_date_keeps_its_text(text: str) -> None:
    assert to_json(Scalar.DATE, date.fromisoformat(text)) == text
    assert from_json(Scalar.DATE, text) == date.fromisoformat(text)


@pytest.mark.parametrize(
    "text",
    [
        "2023-02-29",
        "0000-01-01",
        "2024-1-1",
        "20240101",
        "2024-01-01T00:00:00Z",
        "2024-01-01\n",
        " 2024-01-01",
        "２０24-01-01",
    ],
)
def test_other_text_is_no_date(text: str) -> None:
    assert isinstance(from_json(Scalar.DATE, text), InvalidValue)


@pytest.mark.parametrize(
    "text, canonical",
    [
        ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"),
        ("2026-01-02t03:04:05z", "2026-01-02T03:04:05Z"),
        ("2026-01-02T03:04:05.123456Z", "2026-01-02T03:04:05.123456Z"),
        ("2026-01-02T03:04:05.5Z", "2026-01-02T03:04:05.500000Z"),
        ("2026-01-02T03:04:05.000Z", "2026-01-02T03:04:05Z"),
        ("2026-01-02T03:04:05.123456000Z", "2026-01-02T03:04:05.123456Z"),
        ("2026-01-02T03:04:05+05:30", "2026-01-01T21:34:05Z"),
        ("2026-01-02T03:04:05-00:00", "2026-01-02T03:04:05Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
        ("9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999999Z"),
    ],
)
def test_a_time_has_one_canonical_text(text: str, canonical: str) -> None:
    value = from_json(Scalar.DATETIME, text)

    assert not isinstance(value, InvalidValue)
    assert to_json(Scalar.DATETIME, value) == canonical


@pytest.mark.parametrize(
    "text, why",
    [
        ("2026-01-02T03:04:05", "no zone"),
        ("2026-01-02", "no zone"),
        ("2026-01-02 03:04:05", "no zone"),
        ("2026-01-02T03:04:60Z", "leap second"),
        ("2026-01-02T03:04:05.1234567Z", "microsecond"),
        ("2026-01-02T24:00:00Z", "calendar"),
        ("2026-02-30T00:00:00Z", "calendar"),
        ("0001-01-01T00:00:00+00:01", "calendar"),
        ("9999-12-31T23:59:59-00:01", "calendar"),
        ("2026-01-02T03:04:05+24:00", "zone"),
        ("2026-01-02T03:04:05+05:60", "zone"),
        ("2026-01-02T03:04:05+0530", "expected a time"),
        ("2026-01-02T03:04Z", "expected a time"),
        ("2026-01-02T03:04:05.Z", "expected a time"),
        ("2026-01-02T03:04:05Z\n", "expected a time"),
    ],
)
def test_a_time_that_is_none_says_why(text: str, why: str) -> None:
    assert why in reason(from_json(Scalar.DATETIME, text))


def test_a_time_is_held_in_utc() -> None:
    value = from_json(Scalar.DATETIME, "2026-01-02T03:04:05+01:00")

    assert isinstance(value, datetime)
    assert value.tzinfo is UTC


def test_a_time_without_a_zone_can_not_be_shown() -> None:
    with pytest.raises(ValueError, match="zone"):
        to_json(Scalar.DATETIME, datetime(2026, 1, 2))  # noqa: DTZ001 - the missing zone is the point


# --- lists and vectors -------------------------------------------------------------------------------------


def test_a_list_names_the_item_that_does_not_fit() -> None:
    assert reason(from_json(ListOf(Scalar.BOOL), [True, 1])) == "item 2: expected true or false, got 1"


def test_a_list_has_no_nulls() -> None:
    assert reason(from_json(ListOf(Scalar.STRING), ["a", None])).startswith("item 2:")


@given(
    st.sampled_from([Scalar.I32, Scalar.U64, Scalar.F32, Scalar.F64, Scalar.STRING, Scalar.BOOL]),
    st.lists(
        st.sampled_from([0, -1, 2**31, 2**64, True, 1.5, -0.0, float("nan"), float("inf"), "a", "é", "\ud800", None])
    ),
)
def test_a_list_has_what_its_items_are_one_by_one(element: Scalar, items: list[object]) -> None:
    each = [from_json(element, item) for item in items]

    found = from_json(ListOf(element), items)

    wrong = next((place for place, value in enumerate(each) if isinstance(value, InvalidValue)), None)
    if wrong is None:
        assert repr(found) == repr(tuple(each))
    else:
        assert reason(found).startswith(f"item {wrong + 1}: ")


def test_a_list_may_be_empty() -> None:
    assert from_json(ListOf(Scalar.STRING), []) == ()


@pytest.mark.parametrize("items", [[], [1.0, 2.0], [1.0, 2.0, 3.0, 4.0]])
def test_a_vector_has_its_size(items: list[float]) -> None:
    assert reason(from_json(VectorOf(3), items)) == f"expected a list of 3 numbers, got {len(items)}"


@pytest.mark.parametrize("bad", [math.nan, math.inf, 1e39, "1", None, True])
def test_a_vector_names_the_item_that_does_not_fit(bad: object) -> None:
    assert reason(from_json(VectorOf(3), [0.0, bad, 1.0])).startswith("item 2: ")


def test_a_vector_takes_whole_numbers_too() -> None:
    assert from_json(VectorOf(2), [1, 0.5]) == (1.0, 0.5)


# --- null ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("type_", EVERY_TYPE, ids=str)
def test_null_fits_where_it_is_allowed(type_: ValueType) -> None:
    assert from_json(type_, None, nullable=True) is None
    assert from_literal(type_, NullLiteral(HERE), nullable=True) is None
    assert to_json(type_, None) is None


@pytest.mark.parametrize("type_", EVERY_TYPE, ids=str)
def test_null_is_refused_elsewhere(type_: ValueType) -> None:
    assert reason(from_json(type_, None)).endswith("got null")
    assert reason(from_literal(type_, NullLiteral(HERE))).endswith("got null")


# --- literals --------------------------------------------------------------------------------------------

LITERALS: tuple[tuple[ValueType, Literal, Value], ...] = (
    (Scalar.STRING, StringLiteral("a", HERE), "a"),
    (Scalar.BLOB, StringLiteral("base64:AA==", HERE), "base64:AA=="),
    (Scalar.BOOL, BoolLiteral(value=True, span=HERE), True),
    (Scalar.I32, IntLiteral(-1, HERE), -1),
    (Scalar.U64, IntLiteral(2**64 - 1, HERE), 2**64 - 1),
    (Scalar.F64, FloatLiteral(0.5, HERE), 0.5),
    (Scalar.F32, IntLiteral(2, HERE), 2.0),
    (Scalar.DATE, DateLiteral("2024-02-29", HERE), date(2024, 2, 29)),
    (Scalar.DATETIME, DateTimeLiteral("2024-02-29T00:00:00Z", HERE), datetime(2024, 2, 29, tzinfo=UTC)),
    (STATE, StringLiteral("on", HERE), "on"),
    (ListOf(Scalar.I32), ListLiteral((IntLiteral(1, HERE), IntLiteral(2, HERE)), HERE), (1, 2)),
    (VectorOf(1), ListLiteral((FloatLiteral(0.25, HERE),), HERE), (0.25,)),
)


@pytest.mark.parametrize("type_, literal, value", LITERALS, ids=[str(row[0]) for row in LITERALS])
def test_a_literal_of_its_type_fits(type_: ValueType, literal: Literal, value: Value) -> None:
    assert from_literal(type_, literal) == value


@pytest.mark.parametrize("type_", EVERY_TYPE, ids=str)
def test_a_literal_of_another_type_does_not(type_: ValueType) -> None:
    unlike = [literal for other, literal, _ in LITERALS if _family(other) != _family(type_)]

    assert all(isinstance(from_literal(type_, literal), InvalidValue) for literal in unlike)


def _family(type_: ValueType) -> str:
    match type_:
        case Scalar.F32 | Scalar.F64 | Scalar.I32 | Scalar.I64 | Scalar.U32 | Scalar.U64:
            return "number"
        case Scalar.STRING | Scalar.BLOB | EnumOf():
            return "text"
        case ListOf() | VectorOf():
            return "list"
        case _:
            return str(type_)


def test_a_plain_string_is_no_date_in_the_languages() -> None:
    found = reason(from_literal(Scalar.DATE, StringLiteral("2024-01-01", HERE)))

    assert found == 'expected `date("YYYY-MM-DD")`, got "2024-01-01"'


def test_a_vector_literal_has_its_size() -> None:
    found = from_literal(VectorOf(2), ListLiteral((IntLiteral(1, HERE),), HERE))

    assert reason(found) == "expected a list of 2 numbers, got 1"


# --- ids -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "type_, value, text",
    [
        (Scalar.STRING, "Zoë", "Zoë"),
        (Scalar.I64, -5, "-5"),
        (Scalar.BOOL, True, "true"),
        (Scalar.DATE, date(2024, 1, 2), "2024-01-02"),
        (Scalar.DATETIME, datetime(2024, 1, 2, 3, tzinfo=timezone(timedelta(hours=1))), "2024-01-02T02:00:00Z"),
        (STATE, "on", "on"),
    ],
)
def test_a_key_column_has_one_text(type_: ValueType, value: Value, text: str) -> None:
    assert format_key(type_, value) == text


@pytest.mark.parametrize(
    "type_, value", [(Scalar.F64, 1.0), (Scalar.BLOB, "s3://a"), (ListOf(Scalar.I32), (1,)), (Scalar.I32, None)]
)
def test_what_no_key_may_have_has_no_text(type_: ValueType, value: Value) -> None:
    with pytest.raises(TypeError, match="key"):
        format_key(type_, value)


def test_a_one_column_key_is_the_id() -> None:
    assert derive_id(["Zoë"]) == "Zoë"


def test_a_composite_key_is_a_compact_json_array() -> None:
    assert derive_id(["Zoë", 'say "hi"', "3"]) == '["Zoë","say \\"hi\\"","3"]'


@given(st.lists(st.text(), min_size=2, max_size=3), st.lists(st.text(), min_size=2, max_size=3))
def test_two_composite_keys_never_share_an_id(left: list[str], right: list[str]) -> None:
    assert (derive_id(left) == derive_id(right)) == (left == right)


# --- there and back ----------------------------------------------------------------------------------------

FLOATS32 = st.floats(allow_nan=False, allow_infinity=False, width=32)
SCALAR_VALUES: dict[Scalar, st.SearchStrategy[Value]] = {
    Scalar.STRING: st.text(),
    Scalar.BLOB: st.just("s3://bucket/key"),
    Scalar.BOOL: st.booleans(),
    **{scalar: st.integers(low, high) for scalar, (low, high) in INTEGER_RANGES.items()},
    Scalar.F32: FLOATS32,
    Scalar.F64: st.floats(allow_nan=False, allow_infinity=False),
    Scalar.DATE: st.dates(),
    Scalar.DATETIME: st.datetimes(timezones=st.just(UTC)),
}


@st.composite
def typed_values(draw: st.DrawFn) -> tuple[ValueType, Value]:
    scalar = draw(st.sampled_from(tuple(Scalar)))
    shape = draw(st.sampled_from(("scalar", "list", "vector", "enum")))
    if shape == "vector":
        return VectorOf(3), draw(st.tuples(FLOATS32, FLOATS32, FLOATS32))
    if shape == "enum":
        return STATE, draw(st.sampled_from(STATE.values))
    if shape == "list" and scalar is not Scalar.BLOB:
        return ListOf(scalar), tuple(draw(st.lists(SCALAR_VALUES[scalar], max_size=4)))
    return scalar, draw(SCALAR_VALUES[scalar])


@given(typed_values())
def test_a_value_survives_json(typed: tuple[ValueType, Value]) -> None:
    type_, value = typed

    assert from_json(type_, to_json(type_, value)) == value


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.dates().map(str) | st.datetimes().map(str),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(max_size=3), children, max_size=2),
    max_leaves=6,
)


@given(st.sampled_from(EVERY_TYPE), JSON_VALUES)
def test_any_json_fits_or_says_why(type_: ValueType, value: object) -> None:
    found = from_json(type_, value)

    if isinstance(found, InvalidValue):
        assert 0 < len(found.reason) < 400
    else:
        assert from_json(type_, to_json(type_, found)) == found


def test_a_value_of_another_type_is_a_bug() -> None:
    with pytest.raises(TypeError, match="is not a value of I32"):
        to_json(Scalar.I32, "1")
