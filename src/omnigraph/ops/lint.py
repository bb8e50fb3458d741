"""Check texts of queries and schemas against a state, as an editor needs it while they are typed. Reads no row."""

from datetime import datetime
from typing import Any

from omnigraph.errors import LimitError
from omnigraph.json_struct import JsonStruct
from omnigraph.lang.diagnostic_rendering import diagnostic_to_json
from omnigraph.lang.query_parser import parse_queries
from omnigraph.lang.source import Source
from omnigraph.ops.revision import show_state
from omnigraph.ops.session import Session
from omnigraph.query.bind import bind_file
from omnigraph.query.mutation_plan import BoundQuery, MutationQuery
from omnigraph.query.static_checks import check_queries, check_schema


class QueryParameterShape(JsonStruct, frozen=True, kw_only=True):
    """A parameter of a query."""

    name: str
    type: str
    nullable: bool


class QueryShape(JsonStruct, frozen=True, kw_only=True):
    """A query without mistakes: whether it is a `read` or a `mutation`, and its parameters."""

    name: str
    kind: str
    params: tuple[QueryParameterShape, ...]
    description: str | None = None


class LintReport(JsonStruct, frozen=True, kw_only=True):
    """The findings in the checked texts, those of the schema first, and the queries that have no errors."""

    errors: int
    warnings: int
    diagnostics: tuple[dict[str, Any], ...]
    queries: tuple[QueryShape, ...] = ()


def lint(
    session: Session,
    query: Source | None,
    schema: Source | None,
    *,
    branch: str,
    commit_id: str | None = None,
    at: datetime | None = None,
) -> LintReport:
    """Return the findings about queries and about a schema; the queries are checked against that schema if it is given.

    Without one, they are checked against the schema of the state. If the given schema has errors, only what no schema
    could change is reported about the queries.

    Raises:
        LimitError: A text is longer than a query may be.
        BranchMissingError, CommitMissingError: There is no such state.
    """
    limit = session.runtime.options.query_text_characters
    for kind, source in (("query", query), ("schema", schema)):
        if source is not None and len(source.text) > limit:
            raise LimitError.text_too_large(kind, limit)
    # Resolved even where a schema is given: this is for actors who may read the state.
    state = show_state(session, branch=branch, commit_id=commit_id, at=at)
    catalog = None if schema is not None else session.load_catalog(state)
    reports = []
    if schema is not None:
        report, catalog = check_schema(schema)
        reports.append(report)
    queries: tuple[QueryShape, ...] = ()
    if query is not None:
        reports.append(check_queries(query, catalog, allows_bare=True))
        bound = () if catalog is None else bind_file(parse_queries(query, allows_bare=True).tree, catalog).value
        queries = tuple(map(describe_query, bound))
    return LintReport(
        errors=sum(report.errors for report in reports),
        warnings=sum(report.warnings for report in reports),
        diagnostics=tuple(
            diagnostic_to_json(report.source, diagnostic) for report in reports for diagnostic in report.diagnostics
        ),
        queries=queries,
    )


def describe_query(query: BoundQuery) -> QueryShape:
    """Return what a caller needs to know of a query to run it."""
    return QueryShape(
        name=query.name,
        kind="mutation" if isinstance(query, MutationQuery) else "read",
        params=tuple(QueryParameterShape(name=p.name, type=str(p.type), nullable=p.nullable) for p in query.params),
        description=query.description,
    )
