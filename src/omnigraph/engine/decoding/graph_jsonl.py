"""Graph JSONL: one node or edge a line, decoded strictly into rows per type, in bounded memory.

`{"type":"Person","id":"ada","data":{…}}` is a node, `{"edge":"Knows","from":"ada","to":"bob","data":{…}}` an edge.
Blank lines and lines that start with `//` are skipped; `data` may be left out when it would be empty. Records in the
shape of the older system are taken, too: see `older_export`.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import BinaryIO

import numpy as np

from omnigraph.engine.decoding.fast_records import read_graph_block
from omnigraph.engine.decoding.json_lines import BadJsonError, decode_object, find_bad_number, iter_chunks
from omnigraph.engine.decoding.line_blocks import LineBlock, read_line_blocks
from omnigraph.engine.decoding.older_export import METADATA, describe_export, is_metadata, normalize_data
from omnigraph.engine.decoding.record_error import RecordError, Reject, refuse
from omnigraph.engine.decoding.typed_rows import (
    ABSENT,
    FROM,
    TO,
    DecodedRows,
    RejectedRecord,
    RowOrigin,
    TypedRows,
    concat_rows,
    decode_ids,
    decode_property,
    list_id_columns,
    validate_rows,
)
from omnigraph.engine.writing.blobs import list_blob_properties
from omnigraph.engine.writing.record_size import MAX_RECORD_BYTES, compute_line_limit
from omnigraph.ids import Ids
from omnigraph.lang.spelling import find_closest
from omnigraph.schema.arrow import ID
from omnigraph.schema.catalog import AnyType, Catalog, EdgeType
from omnigraph.schema.misfit import format_value
from omnigraph.storage.blob_sources import NO_SOURCES, BlobSources

WINDOW_ROWS = 65_536
WINDOW_BYTES = 32 * 1024 * 1024
MAX_LINE_BYTES = MAX_RECORD_BYTES

_NODE_FIELDS = frozenset({"type", "id", "data"})
_EDGE_FIELDS = frozenset({"edge", "id", FROM, TO, "data"})


class _BadRecordError(Exception):
    """Why one record is refused: type, property, value, reason."""


def read_graph_records(  # noqa: PLR0913 - what is read, and how, by name
    source: BinaryIO | Iterable[bytes],
    catalog: Catalog,
    ids: Ids,
    *,
    name: str,
    is_partial: bool = False,
    blobs: BlobSources = NO_SOURCES,
    reject: Reject = refuse,
    window_rows: int = WINDOW_ROWS,
    window_bytes: int = WINDOW_BYTES,
    is_strict: bool = False,
    is_start: bool = True,
    describe: Callable[[str], None] | None = None,
) -> Iterator[TypedRows]:
    """The rows of a graph JSONL, in windows: of each, one `TypedRows` per type that it has, in order of appearance.

    At most `window_bytes` of text and `window_rows` records are held, and one line more. A bad record goes to
    `reject`, in the order of the lines; by default that raises RecordError. `is_partial` and `blobs` as in
    `RowOrigin`. `is_strict` reads every line by itself, which takes longer and gives the same. `is_start` says that the
    source begins where its input does: only there may a line of metadata stand, and `describe` is called with what it
    says.
    """
    origin = RowOrigin(file=name, is_partial=is_partial, blobs=blobs)
    limit = compute_max_line_bytes((*catalog.nodes.values(), *catalog.edges.values()))
    for block in read_line_blocks(iter_chunks(source), limit=limit, rows=window_rows, size=window_bytes):
        if is_start:
            is_start = False
            block = _strip_metadata(block, describe)  # noqa: PLW2901 - less of the same
        window = _RecordWindow(catalog, origin, ids, block)
        for number in block.too_long:
            window.refuse(number, b"", None, None, None, f"the line has more than {limit} bytes, the most for a record")
        window.read_all(is_strict=is_strict)
        yield from window.flush(reject)


def _strip_metadata(block: LineBlock, describe: Callable[[str], None] | None) -> LineBlock:
    """Return the first block of an input without the line of metadata that it may start with."""
    line = block.get_line(0) if len(block.chosen) and not block.chosen[0] else b""
    if not METADATA.match(line):
        return block
    try:
        metadata = decode_object(line)
    except BadJsonError:
        return block  # it is refused like any other line
    if not is_metadata(metadata):
        return block
    if describe is not None:
        describe(describe_export(metadata))
    return replace(block, chosen=block.chosen[1:])


def compute_max_line_bytes(types: Iterable[AnyType]) -> int:
    """How long the line of a record of these types may be: longer where one may hold a Blob."""
    return compute_line_limit(max((len(list_blob_properties(type_)) for type_ in types), default=0))


@dataclass(slots=True)
class PendingRecords:
    """Records of one type whose values have not been looked at yet: their lines, ids and ends, and properties."""

    type: AnyType
    property_names: frozenset[str]
    lines: list[int] = field(default_factory=list)
    id_values: dict[str, list[object]] = field(default_factory=dict)
    data: list[dict[str, object]] = field(default_factory=list)

    def add(self, number: int, record: dict[str, object], data: dict[str, object]) -> None:
        """Take one record: the object that has its ids, and the object that has its properties."""
        self.lines.append(number)
        for name in list_id_columns(self.type):
            self.id_values.setdefault(name, []).append(record.get(name, ABSENT))
        self.data.append(data)

    def read(self) -> DecodedRows:
        """The rows."""
        data = self.data
        columns = {name: decode_ids(self.id_values.get(name, [])) for name in list_id_columns(self.type)}
        for p in self.type.properties:
            name = p.name
            columns[name] = decode_property(p, [one.get(name, ABSENT) for one in data])
        return DecodedRows(lines=np.array(self.lines, np.int64), columns=columns)


def _read_parts(record: dict[str, object], pending: PendingRecords) -> tuple[dict[str, object], dict[str, object]]:
    """Return the object that has the ids of a record, and the object that has its properties."""
    data = record.get("data")
    if type(data) is not dict:
        if "data" not in record:
            return record, {}
        reason = f"`data` is an object of properties, not {format_value(data)}"
        raise _BadRecordError(pending.type.name, None, format_value(data), reason)
    if ID in data:
        if ID in record and record[ID] != data[ID]:
            reason = f"the id is {format_value(record[ID])}, and in `data` it is {format_value(data[ID])}; give it once"
            raise _BadRecordError(pending.type.name, ID, format_value(data[ID]), reason)
        record, data = {**record, ID: data[ID]}, normalize_data(pending.type, data)
    if not data.keys() <= pending.property_names:
        wrong, reason = describe_unknown_property(pending.type, data)
        raise _BadRecordError(pending.type.name, wrong, format_value(data[wrong]), reason)
    return record, data


def describe_unknown_property(type_: AnyType, names: Iterable[str]) -> tuple[str, str]:
    """The first name that the type does not have, and what to say of it."""
    name = next(name for name in names if name not in type_.by_name)
    return name, f"unknown property {format_value(name)} of `{type_.name}`{_format_hint(name, type_.by_name)}"


def _format_hint(word: str, known: Iterable[str]) -> str:
    near = find_closest(word, known)
    return f"; did you mean `{near}`?" if near else ""


class _RecordWindow:
    """The records of one block of lines, by type."""

    def __init__(self, catalog: Catalog, origin: RowOrigin, ids: Ids, block: LineBlock) -> None:
        self._catalog, self._origin, self._ids, self._block = catalog, origin, ids, block
        self._pending: dict[str, PendingRecords] = {}
        self._types: dict[str, AnyType] = {}
        self._first: dict[str, int] = {}
        self._fast: dict[str, list[DecodedRows]] = {}
        self._rejected: list[RejectedRecord] = []

    def read_all(self, *, is_strict: bool) -> None:
        """Read every line: quickly where that is beyond doubt, and otherwise one by one."""
        rest = self._block.chosen
        if not is_strict:
            found, rest = read_graph_block(self._block, self._catalog)
            for rows in found:
                self._note_type(rows.type, rows.first)
                self._fast.setdefault(rows.type.name, []).append(rows.read)
        for position in rest.tolist():
            self.add(self._block.first + position, self._block.get_line(position))

    def add(self, number: int, line: bytes) -> None:
        """Take one line."""
        try:
            record = decode_object(line, "data")
            pending = self._find_pending(record)
            self._note_type(pending.type, number)
            record, data = _read_parts(record, pending)
        except BadJsonError as error:
            self.refuse(number, line, *self._locate_bad_number(line, error), str(error))
            return
        except _BadRecordError as error:
            self.refuse(number, line, *error.args)
            return
        pending.add(number, record, data)

    def _locate_bad_number(self, line: bytes, error: BadJsonError) -> tuple[str | None, str | None, str | None]:
        """Type, property and value of a number that is none; of any other fault there is nothing to say."""
        if error.number is None:
            return None, None, None
        try:
            record, name = find_bad_number(line, "data")
            type_ = self._find_pending(record).type.name
        except (ValueError, AttributeError, RecursionError, BadJsonError, _BadRecordError):
            return None, None, error.number  # the line has another fault too, further on
        return type_, name, error.number

    def refuse(
        self, number: int, text: bytes, type_: str | None, name: str | None, value: str | None, reason: str
    ) -> None:
        """Keep a bad record for the next flush."""
        self._rejected.append((RecordError(self._origin.file, number, type_, name, value, reason), text))

    def flush(self, reject: Reject) -> Iterator[TypedRows]:
        """First what is wrong, by line, then the rows, by the line where their type first came."""
        finished: list[TypedRows] = []
        rejected = self._rejected
        for name in sorted(self._first, key=self._first.__getitem__):
            parts = self._fast.get(name, [])
            if name in self._pending:
                parts = [*parts, self._pending[name].read()]
            if parts:
                rows, wrong = validate_rows(
                    self._types[name], concat_rows(parts), self._origin, self._ids, self._block.get_line_by_number
                )
                finished.append(rows)
                rejected += wrong
        for error, text in sorted(rejected, key=lambda one: one[0].line):
            reject(error, text)
        yield from (rows for rows in finished if rows.rows.num_rows)

    def _note_type(self, type_: AnyType, number: int) -> None:
        self._types[type_.name] = type_
        self._first[type_.name] = min(number, self._first.get(type_.name, number))

    def _find_pending(self, record: dict[str, object]) -> PendingRecords:
        if is_metadata(record):
            raise _BadRecordError(None, None, None, "metadata may only be the first line of an input")
        if ("type" in record) == ("edge" in record):
            reason = "a record has exactly one of `type` (a node) and `edge`"
            raise _BadRecordError(None, None, None, reason)
        is_edge = "edge" in record
        name = record["edge" if is_edge else "type"]
        pending = self._pending.get(name) if type(name) is str else None
        if pending is None or isinstance(pending.type, EdgeType) != is_edge:
            type_ = self._find_edge_type(name) if is_edge else self._find_node_type(name)
            pending = self._pending.get(type_.name)
            if pending is None:
                pending = self._pending[type_.name] = PendingRecords(type_, frozenset(type_.by_name))
        fields = _EDGE_FIELDS if is_edge else _NODE_FIELDS
        if not record.keys() <= fields:
            wrong = next(key for key in record if key not in fields)
            what = "an edge" if is_edge else "a node"
            inside = "; properties go into `data`" if wrong in pending.property_names else _format_hint(wrong, fields)
            reason = f"{what} has no field {format_value(wrong)}{inside}"
            raise _BadRecordError(pending.type.name, None, format_value(record[wrong]), reason)
        return pending

    def _find_node_type(self, name: object) -> AnyType:
        if isinstance(name, str) and (found := self._catalog.nodes.get(name)):
            return found
        if isinstance(name, str) and name in self._catalog.edges:
            reason = f"`{name}` is an edge type; write `edge`, `from` and `to`"
        else:
            reason = _describe_unknown("node", name, self._catalog.nodes)
        raise _BadRecordError(None, None, format_value(name), reason)

    def _find_edge_type(self, name: object) -> AnyType:
        if isinstance(name, str) and (found := self._catalog.find_edge(name)):
            return found
        if isinstance(name, str) and name in self._catalog.nodes:
            reason = f"`{name}` is a node type; write `type`"
        else:
            reason = _describe_unknown("edge", name, self._catalog.edges)
        raise _BadRecordError(None, None, format_value(name), reason)


def _describe_unknown(kind: str, name: object, known: Iterable[str]) -> str:
    if not isinstance(name, str):
        return f"the name of {'an' if kind == 'edge' else 'a'} {kind} type is a string, not {format_value(name)}"
    return f"unknown {kind} type {format_value(name)}{_format_hint(name, known)}"
