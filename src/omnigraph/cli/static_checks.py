"""Everything that can be said about schema and query texts without a graph; pure."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from omnigraph.lang.diagnostics import Diagnostic, sort_diagnostics
from omnigraph.lang.lexer import Language, tokenize
from omnigraph.lang.query_parser import parse_queries
from omnigraph.lang.schema_parser import parse_schema
from omnigraph.lang.source import Source, Span
from omnigraph.query.bind import bind_file
from omnigraph.query.lint import lint_file
from omnigraph.schema.bind import bind_schema
from omnigraph.schema.catalog import Catalog, build_catalog
from omnigraph.schema.lint import lint_schema

SCHEMA_FREE_CODES = frozenset({"Q002", "Q003", "Q004", "T6", "T9", "T15", "T18", "T23", "T24", "T25", "D2"})
"""Findings about a query that no schema could change."""

_UNKNOWN_CODES = frozenset({"S006", "S007", "S010", "S016", "T1", "T2", "T4", "T6", "T11"})
"""Findings about a name that nothing declares."""

_HOLISTIC_CODES = frozenset({"T5", "T9", "T10", "T12", "T17"})
"""Findings that need a whole query: in a broken one they may only miss what could not be read."""

_WORD = re.compile(r"\$?\w+")


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
    found = list(bound.diagnostics)
    if not parsed.ok:
        damage = _find_damage(source, Language.SCHEMA, parsed.diagnostics)
        found = [one for one in found if not damage.explains(one)]
    elif bound.ok:
        found += lint_schema(parsed.tree, bound.value)
    report = FileReport(
        source=source, language=Language.SCHEMA, diagnostics=sort_diagnostics([*parsed.diagnostics, *found])
    )
    return report, bound.value if report.errors == 0 else None


def check_queries(source: Source, catalog: Catalog | None) -> FileReport:
    """Grammar, types and lint of a file of queries; without a catalog only what needs none."""
    parsed = parse_queries(source)
    bound = bind_file(parsed.tree, catalog or build_catalog())
    found = list(bound.diagnostics)
    if not parsed.ok:
        damage = _find_damage(source, Language.QUERY, parsed.diagnostics)
        broken = [query.span for query in parsed.tree.queries if damage.is_in(query.span)]
        found = [
            one
            for one in found
            if not any(span.start <= one.span.start < span.end for span in broken)
            or (one.code not in _HOLISTIC_CODES and not damage.explains(one))
        ]
    if catalog is None:
        found = [one for one in found if one.code in SCHEMA_FREE_CODES]
    elif parsed.ok and bound.ok:
        found += lint_file(parsed.tree, bound.value, catalog)
    return FileReport(
        source=source, language=Language.QUERY, diagnostics=sort_diagnostics([*parsed.diagnostics, *found])
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Damage:
    """Where the grammar of a text is broken, and which words may not have been read because of that.

    What follows from such a mistake is no second mistake: a clause that could not be read leaves its variables
    unbound, a type that could not be read leaves references to it without an end.
    """

    source: Source
    offsets: frozenset[int]
    lines: frozenset[int]
    words: frozenset[str]

    def is_in(self, span: Span) -> bool:
        return any(span.start <= place <= span.end for place in self.offsets)

    def explains(self, found: Diagnostic) -> bool:
        """Whether a finding may be a consequence: it stands on a broken line, or misses a name that stands on one."""
        if self.source.position(found.span.start).line in self.lines:
            return True
        named = _WORD.findall(self.source.slice(found.span))
        return found.code in _UNKNOWN_CODES and not self.words.isdisjoint(named)


def _find_damage(source: Source, language: Language, diagnostics: Iterable[Diagnostic]) -> _Damage:
    places = frozenset(found.span.start for found in diagnostics)
    lines = frozenset(source.position(place).line for place in places)
    tokens = tokenize(source, language).tokens
    on_lines = {token.text for token in tokens if source.position(token.span.start).line in lines}
    return _Damage(source=source, offsets=places, lines=lines, words=frozenset(on_lines))
