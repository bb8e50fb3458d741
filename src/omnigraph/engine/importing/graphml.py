"""Read GraphML as a stream of nodes and edges, with the line of each. Memory does not grow with the file.

Files may come from anywhere: entities are refused, nothing outside of the file is read, depth and texts are bounded.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.parsers import expat

from omnigraph.engine.decoding.input_files import FileDamagedError, read_file_chunks
from omnigraph.engine.importing.graph_spool import EDGE, GraphEdge, GraphNode, NodeId

_MAX_TEXT = 1 << 26
_MAX_DEPTH = 100
_BOOLS = {"true": True, "1": True, "false": False, "0": False}


def _parse_bool(text: str) -> bool:
    return _BOOLS[text.strip().lower()]


def _parse_list(text: str) -> list[Any]:
    items = json.loads(text)
    if not isinstance(items, list):
        reason = "no list"
        raise ValueError(reason)  # noqa: TRY004 - a value of the file
    return items


_PARSERS: Mapping[str, Callable[[str], object]] = {
    "boolean": _parse_bool,
    "int": int,
    "long": int,
    "float": float,
    "double": float,
    "string": str,
}


def read_graphml(path: Path) -> Iterator[GraphNode | GraphEdge]:
    """Yield the nodes and edges of a file in its order.

    The data `labels` of nodes, as `:A:B`, are their labels, and in a file that has them, `label` of an edge is its
    type, as the exports of Neo4j and of this program have them.

    Raises:
        FileDamagedError: It is no GraphML, or declares entities; with the line.
    """
    reader = _GraphmlReader(path)
    for chunk in read_file_chunks(path):
        reader.feed(chunk, is_last=False)
        yield from reader.take()
    reader.feed(b"", is_last=True)
    yield from reader.take()


class _GraphmlReader:
    """The handlers of one file, and what they found."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._found: list[GraphNode | GraphEdge] = []
        self._keys: dict[str, tuple[str, Callable[[str], object]]] = {}
        self._defaults: dict[str, dict[str, object]] = {"node": {}, "edge": {}}
        self._tags: list[str] = []
        self._text: list[str] = []
        self._length = 0
        self._data_key: str | None = None
        self._element: dict[str, str] | None = None
        """The attributes of the node or edge whose data are read."""
        self._values: dict[str, object] = {}
        self._line = 0
        self._has_labels = False
        self._open_key: dict[str, str] = {}
        parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._add_text
        parser.EntityDeclHandler = self._refuse_entity
        self._parser = parser

    def feed(self, data: bytes, *, is_last: bool) -> None:
        """Parse the next part of the file."""
        try:
            self._parser.Parse(data, is_last)
        except expat.ExpatError as error:
            place = f"line {error.lineno}, column {error.offset + 1}"
            raise FileDamagedError(str(self._path), f"{place}: {expat.ErrorString(error.code)}") from error

    def take(self) -> list[GraphNode | GraphEdge]:
        """Return what was found since the last call."""
        found, self._found = self._found, []
        return found

    def _refuse(self, reason: str) -> FileDamagedError:
        return FileDamagedError(str(self._path), f"line {self._parser.CurrentLineNumber}: {reason}")

    def _refuse_entity(self, name: str, *_: object) -> None:
        raise self._refuse(f"it declares the entity `{name}`; entities are not read, write what it stands for")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        name = tag.rpartition(":")[2]
        if not self._tags and name != "graphml":
            raise self._refuse(f"it begins with `{name}`, and GraphML with `graphml`")
        self._tags.append(name)
        if len(self._tags) > _MAX_DEPTH:
            raise self._refuse(f"elements stand in each other more than {_MAX_DEPTH} deep")
        if name in ("hyperedge", "port"):
            raise self._refuse(f"a `{name}` can't be read: an edge has two ends, which are nodes")
        if name == "key":
            self._start_key(attributes)
        elif name in ("node", "edge"):
            self._line = self._parser.CurrentLineNumber
            self._element, self._values = attributes, dict(self._defaults[name])
        elif name == "graph" and self._element is not None:
            raise self._refuse("a graph inside of a node can't be read; flatten it first")
        elif name == "data" and self._element is not None:
            key = attributes.get("key", "")
            if key not in self._keys:
                raise self._refuse(f"data have the key `{key}`, which is not declared before them")
            self._data_key = key
        self._text.clear()
        self._length = 0

    def _start_key(self, attributes: dict[str, str]) -> None:
        key = attributes.get("id", "")
        name = attributes.get("attr.name") or key
        type_ = attributes.get("attr.type", "string").lower()
        parser = _parse_list if attributes.get("attr.list") else _PARSERS.get(type_)
        if parser is None:
            raise self._refuse(f"the key `{key}` has the type `{type_}`, which is none of {', '.join(_PARSERS)}")
        self._keys[key] = (name, parser)
        self._has_labels |= name == "labels" and attributes.get("for", "all") in ("node", "all")
        self._open_key = attributes

    def _add_text(self, text: str) -> None:
        if self._data_key is None and self._tags[-1:] != ["default"]:
            return
        self._length += len(text)
        if self._length > _MAX_TEXT:
            raise self._refuse(f"a value has more than {_MAX_TEXT:,} characters")
        self._text.append(text)

    def _end(self, tag: str) -> None:
        name = tag.rpartition(":")[2]
        self._tags.pop()
        # What extensions, such as those of yEd, put into the data of a key is no text.
        if name == "data" and self._data_key is not None:
            text = "".join(self._text)
            if self._keys[self._data_key][0] and (text.strip() or self._keys[self._data_key][1] is str):
                self._values[self._keys[self._data_key][0]] = self._parse(self._data_key, text)
            self._data_key = None
        elif name == "default" and self._tags[-1:] == ["key"]:
            key = self._open_key.get("id", "")
            value = self._parse(key, "".join(self._text))
            for kind in ("node", "edge"):
                if self._open_key.get("for", "all") in (kind, "all"):
                    self._defaults[kind][self._keys[key][0]] = value
        elif name == "node":
            self._end_node()
        elif name == "edge":
            self._end_edge()

    def _parse(self, key: str, text: str) -> object:
        name, parser = self._keys[key]
        try:
            return parser(text)
        except (ValueError, KeyError) as error:
            raise self._refuse(f"`{text[:40]}` is no value of `{name}` as its key declares it") from error

    def _end_node(self) -> None:
        attributes = self._element or {}
        if "id" not in attributes:
            raise self._refuse("a node has no id")
        labels = attributes.get("labels") or self._values.pop("labels", "")
        self._has_labels |= "labels" in attributes
        self._values.pop("labels", None)
        node = GraphNode(
            place=self._line,
            id=NodeId(attributes["id"]),
            labels=[label for label in str(labels).split(":") if label],
            values=self._values,
        )
        self._found.append(node)
        self._element = None

    def _end_edge(self) -> None:
        attributes = self._element or {}
        missing = [end for end in ("source", "target") if end not in attributes]
        if missing:
            raise self._refuse(f"an edge has no {missing[0]}")
        type_ = attributes.get("label")
        if self._has_labels:
            type_ = type_ or str(self._values.get("label") or "")
            self._values.pop("label", None)
        else:
            type_ = None
        if "id" in attributes:
            self._values.setdefault("id", attributes["id"])
        edge = GraphEdge(
            place=self._line,
            type=type_ or EDGE,
            source=NodeId(attributes["source"]),
            target=NodeId(attributes["target"]),
            values=self._values,
        )
        self._found.append(edge)
        self._element = None
