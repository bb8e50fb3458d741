"""Parameter values: what a caller gave, checked against what the query declares, before anything is read.

A value may come as JSON (a request, a file), as Python objects (the library) or as text (`--param k=v`). All three
meet in one check, as strict as the one for loaded data. Beside the JSON form of a type these Python values are taken:
an aware `datetime` for DateTime, a `date` for Date, `bytes` for Blob, anything with `__index__` (but no `bool`) for an
integer, and any sequence, or object with `tolist()` (an array), for a list or Vector. Scalars of numpy, decimals and
pandas' missing values are taken as Python's own where that says exactly the same. Nothing else is converted: a
naive `datetime`, a `datetime` for a Date, a number for a String or a `bool` for an integer are refused.
"""

import base64
import json
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import SupportsIndex, assert_never

from omnigraph.errors import Kind, OmnigraphError
from omnigraph.lang.spelling import Suggestions
from omnigraph.query.expr import Parameter
from omnigraph.schema.catalog import Value
from omnigraph.schema.python_values import NO_ZONE, is_missing, to_items, to_python_value
from omnigraph.schema.types import EnumOf, ListOf, Scalar, ValueType, VectorOf
from omnigraph.schema.values import BASE64_PREFIX, InvalidValue, describe_type, format_value, from_json

_MAX_NAME_LENGTH = 60  # characters that a message shows of a name which no query can have declared
_CHUNK_ITEMS = 65_536
"""Of a longer list, so many items are checked at a time."""
JSON_SCALAR_TYPES = frozenset({str, int, float, bool})
"""Python's own types whose values are their own JSON form."""


@dataclass(frozen=True, slots=True)
class ParameterProblem:
    """What is wrong with one parameter; `type` and `value` are as shown to people, None where there is none."""

    name: str
    reason: str
    type: str | None = None
    value: str | None = None
    help: str | None = None

    def __str__(self) -> str:
        return f"{self.reason}; {self.help}" if self.help else self.reason


class ParameterError(OmnigraphError):
    """The given parameters don't fit the declared ones; `problems` are all of them."""

    kind = Kind.INVALID
    code = "invalid_parameters"

    def __init__(self, problems: Iterable[ParameterProblem]) -> None:
        found = tuple(problems)
        super().__init__(found)
        self.problems = found

    def facts(self) -> dict[str, object]:
        """Every problem as a mapping, so that a program needs no parsing of messages."""
        return {
            "parameters": [
                {"name": p.name, "type": p.type, "value": p.value, "reason": p.reason, "help": p.help}
                for p in self.problems
            ]
        }

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)


class ParamText(str):
    """A parameter's value as the text of a command line, where types are not written: see `parse_param_text`."""

    __slots__ = ()


def check_params(
    declared: Iterable[Parameter], given: Mapping[str, object], check_cancelled: Callable[[], None] | None = None
) -> dict[str, Value]:
    """A typed value for every declared parameter, in declared order; a nullable one that is missing is None.

    `look` is called now and then, also within a long list, and may raise.
    Raises `ParameterError` with all problems: unknown names, missing or null required parameters, unfit values.
    """
    check_cancelled = check_cancelled or _do_nothing

    def converted(type_: ValueType, value: object) -> Value | InvalidValue:
        check_cancelled()
        return _from_python(type_, value, check_cancelled)

    return _check_values(declared, given, converted)


def check_param_texts(declared: Iterable[Parameter], given: Mapping[str, str]) -> dict[str, Value]:
    """Like `check_params` for texts of a command line, each read by `parse_param_text`."""
    return _check_values(declared, given, lambda type_, text: parse_param_text(type_, str(text)))


def parse_param_text(type_: ValueType, text: str) -> Value | InvalidValue:
    """The typed value of a text such as `42`, `true`, `2026-01-02`, or why it is none.

    Text types, Date, DateTime and Blob take the text as it is, without quotes; lists and vectors are JSON arrays.
    There is no text for null (`null` is a String's text): a nullable parameter is null when it is left out.
    """
    match type_:
        case EnumOf() | Scalar.STRING | Scalar.BLOB | Scalar.DATE | Scalar.DATETIME:
            return from_json(type_, text)
        case ListOf() | VectorOf() | Scalar():
            try:
                value: object = json.loads(text)
            except (ValueError, RecursionError):
                value = None
            if value is None or isinstance(value, str):  # `null` and `"42"` are JSON, but no text of these types
                return InvalidValue(f"expected {_describe_type(type_)}, got {format_value(text)}")
            return from_json(type_, value)
        case _:
            assert_never(type_)


def _describe_type(type_: ListOf | VectorOf | Scalar) -> str:
    is_array = isinstance(type_, ListOf | VectorOf)
    return f"{describe_type(type_)} as a JSON array" if is_array else describe_type(type_)


def _check_values(
    declared: Iterable[Parameter],
    given: Mapping[str, object],
    convert: Callable[[ValueType, object], Value | InvalidValue],
) -> dict[str, Value]:
    by_name = {parameter.name: parameter for parameter in declared}
    checked: dict[str, Value] = {}
    suggestions = Suggestions()
    problems = [_describe_unknown(name, by_name, suggestions) for name in given if name not in by_name]
    for name, parameter in by_name.items():
        if is_missing(given.get(name)):
            if parameter.nullable:
                checked[name] = None
            else:
                problems.append(_describe_missing(parameter, is_null=name in given))
            continue
        value = convert(parameter.type, given[name])
        if isinstance(value, InvalidValue):
            problems.append(_describe_misfit(parameter, given[name], value))
        else:
            checked[name] = value
    if problems:
        raise ParameterError(problems)
    return checked


def _describe_unknown(name: str, by_name: Mapping[str, Parameter], suggestions: Suggestions) -> ParameterProblem:
    if name.startswith("$"):
        return ParameterProblem(name, f"unknown parameter `{_clip_name(name)}`", help="give the name without the `$`")
    near = suggestions.find_closest(name, by_name)
    if near is not None:
        help_ = f"did you mean `${near}`?"
    elif by_name:
        help_ = f"the query takes {', '.join(f'`${known}`' for known in by_name)}"
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
    """Nobody is in a hurry."""


def _from_python(type_: ValueType, value: object, look: Callable[[], None]) -> Value | InvalidValue:
    if isinstance(value, ParamText):
        return parse_param_text(type_, str(value))
    form = _to_json_form(type_, value, look)
    if isinstance(form, InvalidValue):
        return form
    if isinstance(type_, ListOf) and isinstance(form, list) and len(form) > _CHUNK_ITEMS:
        return _convert_long_list(type_, form, look)
    return from_json(type_, form)


def _convert_long_list(type_: ListOf, form: list[object], look: Callable[[], None]) -> Value | InvalidValue:
    """As `from_json`, a part at a time."""
    items: list[Value] = []
    for begin in range(0, len(form), _CHUNK_ITEMS):
        look()
        part = from_json(type_, form[begin : begin + _CHUNK_ITEMS])
        if not isinstance(part, tuple):
            return from_json(type_, form[: begin + _CHUNK_ITEMS])  # which says where in the list
        items += part
    return tuple(items)


def _to_json_form(type_: ValueType, value: object, look: Callable[[], None] = _do_nothing) -> object:
    """The JSON form of a Python value that stands for this very type; any other value as it is."""
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
        return _convert_array(element, value, look)
    return value


def _to_index(value: SupportsIndex) -> object:
    try:
        return operator.index(value)
    except TypeError:  # an array has `__index__`, but only that of a single integer answers
        return value


def _format_instant(value: datetime) -> str | InvalidValue:
    if value.utcoffset() is None:
        return InvalidValue(NO_ZONE)
    try:
        return value.astimezone(UTC).isoformat()
    except OverflowError:
        return InvalidValue("the instant lies outside the years 1 to 9999")


def _convert_array(element: Scalar, value: object, look: Callable[[], None]) -> object:
    value = to_items(value)
    if not isinstance(value, Sequence) or isinstance(value, str | bytes | bytearray | memoryview):
        return value
    if JSON_SCALAR_TYPES.issuperset(map(type, value)):
        return list(value)  # a list may be long, and asking each item takes a while
    items: list[object] = []
    for place, item in enumerate(value):
        if place % _CHUNK_ITEMS == 0:
            look()
        form = _to_json_form(element, item)
        if isinstance(form, InvalidValue):
            return form
        items.append(form)
    return items


def _clip_name(name: str) -> str:
    return name if len(name) <= _MAX_NAME_LENGTH else name[: _MAX_NAME_LENGTH - 1] + "…"
