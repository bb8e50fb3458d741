"""The names of queries by their place: what each means, as the binder has resolved it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

from omnigraph.lang import query_ast as ast
from omnigraph.lang.literals import Name
from omnigraph.lang.names import NameForm, NameKind, NameUse, Symbol
from omnigraph.lang.source import Span
from omnigraph.query.functions import FUNCTIONS
from omnigraph.query.resolution import ResolvedNames
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.property_owners import find_owner

_LEAVES = (Span, Name, str, int, float, bool, type(None))
_ENDS = ("from", "to")


def find_query_names(
    file: ast.QueryFile, text: str, catalog: Catalog | None, resolved: ResolvedNames, patterns: Iterable[str]
) -> tuple[NameUse, ...]:
    """Return every name of these declarations with what it means, in source order.

    A property that the binder could not resolve has no symbol. `patterns` are the named patterns of the whole file.
    """
    uses: dict[Span, NameUse] = {}
    known = frozenset(patterns)
    declarations: tuple[ast.Query | ast.PatternDecl, ...] = (*file.queries, *file.patterns)
    for declaration in declarations:
        finder = _NameFinder(text, catalog, resolved, known, owner=str(declaration.span.start))
        for use in finder.find(declaration):
            uses.setdefault(use.span, use)
    return tuple(sorted(uses.values(), key=lambda use: use.span))


@dataclass
class _NameFinder:
    """A walk over the tree of one declaration."""

    text: str
    catalog: Catalog | None
    resolved: ResolvedNames
    patterns: frozenset[str]
    owner: str
    params: frozenset[str] = frozenset()
    # Of the part that is walked: its aliases, and whether variables of later parts come from them.
    columns: dict[str, NameKind] = field(default_factory=dict)

    def find(self, declaration: ast.Query | ast.PatternDecl) -> Iterator[NameUse]:
        if isinstance(declaration, ast.PatternDecl):
            yield NameUse(
                declaration.name.span, (Symbol(NameKind.PATTERN, declaration.name.text),), is_declaration=True
            )
            yield from self._walk((declaration.params, declaration.clauses))
            return
        # A query that is written without a name has one at an empty place.
        if declaration.name.span.start < declaration.name.span.end:
            yield NameUse(declaration.name.span, (Symbol(NameKind.QUERY, declaration.name.text),), is_declaration=True)
        self.params = frozenset(param.name.text for param in declaration.params)
        for param in declaration.params:
            type_ = self.text[param.type.span.start : param.type.span.end] + ("?" if param.nullable else "")
            yield from self._use_variable(param.name.text, param.name.span, is_declaration=True, type_=type_)
        yield from self._walk(declaration.body)
        if declaration.returning:
            self.columns = self._list_columns(declaration.returning, NameKind.COLUMN)
            yield from self._walk(declaration.returning)

    def _walk(self, node: Any) -> Iterator[NameUse]:  # noqa: ANN401 - any syntax node
        if isinstance(node, tuple):
            for each in node:
                yield from self._walk(each)
            return
        if isinstance(node, _LEAVES) or not is_dataclass(node):
            return
        yield from self._use(node)
        if isinstance(node, ast.Read | ast.Stage):
            yield from self._walk_part(node)
            return
        if isinstance(node, ast.Union):
            yield from self._walk(node.reads)
            self.columns = self._list_columns(node.reads[0].projections, NameKind.COLUMN)
            yield from self._walk((node.order, node.limit, node.offset))
            return
        for each in fields(node):
            yield from self._walk(getattr(node, each.name))

    def _walk_part(self, part: ast.Read | ast.Stage) -> Iterator[NameUse]:
        if isinstance(part, ast.Read):
            yield from self._walk(part.stages)
        # Columns of a stage are the variables of the next one.
        kind = NameKind.COLUMN if isinstance(part, ast.Read) else NameKind.VARIABLE
        self.columns = self._list_columns(part.projections, kind)
        yield from self._walk(
            (part.clauses, part.projections, part.having, part.order, part.limit, part.per, part.offset)
        )

    def _list_columns(self, projections: Iterable[ast.Projection], kind: NameKind) -> dict[str, NameKind]:
        columns: dict[str, NameKind] = {}
        for projection in projections:
            if projection.alias is not None:
                columns[projection.alias.text] = kind
            elif isinstance(projection.value, ast.Variable):
                columns[projection.value.name] = NameKind.VARIABLE
        return columns

    # --- uses ------------------------------------------------------------------------------------------

    def _use(self, node: Any) -> Iterator[NameUse]:  # noqa: ANN401 - as above
        match node:
            case ast.Variable() if node.name != ast.ANONYMOUS:
                yield from self._use_variable(node.name, node.span)
            case ast.PropertyRef() | ast.Field() if not node.is_meta:
                yield self._use_property(node.name)
            case ast.BareName() if not node.is_meta:
                yield self._use_bare(node.name)
            case ast.Assignment() if node.name.text not in _ENDS or node.name.span in self.resolved.properties:
                yield self._use_property(node.name)
            case ast.Binding() | ast.PatternParam():
                yield from (_use_type(name) for name in node.types)
            case ast.Insert() | ast.Update() | ast.Delete():
                yield _use_type(node.type)
            case ast.EdgeName():
                yield self._use_edge(node)
            case ast.Call():
                name = node.function
                kind = (
                    NameKind.PATTERN if name.text in self.patterns and name.text not in FUNCTIONS else NameKind.FUNCTION
                )
                yield NameUse(name.span, (Symbol(kind, name.text),))
            case ast.Projection(alias=Name() as alias):
                kind = self.columns.get(alias.text, NameKind.COLUMN)
                yield NameUse(alias.span, (Symbol(kind, alias.text, self.owner),), is_declaration=True)
            case _:
                pass

    def _use_variable(
        self, name: str, span: Span, *, is_declaration: bool = False, type_: str | None = None
    ) -> Iterator[NameUse]:
        kind = NameKind.PARAMETER if name in self.params else NameKind.VARIABLE
        found = self.resolved.variables.get(span, "") if type_ is None else type_
        # Without its sign, which is missing where it was forgotten.
        inner = Span(span.start + (self.text[span.start : span.start + 1] == "$"), span.end)
        yield NameUse(inner, (Symbol(kind, name, self.owner),), is_declaration=is_declaration, type=found)

    def _use_property(self, name: Name) -> NameUse:
        types = self.resolved.properties.get(name.span)
        if types is None or self.catalog is None:
            return NameUse(name.span, ())
        if not types:
            return NameUse(name.span, (Symbol(NameKind.FIELD, name.text, self.owner),))
        owners = dict.fromkeys(find_owner(self.catalog, type_, name.text) or type_ for type_ in types)
        symbols = tuple(Symbol(NameKind.PROPERTY, name.text, owner) for owner in owners)
        declared = self.catalog.find_type(types[0])
        property_ = None if declared is None else declared.find_property(name.text)
        if property_ is None:
            return NameUse(name.span, symbols)
        return NameUse(name.span, symbols, type=f"{property_.type}{'?' if property_.nullable else ''}")

    def _use_bare(self, name: Name) -> NameUse:
        if name.span in self.resolved.properties:
            return self._use_property(name)
        kind = self.columns.get(name.text)
        # Neither a column nor a resolved property: a mistake, or in a query with one.
        return NameUse(name.span, () if kind is None else (Symbol(kind, name.text, self.owner),))

    def _use_edge(self, node: ast.EdgeName) -> NameUse:
        name, span, form = node.name, node.name.span, NameForm.EDGE
        if node.is_text:
            span, form = Span(span.start + 1, span.end - 1), NameForm.QUOTED
        edge = None if self.catalog is None else self.catalog.find_edge(name.text)
        if edge is not None:
            return NameUse(span, (Symbol(NameKind.TYPE, edge.name),), form=form)
        kind = NameKind.PATTERN if name.text in self.patterns else NameKind.TYPE
        return NameUse(span, (Symbol(kind, name.text),), form=form)


def _use_type(name: Name) -> NameUse:
    return NameUse(name.span, (Symbol(NameKind.TYPE, name.text),))
