"""Bind the syntax tree of a query to a catalog: a typed logical plan, or all its errors together."""

from collections.abc import Iterable

from omnigraph.lang import query_ast as ast
from omnigraph.lang.diagnostics import Diagnostic, StageResult, sort_diagnostics
from omnigraph.query.bind_expr import ExprBinder
from omnigraph.query.bind_mutation import bind_mutation
from omnigraph.query.bind_pattern import bind_match
from omnigraph.query.bind_stages import ReadBinder
from omnigraph.query.expr import Expr
from omnigraph.query.inline_lets import inline_lets
from omnigraph.query.logical_plan import DerivedEdge, Pattern
from omnigraph.query.mutation_plan import BoundQuery
from omnigraph.query.mutation_scope import RowNameResolver
from omnigraph.query.named_patterns import (
    DerivedCatalog,
    check_patterns,
    expand_patterns,
    iter_followed_patterns,
    iter_used_patterns,
)
from omnigraph.query.scope import Params, declare_params
from omnigraph.schema.catalog import AnyType, Catalog, EdgeType
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
    findings = DiagnosticCollector()
    for pattern in check_patterns(file.patterns, catalog, findings):
        _bind_pattern(pattern, file.patterns, catalog, findings)
    diagnostics.extend(findings.finalize())
    for query in file.complete_queries:
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
    # A mistake in a named pattern is found at its declaration and in every query that uses it.
    return StageResult(tuple(bound), sort_diagnostics(list(dict.fromkeys(diagnostics))))


def bind_query(query: ast.Query, catalog: Catalog) -> StageResult[BoundQuery | None]:
    """Bind one query; the value is None if it has an error, or if a parse error left it without output."""
    if query.patterns:
        findings = DiagnosticCollector()
        query, catalog = _expand_query(query, catalog, findings)
        if findings:
            return StageResult(None, findings.finalize())
    if isinstance(query.body, ast.Read | ast.Union):
        return _bind_read(query, query.body, catalog)
    # Rebuilt for its type: a `StageResult[MutationQuery | None]` is not a `StageResult[BoundQuery | None]`.
    result = bind_mutation(query, catalog, _bind_read)
    return StageResult(result.value, result.diagnostics)


def _bind_read(query: ast.Query, read: ast.Read | ast.Union, catalog: Catalog) -> StageResult[BoundQuery | None]:
    findings = DiagnosticCollector()
    params = declare_params(query.params, findings)
    bound = ReadBinder(query, catalog, params, findings).bind_body(read)
    return StageResult(None if findings else bound, findings.finalize())


def _has_output(body: ast.Read | ast.Union | tuple[ast.Mutation, ...]) -> bool:
    """Return whether every read and stage of a body has columns, as it has unless a parse error was reported."""
    if isinstance(body, tuple):
        return True
    reads = body.reads if isinstance(body, ast.Union) else (body,)
    return all(part.projections for read in reads for part in read.parts)


def _expand_query(query: ast.Query, catalog: Catalog, findings: DiagnosticCollector) -> tuple[ast.Query, Catalog]:
    """Return a query with the named patterns of its file replaced, and a catalog with those that are edges in it.

    Mistakes of the patterns that it uses are reported.
    """
    used = set(iter_used_patterns(query.body, query.patterns))
    checked = DiagnosticCollector()
    valid = check_patterns(query.patterns, catalog, checked)
    for pattern in valid:
        if pattern.name.text in used:
            _bind_pattern(pattern, query.patterns, catalog, findings)
    # A pattern that is not used may be wrong: that is no mistake of this query.
    spans = {pattern.name.span for pattern in query.patterns if pattern.name.text in used}
    _add_all(findings, (each for each in checked.finalize() if each.span in spans))
    expanded = expand_patterns(query, valid, findings)
    if findings:
        return expanded, catalog
    return expanded, _derive_edges(expanded.body, valid, catalog)


def _derive_edges(body: object, patterns: tuple[ast.PatternDecl, ...], catalog: Catalog) -> Catalog:
    """Return the catalog with an edge type for each named pattern that a query follows over several edges."""
    by_name = {pattern.name.text: pattern for pattern in patterns}
    edges: dict[str, EdgeType] = {}
    derived: dict[str, DerivedEdge] = {}
    for name in dict.fromkeys(iter_followed_patterns(body, patterns)):
        pattern = by_name[name]
        bound = _bind_pattern(pattern, patterns, catalog, DiagnosticCollector())
        source, target = (each.variable.name for each in pattern.params)
        if bound is None:
            continue
        ends = bound.types[source], bound.types[target]
        edges[name] = EdgeType(name=name, properties=(), source=str(ends[0]), target=str(ends[1]))
        derived[name] = DerivedEdge(pattern=bound, source=source, target=target)
    if not edges:
        return catalog
    every = {**catalog.edges, **edges}
    return DerivedCatalog(nodes=catalog.nodes, edges=every, interfaces=catalog.interfaces, derived=derived)


def _add_all(findings: DiagnosticCollector, diagnostics: Iterable[Diagnostic]) -> None:
    for each in diagnostics:
        findings.add_error(each.code, each.span, each.message, each.help)


def _bind_pattern(
    pattern: ast.PatternDecl, patterns: tuple[ast.PatternDecl, ...], catalog: Catalog, findings: DiagnosticCollector
) -> Pattern | None:
    """Bind the clauses of a named pattern on their own; errors show names as they are written."""
    ends = tuple(ast.Binding(variable=each.variable, types=each.types, span=each.span) for each in pattern.params)
    own = DiagnosticCollector()
    valid = check_patterns(patterns, catalog, DiagnosticCollector())
    body = ast.Read(clauses=(*ends, *pattern.clauses), projections=(), span=pattern.span)
    query = ast.Query(name=pattern.name, body=body, span=pattern.span)
    expanded = expand_patterns(query, valid, own)
    assert isinstance(expanded.body, ast.Read)  # noqa: S101 - it is the read from above
    read = inline_lets(expanded.body, own)
    inner = catalog if own else _derive_edges(read.clauses, valid, catalog)
    matched = bind_match(read.clauses, inner, Params({}, is_of_pattern=True), own)
    _add_all(findings, own.finalize())
    return matched.pattern
