"""A type with its columns and ends known by identity instead of name: the form in which two branches are compared."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from omnigraph.schema.catalog import (
    AnnotationValue,
    AnyType,
    Cardinality,
    Catalog,
    CheckRule,
    EdgeType,
    Embedding,
    NodeType,
    Property,
    RangeRule,
    Value,
)
from omnigraph.schema.types import ValueType

Ref: TypeAlias = int | str
"""A column: the identity of its property, or `src` or `dst`."""
_ENDS = ("src", "dst")


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyForm:
    """A property; the source of its embedding is a column."""

    name: str
    type: ValueType
    nullable: bool
    default: tuple[bool, Value]
    embedding: tuple[Ref, str | None] | None
    description: str | None
    annotations: tuple[AnnotationValue, ...]
    renamed_from: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeForm:
    """A type; what has no order is a set."""

    name: str
    is_edge: bool
    properties: Mapping[int, PropertyForm]
    key: tuple[Ref, ...]
    unique: frozenset[frozenset[Ref]]
    indexed: frozenset[Ref]
    ranges: Mapping[Ref, tuple[Value, Value]]
    checks: frozenset[tuple[Ref, str]]
    description: str | None
    instruction: str | None
    annotations: tuple[AnnotationValue, ...]
    renamed_from: str | None
    implements: tuple[str, ...] = ()
    ends: tuple[int, int] | None = None
    """The identities of an edge's node types."""
    cardinality: Cardinality | None = None

    @property
    def table_key(self) -> str:
        """The name of its table in the manifest."""
        return f"{'edge' if self.is_edge else 'node'}:{self.name}"


def build_forms(catalog: Catalog) -> dict[int, TypeForm]:
    """The node and edge types by identity, in declared order."""
    nodes = {node.name: node.identity for node in catalog.nodes.values()}
    types: tuple[AnyType, ...] = (*catalog.nodes.values(), *catalog.edges.values())
    return {type_.identity: _build_type_form(type_, nodes) for type_ in types}


def _build_type_form(type_: AnyType, nodes: Mapping[str, int]) -> TypeForm:
    refs: dict[str, Ref] = {**{end: end for end in _ENDS}, **{p.name: p.identity for p in type_.properties}}
    is_edge = isinstance(type_, EdgeType)
    return TypeForm(
        name=type_.name,
        is_edge=is_edge,
        properties={p.identity: _build_property_form(p, refs) for p in type_.properties},
        key=tuple(refs[name] for name in type_.key),
        unique=frozenset(frozenset(refs[name] for name in columns) for columns in type_.unique),
        indexed=frozenset(refs[name] for name in type_.indexed),
        ranges={refs[rule.property]: (rule.low, rule.high) for rule in type_.ranges},
        checks=frozenset((refs[rule.property], rule.pattern) for rule in type_.checks),
        description=type_.description,
        instruction=type_.instruction,
        annotations=type_.annotations,
        renamed_from=type_.renamed_from,
        implements=() if is_edge else _get_interfaces(type_),
        ends=(nodes[type_.source], nodes[type_.target]) if isinstance(type_, EdgeType) else None,
        cardinality=type_.cardinality if isinstance(type_, EdgeType) else None,
    )


def _get_interfaces(type_: AnyType) -> tuple[str, ...]:
    return type_.implements if isinstance(type_, NodeType) else ()


def _build_property_form(p: Property, refs: Mapping[str, Ref]) -> PropertyForm:
    embedding = None if p.embedding is None else (refs[p.embedding.source], p.embedding.model)
    return PropertyForm(
        name=p.name,
        type=p.type,
        nullable=p.nullable,
        default=(p.has_default, p.default),
        embedding=embedding,
        description=p.description,
        annotations=p.annotations,
        renamed_from=p.renamed_from,
    )


def build_type(identity: int, form: TypeForm, nodes: Mapping[int, str]) -> AnyType:
    """The type of a form, whose columns all exist; `nodes` are the names of node types."""
    names: dict[Ref, str] = {**{end: end for end in _ENDS}, **{one: p.name for one, p in form.properties.items()}}
    shared = {
        "name": form.name,
        "identity": identity,
        "properties": tuple(_build_property(one, p, names) for one, p in form.properties.items()),
        "key": tuple(names[ref] for ref in form.key),
        "unique": tuple(sorted(tuple(sorted(names[ref] for ref in group)) for group in form.unique)),
        "indexed": tuple(sorted(names[ref] for ref in form.indexed)),
        "ranges": tuple(RangeRule(property=names[ref], low=low, high=high) for ref, (low, high) in form.ranges.items()),
        "checks": tuple(
            CheckRule(property=name, pattern=text)
            for name, text in sorted((names[ref], text) for ref, text in form.checks)
        ),
        "description": form.description,
        "instruction": form.instruction,
        "annotations": form.annotations,
        "renamed_from": form.renamed_from,
    }
    if form.ends is None:
        return NodeType(**shared, implements=form.implements)  # type: ignore[arg-type]  # by name, as written above
    source, target = (nodes[end] for end in form.ends)
    limits = form.cardinality or Cardinality()
    return EdgeType(**shared, source=source, target=target, cardinality=limits)  # type: ignore[arg-type]  # as above


def _build_property(identity: int, form: PropertyForm, names: Mapping[Ref, str]) -> Property:
    embedding = None
    if form.embedding is not None:
        ref, model = form.embedding
        embedding = Embedding(source=names[ref], model=model)
    has_default, default = form.default
    return Property(
        name=form.name,
        identity=identity,
        type=form.type,
        nullable=form.nullable,
        has_default=has_default,
        default=default,
        embedding=embedding,
        description=form.description,
        renamed_from=form.renamed_from,
        annotations=form.annotations,
    )
