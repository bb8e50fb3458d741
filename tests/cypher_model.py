"""Graphs of the interpreter from a schema and records, and its values in the form of a result's JSON."""

import json
from datetime import date

from corpus_reading import plain_records
from cypher_functions import format_value
from cypher_values import ModelGraph, Node, Path, Relationship, Value
from schema_making import accepted

MAX_JSON_INTEGER = 2**53 - 1


def build_model(schema: str, data: str) -> ModelGraph:
    """Return the graph of a schema and its records as graph JSONL."""
    catalog = accepted(schema)
    graph = ModelGraph()
    for node_type in catalog.nodes.values():
        graph.labels[node_type.name] = (node_type.name, *node_type.implements)
    for edge_type in catalog.edges.values():
        called = [each.argument for each in edge_type.annotations if each.name == "cypher"]
        graph.types[edge_type.name] = (str(called[0]) if called else edge_type.name,)
    for name, record in plain_records(catalog, data):
        properties = {key: _read_value(value) for key, value in record.items() if not key.startswith("@")}
        if name in catalog.nodes:
            graph.nodes[Node(name, record["@id"])] = properties
            continue
        edge = Relationship(name, record["@id"])
        edge_type = catalog.edges[name]
        ends = Node(edge_type.source, record["@src"]), Node(edge_type.target, record["@dst"])
        graph.relationships[edge] = ends
        graph.properties[edge] = properties
    return graph


def _read_value(value: object) -> Value:
    if isinstance(value, tuple):
        return [_read_value(item) for item in value]
    assert value is None or isinstance(value, bool | int | float | str | date)
    return value


def format_json(graph: ModelGraph, value: Value) -> object:
    """Return a value as the JSON of a result has it."""
    match value:
        case Node() | Relationship():
            shown: dict[str, object] = {"@type": value.type, "id": value.id}
            if isinstance(value, Relationship):
                source, target = graph.relationships[value]
                shown |= {"src": source.id, "dst": target.id}
            return shown | {key: format_json(graph, item) for key, item in graph.get_properties(value).items()}
        case Path():
            nodes = [format_json(graph, node) for node in value.nodes]
            return {"nodes": nodes, "edges": [format_json(graph, edge) for edge in value.relationships]}
        case list():
            return [format_json(graph, item) for item in value]
        case dict():
            return {key: format_json(graph, item) for key, item in value.items()}
        case date():
            return format_value(value)
        case int() if not isinstance(value, bool) and abs(value) > MAX_JSON_INTEGER:
            return str(value)
        case _:
            return value


def format_row(graph: ModelGraph, row: tuple[Value, ...]) -> str:
    """Return a row as one line of a case."""
    return json.dumps([format_json(graph, value) for value in row], ensure_ascii=False)
