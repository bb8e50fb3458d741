"""Encode a catalog as canonical JSON with a format tag, and decode it strictly."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from enum import Enum
from typing import NoReturn, TypeVar

from omnigraph.errors import CorruptError, Kind
from omnigraph.schema.catalog import (
    AnnotationValue,
    Cardinality,
    Catalog,
    CheckRule,
    EdgeType,
    Embedding,
    InterfaceType,
    Metric,
    NodeType,
    Property,
    RangeRule,
    Value,
    VectorIndex,
    VectorIndexKind,
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
E = TypeVar("E", bound=Enum)


class CatalogCorruptError(CorruptError):
    """The stored catalog is damaged."""

    kind = Kind.CORRUPT
    code = "catalog_corrupt"
    place: str
    reason: str

    def __str__(self) -> str:
        where = f" at {self.place}" if self.place else ""
        return (
            f"the stored schema is damaged{where}: {self.reason}. It is in the manifest of the branch:"
            " `omnigraph repair --from COPY` restores it from a clone or a backup. Otherwise read an older commit"
            " (--snapshot) or another branch, or run `omnigraph repair`, which goes back to an undamaged state"
        )


@dataclass(frozen=True, slots=True)
class JsonNode:
    """A value of a JSON document with its path, for error messages."""

    path: str
    value: object

    def fail(self, reason: str) -> NoReturn:
        """Reject the document because of this value."""
        raise CatalogCorruptError(self.path, reason)

    def read_fields(self, *names: str, optional: tuple[str, ...] = ()) -> dict[str, "JsonNode"]:
        """Return the fields of an object; it must have exactly these, and may lack `optional` ones, which are None."""
        if not isinstance(self.value, dict):
            self.fail(f"expected an object, got {format_value(self.value)}")
        if missing := [name for name in names if name not in self.value]:
            self.fail(f"the field `{missing[0]}` is missing")
        if unknown := [str(name) for name in self.value if name not in (*names, *optional)]:
            self.fail(f"the field {format_value(unknown[0])} is unknown")
        read = self.value.get
        return {name: JsonNode(f"{self.path}.{name}".lstrip("."), read(name)) for name in (*names, *optional)}

    def read_items(self) -> list["JsonNode"]:
        """Return the items of a list."""
        if not isinstance(self.value, list):
            self.fail(f"expected a list, got {format_value(self.value)}")
        return [JsonNode(f"{self.path}[{index}]", item) for index, item in enumerate(self.value)]

    def map_items(self, read: Callable[["JsonNode"], T]) -> tuple[T, ...]:
        """Apply `read` to each item of a list, and return the results."""
        return tuple(read(item) for item in self.read_items())

    def read_text(self) -> str:
        """Return a string."""
        if not isinstance(self.value, str):
            self.fail(f"expected a string, got {format_value(self.value)}")
        return self.value

    def read_optional_text(self) -> str | None:
        """Return a string or None."""
        return None if self.value is None else self.read_text()

    def read_flag(self) -> bool:
        """Return a boolean."""
        if not isinstance(self.value, bool):
            self.fail(f"expected true or false, got {format_value(self.value)}")
        return self.value

    def read_count(self) -> int:
        """Return an integer of at least 0."""
        # In Python, a bool is an int too.
        if not isinstance(self.value, int) or isinstance(self.value, bool) or self.value < 0:
            self.fail(f"expected a whole number of at least 0, got {format_value(self.value)}")
        return self.value

    def read_typed(self, type_: ValueType) -> Value:
        """Return a value of this type, or None."""
        value = from_json(type_, self.value, nullable=True)
        if isinstance(value, InvalidValue):
            self.fail(value.reason)
        return value


# The parser accepts no deeper literal, so no annotation that was encoded has one; a crafted document fails here and
# not at Python's recursion limit.
_MAX_DEPTH = 64


def decode_document(document: JsonNode) -> Catalog:
    """Return the catalog of a document. Names and identities must be unique, and references must resolve."""
    fields = document.read_fields("next_identity", "nodes", "edges", "interfaces")
    nodes = fields["nodes"].map_items(_decode_node)
    edges = fields["edges"].map_items(_decode_edge)
    interfaces = fields["interfaces"].map_items(_decode_interface)
    # Node types, edge types and interfaces share one name space.
    names = [*(type_.name for type_ in (*nodes, *edges)), *(interface.name for interface in interfaces)]
    if len(set(names)) != len(names):
        document.fail("two types have the same name")
    next_identity = fields["next_identity"].read_count()
    # 0 is `UNASSIGNED`: a catalog that was not accepted yet has it everywhere.
    identities = [n for t in (*nodes, *edges) for n in (t.identity, *(p.identity for p in t.properties)) if n]
    if len(set(identities)) != len(identities) or max(identities, default=0) >= next_identity:
        fields["next_identity"].fail("an identity is used twice, or was never assigned")
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


def _decode_node(node: JsonNode) -> NodeType:
    fields = node.read_fields(*_SHARED_FIELDS, "implements")
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


def _decode_edge(node: JsonNode) -> EdgeType:
    fields = node.read_fields(*_SHARED_FIELDS, "source", "target", "cardinality")
    properties = _decode_properties(fields["properties"])
    types = {p.name: p.type for p in properties}
    # A key and a unique constraint may list the ends of an edge beside its properties.
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


def _decode_interface(node: JsonNode) -> InterfaceType:
    fields = node.read_fields("name", "properties", "unique", "indexed")
    properties = _decode_properties(fields["properties"])
    types = {p.name: p.type for p in properties}
    return InterfaceType(
        name=fields["name"].read_text(),
        properties=properties,
        unique=fields["unique"].map_items(lambda item: _decode_columns(item, types)),
        indexed=_decode_columns(fields["indexed"], types),
    )


def _decode_cardinality(node: JsonNode) -> Cardinality:
    bounds = node.read_items()
    if len(bounds) != 2:
        node.fail(f"expected two bounds, got {len(bounds)}")
    low, high = bounds
    return Cardinality(low=low.read_count(), high=None if high.value is None else high.read_count())


# --- members ---------------------------------------------------------------------------------------


def _decode_properties(node: JsonNode) -> tuple[Property, ...]:
    properties = node.map_items(_decode_property)
    if len({p.name for p in properties}) != len(properties):
        node.fail("two properties have the same name")
    return properties


def _decode_property(node: JsonNode) -> Property:
    fields = node.read_fields(
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
        optional=("metric", "vector_index", "language"),
    )
    # The type comes first: it decides how the default is decoded.
    type_ = _decode_type(fields["type"])
    return Property(
        name=fields["name"].read_text(),
        identity=fields["identity"].read_count(),
        type=type_,
        nullable=fields["nullable"].read_flag(),
        has_default=fields["has_default"].read_flag(),
        default=fields["default"].read_typed(type_),
        embedding=_decode_embedding(fields["embedding"]),
        metric=_decode_choice(fields["metric"], Metric) or Metric.COSINE,
        vector_index=_decode_vector_index(fields["vector_index"]),
        language=fields["language"].read_optional_text(),
        description=fields["description"].read_optional_text(),
        renamed_from=fields["renamed_from"].read_optional_text(),
        annotations=fields["annotations"].map_items(_decode_annotation),
    )


def _decode_type(node: JsonNode) -> ValueType:
    # The types check their own rules, such as the size of a vector, by `ValueError`.
    try:
        match node.value:
            case str() as name:
                return Scalar(name)
            case {"enum": _, **rest} if not rest:
                return EnumOf(node.read_fields("enum")["enum"].map_items(JsonNode.read_text))
            case {"list": str() as name, **rest} if not rest:
                return ListOf(Scalar(name))
            case {"vector": _, **rest} if not rest:
                return VectorOf(node.read_fields("vector")["vector"].read_count())
    except ValueError as error:
        node.fail(str(error))
    return node.fail(f"expected a type, got {format_value(node.value)}")


def _decode_embedding(node: JsonNode) -> Embedding | None:
    if node.value is None:
        return None
    fields = node.read_fields("source", "model")
    return Embedding(source=fields["source"].read_text(), model=fields["model"].read_optional_text())


def _decode_vector_index(node: JsonNode) -> VectorIndex | None:
    if node.value is None:
        return None
    fields = node.read_fields("kind", "recall")
    kind, recall = _decode_choice(fields["kind"], VectorIndexKind), fields["recall"].read_typed(Scalar.F64)
    if kind is None or not isinstance(recall, float):
        node.fail("expected a kind and a recall")
    return VectorIndex(kind=kind, recall=recall)


def _decode_choice(node: JsonNode, choices: type[E]) -> E | None:
    if node.value is None:
        return None
    try:
        return choices(node.read_text())
    except ValueError:
        node.fail(f"expected one of {', '.join(str(choice.value) for choice in choices)}")


def _decode_columns(node: JsonNode, types: dict[str, ValueType]) -> tuple[str, ...]:
    return node.map_items(lambda item: _decode_column(item, types))


def _decode_column(node: JsonNode, types: dict[str, ValueType]) -> str:
    name = node.read_text()
    if name not in types:
        node.fail(f"there is no property {format_value(name)}")
    return name


def _decode_range(node: JsonNode, types: dict[str, ValueType]) -> RangeRule:
    fields = node.read_fields("property", "low", "high")
    name = _decode_column(fields["property"], types)
    return RangeRule(
        property=name, low=fields["low"].read_typed(types[name]), high=fields["high"].read_typed(types[name])
    )


def _decode_check(node: JsonNode, types: dict[str, ValueType]) -> CheckRule:
    fields = node.read_fields("property", "pattern")
    return CheckRule(property=_decode_column(fields["property"], types), pattern=fields["pattern"].read_text())


# --- annotations -----------------------------------------------------------------------------------


def _decode_annotation(node: JsonNode) -> AnnotationValue:
    fields = node.read_fields("name", "argument", "options")
    return AnnotationValue(
        name=fields["name"].read_text(),
        argument=_decode_untyped(fields["argument"]),
        options=fields["options"].map_items(_decode_option),
    )


def _decode_option(node: JsonNode) -> tuple[str, Value]:
    parts = node.read_items()
    if len(parts) != 2:
        node.fail("expected a name and a value")
    return parts[0].read_text(), _decode_untyped(parts[1])


def _decode_untyped(node: JsonNode, depth: int = 0) -> Value:
    if depth > _MAX_DEPTH:
        node.fail("it is nested too deep")
    # Dates and times are objects with one field, see `_encode_untyped`; annotations have no other objects.
    match node.value:
        case None | bool() | int() | float() | str():
            return node.value
        case list():
            return tuple(_decode_untyped(item, depth + 1) for item in node.read_items())
        case {"date": str() as text, **rest} if not rest:
            day = parse_date(text)
            if not isinstance(day, InvalidValue):
                return day
            node.fail(day.reason)
        case {"datetime": str() as text, **rest} if not rest:
            time = parse_datetime(text)
            if not isinstance(time, InvalidValue):
                return time
            node.fail(time.reason)
    return node.fail(f"expected a value, got {format_value(node.value)}")


Fields = dict[str, Json]


def catalog_to_json(catalog: Catalog) -> Fields:
    """Return all fields of a catalog as JSON, types in declared order."""
    return {
        "next_identity": catalog.next_identity,
        "nodes": [_node_to_json(node) for node in catalog.nodes.values()],
        "edges": [_edge_to_json(edge) for edge in catalog.edges.values()],
        "interfaces": [_interface_to_json(interface) for interface in catalog.interfaces.values()],
    }


def normalize_catalog(catalog: Catalog) -> Fields:
    """Return a catalog as JSON without identities, with types and constraints in a fixed order."""
    return {
        "nodes": [_normalize_type(_node_to_json(node)) for _, node in sorted(catalog.nodes.items())],
        "edges": [_normalize_type(_edge_to_json(edge)) for _, edge in sorted(catalog.edges.items())],
        "interfaces": [normalize_interface(interface) for _, interface in sorted(catalog.interfaces.items())],
    }


def normalize_interface(interface: InterfaceType) -> Fields:
    """Return an interface as JSON without identities, with its constraints sorted."""
    return _normalize_type(_interface_to_json(interface))


def _normalize_type(fields: Fields) -> Fields:
    """Return the fields of a type without identities; lists whose order has no meaning are sorted."""
    ordered = {name: value for name, value in fields.items() if name != "identity"}
    # Not `key` and `properties`: ids are derived in the order of the key, and columns follow the properties.
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
    """Build the sort key of a column name, a list of columns, or a rule."""
    match item:
        case list():
            return [str(part) for part in item]
        # A property has at most one range, but may have several checks, which differ in their pattern.
        case dict():
            return [str(item["property"]), str(item.get("pattern"))]
        case _:
            return [str(item)]


# --- types -----------------------------------------------------------------------------------------


def _node_to_json(node: NodeType) -> Fields:
    return {**_encode_table_type(node), "implements": list(node.implements)}


def _edge_to_json(edge: EdgeType) -> Fields:
    return {
        **_encode_table_type(edge),
        "source": edge.source,
        "target": edge.target,
        "cardinality": [edge.cardinality.low, edge.cardinality.high],
    }


def _encode_table_type(type_: NodeType | EdgeType) -> Fields:
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
        **search_to_json(p),
    }


def search_to_json(p: Property) -> Fields:
    """Return what a property declares about searches; what it does not declare is left out.

    So the fingerprint of a schema that was stored before these declarations existed is unchanged.
    """
    fields: Fields = {}
    if p.metric is not Metric.COSINE:
        fields["metric"] = p.metric.value
    if p.vector_index is not None:
        fields["vector_index"] = {"kind": p.vector_index.kind.value, "recall": p.vector_index.recall}
    if p.language is not None:
        fields["language"] = p.language
    return fields


def type_to_json(type_: ValueType) -> Json:
    """Return a type as JSON: `"I32"`, `{"enum": […]}`, `{"list": "I32"}` or `{"vector": 3}`."""
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
    """Return an embedding as JSON: `{"source": …, "model": …}`, or None."""
    return None if embedding is None else {"source": embedding.source, "model": embedding.model}


def _range_to_json(rule: RangeRule, type_: NodeType | EdgeType) -> Fields:
    value_type = type_.by_name[rule.property].type
    return {"property": rule.property, "low": to_json(value_type, rule.low), "high": to_json(value_type, rule.high)}


def _check_to_json(rule: CheckRule) -> Fields:
    return {"property": rule.property, "pattern": rule.pattern}


# --- annotations -----------------------------------------------------------------------------------


def annotation_to_json(annotation: AnnotationValue) -> Fields:
    """Return an annotation as JSON: its name, argument and options."""
    return {
        "name": annotation.name,
        "argument": _encode_untyped(annotation.argument),
        "options": [[name, _encode_untyped(value)] for name, value in annotation.options],
    }


def _encode_untyped(value: Value) -> Json:
    """Return a value without a declared type as JSON; dates and times are marked, so that they can be decoded."""
    # `datetime` is a subclass of `date`, so it comes first.
    match value:
        case datetime():
            return {"datetime": format_datetime(value)}
        case date():
            return {"date": format_date(value)}
        case list() | tuple():
            return [_encode_untyped(item) for item in value]
        case bytes():
            msg = f"{format_value(value)} is not a value of an annotation"
            raise TypeError(msg)
        case _:
            return value


# Any change of the fields needs a new tag: an older release then asks for a newer one instead of reporting damage.
CATALOG_FORMAT = "omnigraph-catalog/1"


class CatalogFormatError(CorruptError):
    """The stored catalog has a format that this version does not read."""

    kind = Kind.CORRUPT
    code = "catalog_format"
    found: str

    def __str__(self) -> str:
        return (
            f"the stored schema has the format {self.found}, but this omnigraph reads {CATALOG_FORMAT}: use a newer one"
        )


def encode_catalog(catalog: Catalog) -> bytes:
    """Encode a catalog as canonical bytes: equal catalogs give equal bytes."""
    return _encode_canonical({"format": CATALOG_FORMAT, **catalog_to_json(catalog)})


def decode_catalog(data: bytes) -> Catalog:
    """Decode canonical bytes.

    Raises:
        CatalogFormatError: The bytes have another format tag.
        CatalogCorruptError: The bytes are nothing that `encode_catalog` writes; it names the path and the reason.
    """
    fields = _parse_json(data)
    document = JsonNode("", fields)
    if not isinstance(fields, dict) or not isinstance(fields.get("format"), str):
        document.fail("it has no format tag")
    if fields["format"] != CATALOG_FORMAT:
        # Clipped: damaged bytes may hold a text of any length.
        raise CatalogFormatError(fields["format"][:80])
    catalog = decode_document(JsonNode("", {name: value for name, value in fields.items() if name != "format"}))
    # Encoding it again finds what the decoders accept but never write, such as white space or repeated fields.
    if encode_catalog(catalog) != data:
        document.fail("it is not in canonical form, so something else wrote it")
    return catalog


def compute_fingerprint(catalog: Catalog) -> str:
    """Compute the SHA-256 of a schema's declarations, in hex.

    Comments, layout, the order of types and constraints, and identities don't count: the same schema has the same
    fingerprint in every graph. The order of properties and `@rename_from` do count: with another `@rename_from`, the
    same types can mean another migration.
    """
    return hashlib.sha256(_encode_canonical(normalize_catalog(catalog))).hexdigest()


def _encode_canonical(fields: object) -> bytes:
    text = json.dumps(fields, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))
    return text.encode()


def _parse_json(data: bytes) -> object:
    # Python's parser accepts NaN and Infinity, which are not JSON; deep nesting exceeds its recursion limit.
    try:
        return json.loads(data.decode(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        JsonNode("", None).fail(f"it is not JSON ({type(error).__name__})")


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(constant)
