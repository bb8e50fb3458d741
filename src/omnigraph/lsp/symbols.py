"""The outline of a file: its declarations and what they hold."""

from lsprotocol.types import DocumentSymbol, SymbolKind

from omnigraph.lang import query_ast as ast
from omnigraph.lang.lexer import Language, reveal
from omnigraph.lang.schema_ast import Declaration, EdgeDecl, InterfaceDecl, PropertyDecl
from omnigraph.lang.schema_parser import parse_schema
from omnigraph.lang.source import Source, Span
from omnigraph.lsp.text import Text
from omnigraph.query.incremental_check import Placed


def list_symbols(text: Text, placed: list[Placed], language: Language) -> list[DocumentSymbol]:
    """Return the declarations of a file; `placed` are those of queries."""
    if language is Language.SCHEMA:
        return [_show_type(text, each) for each in parse_schema(Source(text.value)).tree.declarations]
    found = []
    for each in placed:
        tree = each.checked.tree
        declarations: tuple[ast.Query | ast.PatternDecl, ...] = (*tree.queries, *tree.patterns)
        found += [(each.start, declaration) for declaration in declarations]
    found.sort(key=lambda item: item[0] + item[1].span.start)
    return [_show_query(text, declaration, start) for start, declaration in found]


def _show_type(text: Text, declaration: Declaration) -> DocumentSymbol:
    kind = SymbolKind.Interface if isinstance(declaration, InterfaceDecl) else SymbolKind.Class
    detail = None
    if isinstance(declaration, EdgeDecl):
        detail = f"{declaration.source.text} -> {declaration.target.text}"
    members = [
        DocumentSymbol(
            name=member.name.text,
            kind=SymbolKind.Property,
            range=text.range(member.span),
            selection_range=text.range(member.name.span),
            detail=reveal(text.value[member.type.span.start : member.type.span.end]),
        )
        for member in declaration.members
        if isinstance(member, PropertyDecl)
    ]
    return DocumentSymbol(
        name=declaration.name.text,
        kind=kind,
        range=text.range(declaration.span),
        selection_range=text.range(declaration.name.span),
        detail=detail,
        children=members,
    )


def _show_query(text: Text, declaration: ast.Query | ast.PatternDecl, start: int) -> DocumentSymbol:
    span = Span(declaration.span.start + start, declaration.span.end + start)
    name = Span(declaration.name.span.start + start, declaration.name.span.end + start)
    is_query = isinstance(declaration, ast.Query)
    return DocumentSymbol(
        name=declaration.name.text,
        kind=SymbolKind.Function if is_query else SymbolKind.Interface,
        range=text.range(span),
        selection_range=text.range(name),
        detail="query" if is_query else "pattern",
    )
