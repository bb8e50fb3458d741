"""A catalog as plain JSON values: the shape that is stored, and the shape that is fingerprinted."""

from datetime import date, datetime

from omnigraph.schema.catalog import (
    AnnotationValue,
    Catalog,
    CheckRule,
    EdgeType,
    Embedding,
    InterfaceType,
    NodeType,
    Property,
    RangeRule,
    Value,
)
from omnigraph.schema.misfit import format_value
from omnigraph.schema.temporal import format_date, format_datetime
from omnigraph.schema.types import EnumOf, ListOf, Scalar, ValueType, VectorOf
from omnigraph.schema.values import Json, to_json

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
