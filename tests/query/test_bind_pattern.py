import pytest

from omnigraph.query.expr import Compare, EdgeRef, Identity, In, NodeRef, Op, Prop
from omnigraph.query.logical_plan import GENERATED_PREFIX, HopDirection, SharedVariable
from query.pattern_blocks import only_exists
from query.reading import checked, matching, only_finding, problems, problems_in, returning


def test_braces_filter_at_their_node_and_predicates_stand_apart() -> None:
    pattern = matching('$p: Person { name: "Ann", tags: "x" } $p.age > 3').pattern

    equality, membership = pattern.find_node("p").filters
    (above,) = pattern.filters
    assert isinstance(equality, Compare)
    assert isinstance(membership, In)
    assert isinstance(above, Compare)
    assert above.op is Op.GT


def test_a_variable_bound_twice_has_both_filters() -> None:
    pattern = matching('$p: Person { name: "Ann" } $p: Person { age: 3 }').pattern

    assert [node.variable for node in pattern.nodes] == ["p"]
    assert len(pattern.find_node("p").filters) == 2


def test_anonymous_variables_are_all_different_and_no_user_can_write_them() -> None:
    pattern = matching("$_ knows $_  $_ $_:knows $_").pattern

    names = [*pattern.types]
    assert len(set(names)) == 5
    assert all(name.startswith(GENERATED_PREFIX) for name in names)


def test_a_hop_keeps_its_bounds_and_edge_variable() -> None:
    near, edge = matching("$a knows{2,3} $b  $a $e:worksAt $c").pattern.hops

    assert (near.low, near.high, near.is_multi, near.is_set) == (2, 3, True, True)
    assert (edge.edge_variable, edge.is_set, edge.is_multi) == ("e", False, False)
    assert edge.edge == EdgeRef("WorksAt", "Person", "Company")


@pytest.mark.parametrize("written", ["knows", "Knows", "KNOWS", '"knows"'])
def test_an_edge_is_found_in_any_case(written: str) -> None:
    (hop,) = matching(f"$a {written} $b").pattern.hops

    assert hop.edge.name == "Knows"


def test_a_cycle_is_three_hops_over_three_variables() -> None:
    pattern = matching("$a knows $b $b knows $c $c knows $a").pattern

    assert [node.variable for node in pattern.nodes] == ["a", "b", "c"]
    assert [(hop.source, hop.target) for hop in pattern.hops] == [("a", "b"), ("b", "c"), ("c", "a")]


def test_a_product_is_allowed() -> None:
    assert len(matching("$a: Person $c: City").pattern.nodes) == 2


# --- not -----------------------------------------------------------------------------------------


def test_a_block_binds_its_own_variables_and_shares_the_others() -> None:
    block = only_exists(matching("$p: Person not { $p worksAt $c $c.founded > $p.age }").pattern)

    assert block.shared == (SharedVariable(variable="p", type=NodeRef("Person")),)
    assert [node.variable for node in block.pattern.nodes] == ["c"]


def test_what_a_block_says_about_a_shared_variable_is_a_filter_of_the_block() -> None:
    block = only_exists(matching('$p: Person not { $p: Person { name: "Ann" } }').pattern)

    assert block.pattern.nodes == ()
    assert len(block.pattern.filters) == 1


def test_a_block_passes_on_what_only_a_block_inside_it_shares() -> None:
    block = only_exists(matching("$p: Person not { $c: Company not { $p worksAt $c } }").pattern)

    assert [shared.variable for shared in block.shared] == ["p"]
    inner = only_exists(block.pattern)
    assert {shared.variable for shared in inner.shared} == {"p", "c"}


def test_a_block_may_share_an_edge_variable() -> None:
    block = only_exists(matching("$p $e:knows $q not { $r: Person $r.born = $e.since }").pattern)

    assert block.shared == (SharedVariable(variable="e", type=EdgeRef("Knows", "Person", "Person")),)


@pytest.mark.parametrize(
    "predicate",
    [
        "$p.age = $q.age",
        "$p.age is null",
        'search($p.bio, "x")',
        "not $p.age > 3",
        "$q.age > 3 and $p.age > 3",
        "$q.age > 3 or $p.age > 3",
        "$q != $p",
    ],
)
def test_a_block_shares_what_its_predicates_mention(predicate: str) -> None:
    block = only_exists(matching(f"$p: Person not {{ $q: Person {predicate} }}").pattern)

    assert [shared.variable for shared in block.shared] == ["p"]


def test_a_block_does_not_decide_types_outside() -> None:
    assert problems_in("$x worksAt $y not { $y: Person }") == [("T5", "Person")]


def test_types_outside_decide_directions_inside() -> None:
    block = only_exists(matching("$c: Company not { $c worksAt $p }").pattern)

    assert block.pattern.hops[0].direction is HopDirection.IN


@pytest.mark.parametrize(
    "clauses, expected",
    [
        ("$p: Person not { $c: City }", [("T9", "not")]),
        ("$p: Person not { $_ knows $_ }", [("T9", "not")]),
        ("$p: Person not { $p knows $f not { $c: City } }", [("T9", "not")]),
        ("$p: Person not { $x.age > 3 }", [("T6", "$x")]),
        ("$p: Person not { $p knows $f } $f.age > 3", [("T6", "$f")]),
        ("not { $p: Person }", [("T9", "not")]),
    ],
)
def test_a_block_must_share_a_variable_with_its_outside(clauses: str, expected: list[tuple[str, str]]) -> None:
    assert problems_in(clauses) == expected


def test_a_variable_of_a_block_is_explained_when_used_outside() -> None:
    found = only_finding("query q() { match { $p: Person not { $p knows $f } } return { $f.name } }")

    assert found.help == "it is bound only inside a block, and is not visible outside it"


# --- names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "clauses, params, expected",
    [
        ("$p: Person", "$p: String", [("Q003", "$p")]),
        ("$a knows $p", "$p: String", [("Q003", "$p")]),
        ("$a $p:knows $b", "$p: String", [("Q003", "$p")]),
        ("$a $e:knows $b $b $e:knows $c", "", [("Q003", "$e")]),
        ("$a $e:knows $b $e knows $c", "", [("Q003", "$e")]),
        ("$a $e:knows $b $e: Person", "", [("Q003", "$e")]),
        ("$a $a:knows $b", "", [("Q003", "$a")]),
        ("$a $e:knows $b not { $a $e:knows $c }", "", [("Q003", "$e")]),
        ("$a $e:knows $b not { $e knows $a }", "", [("Q003", "$e")]),
    ],
)
def test_a_name_stands_for_one_thing(clauses: str, params: str, expected: list[tuple[str, str]]) -> None:
    assert problems_in(clauses, params) == expected


@pytest.mark.parametrize(
    "clauses, expected",
    [
        ("$a knows{0,0} $b", [("T15", "{0,0}")]),
        ("$a knows{65,*} $b", [("T15", "{65,*}")]),
        ("$a worksAt{1,2} $b", [("T15", "{1,2}")]),
        ("$a $e:knows{1,2} $b", [("T23", "$e")]),
        ("$a <worksAt> $b", [("T22", "worksAt")]),
        ("$a knwos $b", [("T4", "knwos")]),
        ("$a: Person { id: 3 }", [("T2", "id")]),
        ("$a: Person { name: ann }", [("T6", "ann")]),
        ("$a: Persn not { $a knows $b $b.agee > 3 $a.x > 3 }", [("T1", "Persn"), ("T2", "agee")]),
        ("$a: Knows", [("T1", "Knows")]),
        ("$a: Person { nme: $x }", [("T2", "nme"), ("T6", "$x")]),
        ("$a: Persn { nme: $x, age: 3 }", [("T1", "Persn"), ("T6", "$x")]),
        ("$a: City $a in $b", [("T6", "$b")]),
    ],
)
def test_each_rule_of_clauses_has_its_code_and_place(clauses: str, expected: list[tuple[str, str]]) -> None:
    assert problems_in(clauses) == expected


@pytest.mark.parametrize(
    "text, help_",
    [
        ("$a: Knows", "bind an edge in a hop: `$a $e:knows $b`"),
        ("$a knows{1,65} $b", "without an upper bound: `{1,*}`"),
        ("$a: Persn", "did you mean `Person`?"),
        ("$a: Person $a.id = $a.name", "an id is not a property: write `@id`"),
        ("$a livsIn $b", "did you mean `livesIn`?"),
        ("$a <livesIn> $b", "write `$a livesIn $b`"),
        ("$person: Person $persn.age > 3", "did you mean `$person`?"),
        ('$p: Person { born: "2000-01-01" }', 'write `date("2000-01-01")`'),
        ("$a: City $a in $b", 'an edge with a reserved word as its name is written in quotes: `$a "in" $b`'),
    ],
)
def test_a_message_shows_the_way_out(text: str, help_: str) -> None:
    (found,) = checked(f"query q() {{ match {{ {text} }} return {{ 1 as one }} }}").diagnostics

    assert found.help == help_


def test_everything_wrong_is_said_at_once_and_once() -> None:
    text = """query q($n: I32) {
        match {
            $p: Person { nme: "Ann" }
            $p knwos $f
            $f.age > 3
            $p.age < "3"
            $q.age > $n
        }
        return { $p.agee, $f.anything }
        limit $m
    }"""

    assert problems(text) == [
        ("T2", "nme"),
        ("T4", "knwos"),
        ("T7", '$p.age < "3"'),
        ("T6", "$q"),
        ("T2", "agee"),
        ("T6", "$m"),
    ]


def test_ids_are_values_of_their_own() -> None:
    query = returning("{ $e.@src, $e.@id }", "$a $e:knows $b $a.@id != $b.@id")

    assert [column.name for column in query.output] == ["e.@src", "e.@id"]
    assert all(isinstance(column.value, Identity) for column in query.output)


def test_columns_of_every_variable_are_known() -> None:
    pattern = returning("{ $p.name, $e.role }", "$p $e:worksAt $c $p.age > 3 not { $p.bio = $c.name }").pattern

    assert pattern.find_node("p").columns == ("age", "bio", "name")
    assert pattern.find_node("c").columns == ("name",)
    assert pattern.hops[0].columns == ("role",)


def test_a_property_knows_its_type_and_nullability() -> None:
    (column,) = returning("{ $p.age }").output

    assert isinstance(column.value, Prop)
    assert column.value.nullable
