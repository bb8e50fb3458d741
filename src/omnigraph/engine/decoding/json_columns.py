"""Strict conversion of JSON values to Arrow columns: whole columns at once, single values only where one is unusual."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from types import NoneType
from typing import assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.writing.blob_claims import encode_claim
from omnigraph.schema.arrow import to_arrow_type
from omnigraph.schema.types import EnumOf, ListOf, Scalar, ValueType, VectorOf
from omnigraph.schema.values import BASE64_PREFIX, InvalidValue, format_value, from_json

_YEAR = "([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"  # Arrow has a year 0, we don't
_PLAIN_DATE = f"^{_YEAR}-[0-9]{{2}}-[0-9]{{2}}$"
_PLAIN_DATETIME = f"^{_YEAR}-[0-9]{{2}}-[0-9]{{2}}T[0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}(\\.[0-9]{{1,6}})?Z$"
_MAX_EXACT_FLOAT32 = 2**24
# A column with an unusual value is split to isolate it; this number of values or fewer are decoded individually.
_MIN_SPLIT_VALUES = 128
_SPLIT_FACTOR = 8


@dataclass(slots=True, kw_only=True)
class DecodedColumn:
    """One property's column: null where a value does not fit, with its text and the reason by row."""

    array: pa.Array
    misfits: Mapping[int, tuple[str, str]] = field(default_factory=dict)
    left_out: pa.Array | None = None


def decode_json_column(type_: ValueType, values: Sequence[object], kinds: set[type] | None = None) -> DecodedColumn:
    """Convert decoded JSON values to a column. None is null for every type; callers check whether it is allowed.

    `kinds` are the Python types of the values, if the caller knows them.
    """
    kinds = set(map(type, values)) if kinds is None else kinds
    try:
        array = _decode_whole(type_, values, kinds - {NoneType})
    except (pa.ArrowException, OverflowError, UnicodeEncodeError):
        array = None
    if array is not None:
        return DecodedColumn(array=array)
    if len(values) <= _MIN_SPLIT_VALUES or type_ is Scalar.BLOB:
        return _decode_each(type_, values)
    size = -(-len(values) // _SPLIT_FACTOR)
    starts = range(0, len(values), size)
    parts = [decode_json_column(type_, values[start : start + size]) for start in starts]
    misfits = {
        start + row: misfit for start, part in zip(starts, parts, strict=True) for row, misfit in part.misfits.items()
    }
    return DecodedColumn(array=pa.concat_arrays([part.array for part in parts]), misfits=misfits)


def decode_texts(type_: ValueType, texts: pa.Array) -> DecodedColumn:
    """Convert a column of texts to an enum, Date, DateTime or Blob."""
    array = _decode_plain_texts(type_, texts)
    return decode_json_column(type_, texts.to_pylist()) if array is None else DecodedColumn(array=array)


def are_finite(array: pa.Array) -> bool:
    """Return whether no float is NaN or infinite; nulls are fine."""
    return bool(pc.all(pc.is_finite(array), min_count=0).as_py())


def _decode_whole(type_: ValueType, values: Sequence[object], kinds: set[type]) -> pa.Array | None:
    """Convert the column in a few calls; None if a value must be decoded individually."""
    if not kinds:
        return pa.nulls(len(values), to_arrow_type(type_))
    match type_:
        case ListOf(element=element):
            return _decode_whole_lists(element, values) if kinds == {list} else None
        case VectorOf(size=size):
            return _decode_whole_vectors(size, values) if kinds == {list} else None
        case Scalar.BOOL:
            return pa.array(values, pa.bool_()) if kinds == {bool} else None
        case Scalar.I32 | Scalar.I64 | Scalar.U32 | Scalar.U64:
            return pa.array(values, to_arrow_type(type_)) if kinds == {int} else None
        case Scalar.F32 | Scalar.F64:
            return _decode_whole_floats(type_, values) if kinds <= {float, int} else None
        case EnumOf() | Scalar.STRING | Scalar.DATE | Scalar.DATETIME:
            return _decode_plain_texts(type_, pa.array(values, pa.utf8())) if kinds == {str} else None
        case Scalar.BLOB:
            return None
        case _:
            assert_never(type_)


def _decode_whole_floats(scalar: Scalar, values: Sequence[object]) -> pa.Array | None:
    array = pa.array(values, pa.float64())  # raises if a whole number is not exact
    if scalar is Scalar.F32:
        is_large = pc.greater(pc.abs(array), _MAX_EXACT_FLOAT32)
        if any(type(values[row]) is int for row in pc.indices_nonzero(is_large).to_pylist()):
            return None
        array = array.cast(pa.float32(), safe=False)
    return array if are_finite(array) else None


def _decode_plain_texts(type_: ValueType, texts: pa.Array) -> pa.Array | None:
    match type_:
        case Scalar.STRING:
            return texts
        case EnumOf(values=allowed):
            is_plain = pc.is_in(texts.drop_null(), value_set=pa.array(allowed, pa.utf8()))
        case Scalar.DATE | Scalar.DATETIME:
            is_plain = pc.match_substring_regex(texts, _PLAIN_DATE if type_ is Scalar.DATE else _PLAIN_DATETIME)
        case _:
            return pa.nulls(len(texts), to_arrow_type(type_)) if texts.null_count == len(texts) else None
    if not pc.all(is_plain, min_count=0).as_py():
        return None
    try:
        return texts.cast(to_arrow_type(type_))
    except pa.ArrowInvalid:
        return None


def _decode_whole_lists(element: Scalar, values: Sequence[object]) -> pa.Array | None:
    lists = [value if isinstance(value, list) else [] for value in values]
    flat = list(chain.from_iterable(lists))
    kinds = set(map(type, flat))
    items = None if NoneType in kinds else _decode_whole(element, flat, kinds)
    if items is None:
        return None
    offsets = np.zeros(len(lists) + 1, np.int32)
    np.cumsum(list(map(len, lists)), out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), items, mask=_build_null_mask(values))


def _decode_whole_vectors(size: int, values: Sequence[object]) -> pa.Array | None:
    blank = [0.0] * size
    lists = [value if isinstance(value, list) else blank for value in values]
    if set(map(len, lists)) != {size}:
        return None
    flat = list(chain.from_iterable(lists))
    items = _decode_whole_floats(Scalar.F32, flat) if set(map(type, flat)) <= {float, int} else None
    if items is None:
        return None
    return pa.FixedSizeListArray.from_arrays(items, size, mask=_build_null_mask(values))


def _build_null_mask(values: Sequence[object]) -> pa.Array | None:
    return pa.array([value is None for value in values], pa.bool_()) if None in values else None


def _decode_each(type_: ValueType, values: Sequence[object]) -> DecodedColumn:
    typed: list[object] = []
    misfits: dict[int, tuple[str, str]] = {}
    for row, value in enumerate(values):
        fitted = None if value is None else _fit_value(type_, value)
        if isinstance(fitted, InvalidValue):
            misfits[row] = (format_value(value), fitted.reason)
            fitted = None
        typed.append(fitted)
    return DecodedColumn(array=pa.array(typed, to_arrow_type(type_)), misfits=misfits)


def _fit_value(type_: ValueType, value: object) -> object:
    if type_ is Scalar.BLOB and isinstance(value, str) and value.startswith(BASE64_PREFIX):
        try:
            return base64.b64decode(value[len(BASE64_PREFIX) :], validate=True)
        except ValueError:
            return from_json(type_, value)  # finds the words for it
    fitted = from_json(type_, value)
    if type_ is Scalar.BLOB and isinstance(fitted, str):
        return encode_claim(fitted)  # whether it may be read is asked when the rows are checked
    return fitted
