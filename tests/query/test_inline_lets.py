"""Abbreviations are replaced by what they stand for, up to a size."""

from omnigraph.lang.query_parser import parse_queries
from omnigraph.lang.schema_parser import parse_schema
from omnigraph.lang.source import Source
from omnigraph.query.bind import bind_file
from omnigraph.schema.bind import bind_schema

SCHEMA = Source("node Person { age: I64 @key }", "schema.pg")


def codes(levels: int) -> list[str]:
    """The codes of a query in which each abbreviation uses the one before it twice."""
    lets = " ".join(f"let $x{level} = $x{level - 1} + $x{level - 1}" for level in range(1, levels + 1))
    text = f"query q() {{ match {{ $p: Person let $x0 = $p.age {lets} }} return {{ $x{levels} as x }} }}"
    source = Source(text, "query.gq")
    catalog = bind_schema(parse_schema(SCHEMA).require(SCHEMA)).require(SCHEMA)
    return [one.code for one in bind_file(parse_queries(source).require(source), catalog).diagnostics]


def test_abbreviations_of_abbreviations_are_replaced() -> None:
    assert codes(8) == []


def test_an_abbreviation_that_would_grow_without_end_is_refused_before_it_grows() -> None:
    assert set(codes(60)) == {"T6"}
