"""The pretty printer: the canonical text of a syntax tree without errors, which parses to an equal tree."""

from collections.abc import Iterable, Sequence
from typing import assert_never

from omnigraph.lang.expression_printer import format_expr, print_literal, print_type, quote
from omnigraph.lang.layout import Anchor, Item, LineGroup, PrintedLine, lay_out
from omnigraph.lang.literals import (
    EnumType,
    Name,
)
from omnigraph.lang.query_ast import QueryFile
from omnigraph.lang.query_printer import build_pattern_items, build_query_items
from omnigraph.lang.schema_ast import (
    Annotation,
    Bound,
    CardDecl,
    CheckDecl,
    Declaration,
    EdgeDecl,
    IndexDecl,
    InterfaceDecl,
    KeyDecl,
    Member,
    NodeDecl,
    PropertyDecl,
    RangeDecl,
    SchemaFile,
    UniqueDecl,
)


def build_declaration_items(declaration: Declaration) -> list[Item]:
    """Build the lines of one interface, node or edge."""
    match declaration:
        case InterfaceDecl(name=name, members=members):
            return _build_body(declaration, [f"interface {name.text}"], members)
        case NodeDecl(name=name, annotations=annotations, implements=implements, members=members):
            header = [f"node {name.text}", *map(format_annotation, annotations)]
            if implements:
                header.append(f"implements {_join_names(implements)}")
            return _build_body(declaration, header, members)
        case EdgeDecl(name=name, source=source, target=target, cards=cards, annotations=annotations, members=members):
            header = [
                f"edge {name.text}: {source.text} -> {target.text}",
                *map(_format_card, cards),
                *map(format_annotation, annotations),
            ]
            if members:
                return _build_body(declaration, header, members)
            return [_build_declaration_header(declaration, header, brace="")]
        case _:
            assert_never(declaration)


def format_annotation(annotation: Annotation) -> str:
    """Format `@name`, `@name(arg)`, `@name(arg, option=literal)` or `@name(option=literal)`."""
    argument = annotation.argument
    if argument is None and not annotation.options:
        return f"@{annotation.name.text}"
    parts = []
    if argument is not None:
        parts.append(argument.text if isinstance(argument, Name) else print_literal(argument))
    parts += (f"{name.text}={print_literal(value)}" for name, value in annotation.options)
    return f"@{annotation.name.text}({', '.join(parts)})"


def _build_body(declaration: Declaration, header: list[str], members: tuple[Member, ...]) -> list[Item]:
    close = PrintedLine(0, "}", Anchor(declaration.span.end, ("}",)), closes=True)
    if not members:
        opened = _build_declaration_header(declaration, header, brace="{")
        return [LineGroup(_build_declaration_header(declaration, header, brace="{}").flat, (opened, close))]
    return [
        _build_declaration_header(declaration, header, brace="{"),
        *(_build_member(member) for member in members),
        close,
    ]


def _build_declaration_header(declaration: Declaration, parts: list[str], *, brace: str) -> LineGroup:
    # Annotations may stand on both sides of `implements` and of `@card`, so the tree's order is not the source's:
    # the parts have no anchors, and comments among them go before the declaration.
    start = Anchor(declaration.span.start)
    flat = PrintedLine(0, " ".join([*parts, brace] if brace else parts), start)
    first, *rest = parts
    broken = [PrintedLine(0, first, start), *(PrintedLine(1, part) for part in rest)]
    if brace:
        broken.append(PrintedLine(0, brace))
    return LineGroup(flat, tuple(broken))


def _build_member(member: Member) -> Item:
    match member:
        case PropertyDecl():
            return _build_property(member)
        case KeyDecl(columns=columns):
            text = f"@key({_join_names(columns)})"
        case UniqueDecl(columns=columns):
            text = f"@unique({_join_names(columns)})"
        case IndexDecl(columns=columns):
            text = f"@index({_join_names(columns)})"
        case RangeDecl(column=column, low=low, high=high):
            text = f"@range({column.text}, {_format_bound(low)}..{_format_bound(high)})"
        case CheckDecl(column=column, pattern=pattern):
            text = f"@check({column.text}, {quote(pattern)})"
        case _:
            assert_never(member)
    return PrintedLine(1, text, Anchor(member.span.start))


def _build_property(member: PropertyDecl) -> Item:
    optional = "?" if member.nullable else ""
    start = Anchor(member.span.start)
    line = PrintedLine(1, f"{member.name.text}: {print_type(member.type)}{optional}", start)
    typed: Item = line
    if isinstance(member.type, EnumType):
        typed = LineGroup(
            line,
            (
                PrintedLine(1, f"{member.name.text}: enum(", start),
                *_iter_value_lines(member.type.values),
                PrintedLine(1, f"){optional}", closes=True),
            ),
        )
    if not member.annotations:
        return typed
    annotations = [(format_annotation(annotation), annotation.span) for annotation in member.annotations]
    flat = PrintedLine(1, " ".join([line.text, *(shown for shown, _ in annotations)]), start)
    return LineGroup(flat, (typed, *(PrintedLine(2, shown, Anchor(span.start)) for shown, span in annotations)))


def _iter_value_lines(names: tuple[Name, ...]) -> Iterable[PrintedLine]:
    last = len(names) - 1
    for index, name in enumerate(names):
        yield PrintedLine(2, name.text if index == last else f"{name.text},", Anchor(name.span.start))


def _join_names(names: Iterable[Name]) -> str:
    return ", ".join(name.text for name in names)


def _format_card(card: CardDecl) -> str:
    return f"@card({card.low}..{'*' if card.high is None else card.high})"


def _format_bound(bound: Bound | None) -> str:
    return "" if bound is None else print_literal(bound)


__all__ = ["format_expr", "print_literal", "print_queries", "print_schema", "print_type", "quote"]


def print_schema(tree: SchemaFile) -> str:
    """Print the canonical text of a schema, without comments; spans have no influence."""
    return _join_lines([build_declaration_items(declaration) for declaration in tree.declarations])


def print_queries(tree: QueryFile) -> str:
    """Print the canonical text of queries, named patterns first, without comments; spans have no influence."""
    patterns = [build_pattern_items(pattern) for pattern in tree.patterns]
    return _join_lines([*patterns, *(build_query_items(query) for query in tree.queries)])


def _join_lines(declarations: Sequence[Sequence[Item]]) -> str:
    return "".join(f"{chr(10) if line.blank_before else ''}{line}\n" for line in lay_out(declarations))
