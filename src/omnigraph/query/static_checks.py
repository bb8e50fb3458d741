"""Static checks of schema and query texts, without a graph; pure functions."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from omnigraph.lang import query_ast as ast
from omnigraph.lang.diagnostics import Diagnostic, sort_diagnostics
from omnigraph.lang.expression_tree import list_clause_expressions, list_inner_clauses, walk_deep
from omnigraph.lang.lexer import Language, tokenize
from omnigraph.lang.query_parser import parse_queries
from omnigraph.lang.schema_parser import parse_schema
from omnigraph.lang.source import Source, Span
from omnigraph.query.bind import bind_file
from omnigraph.query.lint import lint_file
from omnigraph.schema.bind import bind_schema
from omnigraph.schema.catalog import Catalog, build_catalog
from omnigraph.schema.lint import lint_schema

# Findings about a query that no schema could change.
SCHEMA_FREE_CODES = frozenset({"Q002", "Q003", "Q004", "T6", "T9", "T15", "T18", "T23", "T24", "T25", "D2"})

# Findings about variables that are not bound, or not shared.
_BINDING_CODES = frozenset({"T6", "T9", "T25"})

# Findings about a name without a declaration.
_UNKNOWN_CODES = frozenset({"S006", "S007", "S010", "S016", "T1", "T2", "T4", "T6", "T11"})

# Findings that need a complete query: in a broken one, the missing part may only have been unreadable.
_HOLISTIC_CODES = frozenset({"T5", "T9", "T10", "T12", "T17"})

_WORD = re.compile(r"\$?\w+")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReport:
    """All findings about one text, in source order."""

    source: Source
    language: Language
    diagnostics: tuple[Diagnostic, ...]

    @property
    def errors(self) -> int:
        """The number of findings that are errors."""
        return sum(diagnostic.is_error for diagnostic in self.diagnostics)

    @property
    def warnings(self) -> int:
        """The number of findings that are warnings."""
        return len(self.diagnostics) - self.errors


def check_schema(source: Source) -> tuple[FileReport, Catalog | None]:
    """Check the grammar, constraints and style of a schema; return its catalog only if there are no errors."""
    parsed = parse_schema(source)
    bound = bind_schema(parsed.tree)
    diagnostics = list(bound.diagnostics)
    if not parsed.ok:
        damage = _find_damage(source, Language.SCHEMA, parsed.diagnostics)
        diagnostics = [diagnostic for diagnostic in diagnostics if not damage.explains(diagnostic)]
    elif bound.ok:
        diagnostics += lint_schema(parsed.tree, bound.value)
    report = FileReport(
        source=source, language=Language.SCHEMA, diagnostics=sort_diagnostics([*parsed.diagnostics, *diagnostics])
    )
    return report, bound.value if report.errors == 0 else None


def check_queries(source: Source, catalog: Catalog | None, *, allows_bare: bool = False) -> FileReport:
    """Check the grammar, types and style of queries; without a catalog only what needs none.

    With `allows_bare`, one query may be written without `query name() { … }` around it, as where it is run.
    """
    parsed = parse_queries(source, allows_bare=allows_bare)
    bound = bind_file(parsed.tree, catalog or build_catalog())
    diagnostics = list(bound.diagnostics)
    if not parsed.ok:
        damage = _find_damage(source, Language.QUERY, parsed.diagnostics)
        broken = [query.span for query in parsed.tree.queries if damage.is_in(query.span)]
        diagnostics = [
            diagnostic
            for diagnostic in diagnostics
            if not any(span.start <= diagnostic.span.start < span.end for span in broken)
            or (diagnostic.code not in _HOLISTIC_CODES and not damage.explains(diagnostic))
        ]
    if catalog is None:
        unclear = [query.span for query in parsed.tree.queries if _binds_by_type(query)]
        diagnostics = [
            diagnostic
            for diagnostic in diagnostics
            if diagnostic.code in SCHEMA_FREE_CODES
            and not (diagnostic.code in _BINDING_CODES and _is_within(diagnostic.span, unclear))
        ]
    elif parsed.ok and bound.ok:
        diagnostics += lint_file(parsed.tree, bound.value, catalog, source)
    return FileReport(
        source=source, language=Language.QUERY, diagnostics=sort_diagnostics([*parsed.diagnostics, *diagnostics])
    )


def _binds_by_type(query: ast.Query) -> bool:
    """Return whether only the schema tells what the query's variables are bound to.

    Without the types, an insert names nothing, and alternatives have no variables in common.
    """
    if isinstance(query.body, tuple):
        has_names = any(isinstance(node, ast.DriveMatch) or _names_row(node) for node in query.body)
        return has_names or bool(query.returning)
    reads = query.body.reads if isinstance(query.body, ast.Union) else (query.body,)
    clauses = [clause for read in reads for part in read.parts for clause in part.clauses]
    return _has_alternatives(clauses)


def _has_alternatives(clauses: Iterable[ast.Clause]) -> bool:
    for clause in clauses:
        if isinstance(clause, ast.Either) or _has_alternatives(list_inner_clauses(clause)):
            return True
        parts = (part for expr in list_clause_expressions(clause) for part in walk_deep(expr))
        if any(_has_alternatives(part.clauses) for part in parts if isinstance(part, ast.Block)):
            return True
    return False


def _names_row(node: ast.Mutation) -> bool:
    return isinstance(node, ast.Insert) and node.variable is not None


def _is_within(span: Span, spans: Iterable[Span]) -> bool:
    return any(outer.start <= span.start < outer.end for outer in spans)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Damage:
    """The positions of syntax errors in a text, and the words that may not have been parsed because of them.

    Consequences of a syntax error are not reported: a clause that could not be parsed leaves its variables unbound, a
    type that could not be parsed leaves references to it unresolved.
    """

    source: Source
    offsets: frozenset[int]
    lines: frozenset[int]
    words: frozenset[str]

    def is_in(self, span: Span) -> bool:
        return any(span.start <= offset <= span.end for offset in self.offsets)

    def explains(self, diagnostic: Diagnostic) -> bool:
        """Return whether a finding may be a consequence: it is on a broken line, or misses a name that is on one."""
        if self.source.position(diagnostic.span.start).line in self.lines:
            return True
        names = _WORD.findall(self.source.slice(diagnostic.span))
        return diagnostic.code in _UNKNOWN_CODES and not self.words.isdisjoint(names)


def _find_damage(source: Source, language: Language, diagnostics: Iterable[Diagnostic]) -> _Damage:
    offsets = frozenset(diagnostic.span.start for diagnostic in diagnostics)
    lines = frozenset(source.position(offset).line for offset in offsets)
    tokens = tokenize(source, language).tokens
    on_lines = {token.text for token in tokens if source.position(token.span.start).line in lines}
    return _Damage(source=source, offsets=offsets, lines=lines, words=frozenset(on_lines))
