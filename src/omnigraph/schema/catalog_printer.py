"""Print a catalog as schema text, such as that of a merged schema; binding it gives the catalog without identities."""

from collections.abc import Iterator
from datetime import date, datetime

from omnigraph.lang.expression_printer import print_float
from omnigraph.lang.printer import print_schema, quote
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
    Metric,
    Property,
    RangeRule,
    Value,
)
from omnigraph.schema.migration_steps import IndexRule, KeyRule, UniqueRule, format_rule
from omnigraph.schema.values import format_date, format_datetime, to_json


def print_catalog(catalog: Catalog) -> str:
    """Print a schema in the formatter's layout: interfaces, node types, edge types."""
    types = catalog.types
    parts = [*map(_format_interface, catalog.interfaces.values()), *map(_format_type, types)]
    # Parsed and printed once more, so that the formatter decides the layout.
    source = Source("\n".join(parts), "merged.pg")
    return print_schema(parse_schema(source).require(source))


def print_declaration(type_: AnyType | InterfaceType) -> str:
    """Print the declaration of a type in the formatter's layout, without a line break at the end."""
    source = Source(_format_declaration(type_), "merged.pg")
    return print_schema(parse_schema(source).require(source)).rstrip("\n")


def format_type_declaration(type_: AnyType | InterfaceType) -> str:
    """Format the declaration of a type on one line."""
    return " ".join(_format_declaration(type_).split("\n"))


def format_property_declaration(type_: AnyType, p: Property) -> str:
    """Format the declaration of a property, with its `@range` and `@check` rules."""
    rules: list[RangeRule | CheckRule] = [*type_.ranges, *type_.checks]
    return " ".join([_format_property(p), *(format_rule(rule) for rule in rules if rule.property == p.name)])


def list_constraints(type_: AnyType) -> tuple[str, ...]:
    """Return the constraints and plain indexes of a type as the schema declares them, such as `@unique(email)`."""
    return tuple(_iter_constraints(type_))


def _format_declaration(type_: AnyType | InterfaceType) -> str:
    return _format_interface(type_) if isinstance(type_, InterfaceType) else _format_type(type_)


def _format_interface(interface: InterfaceType) -> str:
    # An interface has bare constraints only, so each `@unique` has a single column.
    marks = {name: " @unique" for (name,) in interface.unique}
    for name in _list_plain_indexes(interface):
        marks[name] = marks.get(name, "") + " @index"
    lines = [f"{_format_property(p)}{marks.get(p.name, '')}" for p in interface.properties]
    return "\n".join([f"interface {interface.name} {{", *lines, "}"])


def _format_type(type_: AnyType) -> str:
    if isinstance(type_, EdgeType):
        card = "" if type_.cardinality == Cardinality() else f" @card({type_.cardinality})"
        head = f"edge {type_.name}: {type_.source} -> {type_.target}{card}{_format_annotations(type_)}"
    else:
        implements = f" implements {', '.join(type_.implements)}" if type_.implements else ""
        head = f"node {type_.name}{_format_annotations(type_)}{implements}"
    return "\n".join([f"{head} {{", *map(_format_property, type_.properties), *_iter_constraints(type_), "}"])


def _iter_constraints(type_: AnyType) -> Iterator[str]:
    if type_.key:
        yield format_rule(KeyRule(type_.key))
    yield from (format_rule(UniqueRule(columns)) for columns in type_.unique)
    yield from (format_rule(IndexRule(name)) for name in _list_plain_indexes(type_))
    yield from map(format_rule, type_.ranges)
    yield from map(format_rule, type_.checks)


def _list_plain_indexes(type_: AnyType | InterfaceType) -> list[str]:
    """Return the indexed properties whose declaration has no options; the others print theirs."""
    with_options = {p.name for p in type_.properties if p.vector_index is not None}
    return [name for name in type_.indexed if name not in with_options]


def _format_property(p: Property) -> str:
    default = f" @default({_format_literal(_get_default(p))})" if p.has_default else ""
    embed = ""
    if p.embedding is not None:
        model = "" if p.embedding.model is None else f", model={quote(p.embedding.model)}"
        embed = f" @embed({quote(p.embedding.source)}{model})"
    return f"{p.name}: {p.type}{'?' if p.nullable else ''}{default}{embed}{_format_search(p)}{_format_annotations(p)}"


def _format_search(p: Property) -> str:
    """Format what a property declares about searches."""
    metric = "" if p.metric is Metric.COSINE else f" @metric({quote(p.metric.value)})"
    language = "" if p.language is None else f" @language({quote(p.language)})"
    if p.vector_index is None:
        return metric + language
    kind, recall = quote(p.vector_index.kind.value), print_float(p.vector_index.recall)
    return f"{metric}{language} @index(kind={kind}, recall={recall})"


def _get_default(p: Property) -> Value:
    """Return a default as the value of its literal: the language writes bytes as text, like JSON."""
    text = to_json(p.type, p.default) if isinstance(p.default, bytes) else p.default
    return text if isinstance(text, str) else p.default


def _format_annotations(item: AnyType | Property) -> str:
    known = {"description": item.description, "rename_from": item.renamed_from}
    if not isinstance(item, Property):
        known["instruction"] = item.instruction
    texts = [f"@{name}({quote(text)})" for name, text in known.items() if text is not None]
    return "".join(f" {text}" for text in (*texts, *map(_format_annotation, item.annotations)))


def _format_annotation(annotation: AnnotationValue) -> str:
    if annotation.argument is None and not annotation.options:
        return f"@{annotation.name}"
    options = [f"{name}={_format_literal(value)}" for name, value in annotation.options]
    argument = [] if annotation.argument is None else [_format_literal(annotation.argument)]
    return f"@{annotation.name}({', '.join([*argument, *options])})"


def _format_literal(value: Value) -> str:
    # `bool` is an `int` and `datetime` a `date`: the subclass comes first. Integers fall through to the last case.
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
            return f"datetime({quote(format_datetime(value))})"
        case date():
            return f"date({quote(format_date(value))})"
        case list() | tuple():
            return f"[{', '.join(map(_format_literal, value))}]"
        case bytes():
            msg = "bytes are written as text"
            raise TypeError(msg)
        case _:
            return str(value)
