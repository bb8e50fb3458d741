"""Which types and directions a hop of several edge types has, and what a variable of several types is bound to."""

import pytest

from omnigraph.query.expr import Const, Entity, Identity, In, NodeRef, Prop
from omnigraph.query.logical_plan import Exists, Hop, HopDirection
from omnigraph.query.union_types import EdgeUnion, NodeUnion, list_object_fields, unite_nodes, unite_value_types
from omnigraph.schema.types import EnumOf, ListOf, Scalar, ValueType
from query.reading import CATALOG, matching, returning
from schema_making import catalog_from

OUT, IN, BOTH = HopDirection.OUT, HopDirection.IN, HopDirection.BOTH


def ways(hop: Hop) -> list[tuple[str, HopDirection]]:
    return [(member.edge.name, member.direction) for member in hop.members]


def types(clauses: str) -> dict[str, str]:
    return {name: str(type_) for name, type_ in matching(clauses).pattern.types.items()}


@pytest.mark.parametrize(
    "clauses, expected",
    [
        ("$a (knows|worksAt) $b", [("Knows", OUT), ("WorksAt", OUT)]),
        ("$a (worksAt|knows|knows) $b", [("Knows", OUT), ("WorksAt", OUT)]),
        # Each edge is read as it would be alone: backwards only if its stored direction does not fit.
        ("$c: Company $c (worksAt|basedIn) $x", [("BasedIn", OUT), ("WorksAt", IN)]),
        ("$c: City $c (livesIn|basedIn) $x", [("BasedIn", IN), ("LivesIn", IN)]),
        # Any edge is followed as it is stored.
        ("$c: Company $x (*) $c $x: Person", []),
        ("$c: City $x (*) $c", [("BasedIn", OUT), ("In", OUT), ("LivesIn", OUT)]),
        ("$a <(knows|worksAt)> $b $a: Person", [("Knows", OUT), ("Knows", IN), ("WorksAt", OUT)]),
        ("$a $e:<(knows|in)> $b", [("In", OUT), ("In", IN), ("Knows", OUT), ("Knows", IN)]),
        # A walk may use all edges, whatever its ends.
        ("$a: Company $a <(knows|worksAt)>{1,3} $b $b: Company", [("Knows", BOTH), ("WorksAt", BOTH)]),
        ("$a (knows|worksAt){1,*} $b", [("Knows", OUT), ("WorksAt", OUT)]),
    ],
)
def test_each_edge_type_is_followed_where_it_fits(clauses: str, expected: list[tuple[str, HopDirection]]) -> None:
    (hop,) = matching(clauses.replace("|in)", '|"in")')).pattern.hops

    assert ways(hop) == expected


@pytest.mark.parametrize(
    "clauses, direction",
    [
        ("$a: Person $a (*) $c $c: Company", OUT),
        ("$c: Company $c <*> $a $a: Person", IN),
        ("$a: Person $a <*> $b $b: Person", BOTH),
        ("$a: Person $a (knows|knows){1,3} $b", OUT),
    ],
)
def test_a_hop_that_is_left_with_one_edge_type_is_a_plain_one(clauses: str, direction: HopDirection) -> None:
    (hop,) = matching(clauses).pattern.hops

    assert (hop.members, hop.ends, hop.direction) == ((), None, direction)


@pytest.mark.parametrize(
    "clauses, expected",
    [
        ("$a (knows|worksAt) $b", {"a": "Person", "b": "Company|Person"}),
        ("$x: Named $x livesIn $c", {"x": "Person", "c": "City"}),
        ("$x: Named $x (livesIn|basedIn) $c", {"x": "Company|Person", "c": "City"}),
        ("$x: (City|Named)", {"x": "City|Company|Person"}),
        ("$x: Named $x: (Company|City)", {"x": "Company"}),
        ("$a $e:(livesIn|basedIn) $b $a: Person", {"a": "Person", "b": "City", "e": "LivesIn"}),
        # From a company a walk of one or two edges as they are stored ends at a city.
        ("$a: Company $a (*){1,2} $b", {"a": "Company", "b": "City"}),
        ("$a: Company $a (*){0,2} $b", {"a": "Company", "b": "City|Company"}),
        # Exactly two edges lead from people to people, companies and cities.
        ("$a: Person $a (knows|worksAt|basedIn){2,2} $b", {"a": "Person", "b": "City|Company|Person"}),
        ("$a: Person $a (worksAt|basedIn){2,2} $b", {"a": "Person", "b": "City"}),
        ("$a: Person $a (worksAt|basedIn){2,*} $b", {"a": "Person", "b": "City"}),
    ],
)
def test_hops_narrow_the_types_of_their_ends(clauses: str, expected: dict[str, str]) -> None:
    assert types(clauses) == expected


def test_the_order_of_clauses_does_not_decide_a_type() -> None:
    first = types("$x: Named $x (livesIn|basedIn) $c $x worksAt $y")
    second = types("$x worksAt $y $x (livesIn|basedIn) $c $x: Named")

    assert first == second == {"x": "Person", "y": "Company", "c": "City"}


def test_a_union_has_one_name_however_it_is_written() -> None:
    first, second = (matching(f"$x: ({names})").pattern.types["x"] for names in ("Person|City", "City|Person|City"))

    assert first == second == NodeUnion("City|Person", ("City", "Person"))
    assert unite_nodes(["City"]) == NodeRef("City")


def test_an_edge_variable_of_several_types_is_a_union() -> None:
    type_ = matching("$a $e:(knows|worksAt) $b").pattern.types["e"]

    assert isinstance(type_, EdgeUnion)
    assert (type_.name, type_.source, type_.target) == ("Knows|WorksAt", "Person", "Company|Person")


def test_a_block_does_not_narrow_a_variable_of_the_outside() -> None:
    pattern = matching("$x: Named not { $x livesIn $c }").pattern

    (block,) = pattern.blocks
    assert isinstance(block, Exists)
    (hop,) = block.pattern.hops
    assert [str(shared.type) for shared in block.shared] == ["Company|Person"]
    assert hop.ends == (NodeUnion("Company|Person", ("Company", "Person")), NodeRef("City"))
    assert ways(hop) == [("LivesIn", OUT)]


def test_a_binding_inside_a_block_is_a_condition_on_the_type() -> None:
    (block,) = matching("$x: Named not { $x: Person }").pattern.blocks

    assert isinstance(block, Exists)
    (condition,) = block.pattern.filters
    assert isinstance(condition, In)
    assert isinstance(condition.element, Prop)
    assert isinstance(condition.collection, Const)
    assert (condition.element.name, condition.collection.value) == ("@type", ("Person",))


def test_the_type_of_a_single_type_is_a_constant() -> None:
    (column,) = returning("{ $p.@type as t }").output

    assert isinstance(column.value, Const)
    assert column.value.value == "Person"


def test_ties_are_the_identity_of_a_union_and_its_id_is_a_value() -> None:
    query = returning("{ $x.@id }", "$x: Named")

    (tie,) = query.ties
    assert isinstance(tie, Identity)
    assert isinstance(query.output[0].value, Prop)


def test_an_object_has_the_type_and_what_any_member_has() -> None:
    (column,) = returning("{ $x }", "$x: (City|Company)").output

    assert isinstance(column.value, Entity)
    assert [(p.name, p.nullable) for p in column.value.fields] == [
        ("@type", False),
        ("name", False),
        ("founded", True),
    ]


@pytest.mark.parametrize(
    "members, expected",
    [
        ([Scalar.I32, Scalar.U32], Scalar.I64),
        ([Scalar.I64, Scalar.U64], Scalar.F64),
        ([Scalar.I32, Scalar.F32], Scalar.F64),
        ([EnumOf(("a",)), EnumOf(("b",))], Scalar.STRING),
        ([EnumOf(("a",)), Scalar.STRING], Scalar.STRING),
        ([Scalar.DATE, Scalar.DATE], Scalar.DATE),
        ([Scalar.DATE, Scalar.DATETIME], None),
        ([Scalar.STRING, Scalar.I32], None),
        ([ListOf(Scalar.I32), ListOf(Scalar.I64)], None),
    ],
)
def test_values_of_different_types_get_a_common_one_if_there_is_any(
    members: list[ValueType], expected: ValueType | None
) -> None:
    assert unite_value_types(members) == expected
    assert unite_value_types(members[::-1]) == expected


def test_a_property_without_a_common_type_is_left_out_of_objects() -> None:
    catalog = catalog_from("node A { k: String @key n: I32 }\nnode B { k: String @key n: String }\n")

    assert [field.name for field in list_object_fields(catalog, "A|B")] == ["k"]
    assert [field.name for field in list_object_fields(CATALOG, "City|Company")] == ["name", "founded"]
