"""Conversion of foreign Arrow columns to ours: casts only within a family of types, and only without loss.

Numbers become other numbers when every value is kept (a 64-bit float is rounded to an F32, as JSON's numbers are).
Text is accepted as text, or as the JSON form of a Date, DateTime, 64-bit integer or Blob. A time needs its zone.
"""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.decoding.json_columns import DecodedColumn, are_finite, decode_json_column, decode_texts
from omnigraph.engine.decoding.record_error import ColumnError
from omnigraph.schema.arrow import to_arrow_type
from omnigraph.schema.catalog import Property
from omnigraph.schema.types import INTEGER_RANGES, EnumOf, ListOf, Scalar, ValueType, VectorOf
from omnigraph.schema.values import format_value

_IS = pa.types


def to_plain_array(column: pa.Array) -> pa.Array:
    """Return the column without encodings; a column without any is returned unchanged.

    Raises:
        pa.ArrowException: Arrow can't decode it.
    """
    arrow = column.type
    if not _is_encoded(arrow):
        return column
    if _IS.is_dictionary(arrow):
        # Arrow can't take from views of texts, which is how polars keeps its categories.
        values = _cast_views(to_plain_array(column.dictionary))
        return pa.DictionaryArray.from_arrays(column.indices, values).dictionary_decode()
    if _IS.is_run_end_encoded(arrow):
        return to_plain_array(pc.run_end_decode(column))
    if _IS.is_decimal(arrow):
        return column.cast(pa.decimal128(arrow.precision, arrow.scale))
    if isinstance(arrow, pa.BaseExtensionType):
        storage = column.storage
        return storage.cast(pa.bool_()) if arrow.extension_name == "arrow.bool8" else storage
    # Lists are put together anew: Arrow's own cast of a list view gives an array with too few offsets.
    sizes = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    offsets = np.zeros(len(column) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    mask = column.is_null() if column.null_count else None
    return pa.LargeListArray.from_arrays(pa.array(offsets), to_plain_array(column.flatten()), mask=mask)


def _is_encoded(arrow: pa.DataType) -> bool:
    if _IS.is_dictionary(arrow) or _IS.is_run_end_encoded(arrow) or _IS.is_decimal32(arrow) or _IS.is_decimal64(arrow):
        return True
    if isinstance(arrow, pa.BaseExtensionType):
        return arrow.extension_name in ("arrow.json", "arrow.bool8")
    if _IS.is_list_view(arrow) or _IS.is_large_list_view(arrow):
        return True
    is_list = _IS.is_list(arrow) or _IS.is_large_list(arrow) or _IS.is_fixed_size_list(arrow)
    return bool(is_list) and _is_encoded(arrow.value_type)


def _cast_views(values: pa.Array) -> pa.Array:
    if _IS.is_string_view(values.type):
        return values.cast(pa.large_utf8())
    return values.cast(pa.large_binary()) if _IS.is_binary_view(values.type) else values


_SPLIT_FACTOR = 16
_NO_ZONE = (
    '; a time needs its zone: `dt.tz_localize("UTC")` of pandas, `dt.replace_time_zone("UTC")` of polars,'
    ' `pc.assume_timezone(column, "UTC")` of Arrow'
)
_TEXT_FORMS = frozenset({Scalar.DATE, Scalar.DATETIME, Scalar.BLOB})


def decode_id_array(p: Property, column: pa.Array, file: str, type_name: str) -> DecodedColumn:
    """Decode a column of ids.

    Raises:
        ColumnError: It is not text.
    """
    plain = _remove_encodings(column, file, type_name, p.name)
    if not (_is_text(plain.type) or _IS.is_null(plain.type)):
        reason = f"the column of `{p.name}` holds {plain.type}; an id is a string"
        raise ColumnError(file, type_name, p.name, reason)
    return _cast(p, plain)


def decode_array(p: Property, column: pa.Array, file: str, type_name: str) -> DecodedColumn:
    """Decode a property's column; values that would be lost are misfits.

    Raises:
        ColumnError: No value of the column's type fits the property.
    """
    plain = _remove_encodings(column, file, type_name, p.name)
    if not _is_compatible(p.type, plain.type):
        hint = _NO_ZONE if p.type is Scalar.DATETIME and _IS.is_timestamp(plain.type) else ""
        reason = f"the column of `{p.name}` holds {plain.type}, which is no {p.type}{hint}"
        raise ColumnError(file, type_name, p.name, reason)
    plain = _to_vectors(p.type, plain)
    if not _is_read_as_json(p.type, plain.type):
        return _cast(p, plain)
    if isinstance(p.type, EnumOf) or p.type in _TEXT_FORMS:
        texts = _cast(Property(name=p.name, type=Scalar.STRING, nullable=True), plain)
        filled = decode_texts(p.type, texts.array)
        return DecodedColumn(array=filled.array, misfits={**filled.misfits, **texts.misfits})
    return decode_json_column(p.type, plain.to_pylist())


def _cast(p: Property, column: pa.Array) -> DecodedColumn:
    """Cast the column to our type, and find the rows that would lose something by bisection."""
    target = to_arrow_type(p.type)
    parts: list[pa.Array] = []
    misfits: dict[int, tuple[str, str]] = {}

    def take(start: int, part: pa.Array) -> None:
        if (array := _cast_whole(part, target)) is not None:
            parts.append(array)
        elif len(part) == 1:
            misfits[start] = _describe_loss(p, part)
            parts.append(pa.nulls(1, target))
        else:
            size = -(-len(part) // _SPLIT_FACTOR)
            for at in range(0, len(part), size):
                take(start + at, part.slice(at, size))

    take(0, column)
    return DecodedColumn(array=parts[0] if len(parts) == 1 else pa.concat_arrays(parts), misfits=misfits)


def _cast_whole(column: pa.Array, target: pa.DataType) -> pa.Array | None:
    try:
        array = column if column.type == target else column.cast(target, safe=True)
    except pa.ArrowException:
        return None
    return array if _is_sound(array) else None


def _to_vectors(type_: ValueType, column: pa.Array) -> pa.Array:
    """Convert a column of lists to vectors, if each has the right length."""
    if not isinstance(type_, VectorOf) or not (_IS.is_list(column.type) or _IS.is_large_list(column.type)):
        return column
    is_given = column.is_valid()
    if not pc.all(pc.equal(pc.list_value_length(column), type_.size), min_count=0).as_py():
        return column
    vectors = pa.FixedSizeListArray.from_arrays(column.flatten(), type_.size)
    if not column.null_count:
        return vectors
    flags = is_given.to_numpy(zero_copy_only=False)
    return vectors.take(pa.array(np.cumsum(flags) - 1, mask=~flags))


def _remove_encodings(column: pa.Array, file: str, type_name: str, name: str) -> pa.Array:
    """Return the column without encodings.

    Raises:
        ColumnError: Arrow can't decode it.
    """
    try:
        return to_plain_array(column)
    except pa.ArrowException as error:
        reason = f"the column of `{name}` holds {column.type}, which can't be decoded; cast it to its plain type first"
        raise ColumnError(file, type_name, name, reason) from error


def _is_text(arrow: pa.DataType) -> bool:
    return bool(_IS.is_string(arrow) or _IS.is_large_string(arrow) or _IS.is_string_view(arrow))


def _is_binary(arrow: pa.DataType) -> bool:
    return bool(_IS.is_binary(arrow) or _IS.is_large_binary(arrow) or _IS.is_binary_view(arrow))


def _is_number(arrow: pa.DataType) -> bool:
    return bool(_IS.is_integer(arrow) or _IS.is_floating(arrow) or _IS.is_decimal(arrow))


def _is_list(arrow: pa.DataType) -> bool:
    return bool(_IS.is_list(arrow) or _IS.is_large_list(arrow) or _IS.is_fixed_size_list(arrow))


_FAMILIES: dict[Scalar, Callable[[pa.DataType], bool]] = {
    Scalar.STRING: _is_text,
    Scalar.BLOB: lambda arrow: _is_binary(arrow) or _is_text(arrow),
    Scalar.BOOL: _IS.is_boolean,
    Scalar.I32: _is_number,
    Scalar.U32: _is_number,
    Scalar.I64: lambda arrow: _is_number(arrow) or _is_text(arrow),
    Scalar.U64: lambda arrow: _is_number(arrow) or _is_text(arrow),
    Scalar.F32: _is_number,
    Scalar.F64: _is_number,
    Scalar.DATE: lambda arrow: _IS.is_date(arrow) or _is_text(arrow),
    Scalar.DATETIME: lambda arrow: (_IS.is_timestamp(arrow) and arrow.tz is not None) or _is_text(arrow),
}


def _is_compatible(type_: ValueType, arrow: pa.DataType) -> bool:
    if _IS.is_null(arrow):
        return True
    match type_:
        case Scalar():
            return bool(_FAMILIES[type_](arrow))
        case EnumOf():
            return _is_text(arrow)
        case ListOf(element=element):
            return _is_list(arrow) and _is_compatible(element, arrow.value_type)
        case VectorOf():
            return _is_list(arrow) and _is_number(arrow.value_type)


def _is_read_as_json(type_: ValueType, arrow: pa.DataType) -> bool:
    """Return whether the values must be decoded as JSON forms, checked for their length, or looked up."""
    match type_:
        case EnumOf():
            return True
        case VectorOf(size=size):
            return not (_IS.is_fixed_size_list(arrow) and arrow.list_size == size)
        case ListOf(element=element):
            return _is_list(arrow) and _is_read_as_json(element, arrow.value_type)
        case Scalar.STRING:
            return False
        case _:
            return _is_text(arrow)


def _is_sound(array: pa.Array) -> bool:
    """Return whether our types have every value: no NaN, no year above 9999, no null inside a list."""
    if _IS.is_temporal(array.type):
        years = pc.min_max(pc.year(array))
        return years["min"].as_py() is None or (years["min"].as_py() >= 1 and years["max"].as_py() <= 9999)
    if _is_list(array.type):
        return _is_sound(array.flatten()) and array.flatten().null_count == 0
    if _is_text(array.type):
        return _is_utf8(array)
    return are_finite(array) if _IS.is_floating(array.type) else True


def _is_utf8(texts: pa.Array) -> bool:
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _describe_loss(p: Property, one: pa.Array) -> tuple[str, str]:
    """Describe why the only value of an array can't be stored."""
    if _is_text(one.type):
        return "text", "the text is not UTF-8"
    value = format_cell(one)
    return value, _describe_inner_loss(p, one) or f"{value} can't be held exactly by {p.type}{_format_range(p.type)}"


def _describe_inner_loss(p: Property, one: pa.Array) -> str | None:
    """Describe a number that is not finite, or a list that contains one or a null."""
    if not _is_list(one.type):
        number = "" if not _IS.is_floating(one.type) else _find_not_finite(one)
        return f"{number} is no {p.type}; give a finite number, or null" if number else None
    items = one.flatten()
    what = "a Vector" if isinstance(p.type, VectorOf) else "a list"
    if items.null_count:
        place = items.is_null().index(True).as_py() + 1
        return f"{what} holds no null, and element {place} is one; leave it out, or make the whole value null"
    if _IS.is_floating(items.type) and (number := _find_not_finite(items)):
        place = pc.is_finite(items).index(False).as_py() + 1
        return f"{what} holds finite numbers, and element {place} is {number}"
    return None


def _find_not_finite(numbers: pa.Array) -> str:
    """Find the first number that is not finite, as text; "" if all are finite."""
    at = pc.is_finite(numbers).index(False).as_py()
    if at < 0:
        return ""
    number = numbers[at].as_py()
    if number != number:  # noqa: PLR0124 - only NaN differs from itself
        return "NaN"
    return "Infinity" if number > 0 else "-Infinity"


def format_cell(one: pa.Array) -> str:
    """Format the only value of an array, also a time or date that Python can't represent."""
    if _IS.is_temporal(one.type):
        return str(one.cast(pa.utf8())[0].as_py())
    try:
        value = one[0].as_py()
        return str(value) if _IS.is_decimal(one.type) else format_value(value)
    except (ValueError, OverflowError):
        return f"a {one.type}"


def _format_range(type_: ValueType) -> str:
    if isinstance(type_, Scalar) and type_ in INTEGER_RANGES:
        low, high = INTEGER_RANGES[type_]
        return f", whole numbers from {low} to {high}"
    return ""
