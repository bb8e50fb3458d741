"""Encode rows as the documents that other programs read graphs from: GraphML and node-link JSON."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol
from xml.sax.saxutils import escape, quoteattr

import msgspec
import pyarrow as pa

from omnigraph.engine.jsonl_encoding import encode_json_column
from omnigraph.errors import BadArgumentError
from omnigraph.schema.arrow import DST, ID, SRC
from omnigraph.schema.catalog import AnyType, EdgeType, NodeType
from omnigraph.schema.types import EnumOf, ListOf, Scalar, ValueType, VectorOf

_encode = msgspec.json.Encoder().encode
# XML 1.0 can't hold them in any form.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_XML_TYPES: Mapping[ValueType, str] = {
    Scalar.BOOL: "boolean",
    Scalar.I32: "int",
    Scalar.U32: "long",
    Scalar.I64: "long",
    Scalar.F32: "float",
    Scalar.F64: "double",
}
# Names that node-link JSON has for itself; a property of such a name gets a `_`.
_TAKEN = frozenset({"id", "labels", "label", "source", "target", "key"})


class GraphEncoder(Protocol):
    """Writes a document: its begin, the rows of each type in the order of the types, its end."""

    def begin(self) -> bytes:
        """Return what stands before all rows."""
        ...

    def encode(self, type_: AnyType, rows: pa.Table) -> Iterator[bytes]:
        """Yield rows of one type."""
        ...

    def end(self) -> bytes:
        """Return what stands after all rows."""
        ...


def check_ends(types: Sequence[AnyType]) -> None:
    """Check that the nodes at the ends of all edges are among the types.

    Raises:
        BadArgumentError: They are not.
    """
    names = {type_.name for type_ in types if isinstance(type_, NodeType)}
    for type_ in types:
        for end in (type_.source, type_.target) if isinstance(type_, EdgeType) else ():
            if end not in names:
                expected = f"the edges of `{type_.name}` lead to nodes of `{end}`: name it, too"
                raise BadArgumentError("types", f"without `{end}`", expected)


def name_nodes(type_: str, ids: pa.ChunkedArray, *, is_only: bool) -> list[str]:
    """Return what tells nodes apart: ids, with the type before them if there are several types: `Person/ada`."""
    texts: list[str] = ids.to_pylist()
    return texts if is_only else [f"{type_}/{text}" for text in texts]


class _Names:
    """The names of nodes in a document of some types."""

    def __init__(self, types: Sequence[AnyType]) -> None:
        self._is_only = sum(isinstance(type_, NodeType) for type_ in types) == 1

    def of_nodes(self, type_: NodeType, rows: pa.Table) -> list[str]:
        return name_nodes(type_.name, rows[ID], is_only=self._is_only)

    def of_ends(self, type_: EdgeType, rows: pa.Table) -> tuple[list[str], list[str]]:
        source = name_nodes(type_.source, rows[SRC], is_only=self._is_only)
        return source, name_nodes(type_.target, rows[DST], is_only=self._is_only)


class GraphmlEncoder:
    """Encodes GraphML. The data `labels` and `label` are the types; lists are JSON, as in Neo4j's exports."""

    def __init__(self, types: Sequence[AnyType]) -> None:
        self._types = types
        self._names = _Names(types)
        self._keys = {
            (type_.name, prop.name): f"k{number}"
            for number, (type_, prop) in enumerate((type_, prop) for type_ in types for prop in type_.properties)
        }

    def begin(self) -> bytes:
        """Return the declarations of all keys."""
        lines = [
            "<?xml version='1.0' encoding='utf-8'?>",
            '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">',
            '<key id="labels" for="node" attr.name="labels" attr.type="string"/>',
            '<key id="label" for="edge" attr.name="label" attr.type="string"/>',
        ]
        for type_ in self._types:
            kind = "edge" if isinstance(type_, EdgeType) else "node"
            for prop in type_.properties:
                key = self._keys[type_.name, prop.name]
                attributes = f"attr.name={quoteattr(prop.name)} {_describe_xml_type(prop.type)}"
                lines.append(f'<key id="{key}" for="{kind}" {attributes}/>')
        return "\n".join([*lines, '<graph edgedefault="directed">', ""]).encode()

    def encode(self, type_: AnyType, rows: pa.Table) -> Iterator[bytes]:
        """Yield a line for each row; nulls have no data."""
        columns = [encode_json_column(prop.type, rows[prop.name].combine_chunks()) for prop in type_.properties]
        keys = [f'<data key="{self._keys[type_.name, prop.name]}">' for prop in type_.properties]
        values = zip(*columns, strict=True) if columns else iter([()] * rows.num_rows)
        if isinstance(type_, EdgeType):
            source, target = self._names.of_ends(type_, rows)
            tag, label = "edge", f'<data key="label">{_escape(type_.name)}</data>'
            heads = [f"source={_quote(a)} target={_quote(b)}" for a, b in zip(source, target, strict=True)]
        else:
            tag, label = "node", f'<data key="labels">:{_escape(type_.name)}</data>'
            heads = [f"id={_quote(name)}" for name in self._names.of_nodes(type_, rows)]
        for head, row in zip(heads, values, strict=True):
            data = "".join(
                f"{key}{_format_xml(value)}</data>" for key, value in zip(keys, row, strict=True) if value is not None
            )
            yield f"<{tag} {head}>{label}{data}</{tag}>\n".encode()

    def end(self) -> bytes:
        """Return the closing tags."""
        return b"</graph>\n</graphml>\n"


def _describe_xml_type(type_: ValueType) -> str:
    if isinstance(type_, ListOf | VectorOf):
        element = type_.element if isinstance(type_, ListOf) else Scalar.F32
        return f'attr.type="string" attr.list="{_XML_TYPES.get(element, "string")}"'
    return f'attr.type="{"string" if isinstance(type_, EnumOf) else _XML_TYPES.get(type_, "string")}"'


def _format_xml(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case list():
            return _escape(_encode(value).decode())
        case _:
            return _escape(str(value))


def _escape(text: str) -> str:
    """Return a text as it stands in an element.

    Raises:
        BadArgumentError: XML can't hold it.
    """
    found = _NOT_XML.search(text)
    if found is not None:
        expected = f"GraphML can't hold the character U+{ord(found[0]):04X}, which a text has; node-link JSON can"
        raise BadArgumentError("format", "`graphml`", expected)
    return escape(text, {"\r": "&#13;"})


def _quote(text: str) -> str:
    return '"' + _escape(text).replace('"', "&quot;").replace("\n", "&#10;").replace("\t", "&#9;") + '"'


class NodeLinkEncoder:
    """Encodes a node-link document, as networkx and D3 read it; the list `labels` and the text `label` are types."""

    def __init__(self, types: Sequence[AnyType]) -> None:
        self._names = _Names(types)
        self._is_first = True
        self._in_edges = False

    def begin(self) -> bytes:
        """Return the head of the document."""
        return b'{"directed":true,"multigraph":true,"graph":{},"nodes":[\n'

    def encode(self, type_: AnyType, rows: pa.Table) -> Iterator[bytes]:
        """Yield an object for each row; nulls are left out."""
        names = [f"{prop.name}_" if prop.name in _TAKEN else prop.name for prop in type_.properties]
        columns = [encode_json_column(prop.type, rows[prop.name].combine_chunks()) for prop in type_.properties]
        values = zip(*columns, strict=True) if columns else iter([()] * rows.num_rows)
        if isinstance(type_, EdgeType):
            if not self._in_edges:
                yield self._start_edges()
            ends = zip(*self._names.of_ends(type_, rows), strict=True)
            heads: Iterable[Mapping[str, object]] = (
                {"source": source, "target": target, "label": type_.name} for source, target in ends
            )
        else:
            heads = ({"id": name, "labels": [type_.name]} for name in self._names.of_nodes(type_, rows))
        for head, row in zip(heads, values, strict=True):
            data = {name: value for name, value in zip(names, row, strict=True) if value is not None}
            yield (b"" if self._is_first else b",\n") + _encode({**head, **data})
            self._is_first = False

    def _start_edges(self) -> bytes:
        self._in_edges = self._is_first = True
        return b'\n],"edges":[\n'

    def end(self) -> bytes:
        """Return what closes the document."""
        return (b"" if self._in_edges else self._start_edges()) + b"\n]}\n"
