"""Everything that can be said about schema and query texts without a graph; pure."""

from dataclasses import dataclass
from itertools import pairwise

from omnigraph.lang.diagnostics import Diagnostic, in_order
from omnigraph.lang.lexer import Language, tokenize
from omnigraph.lang.query_parser import parse_queries
from omnigraph.lang.schema_ast import SchemaFile
from omnigraph.lang.schema_parser import parse_schema
from omnigraph.lang.source import Source
from omnigraph.query.bind import bind_file
from omnigraph.query.lint import lint_file
from omnigraph.schema.bind import bind_schema
from omnigraph.schema.catalog import Catalog, catalog_of
from omnigraph.schema.lint import lint_schema

SCHEMA_FREE_CODES = frozenset({"Q002", "Q003", "Q004", "T13", "T23", "T24", "D2"})
"""Findings about a query that no schema could change."""

_REFERENCE_CODES = frozenset({"S006", "S007"})


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReport:
    """All findings about one text, in source order."""

    source: Source
    language: Language
    diagnostics: tuple[Diagnostic, ...]

    @property
    def errors(self) -> int:
        """How many of the findings are errors."""
        return sum(found.is_error for found in self.diagnostics)

    @property
    def warnings(self) -> int:
        """How many of the findings are warnings."""
        return len(self.diagnostics) - self.errors


def check_schema(source: Source) -> tuple[FileReport, Catalog | None]:
    """Grammar, rules and lint of a schema; the catalog only when nothing found is an error."""
    parsed = parse_schema(source)
    bound = bind_schema(parsed.tree)
    found = [*parsed.diagnostics, *bound.diagnostics]
    if parsed.ok and bound.ok:
        found += lint_schema(parsed.tree, bound.value)
    if not parsed.ok:
        unread = _unread_types(source, parsed.tree)
        found = [one for one in found if not (one.code in _REFERENCE_CODES and source.slice(one.span) in unread)]
    report = FileReport(source=source, language=Language.SCHEMA, diagnostics=in_order(found))
    return report, bound.value if report.errors == 0 else None


def check_queries(source: Source, catalog: Catalog | None) -> FileReport:
    """Grammar, types and lint of a file of queries; without a catalog only what needs none."""
    parsed = parse_queries(source)
    found = list(parsed.diagnostics)
    if catalog is None:
        bound = bind_file(parsed.tree, catalog_of())
        found += [one for one in bound.diagnostics if one.code in SCHEMA_FREE_CODES]
    else:
        bound = bind_file(parsed.tree, catalog)
        found += bound.diagnostics
        if parsed.ok and bound.ok:
            found += lint_file(parsed.tree, bound.value, catalog)
    return FileReport(source=source, language=Language.QUERY, diagnostics=in_order(found))


def _unread_types(source: Source, tree: SchemaFile) -> set[str]:
    """The types that the text declares but the tree lacks: references to them are no second mistake."""
    words = [token.text for token in tokenize(source, Language.SCHEMA).tokens]
    declared = {name for keyword, name in pairwise(words) if keyword in ("node", "interface")}
    return declared - {declaration.name.text for declaration in tree.declarations}
