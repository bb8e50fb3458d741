import pytest

from omnigraph.query.expr import Expr
from omnigraph.query.rules.contradiction import contradicts
from omnigraph.query.rules.filter_truth import reduce_filter
from query.predicates import FALSE, TRUE, UNKNOWN, both, compare, const, either, member, no, not_null, null, prop

AGE, RANK, NAME = prop("age"), prop("rank"), prop("name")


def age(op: str, bound: float) -> Expr:
    return compare(AGE, op, const(bound))


@pytest.mark.parametrize(
    "terms",
    [
        [age("=", 1), age("=", 2)],
        [age("=", 1), age("!=", 1)],
        [age(">", 5), age("<", 3)],
        [age(">", 5), age("<=", 5)],
        [age("=", 7), age("<", 7)],
        [age(">", 9), age(">", 5), age("<", 8)],
        [age("<", 8), age("<", 3), age(">", 5)],
        [age(">=", 5), age(">", 5), age("<=", 5)],
        [age("<=", 5), age("<", 5), age(">=", 5)],
        [age("<", 2.5), age(">=", 3)],
        [member(AGE, 1, 2), member(AGE, 3, 4)],
        [member(AGE, 1, 2), no(member(AGE, 2, 1))],
        [member(AGE, 1, 2), age("!=", 1), age("!=", 2)],
        [null(AGE), age("!=", 1)],
        [null(AGE), not_null(AGE)],
        [null(AGE), compare(AGE, "=", RANK)],
        [null(AGE), no(member(AGE, 1, 2))],
        [member(AGE, 1, 2), no(member(AGE, 1, 2))],
        [compare(NAME, "=", const("a")), compare(NAME, ">", const("b"))],
        [age("=", 1), FALSE],
        [age("=", 1), UNKNOWN],
    ],
)
def test_terms_that_no_row_meets_contradict(terms: list[Expr]) -> None:
    assert contradicts(terms)


@pytest.mark.parametrize(
    "terms",
    [
        [age("=", 1), compare(RANK, "=", const(2))],
        [age("=", 1), compare(prop("age", "q"), "=", const(2))],
        [age(">=", 5), age("<=", 5)],
        [age("=", 7), age("<=", 7)],
        [member(AGE, 1, 2), member(AGE, 2, 3)],
        [member(AGE, 1, 2), age("!=", 1)],
        [null(AGE), compare(RANK, "=", const(1))],
        [null(AGE)],
        [TRUE],
        [],
    ],
)
def test_terms_that_a_row_can_meet_do_not_contradict(terms: list[Expr]) -> None:
    assert not contradicts(terms)


def test_a_contradiction_is_false() -> None:
    assert reduce_filter(both(age("=", 1), age("=", 2))) == FALSE


def test_a_contradiction_in_one_branch_leaves_the_other() -> None:
    assert reduce_filter(either(both(age("=", 1), age("=", 2)), null(AGE))) == null(AGE)


def test_unknown_is_false_for_a_filter() -> None:
    assert reduce_filter(both(age("=", 1), UNKNOWN)) == FALSE
    assert reduce_filter(either(age("=", 1), UNKNOWN)) == age("=", 1)


def test_what_is_true_unless_null_is_a_null_test() -> None:
    assert reduce_filter(compare(AGE, "=", AGE)) == not_null(AGE)


def test_what_is_never_true_is_false() -> None:
    assert reduce_filter(compare(AGE, "!=", AGE)) == FALSE


def test_a_null_test_beside_a_comparison_is_redundant() -> None:
    assert reduce_filter(both(not_null(AGE), age(">", 1))) == age(">", 1)


def test_a_null_test_of_another_property_stays() -> None:
    assert reduce_filter(both(not_null(NAME), age(">", 1))) == both(not_null(NAME), age(">", 1))


def test_unknown_below_a_not_is_left_alone() -> None:
    predicate = no(either(member(AGE, 1, 2), UNKNOWN))

    assert reduce_filter(predicate) == predicate
