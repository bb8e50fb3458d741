"""No text, however broken, makes a parser fail, hang or lie about where things stand."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from language_strategies import anything, mutated, query_texts, schema_texts
from omnigraph.lang.cursor import ParseResult
from omnigraph.lang.diagnostic_rendering import diagnostic_to_json, render_text
from omnigraph.lang.formatter import format_source
from omnigraph.lang.lexer import Language, tokenize
from omnigraph.lang.query_ast import QueryFile
from omnigraph.lang.query_parser import parse_queries
from omnigraph.lang.schema_ast import SchemaFile
from omnigraph.lang.schema_parser import parse_schema
from omnigraph.lang.source import Source
from property_profiles import SOME_AND_MANY, profile

STEPS_PER_TOKEN = 60
"""Far above what is seen, far below what a parser that reads things again and again would take."""

BOTH = pytest.mark.parametrize("language", list(Language), ids=lambda language: language.name.lower())
TEXTS = {Language.SCHEMA: schema_texts, Language.QUERY: query_texts}


@BOTH
@SOME_AND_MANY
def test_a_broken_text_gives_diagnostics_and_nothing_else(language: Language, examples: int) -> None:
    @profile(examples)
    @given(st.one_of(mutated(TEXTS[language]), mutated(TEXTS[language], most=30), anything))
    def holds(text: str) -> None:
        source = Source(text)

        parsed = parse(source, language)

        assert len(parsed.diagnostics) <= 50
        assert all(0 <= each.span.start <= each.span.end <= len(text) for each in parsed.diagnostics)
        assert parsed.steps <= STEPS_PER_TOKEN * (len(tokenize(source, language).tokens) + 1)

    holds()


@BOTH
@SOME_AND_MANY
def test_every_diagnostic_can_be_printed(language: Language, examples: int) -> None:
    @profile(examples)
    @given(mutated(TEXTS[language], most=8))
    def holds(text: str) -> None:
        source = Source(text)
        found = parse(source, language).diagnostics

        shown = render_text(source, found)
        told = json.dumps([diagnostic_to_json(source, each) for each in found], ensure_ascii=False)

        assert shown.encode("utf-8").decode("utf-8") == shown
        assert told.encode("utf-8").decode("utf-8") == told
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]", shown)

    holds()


@BOTH
@SOME_AND_MANY
def test_a_text_with_errors_is_not_formatted(language: Language, examples: int) -> None:
    @profile(examples)
    @given(mutated(TEXTS[language]))
    def holds(text: str) -> None:
        source = Source(text)

        formatted = format_source(source, language)

        assert formatted.ok == parse(source, language).ok
        assert formatted.ok or formatted.value == ""

    holds()


@BOTH
@pytest.mark.parametrize(
    "piece", ["(", "[", "{", "not ", "not {", "$a ", "@x(", "}", ")", ";", "\\", '"', "/*", "$p: P { ", "x: ["]
)
def test_the_work_grows_with_the_text_and_not_faster(language: Language, piece: str) -> None:
    opening = {Language.SCHEMA: "node A { a: String @x(", Language.QUERY: "query q() { match { "}[language]
    source = Source(opening + piece * 20_000)

    parsed = parse(source, language)

    assert not parsed.ok
    assert parsed.steps <= STEPS_PER_TOKEN * (len(tokenize(source, language).tokens) + 1)


@BOTH
@pytest.mark.parametrize("text", ["foo Bar {}", "Foo Bar {}", "query", "query query", "node node", "} foo Bar {}"])
def test_an_unknown_word_at_the_start_is_stepped_over(language: Language, text: str) -> None:
    parsed = parse(Source(text), language)

    assert not parsed.ok


def parse(source: Source, language: Language) -> ParseResult[SchemaFile] | ParseResult[QueryFile]:
    return parse_schema(source) if language is Language.SCHEMA else parse_queries(source)
