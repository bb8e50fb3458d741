"""The stored form of a catalog: canonical JSON bytes with a format tag, decoded strictly."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from typing import NoReturn, TypeVar

from omnigraph.errors import Kind, OmnigraphError
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
from omnigraph.schema.types import EnumOf, ListOf, Scalar, ValueType, VectorOf
from omnigraph.schema.values import (
    InvalidValue,
    Json,
    format_date,
    format_datetime,
    format_value,
    from_json,
    parse_date,
    parse_datetime,
    to_json,
)

T = TypeVar("T")


class CatalogCorruptError(OmnigraphError):
    """The stored catalog is damaged."""

    kind = Kind.CORRUPT
    code = "catalog_corrupt"

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(place, reason)
        self.place, self.reason = place, reason

    def __str__(self) -> str:
        where = f" at {self.place}" if self.place else ""
        return (
            f"the stored schema is damaged{where}: {self.reason}. It is in the manifest of the branch:"
            " `omnigraph repair --from COPY` puts that back from a clone or a backup; else read an older commit"
            " (--snapshot) or another branch, or run `omnigraph repair`, which goes back to what is whole"
        )


@dataclass(frozen=True, slots=True)
class JsonNode:
    """A value of the document and the path that leads to it."""

    path: str
    value: object

    def fail(self, reason: str) -> NoReturn:
        """Refuse the document because of this place."""
        raise CatalogCorruptError(self.path, reason)

    def read_fields(self, *names: str) -> dict[str, "JsonNode"]:
        """The fields of an object that must have exactly these."""
        if not isinstance(self.value, dict):
            self.fail(f"expected an object, got {format_value(self.value)}")
        if missing := [name for name in names if name not in self.value]:
            self.fail(f"the field `{missing[0]}` is missing")
        if unknown := [str(name) for name in self.value if name not in names]:
            self.fail(f"the field {format_value(unknown[0])} is unknown")
        return {name: JsonNode(f"{self.path}.{name}".lstrip("."), self.value[name]) for name in names}

    def read_items(self) -> list["JsonNode"]:
        """The items of a list."""
        if not isinstance(self.value, list):
            self.fail(f"expected a list, got {format_value(self.value)}")
        return [JsonNode(f"{self.path}[{index}]", item) for index, item in enumerate(self.value)]

    def map_items(self, read: Callable[["JsonNode"], T]) -> tuple[T, ...]:
        """What `read` makes of each item of a list."""
        return tuple(read(item) for item in self.read_items())

    def read_text(self) -> str:
        """A string."""
        if not isinstance(self.value, str):
            self.fail(f"expected a string, got {format_value(self.value)}")
        return self.value

    def read_optional_text(self) -> str | None:
        """A string or null."""
        return None if self.value is None else self.read_text()

    def read_flag(self) -> bool:
        """True or false."""
        if not isinstance(self.value, bool):
            self.fail(f"expected true or false, got {format_value(self.value)}")
        return self.value

    def read_count(self) -> int:
        """A whole number of at least 0."""
        if not isinstance(self.value, int) or isinstance(self.value, bool) or self.value < 0:
            self.fail(f"expected a whole number of at least 0, got {format_value(self.value)}")
        return self.value

    def read_typed(self, type_: ValueType) -> Value:
        """A value of this type, or null."""
        value = from_json(type_, self.value, nullable=True)
        if isinstance(value, InvalidValue):
            self.fail(value.reason)
        return value


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


Fields = dict[str, Json]


def catalog_to_json(catalog: Catalog) -> Fields:
    """Every field of the catalog, types in declared order."""
    return {
        "next_identity": catalog.next_identity,
        "nodes": [_node_to_json(node) for node in catalog.nodes.values()],
        "edges": [_edge_to_json(edge) for edge in catalog.edges.values()],
        "interfaces": [_interface_to_json(interface) for interface in catalog.interfaces.values()],
    }


def normalize_catalog(catalog: Catalog) -> Fields:
    """What the schema says: without identities, with types and constraints in one order whatever the text's order."""
    return {
        "nodes": [_normalize_type(_node_to_json(node)) for _, node in sorted(catalog.nodes.items())],
        "edges": [_normalize_type(_edge_to_json(edge)) for _, edge in sorted(catalog.edges.items())],
        "interfaces": [normalize_interface(interface) for _, interface in sorted(catalog.interfaces.items())],
    }


def normalize_interface(interface: InterfaceType) -> Fields:
    """What an interface says: without identities, and without the order of what has none."""
    return _normalize_type(_interface_to_json(interface))


def _normalize_type(fields: Fields) -> Fields:
    """A type whose lists without an order of their own are sorted, and whose identities are gone."""
    ordered = {name: value for name, value in fields.items() if name != "identity"}
    for name in ("unique", "indexed", "ranges", "checks"):
        items = ordered.get(name)
        if isinstance(items, list):
            inner = [sorted(item, key=str) if isinstance(item, list) else item for item in items]
            ordered[name] = sorted(inner, key=_build_sort_key)
    properties = ordered["properties"]
    if isinstance(properties, list):
        ordered["properties"] = [
            {name: value for name, value in item.items() if name != "identity"}
            for item in properties
            if isinstance(item, dict)
        ]
    return ordered


def _build_sort_key(item: Json) -> list[str]:
    """Strings, lists of strings, and rules: what each is about, then what it says."""
    match item:
        case list():
            return [str(part) for part in item]
        case dict():
            return [str(item["property"]), str(item.get("pattern"))]
        case _:
            return [str(item)]


# --- types -----------------------------------------------------------------------------------------


def _node_to_json(node: NodeType) -> Fields:
    return {**_shared_fields_to_json(node), "implements": list(node.implements)}


def _edge_to_json(edge: EdgeType) -> Fields:
    return {
        **_shared_fields_to_json(edge),
        "source": edge.source,
        "target": edge.target,
        "cardinality": [edge.cardinality.low, edge.cardinality.high],
    }


def _shared_fields_to_json(type_: NodeType | EdgeType) -> Fields:
    return {
        "name": type_.name,
        "identity": type_.identity,
        "properties": [_property_to_json(p) for p in type_.properties],
        "key": list(type_.key),
        "unique": [list(columns) for columns in type_.unique],
        "indexed": list(type_.indexed),
        "ranges": [_range_to_json(rule, type_) for rule in type_.ranges],
        "checks": [_check_to_json(rule) for rule in type_.checks],
        "description": type_.description,
        "instruction": type_.instruction,
        "renamed_from": type_.renamed_from,
        "annotations": [annotation_to_json(annotation) for annotation in type_.annotations],
    }


def _interface_to_json(interface: InterfaceType) -> Fields:
    return {
        "name": interface.name,
        "properties": [_property_to_json(p) for p in interface.properties],
        "unique": [list(columns) for columns in interface.unique],
        "indexed": list(interface.indexed),
    }


def _property_to_json(p: Property) -> Fields:
    return {
        "name": p.name,
        "identity": p.identity,
        "type": type_to_json(p.type),
        "nullable": p.nullable,
        "has_default": p.has_default,
        "default": to_json(p.type, p.default),
        "embedding": embedding_to_json(p.embedding),
        "description": p.description,
        "renamed_from": p.renamed_from,
        "annotations": [annotation_to_json(annotation) for annotation in p.annotations],
    }


def type_to_json(type_: ValueType) -> Json:
    """`"I32"`, `{"enum": […]}`, `{"list": "I32"}`, `{"vector": 3}`."""
    match type_:
        case Scalar():
            return type_.value
        case EnumOf(values=values):
            return {"enum": list(values)}
        case ListOf(element=element):
            return {"list": element.value}
        case VectorOf(size=size):
            return {"vector": size}


def embedding_to_json(embedding: Embedding | None) -> Json:
    """`{"source": …, "model": …}`, or null."""
    return None if embedding is None else {"source": embedding.source, "model": embedding.model}


def _range_to_json(rule: RangeRule, type_: NodeType | EdgeType) -> Fields:
    ranged = type_.by_name[rule.property].type
    return {"property": rule.property, "low": to_json(ranged, rule.low), "high": to_json(ranged, rule.high)}


def _check_to_json(rule: CheckRule) -> Fields:
    return {"property": rule.property, "pattern": rule.pattern}


# --- annotations -----------------------------------------------------------------------------------


def annotation_to_json(annotation: AnnotationValue) -> Fields:
    """The annotation's name, argument and options."""
    return {
        "name": annotation.name,
        "argument": _untyped_to_json(annotation.argument),
        "options": [[name, _untyped_to_json(value)] for name, value in annotation.options],
    }


def _untyped_to_json(value: Value) -> Json:
    """A value that no type describes; dates and times say what they are, the rest is JSON as it stands."""
    match value:
        case datetime():
            return {"datetime": format_datetime(value)}
        case date():
            return {"date": format_date(value)}
        case list() | tuple():
            return [_untyped_to_json(item) for item in value]
        case bytes():
            msg = f"{format_value(value)} is no value of an annotation"
            raise TypeError(msg)
        case _:
            return value


CATALOG_FORMAT = "omnigraph-catalog/1"


class CatalogFormatError(OmnigraphError):
    """The stored catalog has a format that this version does not read."""

    kind = Kind.CORRUPT
    code = "catalog_format"

    def __init__(self, found: str) -> None:
        super().__init__(found)
        self.found = found

    def __str__(self) -> str:
        return (
            f"the stored schema has the format {self.found}, but this omnigraph reads {CATALOG_FORMAT}: use a newer one"
        )


def encode_catalog(catalog: Catalog) -> bytes:
    """The canonical bytes: equal catalogs give equal bytes."""
    return _encode_canonical({"format": CATALOG_FORMAT, **catalog_to_json(catalog)})


def decode_catalog(data: bytes) -> Catalog:
    """The catalog of canonical bytes.

    Raises:
        CatalogFormatError: the bytes name another format.
        CatalogCorruptError: anything else that `encode_catalog` would not have written, with the place and the reason.
    """
    fields = _parse_json(data)
    document = JsonNode("", fields)
    if not isinstance(fields, dict) or not isinstance(fields.get("format"), str):
        document.fail("it has no format tag")
    if fields["format"] != CATALOG_FORMAT:
        raise CatalogFormatError(fields["format"][:80])
    catalog = decode_document(JsonNode("", {name: value for name, value in fields.items() if name != "format"}))
    if encode_catalog(catalog) != data:
        document.fail("it is not in canonical form, so something else wrote it")
    return catalog


def compute_fingerprint(catalog: Catalog) -> str:
    """The SHA-256 of what the schema says, in hex.

    Comments, layout and the order of types and constraints don't count, nor do identities: the text alone decides, so
    the same schema has the same fingerprint in every graph. The order of properties counts, and `@rename_from` too,
    because with it the same types can mean another migration.
    """
    return hashlib.sha256(_encode_canonical(normalize_catalog(catalog))).hexdigest()


def _encode_canonical(fields: object) -> bytes:
    text = json.dumps(fields, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))
    return text.encode()


def _parse_json(data: bytes) -> object:
    try:
        return json.loads(data.decode(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        JsonNode("", None).fail(f"it is not JSON ({type(error).__name__})")


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(constant)
