"""The forms of the second part of the language: their trees, and names that look like their words."""

import pytest

from language_oracle import accepts
from omnigraph.lang import query_ast as q
from omnigraph.lang.expression_tree import list_children, walk, walk_clauses, walk_deep
from omnigraph.lang.lexer import Language
from omnigraph.lang.literals import BaseType, ListType, Name, RecordType
from omnigraph.lang.printer import print_queries
from omnigraph.lang.query_parser import BARE_NAME, parse_queries
from omnigraph.lang.source import Source


def body_of(text: str) -> q.Read | q.Union | tuple[q.Mutation, ...]:
    source = Source(text)
    (query,) = parse_queries(source).require(source).queries
    return query.body


def read_of(text: str) -> q.Read:
    body = body_of(text)
    assert isinstance(body, q.Read)
    return body


def clause_of(text: str) -> q.Clause:
    (clause,) = read_of(f"query q() {{ match {{ {text} }} return {{ $p }} }}").clauses
    return clause


def column_of(text: str) -> q.Expr:
    (projection,) = read_of(f"query q() {{ match {{ $p: P }} return {{ {text} }} }}").projections
    return projection.value


# --- clauses ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, names, bounds",
    [
        ("$a (knows|follows) $b", ["knows", "follows"], None),
        ('$a ("in"|Knows){0,3} $b', ["in", "Knows"], (0, 3)),
        ("$a (*) $b", [], None),
        ("$a $e:* $b", [], None),
        ("$a $e:(a|b){1,*} $b", ["a", "b"], (1, None)),
        ("$a <*>{1,6} $b", [], (1, 6)),
        ("$a <(a|b)> $b", ["a", "b"], None),
        ("$a $e:<(a|b)> $b", ["a", "b"], None),
        ("$a (knows) $b", ["knows"], None),
    ],
)
def test_a_hop_has_several_edges_or_any(text: str, names: list[str], bounds: tuple[int, int | None] | None) -> None:
    hop = clause_of(text)

    assert isinstance(hop, q.TraversalClause)
    assert [edge.name.text for edge in hop.edges] == names
    assert (None if hop.bounds is None else (hop.bounds.low, hop.bounds.high)) == bounds
    assert hop.is_undirected == ("<" in text)


def test_conditions_on_the_way_name_properties() -> None:
    hop = clause_of("$a knows{1,4} $b along { since >= $d; order = 1 } through { active = true }")

    assert isinstance(hop, q.TraversalClause)
    assert (len(hop.along), len(hop.through)) == (2, 1)
    assert isinstance(hop.along[1], q.Compare)
    assert hop.along[1].left == q.BareName(name=Name("order", hop.span), span=hop.span)


@pytest.mark.parametrize("kind", list(q.PathKind))
def test_a_path_names_the_walk_of_a_hop(kind: q.PathKind) -> None:
    clause = clause_of(f"{kind.value} $w = $a road{{1,*}} $b through {{ open = true }} by {{ length * 2 }}")

    assert isinstance(clause, q.PathClause)
    assert (clause.kind, clause.variable.name, len(clause.hop.through)) == (kind, "w", 1)
    assert isinstance(clause.weight, q.Arithmetic)


def test_the_alternatives_of_an_either_are_in_order() -> None:
    clause = clause_of("either { $p: A } or { $p: B $p.x = 1 } or { $p: C }")

    assert isinstance(clause, q.Either)
    assert [len(clauses) for clauses in clause.alternatives] == [1, 2, 1]


@pytest.mark.parametrize("text", ["not { $p: A } or $p.x = 1", "$p.x = 1 and not { $p: A }", "not exists { $p: A }"])
def test_a_not_block_in_a_predicate_is_not_exists(text: str) -> None:
    clause = clause_of(text)

    assert isinstance(clause, q.Where)
    (negated,) = [part for part in walk(clause.predicate) if isinstance(part, q.Not)]
    assert isinstance(negated.term, q.Block)
    assert negated.term.kind is q.BlockKind.EXISTS


def test_a_not_block_alone_stays_a_clause() -> None:
    assert isinstance(clause_of("not { $p: A }"), q.NotBlock)


@pytest.mark.parametrize("text", ["$p: (Person|Company)", "$p: (Person|Company) { name: $n }"])
def test_a_binding_has_several_types(text: str) -> None:
    binding = clause_of(text)

    assert isinstance(binding, q.Binding)
    assert [name.text for name in binding.types] == ["Person", "Company"]


# --- expressions -----------------------------------------------------------------------------------------


def test_a_block_has_a_value_an_order_and_a_limit() -> None:
    block = column_of("collect { $p wrote $a return distinct { t: $a.title } order { $a.n desc } limit 3 }")

    assert isinstance(block, q.Block)
    assert (block.kind, block.distinct, len(block.order)) == (q.BlockKind.COLLECT, True, 1)
    assert isinstance(block.value, q.Record)
    assert isinstance(block.limit, q.LiteralExpr)


def test_a_field_follows_its_record_directly() -> None:
    field = column_of("first($p.l)[0].name.other")

    assert isinstance(field, q.Field)
    assert isinstance(field.operand, q.Field)
    assert isinstance(field.operand.operand, q.Index)
    assert isinstance(column_of("$p.a.b"), q.Field)
    assert isinstance(column_of("$p.a"), q.PropertyRef)
    assert isinstance(column_of("$p.*"), q.AllProperties)


def test_an_aggregate_has_a_filter_an_order_a_limit_and_a_window() -> None:
    call = column_of("collect($m.t where $m.n > 3 order { $m.d desc } limit 3) over { per { $c } order { $d } }")

    assert isinstance(call, q.Call)
    assert (len(call.order), call.limit is not None, call.where is not None) == (1, True, True)
    assert call.window is not None
    assert (len(call.window.per), len(call.window.order)) == (1, 1)
    assert column_of("row_number() over {}") == column_of("row_number() over { }")


def test_the_children_of_a_block_are_what_it_returns() -> None:
    block = column_of("collect { $p wrote $a $a.n > 1 return $a.t order { $a.d } limit 3 }")

    assert [type(child).__name__ for child in list_children(block)] == ["PropertyRef", "PropertyRef", "LiteralExpr"]
    assert sum(isinstance(part, q.Compare) for part in walk(block)) == 0
    assert sum(isinstance(part, q.Compare) for part in walk_deep(block)) == 1


def test_all_expressions_of_clauses_are_walked() -> None:
    read = read_of(
        "query q() { match { $p: P { a: 1 } either { $p.b = 2 } or { optional { let $x = count { $p.c = 3 } } }"
        " path $w = $p k{1,2} $q along { d = 4 } by { 5 } each $e in [6, $x] } return { $p } }"
    )

    numbers = [part.value for part in walk_clauses(read.clauses) if isinstance(part, q.LiteralExpr)]
    assert [getattr(number, "value", None) for number in numbers] == [1, 2, 3, 4, 5, 6]


# --- stages, unions, writes ------------------------------------------------------------------------------


def test_a_stage_ends_with_its_columns() -> None:
    read = read_of(
        "query q() { match { $p: P } with distinct { $p, count(*) as n } having { n > 3 } order { n }"
        " limit 3 per { $p } offset 1 with { $n } match { $p k $q } return { $q } having { true = true } }"
    )

    first, second = read.stages
    assert (first.distinct, len(first.order), len(first.per)) == (True, 1, 1)
    assert (len(first.clauses), len(second.clauses), len(read.clauses)) == (1, 0, 1)
    assert first.having is not None
    assert read.having is not None
    assert second.offset is None


def test_what_follows_the_last_read_belongs_to_the_union() -> None:
    union = body_of(
        "query q() { match { $p: P } return { $p } limit 1 union all match { $p: Q } return { $p }"
        " union match { $p: R } return { $p } order { $p.a } limit 2 offset 3 }"
    )

    assert isinstance(union, q.Union)
    assert union.keeps_equal == (True, False)
    assert [read.limit is not None for read in union.reads] == [True, False, False]
    assert (len(union.order), union.limit is not None, union.offset is not None) == (1, True, True)


def test_a_match_drives_the_statements_after_it() -> None:
    source = Source(
        "query q($rows: [{name: String, age: I32?}]) { match { each $r in $rows } with { $r }"
        " insert P { name: $r.name } if absent as $o update $o set { n: n + 1 } match { $e: E } delete $e"
        " returning { $o.@id as id } }"
    )
    (query,) = parse_queries(source).require(source).queries

    assert isinstance(query.body, tuple)
    kinds = [q.DriveMatch, q.Insert, q.UpdateMatched, q.DriveMatch, q.DeleteMatched]
    assert [type(statement) for statement in query.body] == kinds
    drive, insert = query.body[:2]
    assert isinstance(drive, q.DriveMatch)
    assert (len(drive.stages), drive.clauses) == (1, ())
    assert isinstance(insert, q.Insert)
    assert insert.if_absent
    assert len(query.returning) == 1
    (param,) = query.params
    assert isinstance(param.type, ListType)
    assert isinstance(param.type.element, RecordType)
    fields = [(each.name.text, each.type, each.nullable) for each in param.type.element.fields]
    assert fields == [("name", BaseType("String", query.span), False), ("age", BaseType("I32", query.span), True)]


def test_named_patterns_stand_among_the_queries() -> None:
    source = Source("query q() { match { near($p, $q) } return { $p } }\npattern near($a: P, $b: (P|Q)) { $a k $b }")
    file = parse_queries(source).require(source)

    assert [pattern.name.text for pattern in file.patterns] == ["near"]
    assert [len(param.types) for param in file.patterns[0].params] == [1, 2]
    assert len(file.queries) == 1


# --- a query without a name ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "match { $p: P } return { $p }",
        "match { $p: P } return { $p } union match { $p: Q } return { $p }",
        "pattern near($a: P, $b: P) { $a k $b } match { near($p, $q) } return { $p }",
        'insert P { name: "x" } as $p insert Q { to: $p } returning { $p.@id }',
    ],
)
def test_a_bare_query_is_a_query_without_parameters(text: str) -> None:
    source = Source(text)
    (query,) = parse_queries(source, allows_bare=True).require(source).queries

    assert (query.name.text, query.params) == (BARE_NAME, ())
    assert parse_queries(source).diagnostics != ()


@pytest.mark.parametrize("text", ["match { $p: P } return { $p } }", "match { $p: P return { $p }", "match { $p: P }"])
def test_a_broken_bare_query_is_refused(text: str) -> None:
    assert not parse_queries(Source(text), allows_bare=True).ok


# --- words that stay names -------------------------------------------------------------------------------

WORDS = (
    *("let", "optional", "exists", "each", "either", "with", "having", "union", "path", "shortest", "all_shortest"),
    *("cheapest", "case", "else", "per", "over", "along", "through", "by", "count", "sum", "min", "max", "avg"),
    *("collect", "pattern", "returning", "if", "absent", "all", "query", "type"),
)


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize(
    "form",
    [
        "query W($W: I64) { match { $p: P } return { $p.W } }",
        "query q() { match { $W: P { W: $W } $W W $p $W W{1,3} $p $W $e:W $p } return { $p } }",
        "query q() { match { $p (W|k) $q $p <W> $q } return { $p } }",
        "query q() { match { $p.W = 1 } return { $p.W as W, $W } order { W desc } }",
        "query q() { match { $p: P } return { W, $p.W, { W: 1 } } having { W > 1 } }",
        "query q() { match { $p: P } with { $p.W as W } match { $p k{1,2} $q along { W = 1 } } return { $W } }",
        "query q() { insert P { W: 1 } update P set { W: W + 1 } where W = 1 delete P where W is null }",
        "query q() { match { $p: P } return { $p[0].W } limit $W per { W } }",
        "pattern W($W: P) { $W W $W } query q($r: [{W: String}]) { match { $p W $q } return { $p } }",
    ],
)
def test_a_word_of_the_language_stays_a_name(word: str, form: str) -> None:
    text = form.replace("W", word)
    source = Source(text)
    result = parse_queries(source)

    assert result.diagnostics == ()
    assert accepts(Language.QUERY, text)
    printed = print_queries(result.tree)
    assert parse_queries(Source(printed)).tree == result.tree


@pytest.mark.parametrize("word", WORDS)
def test_a_pattern_of_that_name_can_be_called(word: str) -> None:
    clause = clause_of(f"{word}($p, $q)")

    assert isinstance(clause, q.Where)
    assert isinstance(clause.predicate, q.Call)
