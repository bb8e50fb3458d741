"""Conversion of the columns of Arrow's JSON reader to ours; ambiguous values are marked.

Numbers are read as numbers of their own type, but floats as 64-bit ones, so that an F32 is rounded as everywhere.
Dates, times, enums and blobs are read as text, and their texts are checked here.
"""

from typing import assert_never

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.decoding.json_columns import MAX_EXACT_FLOAT32, MAX_EXACT_FLOAT64, Doubts, decode_json_column
from omnigraph.engine.decoding.typed_rows import DecodedColumn, replace_values
from omnigraph.schema.arrow import to_arrow_type
from omnigraph.schema.catalog import Property
from omnigraph.schema.types import EnumOf, ListOf, Scalar, ValueType, VectorOf
from omnigraph.schema.values import format_value

Sure = npt.NDArray[np.bool_]
"""A mask: true for each value that needs no strict decoding."""

_YEAR = "([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"  # Arrow has a year 0, we don't
_PLAIN_DATE = f"^{_YEAR}-[0-9]{{2}}-[0-9]{{2}}$"
_PLAIN_DATETIME = f"^{_YEAR}-[0-9]{{2}}-[0-9]{{2}}T[0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}(\\.[0-9]{{1,6}})?Z$"


def choose_json_type(type_: ValueType) -> pa.DataType:
    """Choose the Arrow type that Arrow's JSON reader uses for values of a type."""
    match type_:
        case EnumOf() | Scalar.STRING | Scalar.DATE | Scalar.DATETIME | Scalar.BLOB:
            return pa.utf8()
        case Scalar.BOOL | Scalar.I32 | Scalar.I64 | Scalar.U32 | Scalar.U64:
            return to_arrow_type(type_)
        case Scalar.F32 | Scalar.F64:
            return pa.float64()
        case ListOf(element=element):
            return pa.list_(choose_json_type(element))
        case VectorOf():
            return pa.list_(pa.float64())
        case _:
            assert_never(type_)


def decode_fast_column(p: Property, column: pa.Array) -> tuple[DecodedColumn, Doubts | None]:
    """Convert a property's column, and mark the rows whose values are ambiguous; these hold arbitrary values."""
    match p.type:
        case Scalar.STRING | Scalar.BOOL | Scalar.I32 | Scalar.I64 | Scalar.U32 | Scalar.U64:
            return DecodedColumn(array=column), None
        case Scalar.F32 | Scalar.F64:
            array, doubts = _decode_fast_floats(p.type, column)
            return DecodedColumn(array=array), doubts
        case EnumOf() | Scalar.DATE | Scalar.DATETIME | Scalar.BLOB:
            return decode_texts(p.type, column), None
        case ListOf(element=element):
            array, doubts = _decode_fast_lists(element, column)
            return DecodedColumn(array=array), doubts
        case VectorOf(size=size):
            array, doubts = _decode_fast_vectors(size, column)
            return DecodedColumn(array=array), doubts
        case _:
            assert_never(p.type)


def _decode_fast_floats(scalar: Scalar, column: pa.Array) -> tuple[pa.Array, Doubts | None]:
    """Convert floats; ambiguous are integers beyond 2^53, `-0`, NaN and infinite values."""
    values = column.fill_null(0.0).to_numpy() if column.null_count else column.to_numpy()
    exact = MAX_EXACT_FLOAT32 if scalar is Scalar.F32 else MAX_EXACT_FLOAT64
    with np.errstate(invalid="ignore"):
        doubts = ~(np.abs(values) < exact) | ((values == 0.0) & np.signbit(values))
    if scalar is Scalar.F32:
        column = column.cast(pa.float32(), safe=False)
    return column, doubts if doubts.any() else None


def decode_texts(type_: ValueType, texts: pa.Array) -> DecodedColumn:
    """Decode a column of an enum, Date, DateTime or Blob; only unusual texts go through the strict decoder."""
    array, is_sure = _decode_plain_texts(type_, texts)
    if is_sure is None:
        return DecodedColumn(array=array)
    values: list[object] = texts.filter(pa.array(~is_sure)).to_pylist()
    found = decode_json_column(type_, values)
    misfits = {row: (format_value(values[row]), misfit.reason) for row, misfit in found.misfits.items()}
    return merge_strict_values(array, is_sure, DecodedColumn(array=found.array, misfits=misfits))


def merge_strict_values(array: pa.Array, is_sure: Sure, rest: DecodedColumn) -> DecodedColumn:
    """Merge strictly decoded values, in order, into the rows of a column that are not sure."""
    places = np.flatnonzero(~is_sure)
    misfits = {int(places[row]): misfit for row, misfit in rest.misfits.items()}
    if len(places) == len(array):
        return DecodedColumn(array=rest.array, misfits=misfits)
    return DecodedColumn(array=replace_values(array, ~is_sure, rest.array), misfits=misfits)


def parse_texts(texts: pa.Array, pattern: str, to: pa.DataType) -> tuple[pa.Array, Sure | None]:
    """Parse texts with Arrow, and return a mask of the sure values (matching the pattern, or null) unless all are.

    If a text matches the pattern but can't be parsed, no value is sure.
    """
    is_like = pc.fill_null(pc.match_substring_regex(texts, pattern), fill_value=True)
    is_all_like = pc.all(is_like, min_count=0).as_py()
    try:
        array = (texts if is_all_like else pc.if_else(is_like, texts, pa.scalar(None, pa.utf8()))).cast(to)
    except pa.ArrowInvalid:
        return pa.nulls(len(texts), to), _to_flags(texts.is_null())
    return array, None if is_all_like else _to_flags(is_like)


def _decode_plain_texts(type_: ValueType, texts: pa.Array) -> tuple[pa.Array, Sure | None]:
    match type_:
        case EnumOf(values=allowed):
            known = pc.or_(pc.is_in(texts, value_set=pa.array(allowed, pa.utf8())), texts.is_null())
            return texts, None if pc.all(known, min_count=0).as_py() else _to_flags(known)
        case Scalar.DATE:
            return parse_texts(texts, _PLAIN_DATE, pa.date32())
        case Scalar.DATETIME:
            return parse_texts(texts, _PLAIN_DATETIME, to_arrow_type(type_))
        case _:
            is_null = _to_flags(texts.is_null())
            return pa.nulls(len(texts), to_arrow_type(type_)), None if is_null.all() else is_null


def _to_flags(mask: pa.Array) -> Sure:
    flags: Sure = mask.to_numpy(zero_copy_only=False)
    return flags


def _decode_fast_lists(element: Scalar, column: pa.Array) -> tuple[pa.Array, Doubts | None]:
    items, offsets = split_lists(column)
    wrong: list[int] = []
    doubts: Doubts | None = None
    if element in (Scalar.F32, Scalar.F64):
        array, doubts = _decode_fast_floats(element, items)
    elif element in (Scalar.DATE, Scalar.DATETIME):
        filled = decode_texts(element, items)
        array, wrong = filled.array, list(filled.misfits)
    else:
        array = items
    if items.null_count or wrong:
        doubts = np.zeros(len(items), bool) if doubts is None else doubts
        doubts |= items.is_null().to_numpy(zero_copy_only=False)
        doubts[wrong] = True
    mask = column.is_null() if column.null_count else None
    lists = pa.ListArray.from_arrays(pa.array(offsets), array, mask=mask)
    return lists, None if doubts is None else find_rows_with(doubts, offsets)


def _decode_fast_vectors(size: int, column: pa.Array) -> tuple[pa.Array, Doubts | None]:
    items, offsets = split_lists(column)
    floats, doubtful_items = _decode_fast_floats(Scalar.F32, items)
    is_null: Doubts = column.is_null().to_numpy(zero_copy_only=False)
    doubts = ~is_null & (np.diff(offsets) != size)
    if items.null_count:
        doubts |= find_rows_with(items.is_null().to_numpy(zero_copy_only=False), offsets)
    if doubtful_items is not None:
        doubts |= find_rows_with(doubtful_items, offsets)
    is_good = ~is_null & ~doubts
    if is_good.all():
        return pa.FixedSizeListArray.from_arrays(floats, size), None
    counts = np.repeat(is_good, np.diff(offsets))
    good = pa.FixedSizeListArray.from_arrays(floats.filter(pa.array(counts)), size)
    places = pa.array(np.cumsum(is_good) - 1, mask=~is_good)
    return good.take(places), doubts if doubts.any() else None


def split_lists(column: pa.Array) -> tuple[pa.Array, np.ndarray[tuple[int], np.dtype[np.int32]]]:
    """Return the items of lists and the offset of each list; null lists have no items."""
    counts = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    offsets = np.zeros(len(column) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    return column.flatten(), offsets


def find_rows_with(is_item: Doubts, offsets: np.ndarray[tuple[int], np.dtype[np.int32]]) -> Doubts:
    """Return a mask of the lists that contain a marked item."""
    before = np.zeros(len(is_item) + 1, np.int64)
    np.cumsum(is_item, out=before[1:])
    rows: Doubts = before[offsets[1:]] > before[offsets[:-1]]
    return rows
