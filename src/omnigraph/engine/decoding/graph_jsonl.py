"""The graph JSONL reader: one node or edge per line, decoded strictly into rows per type, in bounded memory.

`{"type":"Person","id":"ada","data":{…}}` is a node, `{"edge":"Knows","from":"ada","to":"bob","data":{…}}` an edge.
Blank lines and lines that start with `//` are skipped; `data` may be omitted if it would be empty. Records in the
format of the older system are accepted too: see `older_export`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import repeat
from operator import attrgetter, is_not
from typing import Any, BinaryIO

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import UNSET, UnsetType

from omnigraph.engine.constraints.record_size import compute_line_limit
from omnigraph.engine.decoding.json_lines import BadJsonError, decode_object, iter_chunks
from omnigraph.engine.decoding.line_blocks import LineBlock, LinePositions, LineSlice, read_line_blocks
from omnigraph.engine.decoding.object_decoder import ObjectDecoder, decode_each, merge_columns
from omnigraph.engine.decoding.older_export import METADATA, describe_export, is_metadata, normalize_columns
from omnigraph.engine.decoding.record_error import FurtherProblem, RecordError, Reject, refuse
from omnigraph.engine.decoding.record_explainer import BadRecordError, RecordValues, explain_graph_line
from omnigraph.engine.decoding.typed_rows import (
    DecodedRows,
    RejectedRecord,
    RowOrigin,
    TypedRows,
    concat_rows,
    decode_rows,
    decode_values,
    list_id_columns,
    validate_rows,
)
from omnigraph.engine.writing.blobs import list_blob_properties
from omnigraph.ids import Ids
from omnigraph.schema.arrow import ID
from omnigraph.schema.catalog import AnyType, Catalog
from omnigraph.storage.blob_sources import NO_SOURCES, BlobSources

WINDOW_ROWS = 65_536
WINDOW_BYTES = 32 * 1024 * 1024


def read_graph_records(  # noqa: PLR0913 - what is read, and how, by name
    source: BinaryIO | Iterable[bytes],
    catalog: Catalog,
    ids: Ids,
    *,
    name: str,
    unit: str = "line",
    is_partial: bool = False,
    blobs: BlobSources = NO_SOURCES,
    reject: Reject = refuse,
    window_rows: int = WINDOW_ROWS,
    window_bytes: int = WINDOW_BYTES,
    is_start: bool = True,
    describe: Callable[[str], None] | None = None,
) -> Iterator[TypedRows]:
    """Read graph JSONL in windows; yield one `TypedRows` per window and type, in order of appearance.

    At most `window_bytes` of text and `window_rows` records are in memory, plus one line. Bad records go to `reject` in
    the order of their lines; by default it raises `RecordError`. `is_partial` and `blobs` as in `RowOrigin`.
    `is_start`: the source is the start of an input, where a line of metadata is allowed; `describe` is called with its
    description.
    """
    origin = RowOrigin(file=name, unit=unit, is_partial=is_partial, blobs=blobs)
    limit = compute_max_line_bytes((*catalog.nodes.values(), *catalog.edges.values()))
    decoders = _DecoderRegistry(catalog)
    for block in read_line_blocks(iter_chunks(source), limit=limit, rows=window_rows, size=window_bytes):
        if is_start:
            is_start = False
            block = _strip_metadata(block, describe)  # noqa: PLW2901 - less of the same
        window = _RecordWindow(catalog, origin, ids, block)
        for number in block.too_long:
            window.refuse(number, b"", None, None, None, f"the line has more than {limit} bytes, the limit of a record")
        for lines in block.split():
            window.read(lines, decoders)
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


# --- records of one type -----------------------------------------------------------------------------

_NO_DATA = msgspec.Raw(b"{}")


class _Record(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """One record, whose properties are not decoded yet: its type says which struct decodes them."""

    type: str | UnsetType = UNSET
    edge: str | UnsetType = UNSET
    id: Any = UNSET
    from_: Any = msgspec.field(name="from", default=UNSET)
    to: Any = UNSET
    data: msgspec.Raw = _NO_DATA


_BLANK = _Record()
_decode_record = msgspec.json.Decoder(_Record).decode
_get_kind = attrgetter("type", "edge")
_get_data = attrgetter("data")
_ID_GETTERS = {"id": attrgetter("id"), "from": attrgetter("from_"), "to": attrgetter("to")}


class _RecordDecoder:
    """The decoder of the records of one type."""

    def __init__(self, type_: AnyType) -> None:
        self.type = type_
        # An `id` in `data` marks a record of the older format.
        self._decoder = ObjectDecoder({name: name for name in (ID, *type_.by_name)})

    def decode(
        self, records: Sequence[_Record], numbers: LinePositions, keys: LinePositions
    ) -> tuple[DecodedRows, npt.NDArray[np.bool_]]:
        """Decode the records; return the rows of those that are right, and a mask of them."""
        data = list(map(_get_data, records))
        columns, failed = self._decoder.decode(data)
        inner_ids = columns[ID]
        for name in list_id_columns(self.type):
            columns[name] = list(map(_ID_GETTERS[name], records))
        if set(map(type, inner_ids)) != {UnsetType}:
            columns[ID] = merge_columns(columns[ID], inner_ids)
            normalize_columns(self.type, columns, [value is not UNSET for value in inner_ids])
        rows = decode_rows(self.type, numbers, columns)
        # A key that is there twice is one more than there are values. Those of the type and of `data` have no column.
        has_data = np.fromiter(map(is_not, data, repeat(_NO_DATA)), bool, len(data))
        is_right = rows.count_values() + has_data + 1 == keys
        is_right[failed] = False
        return rows.filter(is_right), is_right


class _DecoderRegistry:
    """The decoders of the types that occurred."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._decoders: dict[str, _RecordDecoder] = {}

    def find(self, type_name: str | UnsetType, edge_name: str | UnsetType) -> _RecordDecoder | None:
        """Return the decoder of records with these fields `type` and `edge`, or None if there is no such type."""
        type_: AnyType | None = None
        if isinstance(type_name, str) and edge_name is UNSET:
            type_ = self._catalog.nodes.get(type_name)
        elif isinstance(edge_name, str) and type_name is UNSET:
            type_ = self._catalog.find_edge(edge_name)
        if type_ is None:
            return None
        if type_.name not in self._decoders:
            self._decoders[type_.name] = _RecordDecoder(type_)
        return self._decoders[type_.name]


# --- records of one window ---------------------------------------------------------------------------


class _RecordWindow:
    """The records of one block of lines, by type."""

    def __init__(self, catalog: Catalog, origin: RowOrigin, ids: Ids, block: LineBlock) -> None:
        self._catalog = catalog
        self._origin = origin
        self._ids = ids
        self._block = block
        self._types: dict[str, AnyType] = {}
        self._first: dict[str, int] = {}
        self._parts: dict[str, list[DecodedRows]] = {}
        self._rejected: list[RejectedRecord] = []

    def read(self, lines: LineSlice, decoders: _DecoderRegistry) -> None:
        """Decode some lines."""
        records, _ = decode_each(_decode_record, lines.lines, _BLANK)
        kinds: dict[tuple[str | UnsetType, str | UnsetType], list[int]] = {}
        for row, kind in enumerate(map(_get_kind, records)):
            kinds.setdefault(kind, []).append(row)
        # An edge type may be written in any case, so several kinds may be of one type.
        groups: dict[_RecordDecoder, list[int]] = {}
        for kind, rows in kinds.items():
            decoder = decoders.find(*kind)
            if decoder is not None:
                groups.setdefault(decoder, []).extend(rows)
        is_left = np.ones(len(records), bool)
        for decoder, rows in groups.items():
            rows.sort()
            part, is_right = decoder.decode([records[row] for row in rows], lines.numbers[rows], lines.keys[rows])
            is_left[rows] = ~is_right
            if len(part.lines):
                self._note_type(int(part.lines[0]), decoder.type)
                self._add(decoder.type, part)
        self._explain(lines, np.flatnonzero(is_left))

    def _explain(self, lines: LineSlice, rows: LinePositions) -> None:
        """Decode these lines individually, or record why each is rejected."""
        explained: dict[str, tuple[list[int], list[RecordValues]]] = {}
        for row in rows.tolist():
            line, number = lines.lines[row], int(lines.numbers[row])
            try:
                type_, values = explain_graph_line(line, self._catalog, partial(self._note_type, number))
            except BadRecordError as error:
                self.refuse(number, line, *error.args, more=error.find_more(self._origin))
                continue
            numbers, records = explained.setdefault(type_.name, ([], []))
            numbers.append(number)
            records.append(values)
        for name, (numbers, records) in explained.items():
            self._add(self._types[name], decode_values(self._types[name], numbers, records))

    def refuse(
        self,
        number: int,
        text: bytes,
        type_: str | None,
        name: str | None,
        value: str | None,
        reason: str,
        *,
        more: Iterable[FurtherProblem] = (),
    ) -> None:
        """Record a bad record for the next flush."""
        self._rejected.append(
            (
                RecordError(self._origin.file, number, type_, name, value, reason, self._origin.unit).with_more(more),
                text,
            )
        )

    def flush(self, reject: Reject) -> Iterator[TypedRows]:
        """Pass the bad records to `reject` by line, then yield the rows by the line where their type first occurred."""
        finished: list[TypedRows] = []
        rejected = self._rejected
        for name in sorted(self._parts, key=self._first.__getitem__):
            rows, wrong = validate_rows(
                self._types[name],
                concat_rows(self._parts[name]),
                self._origin,
                self._ids,
                self._block.get_line_by_number,
            )
            finished.append(rows)
            rejected += wrong
        for error, text in sorted(rejected, key=lambda one: one[0].line):
            reject(error, text)
        yield from (rows for rows in finished if rows.rows.num_rows)

    def _add(self, type_: AnyType, rows: DecodedRows) -> None:
        self._parts.setdefault(type_.name, []).append(rows)

    def _note_type(self, number: int, type_: AnyType) -> None:
        self._types[type_.name] = type_
        self._first[type_.name] = min(number, self._first.get(type_.name, number))
