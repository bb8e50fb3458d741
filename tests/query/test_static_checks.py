"""What `lint` makes of the corpus: no finding that follows from another, none that a schema would take back."""

from functools import cache
from pathlib import Path

import pytest

from corpus_format import Case, read_cases
from omnigraph.lang.lexer import Language, tokenize
from omnigraph.lang.query_parser import parse_queries
from omnigraph.lang.source import Source
from omnigraph.query.static_checks import FileReport, check_queries, check_schema
from omnigraph.schema.catalog import Catalog

CORPUS = Path(__file__).parents[1] / "corpus"
CASES = [
    case
    for path in sorted(CORPUS.rglob("*.case"))
    for case in read_cases(path)
    if "query" in case.blocks and (case.uses or "schema" in case.blocks)  # the others bring a whole graph
]

SCHEMA = "node Person { name: String  age: I32?  @key(name) }\nedge Knows: Person -> Person\n"


def catalog_of_case(case: Case) -> Catalog:
    return accepted(case.blocks.get("schema") or (CORPUS / "schemas" / f"{case.uses}.pg").read_text(encoding="utf-8"))


@cache
def accepted(text: str) -> Catalog:
    _, catalog = check_schema(Source(text))
    assert catalog is not None
    return catalog


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.path.stem}: {case.title}")
def test_without_a_schema_nothing_is_found_that_is_not_found_with_it(case: Case) -> None:
    source = Source(case.blocks["query"])

    without = check_queries(source, None).diagnostics
    found = check_queries(source, catalog_of_case(case)).diagnostics

    assert {(one.code, one.span) for one in without} <= {(one.code, one.span) for one in found}


def test_a_clause_that_can_not_be_read_does_not_leave_its_variables_unbound() -> None:
    source = Source("query q() { match { $p: Person { name: } } return { $p.name } }\n")

    found = check_queries(source, check_schema(Source(SCHEMA))[1]).diagnostics

    assert [one.code for one in found] == ["Q000"]


def test_an_unknown_name_in_a_broken_query_is_told_too() -> None:
    source = Source("query q() {\n  match { $p: Persn }\n  return { $p.name }\n  limit ten\n}\n")

    found = check_queries(source, check_schema(Source(SCHEMA))[1]).diagnostics

    assert [(one.code, source.position(one.span.start).line) for one in found] == [("T1", 2), ("Q000", 4)]


def test_a_slip_of_the_grammar_hides_no_other_mistake_of_its_query() -> None:
    source = Source(
        "query q($n: String) {\n"
        "  match {\n"
        "    $p: Person\n"
        "    $p.name == $n\n"
        "    $p.age = $n\n"
        "    $p knows{3,2} $q\n"
        "  }\n"
        "  return {\n"
        "    $q.name as x\n"
        "    $q.age as x\n"
        "    sum($q.name) as y\n"
        "  }\n"
        "}\n"
    )

    report = check_queries(source, check_schema(Source(SCHEMA))[1])

    assert places(source, report) == [("Q000", 4), ("T7", 5), ("T15", 6), ("T25", 10), ("T8", 11)]


@pytest.mark.parametrize("case", CASES[::5], ids=lambda case: f"{case.path.stem}: {case.title}")
def test_a_query_with_a_token_missing_is_told_and_never_a_bug(case: Case) -> None:
    text = case.blocks["query"]
    tokens = tokenize(Source(text), Language.QUERY).tokens[:-1]

    for token in tokens[1:200:3]:
        source = Source(text[: token.span.start] + text[token.span.end :])
        report = check_queries(source, catalog_of_case(case))
        assert report.errors or parse_queries(source).ok


def test_a_query_is_checked_although_its_neighbour_can_not_be_read() -> None:
    source = Source("query a( {}\nquery b() { match { $p: Persn } return { $p.name } }\n")

    found = check_queries(source, check_schema(Source(SCHEMA))[1]).diagnostics

    assert found[0].code == "Q000"
    assert "T1" in [one.code for one in found]


def test_a_property_that_can_not_be_read_is_not_missed_by_its_constraint() -> None:
    source = Source(
        "interface I {\n  x: Strin\n}\nnode A implements I {\n  @index(x)\n}\nnode B { y: String  @key(z) }\n"
    )

    report, catalog = check_schema(source)

    assert places(source, report) == [("S000", 2), ("S010", 7)]
    assert catalog is None


def test_mistakes_beside_a_broken_line_are_told() -> None:
    source = Source("node A {\n  x: Strin\n  y: F64\n  @key(y)\n  @unique(q)\n}\nnode B {\n  x: F64\n  @key(x)\n}\n")

    report, _ = check_schema(source)

    assert places(source, report) == [("S000", 2), ("S009", 4), ("S010", 5), ("S009", 9)]


def places(source: Source, report: FileReport) -> list[tuple[str, int]]:
    return [(one.code, source.position(one.span.start).line) for one in report.diagnostics]


@pytest.mark.parametrize("schema", [SCHEMA, None])
def test_a_query_without_output_holds_its_name(schema: str | None) -> None:
    source = Source("query a() { }\nquery a() { match { $p: Person } return { $p } }\n")
    catalog = None if schema is None else accepted(schema)

    found = check_queries(source, catalog).diagnostics

    assert [(one.code, source.position(one.span.start).line) for one in found] == [("Q000", 1), ("Q002", 2)]


def test_a_query_without_output_says_nothing_about_what_could_be_read_of_it() -> None:
    source = Source("query a() { match { $p: Persn } }\n")

    found = check_queries(source, accepted(SCHEMA)).diagnostics

    assert [one.code for one in found] == ["Q000"]
