"""Rewriting whole queries: what the rules do together, seen through the plan."""

import pytest

from omnigraph.query.format_expr import format_expr
from omnigraph.query.logical_plan import ReadQuery
from omnigraph.query.mutation_plan import Delete, InsertNode, MutationQuery, Update
from omnigraph.query.rules import rewrite, rewrite_read
from query.planning import plan, read


def filters_of(query: ReadQuery, variable: str = "p") -> list[str]:
    return [format_expr(expr) for expr in rewrite_read(query).pattern.find_node(variable).filters]


def where_of(text: str, params: str = "") -> str:
    rewritten = rewrite(plan(f"query q({params}) {{ {text} }}"))
    assert isinstance(rewritten, MutationQuery)
    (statement,) = rewritten.statements
    assert isinstance(statement, Update | Delete)
    return format_expr(statement.where)


@pytest.mark.parametrize(
    "clauses,expected",
    [
        ("$p: Person { age: 3 } $p.name > $n", ["$p.age = 3", "$p.name > $n"]),
        ("$p: Person $p.age = 1 or $p.age = 2 or $p.age in [3, 1]", ["$p.age in [1, 2, 3]"]),
        ('$p: Person $p.status = "new" or $p.status = "gone"', ['$p.status in ["new", "gone"]']),
        ("$p: Person not ($p.age < 3 or $p.name = $n)", ["$p.age >= 3", "$p.name != $n"]),
        ("$p: Person 18 <= $p.age", ["$p.age >= 18"]),
        ("$p: Person $p.age < 2.7", ["$p.age <= 2"]),
        ("$p: Person $p.age < 3000000000", ["$p.age is not null"]),
        ("$p: Person $p.name is not null", []),
        ("$p: Person $p.age > 3 and $p.age is not null", ["$p.age > 3"]),
        ("$p: Person $p.age in [7]", ["$p.age = 7"]),
        ("$p: Person $p.age > 3 $p.age > 3", ["$p.age > 3"]),
        ("$p: Person 1 = 1", []),
        ('$p: Person not $p.bio contains "x"', ['not ($p.bio contains "x")']),
    ],
)
def test_filters_are_simplified_and_stand_at_their_node(clauses: str, expected: list[str]) -> None:
    assert filters_of(read(clauses, params="$n: String")) == expected


@pytest.mark.parametrize(
    "clauses",
    [
        "$p: Person $p.age = 2.7",
        "$p: Person $p.age = null",
        "$p: Person { age: 3 } $p.age = 4",
        "$p: Person $p.age in []",
        "$p: Person $p.name is null",
        "$p: Person $p.age > 5 and $p.age < 3",
        "$p: Person 1 = 2",
        "$p: Person not { $p.name is not null }",
    ],
)
def test_a_pattern_that_cannot_match_is_reduced_to_false(clauses: str) -> None:
    pattern = rewrite_read(read(clauses)).pattern

    assert [format_expr(expr) for expr in pattern.filters] == ["false"]
    assert pattern.find_node("p").filters == ()


def test_a_block_that_cannot_match_is_gone() -> None:
    assert rewrite_read(read("$p: Person not { $p knows $q $q.age in [] }")).pattern.blocks == ()


def test_a_property_that_only_a_dropped_filter_reads_is_not_read() -> None:
    query = read("$p: Person $p.mail = $p.mail or 1 = 1")

    assert rewrite_read(query).pattern.find_node("p").columns == ("name",)


def test_a_bare_variable_reads_all_but_vector_and_blob() -> None:
    query = read("$p: Person", output="$p")

    columns = rewrite_read(query).pattern.find_node("p").columns

    assert columns == ("age", "bio", "mail", "name", "seen", "status")


def test_an_aggregate_and_an_order_key_read_their_properties() -> None:
    query = read("$p: Person $p $e:knows $f", output="$p.name, max($f.age) as oldest, sum($e.weight) as w")

    pattern = rewrite_read(query).pattern

    assert (pattern.find_node("p").columns, pattern.find_node("f").columns) == (("name",), ("age",))
    assert pattern.hops[0].columns == ("weight",)


def test_a_variable_that_is_only_counted_reads_nothing() -> None:
    query = read("$p: Person $p knows $f", output="$p.name, count($f) as n")

    assert rewrite_read(query).pattern.find_node("f").columns == ()


def test_rewriting_again_changes_nothing() -> None:
    query = read("$p: Person { age: 3 } $p knows $f $f.age > 2 and $p.age < $f.age not { $f knows $p 1 = 1 }")

    once = rewrite(query)

    assert rewrite(once) == once


@pytest.mark.parametrize(
    "where,expected",
    [
        ('not (name != "x" or age is null)', 'name = "x" and age is not null'),
        ('name = "x" or name = "y"', 'name in ["x", "y"]'),
        ("age = 2.5", "false"),
        ("name is not null", "true"),
    ],
)
def test_the_predicate_of_a_mutation_is_simplified(where: str, expected: str) -> None:
    assert where_of(f"delete Person where {where}") == expected


def test_an_insert_stays_as_it_is() -> None:
    query = plan('query q() { insert Person { name: "x" } }')

    assert rewrite(query) == query
    assert isinstance(query, MutationQuery)
    assert isinstance(query.statements[0], InsertNode)
