"""Check lists of records given as parameters, field by field, and hold them as one column per field.

A list of 100,000 records is checked in columns: a field whose values need no conversion costs one pass. Besides a
sequence of mappings, these are accepted: a numpy array with named fields, a data frame of pandas or polars, and a table
or batch of Arrow. No library is imported for this: values are recognised by their methods.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from omnigraph.lang.spelling import find_closest
from omnigraph.query.expr import RecordOf, ShapedType
from omnigraph.schema.catalog import Value
from omnigraph.schema.python_values import is_missing, to_items
from omnigraph.schema.types import ListOf, Scalar, ValueType
from omnigraph.schema.values import InvalidValue, format_value, from_json

# Cancellation is checked once per so many records.
_CHUNK_RECORDS = 65_536
# Python types whose values are their own JSON form, or null.
_JSON_TYPES = frozenset({str, int, float, bool, type(None)})

ConvertValue = Callable[[ValueType, object], Value | InvalidValue]


@dataclass(frozen=True, slots=True)
class RecordRows:
    """The value of a parameter that is a list of records: one column of values for each field, in declared order."""

    names: tuple[str, ...]
    columns: tuple[tuple[Value, ...], ...]
    size: int

    def __len__(self) -> int:
        """Return the number of records."""
        return self.size


def convert_records(
    type_: RecordOf, value: object, convert: ConvertValue, check_cancelled: Callable[[], None]
) -> RecordRows | InvalidValue:
    """Return a list of records in columns, or why it does not fit, with the number of the first wrong item.

    `convert` converts a single value of a field. `check_cancelled` is called between chunks, and may raise.
    """
    given = read_table_columns(value) or _transpose(type_, value, check_cancelled)
    if isinstance(given, InvalidValue):
        return given
    names = tuple(name for name, _ in type_.fields)
    unknown = next((name for name in given if name not in names), None)
    if unknown is not None:
        return InvalidValue(_describe_unknown(unknown, names))
    size = len(next(iter(given.values()), ()))
    columns: list[tuple[Value, ...]] = []
    for name, field_type in type_.fields:
        # Fields of a parameter are values: its declaration allows no others.
        assert not isinstance(field_type, ShapedType)  # noqa: S101
        column = given.get(name, [None] * size)
        is_required = name in type_.required
        converted = _convert_column(field_type, column, convert, check_cancelled, is_required=is_required)
        if isinstance(converted, _WrongItem):
            return _explain(converted, name, value)
        columns.append(converted)
    return RecordRows(names, tuple(columns), size)


# --- columns -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _WrongItem:
    """The first value of a field that does not fit; without a reason, it is null or missing."""

    index: int
    reason: str | None = None


def _convert_column(
    type_: ValueType,
    column: Sequence[object],
    convert: ConvertValue,
    check_cancelled: Callable[[], None],
    *,
    is_required: bool,
) -> tuple[Value, ...] | _WrongItem:
    values: list[Value] = []
    for start in range(0, len(column), _CHUNK_RECORDS):
        check_cancelled()
        chunk = column[start : start + _CHUNK_RECORDS]
        plain = _convert_plain(type_, chunk, is_required=is_required)
        if plain is not None:
            values += plain
            continue
        converted = _convert_each(type_, chunk, convert, is_required=is_required)
        if isinstance(converted, _WrongItem):
            return _WrongItem(start + converted.index, converted.reason)
        values += converted
    return tuple(values)


def _convert_plain(type_: ValueType, chunk: Sequence[object], *, is_required: bool) -> Sequence[Value] | None:
    """Return values that need no conversion, all checked at once; None if they must be checked one by one."""
    if not isinstance(type_, Scalar) or type_ is Scalar.BLOB or not _JSON_TYPES.issuperset(map(type, chunk)):
        return None
    present = [value for value in chunk if value is not None]
    if len(present) == len(chunk):
        checked = from_json(ListOf(type_), chunk if isinstance(chunk, list | tuple) else list(chunk))
        return checked if isinstance(checked, tuple) else None
    if is_required:
        return None
    checked = from_json(ListOf(type_), present)
    if not isinstance(checked, tuple):
        return None
    remaining = iter(checked)
    return [None if value is None else next(remaining) for value in chunk]


def _convert_each(
    type_: ValueType, chunk: Sequence[object], convert: ConvertValue, *, is_required: bool
) -> list[Value] | _WrongItem:
    values: list[Value] = []
    for index, value in enumerate(chunk):
        if is_missing(value):
            if is_required:
                return _WrongItem(index)
            values.append(None)
            continue
        converted = convert(type_, value)
        if isinstance(converted, InvalidValue):
            return _WrongItem(index, converted.reason)
        values.append(converted)
    return values


# --- what is given -------------------------------------------------------------------------------


def _transpose(
    type_: RecordOf, value: object, check_cancelled: Callable[[], None]
) -> dict[str, list[object]] | InvalidValue:
    """Return the columns of a sequence of mappings; a field that a record does not have is null."""
    items = to_items(value)
    if not isinstance(items, Sequence) or isinstance(items, str | bytes | bytearray | memoryview):
        return InvalidValue(f"expected a list of records {type_}, got {format_value(value)}")
    names = tuple(name for name, _ in type_.fields)
    allowed = frozenset(names)
    for index, item in enumerate(items):
        if index % _CHUNK_RECORDS == 0:
            check_cancelled()
        if not isinstance(item, Mapping):
            return InvalidValue(f"item {index + 1}: expected a record {type_}, got {format_value(item)}")
        if not item.keys() <= allowed:
            unknown = next(str(name) for name in item if name not in allowed)
            return InvalidValue(f"item {index + 1}: {_describe_unknown(unknown, names)}")
    columns: dict[str, list[object]] = {}
    for name in names:
        check_cancelled()
        columns[name] = [item.get(name) for item in items]
    return columns


def read_table_columns(value: Any) -> dict[str, list[object]] | None:  # noqa: ANN401 - of another library
    """Return the columns of a table of another library; None if the value is none."""
    names = getattr(getattr(value, "dtype", None), "names", None)
    if names:
        # A numpy array with named fields.
        return {name: value[name].tolist() for name in names}
    if hasattr(value, "to_pylist") and hasattr(value, "schema"):
        # An Arrow table or batch.
        return {name: value.column(index).to_pylist() for index, name in enumerate(value.schema.names)}
    if hasattr(value, "get_column") and hasattr(value, "columns"):
        # A polars data frame.
        return {name: value.get_column(name).to_list() for name in value.columns}
    if hasattr(value, "columns") and hasattr(value, "iloc"):
        return {str(name): _read_series(value[name]) for name in value.columns}
    return None


def _read_series(series: Any) -> list[object]:  # noqa: ANN401 - a column of pandas
    # In a data frame, NaN means that there is no value; a column of integers with such a gap is one of floats.
    values: list[object] = series.astype(object).where(series.notna(), None).tolist()
    present = [value for value in values if type(value) is float]
    if len(present) < len(values) and present and all(value.is_integer() for value in present):
        return [int(value) if type(value) is float else value for value in values]
    return values


# --- messages ------------------------------------------------------------------------------------


def _describe_unknown(name: str, names: Iterable[str]) -> str:
    closest = find_closest(name, names)
    hint = f"did you mean `{closest}`?" if closest else f"the fields are {', '.join(f'`{each}`' for each in names)}"
    return f"unknown field `{format_value(name)[1:-1]}`; {hint}"


def _explain(wrong: _WrongItem, name: str, value: object) -> InvalidValue:
    where = f"item {wrong.index + 1}"
    if wrong.reason is not None:
        return InvalidValue(f"{where}: `{name}`: {wrong.reason}")
    item = value[wrong.index] if isinstance(value, Sequence) else None
    is_absent = isinstance(item, Mapping) and name not in item
    problem = "is missing" if is_absent else "is null"
    return InvalidValue(f"{where}: `{name}` {problem}, but it is required")
