"""Columns of other tools' Arrow tables to ours: cast only within a family, and only where nothing is lost.

Numbers become other numbers when every value is kept (a 64-bit float is rounded to an F32, as JSON's numbers are).
Text is taken as text, or as the JSON form of a Date, DateTime, 64-bit integer or Blob. A time needs its zone.
"""

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.columns import are_finite, column_from_json
from omnigraph.engine.record_error import ColumnError
from omnigraph.engine.typed_rows import Filled
from omnigraph.schema.arrow import arrow_type
from omnigraph.schema.catalog import Property
from omnigraph.schema.misfit import shown
from omnigraph.schema.types import INTEGER_RANGES, EnumOf, ListOf, Scalar, ValueType, VectorOf

_IS = pa.types


def texts_of(column: pa.Array, file: str, type_name: str, name: str) -> list[object]:
    """The values of a column of ids; ColumnError when it is not text."""
    plain = _plain(column)
    if not _is_text(plain.type):
        reason = f"the column of `{name}` holds {plain.type}; an id is a string"
        raise ColumnError(file, type_name, name, reason)
    texts: list[object] = plain.to_pylist()
    return texts


def filled_from_arrow(p: Property, column: pa.Array, file: str, type_name: str) -> Filled:
    """A property's column; values that would be lost are misfits, a type that never fits is a ColumnError."""
    plain = _plain(column)
    if not _fits(p.type, plain.type):
        hint = "; a time needs its zone" if p.type is Scalar.DATETIME and _IS.is_timestamp(plain.type) else ""
        reason = f"the column of `{p.name}` holds {plain.type}, which is no {p.type}{hint}"
        raise ColumnError(file, type_name, p.name, reason)
    if _goes_by_json(p.type, plain.type):
        return _by_json(p, plain)
    target = arrow_type(p.type)
    try:
        array = plain.cast(target, safe=True)
    except pa.ArrowException:
        return _one_by_one(p, plain, target)
    return Filled(array=array) if _is_sound(array) else _one_by_one(p, plain, target)


def _plain(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if _IS.is_dictionary(column.type) else column


def _is_text(arrow: pa.DataType) -> bool:
    return bool(_IS.is_string(arrow) or _IS.is_large_string(arrow) or _IS.is_string_view(arrow))


def _is_binary(arrow: pa.DataType) -> bool:
    return bool(_IS.is_binary(arrow) or _IS.is_large_binary(arrow) or _IS.is_binary_view(arrow))


def _is_number(arrow: pa.DataType) -> bool:
    return bool(_IS.is_integer(arrow) or _IS.is_floating(arrow))


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


def _fits(type_: ValueType, arrow: pa.DataType) -> bool:
    if _IS.is_null(arrow):
        return True
    match type_:
        case Scalar():
            return bool(_FAMILIES[type_](arrow))
        case EnumOf():
            return _is_text(arrow)
        case ListOf(element=element):
            return _is_list(arrow) and _fits(element, arrow.value_type)
        case VectorOf():
            return _is_list(arrow) and _is_number(arrow.value_type)


def _goes_by_json(type_: ValueType, arrow: pa.DataType) -> bool:
    """Whether the values have to be read as the JSON forms they are, or counted, or looked up."""
    match type_:
        case EnumOf():
            return True
        case VectorOf(size=size):
            return not (_IS.is_fixed_size_list(arrow) and arrow.list_size == size)
        case ListOf(element=element):
            return _is_list(arrow) and _goes_by_json(element, arrow.value_type)
        case Scalar.STRING:
            return False
        case _:
            return _is_text(arrow)


def _by_json(p: Property, column: pa.Array) -> Filled:
    values: list[object] = column.to_pylist()
    found = column_from_json(p.type, values)
    return Filled(
        array=found.array,
        misfits={row: (shown(values[row]), misfit.reason) for row, misfit in found.misfits.items()},
    )


def _is_sound(array: pa.Array) -> bool:
    """Whether every value is one that our types have: no NaN, no year beyond 9999, no null inside of a list."""
    if _IS.is_temporal(array.type):
        years = pc.min_max(pc.year(array))
        return years["min"].as_py() is None or (years["min"].as_py() >= 1 and years["max"].as_py() <= 9999)
    if _is_list(array.type):
        return _is_sound(array.flatten()) and array.flatten().null_count == 0
    return are_finite(array) if _IS.is_floating(array.type) else True


def _one_by_one(p: Property, column: pa.Array, target: pa.DataType) -> Filled:
    """Find the rows that can't be cast."""
    parts: list[pa.Array] = []
    misfits: dict[int, tuple[str, str]] = {}
    for row in range(len(column)):
        one = column.slice(row, 1)
        try:
            cast = one.cast(target, safe=True)
        except pa.ArrowException:
            cast = None
        if cast is None or not _is_sound(cast):
            value = cell_text(one)
            misfits[row] = (value, f"{value} can't be held exactly by {p.type}{_range(p.type)}")
            cast = pa.nulls(1, target)
        parts.append(cast)
    return Filled(array=pc.cast(pa.concat_arrays(parts), target), misfits=misfits)


def cell_text(one: pa.Array) -> str:
    """The only value of an array, for people; also a time or date that Python has no value for."""
    if _IS.is_temporal(one.type):
        return str(one.cast(pa.utf8())[0].as_py())
    try:
        return shown(one[0].as_py())
    except (ValueError, OverflowError):
        return f"a {one.type}"


def _range(type_: ValueType) -> str:
    if isinstance(type_, Scalar) and type_ in INTEGER_RANGES:
        low, high = INTEGER_RANGES[type_]
        return f", whole numbers from {low} to {high}"
    return ""
