"""Blocks are nodes of the plan: what they share, what they bind, and what the expressions around them read."""

import pytest

from omnigraph.lang.query_ast import BlockKind
from omnigraph.query.column_pruning import prune_columns
from omnigraph.query.expr import Aggregate, Entity, Identity, IsNull, NodeRef, Not, Or, Prop, ValueRef
from omnigraph.query.logical_plan import (
    EitherBlock,
    Exists,
    OptionalMatch,
    Pattern,
    ReadQuery,
    SharedVariable,
    ValueBlock,
)
from omnigraph.query.rules import rewrite_read
from omnigraph.schema.types import ListOf, Scalar
from query.reading import bound, checked, matching, only_finding

PERSON = NodeRef("Person")
P = SharedVariable(variable="p", type=PERSON)


def read(clauses: str, columns: str, tail: str = "") -> ReadQuery:
    """The plan of a correct read."""
    return bound(f"query q() {{ match {{ {clauses} }} return {{ {columns} }} {tail} }}")


def only_block(pattern: Pattern, kind: type) -> object:
    (block,) = (block for block in pattern.blocks if isinstance(block, kind))
    return block


# --- tests -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "condition, negated",
    [
        ("exists { $p knows $f }", False),
        ("not exists { $p knows $f }", True),
        ("not { $p knows $f }", True),
        ("not (not exists { $p knows $f })", False),
        ("exists { $p knows $f } = true", False),
        ("exists { $p knows $f } = false", True),
        ("exists { $p knows $f } != true", True),
    ],
)
def test_a_test_that_is_a_clause_is_a_semi_join(condition: str, negated: bool) -> None:
    pattern = matching(f"$p: Person {condition}").pattern

    (block,) = pattern.blocks
    assert isinstance(block, Exists)
    assert (block.negated, block.shared) == (negated, (P,))
    assert pattern.filters == ()


def test_a_test_inside_a_condition_is_a_value_of_the_pattern() -> None:
    pattern = matching("$p: Person exists { $p knows $f } or $p.age > 3").pattern

    (block,) = pattern.blocks
    (condition,) = pattern.filters
    assert isinstance(block, ValueBlock)
    assert isinstance(condition, Or)
    assert condition.terms[0] == ValueRef(
        variable=block.variable, type=Scalar.BOOL, nullable=False, origin=condition.origin
    )


def test_equal_blocks_are_solved_once() -> None:
    query = read("$p: Person count { $p knows $f } > 1", "count { $p knows $f } as n", "order { n }")

    (block,) = query.pattern.blocks
    assert isinstance(block, ValueBlock)


# --- optional --------------------------------------------------------------------------------------


def test_outside_the_variables_of_an_optional_block_are_nullable() -> None:
    query = read("$p: Person optional { $p worksAt $c }", "$c, $c.name, $c.@id")

    whole, name, id_ = (column.value for column in query.output)
    assert isinstance(whole, Entity)
    assert isinstance(name, Prop)
    assert isinstance(id_, Identity)
    assert (whole.nullable, name.nullable, id_.nullable) == (True, True, True)


def test_inside_they_are_not() -> None:
    pattern = matching("$p: Person optional { $p worksAt $c $c.name = $p.name }").pattern

    block = only_block(pattern, OptionalMatch)
    assert isinstance(block, OptionalMatch)
    (condition,) = block.pattern.filters
    assert not condition.nullable


def test_optional_blocks_are_in_the_order_of_the_text_and_see_earlier_ones() -> None:
    pattern = matching("optional { $p knows $f } $p: Person optional { $f worksAt $c }").pattern

    first, second = pattern.blocks
    assert isinstance(first, OptionalMatch)
    assert isinstance(second, OptionalMatch)
    assert [each.variable for each in first.shared] == ["p"]
    assert [each.variable for each in second.shared] == ["f"]


def test_nothing_matches_from_null() -> None:
    pattern = matching("$p: Person optional { $p knows $f } optional { $f worksAt $c }").pattern

    second = pattern.blocks[1]
    assert isinstance(second, OptionalMatch)
    (guard,) = second.pattern.filters
    assert isinstance(guard, IsNull)
    assert (guard.negated, guard.operand) == (True, Identity(variable="f", nullable=True, origin=guard.origin))


def test_a_predicate_outside_is_never_pushed_into_an_optional_block() -> None:
    query = rewrite_read(read("$p: Person optional { $p worksAt $c } $c.founded > 3", "$p.name"))

    block = only_block(query.pattern, OptionalMatch)
    assert isinstance(block, OptionalMatch)
    assert len(query.pattern.filters) == 1
    assert block.pattern.find_node("c").filters == ()


def test_count_of_an_optional_variable_counts_its_ids() -> None:
    query = read("$p: Person optional { $p worksAt $c }", "count($c) as n, count($p) as rows")

    n, rows = (column.value for column in query.output)
    assert isinstance(n, Aggregate)
    assert isinstance(rows, Aggregate)
    assert n.argument == Identity(variable="c", nullable=True, origin=n.origin)
    assert rows.argument is None


def test_rows_tie_by_the_ids_of_optional_variables_too() -> None:
    query = read("$p: Person optional { $p knows $f }", "$p.name", "limit 3")

    assert [(tie.variable, tie.nullable) for tie in query.ties if isinstance(tie, Identity)] == [
        ("p", False),
        ("f", True),
    ]


# --- values ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "block, type_, nullable",
    [
        ("exists { $p knows $f }", Scalar.BOOL, False),
        ("count { $p knows $f }", Scalar.I64, False),
        ("sum { $p knows $f return $f.age }", Scalar.I64, True),
        ("avg { $p knows $f return $f.age }", Scalar.F64, True),
        ("min { $p knows $f return $f.name }", Scalar.STRING, True),
        ("collect { $p knows $f return $f.age }", ListOf(Scalar.I32), False),
    ],
)
def test_the_type_of_a_block(block: str, type_: object, nullable: bool) -> None:
    (column,) = read("$p: Person", f"{block} as x").output

    assert (column.value.type, column.value.nullable) == (type_, nullable)


def test_matches_tie_by_their_variables_and_distinct_values_by_themselves() -> None:
    query = read(
        "$p: Person",
        "collect { $p $e:knows $f return $f.age } as a, collect { $p knows $f return distinct $f.age } as b",
    )

    first, second = query.pattern.blocks
    assert isinstance(first, ValueBlock)
    assert isinstance(second, ValueBlock)
    assert [tie.variable for tie in first.ties if isinstance(tie, Identity)] == ["e", "f"]
    assert second.ties == (second.value,)


def test_a_block_that_reads_nothing_shares_nothing() -> None:
    query = read("$p: Person", "max { $q: Person return $q.age } as x")

    (block,) = query.pattern.blocks
    assert block.shared == ()


def test_the_columns_of_a_block_are_what_its_value_reads() -> None:
    query = prune_columns(read("$p: Person", "sum { $p knows $f $f.name = $p.name return $f.age } as x"))

    (block,) = query.pattern.blocks
    assert isinstance(block, ValueBlock)
    assert block.pattern.find_node("f").columns == ("age", "name")
    assert query.pattern.find_node("p").columns == ("name",)


def test_the_kind_of_a_block_is_kept() -> None:
    (block,) = read("$p: Person", "avg { $p knows $f return distinct $f.age limit 3 } as x").pattern.blocks

    assert isinstance(block, ValueBlock)
    assert (block.kind, block.distinct, block.limit) == (BlockKind.AVG, True, 3)


# --- either ----------------------------------------------------------------------------------------


def test_either_binds_what_all_alternatives_bind() -> None:
    pattern = matching("$p: Person either { $p knows $f } or { $f knows $p $f worksAt $c }").pattern

    (block,) = pattern.blocks
    assert isinstance(block, EitherBlock)
    assert [each.variable for each in block.shared] == ["p"]
    assert [each.variable for each in block.variables] == ["f"]
    assert [node.variable for node in pattern.nodes] == ["p"]


@pytest.mark.parametrize(
    "reading",
    [
        "either { $p knows $q $q.age > $f.age } or { $q knows $p }",
        "either { each $q in [$f.age, 1] } or { each $q in [2] }",
    ],
)
def test_either_may_stand_before_what_it_reads(reading: str) -> None:
    binding = "either { $p knows $f } or { $f knows $p }"

    first, second = matching(f"$p: Person {reading} {binding}").pattern.blocks

    assert isinstance(first, EitherBlock)
    assert isinstance(second, EitherBlock)
    assert [each.variable for each in first.variables] == ["f"]
    assert "f" in [each.variable for each in second.shared]


def test_a_variable_with_a_type_outside_is_shared() -> None:
    pattern = matching("$p: Person $f: Person either { $p knows $f } or { $f knows $p }").pattern

    (block,) = pattern.blocks
    assert isinstance(block, EitherBlock)
    assert [each.variable for each in block.shared] == ["p", "f"]
    assert block.variables == ()


def test_an_alternative_that_can_not_match_is_dropped() -> None:
    query = rewrite_read(read("$p: Person either { $p knows $f } or { $p knows $f $f.age in [] }", "$f.name"))

    (block,) = query.pattern.blocks
    assert isinstance(block, EitherBlock)
    assert len(block.alternatives) == 1


# --- let -------------------------------------------------------------------------------------------


def test_let_is_inlined_with_the_type_of_its_place() -> None:
    # A literal gets the type of what it is compared with, also by an abbreviation.
    plain = matching("$p: Person $p.age = 3").pattern
    named = matching("$p: Person let $x = 3 $p.age = $x").pattern

    assert plain.filters == named.filters


def test_a_column_has_the_name_of_its_abbreviation() -> None:
    query = read("$p: Person let $x = $p.age * 2", "$x, $x + 1")

    assert [column.name for column in query.output] == ["x", "x + 1"]


def test_a_property_of_an_abbreviated_variable() -> None:
    query = read("$p: Person let $x = $p", "$x.name")

    assert isinstance(query.output[0].value, Prop)
    assert query.output[0].value.variable == "p"


def test_an_unused_let_solves_nothing() -> None:
    assert matching("$p: Person let $x = count { $p knows $f }").pattern.blocks == ()


def test_an_abbreviation_of_a_value_has_no_id() -> None:
    problem = only_finding("query q() { match { $p: Person let $x = $p.age } return { $x.@id } }")

    assert problem.code == "T2"


# --- rules -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "clause",
    [
        "exists { $p knows $f $f.age in [] }",
        "not { $p: Person }",
        "either { $p knows $f $f.age in [] } or { $p knows $f $f.name in [] }",
    ],
)
def test_a_block_that_excludes_all_rows_empties_the_pattern(clause: str) -> None:
    query = rewrite_read(read(f"$p: Person {clause}", "$p.name"))

    assert [str(expr.value) for expr in query.pattern.filters if hasattr(expr, "value")] == ["False"]


def test_an_optional_block_that_can_not_match_stays() -> None:
    query = rewrite_read(read("$p: Person optional { $p knows $f $f.age in [] }", "$f.name"))

    assert len(query.pattern.blocks) == 1


@pytest.mark.parametrize(
    "match_text",
    [
        "$p: Person optional { $p knows $f optional { $f worksAt $c } } $c.founded > 3 or $c is null",
        "either { $p knows $f } or { $f knows $p } $f worksAt $c not (exists { $p worksAt $c } or $p.age > 3)",
        "$p: Person sum { $p knows $f exists { $f worksAt $c } return $f.age order { $f.name } limit 3 } > 1",
    ],
)
def test_rewriting_twice_changes_nothing(match_text: str) -> None:
    query = read(match_text, "$p.name")

    once = rewrite_read(query)

    assert isinstance(once, ReadQuery)
    assert rewrite_read(once) == once


def test_not_of_a_value_stays_a_predicate() -> None:
    pattern = matching("$p: Person not (exists { $p knows $f } and $p.age > 3)").pattern

    (condition,) = pattern.filters
    assert isinstance(condition, Not)


def test_a_block_in_a_mutation_is_refused() -> None:
    result = checked("query q() { delete Person where exists { $p knows $f } }")

    assert result.diagnostics
