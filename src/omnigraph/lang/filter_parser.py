"""A predicate that stands alone, as a filter of one type's rows: what a mutation has behind `where`."""

from omnigraph.lang.cursor import Cursor, EnoughError, GaveUpError
from omnigraph.lang.lexer import Language
from omnigraph.lang.parsed import ParseResult
from omnigraph.lang.query_ast import Predicate
from omnigraph.lang.query_predicates import PredicateParser
from omnigraph.lang.source import Source


def parse_filter(source: Source) -> ParseResult[Predicate | None]:
    """The predicate that is the whole text, and every mistake in it; never raises, whatever the text."""
    cursor = Cursor(source, Language.QUERY)
    found: Predicate | None = None
    try:
        found = PredicateParser(cursor, names_properties=True).parse()
        if not cursor.is_at_end:
            cursor.fail(
                "`and`, `or` or the end of the filter", "a filter is one predicate: `age > 30 and city is null`"
            )
    except (GaveUpError, EnoughError):
        pass
    return cursor.build_result(found)
