"""Bind property declarations: name, type, default, embedding and search."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import assert_never

from omnigraph.lang.literals import BaseType, EnumType, ListType, Literal, Name, StringLiteral, TypeExpr, VectorType
from omnigraph.lang.schema_ast import Annotation, PropertyDecl
from omnigraph.schema.annotations import AnnotationSet, AnnotationTarget, get_argument_span, read_annotations
from omnigraph.schema.bind_search import bind_language, bind_metric, bind_vector_index
from omnigraph.schema.catalog import Embedding, Property, Value
from omnigraph.schema.findings import DiagnosticCollector
from omnigraph.schema.types import MAX_VECTOR_SIZE, EnumOf, ListOf, Scalar, ValueType, VectorOf
from omnigraph.schema.values import InvalidValue, format_literal, format_type, format_value, from_literal

# Columns of every table, and the ends of an edge in JSON records.
RESERVED_NAMES = ("id", "src", "dst", "from", "to")


class OwnerKind(Enum):
    """The kind of type that a property belongs to."""

    NODE = "node"
    EDGE = "edge"
    INTERFACE = "interface"


@dataclass(frozen=True, slots=True)
class Owner:
    """The type whose members are bound.

    `is_whole` is false when one of its interfaces is unknown: then an unknown property may be inherited from it, and is
    not reported.
    """

    kind: OwnerKind
    name: str
    is_whole: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundProperty:
    """A bound property with its source: its name, annotations, and bare constraints.

    If not `is_sound`, its type was invalid and reported, and `type` is a fallback: checks against it are skipped,
    because they would only repeat that error.
    """

    column: Property
    name: Name
    notes: AnnotationSet
    is_sound: bool = True
    bare: Mapping[str, Annotation] = field(default_factory=dict)
    inherited_bare: Mapping[str, Annotation] = field(default_factory=dict)

    @property
    def type(self) -> ValueType:
        """The type of the property."""
        return self.column.type


def bind_property(decl: PropertyDecl, owner: Owner, findings: DiagnosticCollector) -> BoundProperty:
    """Bind a declaration. Its errors are reported, and a property with its name is returned in any case."""
    name = decl.name.text
    if name in RESERVED_NAMES or name.startswith("_"):
        reason = "names that start with `_` are reserved" if name.startswith("_") else "that name is reserved"
        # Suggest the name without `_`; if that is empty or reserved too, one that begins with the type's name.
        suggestion = name.lstrip("_") if name.startswith("_") else ""
        if suggestion in ("", *RESERVED_NAMES):
            suggestion = f"{owner.name.lower()}_{suggestion or name.strip('_') or 'value'}"
        message = f"a property can't be named `{name}`: {reason}"
        findings.add_error("S005", decl.name.span, message, f"try `{suggestion}`")
    target = AnnotationTarget.INTERFACE_PROPERTY if owner.kind is OwnerKind.INTERFACE else AnnotationTarget.PROPERTY
    type_ = bind_type(decl.type, findings)
    notes = read_annotations(decl.annotations, target, findings)
    fallback = type_ if type_ is not None else _choose_fallback_type(decl.type)
    bound = Property(
        name=name,
        type=fallback,
        nullable=decl.nullable,
        embedding=_bind_embedding(decl, type_, notes, owner, findings),
        metric=bind_metric(name, type_, notes, findings),
        vector_index=bind_vector_index(name, type_, notes, findings),
        language=bind_language(name, type_, notes, findings),
        description=notes.get_text("description"),
        renamed_from=notes.get_text("rename_from"),
        annotations=notes.unknown,
    )
    if (default := notes.known.get("default")) is not None and type_ is not None:
        bound = _bind_default(bound, default, findings)
    bare = {key: notes.known[key] for key in ("key", "unique", "index") if key in notes.known}
    return BoundProperty(column=bound, name=decl.name, notes=notes, is_sound=type_ is not None, bare=bare)


# --- types -----------------------------------------------------------------------------------------


def bind_type(expr: TypeExpr, findings: DiagnosticCollector) -> ValueType | None:
    """Return the declared type; None, with an error, if it is invalid."""
    match expr:
        case BaseType(name=name):
            return Scalar(name)
        case ListType(element=BaseType() as element):
            if element.name == Scalar.BLOB.value:
                findings.add_error(
                    "S020", element.span, "a list of Blob is not a type", "list URIs as `[String]` instead"
                )
                return None
            return ListOf(Scalar(element.name))
        case ListType(element=element):
            # The parser of schemas refuses it.
            findings.add_error("S020", element.span, "a list of records is not the type of a property")
            return None
        case VectorType(size=size):
            if not 1 <= size <= MAX_VECTOR_SIZE:
                message = f"a Vector has 1 to {MAX_VECTOR_SIZE} elements, not {format_value(size)}"
                findings.add_error("S018", expr.span, message, "write the size that the embedding model gives")
                return None
            return VectorOf(size)
        case EnumType(values=values):
            return _bind_enum(expr, values, findings)
        case _:
            assert_never(expr)


def _bind_enum(expr: EnumType, values: tuple[Name, ...], findings: DiagnosticCollector) -> EnumOf | None:
    if not values:
        findings.add_error("S019", expr.span, "an enum needs at least one value", "write `enum(first, second)`")
        return None
    # Each repetition is reported, not only the first.
    seen: set[str] = set()
    for value in values:
        if value.text in seen:
            findings.add_error("S019", value.span, f"`{value.text}` is in this enum twice", "remove one of them")
        seen.add(value.text)
    return EnumOf(tuple(value.text for value in values)) if len(seen) == len(values) else None


def _choose_fallback_type(expr: TypeExpr) -> ValueType:
    """Return a valid type close to an invalid one, so that the property is still in the catalog."""
    match expr:
        case EnumType(values=values) if values:
            return EnumOf(tuple(dict.fromkeys(value.text for value in values)))
        case VectorType(size=size):
            return VectorOf(min(max(size, 1), MAX_VECTOR_SIZE))
        case ListType():
            return ListOf(Scalar.STRING)
        case _:
            return Scalar.STRING


# --- default and embedding ---------------------------------------------------------------------------


def _bind_default(bound: Property, annotation: Annotation, findings: DiagnosticCollector) -> Property:
    literal = annotation.argument
    if literal is None or isinstance(literal, Name):
        return bound
    value: Value | InvalidValue = from_literal(bound.type, literal, nullable=bound.nullable)
    if isinstance(value, InvalidValue):
        message = f"the default of `{bound.name}` does not fit: {value.reason}"
        findings.add_error("S017", literal.span, message, _suggest_default(bound, literal, findings))
        # The property counts as having a default: an error about a required property would only repeat this one.
        return replace(bound, has_default=True)
    return replace(bound, has_default=True, default=value)


def _suggest_default(bound: Property, literal: Literal, findings: DiagnosticCollector) -> str | None:
    # Dates and times have their own literals, which are suggested instead of a plain string.
    text = format_literal(literal)
    if text == "null":
        return f"make it nullable: `{bound.name}: {format_type(bound.type)}?`"
    if isinstance(literal, StringLiteral):
        if bound.type is Scalar.DATE:
            return f"write `@default(date({text}))`"
        if bound.type is Scalar.DATETIME:
            return f"write `@default(datetime({text}))`"
        if isinstance(bound.type, EnumOf):
            return findings.suggest_closest(literal.value, bound.type.values)
    return None


def _bind_embedding(
    decl: PropertyDecl, type_: ValueType | None, notes: AnnotationSet, owner: Owner, findings: DiagnosticCollector
) -> Embedding | None:
    annotation = notes.known.get("embed")
    source = notes.get_text("embed")
    if annotation is None or source is None:
        return None
    if owner.kind is OwnerKind.EDGE:
        message = f"`@embed` on `{decl.name.text}`: only vectors of node types are computed"
        findings.add_error("S016", annotation.span, message, "move the vector to a node type")
        return None
    if type_ is not None and not isinstance(type_, VectorOf):
        message = f"`@embed` on `{decl.name.text}`, which is {format_type(type_)}, not a Vector"
        findings.add_error("S016", annotation.span, message, f"declare it as `{decl.name.text}: Vector(N)`")
        return None
    # `model` is the only option that `@embed` has, and its value is checked to be a text.
    model = next((value.value for _, value in annotation.options if isinstance(value, StringLiteral)), None)
    return Embedding(source=source, model=model)


def check_embeddings(properties: Mapping[str, BoundProperty], owner: Owner, findings: DiagnosticCollector) -> None:
    """Check that each `@embed` names a String property of the same type."""
    texts = [name for name, bound in properties.items() if bound.type is Scalar.STRING]
    for bound in properties.values():
        embedding = bound.column.embedding
        if embedding is None:
            continue
        source = properties.get(embedding.source)
        if source is None and owner.is_whole:
            message = f"unknown property `{embedding.source}` of `{owner.name}` as the source of `@embed`"
        elif source is not None and source.is_sound and source.type is not Scalar.STRING:
            message = f"`@embed` computes from a String; `{embedding.source}` is {format_type(source.type)}"
        else:
            continue
        span = get_argument_span(bound.notes.known["embed"])
        way_out = findings.suggest_closest(embedding.source, texts) or "name a String property"
        findings.add_error("S016", span, message, way_out)


# --- inheritance ---------------------------------------------------------------------------------------


def inherit_property(bound: BoundProperty) -> BoundProperty:
    """Return the property of an interface as a node type inherits it."""
    return replace(bound, bare={}, inherited_bare={**bound.inherited_bare, **bound.bare})


def merge_property(inherited: BoundProperty, declared: BoundProperty) -> BoundProperty:
    """Return a redeclared property: its own annotations replace equal inherited ones, the others still apply."""
    column = declared.column
    base = inherited.column
    known = {**inherited.notes.known, **declared.notes.known}
    declared_names = {annotation.name for annotation in column.annotations}
    inherits_default = "default" not in declared.notes.known
    unknown = (*(note for note in base.annotations if note.name not in declared_names), *column.annotations)
    return replace(
        declared,
        column=replace(
            column,
            has_default=base.has_default if inherits_default else column.has_default,
            default=base.default if inherits_default else column.default,
            embedding=column.embedding or base.embedding,
            metric=column.metric if "metric" in declared.notes.known else base.metric,
            vector_index=column.vector_index or base.vector_index,
            language=column.language if "language" in declared.notes.known else base.language,
            description=column.description if column.description is not None else base.description,
            renamed_from=column.renamed_from or base.renamed_from,
            annotations=unknown,
        ),
        notes=AnnotationSet(known, unknown),
        is_sound=declared.is_sound and inherited.is_sound,
        inherited_bare={**declared.inherited_bare, **inherited.inherited_bare},
    )
