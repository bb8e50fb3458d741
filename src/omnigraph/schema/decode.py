"""Stored JSON values back to a catalog; whatever is not exactly as written is an error that names its place."""

from omnigraph.schema.catalog import (
    AnnotationValue,
    Cardinality,
    Catalog,
    CheckRule,
    EdgeType,
    Embedding,
    InterfaceType,
    NodeType,
    Property,
    RangeRule,
    Value,
    catalog_of,
)
from omnigraph.schema.document import Place
from omnigraph.schema.misfit import Misfit, shown
from omnigraph.schema.temporal import parse_date, parse_datetime
from omnigraph.schema.types import EnumOf, ListOf, Scalar, ValueType, VectorOf

_DEEPEST = 64


def read_catalog(document: Place) -> Catalog:
    """The catalog of a document; names must be unique, references within a type must lead somewhere."""
    fields = document.fields("next_identity", "nodes", "edges", "interfaces")
    nodes = fields["nodes"].each(_node)
    edges = fields["edges"].each(_edge)
    interfaces = fields["interfaces"].each(_interface)
    names = [*(node.name for node in nodes), *(edge.name for edge in edges), *(face.name for face in interfaces)]
    if len(set(names)) != len(names):
        document.fail("two types have one name")
    next_identity = fields["next_identity"].count()
    numbers = [n for t in (*nodes, *edges) for n in (t.identity, *(p.identity for p in t.properties)) if n]
    if len(set(numbers)) != len(numbers) or max(numbers, default=0) >= next_identity:
        fields["next_identity"].fail("an identity is given twice, or was never given")
    ends = {node.name for node in nodes}
    for edge in edges:
        if edge.source not in ends or edge.target not in ends:
            fields["edges"].fail(f"an end of {shown(edge.name)} is not a node type")
    return catalog_of(nodes, edges, interfaces, next_identity)


# --- types -----------------------------------------------------------------------------------------

_SHARED = (
    "name",
    "identity",
    "properties",
    "key",
    "unique",
    "indexed",
    "ranges",
    "checks",
    "description",
    "instruction",
    "renamed_from",
    "annotations",
)


def _node(place: Place) -> NodeType:
    fields = place.fields(*_SHARED, "implements")
    properties = _properties(fields["properties"])
    types = {p.name: p.type for p in properties}
    return NodeType(
        name=fields["name"].text(),
        identity=fields["identity"].count(),
        properties=properties,
        key=_columns(fields["key"], types),
        unique=fields["unique"].each(lambda item: _columns(item, types)),
        indexed=_columns(fields["indexed"], types),
        ranges=fields["ranges"].each(lambda item: _range(item, types)),
        checks=fields["checks"].each(lambda item: _check(item, types)),
        description=fields["description"].optional_text(),
        instruction=fields["instruction"].optional_text(),
        renamed_from=fields["renamed_from"].optional_text(),
        annotations=fields["annotations"].each(_annotation),
        implements=fields["implements"].each(Place.text),
    )


def _edge(place: Place) -> EdgeType:
    fields = place.fields(*_SHARED, "source", "target", "cardinality")
    properties = _properties(fields["properties"])
    types = {p.name: p.type for p in properties}
    with_ends = {**types, "src": Scalar.STRING, "dst": Scalar.STRING}
    return EdgeType(
        name=fields["name"].text(),
        identity=fields["identity"].count(),
        properties=properties,
        key=_columns(fields["key"], with_ends),
        unique=fields["unique"].each(lambda item: _columns(item, with_ends)),
        indexed=_columns(fields["indexed"], types),
        ranges=fields["ranges"].each(lambda item: _range(item, types)),
        checks=fields["checks"].each(lambda item: _check(item, types)),
        description=fields["description"].optional_text(),
        instruction=fields["instruction"].optional_text(),
        renamed_from=fields["renamed_from"].optional_text(),
        annotations=fields["annotations"].each(_annotation),
        source=fields["source"].text(),
        target=fields["target"].text(),
        cardinality=_cardinality(fields["cardinality"]),
    )


def _interface(place: Place) -> InterfaceType:
    fields = place.fields("name", "properties", "unique", "indexed")
    properties = _properties(fields["properties"])
    types = {p.name: p.type for p in properties}
    return InterfaceType(
        name=fields["name"].text(),
        properties=properties,
        unique=fields["unique"].each(lambda item: _columns(item, types)),
        indexed=_columns(fields["indexed"], types),
    )


def _cardinality(place: Place) -> Cardinality:
    bounds = place.items()
    if len(bounds) != 2:
        place.fail(f"expected two bounds, got {len(bounds)}")
    low, high = bounds
    return Cardinality(low=low.count(), high=None if high.value is None else high.count())


# --- members ---------------------------------------------------------------------------------------


def _properties(place: Place) -> tuple[Property, ...]:
    properties = place.each(_property)
    if len({p.name for p in properties}) != len(properties):
        place.fail("two properties have one name")
    return properties


def _property(place: Place) -> Property:
    fields = place.fields(
        "name",
        "identity",
        "type",
        "nullable",
        "has_default",
        "default",
        "embedding",
        "description",
        "renamed_from",
        "annotations",
    )
    type_ = _type(fields["type"])
    return Property(
        name=fields["name"].text(),
        identity=fields["identity"].count(),
        type=type_,
        nullable=fields["nullable"].flag(),
        has_default=fields["has_default"].flag(),
        default=fields["default"].typed(type_),
        embedding=_embedding(fields["embedding"]),
        description=fields["description"].optional_text(),
        renamed_from=fields["renamed_from"].optional_text(),
        annotations=fields["annotations"].each(_annotation),
    )


def _type(place: Place) -> ValueType:
    try:
        match place.value:
            case str() as name:
                return Scalar(name)
            case {"enum": _, **rest} if not rest:
                return EnumOf(place.fields("enum")["enum"].each(Place.text))
            case {"list": str() as name, **rest} if not rest:
                return ListOf(Scalar(name))
            case {"vector": _, **rest} if not rest:
                return VectorOf(place.fields("vector")["vector"].count())
    except ValueError as error:
        place.fail(str(error))
    return place.fail(f"expected a type, got {shown(place.value)}")


def _embedding(place: Place) -> Embedding | None:
    if place.value is None:
        return None
    fields = place.fields("source", "model")
    return Embedding(source=fields["source"].text(), model=fields["model"].optional_text())


def _columns(place: Place, types: dict[str, ValueType]) -> tuple[str, ...]:
    return place.each(lambda item: _column(item, types))


def _column(place: Place, types: dict[str, ValueType]) -> str:
    name = place.text()
    if name not in types:
        place.fail(f"there is no property {shown(name)}")
    return name


def _range(place: Place, types: dict[str, ValueType]) -> RangeRule:
    fields = place.fields("property", "low", "high")
    name = _column(fields["property"], types)
    return RangeRule(property=name, low=fields["low"].typed(types[name]), high=fields["high"].typed(types[name]))


def _check(place: Place, types: dict[str, ValueType]) -> CheckRule:
    fields = place.fields("property", "pattern")
    return CheckRule(property=_column(fields["property"], types), pattern=fields["pattern"].text())


# --- annotations -----------------------------------------------------------------------------------


def _annotation(place: Place) -> AnnotationValue:
    fields = place.fields("name", "argument", "options")
    return AnnotationValue(
        name=fields["name"].text(),
        argument=_loose(fields["argument"]),
        options=fields["options"].each(_option),
    )


def _option(place: Place) -> tuple[str, Value]:
    parts = place.items()
    if len(parts) != 2:
        place.fail("expected a name and a value")
    return parts[0].text(), _loose(parts[1])


def _loose(place: Place, depth: int = 0) -> Value:
    if depth > _DEEPEST:
        place.fail("it is nested too deep")
    match place.value:
        case None | bool() | int() | float() | str():
            return place.value
        case list():
            return tuple(_loose(item, depth + 1) for item in place.items())
        case {"date": str() as text, **rest} if not rest:
            day = parse_date(text)
            if not isinstance(day, Misfit):
                return day
            place.fail(day.reason)
        case {"datetime": str() as text, **rest} if not rest:
            time = parse_datetime(text)
            if not isinstance(time, Misfit):
                return time
            place.fail(time.reason)
    return place.fail(f"expected a value, got {shown(place.value)}")
