"""Strict conversion of JSON values to Arrow columns: whole columns at once, single values only where one is unusual."""

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from types import NoneType
from typing import assert_never

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json

from omnigraph.engine.decoding.line_blocks import LineBlock, LinePositions
from omnigraph.engine.writing.blob_claims import encode_claim
from omnigraph.schema.arrow import to_arrow_type
from omnigraph.schema.types import EnumOf, ListOf, Scalar, ValueType, VectorOf
from omnigraph.schema.values import BASE64_PREFIX, InvalidValue, from_json

BLOCK_BYTES = 1 << 20
"""The number of bytes that one thread parses at a time."""

Doubts = npt.NDArray[np.bool_]
"""A mask: true for each row that the strict decoder must read."""


@dataclass(frozen=True, slots=True)
class FastTable:
    """Rows that Arrow read: a column per name, masks of omitted values, and the rows that are ambiguous."""

    columns: Mapping[str, pa.Array]
    left_out: Mapping[str, pa.Array]
    doubts: Doubts


def read_fast(block: LineBlock, positions: LinePositions, schema: pa.Schema) -> FastTable | None:
    """Read the objects of these lines with Arrow; None if it can't.

    The lines must be whole objects, see `find_whole`. The fields of a struct are columns too; one with the name of
    another column replaces it.
    """
    part = block.select(positions)
    text = part.to_buffer()
    longest = int(np.diff(part.offsets).max())
    reading = pa_json.ReadOptions(use_threads=text.size > BLOCK_BYTES, block_size=max(BLOCK_BYTES, longest + 1))
    parsing = pa_json.ParseOptions(explicit_schema=schema, newlines_in_values=False, unexpected_field_behavior="error")
    try:
        table = pa_json.read_json(pa.BufferReader(text), reading, parsing)
        if table.num_rows != len(positions):
            return None
        table.validate(full=True)
    except pa.ArrowException:
        return None
    columns: dict[str, pa.Array] = {}
    for name in schema.names:
        column = _combine_chunks(table[name])
        columns[name] = column
        if pa.types.is_struct(column.type):
            columns |= zip([one.name for one in column.type], column.flatten(), strict=True)
    return _separate_nulls(columns, _NullSpellings(part, tuple(columns)))


def _combine_chunks(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


# --- null, or left out -------------------------------------------------------------------------------


@dataclass(slots=True)
class _NullSpellings:
    """The explicit nulls of a text.

    An explicit null of a name is written `"name":null` or `"name": null`. Those bytes can't mean anything else: inside
    a string the quotes would be escaped. Any other spelling (`"name" : null`) and any text that looks like one (`a
    null`) has a null after a colon or blank that is not counted among them.
    """

    block: LineBlock
    names: Sequence[str]
    _is_plain: bool | None = field(init=False, default=None)

    @property
    def has_any(self) -> bool:
        """Whether the text may contain one."""
        start, end = self.block.offsets[[0, -1]].tolist()
        return self.block.data.find(b"null", start, end) >= 0

    def count_explicit(self, name: str) -> int:
        """Count how often a name is null, in the usual spellings."""
        key = b'"%s":' % name.encode()
        return self.block.count(key + b"null") + self.block.count(key + b" null")

    def is_plain(self) -> bool:
        """Return whether `count_explicit` counts every null after a colon or blank."""
        if self._is_plain is None:
            all_of_them = sum(self.block.count(sign + b"null") for sign in (b":", b" ", b"\t", b"\r"))
            self._is_plain = all_of_them == sum(map(self.count_explicit, self.names))
        return self._is_plain

    def find_odd(self, lines: pa.Array) -> Doubts:
        """Return a mask of the lines with a null in an unusual spelling."""
        if self.is_plain():
            return np.zeros(len(lines), bool)
        names = "|".join(map(re.escape, self.names))
        usual = pc.count_substring_regex(lines, f'"({names})": ?null')
        found = pc.count_substring_regex(lines, r"[: \t\r]null")
        odd: Doubts = pc.not_equal(usual, found).to_numpy(zero_copy_only=False)
        return odd


def _separate_nulls(columns: dict[str, pa.Array], nulls: _NullSpellings) -> FastTable:
    doubts = np.zeros(len(nulls.block.offsets) - 1, bool)
    left_out: dict[str, pa.Array] = {}
    lines: pa.Array | None = None
    has_nulls = nulls.has_any
    for name, column in columns.items():
        if not column.null_count:
            continue
        is_null = column.is_null()
        explicit = nulls.count_explicit(name) if has_nulls else 0
        if explicit == column.null_count:
            continue
        if explicit or (has_nulls and not nulls.is_plain()):
            if lines is None:
                lines = nulls.block.to_array()
                doubts |= nulls.find_odd(lines)
            is_explicit = pc.match_substring_regex(lines, f'"{re.escape(name)}": ?null')
            is_null = pc.and_not(is_null, is_explicit)
        left_out[name] = is_null
    return FastTable(columns, left_out, doubts)


_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_DATETIME = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?Z$"
MAX_EXACT_FLOAT32 = 2**24
MAX_EXACT_FLOAT64 = 2**53


@dataclass(frozen=True, slots=True)
class TypedColumn:
    """The typed values, null where one does not fit, and the reasons by row."""

    array: pa.Array
    misfits: dict[int, InvalidValue]


def decode_json_column(type_: ValueType, values: Sequence[object]) -> TypedColumn:
    """Convert decoded JSON values to a column. None is null for every type; callers check whether it is allowed."""
    kinds = set(map(type, values))
    kinds.discard(NoneType)
    try:
        array = _decode_whole(type_, values, kinds)
    except (pa.ArrowException, OverflowError, UnicodeEncodeError):
        array = None
    return _decode_each(type_, values) if array is None else TypedColumn(array, {})


def are_finite(array: pa.Array) -> bool:
    """Return whether no float is NaN or infinite; nulls are fine."""
    return bool(pc.all(pc.is_finite(array), min_count=0).as_py())


def _decode_whole(type_: ValueType, values: Sequence[object], kinds: set[type]) -> pa.Array | None:
    """Convert the column in a few calls; None if a value must be decoded individually."""
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
