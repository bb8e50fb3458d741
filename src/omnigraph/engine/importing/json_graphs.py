"""Read graphs that are written as JSON: node-link documents, and the JSON lines of Neo4j's APOC library."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from omnigraph.engine.decoding.input_files import FileDamagedError, open_input, translate_file_errors
from omnigraph.engine.importing.graph_spool import EDGE, GraphEdge, GraphNode, NodeId
from omnigraph.engine.importing.source_tables import parse_json


def read_node_link(path: Path) -> Iterator[GraphNode | GraphEdge]:
    """Yield the nodes and edges of a node-link document, which is read whole.

    The list `labels` of nodes are their labels, and in a document that has them, `label` of an edge is its type.

    Raises:
        FileDamagedError: It is no such document; with the number of the element.
    """
    with translate_file_errors(str(path)), open_input(path) as file:
        document = parse_json(path, file.read(), None)
    key = "edges" if isinstance(document, dict) and "edges" in document else "links"
    if not isinstance(document, dict) or not all(isinstance(document.get(name), list) for name in ("nodes", key)):
        raise FileDamagedError(str(path), "it is no node-link document, which has the lists `nodes` and `edges`")
    has_labels = False
    for number, values in enumerate(document["nodes"], start=1):
        where = f"element {number} of nodes"
        node = _require_object(path, where, values)
        labels = node.pop("labels", ())
        has_labels |= bool(labels)
        yield GraphNode(
            place=number,
            id=_read_id(path, where, node, "id"),
            labels=labels.strip(":").split(":") if isinstance(labels, str) else list(map(str, labels)),
            values=node,
        )
    for number, values in enumerate(document[key], start=1):
        where = f"element {number} of {key}"
        edge = _require_object(path, where, values)
        source, target = (_read_id(path, where, edge, name) for name in ("source", "target"))
        # The key of networkx only tells parallel edges apart.
        if document.get("multigraph") is True:
            edge.pop("key", None)
        type_ = str(edge.pop("label", "") or EDGE) if has_labels else EDGE
        yield GraphEdge(place=number, type=type_, source=source, target=target, values=edge)


def read_apoc_json(path: Path) -> Iterator[GraphNode | GraphEdge]:
    """Yield the nodes and relationships of `apoc.export.json`, line by line.

    Raises:
        FileDamagedError: A line is no node and no relationship.
    """
    with translate_file_errors(str(path)), open_input(path) as file:
        for line, text in enumerate(file, start=1):
            if not text.strip():
                continue
            where = f"line {line}"
            record = _require_object(path, where, parse_json(path, text, line))
            values = _require_object(path, where, record.get("properties", {}))
            if record.get("type") == "node":
                yield GraphNode(
                    place=line,
                    id=_read_id(path, where, record, "id"),
                    labels=list(map(str, record.get("labels", ()))),
                    values=values,
                )
            elif record.get("type") == "relationship":
                ends = [_require_object(path, where, record.get(name)) for name in ("start", "end")]
                source, target = (_read_id(path, where, end, "id") for end in ends)
                type_ = str(record.get("label") or EDGE)
                yield GraphEdge(place=line, type=type_, source=source, target=target, values=values)
            else:
                raise FileDamagedError(str(path), f"{where}: its `type` is neither `node` nor `relationship`")


def _require_object(path: Path, where: str, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise FileDamagedError(str(path), f"{where}: an object is expected")
    return dict(value)


def _read_id(path: Path, where: str, record: dict[str, Any], name: str) -> NodeId:
    """Take the id of a node from a record: a text or a whole number."""
    value = record.pop(name, None)
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise FileDamagedError(str(path), f"{where}: `{name}` must be a text or a whole number")
    return NodeId(value)


def is_node_link(path: Path, head: bytes) -> bool:
    """Return whether a file is a document of nodes and edges; it is read whole only if it begins like one."""
    names = (b'"nodes"', b'"links"', b'"edges"', b'"multigraph"', b'"directed"')
    if head.lstrip()[:1] != b"{" or not any(name in head for name in names):
        return False
    with translate_file_errors(str(path)), open_input(path) as file:
        try:
            document = json.loads(file.read())
        except ValueError:
            return False
    return all(isinstance(document.get(name), list) for name in ("nodes", "edges" if "edges" in document else "links"))


def is_apoc_json(head: bytes) -> bool:
    """Return whether the first line of a file is a node or a relationship of APOC."""
    line, newline, _ = head.lstrip().partition(b"\n")
    try:
        record: Any = json.loads(line) if newline or line.endswith(b"}") else None
    except ValueError:
        return False
    return isinstance(record, Mapping) and (
        (record.get("type") == "node" and "id" in record and ("labels" in record or "properties" in record))
        or (record.get("type") == "relationship" and "start" in record and "end" in record)
    )
