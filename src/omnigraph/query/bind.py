"""Bind the syntax tree of a query to a catalog: a typed logical plan, or all its errors together."""

from omnigraph.lang import query_ast as ast
from omnigraph.lang.diagnostics import Diagnostic, StageResult, sort_diagnostics
from omnigraph.query.bind_expr import ExprBinder
from omnigraph.query.bind_mutation import bind_mutation
from omnigraph.query.bind_stages import ReadBinder
from omnigraph.query.expr import Expr
from omnigraph.query.logical_plan import BoundQuery
from omnigraph.query.mutation_scope import RowNameResolver
from omnigraph.query.scope import declare_params
from omnigraph.schema.catalog import AnyType, Catalog
from omnigraph.schema.findings import DiagnosticCollector

__all__ = ["BoundQuery", "bind_file", "bind_filter", "bind_query"]


def bind_filter(predicate: ast.Expr, declared: AnyType) -> StageResult[Expr | None]:
    """Bind a predicate without parameters over the rows of one type; None and all independent errors if it is wrong."""
    findings = DiagnosticCollector()
    names = RowNameResolver(declared, declare_params((), findings), findings)
    bound = ExprBinder(names, findings).bind_predicate(predicate)
    return StageResult(bound, findings.finalize())


def bind_file(file: ast.QueryFile, catalog: Catalog) -> StageResult[tuple[BoundQuery, ...]]:
    """Bind all queries of a file: the correct ones in order, and the errors of the others.

    Names must be unique (Q002). A query that a parse error left without output is checked for its name only.
    """
    bound: list[BoundQuery] = []
    diagnostics: list[Diagnostic] = []
    seen: set[str] = set()
    for query in file.queries:
        name = query.name
        if name.text in seen:
            message = f"there is already a query `{name.text}` in this file"
            diagnostics.append(Diagnostic("Q002", name.span, message, "give it another name"))
        seen.add(name.text)
        # The parser rejects a read without output, so its error is already reported.
        if not _has_output(query.body):
            continue
        result = bind_query(query, catalog)
        diagnostics.extend(result.diagnostics)
        if result.value is not None:
            bound.append(result.value)
    return StageResult(tuple(bound), sort_diagnostics(diagnostics))


def bind_query(query: ast.Query, catalog: Catalog) -> StageResult[BoundQuery | None]:
    """Bind one query; the value is None if it has an error, or if a parse error left it without output."""
    if isinstance(query.body, ast.Read | ast.Union):
        findings = DiagnosticCollector()
        params = declare_params(query.params, findings)
        read = ReadBinder(query, catalog, params, findings).bind_body(query.body)
        return StageResult(None if findings else read, findings.finalize())
    # Rebuilt for its type: a `StageResult[MutationQuery | None]` is not a `StageResult[BoundQuery | None]`.
    result = bind_mutation(query, catalog)
    return StageResult(result.value, result.diagnostics)


def _has_output(body: ast.Read | ast.Union | tuple[ast.Mutation, ...]) -> bool:
    """Return whether every read and stage of a body has columns, as it has unless a parse error was reported."""
    if isinstance(body, tuple):
        return True
    reads = body.reads if isinstance(body, ast.Union) else (body,)
    return all(part.projections for read in reads for part in read.parts)
