import pytest

from omnigraph.query.expr import Contains, Expr, ParamRef, StartsWith, TextMatch, TextMode
from omnigraph.query.rules.constant_folding import fold_constants
from omnigraph.schema.types import Scalar
from query.predicates import (
    COLOR,
    FALSE,
    NOWHERE,
    TRUE,
    UNKNOWN,
    both,
    compare,
    const,
    either,
    member,
    no,
    not_null,
    null,
    prop,
)

AGE, RANK, NAME = prop("age"), prop("rank"), prop("name")
ADULT = compare(AGE, ">=", const(18))


@pytest.mark.parametrize(
    "left,op,right,expected",
    [
        (const(1), "=", const(1), TRUE),
        (const(1), "=", const(1.0), TRUE),
        (const(2), "<", const(2.7), TRUE),
        (const(2**53 + 1, Scalar.I64), "=", const(2.0**53), FALSE),
        (const("b"), "<", const("a"), FALSE),
        (const(False), "<", const(True), TRUE),
        (const("red"), "!=", const("red", COLOR), FALSE),
    ],
)
def test_a_comparison_of_literals_is_worked_out(left: Expr, op: str, right: Expr, expected: Expr) -> None:
    assert fold_constants(compare(left, op, right)) == expected


@pytest.mark.parametrize(
    "predicate",
    [
        compare(AGE, "=", const(None, Scalar.I32)),
        compare(const(None, Scalar.I32), "!=", AGE),
        member(const(None, Scalar.I32), 1, 2, of=Scalar.I32),
        Contains(text=NAME, part=const(None, Scalar.STRING), origin=NOWHERE),
        StartsWith(text=const(None, Scalar.STRING), prefix=NAME, origin=NOWHERE),
        TextMatch(mode=TextMode.ANY, prop=NAME, query=const(None, Scalar.STRING), origin=NOWHERE),
    ],
)
def test_a_comparison_with_null_is_unknown_not_false(predicate: Expr) -> None:
    assert fold_constants(predicate) == UNKNOWN


def test_text_literals_are_searched() -> None:
    contains = Contains(text=const("abc"), part=const("bc"), origin=NOWHERE)
    starts = StartsWith(text=const("abc"), prefix=const("bc"), origin=NOWHERE)

    assert (fold_constants(contains), fold_constants(starts)) == (TRUE, FALSE)


def test_a_literal_moves_to_the_right() -> None:
    assert fold_constants(compare(const(3), "<", AGE)) == compare(AGE, ">", const(3))


def test_a_parameter_moves_to_the_right_of_a_property() -> None:
    param = ParamRef(name="n", type=Scalar.I32, origin=NOWHERE)

    assert fold_constants(compare(param, ">=", AGE)) == compare(AGE, "<=", param)


def test_nothing_is_a_member_of_the_empty_list() -> None:
    assert fold_constants(member(RANK)) == FALSE


def test_whether_null_is_in_the_empty_list_stays_unknown() -> None:
    assert fold_constants(member(AGE)) == compare(AGE, "!=", AGE)


def test_a_list_of_one_is_an_equality() -> None:
    assert fold_constants(member(AGE, 7, 7)) == compare(AGE, "=", const(7))


def test_a_list_holds_each_value_once() -> None:
    assert fold_constants(member(AGE, 7, 8, 7)) == member(AGE, 7, 8)


def test_a_literal_in_a_literal_list_is_worked_out() -> None:
    assert fold_constants(member(const(3), 1, 2, of=Scalar.I32)) == FALSE


def test_a_required_value_equals_itself() -> None:
    assert fold_constants(compare(RANK, "<=", RANK)) == TRUE


def test_a_nullable_value_may_be_unequal_to_itself() -> None:
    assert fold_constants(compare(AGE, "<=", AGE)) == compare(AGE, "=", AGE)


@pytest.mark.parametrize(
    "op,bound,expected",
    [("<", -(2**31), FALSE), (">=", -(2**31), TRUE), (">", 2**31 - 1, FALSE), ("<=", 2**31 - 1, TRUE)],
)
def test_no_value_lies_beyond_the_ends_of_its_type(op: str, bound: int, expected: Expr) -> None:
    assert fold_constants(compare(RANK, op, const(bound))) == expected


def test_a_required_value_is_never_null() -> None:
    assert (fold_constants(null(RANK)), fold_constants(not_null(RANK))) == (FALSE, TRUE)


def test_a_null_test_of_a_nullable_value_stays() -> None:
    assert fold_constants(null(AGE)) == null(AGE)


def test_false_decides_an_and() -> None:
    assert fold_constants(both(ADULT, FALSE, UNKNOWN)) == FALSE


def test_true_decides_an_or() -> None:
    assert fold_constants(either(ADULT, TRUE, UNKNOWN)) == TRUE


def test_a_neutral_term_is_dropped() -> None:
    assert fold_constants(both(TRUE, ADULT)) == ADULT
    assert fold_constants(either(FALSE, ADULT)) == ADULT


def test_unknown_stays_in_an_and_because_the_rest_may_be_false() -> None:
    assert fold_constants(both(ADULT, UNKNOWN)) == both(ADULT, UNKNOWN)


def test_not_of_unknown_is_unknown() -> None:
    assert fold_constants(no(compare(AGE, "=", const(None, Scalar.I32)))) == UNKNOWN
