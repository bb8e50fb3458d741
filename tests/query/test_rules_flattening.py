from omnigraph.query.rules.flattening import flatten
from query.predicates import both, compare, const, either, no, prop

A, B, C, D = (compare(prop("age"), "=", const(number)) for number in range(4))


def test_an_and_in_an_and_is_one_and() -> None:
    assert flatten(both(A, both(B, both(C, D)))) == both(A, B, C, D)


def test_an_or_in_an_or_is_one_or() -> None:
    assert flatten(either(either(A, B), either(C, D))) == either(A, B, C, D)


def test_an_or_in_an_and_stays() -> None:
    assert flatten(both(A, either(B, C))) == both(A, either(B, C))


def test_an_equal_term_stands_once() -> None:
    assert flatten(both(A, B, both(A, C))) == both(A, B, C)


def test_an_and_of_equal_terms_is_the_term() -> None:
    assert flatten(both(A, A)) == A


def test_nesting_below_a_not_is_flat_too() -> None:
    assert flatten(no(either(A, either(B, C)))) == no(either(A, B, C))
