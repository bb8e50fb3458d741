"""Columns of JSON values to Arrow, typed strictly: whole columns at once, value by value only where one is unusual."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from types import NoneType
from typing import assert_never

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.writing.blob_claims import encode_claim
from omnigraph.schema.arrow import to_arrow_type
from omnigraph.schema.misfit import InvalidValue
from omnigraph.schema.types import EnumOf, ListOf, Scalar, ValueType, VectorOf
from omnigraph.schema.values import BASE64_PREFIX, from_json

_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_DATETIME = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?Z$"
MAX_EXACT_FLOAT32 = 2**24
MAX_EXACT_FLOAT64 = 2**53


@dataclass(frozen=True, slots=True)
class TypedColumn:
    """The typed values, null where one does not fit; and why, by row."""

    array: pa.Array
    misfits: dict[int, InvalidValue]


def decode_json_column(type_: ValueType, values: Sequence[object]) -> TypedColumn:
    """The column of decoded JSON values. None is null for every type: whether it may be is the caller's matter."""
    kinds = set(map(type, values))
    kinds.discard(NoneType)
    try:
        array = _decode_whole(type_, values, kinds)
    except (pa.ArrowException, OverflowError, UnicodeEncodeError):
        array = None
    return _decode_each(type_, values) if array is None else TypedColumn(array, {})


def are_finite(array: pa.Array) -> bool:
    """Whether no float is NaN or infinite; nulls are let through."""
    return bool(pc.all(pc.is_finite(array), min_count=0).as_py())


def _decode_whole(type_: ValueType, values: Sequence[object], kinds: set[type]) -> pa.Array | None:
    """The column in a few calls, or None when some value has to be looked at by itself."""
    if not kinds:
        return pa.nulls(len(values), to_arrow_type(type_))
    match type_:
        case EnumOf(values=allowed):
            if kinds != {str}:
                return None
            array = pa.array(values, pa.utf8())
            known = pc.is_in(array.drop_null(), value_set=pa.array(allowed, pa.utf8()))
            return array if pc.all(known, min_count=0).as_py() else None
        case ListOf(element=element):
            return _decode_whole_lists(element, values) if kinds == {list} else None
        case VectorOf(size=size):
            return _decode_whole_vectors(size, values) if kinds == {list} else None
        case Scalar():
            return _decode_whole_scalars(type_, values, kinds)
        case _:
            assert_never(type_)


def _decode_whole_scalars(scalar: Scalar, values: Sequence[object], kinds: set[type]) -> pa.Array | None:
    match scalar:
        case Scalar.STRING:
            return pa.array(values, pa.utf8()) if kinds == {str} else None
        case Scalar.BOOL:
            return pa.array(values, pa.bool_()) if kinds == {bool} else None
        case Scalar.I32 | Scalar.I64 | Scalar.U32 | Scalar.U64:
            return pa.array(values, to_arrow_type(scalar)) if kinds == {int} else None
        case Scalar.F32 | Scalar.F64:
            return _decode_whole_floats(scalar, values, kinds)
        case Scalar.DATE:
            return _decode_whole_texts(values, kinds, _DATE, pa.date32())
        case Scalar.DATETIME:
            return _decode_whole_texts(values, kinds, _DATETIME, to_arrow_type(scalar))
        case Scalar.BLOB:
            return None
        case _:
            assert_never(scalar)


def _decode_whole_floats(scalar: Scalar, values: Sequence[object], kinds: set[type]) -> pa.Array | None:
    if not kinds <= {float, int}:
        return None
    if int in kinds:
        exact = MAX_EXACT_FLOAT32 if scalar is Scalar.F32 else MAX_EXACT_FLOAT64
        if any(type(value) is int and not -exact <= value <= exact for value in values):
            return None
    array = pa.array(values, pa.float64())
    if scalar is Scalar.F32:
        array = array.cast(pa.float32(), safe=False)
    return array if are_finite(array) else None


def _decode_whole_texts(values: Sequence[object], kinds: set[type], pattern: str, to: pa.DataType) -> pa.Array | None:
    if kinds != {str}:
        return None
    texts = pa.array(values, pa.utf8())
    if not pc.all(pc.match_substring_regex(texts, pattern), min_count=0).as_py():
        return None
    if pc.any(pc.starts_with(texts, "0000"), min_count=0).as_py():
        return None  # Arrow has a year 0, we don't
    return texts.cast(to)


def _decode_whole_lists(element: Scalar, values: Sequence[object]) -> pa.Array | None:
    lists: list[list[object]] = [value if isinstance(value, list) else [] for value in values]
    flat = list(chain.from_iterable(lists))
    kinds = set(map(type, flat))
    if NoneType in kinds:
        return None
    items = _decode_whole_scalars(element, flat, kinds) if flat else pa.array([], to_arrow_type(element))
    if items is None:
        return None
    offsets = [0]
    for one in lists:
        offsets.append(offsets[-1] + len(one))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), items, mask=_build_null_mask(values))


def _decode_whole_vectors(size: int, values: Sequence[object]) -> pa.Array | None:
    blank = [0.0] * size
    lists: list[list[object]] = [value if isinstance(value, list) else list(blank) for value in values]
    if set(map(len, lists)) != {size}:
        return None
    flat = list(chain.from_iterable(lists))
    items = _decode_whole_floats(Scalar.F32, flat, set(map(type, flat)))
    if items is None:
        return None
    return pa.FixedSizeListArray.from_arrays(items, size, mask=_build_null_mask(values))


def _build_null_mask(values: Sequence[object]) -> pa.Array | None:
    mask = [value is None for value in values]
    return pa.array(mask, pa.bool_()) if any(mask) else None


def _decode_each(type_: ValueType, values: Sequence[object]) -> TypedColumn:
    typed: list[object] = []
    misfits: dict[int, InvalidValue] = {}
    for row, value in enumerate(values):
        fitted = None if value is None else _fit_value(type_, value)
        if isinstance(fitted, InvalidValue):
            misfits[row] = fitted
            fitted = None
        typed.append(fitted)
    return TypedColumn(pa.array(typed, to_arrow_type(type_)), misfits)


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
