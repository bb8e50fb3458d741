"""Check the text of a `.gq` file again and again while it is typed: only declarations that changed are read anew.

Each declaration is checked by `check_queries` together with the named patterns that it uses, which it is
given as well. What concerns the file as a whole, repeated names and L201, is found over all of them.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from omnigraph.lang import query_ast as ast
from omnigraph.lang.declarations import Piece, read_piece, split_declarations
from omnigraph.lang.diagnostics import Diagnostic
from omnigraph.lang.names import NameUse
from omnigraph.lang.query_parser import parse_queries
from omnigraph.lang.source import Source, Span
from omnigraph.query.lint import find_never_updated, list_statements
from omnigraph.query.name_uses import find_query_names
from omnigraph.query.resolution import ResolvedNames, record_names
from omnigraph.query.static_checks import check_queries
from omnigraph.schema.catalog import Catalog

# Found over the whole file.
_FILE_CODES: Final = frozenset({"L201"})
# A help line that names another place, by its line in the file.
_NAMES_PLACE: Final = re.compile(r"\bline [0-9]+, column [0-9]+")


@dataclass(frozen=True)
class Context:
    """The texts that a declaration is checked with: earlier ones of its name, and the patterns that it uses."""

    before: str
    after: str
    patterns: frozenset[str]


@dataclass(frozen=True)
class CheckedDeclaration:
    """The findings about a declaration and its names; all places count from its start."""

    text: str
    diagnostics: tuple[Diagnostic, ...]
    statements: tuple[ast.Mutation, ...]
    is_moved: bool
    """Whether a help line names a line, so that it has to be checked again where it stands elsewhere."""
    first_line: int
    tree: ast.QueryFile
    resolved: ResolvedNames
    catalog: Catalog | None
    patterns: frozenset[str]

    @cached_property
    def names(self) -> tuple[NameUse, ...]:
        """Every name in it, in source order."""
        return find_query_names(self.tree, self.text, self.catalog, self.resolved, self.patterns)


@dataclass(frozen=True, slots=True)
class Placed:
    """A declaration and where it stands in the file."""

    start: int
    first_line: int
    piece: Piece
    checked: CheckedDeclaration

    @property
    def end(self) -> int:
        """Where the next one starts."""
        return self.start + len(self.piece.text)


@dataclass
class QueryFileChecker:
    """What has been read of one file, against one catalog; `lines_read` counts the lines read so far."""

    catalog: Catalog | None = None
    lines_read: int = 0
    declarations_checked: int = 0
    _pieces: dict[str, Piece] = field(default_factory=dict)
    _checked: dict[tuple[str, Context], CheckedDeclaration] = field(default_factory=dict)

    def replace_catalog(self, catalog: Catalog | None) -> None:
        """Check against another catalog from now on; texts stay read."""
        if catalog is not self.catalog:
            self.catalog = catalog
            self._checked = {}

    def split(self, text: str) -> list[tuple[int, Piece]]:
        """Return the declarations of a text, each with its start; only what changed is read."""
        kept: dict[str, Piece] = {}

        def read(part: str) -> Piece:
            piece = kept.get(part) or self._pieces.get(part)
            if piece is None:
                piece = read_piece(part)
                self.lines_read += piece.line_breaks + 1
            kept[part] = piece
            return piece

        pieces = split_declarations(text, read)
        self._pieces = kept
        return pieces

    def iter_check(self, text: str) -> Iterator[Placed]:
        """Yield the declarations of a text, each checked; a caller may stop between two of them."""
        kept: dict[tuple[str, Context], CheckedDeclaration] = {}
        pieces = self.split(text)
        contexts = _list_contexts([piece for _, piece in pieces])
        line = 1
        for (start, piece), context in zip(pieces, contexts, strict=True):
            key = (piece.text, context)
            checked = kept.get(key) or self._checked.get(key)
            if checked is None or (checked.is_moved and checked.first_line != line):
                checked = self._checked[key] = self._check(piece, context, line)
            kept[key] = checked
            yield Placed(start, line, piece, checked)
            line += piece.line_breaks
        self._checked = kept

    def check(self, text: str) -> list[Placed]:
        """Return the declarations of a text, each checked."""
        return list(self.iter_check(text))

    def _check(self, piece: Piece, context: Context, line: int) -> CheckedDeclaration:
        self.declarations_checked += 1
        self.lines_read += piece.line_breaks + 1
        first_line = line - len(Source(context.before).line_starts) + 1
        source = Source(context.before + piece.text + context.after, first_line=first_line)
        with record_names() as resolved:
            report = check_queries(source, self.catalog)
        shift = len(context.before)
        end = shift + len(piece.text)
        # The end of the file's last declaration is in it, that of another one is the start of the next.
        last = end + 1 if not context.after else end
        findings = tuple(
            _shift(diagnostic, -shift)
            for diagnostic in report.diagnostics
            if shift <= diagnostic.span.start < last and diagnostic.code not in _FILE_CODES
        )
        tree = parse_queries(Source(piece.text)).tree
        moved = {
            Span(span.start - shift, span.end - shift): types
            for span, types in resolved.properties.items()
            if shift <= span.start < end
        }
        variables = {
            Span(span.start - shift, span.end - shift): type_
            for span, type_ in resolved.variables.items()
            if shift <= span.start < end
        }
        return CheckedDeclaration(
            text=piece.text,
            diagnostics=findings,
            statements=tuple(statement for query in tree.queries for statement in list_statements(query)),
            is_moved=any(_NAMES_PLACE.search(diagnostic.help or "") for diagnostic in findings),
            first_line=line,
            tree=tree,
            resolved=ResolvedNames(moved, variables),
            catalog=self.catalog,
            patterns=context.patterns,
        )


def collect_diagnostics(file: list[Placed], catalog: Catalog | None) -> tuple[Diagnostic, ...]:
    """Return the findings about a file whose declarations are checked, in source order, as `check_queries` would.

    Warnings about declarations stay where another one has an error.
    """
    findings = [_shift(diagnostic, placed.start) for placed in file for diagnostic in placed.checked.diagnostics]
    if catalog is not None and not any(diagnostic.is_error for diagnostic in findings):
        starts: dict[int, int] = {}
        statements: list[ast.Mutation] = []
        for placed in file:
            for statement in placed.checked.statements:
                starts.setdefault(id(statement), placed.start)
                statements.append(statement)
        findings += [_shift(warning, starts[id(insert)]) for insert, warning in find_never_updated(statements, catalog)]
    return tuple(sorted(findings, key=lambda diagnostic: (diagnostic.span, diagnostic.code, diagnostic.message)))


def _shift(diagnostic: Diagnostic, distance: int) -> Diagnostic:
    span = Span(diagnostic.span.start + distance, diagnostic.span.end + distance)
    return Diagnostic(diagnostic.code, span, diagnostic.message, diagnostic.help)


def _list_contexts(pieces: list[Piece]) -> list[Context]:
    """Return what each declaration is checked with."""
    declared: dict[str, Piece] = {}
    for piece in pieces:
        for name in piece.patterns:
            declared.setdefault(name, piece)
    patterns = frozenset(declared)
    contexts = []
    earlier: dict[tuple[str, str], Piece] = {}
    for piece in pieces:
        repeated: dict[Piece, None] = {}
        for kind, names in (("query", piece.queries), ("pattern", piece.patterns)):
            for name in names:
                other = earlier.setdefault((kind, name), piece)
                if other is not piece:
                    repeated[other] = None
        used = _list_used(piece, declared, patterns) if patterns else []
        contexts.append(
            Context(
                before="".join(_end_line(other.text) for other in repeated),
                after="".join(f"\n{other.text}" for other in used if other not in repeated and other is not piece),
                patterns=patterns & piece.words,
            )
        )
    return contexts


def _end_line(text: str) -> str:
    return text if text.endswith("\n") else f"{text}\n"


def _list_used(piece: Piece, declared: dict[str, Piece], patterns: frozenset[str]) -> list[Piece]:
    """Return the declarations of the patterns that a piece names, and of those that these name."""
    findings: dict[Piece, None] = {}
    todo = [piece]
    while todo:
        for name in sorted(todo.pop().words & patterns):
            other = declared[name]
            if other not in findings and other is not piece:
                findings[other] = None
                todo.append(other)
    return list(findings)
