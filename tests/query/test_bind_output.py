import pytest

from omnigraph.query.expr import Aggregate, AggregateFunction, Entity, Identity, ParamRef, Prop
from omnigraph.query.logical_plan import OrderTerm, ReadQuery
from omnigraph.schema.types import ListOf, Scalar, ValueType
from query.reading import checked, problems_behind, returning


def tied_by(query: ReadQuery) -> list[str]:
    return [
        f"{tie.variable}.{tie.name}" if isinstance(tie, Prop) else f"{tie.variable}.@{tie.part.value}"
        for tie in query.ties
        if isinstance(tie, Prop | Identity)
    ]


# --- columns -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, name",
    [
        ("$p", "p"),
        ("$p.name", "p.name"),
        ("$p.@id", "p.@id"),
        ("$p.name as title", "title"),
        ("count(*)", "count(*)"),
        ("count(distinct $p.age)", "count(distinct p.age)"),
        ("$n", "n"),
        ("now()", "now()"),
        ("bm25($p.bio, $n)", "bm25(p.bio, n)"),
    ],
)
def test_a_column_is_named_by_its_alias_or_its_text(text: str, name: str) -> None:
    (column,) = returning(f"{{ {text} }}", params="$n: String").output

    assert column.name == name


def test_a_whole_node_leaves_out_blobs_and_vectors() -> None:
    (column,) = returning("{ $c }", "$c: Person").output

    assert isinstance(column.value, Entity)
    names = [field.name for field in column.value.fields]
    assert names == ["name", "age", "score", "height", "visits", "active", "born", "seen", "status", "tags", "bio"]


@pytest.mark.parametrize(
    "literal, type_",
    [
        ("1", Scalar.I64),
        ("9223372036854775808", Scalar.U64),
        ("1.5", Scalar.F64),
        ("[1, 2.5]", ListOf(Scalar.F64)),
        ("[1, 9223372036854775808]", ListOf(Scalar.U64)),
        ('["a"]', ListOf(Scalar.STRING)),
        ("[]", ListOf(Scalar.STRING)),
        ("null", Scalar.STRING),
        ('date("2000-01-01")', Scalar.DATE),
    ],
)
def test_a_literal_by_itself_has_a_type_of_its_own(literal: str, type_: ValueType) -> None:
    (column,) = returning(f"{{ {literal} as x }}").output

    assert column.value.type == type_


@pytest.mark.parametrize(
    "tail, expected",
    [
        ("{ $p.name, $p.name }", [("T25", "$p.name")]),
        ("{ $p.name as x, $p.age as x }", [("T25", "x")]),
        ("{ $p.name as p, $p }", [("T25", "$p")]),
        ("{ 1 }", [("Q000", "1")]),
        ("{ $p.name title }", [("T6", "title")]),
        ("{ $p.name as title, title as x }", [("T6", "title")]),
        ('{ [1, "a"] as x }', [("T3", '[1, "a"]')]),
        ("{ 99999999999999999999 as x }", [("T3", "99999999999999999999")]),
        ('{ search($p.bio, "x") as x }', [("T18", "search")]),
    ],
)
def test_each_rule_of_columns_has_its_code_and_place(tail: str, expected: list[tuple[str, str]]) -> None:
    assert problems_behind(tail) == expected


# --- groups --------------------------------------------------------------------------------------


def test_columns_beside_an_aggregate_are_group_keys_in_order() -> None:
    query = returning("{ $p.status, count(*) as n, $p, $p.status as again }")

    assert query.grouping is not None
    status, whole = query.grouping.keys
    assert isinstance(status, Prop)
    assert isinstance(whole, Entity)
    assert [aggregate.fold for aggregate in query.grouping.aggregates] == [AggregateFunction.COUNT]


def test_an_aggregate_in_the_order_only_is_worked_out_too() -> None:
    query = returning("{ $p.status, count(*) as n } order { avg($p.age) }")

    assert query.grouping is not None
    assert [aggregate.fold for aggregate in query.grouping.aggregates] == [
        AggregateFunction.COUNT,
        AggregateFunction.AVG,
    ]


@pytest.mark.parametrize("text", ["count(*)", "count($p)"])
def test_counting_rows_and_counting_a_variable_are_one_thing(text: str) -> None:
    (column,) = returning(f"{{ {text} as n }}").output

    assert isinstance(column.value, Aggregate)
    assert column.value.argument is None


def test_distinct_nodes_are_counted_by_identity() -> None:
    (column,) = returning("{ count(distinct $p) as n }").output

    assert isinstance(column.value, Aggregate)
    assert isinstance(column.value.argument, Identity)


@pytest.mark.parametrize(
    "tail, marked",
    [
        ("{ sum($p.name) as s }", "$p.name"),
        ("{ avg($p.active) as s }", "$p.active"),
        ("{ min($p.tags) as s }", "$p.tags"),
        ("{ max($p) as s }", "$p"),
        ("{ count(distinct $p.face) as s }", "$p.face"),
        ("{ sum(*) as s }", "*"),
        ("{ max(count(*)) as s }", "count(*)"),
        ("{ sum($p.age, $p.age) as s }", "sum($p.age, $p.age)"),
        ("{ $p.tags, count(*) as s }", "$p.tags"),
        ("{ $p.photo, count(*) as s }", "$p.photo"),
        ("distinct { $p.face }", "$p.face"),
        ("{ $p.name } order { count(*) }", "count(*)"),
    ],
)
def test_an_aggregate_or_group_without_meaning_is_marked(tail: str, marked: str) -> None:
    assert problems_behind(tail) == [("T8", marked)]


# --- order ---------------------------------------------------------------------------------------


def test_an_alias_stands_for_its_expression() -> None:
    query = returning("{ $p.age as years } order { years desc }")

    assert query.order == (OrderTerm(value=query.output[0].value, descending=True),)


def test_ties_are_broken_by_the_ids_of_all_variables_in_order_of_appearance() -> None:
    query = returning("{ $b.name } limit 3", "$b $e:worksAt $c $a knows $b $_ knows $a")

    assert tied_by(query) == ["b.@id", "e.@id", "c.@id", "a.@id", "#1.@id"]


def test_ties_of_groups_are_broken_by_the_keys() -> None:
    query = returning("{ count(*) as n, $p.status, $p, 1 as one } order { n }")

    assert tied_by(query) == ["p.status", "p.@id"]


def test_ties_of_distinct_rows_are_broken_by_the_columns() -> None:
    query = returning("distinct { $p.status, $p.age }")

    assert tied_by(query) == ["p.status", "p.age"]


@pytest.mark.parametrize(
    "tail, expected",
    [
        ("{ $p.age as years } order { yeers }", [("T6", "yeers")]),
        ("{ $p } order { $p }", [("T7", "$p")]),
        ("{ $p } order { $p.tags }", [("T7", "$p.tags")]),
        ("{ $p } order { $p.face }", [("T7", "$p.face")]),
        ("{ $p } order { 1 }", [("T7", "1")]),
        ("{ $p.status, count(*) } order { $p.age }", [("T9", "$p.age")]),
        ("distinct { $p.status } order { $p.age }", [("T9", "$p.age")]),
        ("{ $p.agee as a, count(*) } order { a, $p.age }", [("T2", "agee")]),
    ],
)
def test_each_rule_of_order_has_its_code_and_place(tail: str, expected: list[tuple[str, str]]) -> None:
    assert problems_behind(tail) == expected


@pytest.mark.parametrize(
    "tail", ["{ $p, count(*) } order { $p.@id }", "distinct { $p } order { $p.@id }", "{ $p.age } order { $p.@id }"]
)
def test_a_whole_node_may_be_ordered_by_its_id(tail: str) -> None:
    assert returning(tail).is_ordered


@pytest.mark.parametrize(
    "written, help_",
    [("yeers", "did you mean `years`?"), ("name", "did you mean `$p.name`?")],
)
def test_an_unknown_alias_gets_what_was_meant(written: str, help_: str) -> None:
    (found,) = checked(
        f"query q() {{ match {{ $p: Person }} return {{ $p.age as years }} order {{ {written} }} }}"
    ).diagnostics

    assert found.help == help_


# --- limit, offset -------------------------------------------------------------------------------


def test_limit_and_offset_are_numbers_or_parameters() -> None:
    query = returning("{ $p } limit 3 offset $n", params="$n: U32")

    assert query.limit == 3
    assert isinstance(query.offset, ParamRef)


@pytest.mark.parametrize(
    "count, params, expected",
    [
        ("-1", "", [("T24", "-1")]),
        ("9223372036854775808", "", [("T24", "9223372036854775808")]),
        ("$n", "$n: F64", [("T24", "$n")]),
        ("$n", "$n: I64?", [("T24", "$n")]),
        ("$p", "", [("T24", "$p")]),
        ("$n", "", [("T6", "$n")]),
    ],
)
@pytest.mark.parametrize("word", ["limit", "offset"])
def test_a_limit_is_a_whole_number(word: str, count: str, params: str, expected: list[tuple[str, str]]) -> None:
    assert problems_behind(f"{{ $p }} {word} {count}", params=params) == expected
