"""The items that a schema's canonical text is made of."""

from collections.abc import Iterable
from typing import assert_never

from omnigraph.lang.layout import Anchor, Group, Item, Line
from omnigraph.lang.literals import EnumType, Name
from omnigraph.lang.print_values import print_literal, print_type, quote
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
    UniqueDecl,
)


def declaration_items(declaration: Declaration) -> list[Item]:
    """One interface, node or edge."""
    match declaration:
        case InterfaceDecl(name=name, members=members):
            return _with_body(declaration, [f"interface {name.text}"], members)
        case NodeDecl(name=name, annotations=annotations, implements=implements, members=members):
            header = [f"node {name.text}", *map(annotation_text, annotations)]
            if implements:
                header.append(f"implements {_names(implements)}")
            return _with_body(declaration, header, members)
        case EdgeDecl(name=name, source=source, target=target, cards=cards, annotations=annotations, members=members):
            header = [
                f"edge {name.text}: {source.text} -> {target.text}",
                *map(_card_text, cards),
                *map(annotation_text, annotations),
            ]
            if members:
                return _with_body(declaration, header, members)
            return [_header(declaration, header, brace="")]
        case _:
            assert_never(declaration)


def annotation_text(annotation: Annotation) -> str:
    """`@name`, `@name(arg)`, `@name(arg, option=literal)`."""
    if annotation.argument is None:
        return f"@{annotation.name.text}"
    argument = annotation.argument
    parts = [argument.text if isinstance(argument, Name) else print_literal(argument)]
    parts += (f"{name.text}={print_literal(value)}" for name, value in annotation.options)
    return f"@{annotation.name.text}({', '.join(parts)})"


def _with_body(declaration: Declaration, header: list[str], members: tuple[Member, ...]) -> list[Item]:
    close = Line(0, "}", Anchor(declaration.span.end, ("}",)), closes=True)
    if not members:
        opened = _header(declaration, header, brace="{")
        return [Group(_header(declaration, header, brace="{}").flat, (opened, close))]
    return [_header(declaration, header, brace="{"), *(_member(member) for member in members), close]


def _header(declaration: Declaration, parts: list[str], *, brace: str) -> Group:
    # Annotations may stand on both sides of `implements` and of `@card`, so the tree's order is not the source's:
    # the parts have no anchors, and comments among them go before the declaration.
    start = Anchor(declaration.span.start)
    flat = Line(0, " ".join([*parts, brace] if brace else parts), start)
    first, *rest = parts
    broken = [Line(0, first, start), *(Line(1, part) for part in rest)]
    if brace:
        broken.append(Line(0, brace))
    return Group(flat, tuple(broken))


def _member(member: Member) -> Item:
    match member:
        case PropertyDecl():
            return _property(member)
        case KeyDecl(columns=columns):
            text = f"@key({_names(columns)})"
        case UniqueDecl(columns=columns):
            text = f"@unique({_names(columns)})"
        case IndexDecl(columns=columns):
            text = f"@index({_names(columns)})"
        case RangeDecl(column=column, low=low, high=high):
            text = f"@range({column.text}, {_bound(low)}..{_bound(high)})"
        case CheckDecl(column=column, pattern=pattern):
            text = f"@check({column.text}, {quote(pattern)})"
        case _:
            assert_never(member)
    return Line(1, text, Anchor(member.span.start))


def _property(member: PropertyDecl) -> Item:
    optional = "?" if member.nullable else ""
    start = Anchor(member.span.start)
    line = Line(1, f"{member.name.text}: {print_type(member.type)}{optional}", start)
    typed: Item = line
    if isinstance(member.type, EnumType):
        typed = Group(
            line,
            (
                Line(1, f"{member.name.text}: enum(", start),
                *_one_per_line(member.type.values),
                Line(1, f"){optional}", closes=True),
            ),
        )
    if not member.annotations:
        return typed
    annotations = [(annotation_text(annotation), annotation.span) for annotation in member.annotations]
    flat = Line(1, " ".join([line.text, *(shown for shown, _ in annotations)]), start)
    return Group(flat, (typed, *(Line(2, shown, Anchor(span.start)) for shown, span in annotations)))


def _one_per_line(names: tuple[Name, ...]) -> Iterable[Line]:
    last = len(names) - 1
    for index, name in enumerate(names):
        yield Line(2, name.text if index == last else f"{name.text},", Anchor(name.span.start))


def _names(names: Iterable[Name]) -> str:
    return ", ".join(name.text for name in names)


def _card_text(card: CardDecl) -> str:
    return f"@card({card.low}..{'*' if card.high is None else card.high})"


def _bound(bound: Bound | None) -> str:
    return "" if bound is None else print_literal(bound)
