import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.query.logical_plan import HopDirection, ReadQuery
from property_profiles import SOME_AND_MANY, profile
from query.reading import checked, matching, only_finding, problems_in


def types(query: ReadQuery) -> dict[str, str]:
    return {node.variable: node.type.name for node in query.pattern.nodes}


def directions(query: ReadQuery) -> list[HopDirection]:
    return [hop.direction for hop in query.pattern.hops]


def test_an_edge_types_both_its_ends() -> None:
    query = matching("$a knows $b")

    assert types(query) == {"a": "Person", "b": "Person"}
    assert directions(query) == [HopDirection.OUT]


def test_a_hop_runs_as_stored_when_nothing_speaks_against_it() -> None:
    query = matching("$x worksAt $y")

    assert types(query) == {"x": "Person", "y": "Company"}
    assert directions(query) == [HopDirection.OUT]


@pytest.mark.parametrize("binding", ["$x: Company", "$y: Person"])
def test_a_binding_at_either_end_turns_a_hop_around(binding: str) -> None:
    query = matching(f"$x worksAt $y {binding}")

    assert types(query) == {"x": "Company", "y": "Person"}
    assert directions(query) == [HopDirection.IN]


def test_types_flow_along_a_chain_against_the_order_of_clauses() -> None:
    query = matching("$c basedIn $d  $b worksAt $c  $a knows $b")

    assert types(query) == {"a": "Person", "b": "Person", "c": "Company", "d": "City"}
    assert directions(query) == [HopDirection.OUT] * 3


def test_two_edges_can_decide_what_neither_decides_alone() -> None:
    query = matching("$x worksAt $y  $z livesIn $x")

    assert types(query) == {"x": "Person", "y": "Company", "z": "City"}
    assert directions(query) == [HopDirection.OUT, HopDirection.IN]


def test_an_undirected_hop_runs_both_ways() -> None:
    assert directions(matching("$a <knows> $b")) == [HopDirection.BOTH]


def test_a_pattern_that_has_two_readings_is_refused_with_a_way_out() -> None:
    found = only_finding("query q() { match { $x worksAt $y $y worksAt $z } return { $x.role } }")

    assert found.code == "T5"
    assert found.message == "`$y` could be `Company` or `Person`"
    assert found.help == "bind it to one of them: `$y: Company` or `$y: Person`"


@pytest.mark.parametrize("clauses", ["$x worksAt $x", "$x: Person  $x worksAt $x", "$x $e:worksAt $x"])
def test_one_variable_is_not_both_ends_of_an_edge_between_types(clauses: str) -> None:
    found = only_finding(f"query q() {{ match {{ {clauses} }} return {{ $x }} }}")

    assert (found.code, found.message) == ("T5", "`$x` can't be both ends of `WorksAt`")
    assert found.help == "`WorksAt` runs from `Person` to `Company`; use two variables"


def test_one_binding_decides_a_whole_pattern() -> None:
    query = matching("$x worksAt $y  $y worksAt $z  $z: Company")

    assert types(query) == {"x": "Company", "y": "Person", "z": "Company"}
    assert directions(query) == [HopDirection.IN, HopDirection.OUT]


@pytest.mark.parametrize(
    "clauses, marked",
    [
        ("$c: City $c worksAt $x", "$c"),
        ("$c: City $x worksAt $c", "$c"),
        ("$a: Person $b: Person $a worksAt $b", "$b"),
        ("$a worksAt $a", "$a"),
        ("$p: Person $p: Company", "Company"),
        ("$b livesIn $c $a worksAt $b $a: Person", "$b"),
    ],
)
def test_types_that_disagree_are_one_error(clauses: str, marked: str) -> None:
    assert problems_in(clauses) == [("T5", marked)]


@pytest.mark.parametrize(
    "clauses, expected",
    [
        ("$p: Persn $p knows $f $f.agee > 3", [("T1", "Persn"), ("T2", "agee")]),
        ("$p: Persn $p worksAt $c $c.agee > 3", [("T1", "Persn")]),
        ("$p knwos $f $f worksAt $c $c.agee > 3 $f.agee > 3", [("T4", "knwos")]),
        ("$c: City $c worksAt $x $x.agee > 3", [("T5", "$c")]),
        ("$p: Person $p <worksAt> $c $c.agee > 3", [("T22", "worksAt"), ("T2", "agee")]),
        ("$x worksAt $y $y worksAt $z $x.a > 1 $y.b > 1 $z.c > 1", [("T5", "$y")]),
    ],
)
def test_nothing_is_said_about_a_variable_whose_type_is_in_doubt(clauses: str, expected: list[tuple[str, str]]) -> None:
    assert problems_in(clauses) == expected


BINDINGS = st.sampled_from(["$a: Person", "$b: Company", "$c: City", "$d: Person", "$a: Company"])
NAMES = st.sampled_from(["$a", "$b", "$c", "$d"])
HOPS = st.builds(
    lambda a, e, b: f"{a} {e} {b}", NAMES, st.sampled_from(["knows", "worksAt", "livesIn", "basedIn"]), NAMES
)


@SOME_AND_MANY
def test_the_order_of_clauses_decides_nothing(examples: int) -> None:
    @profile(examples)
    @given(st.lists(HOPS | BINDINGS, min_size=1, max_size=4))
    def check(clauses: list[str]) -> None:
        found = set()
        for order in itertools.permutations(clauses):
            result = checked(f"query q() {{ match {{ {'; '.join(order)} }} return {{ 1 as one }} }}")
            plan = result.value
            assert plan is None or isinstance(plan, ReadQuery)
            found.add(
                None
                if plan is None
                else (
                    frozenset(types(plan).items()),
                    frozenset((h.edge.name, h.source, h.direction) for h in plan.pattern.hops),
                )
            )
        assert len(found) == 1

    check()
