"""The hand-written parsers accept what the reference grammars accept, and nothing else."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from language_oracle import accepts
from language_strategies import mutated, query_texts, schema_texts
from property_profiles import SOME_AND_MANY, profile

from omnigraph.lang.lexer import Language
from omnigraph.lang.query_parser import parse_queries
from omnigraph.lang.schema_parser import parse_schema
from omnigraph.lang.source import Source

LIMITS = {"S001", "Q001"}
NOT_OF_THE_GRAMMAR = {"Q004"}
"""Found while parsing, but by meaning: an annotation that queries don't have, or that is given twice."""


def codes(language: Language, text: str) -> set[str]:
    source = Source(text)
    parsed = parse_schema(source) if language is Language.SCHEMA else parse_queries(source)
    return {found.code for found in parsed.diagnostics if found.is_error} - NOT_OF_THE_GRAMMAR


def check_agreement(language: Language, text: str) -> None:
    found = codes(language, text)
    assume(not found & LIMITS)
    assert (not found) == accepts(language, text), f"the parser says {found or 'fine'}, the grammar otherwise: {text!r}"


@SOME_AND_MANY
def test_both_read_schemas_alike(examples: int) -> None:
    @profile(examples)
    @given(st.one_of(schema_texts, mutated(schema_texts, most=2)))
    def holds(text: str) -> None:
        check_agreement(Language.SCHEMA, text)

    holds()


@SOME_AND_MANY
def test_both_read_queries_alike(examples: int) -> None:
    @profile(examples)
    @given(st.one_of(query_texts, mutated(query_texts, most=2)))
    def holds(text: str) -> None:
        check_agreement(Language.QUERY, text)

    holds()
