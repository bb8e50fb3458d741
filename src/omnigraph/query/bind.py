"""Binding: the tree of a query and a catalog become a typed plan, or all that is wrong with it at once."""

from omnigraph.lang import query_ast as ast
from omnigraph.lang.diagnostics import Diagnostic, StageResult, sort_diagnostics
from omnigraph.query.bind_expr import ExprBinder
from omnigraph.query.bind_mutation import bind_mutation
from omnigraph.query.bind_output import bind_output
from omnigraph.query.bind_pattern import bind_match
from omnigraph.query.expr import Expr
from omnigraph.query.logical_plan import BoundQuery, ReadQuery, prune_columns
from omnigraph.query.mutation_scope import RowNameResolver
from omnigraph.query.scope import declare_params
from omnigraph.schema.catalog import AnyType, Catalog
from omnigraph.schema.findings import DiagnosticCollector


def bind_filter(predicate: ast.Predicate, declared: AnyType) -> StageResult[Expr | None]:
    """The typed predicate, or None and every independent error. It has no parameters."""
    findings = DiagnosticCollector()
    names = RowNameResolver(declared, declare_params((), findings), findings)
    bound = ExprBinder(names, findings).bind_predicate(predicate)
    return StageResult(bound, findings.finalize())


__all__ = ["BoundQuery", "bind_file", "bind_query"]


def bind_file(file: ast.QueryFile, catalog: Catalog) -> StageResult[tuple[BoundQuery, ...]]:
    """All queries of a file that are right, in order, and what is wrong with the others. Names are unique (Q002).

    Of a query that a parse error left without output only the name counts: nothing else can be said about it.
    """
    bound: list[BoundQuery] = []
    found: list[Diagnostic] = []
    seen: set[str] = set()
    for query in file.queries:
        name = query.name
        if name.text in seen:
            message = f"there is already a query `{name.text}` in this file"
            found.append(Diagnostic("Q002", name.span, message, "give it a name of its own"))
        seen.add(name.text)
        if isinstance(query.body, ast.Read) and not query.body.projections:
            continue
        checked = bind_query(query, catalog)
        found.extend(checked.diagnostics)
        if checked.value is not None:
            bound.append(checked.value)
    return StageResult(tuple(bound), sort_diagnostics(found))


def bind_query(query: ast.Query, catalog: Catalog) -> StageResult[BoundQuery | None]:
    """The plan of one query; None when something is wrong with it, or when a parse error left it without output."""
    if isinstance(query.body, ast.Read):
        return _bind_read(query, query.body, catalog)
    found = bind_mutation(query, catalog)
    return StageResult(found.value, found.diagnostics)


def _bind_read(query: ast.Query, read: ast.Read, catalog: Catalog) -> StageResult[BoundQuery | None]:
    findings = DiagnosticCollector()
    params = declare_params(query.params, findings)
    matched = bind_match(read.clauses, catalog, params, findings)
    output = bind_output(read, matched.scope, matched.order, findings)
    if findings or matched.pattern is None or not output.columns:
        return StageResult(None, findings.finalize())
    notes = {annotation.name.text: annotation.text for annotation in query.annotations}
    bound = ReadQuery(
        name=query.name.text,
        params=tuple(params.declared.values()),
        pattern=matched.pattern,
        output=output.columns,
        grouping=output.grouping,
        distinct=read.distinct,
        rank=output.rank,
        order=output.order,
        ties=output.ties,
        limit=output.limit,
        offset=output.offset,
        description=notes.get("description"),
        instruction=notes.get("instruction"),
        origin=query.span,
    )
    return StageResult(prune_columns(bound), findings.finalize())
