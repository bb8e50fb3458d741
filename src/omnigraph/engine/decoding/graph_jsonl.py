"""The graph JSONL reader: one node or edge per line, decoded strictly into rows per type, in bounded memory.

`{"type":"Person","id":"ada","data":{…}}` is a node, `{"edge":"Knows","from":"ada","to":"bob","data":{…}}` an edge.
Blank lines and lines that start with `//` are skipped; `data` may be omitted if it would be empty. Records in the
format of the older system are accepted too: see `older_export`.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.constraints.record_size import MAX_RECORD_BYTES, compute_line_limit
from omnigraph.engine.decoding.fast_columns import choose_json_type, decode_fast_column
from omnigraph.engine.decoding.json_columns import Doubts, FastTable, read_fast
from omnigraph.engine.decoding.json_lines import BadJsonError, decode_object, find_bad_number, iter_chunks
from omnigraph.engine.decoding.line_blocks import PADDING, LineBlock, LinePositions, read_line_blocks
from omnigraph.engine.decoding.older_export import (
    METADATA,
    describe_export,
    infer_older_data_type,
    is_metadata,
    normalize_column,
    normalize_data,
)
from omnigraph.engine.decoding.record_error import RecordError, Reject, refuse
from omnigraph.engine.decoding.typed_rows import (
    ABSENT,
    FROM,
    TO,
    DecodedColumn,
    DecodedRows,
    RejectedRecord,
    RowOrigin,
    TypedRows,
    build_default_column,
    concat_rows,
    decode_ids,
    decode_property,
    list_id_columns,
    replace_values,
    validate_rows,
)
from omnigraph.engine.writing.blobs import list_blob_properties
from omnigraph.ids import Ids
from omnigraph.lang.spelling import find_closest
from omnigraph.schema.arrow import ID
from omnigraph.schema.catalog import AnyType, Catalog, EdgeType, Property
from omnigraph.schema.values import format_value
from omnigraph.storage.blob_sources import NO_SOURCES, BlobSources

DATA = "data"

# If Arrow can't read some lines, more than this number are split to isolate the bad ones; fewer are decoded strictly.
_MIN_SPLIT_LINES = 128
_SPLIT_FACTOR = 8
# The limit of different line starts in one block; the lines of any others are decoded strictly.
_MAX_LINE_STARTS = 512
_START = re.compile(rb'\{"(type|edge)": ?"([A-Za-z0-9_]{1,255})"')
_GUESS = r'(?P<found>"(?:type|edge)": ?"[A-Za-z0-9_]{1,255}")'
_WORD_BYTES = 8
_KIND_WORDS = tuple(int.from_bytes(start, "little") for start in (b'{"type":', b'{"edge":'))


@dataclass(frozen=True, slots=True)
class RecordShape:
    """The layout of the records of a type: the schema for Arrow's reader, and the names of fields and properties.

    With `guess`, a column and its text, rows where that column holds another text are ambiguous. `is_older` marks the
    format of `older_export`: the id in `data`, and other spellings.
    """

    type: AnyType
    schema: pa.Schema
    names: Mapping[str, Sequence[str]]
    guess: tuple[str, str] | None = None
    is_older: bool = False

    @property
    def has_data(self) -> bool:
        """Whether the properties are a nested object."""
        return DATA in self.schema.names and bool(pa.types.is_struct(self.schema.field(DATA).type))


def build_graph_shape(type_: AnyType) -> RecordShape:
    """Build the layout of graph JSONL, whose properties are a nested object."""
    kind = "edge" if isinstance(type_, EdgeType) else "type"
    data = pa.struct([(p.name, choose_json_type(p.type)) for p in type_.properties])
    own = [(name, pa.utf8()) for name in (kind, *list_id_columns(type_))]
    names = {name: (name,) for name in (*list_id_columns(type_), *type_.by_name)}
    return RecordShape(type_, pa.schema([*own, (DATA, data)]), names)


def _fit_shape(shape: RecordShape, line: bytes) -> RecordShape:
    """Return the shape that a line has: the given one, or the older form of it."""
    data = infer_older_data_type(shape.type, line) if shape.has_data else None
    if data is None:
        return shape
    own = [field for field in shape.schema if field.name not in (ID, DATA)]
    return replace(shape, schema=pa.schema([*own, (DATA, data)]), is_older=True)


def build_flat_shape(type_: AnyType, targets: Mapping[str, str]) -> RecordShape:
    """Build the layout of flat objects; `targets` maps each name to what it holds."""
    names: dict[str, list[str]] = {}
    for name, target in targets.items():
        names.setdefault(target, []).append(name)
    kinds = {p.name: choose_json_type(p.type) for p in type_.properties}
    schema = pa.schema([(name, kinds.get(target, pa.utf8())) for name, target in targets.items()])
    return RecordShape(type_, schema, names)


@dataclass(frozen=True, slots=True)
class FastRows:
    """Rows of one type from the fast path, which `validate_rows` still checks; `first` is their first line."""

    type: AnyType
    first: int
    read: DecodedRows


def read_graph_block(block: LineBlock, catalog: Catalog) -> tuple[list[FastRows], LinePositions]:
    """Read the lines that the fast path can, and return the positions of the others, in order."""
    groups: list[FastRows] = []
    is_left = np.zeros(len(block.offsets), bool)
    is_left[block.chosen] = True
    whole = block.find_whole(block.chosen)
    for shape, positions in chain(_group_by_start(block, whole, catalog), _group_by_guess(block, whole, catalog)):
        for rows, done in _iter_chunks(shape, block, positions[is_left[positions]]):
            groups.append(FastRows(shape.type, int(block.to_numbers(done)[0]), rows))
            is_left[done] = False
    return groups, np.flatnonzero(is_left)


# --- which lines are of which type -------------------------------------------------------------------


def _group_by_start(
    block: LineBlock, whole: LinePositions, catalog: Catalog
) -> Iterator[tuple[RecordShape, LinePositions]]:
    """Yield the lines that start with their type, by type."""
    words = np.ndarray((len(block.data) - _WORD_BYTES + 1,), "<u8", block.data, strides=(1,))
    left = whole[np.isin(words[block.offsets[whole]], _KIND_WORDS)]
    groups: dict[str, tuple[AnyType, list[LinePositions]]] = {}
    for _ in range(_MAX_LINE_STARTS):
        if not len(left):
            break
        place = int(block.offsets[left[0]])
        start = _START.match(block.data, place, place + PADDING - _WORD_BYTES)
        if start is None:
            left = left[1:]
            continue
        has_it = _match_start(words, block.offsets[left], start[0])
        type_ = _find_type(start[1].decode(), start[2].decode(), catalog)
        if type_ is not None and DATA not in type_.by_name:
            groups.setdefault(type_.name, (type_, []))[1].append(left[has_it])
        left = left[~has_it]
    for type_, parts in groups.values():
        yield build_graph_shape(type_), parts[0] if len(parts) == 1 else np.sort(np.concatenate(parts))


def _match_start(words: np.ndarray[tuple[int], np.dtype[np.uint64]], places: LinePositions, start: bytes) -> Doubts:
    """Return a mask of the lines at these offsets that start with these bytes."""
    has_it = np.ones(len(places), bool)
    for at in range(0, len(start), _WORD_BYTES):
        part = start[at : at + _WORD_BYTES]
        mask = np.uint64((1 << 8 * len(part)) - 1)
        has_it &= (words[places + at] & mask) == np.uint64(int.from_bytes(part, "little"))
    return has_it


def _group_by_guess(
    block: LineBlock, whole: LinePositions, catalog: Catalog
) -> Iterator[tuple[RecordShape, LinePositions]]:
    """Yield the lines that name their type later, by type: it is guessed here, and compared once the line is parsed."""
    words = np.ndarray((len(block.data) - _WORD_BYTES + 1,), "<u8", block.data, strides=(1,))
    left = whole[~np.isin(words[block.offsets[whole]], _KIND_WORDS)]
    if not len(left):
        return
    found = pc.extract_regex(block.select(left).to_array(), _GUESS).field("found").dictionary_encode()
    codes = found.indices.to_numpy()
    for code, guess in enumerate(found.dictionary[:_MAX_LINE_STARTS].to_pylist()):
        if not guess:
            # These lines name no type at all.
            continue
        kind, name = guess.decode().split('"')[1::2]
        type_ = _find_type(kind, name, catalog)
        if type_ is not None and DATA not in type_.by_name and kind not in type_.by_name:
            yield replace(build_graph_shape(type_), guess=(kind, name)), left[codes == code]


def _find_type(kind: str, name: str, catalog: Catalog) -> AnyType | None:
    return catalog.nodes.get(name) if kind == "type" else catalog.find_edge(name)


# --- rows --------------------------------------------------------------------------------------------


def read_flat_block(block: LineBlock, shape: RecordShape) -> tuple[list[DecodedRows], LinePositions]:
    """Read lines of one layout that the fast path can, and return the positions of the others, in order."""
    chunks: list[DecodedRows] = []
    is_left = np.zeros(len(block.offsets), bool)
    is_left[block.chosen] = True
    for rows, done in _iter_chunks(shape, block, block.find_whole(block.chosen)):
        chunks.append(rows)
        is_left[done] = False
    return chunks, np.flatnonzero(is_left)


def _iter_chunks(
    shape: RecordShape, block: LineBlock, positions: LinePositions
) -> Iterator[tuple[DecodedRows, LinePositions]]:
    """Yield the unambiguous rows of these lines with their positions; in smaller chunks where Arrow can't read some."""
    if not len(positions):
        return
    # Each chunk is read by the layout of its first line: a file may hold records of both formats, one after the other.
    fitted = _fit_shape(shape, block.get_line(int(positions[0])))
    table = read_fast(block, positions, fitted.schema)
    if table is not None:
        rows, is_sure = _build_rows(fitted, table, block.to_numbers(positions))
        if len(rows.lines):
            yield rows, positions[is_sure]
    elif len(positions) > _MIN_SPLIT_LINES:
        for piece in np.array_split(positions, _SPLIT_FACTOR):
            yield from _iter_chunks(shape, block, piece)


def _build_rows(shape: RecordShape, table: FastTable, lines: LinePositions) -> tuple[DecodedRows, Doubts]:
    type_, doubts = shape.type, table.doubts
    if shape.guess is not None:
        kind, name = shape.guess
        doubts = doubts | ~_to_flags(pc.fill_null(pc.equal(table.columns[kind], name), fill_value=False))
    columns: dict[str, DecodedColumn] = {}
    for name in list_id_columns(type_):
        array, left_out, doubts = _select_column(shape.names[name], table, doubts)
        columns[name] = DecodedColumn(array=array, left_out=left_out)
    if shape.has_data:
        doubts = doubts | _find_explicit_nulls(table, DATA)
    for p in type_.properties:
        array, left_out, doubts = _select_column(shape.names[p.name], table, doubts)
        if shape.is_older:
            array, wrong = normalize_column(p.type, array)
            doubts = doubts if wrong is None else doubts | wrong
        filled, wrong = decode_fast_column(p, array)
        columns[p.name] = _fill_defaults(p, filled, left_out)
        if wrong is not None:
            doubts = doubts | wrong
    rows = DecodedRows(lines=lines, columns=columns)
    return (rows.filter(~doubts) if doubts.any() else rows), ~doubts


def _select_column(names: Sequence[str], table: FastTable, doubts: Doubts) -> tuple[pa.Array, pa.Array | None, Doubts]:
    """Select the column that has one of several names; rows with a second of these names are ambiguous."""
    used = next((name for name in names if table.columns[name].null_count < len(doubts)), names[0])
    for name in names:
        if name != used:
            doubts = doubts | ~_find_absent(table, name)
    return table.columns[used], table.left_out.get(used), doubts


def _find_explicit_nulls(table: FastTable, name: str) -> Doubts:
    return _to_flags(table.columns[name].is_null()) & ~_find_absent(table, name)


def _find_absent(table: FastTable, name: str) -> Doubts:
    left_out = table.left_out.get(name)
    return np.zeros(len(table.doubts), bool) if left_out is None else _to_flags(left_out)


def _to_flags(mask: pa.Array) -> Doubts:
    flags: Doubts = mask.to_numpy(zero_copy_only=False)
    return flags


def _fill_defaults(p: Property, filled: DecodedColumn, left_out: pa.Array | None) -> DecodedColumn:
    if left_out is None:
        return filled
    array = filled.array
    if p.has_default and p.default is not None:
        array = replace_values(array, _to_flags(left_out), build_default_column(p, left_out.true_count))
    return DecodedColumn(array=array, misfits=filled.misfits, left_out=left_out)


WINDOW_ROWS = 65_536
WINDOW_BYTES = 32 * 1024 * 1024
MAX_LINE_BYTES = MAX_RECORD_BYTES

_NODE_FIELDS = frozenset({"type", "id", "data"})
_EDGE_FIELDS = frozenset({"edge", "id", FROM, TO, "data"})


class _BadRecordError(Exception):
    """The reason for rejecting one record: type, property, value, reason."""


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
    """Read graph JSONL in windows; yield one `TypedRows` per window and type, in order of appearance.

    At most `window_bytes` of text and `window_rows` records are in memory, plus one line. Bad records go to `reject` in
    the order of their lines; by default it raises `RecordError`. `is_partial` and `blobs` as in `RowOrigin`.
    `is_strict` decodes every line individually, which is slower and gives the same rows. `is_start`: the source is the
    start of an input, where a line of metadata is allowed; `describe` is called with its description.
    """
    origin = RowOrigin(file=name, is_partial=is_partial, blobs=blobs)
    limit = compute_max_line_bytes((*catalog.nodes.values(), *catalog.edges.values()))
    for block in read_line_blocks(iter_chunks(source), limit=limit, rows=window_rows, size=window_bytes):
        if is_start:
            is_start = False
            block = _strip_metadata(block, describe)  # noqa: PLW2901 - less of the same
        window = _RecordWindow(catalog, origin, ids, block)
        for number in block.too_long:
            window.refuse(number, b"", None, None, None, f"the line has more than {limit} bytes, the limit of a record")
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
        # The line is rejected like any other.
        return block
    if not is_metadata(metadata):
        return block
    if describe is not None:
        describe(describe_export(metadata))
    return replace(block, chosen=block.chosen[1:])


def compute_max_line_bytes(types: Iterable[AnyType]) -> int:
    """Compute the maximum length of a line of these types; it is larger if a type has Blobs."""
    return compute_line_limit(max((len(list_blob_properties(type_)) for type_ in types), default=0))


@dataclass(slots=True)
class PendingRecords:
    """Records of one type whose values are not decoded yet: line numbers, ids and ends, properties."""

    type: AnyType
    property_names: frozenset[str]
    lines: list[int] = field(default_factory=list)
    id_values: dict[str, list[object]] = field(default_factory=dict)
    data: list[dict[str, object]] = field(default_factory=list)

    def add(self, number: int, record: dict[str, object], data: dict[str, object]) -> None:
        """Add one record: the object with its ids, and the object with its properties."""
        self.lines.append(number)
        for name in list_id_columns(self.type):
            self.id_values.setdefault(name, []).append(record.get(name, ABSENT))
        self.data.append(data)

    def read(self) -> DecodedRows:
        """Decode the records into rows."""
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
    """Return the first name that the type does not have, and a message about it."""
    name = next(name for name in names if name not in type_.by_name)
    return name, f"unknown property {format_value(name)} of `{type_.name}`{_format_hint(name, type_.by_name)}"


def _format_hint(word: str, known: Iterable[str]) -> str:
    near = find_closest(word, known)
    return f"; did you mean `{near}`?" if near else ""


class _RecordWindow:
    """The records of one block of lines, by type."""

    def __init__(self, catalog: Catalog, origin: RowOrigin, ids: Ids, block: LineBlock) -> None:
        self._catalog = catalog
        self._origin = origin
        self._ids = ids
        self._block = block
        self._pending: dict[str, PendingRecords] = {}
        self._types: dict[str, AnyType] = {}
        self._first: dict[str, int] = {}
        self._fast: dict[str, list[DecodedRows]] = {}
        self._rejected: list[RejectedRecord] = []

    def read_all(self, *, is_strict: bool) -> None:
        """Read every line, by the fast path if possible and individually otherwise."""
        rest = self._block.chosen
        if not is_strict:
            found, rest = read_graph_block(self._block, self._catalog)
            for rows in found:
                self._note_type(rows.type, rows.first)
                self._fast.setdefault(rows.type.name, []).append(rows.read)
        for position in rest.tolist():
            self.add(self._block.first + position, self._block.get_line(position))

    def add(self, number: int, line: bytes) -> None:
        """Decode one line, or record why it is rejected."""
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
        """Return type, property and value of an invalid number; three times None for any other fault."""
        if error.number is None:
            return None, None, None
        try:
            record, name = find_bad_number(line, "data")
            type_ = self._find_pending(record).type.name
        except (ValueError, AttributeError, RecursionError, BadJsonError, _BadRecordError):
            # The line has a second fault after the number.
            return None, None, error.number
        return type_, name, error.number

    def refuse(
        self, number: int, text: bytes, type_: str | None, name: str | None, value: str | None, reason: str
    ) -> None:
        """Record a bad record for the next flush."""
        self._rejected.append((RecordError(self._origin.file, number, type_, name, value, reason), text))

    def flush(self, reject: Reject) -> Iterator[TypedRows]:
        """Pass the bad records to `reject` by line, then yield the rows by the line where their type first occurred."""
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
