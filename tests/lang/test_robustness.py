"""Whatever the text: findings, never a crash, and work in proportion to its length."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from language_findings import parse
from omnigraph.lang.lexer import Language
from omnigraph.lang.query_parser import parse_queries
from omnigraph.lang.schema_parser import parse_schema
from omnigraph.lang.source import Source

MANY = 1_000_000


def in_match(text: str) -> str:
    return f"query q() {{ match {{ {text} }} return {{ $p }} }}"


@pytest.mark.parametrize("language", Language)
@pytest.mark.parametrize(
    "text",
    [
        pytest.param("a" * MANY, id="a name of a megabyte"),
        pytest.param("$" + "a" * MANY, id="a variable of a megabyte"),
        pytest.param("9" * MANY, id="a number of a megabyte"),
        pytest.param("1." + "9" * MANY, id="a fraction of a megabyte"),
        pytest.param('"' + "x" * MANY, id="an unclosed string of a megabyte"),
        pytest.param('"' + "\\q" * (MANY // 2) + '"', id="nothing but bad escapes"),
        pytest.param("/*" * (MANY // 2), id="an unclosed comment of a megabyte"),
        pytest.param("\0" * MANY, id="nul"),
        pytest.param("\ud800" * MANY, id="lone surrogates"),
        pytest.param("\u202e" * MANY, id="direction marks"),
        pytest.param("\u200b" * MANY, id="zero width"),
        pytest.param("\ufeff" * MANY, id="byte order marks"),
        pytest.param("é" * MANY, id="letters that names don't have"),
        pytest.param("#\r" * 1000, id="old line endings"),
        pytest.param("'\n" * 1000, id="quotes"),
        pytest.param("{" * 10_000, id="opening braces"),
        pytest.param("}" * 10_000, id="closing braces"),
        pytest.param("@" * 10_000, id="at signs"),
        pytest.param("node P { " * 3_000, id="nested nodes"),
        pytest.param("edge P: " * 3_000, id="endless edge"),
        pytest.param("query q() { " * 3_000, id="nested queries"),
        pytest.param("query q() { match { " + "match { " * 3_000, id="nested matches"),
        pytest.param("query q() { insert " * 3_000, id="nested inserts"),
    ],
)
def test_any_text_is_answered_with_a_few_findings(language: Language, text: str) -> None:
    found = parse(language, text).diagnostics

    assert 1 <= len(found) <= 50


@pytest.mark.parametrize(
    "text",
    [
        "(" * 10_000,
        "(" * 10_000 + "$p.a = 1" + ")" * 10_000,
        "not " * 10_000 + "$p.a = 1",
        "not { " * 10_000 + "$p: P" + " }" * 10_000,
        "$p.a in " + "[" * 10_000,
        "$p.a in " + "[" * 10_000 + "]" * 10_000,
        "f(" * 10_000 + "1" + ")" * 10_000 + " = 1",
        "optional { " * 10_000 + "$p: P" + " }" * 10_000,
        "let $x = " + "{ a: " * 10_000 + "1" + " }" * 10_000,
    ],
)
def test_nesting_ends_at_its_limit(text: str) -> None:
    found = parse_queries(Source(in_match(text))).diagnostics

    assert {one.code for one in found} <= {"Q001", "Q000"}
    assert found[0].message == "nested more than 64 deep"
    assert len(found) <= 2


@pytest.mark.parametrize(
    "opening, inner, closing",
    [
        ("count { $p.a > ", "1", " }"),
        ("exists { not ", "exists { $p: P }", " }"),
        ("collect { $p: P return ", "1", " } = "),
    ],
)
def test_blocks_in_expressions_end_at_a_limit_of_their_own(opening: str, inner: str, closing: str) -> None:
    """A block takes four levels: sixteen of them are the limit."""
    text = opening * 10_000 + inner + closing * 10_000
    found = parse_queries(Source(in_match(text))).diagnostics

    assert found[0].code == "Q001"
    assert found[0].message.startswith("nested more than")
    assert parse_queries(Source(in_match("exists { " * 16 + "$p: P" + " }" * 16))).ok
    assert not parse_queries(Source(in_match("exists { " * 17 + "$p: P" + " }" * 17))).ok


def test_list_types_end_at_the_same_limit() -> None:
    (found,) = parse_schema(Source("node P { a: " + "[" * 10_000 + "String" + "]" * 10_000 + " }")).diagnostics

    assert (found.code, found.message) == ("S001", "nested more than 64 deep")


@pytest.mark.parametrize(
    "text",
    [
        "(" * 64 + "$p.a = 1" + ")" * 64,
        "not " * 64 + "$p.a = 1",
        "not { " * 64 + "$p: P" + " }" * 64,
        "$p.a in " + "[" * 64 + "]" * 64,
        " or ".join(["$p.a = 1"] * 1_000),
        "$p.a = 1\n" * 1_000,
        "$p.a in [" + ",".join(["1"] * 65_536) + "]",
    ],
)
def test_the_limits_themselves_are_allowed(text: str) -> None:
    assert parse_queries(Source(in_match(text))).ok


@pytest.mark.parametrize(
    "text, message",
    [
        (" or ".join(["$p.a = 1"] * 1_001), "a query's predicates have at most 1,000 terms"),
        ("$p.a = 1\n" * 1_001, "a query's predicates have at most 1,000 terms"),
        ("$p.a in [" + ",".join(["1"] * 65_537) + "]", "a list has at most 65,536 items"),
        ("$p." + "a" * 256 + " = 1", f"a name has at most 255 characters, and `{'a' * 37}…` has 256"),
        ("$p.a = " + "9" * 41, "a number has at most 40 digits, and this one has 41"),
    ],
)
def test_one_more_than_a_limit_is_one_finding(text: str, message: str) -> None:
    (found,) = parse_queries(Source(in_match(text))).diagnostics

    assert (found.code, found.message) == ("Q001", message)


def test_terms_are_counted_for_each_query_alone() -> None:
    query = in_match("$p.a = 1\n" * 600)

    assert parse_queries(Source(f"{query}\n{query.replace('query q', 'query r')}")).ok


def test_line_endings_may_be_mixed() -> None:
    source = Source("node P {\r\n a: String\r b: Strin\n}\r")

    (found,) = parse_schema(source).diagnostics

    assert (source.position(found.span.start).line, source.position(found.span.start).column) == (3, 5)


SHAPES = {
    "declarations": (Language.SCHEMA, "node P { a: String @index b: enum(x, y-z) @range(c, 0..3) }\n", ""),
    "one long body": (Language.SCHEMA, "a: String? @x(1, y=[2])\n", "node P {"),
    "broken members": (Language.SCHEMA, "a: ( [ { } %% @key(\n", "node P {"),
    "no declarations": (Language.SCHEMA, "a : ( } ", ""),
    "one broken member": (Language.SCHEMA, "a ( ] %% { } ", "node P { ) "),
    "open bodies": (Language.SCHEMA, "node P {\n", ""),
    "queries": (
        Language.QUERY,
        in_match("$p: P { a: 1 } $p knows{1,3} $q not { $p.a = 1 or $p.b is null }") + "\n",
        "",
    ),
    "one long match": (Language.QUERY, "$p: P { a: $x, b: 1 }; $p <knows> $q\n", "query q() { match {"),
    "one long predicate": (Language.QUERY, "$p.a = 1 and not ($p.b < 2) or ", "query q() { match {"),
    "broken clauses": (Language.QUERY, "$p ( { } %% and\n", "query q() { match {"),
    "one broken clause": (Language.QUERY, "and ( ] %% { } ", "query q() { match { ) "),
    "open blocks": (Language.QUERY, "query q() { match { $p: P {\n", ""),
    "open parentheses": (Language.QUERY, "(", "query q() { match {"),
    "open not blocks": (Language.QUERY, "not { ", "query q() { match {"),
    "a long list": (Language.QUERY, '1, "x", [2], ', "query q() { match { $p.a in ["),
    "no queries": (Language.QUERY, "return } match { $p (", ""),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_work_grows_with_the_text_and_not_faster(shape: str) -> None:
    language, unit, head = SHAPES[shape]

    small = parse(language, head + unit * 200)
    large = parse(language, head + unit * 2000)

    # What follows the fiftieth finding is not read; that is less work than ten times as much, never more.
    assert len(large.diagnostics) == 50 or large.steps > 8 * small.steps
    assert large.steps < 11 * small.steps
    assert large.steps < 12 * len(head + unit * 2000)


@pytest.mark.parametrize("language", Language)
def test_random_words_and_signs_never_crash(language: Language) -> None:
    names = ["node", "edge", "query", "match", "return", "order", "not", "and", "in", "insert", "set", "where", "as"]
    signs = [*"{}()[]:;,.?@=<>*!+-#'", "..", "@key(", "enum(", "==", "->", "=>", "\n"]
    words = [*names, *signs, "P", "$p", "name", "1", "2.5", '"x"']

    @settings(max_examples=200, deadline=None)
    @given(st.lists(st.sampled_from(words) | st.characters(), max_size=60))
    def holds(parts: list[str]) -> None:
        text = " ".join(parts)
        found = parse(language, text).diagnostics
        assert len(found) <= 50
        assert all(0 <= one.span.start <= one.span.end <= len(text) for one in found)

    holds()
