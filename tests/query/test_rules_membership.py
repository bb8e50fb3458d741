from omnigraph.query.expr import ParamRef
from omnigraph.query.rules.or_to_in import merge_equalities
from omnigraph.schema.types import Scalar
from query.predicates import COLOR, NOWHERE, both, compare, const, either, member, no, prop

AGE, RANK, COLORS = prop("age"), prop("rank"), prop("color")


def test_equalities_of_one_property_are_one_membership() -> None:
    chain = either(compare(AGE, "=", const(1)), compare(AGE, "=", const(2)))

    assert merge_equalities(chain) == member(AGE, 1, 2)


def test_equalities_and_memberships_merge_and_each_value_stands_once() -> None:
    chain = either(compare(AGE, "=", const(1)), member(AGE, 2, 3), compare(AGE, "=", const(2)))

    assert merge_equalities(chain) == member(AGE, 1, 2, 3)


def test_other_terms_keep_their_place() -> None:
    other = compare(RANK, ">", const(9))
    chain = either(compare(AGE, "=", const(1)), other, compare(AGE, "=", const(2)))

    assert merge_equalities(chain) == either(member(AGE, 1, 2), other)


def test_equalities_of_two_properties_stay_apart() -> None:
    chain = either(compare(AGE, "=", const(1)), compare(RANK, "=", const(1)))

    assert merge_equalities(chain) == chain


def test_equalities_of_two_variables_stay_apart() -> None:
    chain = either(compare(prop("age", "p"), "=", const(1)), compare(prop("age", "q"), "=", const(2)))

    assert merge_equalities(chain) == chain


def test_values_of_an_enum_merge_as_texts() -> None:
    chain = either(compare(COLORS, "=", const("red", COLOR)), compare(COLORS, "=", const("green", COLOR)))

    assert merge_equalities(chain) == member(COLORS, "red", "green")


def test_a_null_is_no_member() -> None:
    chain = either(compare(AGE, "=", const(1)), compare(AGE, "=", const(None, Scalar.I32)))

    assert merge_equalities(chain) == chain


def test_a_parameter_is_no_member_of_a_literal_list() -> None:
    param = ParamRef(name="n", type=Scalar.I32, origin=NOWHERE)
    chain = either(compare(AGE, "=", const(1)), compare(AGE, "=", param))

    assert merge_equalities(chain) == chain


def test_equalities_in_an_and_stay() -> None:
    conjunction = both(compare(AGE, "=", const(1)), compare(AGE, "=", const(2)))

    assert merge_equalities(conjunction) == conjunction


def test_a_chain_below_a_not_merges_too() -> None:
    chain = either(compare(AGE, "=", const(1)), compare(AGE, "=", const(2)))

    assert merge_equalities(no(chain)) == no(member(AGE, 1, 2))
