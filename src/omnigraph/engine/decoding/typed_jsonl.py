"""The reader of JSONL of one type: one object per line, with properties and ids side by side."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from omnigraph.engine.decoding.file_ranges import read_line_chunks
from omnigraph.engine.decoding.graph_jsonl import (
    WINDOW_BYTES,
    PendingRecords,
    build_flat_shape,
    compute_max_line_bytes,
    read_flat_block,
)
from omnigraph.engine.decoding.json_lines import BadJsonError, decode_object, find_bad_number
from omnigraph.engine.decoding.line_blocks import LineBlock, read_line_blocks
from omnigraph.engine.decoding.record_encoder import encode_record
from omnigraph.engine.decoding.record_error import RecordError
from omnigraph.engine.decoding.typed_rows import DecodedRows, RejectedRecord, TypedRows, concat_rows, validate_rows
from omnigraph.engine.decoding.typed_source import RowSource, TypedFile, format_hint
from omnigraph.ids import Ids
from omnigraph.schema.values import format_value

_Part: TypeAlias = tuple[TypedRows, list[RejectedRecord]]


def read_typed_lines(
    file: TypedFile, ids: Ids, *, chunks: Iterable[bytes] | None = None, is_strict: bool = False
) -> Iterator[_Part]:
    """Read the rows in blocks of lines, with the errors of the others; `is_strict` decodes each line individually.

    `chunks` are the bytes of the file, if the caller reads them itself.
    """
    names = file.build_targets()
    limit = compute_max_line_bytes([file.type])
    chunks = read_line_chunks(file.path, file.part) if chunks is None else chunks
    for block in read_line_blocks(chunks, limit=limit, rows=file.batch_rows, size=WINDOW_BYTES):
        yield _decode_block(file, names, ids, block, limit, is_strict=is_strict)


def _decode_block(
    file: RowSource, names: Mapping[str, str], ids: Ids, block: LineBlock, limit: int, *, is_strict: bool
) -> _Part:
    origin = file.build_origin("line")
    rejected: list[RejectedRecord] = []

    def refuse(number: int, reason: str, text: bytes, place: tuple[str | None, str | None] = (None, None)) -> None:
        rejected.append((RecordError(origin.file, number, file.type.name, *place, reason), text))

    for number in block.too_long:
        refuse(number, f"the line has more than {limit} bytes, the limit of a record", b"")
    parts: list[DecodedRows] = []
    rest = block.chosen
    if not is_strict:
        parts, rest = read_flat_block(block, build_flat_shape(file.type, names))
    pending = PendingRecords(file.type, frozenset(file.type.by_name))
    for position in rest.tolist():
        line = block.get_line(position)
        try:
            data = _map_to_targets(file, names, decode_object(line))
        except BadJsonError as error:
            refuse(
                block.first + position,
                str(error),
                _to_graph_line(file, names, line),
                _locate_bad_number(names, line, error),
            )
        else:
            pending.add(block.first + position, data, data)
    if pending.lines or not parts:
        parts.append(pending.read())

    def text_of(number: int) -> bytes:
        return _to_graph_line(file, names, block.get_line_by_number(number))

    finished, wrong = validate_rows(file.type, concat_rows(parts), origin, ids, text_of)
    return finished, sorted([*rejected, *wrong], key=lambda one: one[0].line)


def _locate_bad_number(names: Mapping[str, str], line: bytes, error: BadJsonError) -> tuple[str | None, str | None]:
    """Return property and value of an invalid number; twice None for any other fault."""
    if error.number is None:
        return None, None
    try:
        _, name = find_bad_number(line)
    except (ValueError, AttributeError, RecursionError, BadJsonError):
        return None, error.number  # the line has another fault too, further on
    return None if name is None else names.get(name, name), error.number


def _map_to_targets(file: RowSource, names: Mapping[str, str], record: dict[str, object]) -> dict[str, object]:
    data: dict[str, object] = {}
    for name, value in record.items():
        target = names.get(name)
        if target is None:
            raise BadJsonError(f"unknown property {format_value(name)} of `{file.type.name}`{format_hint(name, names)}")
        if target in data:
            raise BadJsonError(f"`{target}` is there twice")
        data[target] = value
    return data


def _to_graph_line(file: RowSource, names: Mapping[str, str], line: bytes) -> bytes:
    """Convert the line to graph JSONL; unchanged if it is not an object."""
    try:
        record = decode_object(line)
        return encode_record(file.type, {names.get(name, name): value for name, value in record.items()})
    except (BadJsonError, UnicodeEncodeError):
        return line
