"""Conversion of CSV cells to typed columns."""

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.decoding.json_columns import DecodedColumn, decode_json_column, decode_texts
from omnigraph.engine.decoding.object_decoder import decode_each
from omnigraph.schema.catalog import Property
from omnigraph.schema.types import EnumOf, Scalar, is_text
from omnigraph.schema.values import format_value

_TEXT_FORMS = frozenset({Scalar.DATE, Scalar.DATETIME, Scalar.BLOB})
"""Types other than text whose JSON form is a string."""

_decode = msgspec.json.Decoder().decode


def decode_cells(p: Property, cells: pa.Array) -> DecodedColumn:
    """Decode a column of a property, or of ids."""
    texts = _decode_texts(cells)
    if p.type is Scalar.STRING:
        return texts
    array = texts.array
    if p.nullable and not isinstance(p.type, EnumOf):
        array = pc.if_else(pc.equal(array, ""), pa.scalar(None, pa.utf8()), array)
    if isinstance(p.type, EnumOf) or p.type in _TEXT_FORMS:
        filled = decode_texts(p.type, array)
    else:
        filled = _decode_json(p, array)
    return DecodedColumn(array=filled.array, misfits={**filled.misfits, **texts.misfits})


def decode_cell(p: Property | None, cell: bytes) -> object:
    """Return the JSON value of a cell if it has one, else its text. Without a property it is an id."""
    text = cell.decode(errors="replace")
    if p is None or is_text(p.type):
        return text
    if p.nullable and not text:
        return None
    if p.type in _TEXT_FORMS:
        return text
    (value,), _ = decode_each(_decode, [text], None)
    return text if value is None else value


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


def _decode_json(p: Property, texts: pa.Array) -> DecodedColumn:
    values, _ = decode_each(_decode, texts.fill_null("null").to_pylist(), None)
    if values.count(None) > texts.null_count:
        # A cell that is no JSON stays text, and so does one that says null, which no type has: both are rejected.
        pairs = zip(texts.to_pylist(), values, strict=True)
        values = [cell if value is None else value for cell, value in pairs]
    return decode_json_column(p.type, values)
