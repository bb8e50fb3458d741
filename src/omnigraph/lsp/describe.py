"""What an editor shows about a name: its type, its declaration, what is written about it."""

from omnigraph.lang import query_ast as ast
from omnigraph.lang.names import NameKind, NameUse, Symbol
from omnigraph.query.functions import FUNCTIONS
from omnigraph.query.incremental_check import Placed
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.describe_name import describe_property, describe_type


def describe(use: NameUse, catalog: Catalog | None, placed: list[Placed]) -> tuple[str, str | None] | None:
    """Return the code that shows what a name means, and a text about it; None if nothing is known."""
    descriptions = [
        each for symbol in use.symbols if (each := _describe_symbol(symbol, use, catalog, placed)) is not None
    ]
    if not descriptions:
        return None
    codes = dict.fromkeys(code for code, _ in descriptions)
    notes = dict.fromkeys(note for _, note in descriptions if note)
    return "\n".join(codes), "\n".join(notes) or None


def _describe_symbol(
    symbol: Symbol, use: NameUse, catalog: Catalog | None, placed: list[Placed]
) -> tuple[str, str | None] | None:
    match symbol.kind:
        case NameKind.TYPE:
            return None if catalog is None else describe_type(catalog, symbol.name)
        case NameKind.PROPERTY:
            return None if catalog is None else describe_property(catalog, symbol.owner, symbol.name)
        case NameKind.VARIABLE | NameKind.PARAMETER:
            type_ = use.type or _find_type(symbol, placed)
            return f"${symbol.name}: {type_}" if type_ else f"${symbol.name}", None
        case NameKind.FUNCTION:
            function = FUNCTIONS.get(symbol.name)
            return None if function is None else (function.usage.replace("`", ""), function.family.value)
        case NameKind.QUERY | NameKind.PATTERN:
            return _describe_declaration(symbol, placed)
        case _:
            return None


def _find_type(symbol: Symbol, placed: list[Placed]) -> str:
    """Return the type that a variable has at another place of its query."""
    for each in placed:
        if symbol.owner.startswith(f"{each.start}:"):
            owner = symbol.owner.partition(":")[2]
            plain = Symbol(symbol.kind, symbol.name, owner)
            return next((use.type for use in each.checked.names if plain in use.symbols and use.type), "")
    return ""


def _describe_declaration(symbol: Symbol, placed: list[Placed]) -> tuple[str, str | None] | None:
    for each in placed:
        declarations: tuple[ast.Query | ast.PatternDecl, ...] = (
            each.checked.tree.queries if symbol.kind is NameKind.QUERY else each.checked.tree.patterns
        )
        for declaration in declarations:
            if declaration.name.text == symbol.name:
                text = each.piece.text[declaration.span.start : declaration.span.end]
                header = (
                    text.partition("{")[0].strip()
                    if symbol.kind is NameKind.PATTERN
                    else _write_header(declaration, text)
                )
                return header, _find_description(declaration)
    return None


def _write_header(declaration: ast.Query | ast.PatternDecl, text: str) -> str:
    params = declaration.params if isinstance(declaration, ast.Query) else ()
    start = declaration.span.start
    shown = (text[param.span.start - start : param.span.end - start] for param in params)
    nullable = (
        f"{each}?" if param.nullable and not each.endswith("?") else each
        for each, param in zip(shown, params, strict=True)
    )
    return f"query {declaration.name.text}({', '.join(nullable)})"


def _find_description(declaration: ast.Query | ast.PatternDecl) -> str | None:
    if isinstance(declaration, ast.PatternDecl):
        return None
    return next((each.text for each in declaration.annotations if each.name.text == "description"), None)
