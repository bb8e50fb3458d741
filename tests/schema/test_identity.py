"""Identities: given once, kept through renames, never given again."""

from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.schema.catalog import Catalog
from omnigraph.schema.identity import assign_identities
from schema_making import accepted, catalogs


def numbers(catalog: Catalog) -> list[int]:
    types = (*catalog.nodes.values(), *catalog.edges.values())
    return [n for t in types for n in (t.identity, *(p.identity for p in t.properties))]


def test_one_counter_numbers_types_and_properties_from_1() -> None:
    catalog = accepted("node A { x: I32  y: I32 } node B {} edge E: A -> B { z: I32 }")

    assert numbers(catalog) == [1, 2, 3, 4, 5, 6]
    assert catalog.next_identity == 7


def test_what_keeps_its_name_keeps_its_number() -> None:
    first = accepted("node A { x: I32  y: I32 } node B {}")

    second = accepted("node B {} node A { y: I32  z: I32  x: I64 }", first)

    assert second.nodes["A"].identity == first.nodes["A"].identity
    assert second.nodes["A"].by_name["x"].identity == first.nodes["A"].by_name["x"].identity
    assert second.nodes["A"].by_name["z"].identity == first.next_identity


def test_a_type_and_its_property_are_renamed_at_once() -> None:
    first = accepted("node A { x: I32 }")

    second = accepted('node B @rename_from("A") { y: I32 @rename_from("x") }', first)

    assert numbers(second) == numbers(first)
    assert second.next_identity == first.next_identity


def test_a_chain_of_renames_over_two_plans() -> None:
    first = accepted("node A {}")
    second = accepted('node B @rename_from("A") {}', first)

    third = accepted('node C @rename_from("B") {}', second)

    assert third.nodes["C"].identity == first.nodes["A"].identity


def test_a_chain_of_renames_in_one_plan() -> None:
    first = accepted("node A {} node B {}")

    second = accepted('node B @rename_from("A") {} node C @rename_from("B") {}', first)

    assert second.nodes["B"].identity == first.nodes["A"].identity
    assert second.nodes["C"].identity == first.nodes["B"].identity


def test_two_names_change_places() -> None:
    first = accepted("node A { x: I32  y: I32 } node B {}")
    swapped = (
        'node A @rename_from("B") {} node B @rename_from("A") { x: I32 @rename_from("y")  y: I32 @rename_from("x") }'
    )

    second = accepted(swapped, first)

    assert second.nodes["A"].identity == first.nodes["B"].identity
    assert second.nodes["B"].identity == first.nodes["A"].identity
    assert second.nodes["B"].by_name["x"].identity == first.nodes["A"].by_name["y"].identity


def test_a_rename_takes_effect_once() -> None:
    swapped = 'node A @rename_from("B") {} node B @rename_from("A") {}'
    first = accepted(swapped, accepted("node A {} node B {}"))

    again = accepted(swapped, first)

    assert again == first


def test_names_change_places_after_one_of_them_was_renamed_from_the_other() -> None:
    first = accepted("node A { b: I32  d: I32 } node B {}")
    moved = (
        'node C @rename_from("A") { e: I32 @rename_from("b")  b: I32 @rename_from("d") } node A @rename_from("B") {}'
    )
    second = accepted(moved, first)

    third = accepted(
        'node C @rename_from("A") {} node A @rename_from("C") { e: I32 @rename_from("b")  b: I32 @rename_from("e") }',
        second,
    )

    assert third.nodes["A"].identity == second.nodes["C"].identity == first.nodes["A"].identity
    assert third.nodes["C"].identity == second.nodes["A"].identity == first.nodes["B"].identity
    now, then = third.nodes["A"].by_name, first.nodes["A"].by_name
    assert (now["b"].identity, now["e"].identity) == (then["b"].identity, then["d"].identity)


@pytest.mark.parametrize("order", [*permutations("abc")])
def test_names_go_round_whatever_the_order_of_their_declarations(order: tuple[str, ...]) -> None:
    first = accepted("node A { z: I32  a: I32  b: I32 }")
    second = accepted(
        'node A { a: I32 @rename_from("z")  b: I32 @rename_from("a")  c: I32 @rename_from("b") }',
        first,
    )
    origin = {"a": "c", "b": "a", "c": "b"}

    third = accepted(
        "node A {" + " ".join(f'{name}: I32 @rename_from("{origin[name]}")' for name in order) + "}", second
    )

    now, then = third.nodes["A"].by_name, second.nodes["A"].by_name
    assert {name: now[name].identity for name in "abc"} == {name: then[origin[name]].identity for name in "abc"}


def test_a_name_that_moved_on_and_is_used_anew_is_somebody_new() -> None:
    first = accepted('node A { e: I32 @rename_from("b") }', accepted("node A { b: I32 }"))

    second = accepted('node A { e: I32 @rename_from("b")  f: I32 @rename_from("e") }', first)

    assert second.nodes["A"].by_name["f"].identity == first.nodes["A"].by_name["e"].identity
    assert second.nodes["A"].by_name["e"].identity == first.next_identity


def test_a_rename_from_a_name_that_never_was_is_a_new_type() -> None:
    first = accepted("node A {}")

    second = accepted('node A {} node B @rename_from("Z") {}', first)

    assert second.nodes["B"].identity == first.next_identity


def test_a_dropped_name_that_returns_is_somebody_new() -> None:
    first = accepted("node A { x: I32 } node B {}")
    without = accepted("node B {}", first)

    again = accepted("node A { x: I32 } node B {}", without)

    assert without.next_identity == first.next_identity
    assert not {again.nodes["A"].identity, again.nodes["A"].by_name["x"].identity} & set(numbers(first))


def test_a_node_type_that_becomes_an_edge_type_is_somebody_new() -> None:
    first = accepted("node A {} node B {}")

    second = accepted("node B {} edge A: B -> B", first)

    assert second.edges["A"].identity == first.next_identity


@settings(max_examples=40)
@given(st.lists(catalogs(), min_size=2, max_size=4))
def test_numbers_are_unique_and_never_return(history: list[Catalog]) -> None:
    given_before: set[int] = set()
    previous: Catalog | None = None
    for schema in history:
        catalog = assign_identities(schema, previous)
        now = numbers(catalog)

        returned = set(now) & (given_before - set(numbers(previous) if previous else ()))
        assert len(set(now)) == len(now)
        assert not returned
        assert max(now) < catalog.next_identity

        given_before |= set(now)
        previous = catalog
