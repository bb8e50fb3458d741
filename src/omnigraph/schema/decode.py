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
    build_catalog,
)
from omnigraph.schema.document import JsonNode
from omnigraph.schema.misfit import InvalidValue, format_value
from omnigraph.schema.temporal import parse_date, parse_datetime
from omnigraph.schema.types import EnumOf, ListOf, Scalar, ValueType, VectorOf

_MAX_DEPTH = 64


def decode_document(document: JsonNode) -> Catalog:
    """The catalog of a document; names must be unique, references within a type must lead somewhere."""
    fields = document.read_fields("next_identity", "nodes", "edges", "interfaces")
    nodes = fields["nodes"].map_items(_decode_node)
    edges = fields["edges"].map_items(_decode_edge)
    interfaces = fields["interfaces"].map_items(_decode_interface)
    names = [*(node.name for node in nodes), *(edge.name for edge in edges), *(face.name for face in interfaces)]
    if len(set(names)) != len(names):
        document.fail("two types have one name")
    next_identity = fields["next_identity"].read_count()
    numbers = [n for t in (*nodes, *edges) for n in (t.identity, *(p.identity for p in t.properties)) if n]
    if len(set(numbers)) != len(numbers) or max(numbers, default=0) >= next_identity:
        fields["next_identity"].fail("an identity is given twice, or was never given")
    ends = {node.name for node in nodes}
    for edge in edges:
        if edge.source not in ends or edge.target not in ends:
            fields["edges"].fail(f"an end of {format_value(edge.name)} is not a node type")
    return build_catalog(nodes, edges, interfaces, next_identity)


# --- types -----------------------------------------------------------------------------------------

_SHARED_FIELDS = (
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


def _decode_node(place: JsonNode) -> NodeType:
    fields = place.read_fields(*_SHARED_FIELDS, "implements")
    properties = _decode_properties(fields["properties"])
    types = {p.name: p.type for p in properties}
    return NodeType(
        name=fields["name"].read_text(),
        identity=fields["identity"].read_count(),
        properties=properties,
        key=_decode_columns(fields["key"], types),
        unique=fields["unique"].map_items(lambda item: _decode_columns(item, types)),
        indexed=_decode_columns(fields["indexed"], types),
        ranges=fields["ranges"].map_items(lambda item: _decode_range(item, types)),
        checks=fields["checks"].map_items(lambda item: _decode_check(item, types)),
        description=fields["description"].read_optional_text(),
        instruction=fields["instruction"].read_optional_text(),
        renamed_from=fields["renamed_from"].read_optional_text(),
        annotations=fields["annotations"].map_items(_decode_annotation),
        implements=fields["implements"].map_items(JsonNode.read_text),
    )


def _decode_edge(place: JsonNode) -> EdgeType:
    fields = place.read_fields(*_SHARED_FIELDS, "source", "target", "cardinality")
    properties = _decode_properties(fields["properties"])
    types = {p.name: p.type for p in properties}
    with_ends = {**types, "src": Scalar.STRING, "dst": Scalar.STRING}
    return EdgeType(
        name=fields["name"].read_text(),
        identity=fields["identity"].read_count(),
        properties=properties,
        key=_decode_columns(fields["key"], with_ends),
        unique=fields["unique"].map_items(lambda item: _decode_columns(item, with_ends)),
        indexed=_decode_columns(fields["indexed"], types),
        ranges=fields["ranges"].map_items(lambda item: _decode_range(item, types)),
        checks=fields["checks"].map_items(lambda item: _decode_check(item, types)),
        description=fields["description"].read_optional_text(),
        instruction=fields["instruction"].read_optional_text(),
        renamed_from=fields["renamed_from"].read_optional_text(),
        annotations=fields["annotations"].map_items(_decode_annotation),
        source=fields["source"].read_text(),
        target=fields["target"].read_text(),
        cardinality=_decode_cardinality(fields["cardinality"]),
    )


def _decode_interface(place: JsonNode) -> InterfaceType:
    fields = place.read_fields("name", "properties", "unique", "indexed")
    properties = _decode_properties(fields["properties"])
    types = {p.name: p.type for p in properties}
    return InterfaceType(
        name=fields["name"].read_text(),
        properties=properties,
        unique=fields["unique"].map_items(lambda item: _decode_columns(item, types)),
        indexed=_decode_columns(fields["indexed"], types),
    )


def _decode_cardinality(place: JsonNode) -> Cardinality:
    bounds = place.read_items()
    if len(bounds) != 2:
        place.fail(f"expected two bounds, got {len(bounds)}")
    low, high = bounds
    return Cardinality(low=low.read_count(), high=None if high.value is None else high.read_count())


# --- members ---------------------------------------------------------------------------------------


def _decode_properties(place: JsonNode) -> tuple[Property, ...]:
    properties = place.map_items(_decode_property)
    if len({p.name for p in properties}) != len(properties):
        place.fail("two properties have one name")
    return properties


def _decode_property(place: JsonNode) -> Property:
    fields = place.read_fields(
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
    type_ = _decode_type(fields["type"])
    return Property(
        name=fields["name"].read_text(),
        identity=fields["identity"].read_count(),
        type=type_,
        nullable=fields["nullable"].read_flag(),
        has_default=fields["has_default"].read_flag(),
        default=fields["default"].read_typed(type_),
        embedding=_decode_embedding(fields["embedding"]),
        description=fields["description"].read_optional_text(),
        renamed_from=fields["renamed_from"].read_optional_text(),
        annotations=fields["annotations"].map_items(_decode_annotation),
    )


def _decode_type(place: JsonNode) -> ValueType:
    try:
        match place.value:
            case str() as name:
                return Scalar(name)
            case {"enum": _, **rest} if not rest:
                return EnumOf(place.read_fields("enum")["enum"].map_items(JsonNode.read_text))
            case {"list": str() as name, **rest} if not rest:
                return ListOf(Scalar(name))
            case {"vector": _, **rest} if not rest:
                return VectorOf(place.read_fields("vector")["vector"].read_count())
    except ValueError as error:
        place.fail(str(error))
    return place.fail(f"expected a type, got {format_value(place.value)}")


def _decode_embedding(place: JsonNode) -> Embedding | None:
    if place.value is None:
        return None
    fields = place.read_fields("source", "model")
    return Embedding(source=fields["source"].read_text(), model=fields["model"].read_optional_text())


def _decode_columns(place: JsonNode, types: dict[str, ValueType]) -> tuple[str, ...]:
    return place.map_items(lambda item: _decode_column(item, types))


def _decode_column(place: JsonNode, types: dict[str, ValueType]) -> str:
    name = place.read_text()
    if name not in types:
        place.fail(f"there is no property {format_value(name)}")
    return name


def _decode_range(place: JsonNode, types: dict[str, ValueType]) -> RangeRule:
    fields = place.read_fields("property", "low", "high")
    name = _decode_column(fields["property"], types)
    return RangeRule(
        property=name, low=fields["low"].read_typed(types[name]), high=fields["high"].read_typed(types[name])
    )


def _decode_check(place: JsonNode, types: dict[str, ValueType]) -> CheckRule:
    fields = place.read_fields("property", "pattern")
    return CheckRule(property=_decode_column(fields["property"], types), pattern=fields["pattern"].read_text())


# --- annotations -----------------------------------------------------------------------------------


def _decode_annotation(place: JsonNode) -> AnnotationValue:
    fields = place.read_fields("name", "argument", "options")
    return AnnotationValue(
        name=fields["name"].read_text(),
        argument=_decode_untyped(fields["argument"]),
        options=fields["options"].map_items(_decode_option),
    )


def _decode_option(place: JsonNode) -> tuple[str, Value]:
    parts = place.read_items()
    if len(parts) != 2:
        place.fail("expected a name and a value")
    return parts[0].read_text(), _decode_untyped(parts[1])


def _decode_untyped(place: JsonNode, depth: int = 0) -> Value:
    if depth > _MAX_DEPTH:
        place.fail("it is nested too deep")
    match place.value:
        case None | bool() | int() | float() | str():
            return place.value
        case list():
            return tuple(_decode_untyped(item, depth + 1) for item in place.read_items())
        case {"date": str() as text, **rest} if not rest:
            day = parse_date(text)
            if not isinstance(day, InvalidValue):
                return day
            place.fail(day.reason)
        case {"datetime": str() as text, **rest} if not rest:
            time = parse_datetime(text)
            if not isinstance(time, InvalidValue):
                return time
            place.fail(time.reason)
    return place.fail(f"expected a value, got {format_value(place.value)}")
