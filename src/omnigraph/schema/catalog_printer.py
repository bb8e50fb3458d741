"""The text of a catalog, for a schema that nobody wrote: binding it gives the catalog again, but for identities."""

from collections.abc import Iterator
from datetime import date, datetime

from omnigraph.lang.print_values import print_float, quote
from omnigraph.lang.printer import print_schema
from omnigraph.lang.schema_parser import parse_schema
from omnigraph.lang.source import Source
from omnigraph.schema.catalog import (
    AnnotationValue,
    AnyType,
    Cardinality,
    Catalog,
    CheckRule,
    EdgeType,
    InterfaceType,
    Property,
    RangeRule,
    Value,
)
from omnigraph.schema.step_details import IndexOf, KeyOf, UniqueOf, rule_text
from omnigraph.schema.temporal import date_text, datetime_text
from omnigraph.schema.values import to_json


def schema_text(catalog: Catalog) -> str:
    """The schema in the formatter's layout: interfaces, node types, edge types."""
    types: tuple[AnyType, ...] = (*catalog.nodes.values(), *catalog.edges.values())
    parts = [*map(_interface, catalog.interfaces.values()), *map(_type, types)]
    source = Source("\n".join(parts), "merged.pg")
    return print_schema(parse_schema(source).require(source))


def declaration_text(type_: AnyType | InterfaceType) -> str:
    """How a type is declared, in the formatter's layout, without a line break at the end."""
    source = Source(_interface(type_) if isinstance(type_, InterfaceType) else _type(type_), "merged.pg")
    return print_schema(parse_schema(source).require(source)).rstrip("\n")


def type_declaration(type_: AnyType | InterfaceType) -> str:
    """How a type is declared, on one line."""
    text = _interface(type_) if isinstance(type_, InterfaceType) else _type(type_)
    return " ".join(text.split("\n"))


def property_declaration(type_: AnyType, p: Property) -> str:
    """How a property is declared, with the rules that are about it alone."""
    rules: list[RangeRule | CheckRule] = [*type_.ranges, *type_.checks]
    return " ".join([_property(p), *(rule_text(rule) for rule in rules if rule.property == p.name)])


def _interface(interface: InterfaceType) -> str:
    marks = {name: " @unique" for (name,) in interface.unique}
    for name in interface.indexed:
        marks[name] = marks.get(name, "") + " @index"
    lines = [f"{_property(p)}{marks.get(p.name, '')}" for p in interface.properties]
    return "\n".join([f"interface {interface.name} {{", *lines, "}"])


def _type(type_: AnyType) -> str:
    if isinstance(type_, EdgeType):
        card = "" if type_.cardinality == Cardinality() else f" @card({type_.cardinality})"
        head = f"edge {type_.name}: {type_.source} -> {type_.target}{card}{_notes(type_)}"
    else:
        implements = f" implements {', '.join(type_.implements)}" if type_.implements else ""
        head = f"node {type_.name}{_notes(type_)}{implements}"
    return "\n".join([f"{head} {{", *map(_property, type_.properties), *_constraints(type_), "}"])


def _constraints(type_: AnyType) -> Iterator[str]:
    if type_.key:
        yield rule_text(KeyOf(type_.key))
    yield from (rule_text(UniqueOf(columns)) for columns in type_.unique)
    yield from (rule_text(IndexOf(name)) for name in type_.indexed)
    yield from map(rule_text, type_.ranges)
    yield from map(rule_text, type_.checks)


def _property(p: Property) -> str:
    default = f" @default({_literal(_default(p))})" if p.has_default else ""
    embed = ""
    if p.embedding is not None:
        model = "" if p.embedding.model is None else f", model={quote(p.embedding.model)}"
        embed = f" @embed({quote(p.embedding.source)}{model})"
    return f"{p.name}: {p.type}{'?' if p.nullable else ''}{default}{embed}{_notes(p)}"


def _default(p: Property) -> Value:
    """A default as its literal is written: bytes as text, as in JSON."""
    shown = to_json(p.type, p.default) if isinstance(p.default, bytes) else p.default
    return shown if isinstance(shown, str) else p.default


def _notes(noted: AnyType | Property) -> str:
    known = {"description": noted.description, "rename_from": noted.renamed_from}
    if not isinstance(noted, Property):
        known["instruction"] = noted.instruction
    texts = [f"@{name}({quote(text)})" for name, text in known.items() if text is not None]
    return "".join(f" {text}" for text in (*texts, *map(_annotation, noted.annotations)))


def _annotation(annotation: AnnotationValue) -> str:
    if annotation.argument is None and not annotation.options:
        return f"@{annotation.name}"
    options = "".join(f", {name}={_literal(value)}" for name, value in annotation.options)
    return f"@{annotation.name}({_literal(annotation.argument)}{options})"


def _literal(value: Value) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return quote(value)
        case float():
            return print_float(value)
        case datetime():
            return f"datetime({quote(datetime_text(value))})"
        case date():
            return f"date({quote(date_text(value))})"
        case list() | tuple():
            return f"[{', '.join(map(_literal, value))}]"
        case bytes():
            msg = "bytes are written as text"
            raise TypeError(msg)
        case _:
            return str(value)
