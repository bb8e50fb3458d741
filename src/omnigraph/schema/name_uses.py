"""The names of a schema by their place: types and properties, where they are declared and where they are used."""

from collections.abc import Iterator

from omnigraph.lang.expression_printer import print_type
from omnigraph.lang.literals import Name, StringLiteral
from omnigraph.lang.names import NameForm, NameKind, NameUse, Symbol
from omnigraph.lang.schema_ast import (
    Annotation,
    CheckDecl,
    EdgeDecl,
    InterfaceDecl,
    Member,
    NodeDecl,
    PropertyDecl,
    RangeDecl,
    SchemaFile,
)
from omnigraph.lang.source import Span
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.property_owners import find_owner


def find_schema_names(file: SchemaFile, catalog: Catalog | None) -> tuple[NameUse, ...]:
    """Return every name of a schema with what it means, in source order; properties only with a catalog."""
    return tuple(sorted(_iter_names(file, catalog), key=lambda use: use.span))


def _iter_names(file: SchemaFile, catalog: Catalog | None) -> Iterator[NameUse]:
    for declaration in file.declarations:
        yield _use_type(declaration.name, is_declaration=True)
        match declaration:
            case NodeDecl():
                yield from map(_use_type, declaration.implements)
            case EdgeDecl():
                yield _use_type(declaration.source)
                yield _use_type(declaration.target)
            case InterfaceDecl():
                pass
        if catalog is not None:
            for member in declaration.members:
                yield from _iter_member_names(member, declaration.name.text, catalog)


def _use_type(name: Name, *, is_declaration: bool = False) -> NameUse:
    return NameUse(name.span, (Symbol(NameKind.TYPE, name.text),), is_declaration=is_declaration)


def _iter_member_names(member: Member, owner: str, catalog: Catalog) -> Iterator[NameUse]:
    match member:
        case PropertyDecl():
            yield from _use_property(member.name, owner, catalog, declared=member)
            for annotation in member.annotations:
                yield from _iter_annotation_names(annotation, owner, catalog)
        case RangeDecl() | CheckDecl():
            yield from _use_property(member.column, owner, catalog)
        case _:
            for column in member.columns:
                yield from _use_property(column, owner, catalog)


def _iter_annotation_names(annotation: Annotation, owner: str, catalog: Catalog) -> Iterator[NameUse]:
    argument = annotation.argument
    if annotation.name.text != "embed" or argument is None:
        return
    if isinstance(argument, StringLiteral):
        inner = Name(argument.value, Span(argument.span.start + 1, argument.span.end - 1))
        yield from _use_property(inner, owner, catalog, form=NameForm.QUOTED)
    elif isinstance(argument, Name):
        yield from _use_property(argument, owner, catalog)


def _use_property(
    name: Name, owner: str, catalog: Catalog, *, declared: PropertyDecl | None = None, form: NameForm = NameForm.PLAIN
) -> Iterator[NameUse]:
    shared = find_owner(catalog, owner, name.text)
    if shared is None:
        return
    type_ = ""
    if declared is not None:
        type_ = f"{print_type(declared.type)}{'?' if declared.nullable else ''}"
    symbol = Symbol(NameKind.PROPERTY, name.text, shared)
    yield NameUse(name.span, (symbol,), is_declaration=declared is not None, form=form, type=type_)
