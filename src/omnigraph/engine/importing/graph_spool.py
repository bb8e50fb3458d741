"""Sort the nodes and edges of graph files into tables: one for each set of labels, and for each pair of ends of a type.

A file names them in any order, and an edge may come before its ends. Rows wait in one temporary file; of the nodes,
only the ids stay in memory, by which edges find their ends.
"""

import json
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

from omnigraph.engine.decoding.input_files import FileDamagedError
from omnigraph.engine.importing.source_tables import ForeignKey, Row, SourceTable

NODE, EDGE = "Node", "Edge"
"""The tables of nodes without a label, and of edges without a type."""
_BLOCK_BYTES = 1 << 16


class NodeId(NamedTuple):
    """A node of a file; ids are unique within a space."""

    id: str | int
    space: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphNode:
    """A node as a file has it. `place` is its line, or its number."""

    place: int
    id: NodeId
    id_name: str = "id"
    """What the file calls its ids."""
    labels: Sequence[str] = ()
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphEdge:
    """An edge as a file has it."""

    place: int
    type: str = EDGE
    source: NodeId
    target: NodeId
    values: Mapping[str, Any]


class _Spool:
    """Rows in a temporary file that has no name; each table has a list of blocks in it."""

    def __init__(self) -> None:
        self._file = cast("BinaryIO", tempfile.TemporaryFile())  # noqa: SIM115 - it lives as long as its tables
        self._end = 0
        weakref.finalize(self, self._file.close)

    def append(self, data: bytes) -> tuple[int, int]:
        """Write a block; return its place."""
        self._file.seek(self._end)
        self._file.write(data)
        place = (self._end, len(data))
        self._end += len(data)
        return place

    def read(self, place: tuple[int, int]) -> bytes:
        """Return a block."""
        self._file.seek(place[0])
        return self._file.read(place[1])


@dataclass(slots=True)
class _Rows:
    """The rows of one table: the places in the file, then lists of what stands first and a mapping of values."""

    spool: _Spool
    names: dict[str, None] = field(default_factory=dict)
    count: int = 0
    id_names: set[str] = field(default_factory=set)
    _blocks: list[tuple[int, int]] = field(default_factory=list)
    _buffer: bytearray = field(default_factory=bytearray)

    def add(self, place: int, first: Sequence[object], values: Mapping[str, Any]) -> None:
        """Add a row."""
        self.count += 1
        self.names.update(dict.fromkeys(values))
        self._buffer += json.dumps((place, first, values), ensure_ascii=False).encode(errors="surrogatepass") + b"\n"
        if len(self._buffer) > _BLOCK_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._buffer:
            self._blocks.append(self.spool.append(bytes(self._buffer)))
            self._buffer.clear()

    def read(self) -> Iterator[tuple[int, list[Any], dict[str, Any]]]:
        """Yield the rows, as often as asked."""
        self._flush()
        for block in self._blocks:
            for line in self.spool.read(block).splitlines():
                place, first, values = json.loads(line)
                yield place, first, values


class GraphTables:
    """The tables of some graph files whose edges may lead from one file to another."""

    def __init__(self, unit: str) -> None:
        self._unit = unit
        self._spool = _Spool()
        self._nodes: dict[tuple[Path, str], _Rows] = {}
        self._edges: dict[tuple[Path, str, str, str], _Rows] = {}
        # Of each space, the table of each node.
        self._tables: dict[str, dict[str, str]] = {}
        self._label_sets: dict[str, tuple[str, ...]] = {}
        # Whether all ids begin with the label of their node, as in an export of several types: `Person/ada`.
        # Within a type they are unique without it.
        self._is_labelled = False

    def add(self, path: Path, items: Iterable[GraphNode | GraphEdge]) -> None:
        """Add the nodes and edges of a file.

        Raises:
            FileDamagedError: It is not what it should be, or has two nodes of one id.
        """
        for item in items:
            if isinstance(item, GraphNode):
                self._add_node(path, item)
            else:
                key = (path, item.type, item.source.space, item.target.space)
                rows = self._edges.setdefault(key, _Rows(self._spool))
                rows.add(item.place, (item.source.id, item.target.id), item.values)

    def _add_node(self, path: Path, node: GraphNode) -> None:
        labels = tuple(dict.fromkeys(node.labels))
        table = ":".join(labels) or NODE
        self._label_sets[table] = labels
        tables = self._tables.setdefault(node.id.space, {})
        text = str(node.id.id)
        if text in tables:
            raise FileDamagedError(str(path), f"{self._unit} {node.place}: another node has the id `{text}`, too")
        tables[text] = table
        rows = self._nodes.setdefault((path, table), _Rows(self._spool))
        rows.id_names.add(node.id_name)
        rows.add(node.place, (node.id.id,), node.values)

    def build(self) -> list[SourceTable]:
        """Return the tables: nodes by their labels, then edges by their type and ends.

        Raises:
            FileDamagedError: An edge has an end that is none of the nodes.
        """
        self._is_labelled = all(
            not space and text.startswith(f"{table}/")
            for space, tables in self._tables.items()
            for text, table in tables.items()
        )
        counts: dict[str, int] = {}
        for (_, table), rows in self._nodes.items():
            counts[table] = counts.get(table, 0) + rows.count
        nodes = [
            replace(
                _build_table(path, table, rows, self._unit, self._list_prefixes(table)),
                notes=self._describe_labels(table, counts),
            )
            for (path, table), rows in self._nodes.items()
        ]
        by_ends: dict[tuple[Path, str, str | None, str | None], _Rows] = {}
        for (path, type_, source, target), pending in self._edges.items():
            for place, ends, values in pending.read():
                tables = [
                    self._find_end(path, place, end, space) for end, space in zip(ends, (source, target), strict=True)
                ]
                by_ends.setdefault((path, type_, tables[0], tables[1]), _Rows(self._spool)).add(place, ends, values)
        return [*nodes, *self._build_edges(by_ends)]

    def _list_prefixes(self, *tables: str | None) -> tuple[str, ...]:
        """Return what the ids of nodes of some tables begin with, and what is no part of them."""
        return tuple(f"{table}/" if self._is_labelled and table is not None else "" for table in tables)

    def _find_end(self, path: Path, place: int, end: str | int, space: str) -> str | None:
        """Return the table of an end; None if no file has nodes of its space."""
        tables = self._tables.get(space)
        if tables is None and (space or not self._tables):
            return None
        table = (tables or {}).get(str(end))
        if table is None:
            where = f" of the id space `{space}`" if space else ""
            reason = f"{self._unit} {place}: an edge leads to `{end}`, which is no node{where} of the files"
            raise FileDamagedError(str(path), reason)
        return table

    def _describe_labels(self, table: str, counts: Mapping[str, int]) -> tuple[str, ...]:
        labels = self._label_sets[table]
        many = f"{counts[table]:,} node{'' if counts[table] == 1 else 's'}"
        if len(labels) > 1:
            kept = "a type of their own, unless the mapping names another"
            return (f"{many} with the labels {' and '.join(labels)}: {kept}",)
        return (f"{many} without a label",) if not labels and len(counts) > 1 else ()

    def _build_edges(self, by_ends: Mapping[tuple[Path, str, str | None, str | None], _Rows]) -> Iterator[SourceTable]:
        pairs: dict[str, dict[tuple[str | None, str | None], int]] = {}
        for (_, type_, source, target), rows in by_ends.items():
            found = pairs.setdefault(type_, {})
            found[source, target] = found.get((source, target), 0) + rows.count
        for (path, type_, source, target), rows in by_ends.items():
            ends = "" if source is None or target is None else f" ({source} -> {target})"
            prefixes = self._list_prefixes(source, target)
            table = _build_table(path, f"{type_}{ends}", rows, self._unit, prefixes)
            # Names in capitals become those of types: ACTED_IN is ActedIn.
            title = type_.title() if type_.isupper() else type_
            keys = ((column, end) for column, end in (("from", source), ("to", target)) if end is not None)
            is_alone = len(pairs[type_]) == 1
            listed = ", ".join(f"{a} -> {b} ({count:,})" for (a, b), count in pairs[type_].items())
            yield replace(
                table,
                title=title if is_alone else f"{title}{ends}",
                foreign_keys=tuple(ForeignKey(column=column, table=end) for column, end in keys),
                notes=() if is_alone else (f"{type_} has {len(pairs[type_])} pairs of ends: {listed}",),
            )


def _build_table(path: Path, name: str, rows: _Rows, unit: str, prefixes: Sequence[str]) -> SourceTable:
    ids = tuple(rows.id_names) if len(rows.id_names) < 2 else ("id",)
    first = ids or ("from", "to")
    # A property that is called like an id or an end steps aside.
    names = tuple(rows.names)
    columns = first + tuple(f"{name}_" if name in ("id", "from", "to", *first) else name for name in names)

    def read() -> Iterator[Row]:
        for place, ends, values in rows.read():
            texts = (end.removeprefix(prefix) if prefix else end for end, prefix in zip(ends, prefixes, strict=True))
            yield place, (*texts, *(values.get(name) for name in names))

    return SourceTable(
        path=path,
        table=name,
        columns=columns,
        read=read,
        unit=unit,
        primary_key=ids,
        is_graph=True,
        title=name,
    )


def join_parts(tables: Iterable[SourceTable], types: Mapping[str, str]) -> list[SourceTable]:
    """Return tables with the parts of several files together, for a schema that all of them fit.

    Parts are the tables of graphs with the same labels, and files to which `types` gives the same type by their path.
    """
    groups: dict[object, list[SourceTable]] = {}
    for table in tables:
        type_ = types.get(str(table.path))
        file_key = id(table) if type_ is None else (table.table, type_)
        groups.setdefault((table.table, table.primary_key) if table.is_graph else file_key, []).append(table)
    return [group[0] if len(group) == 1 else _join(group) for group in groups.values()]


def _join(parts: Sequence[SourceTable]) -> SourceTable:
    columns = tuple(dict.fromkeys(column for part in parts for column in part.columns))

    def read() -> Iterator[Row]:
        for part in parts:
            places = [part.columns.index(column) if column in part.columns else None for column in columns]
            for line, values in part.read():
                yield line, tuple(None if place is None else values[place] for place in places)

    return replace(parts[0], columns=columns, read=read, parts=tuple(parts))
