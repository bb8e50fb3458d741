import pytest

from omnigraph.query.rules.negation import push_negation
from query.predicates import both, compare, const, either, member, no, not_null, null, prop

AGE, NAME = prop("age"), prop("name")
A, B = compare(AGE, "<", const(3)), compare(NAME, "=", const("x"))
NOT_A, NOT_B = compare(AGE, ">=", const(3)), compare(NAME, "!=", const("x"))


@pytest.mark.parametrize("op,negated", [("=", "!="), ("!=", "="), ("<", ">="), ("<=", ">"), (">", "<="), (">=", "<")])
def test_a_negated_comparison_is_the_opposite_one(op: str, negated: str) -> None:
    assert push_negation(no(compare(AGE, op, const(3)))) == compare(AGE, negated, const(3))


def test_a_double_negation_is_none() -> None:
    assert push_negation(no(no(member(AGE, 1, 2)))) == member(AGE, 1, 2)


def test_a_negated_and_is_an_or_of_negations() -> None:
    assert push_negation(no(both(A, B))) == either(NOT_A, NOT_B)


def test_a_negated_or_is_an_and_of_negations() -> None:
    assert push_negation(no(either(A, no(B)))) == both(NOT_A, B)


def test_a_negated_null_test_is_the_other_null_test() -> None:
    assert push_negation(no(null(AGE))) == not_null(AGE)


def test_a_negated_membership_stays() -> None:
    assert push_negation(no(member(AGE, 1, 2))) == no(member(AGE, 1, 2))


def test_negation_is_found_inside_and_and_or() -> None:
    assert push_negation(both(A, either(no(A), B))) == both(A, either(NOT_A, B))
