"""Select a query of a source text by name."""

from omnigraph.errors import BadArgumentError, MissingError
from omnigraph.lang.diagnostics import Diagnostic, StageResult
from omnigraph.lang.query_ast import Query
from omnigraph.lang.query_parser import parse_queries
from omnigraph.lang.source import Source
from omnigraph.lang.spelling import find_closest
from omnigraph.ops.argument_checks import check_text


def choose_query(source: Source, name: str | None) -> Query:
    """Return the query of that name, or the only one.

    Raises:
        SourceError: The text is no query file, or has two queries of that name.
        MissingError: It has no such query.
        BadArgumentError: It has several, and no name was given.
    """
    if name is not None:
        check_text("name", name)
    file = parse_queries(source, allows_bare=True).require(source)
    names = tuple(query.name.text for query in file.queries)
    if name is None and len(names) > 1:
        raise BadArgumentError.query_ambiguous(source.name, names)
    chosen = [query for query in file.complete_queries if name in (None, query.name.text)]
    if not chosen:
        raise MissingError.query_not_found(name or "", source.name, find_closest(name or "", names), names)
    # Two queries of other names don't matter here; only the requested name must be unique.
    duplicates = tuple(
        Diagnostic("Q002", again.name.span, f"there is already a query `{again.name.text}` in this file")
        for again in chosen[1:]
    )
    return StageResult(chosen[0], duplicates).require(source)
