"""Every tree can be written down and read back."""

import re

from hypothesis import given

from language_query_trees import query_files
from language_trees import floats, schemas, strings
from omnigraph.lang.literals import FloatLiteral, StringLiteral
from omnigraph.lang.printer import print_literal, print_queries, print_schema
from omnigraph.lang.query_ast import QueryFile
from omnigraph.lang.query_parser import parse_queries
from omnigraph.lang.schema_ast import Annotation, NodeDecl, SchemaFile
from omnigraph.lang.schema_parser import parse_schema
from omnigraph.lang.source import Source, Span
from property_profiles import SOME_AND_MANY, profile


@SOME_AND_MANY
def test_a_schema_survives_printing_and_parsing(examples: int) -> None:
    @profile(examples)
    @given(schemas())
    def holds(tree: SchemaFile) -> None:
        text = print_schema(tree)

        parsed = parse_schema(Source(text))

        assert parsed.diagnostics == ()
        assert parsed.tree == tree
        assert print_schema(parsed.tree) == text

    holds()


@SOME_AND_MANY
def test_queries_survive_printing_and_parsing(examples: int) -> None:
    @profile(examples)
    @given(query_files())
    def holds(tree: QueryFile) -> None:
        text = print_queries(tree)

        parsed = parse_queries(Source(text))

        assert parsed.diagnostics == ()
        assert parsed.tree == tree
        assert print_queries(parsed.tree) == text

    holds()


@SOME_AND_MANY
def test_a_float_survives_to_the_last_bit(examples: int) -> None:
    @profile(examples)
    @given(floats)
    def holds(value: float) -> None:
        text = print_literal(FloatLiteral(value, Span(0, 0)))

        read_back = _argument(text)

        assert re.fullmatch(r"-?[0-9]+\.[0-9]+(e-?[0-9]+)?", text)
        assert isinstance(read_back, FloatLiteral)
        assert read_back.value.hex() == value.hex()

    holds()


@SOME_AND_MANY
def test_a_string_survives_and_hides_nothing(examples: int) -> None:
    @profile(examples)
    @given(strings)
    def holds(value: str) -> None:
        text = print_literal(StringLiteral(value, Span(0, 0)))

        assert _argument(text) == StringLiteral(value, Span(0, 0))
        assert not re.search("[\x00-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]", text)

    holds()


def _argument(literal: str) -> object:
    """What the schema language reads a literal as."""
    declaration = parse_schema(Source(f"node A @x({literal}) {{}}")).tree.declarations[0]
    assert isinstance(declaration, NodeDecl)
    annotation = declaration.annotations[0]
    assert isinstance(annotation, Annotation)
    return annotation.argument
