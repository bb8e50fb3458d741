"""Mistakes with their place: a text in which `«…»` marks what the one diagnostic has to point at."""

from omnigraph.lang.cursor import ParseResult
from omnigraph.lang.diagnostics import Diagnostic
from omnigraph.lang.lexer import Language
from omnigraph.lang.query_ast import QueryFile
from omnigraph.lang.query_parser import parse_queries
from omnigraph.lang.schema_ast import SchemaFile
from omnigraph.lang.schema_parser import parse_schema
from omnigraph.lang.source import Source, Span


def parse(language: Language, text: str) -> ParseResult[SchemaFile] | ParseResult[QueryFile]:
    """The text in whichever language."""
    return parse_schema(Source(text)) if language is Language.SCHEMA else parse_queries(Source(text))


def unmarked(text: str) -> tuple[str, Span]:
    """The text without its marks, and the span between them."""
    before, _, rest = text.partition("«")
    marked, _, behind = rest.partition("»")
    return before + marked + behind, Span(len(before), len(before) + len(marked))


def places(source: Source, found: tuple[Diagnostic, ...]) -> list[str]:
    """`line:column message` of each."""
    starts = [(source.position(one.span.start), one.message) for one in found]
    return [f"{start.line}:{start.column} {message}" for start, message in starts]
