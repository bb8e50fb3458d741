"""Convert values between types: null where a conversion is impossible."""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.arithmetic import read_floats
from omnigraph.lang.expression_printer import print_float
from omnigraph.schema.values import format_date, format_datetime, parse_date, parse_datetime

_INTEGER = re.compile(r"\s*[+-]?[0-9]{1,30}\s*")
_NUMBER = re.compile(r"\s*[+-]?([0-9]{1,400}(\.[0-9]{0,400})?|\.[0-9]{1,400})([eE][+-]?[0-9]{1,4})?\s*")


def to_text(values: pa.Array) -> pa.Array:
    """Return values as they are printed in results."""
    type_ = values.type
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return values
    if pa.types.is_integer(type_) or pa.types.is_boolean(type_):
        return values.cast(pa.string())
    return _map_distinct(values, _format, pa.string())


def to_integers(values: pa.Array) -> pa.Array:
    """Return integers: of texts, of floats without their fraction, 1 and 0 of Bools."""
    type_ = values.type
    if pa.types.is_boolean(type_):
        return values.cast(pa.int64())
    if pa.types.is_uint64(type_):
        fits = pc.less_equal(values, pa.scalar(2**63 - 1, pa.uint64()))
        return pc.if_else(fits, values, None).cast(pa.int64())
    if pa.types.is_integer(type_):
        return values.cast(pa.int64())
    if pa.types.is_floating(type_):
        numbers = read_floats(values)
        whole = np.trunc(numbers.values)
        # The largest I64 is no float; 2^63 is the first that does not fit.
        fits = numbers.valid & (whole >= -(2.0**63)) & (whole < 2.0**63)
        return pa.array(np.where(fits, whole, 0).astype(np.int64), mask=~fits)
    return _map_distinct(values, _parse_integer, pa.int64())


def to_floats(values: pa.Array) -> pa.Array:
    """Return floats: of texts, of integers, 1.0 and 0.0 of Bools."""
    type_ = values.type
    if pa.types.is_boolean(type_):
        return values.cast(pa.int64()).cast(pa.float64())
    if pa.types.is_integer(type_) or pa.types.is_floating(type_):
        return read_floats(values).to_array(pa.float64())
    return _map_distinct(values, _parse_float, pa.float64())


def to_dates(values: pa.Array) -> pa.Array:
    """Return dates: of texts such as "2026-01-31", of instants in UTC."""
    if pa.types.is_date(values.type):
        return values
    return _map_distinct(values, _parse_date, pa.date32())


def to_datetimes(values: pa.Array) -> pa.Array:
    """Return instants: of texts with a zone, of dates at midnight in UTC."""
    if pa.types.is_timestamp(values.type):
        return values
    return _map_distinct(values, _parse_datetime, pa.timestamp("us", tz="UTC"))


def _map_distinct(values: pa.Array, convert: Callable[[object], object], type_: pa.DataType) -> pa.Array:
    # Each distinct value once: texts and dates repeat, and Python takes microseconds for each.
    encoded = values.dictionary_encode()
    converted = pa.array([convert(value) for value in encoded.dictionary.to_pylist()], type_)
    return converted.take(encoded.indices)


def _format(value: object) -> str:
    match value:
        case float():
            return print_float(value)
        case datetime():
            return format_datetime(value)
        case date():
            return format_date(value)
        case _:
            return str(value)


def _parse_integer(value: object) -> int | None:
    if not isinstance(value, str) or not _INTEGER.fullmatch(value):
        return None
    number = int(value)
    return number if -(2**63) <= number < 2**63 else None


def _parse_float(value: object) -> float | None:
    if not isinstance(value, str) or not _NUMBER.fullmatch(value):
        return None
    number = float(value)
    return number if np.isfinite(number) else None


def _parse_date(value: object) -> date | None:
    if isinstance(value, datetime):
        return value.astimezone(UTC).date()
    parsed = parse_date(value) if isinstance(value, str) else None
    return parsed if isinstance(parsed, date) else None


def _parse_datetime(value: object) -> datetime | None:
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime.combine(value, time(), UTC)
    parsed = parse_datetime(value) if isinstance(value, str) else None
    return parsed if isinstance(parsed, datetime) else None
