"""Rules over patterns: where filters go, and what is left of a pattern that can't match."""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.query.expr import EdgeRef, Expr, Identity, NodeRef
from omnigraph.query.logical_plan import Exists, Hop, NodeBinding, Pattern, SharedVariable
from omnigraph.query.rules import PATTERN_RULES
from omnigraph.query.rules.empty_pattern import reduce_empty_patterns
from omnigraph.query.rules.pushdown import push_down
from omnigraph.query.rules.simplify import simplify_filters
from property_profiles import SOME_AND_MANY, profile
from query.evaluate import Graph, Row, matches
from query.pattern_blocks import only_exists
from query.predicates import (
    FALSE,
    NOWHERE,
    TRUE,
    both,
    compare,
    const,
    either,
    no,
    null,
    predicates,
    prop,
    random_params,
    random_rows,
)

PERSON = NodeRef("Person")
KNOWS = EdgeRef("Knows", "Person", "Person")
ADULT = compare(prop("age", "p"), ">=", const(18))
OLDER = compare(prop("age", "p"), ">", prop("age", "q"))


def node(variable: str, *filters: Expr) -> NodeBinding:
    return NodeBinding(variable=variable, type=PERSON, filters=filters, origin=NOWHERE)


def hop(source: str, target: str, edge_variable: str | None = None) -> Hop:
    return Hop(edge=KNOWS, source=source, target=target, edge_variable=edge_variable, origin=NOWHERE)


def absent(pattern: Pattern, *shared: str) -> Exists:
    return Exists(
        negated=True,
        shared=tuple(SharedVariable(variable=v, type=PERSON) for v in shared),
        pattern=pattern,
        origin=NOWHERE,
    )


def friends(*filters: Expr, blocks: tuple[Exists, ...] = ()) -> Pattern:
    return Pattern(nodes=(node("p"), node("q")), hops=(hop("p", "q", "e"),), filters=filters, blocks=blocks)


# --- push down -----------------------------------------------------------------------------------


def test_a_filter_of_one_node_goes_to_its_binding() -> None:
    pushed = push_down(friends(ADULT))

    assert pushed.find_node("p").filters == (ADULT,)
    assert pushed.filters == ()


def test_a_filter_of_an_edge_goes_to_its_hop() -> None:
    since = compare(prop("rank", "e"), ">", const(3))

    pushed = push_down(friends(since))

    assert pushed.hops[0].filters == (since,)


def test_a_filter_of_two_variables_stays() -> None:
    assert push_down(friends(OLDER)).filters == (OLDER,)


def test_a_conjunction_is_split_and_each_part_goes_its_way() -> None:
    pushed = push_down(friends(both(OLDER, both(ADULT, null(prop("age", "q"))))))

    assert (pushed.find_node("p").filters, pushed.find_node("q").filters) == ((ADULT,), (null(prop("age", "q")),))
    assert pushed.filters == (OLDER,)


def test_a_disjunction_of_two_variables_is_not_split() -> None:
    either_way = either(ADULT, null(prop("age", "q")))

    assert push_down(friends(either_way)).filters == (either_way,)


def test_what_a_binding_has_already_stays_in_front() -> None:
    named = compare(prop("name", "p"), "=", const("Ada"))
    pattern = Pattern(nodes=(node("p", named),), filters=(ADULT,))

    assert push_down(pattern).find_node("p").filters == (named, ADULT)


def test_a_filter_of_a_shared_variable_stays_in_its_block() -> None:
    own = compare(prop("rank", "r"), "=", const(1))
    block = absent(Pattern(nodes=(node("r"),), hops=(hop("p", "r"),), filters=(ADULT, own)), "p")

    inside = only_exists(push_down(friends(blocks=(block,)))).pattern

    assert inside.filters == (ADULT,)
    assert inside.find_node("r").filters == (own,)


# --- simplify ------------------------------------------------------------------------------------


def test_filters_of_a_binding_are_weighed_against_clauses() -> None:
    minor = compare(prop("age", "p"), "<", const(18))
    pattern = Pattern(nodes=(node("p", ADULT),), filters=(minor,))

    assert simplify_filters(pattern).filters == (FALSE,)


def test_a_filter_that_is_always_true_is_gone() -> None:
    assert simplify_filters(friends(TRUE, ADULT)).filters == (ADULT,)


def test_a_negated_disjunction_is_taken_apart() -> None:
    pattern = friends(no(either(ADULT, null(prop("name", "q")))))

    assert len(simplify_filters(pattern).filters) == 2


# --- emptiness -----------------------------------------------------------------------------------


def test_an_empty_pattern_keeps_its_variables_and_nothing_else() -> None:
    block = absent(Pattern(nodes=(node("r"),), hops=(hop("p", "r"),)), "p")
    pattern = replace(friends(FALSE, OLDER, blocks=(block,)), nodes=(node("p", ADULT), node("q")))

    assert reduce_empty_patterns(pattern) == friends(FALSE)


def test_a_block_that_cannot_match_is_gone() -> None:
    block = absent(Pattern(nodes=(node("r"),), hops=(hop("p", "r"),), filters=(FALSE,)), "p")

    assert reduce_empty_patterns(friends(blocks=(block,))) == friends()


def test_a_block_that_always_matches_leaves_nothing() -> None:
    block = absent(Pattern(nodes=()), "p")

    assert reduce_empty_patterns(friends(blocks=(block,))) == friends(FALSE)


def test_a_block_that_holds_nothing_but_a_block_is_not_known_to_match() -> None:
    inner = absent(Pattern(nodes=(node("r"),), hops=(hop("p", "r"),)), "p")
    outer = absent(Pattern(nodes=(), blocks=(inner,)), "p")

    assert reduce_empty_patterns(friends(blocks=(outer,))) == friends(blocks=(outer,))


def test_emptiness_travels_through_nested_blocks() -> None:
    never = absent(Pattern(nodes=(), filters=(FALSE,)), "p")
    always = absent(Pattern(nodes=(), blocks=(never,)), "p")

    assert reduce_empty_patterns(friends(blocks=(always,))) == friends(FALSE)


# --- meaning -------------------------------------------------------------------------------------

Rule = Callable[[Pattern], Pattern]
SEEDS = st.integers(0, 2**32)
WITHIN_ONE = predicates(("p",), ("age", "name")) | predicates(("q",), ("age", "rank")) | predicates(("e",), ("rank",))
ACROSS = predicates(("p", "q", "e"), ("age", "name"))
INSIDE = predicates(("q", "r"), ("age", "rank")) | predicates(("r",), ("age",)) | predicates(("q",), ("age",))


@st.composite
def patterns(draw: st.DrawFn) -> Pattern:
    block = Pattern(
        nodes=(node("r"),),
        hops=(hop("q", "r"),) if draw(st.booleans()) else (),
        filters=tuple(draw(st.lists(INSIDE, max_size=2))),
    )
    about_outside = Pattern(nodes=(), filters=tuple(draw(st.lists(predicates(("q",), ("age",)), max_size=2))))
    blocks = draw(st.lists(st.sampled_from([absent(block, "q"), absent(about_outside, "q")]), max_size=2))
    return friends(*draw(st.lists(WITHIN_ONE | ACROSS, max_size=3)), blocks=tuple(blocks))


def random_graph(seed: int) -> Graph:
    random = Random(seed)
    rows = [{name: value for (_, name), value in row.items()} for row in random_rows(seed, 7, ("x",))]
    edges = tuple((f"e{i}", random.choice("abcd"), random.choice("abcd"), rows[4 + i]) for i in range(3))
    return Graph({"Person": dict(zip("abcd", rows, strict=False))}, {"Knows": edges})


def ids(found: list[Row]) -> list[Any]:
    return sorted(tuple(row[variable, "@id"] for variable in ("p", "q", "e")) for row in found)


def applied(rules: tuple[Rule, ...], pattern: Pattern) -> Pattern:
    for rule in rules:
        pattern = rule(pattern)
    return pattern


@pytest.mark.parametrize("rule", PATTERN_RULES, ids=lambda rule: rule.__name__)
@given(pattern=patterns(), seed=SEEDS)
@settings(max_examples=60)
def test_a_rule_keeps_every_match(rule: Rule, pattern: Pattern, seed: int) -> None:
    graph, params = random_graph(seed), random_params(seed)

    assert ids(matches(rule(pattern), graph, params)) == ids(matches(pattern, graph, params))


@SOME_AND_MANY
def test_all_rules_together_keep_every_match(examples: int) -> None:
    @profile(examples)
    @given(pattern=patterns(), seed=SEEDS)
    def check(pattern: Pattern, seed: int) -> None:
        graph, params = random_graph(seed), random_params(seed)

        assert ids(matches(applied(PATTERN_RULES, pattern), graph, params)) == ids(matches(pattern, graph, params))

    check()


@given(pattern=patterns())
@settings(max_examples=60)
def test_applying_all_rules_again_changes_nothing(pattern: Pattern) -> None:
    once = applied(PATTERN_RULES, pattern)

    assert applied(PATTERN_RULES, once) == once


def test_the_identity_of_a_variable_is_a_filter_of_it_alone() -> None:
    by_id = compare(Identity(variable="p", origin=NOWHERE), "=", const("ada"))

    assert push_down(friends(by_id)).find_node("p").filters == (by_id,)
