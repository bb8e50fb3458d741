"""Conversion of CSV cells to typed columns."""

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.decoding.fast_columns import (
    Sure,
    choose_json_type,
    decode_fast_column,
    decode_texts,
    merge_strict_values,
    parse_texts,
)
from omnigraph.engine.decoding.json_columns import decode_json_column, read_fast
from omnigraph.engine.decoding.line_blocks import PADDING, LineBlock
from omnigraph.engine.decoding.typed_rows import DecodedColumn
from omnigraph.schema.arrow import to_arrow_type
from omnigraph.schema.catalog import Property
from omnigraph.schema.types import EnumOf, Scalar, is_text
from omnigraph.schema.values import format_value

_TEXT_FORMS = frozenset({Scalar.DATE, Scalar.DATETIME, Scalar.BLOB})
"""Types other than text whose JSON form is a string."""
_VALUE = "v"
_INTEGER = "^-?(0|[1-9][0-9]*)$"
_NUMBER = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
"""As JSON writes them."""

_decode = msgspec.json.Decoder().decode


def decode_id_cells(cells: pa.Array) -> DecodedColumn:
    """Decode a column of ids."""
    return _decode_texts(cells)


def decode_cells(p: Property, cells: pa.Array) -> DecodedColumn:
    """Decode a property's column."""
    texts = _decode_texts(cells)
    if p.type is Scalar.STRING:
        return texts
    array = texts.array
    if p.nullable and not isinstance(p.type, EnumOf):
        array = pc.if_else(pc.equal(array, ""), pa.scalar(None, pa.utf8()), array)
    if isinstance(p.type, EnumOf) or p.type in _TEXT_FORMS:
        filled = decode_texts(p.type, array)
    else:
        filled = _decode_values(p, array)
    return DecodedColumn(array=filled.array, misfits={**filled.misfits, **texts.misfits})


def decode_cell(p: Property | None, cell: bytes) -> object:
    """Return the JSON value of a cell if it has one, else its text. Without a property it is an id."""
    text = cell.decode(errors="replace")
    if p is None or is_text(p.type):
        return text
    if p.nullable and not text:
        return None
    return text if p.type in _TEXT_FORMS else _parse_json(text)


def _decode_texts(cells: pa.Array) -> DecodedColumn:
    try:
        return DecodedColumn(array=cells.cast(pa.utf8()))
    except pa.ArrowInvalid:
        texts: list[str | None] = []
        misfits: dict[int, tuple[str, str]] = {}
        for row, cell in enumerate(cells.to_pylist()):
            try:
                texts.append(cell.decode())
            except UnicodeDecodeError as error:
                byte = f"byte 0x{cell[error.start]:02x} at offset {error.start}"
                reason = f"the cell is not UTF-8: {byte}; save it as UTF-8"
                misfits[row] = (format_value(cell.decode(errors="replace")), reason)
                texts.append(None)
        return DecodedColumn(array=pa.array(texts, pa.utf8()), misfits=misfits)


def _decode_values(p: Property, texts: pa.Array) -> DecodedColumn:
    array, is_sure = _decode_fast(p, texts)
    if is_sure is None:
        return DecodedColumn(array=array)
    return merge_strict_values(array, is_sure, _decode_json(p, texts.filter(pa.array(~is_sure))))


def _decode_fast(p: Property, texts: pa.Array) -> tuple[pa.Array, Sure | None]:
    """Decode the values that are unambiguous, and return a mask of them unless all are."""
    match p.type:
        case Scalar.BOOL:
            return parse_texts(texts, "^(true|false)$", pa.bool_())
        case Scalar.I32 | Scalar.I64 | Scalar.U32 | Scalar.U64:
            return parse_texts(texts, _INTEGER, to_arrow_type(p.type))
        case Scalar.F32 | Scalar.F64:
            floats, is_sure = parse_texts(texts, _NUMBER, pa.float64())
            filled, doubts = decode_fast_column(p, floats)
            if doubts is not None:
                is_sure = ~doubts if is_sure is None else is_sure & ~doubts
            return filled.array, is_sure
        case _:
            array = _decode_json_fast(p, texts)
            if array is None:
                is_null: Sure = texts.is_null().to_numpy(zero_copy_only=False)
                return pa.nulls(len(texts), to_arrow_type(p.type)), is_null
            return array, None


def _decode_json_fast(p: Property, texts: pa.Array) -> pa.Array | None:
    """Decode the lists of a column at once; None if a cell must be decoded individually."""
    given = texts.drop_null()
    if not len(given):
        return pa.nulls(len(texts), to_arrow_type(p.type))
    lines = pc.binary_join_element_wise(f'{{"{_VALUE}":', given, "}\n", "")
    data = lines.buffers()[2].to_pybytes() + bytes(PADDING)
    if data.count(b"\n") != len(given):
        return None
    block = LineBlock(
        data=data,
        offsets=np.frombuffer(lines.buffers()[1], np.int32, len(given) + 1).astype(np.int64),
        first=1,
        chosen=np.arange(len(given)),
    )
    table = read_fast(block, block.chosen, pa.schema([(_VALUE, choose_json_type(p.type))]))
    if table is None or table.columns[_VALUE].null_count:
        return None
    filled, doubts = decode_fast_column(p, table.columns[_VALUE])
    if doubts is not None:
        return None
    if len(given) == len(texts):
        return filled.array
    is_given = texts.is_valid().to_numpy(zero_copy_only=False)
    return filled.array.take(pa.array(np.cumsum(is_given) - 1, mask=~is_given))


def _decode_json(p: Property, texts: pa.Array) -> DecodedColumn:
    # A cell that says null is no value of any type: it stays text, which is refused by name.
    cells: list[str | None] = texts.to_pylist()
    values = [None if cell is None else _parse_json(cell) for cell in cells]
    found = decode_json_column(p.type, values)
    misfits = {row: (format_value(values[row]), misfit.reason) for row, misfit in found.misfits.items()}
    return DecodedColumn(array=found.array, misfits=misfits)


def _parse_json(cell: str) -> object:
    try:
        value = _decode(cell)
    except (msgspec.DecodeError, RecursionError):
        return cell
    return cell if value is None else value
