"""The reader of JSONL of one type: one object per line, with properties and ids side by side."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from omnigraph.engine.decoding.file_ranges import read_line_chunks
from omnigraph.engine.decoding.graph_jsonl import WINDOW_BYTES, compute_max_line_bytes
from omnigraph.engine.decoding.json_lines import BadJsonError, decode_object
from omnigraph.engine.decoding.line_blocks import LineBlock, LineSlice, read_line_blocks
from omnigraph.engine.decoding.object_decoder import ObjectDecoder
from omnigraph.engine.decoding.partition_values import decode_partition_value, fill_partition
from omnigraph.engine.decoding.record_encoder import encode_record
from omnigraph.engine.decoding.record_error import RecordError
from omnigraph.engine.decoding.record_explainer import BadRecordError, RecordValues, explain_flat_line
from omnigraph.engine.decoding.typed_rows import (
    DecodedRows,
    RejectedRecord,
    TypedRows,
    concat_rows,
    decode_rows,
    decode_values,
    validate_rows,
)
from omnigraph.engine.decoding.typed_source import RowSource, TypedFile
from omnigraph.ids import Ids

_Part: TypeAlias = tuple[TypedRows, list[RejectedRecord]]


def read_typed_lines(file: TypedFile, ids: Ids, *, chunks: Iterable[bytes] | None = None) -> Iterator[_Part]:
    """Read the rows in blocks of lines, with the errors of the others.

    `chunks` are the bytes of the file, if the caller reads them itself.
    """
    targets = file.build_targets()
    decoder = ObjectDecoder(targets)
    if unknown := [name for name in file.partition if name not in targets]:
        file.locate_columns(unknown)  # reports them
    limit = compute_max_line_bytes([file.type])
    chunks = read_line_chunks(file.path, file.part) if chunks is None else chunks
    for block in read_line_blocks(chunks, limit=limit, rows=file.batch_rows, size=WINDOW_BYTES):
        rejected: list[RejectedRecord] = []
        for number in block.too_long:
            reason = f"the line has more than {limit} bytes, the limit of a record"
            rejected.append((RecordError(file.name, number, file.type.name, None, None, reason), b""))
        parts = [rows for lines in block.split() for rows in _decode_lines(file, targets, decoder, lines, rejected)]
        if not parts:
            parts.append(decode_values(file.type, [], []))

        def text_of(number: int, block: LineBlock = block) -> bytes:
            return _to_graph_line(file, targets, block.get_line_by_number(number))

        rows = concat_rows(parts)
        if file.partition:
            rows = replace(rows, columns=fill_partition(file, targets, rows.columns, len(rows.lines)))
        finished, wrong = validate_rows(file.type, rows, file.build_origin("line"), ids, text_of)
        yield finished, sorted([*rejected, *wrong], key=lambda one: one[0].line)


def _decode_lines(
    file: RowSource,
    targets: Mapping[str, str],
    decoder: ObjectDecoder,
    lines: LineSlice,
    rejected: list[RejectedRecord],
) -> Iterator[DecodedRows]:
    columns, failed = decoder.decode(lines.lines)
    rows = decode_rows(file.type, lines.numbers, columns)
    is_right = rows.count_values() == lines.keys  # a key that is there twice is one more than there are values
    is_right[failed] = False
    yield rows.filter(is_right)
    numbers: list[int] = []
    explained: list[RecordValues] = []
    for row in np.flatnonzero(~is_right).tolist():
        line, number = lines.lines[row], int(lines.numbers[row])
        try:
            explained.append(explain_flat_line(line, file.type, targets))
            numbers.append(number)
        except BadRecordError as error:
            error.values = {**_read_partition(file, targets), **error.values}
            bad = RecordError(file.name, number, *error.args).with_more(error.find_more(file.build_origin("line")))
            rejected.append((bad, _to_graph_line(file, targets, line)))
    if explained:
        yield decode_values(file.type, numbers, explained)


def _read_partition(file: RowSource, targets: Mapping[str, str]) -> dict[str, object]:
    """Return the JSON values that the names of directories hold, by property."""
    return {
        targets[name]: decode_partition_value(file.type.find_property(targets[name]), value)
        for name, value in file.partition.items()
    }


def _to_graph_line(file: RowSource, names: Mapping[str, str], line: bytes) -> bytes:
    """Convert the line to graph JSONL; unchanged if it is not an object."""
    try:
        record = {names.get(name, name): value for name, value in decode_object(line).items()}
        for target, value in _read_partition(file, names).items():
            record.setdefault(target, value)
        return encode_record(file.type, record)
    except (BadJsonError, UnicodeEncodeError):
        return line
