"""Check parameter values against the declarations of a query, before any data is read.

A value may be JSON (a request, a file), a Python object (the library) or text (`--param k=v`). All three pass one
check, as strict as the one for loaded data. Besides the JSON form of a type these Python values are accepted: an aware
`datetime` for DateTime, a `date` for Date, `bytes` for Blob, anything with `__index__` (but no `bool`) for an integer,
and any sequence, or object with `tolist()` (an array), for a list or Vector. Numpy scalars, decimals and pandas'
missing values are converted to Python values where that is exact. Nothing else is converted: a naive `datetime`, a
`datetime` for a Date, a number for a String or a `bool` for an integer are rejected.
"""

import base64
import json
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import SupportsIndex, TypeAlias, assert_never

from omnigraph.errors import Kind, OmnigraphError
from omnigraph.lang.spelling import Suggestions
from omnigraph.query.expr import ArrayOf, Parameter, ParamType, RecordOf
from omnigraph.query.record_params import RecordRows, convert_records
from omnigraph.schema.catalog import Value
from omnigraph.schema.python_values import NO_ZONE, is_missing, to_items, to_python_value
from omnigraph.schema.types import EnumOf, ListOf, Scalar, ValueType, VectorOf
from omnigraph.schema.values import BASE64_PREFIX, InvalidValue, describe_type, format_value, from_json

# A message clips longer names; they come from the caller and can have any length.
_MAX_NAME_LENGTH = 60
# Cancellation is checked once per so many items of a long list.
_CHUNK_ITEMS = 65_536
# Python types whose values are their own JSON form.
JSON_SCALAR_TYPES = frozenset({str, int, float, bool})


# The value of a parameter: of a property's type, or a list of records.
ParamValue: TypeAlias = Value | RecordRows


@dataclass(frozen=True, slots=True)
class ParameterProblem:
    """An error of one parameter; `type` and `value` are formatted for messages, None if there is none."""

    name: str
    reason: str
    type: str | None = None
    value: str | None = None
    help: str | None = None

    def __str__(self) -> str:
        return f"{self.reason}; {self.help}" if self.help else self.reason


class ParameterError(OmnigraphError):
    """The parameters don't fit the declared ones; `problems` are all errors."""

    kind = Kind.INVALID
    code = "invalid_parameters"

    def __init__(self, problems: Iterable[ParameterProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__(self.problems)

    def facts(self) -> dict[str, object]:
        """Return every problem as a mapping, so that programs need not parse messages."""
        return {
            "parameters": [
                {"name": p.name, "type": p.type, "value": p.value, "reason": p.reason, "help": p.help}
                for p in self.problems
            ]
        }

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)


class ParamText(str):
    """A parameter's value as text from a command line, which `parse_param_text` converts to the declared type."""

    __slots__ = ()


def check_params(
    declared: Iterable[Parameter], values: Mapping[str, object], check_cancelled: Callable[[], None] | None = None
) -> dict[str, ParamValue]:
    """Return a typed value for every declared parameter, in declared order; a missing nullable one is None.

    `check_cancelled` is called between values, also within a long list, and may raise.

    Raises:
        ParameterError: There are unknown names, missing or null required parameters, or wrong values; all are listed.
    """
    check_cancelled = check_cancelled or _do_nothing

    def convert(type_: ParamType, value: object) -> ParamValue | InvalidValue:
        check_cancelled()
        if isinstance(type_, ArrayOf):
            return _convert_records(type_, value, check_cancelled)
        return _from_python(type_, value, check_cancelled)

    return _check_values(declared, values, convert)


def check_param_texts(declared: Iterable[Parameter], values: Mapping[str, str]) -> dict[str, ParamValue]:
    """Check values from a command line, each parsed by `parse_param_text`; else like `check_params`."""

    def convert(type_: ParamType, text: object) -> ParamValue | InvalidValue:
        if isinstance(type_, ArrayOf):
            return _convert_records(type_, ParamText(str(text)), _do_nothing)
        return parse_param_text(type_, str(text))

    return _check_values(declared, values, convert)


def _convert_records(type_: ArrayOf, value: object, check_cancelled: Callable[[], None]) -> RecordRows | InvalidValue:
    """Return a list of records; the text of a command line is a JSON array of objects."""
    # A parameter that is a list of anything else has another type.
    assert isinstance(type_.element, RecordOf)  # noqa: S101
    if isinstance(value, ParamText):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return InvalidValue(f"expected a JSON array of records {type_.element}, got {format_value(value)}")
    return convert_records(
        type_.element, value, lambda inner, item: _from_python(inner, item, check_cancelled), check_cancelled
    )


def parse_param_text(type_: ValueType, text: str) -> Value | InvalidValue:
    """Parse a text such as `42`, `true` or `2026-01-02`; an `InvalidValue` has the reason if it does not fit.

    Text types, Date, DateTime and Blob take the text unchanged, without quotes; lists and vectors are JSON arrays.
    No text means null (`null` is a String): a nullable parameter is null if it is omitted.
    """
    match type_:
        case EnumOf() | Scalar.STRING | Scalar.BLOB | Scalar.DATE | Scalar.DATETIME:
            return from_json(type_, text)
        case ListOf() | VectorOf() | Scalar():
            try:
                value: object = json.loads(text)
            except (ValueError, RecursionError):
                value = None
            # `null` and `"42"` are valid JSON, but not texts of these types.
            if value is None or isinstance(value, str):
                return InvalidValue(f"expected {_describe_type(type_)}, got {format_value(text)}")
            return from_json(type_, value)
        case _:
            assert_never(type_)


def _describe_type(type_: ListOf | VectorOf | Scalar) -> str:
    is_array = isinstance(type_, ListOf | VectorOf)
    return f"{describe_type(type_)} as a JSON array" if is_array else describe_type(type_)


def _check_values(
    declared: Iterable[Parameter],
    values: Mapping[str, object],
    convert: Callable[[ParamType, object], ParamValue | InvalidValue],
) -> dict[str, ParamValue]:
    by_name = {parameter.name: parameter for parameter in declared}
    checked: dict[str, ParamValue] = {}
    suggestions = Suggestions()
    problems = [_describe_unknown(name, by_name, suggestions) for name in values if name not in by_name]
    for name, parameter in by_name.items():
        if is_missing(values.get(name)):
            if parameter.nullable:
                checked[name] = None
            else:
                problems.append(_describe_missing(parameter, is_null=name in values))
            continue
        value = convert(parameter.type, values[name])
        if isinstance(value, InvalidValue):
            problems.append(_describe_misfit(parameter, values[name], value))
        else:
            checked[name] = value
    if problems:
        raise ParameterError(problems)
    return checked


def _describe_unknown(name: str, by_name: Mapping[str, Parameter], suggestions: Suggestions) -> ParameterProblem:
    if name.startswith("$"):
        return ParameterProblem(name, f"unknown parameter `{_clip_name(name)}`", help="give the name without the `$`")
    closest = suggestions.find_closest(name, by_name)
    if closest is not None:
        help_ = f"did you mean `${closest}`?"
    elif by_name:
        help_ = f"the query takes {', '.join(f'`${declared}`' for declared in by_name)}"
    else:
        help_ = "the query takes no parameters"
    return ParameterProblem(name, f"unknown parameter `${_clip_name(name)}`", help=help_)


def _describe_missing(parameter: Parameter, *, is_null: bool) -> ParameterProblem:
    what = f"parameter `${parameter.name}: {parameter.type}`"
    if is_null:
        reason = f"{what} is null, but it is required"
        help_ = f"give a value, or declare it `{parameter.type}?`"
    else:
        reason = f"{what} is missing"
        help_ = f"give it, or declare it `{parameter.type}?`"
    return ParameterProblem(parameter.name, reason, str(parameter.type), "null" if is_null else None, help_)


def _describe_misfit(parameter: Parameter, value: object, misfit: InvalidValue) -> ParameterProblem:
    reason = f"parameter `${parameter.name}: {parameter.type}`: {misfit.reason}"
    return ParameterProblem(parameter.name, reason, str(parameter.type), format_value(value))


def _do_nothing() -> None:
    """Do nothing: the default of `check_cancelled`."""


def _from_python(type_: ValueType, value: object, check_cancelled: Callable[[], None]) -> Value | InvalidValue:
    if isinstance(value, ParamText):
        return parse_param_text(type_, str(value))
    form = _to_json_form(type_, value, check_cancelled)
    if isinstance(form, InvalidValue):
        return form
    if isinstance(type_, ListOf) and isinstance(form, list) and len(form) > _CHUNK_ITEMS:
        return _convert_long_list(type_, form, check_cancelled)
    return from_json(type_, form)


def _convert_long_list(type_: ListOf, form: list[object], check_cancelled: Callable[[], None]) -> Value | InvalidValue:
    """Convert a list like `from_json`, but in chunks."""
    items: list[Value] = []
    for begin in range(0, len(form), _CHUNK_ITEMS):
        check_cancelled()
        chunk = from_json(type_, form[begin : begin + _CHUNK_ITEMS])
        if not isinstance(chunk, tuple):
            # Converted again from the start, so that the reason has the position in the whole list.
            return from_json(type_, form[: begin + _CHUNK_ITEMS])
        items += chunk
    return tuple(items)


def _to_json_form(type_: ValueType, value: object, check_cancelled: Callable[[], None] = _do_nothing) -> object:
    """Return the JSON form of a Python value that represents exactly this type; any other value unchanged."""
    value = to_python_value(value)
    if type_ is Scalar.DATETIME and isinstance(value, datetime):
        return _format_instant(value)
    if type_ is Scalar.DATE and isinstance(value, date) and not isinstance(value, datetime):
        return value.isoformat()
    if isinstance(type_, Scalar) and type_.is_integer and isinstance(value, SupportsIndex):
        return value if isinstance(value, bool) else _to_index(value)
    if type_ is Scalar.BLOB and isinstance(value, bytes):
        return BASE64_PREFIX + base64.b64encode(value).decode()
    if isinstance(type_, ListOf | VectorOf):
        element = type_.element if isinstance(type_, ListOf) else Scalar.F32
        return _convert_array(element, value, check_cancelled)
    return value


def _to_index(value: SupportsIndex) -> object:
    try:
        return operator.index(value)
    except TypeError:
        # A numpy array has `__index__`, but it works only for a single integer.
        return value


def _format_instant(value: datetime) -> str | InvalidValue:
    if value.utcoffset() is None:
        return InvalidValue(NO_ZONE)
    try:
        return value.astimezone(UTC).isoformat()
    except OverflowError:
        return InvalidValue("the instant lies outside the years 1 to 9999")


def _convert_array(element: Scalar, value: object, check_cancelled: Callable[[], None]) -> object:
    value = to_items(value)
    if not isinstance(value, Sequence) or isinstance(value, str | bytes | bytearray | memoryview):
        return value
    # A list may be long, and converting each item takes a while.
    if JSON_SCALAR_TYPES.issuperset(map(type, value)):
        return list(value)
    items: list[object] = []
    for index, item in enumerate(value):
        if index % _CHUNK_ITEMS == 0:
            check_cancelled()
        form = _to_json_form(element, item)
        if isinstance(form, InvalidValue):
            return form
        items.append(form)
    return items


def _clip_name(name: str) -> str:
    return name if len(name) <= _MAX_NAME_LENGTH else name[: _MAX_NAME_LENGTH - 1] + "…"
