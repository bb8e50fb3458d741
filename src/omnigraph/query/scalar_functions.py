"""The scalar functions and operators of the query language: names, signatures and result types.

A function maps values of one row to a value. Null in, null out, unless the function skips nulls. The kernels are in the
engine; this table is all that the binder, the documentation and the completion need.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from omnigraph.schema.types import (
    EnumOf,
    ListOf,
    Scalar,
    ValueType,
    is_numeric,
    is_scalar,
    is_text,
)


class ScalarFunction(Enum):
    """A function of the language, or an operator; the value is what the text calls it."""

    ADD = "+"
    SUBTRACT = "-"
    MULTIPLY = "*"
    DIVIDE = "/"
    MODULO = "%"
    QUOTIENT = "quotient"
    """Of Cypher: whole for whole numbers; a division by zero is an error."""
    REMAINDER = "remainder"
    """Of Cypher: as `%`, but a division by zero is an error."""
    NEGATE = "negate"
    CONCATENATE = "concatenate"
    ELEMENT = "element"
    LIST = "list"
    WIDEN = "widen"
    # Of Cypher, whose lists may hold nulls and are compared as values.
    ITEMS = "items"
    JOIN_LISTS = "join_lists"
    REVERSE = "reverse"
    RANGE = "range"
    EQUAL_LISTS = "equal_lists"
    COMPARE_LISTS = "compare_lists"
    HAS_ITEM = "has_item"
    LIST_KEY = "list_key"
    LIST_OF_KEY = "list_of_key"
    SUM_OF = "sum_of"
    PERCENTILE_OF = "percentile_of"
    SHIFT = "shift"
    LOWER = "lower"
    UPPER = "upper"
    TRIM = "trim"
    TRIM_LEFT = "trim_left"
    TRIM_RIGHT = "trim_right"
    LENGTH = "length"
    SUBSTRING = "substring"
    INDEX_OF = "index_of"
    REPLACE = "replace"
    SPLIT = "split"
    JOIN = "join"
    STARTS_WITH = "starts_with"
    ENDS_WITH = "ends_with"
    MATCHES = "matches"
    EXTRACT = "extract"
    ABS = "abs"
    SIGN = "sign"
    ROUND = "round"
    FLOOR = "floor"
    CEIL = "ceil"
    SQRT = "sqrt"
    LN = "ln"
    LOG10 = "log10"
    EXP = "exp"
    POW = "pow"
    DIV = "div"
    YEAR = "year"
    MONTH = "month"
    WEEK = "week"
    DAY = "day"
    WEEKDAY = "weekday"
    HOUR = "hour"
    MINUTE = "minute"
    SECOND = "second"
    TRUNC = "trunc"
    TODAY = "today"
    DATE = "date"
    DAYS_BETWEEN = "days_between"
    SECONDS_BETWEEN = "seconds_between"
    SIZE = "size"
    FIRST = "first"
    LAST = "last"
    SLICE = "slice"
    SORT = "sort"
    UNIQUE = "unique"
    COALESCE = "coalesce"
    LEAST = "least"
    GREATEST = "greatest"
    NULLIF = "nullif"
    TO_STRING = "to_string"
    TO_INT = "to_int"
    TO_FLOAT = "to_float"
    TO_DATE = "to_date"
    TO_DATETIME = "to_datetime"


# These take lists of any elements, also those that no property can store; some take whole nodes and edges too.
ARRAY_FUNCTIONS = frozenset(
    {
        ScalarFunction.SIZE,
        ScalarFunction.FIRST,
        ScalarFunction.LAST,
        ScalarFunction.SLICE,
        ScalarFunction.ELEMENT,
        ScalarFunction.LIST,
        ScalarFunction.COALESCE,
        ScalarFunction.NULLIF,
        ScalarFunction.WIDEN,
        ScalarFunction.ITEMS,
        ScalarFunction.JOIN_LISTS,
        ScalarFunction.REVERSE,
        ScalarFunction.EQUAL_LISTS,
        ScalarFunction.COMPARE_LISTS,
        ScalarFunction.HAS_ITEM,
        ScalarFunction.LIST_KEY,
        ScalarFunction.LIST_OF_KEY,
        ScalarFunction.SUM_OF,
        ScalarFunction.PERCENTILE_OF,
    }
)


class ParameterKind(Enum):
    """What an argument may be; the value describes it in messages."""

    TEXT = "a String"
    INTEGER = "an integer"
    NUMBER = "a number"
    DATE = "a Date"
    DATETIME = "a DateTime"
    MOMENT = "a Date or DateTime"
    LIST = "a list"
    TEXT_LIST = "a list of String"
    VALUE = "a single value"
    CHOICE = "a value or a list"
    # Known before a row is read, since a kernel is compiled or chosen for it.
    PATTERN = "a regular expression: a text or a String parameter"
    UNIT = 'a unit: "year", "quarter", "month", "week", "day", "hour" or "minute"'
    ZONE = 'a time zone such as "Europe/Berlin": a text or a String parameter'


FIXED_KINDS = frozenset({ParameterKind.PATTERN, ParameterKind.UNIT, ParameterKind.ZONE})
TRUNC_UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute")
# The units of a duration, and whether they can be added to a Date.
DURATION_UNITS = {
    "years": True,
    "months": True,
    "weeks": True,
    "days": True,
    "hours": False,
    "minutes": False,
    "seconds": False,
}

ResultType: TypeAlias = Callable[[tuple[ValueType, ...]], ValueType]


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """The parameters of a function and the type of its result.

    With `is_variadic` the last parameter may be repeated. If `agrees`, all arguments become one common type.
    """

    function: ScalarFunction
    parameters: tuple[ParameterKind, ...]
    result: ResultType
    optional: int = 0
    is_variadic: bool = False
    agrees: bool = False
    # Whether the result can be null although no argument is.
    can_fail: bool = False
    # Whether nulls are passed over; the result is null only if all arguments are.
    skips_nulls: bool = False
    usage: str

    @property
    def name(self) -> str:
        """The name as written in a query."""
        return self.function.value

    @property
    def min_args(self) -> int:
        """The smallest number of arguments."""
        return len(self.parameters) - self.optional

    @property
    def max_args(self) -> int | None:
        """The largest number of arguments; None if there is no limit."""
        return None if self.is_variadic else len(self.parameters)

    def get_parameter(self, index: int) -> ParameterKind:
        """Return the kind of the argument at a position, which may be a repetition of the last one."""
        return self.parameters[min(index, len(self.parameters) - 1)]


def accepts(kind: ParameterKind, type_: ValueType) -> bool:
    """Return whether an argument of a type fits a parameter."""
    match kind:
        case ParameterKind.TEXT | ParameterKind.PATTERN | ParameterKind.UNIT | ParameterKind.ZONE:
            return is_text(type_)
        case ParameterKind.INTEGER:
            return isinstance(type_, Scalar) and type_.is_integer
        case ParameterKind.NUMBER:
            return is_numeric(type_)
        case ParameterKind.DATE:
            return type_ is Scalar.DATE
        case ParameterKind.DATETIME:
            return type_ is Scalar.DATETIME
        case ParameterKind.MOMENT:
            return type_ in (Scalar.DATE, Scalar.DATETIME)
        case ParameterKind.LIST:
            return isinstance(type_, ListOf)
        case ParameterKind.TEXT_LIST:
            return type_ == ListOf(Scalar.STRING)
        case ParameterKind.VALUE:
            return is_scalar(type_)
        case ParameterKind.CHOICE:
            return is_scalar(type_) or isinstance(type_, ListOf)


def unify(types: tuple[ValueType, ...]) -> ValueType | None:
    """Return the common type of alternatives: equal, integers → I64, numbers → F64, texts → String; None if none is.

    Lists have the common type of their elements.
    """
    first = types[0]
    if all(type_ == first for type_ in types):
        return first
    # Values of two enums have only their texts in common.
    if all(is_text(type_) for type_ in types):
        return Scalar.STRING
    if all(is_numeric(type_) for type_ in types):
        return widen(types)
    if all(isinstance(type_, ListOf) for type_ in types):
        element = unify(tuple(_get_element((type_,)) for type_ in types))
        return ListOf(element) if isinstance(element, Scalar) else None
    return None


def widen(types: tuple[ValueType, ...]) -> Scalar:
    """Return the type in which numbers are calculated: I64 for integers, else F64."""
    return Scalar.I64 if all(isinstance(type_, Scalar) and type_.is_integer for type_ in types) else Scalar.F64


def resolve_sum(left: ValueType, right: ValueType) -> ValueType | None:
    """Return the type of `left + right`; None if they can't be added."""
    if is_text(left) and is_text(right):
        return Scalar.STRING
    return resolve_arithmetic(ScalarFunction.ADD, left, right)


def resolve_arithmetic(function: ScalarFunction, left: ValueType, right: ValueType) -> ValueType | None:
    """Return the type of a calculation with two numbers; None if a side is no number."""
    if not is_numeric(left) or not is_numeric(right):
        return None
    # `1 / 2` is 0.5; `div` divides integers.
    return Scalar.F64 if function is ScalarFunction.DIVIDE else widen((left, right))


def _always(type_: ValueType) -> ResultType:
    return lambda _types: type_


def _widen_first(types: tuple[ValueType, ...]) -> ValueType:
    return widen(types[:1])


def _keep_first(types: tuple[ValueType, ...]) -> ValueType:
    # The result may be a text that is no value of the enum.
    return Scalar.STRING if isinstance(types[0], EnumOf) else types[0]


def _get_element(types: tuple[ValueType, ...]) -> ValueType:
    (first, *_) = types
    if not isinstance(first, ListOf):
        msg = f"{first} is not a list"
        raise TypeError(msg)
    return first.element


_TEXT = ParameterKind.TEXT
_INTEGER = ParameterKind.INTEGER
_NUMBER = ParameterKind.NUMBER
_LIST = ParameterKind.LIST
_VALUE = ParameterKind.VALUE


def _build(
    function: ScalarFunction,
    usage: str,
    parameters: tuple[ParameterKind, ...],
    result: ResultType | ValueType,
    *,
    optional: int = 0,
    can_fail: bool = False,
) -> Signature:
    return Signature(
        function=function,
        parameters=parameters,
        result=result if callable(result) else _always(result),
        optional=optional,
        can_fail=can_fail,
        usage=f"`{usage}`",
    )


def _build_choice(function: ScalarFunction, usage: str, kind: ParameterKind = _VALUE) -> Signature:
    return Signature(
        function=function,
        parameters=(kind,),
        result=_keep_first,
        is_variadic=True,
        agrees=True,
        skips_nulls=True,
        usage=f"`{usage}`",
    )


def _build_part(function: ScalarFunction, kind: ParameterKind) -> Signature:
    return _build(function, f"{function.value}($v.property)", (kind,), Scalar.I64)


def _build_float(function: ScalarFunction) -> Signature:
    # Outside of its domain, or beyond the largest float, a function is null.
    return _build(function, f"{function.value}($v.property)", (_NUMBER,), Scalar.F64, can_fail=True)


_F = ScalarFunction
_ALL_SIGNATURES = (
    _build(_F.LOWER, "lower($v.property)", (_TEXT,), Scalar.STRING),
    _build(_F.UPPER, "upper($v.property)", (_TEXT,), Scalar.STRING),
    _build(_F.TRIM, "trim($v.property)", (_TEXT,), Scalar.STRING),
    _build(_F.LENGTH, "length($v.property)", (_TEXT,), Scalar.I64),
    _build(_F.SUBSTRING, "substring(text, from, length)", (_TEXT, _INTEGER, _INTEGER), Scalar.STRING, optional=1),
    _build(_F.INDEX_OF, "index_of(text, part)", (_TEXT, _TEXT), Scalar.I64, can_fail=True),
    _build(_F.REPLACE, "replace(text, part, by)", (_TEXT, _TEXT, _TEXT), Scalar.STRING),
    _build(_F.SPLIT, "split(text, separator)", (_TEXT, _TEXT), ListOf(Scalar.STRING)),
    _build(_F.JOIN, "join(list, separator)", (ParameterKind.TEXT_LIST, _TEXT), Scalar.STRING),
    _build(_F.STARTS_WITH, "starts_with(text, prefix)", (_TEXT, _TEXT), Scalar.BOOL),
    _build(_F.ENDS_WITH, "ends_with(text, suffix)", (_TEXT, _TEXT), Scalar.BOOL),
    _build(_F.MATCHES, 'matches(text, "expression")', (_TEXT, ParameterKind.PATTERN), Scalar.BOOL),
    _build(_F.EXTRACT, 'extract(text, "expression")', (_TEXT, ParameterKind.PATTERN), Scalar.STRING, can_fail=True),
    _build(_F.ABS, "abs(number)", (_NUMBER,), _widen_first, can_fail=True),
    _build(_F.SIGN, "sign(number)", (_NUMBER,), Scalar.I64),
    _build(_F.ROUND, "round(number, digits)", (_NUMBER, _INTEGER), _widen_first, optional=1, can_fail=True),
    _build(_F.FLOOR, "floor(number)", (_NUMBER,), _widen_first),
    _build(_F.CEIL, "ceil(number)", (_NUMBER,), _widen_first),
    _build_float(_F.SQRT),
    _build_float(_F.LN),
    _build_float(_F.LOG10),
    _build_float(_F.EXP),
    _build(_F.POW, "pow(base, exponent)", (_NUMBER, _NUMBER), Scalar.F64, can_fail=True),
    _build(_F.DIV, "div(integer, integer)", (_INTEGER, _INTEGER), Scalar.I64, can_fail=True),
    *(_build_part(part, ParameterKind.MOMENT) for part in (_F.YEAR, _F.MONTH, _F.WEEK, _F.DAY, _F.WEEKDAY)),
    *(_build_part(part, ParameterKind.DATETIME) for part in (_F.HOUR, _F.MINUTE, _F.SECOND)),
    _build(_F.TRUNC, 'trunc(moment, "month")', (ParameterKind.MOMENT, ParameterKind.UNIT), _keep_first),
    _build(_F.TODAY, "today()", (), Scalar.DATE),
    _build(_F.DATE, "date(datetime)", (ParameterKind.DATETIME, ParameterKind.ZONE), Scalar.DATE, optional=1),
    _build(_F.DAYS_BETWEEN, "days_between(from, to)", (ParameterKind.MOMENT, ParameterKind.MOMENT), Scalar.I64),
    _build(
        _F.SECONDS_BETWEEN, "seconds_between(from, to)", (ParameterKind.DATETIME, ParameterKind.DATETIME), Scalar.F64
    ),
    _build(_F.SIZE, "size(list)", (_LIST,), Scalar.I64),
    _build(_F.FIRST, "first(list)", (_LIST,), _get_element, can_fail=True),
    _build(_F.LAST, "last(list)", (_LIST,), _get_element, can_fail=True),
    _build(_F.SLICE, "slice(list, from, length)", (_LIST, _INTEGER, _INTEGER), _keep_first, optional=1),
    _build(_F.SORT, "sort(list)", (_LIST,), _keep_first),
    _build(_F.UNIQUE, "unique(list)", (_LIST,), _keep_first),
    _build_choice(_F.COALESCE, "coalesce($v.property, value)", ParameterKind.CHOICE),
    _build_choice(_F.LEAST, "least(a, b)"),
    _build_choice(_F.GREATEST, "greatest(a, b)"),
    Signature(
        function=_F.NULLIF,
        parameters=(_VALUE, _VALUE),
        result=_keep_first,
        agrees=True,
        can_fail=True,
        usage="`nullif(value, other)`",
    ),
    _build(_F.TO_STRING, "to_string(value)", (_VALUE,), Scalar.STRING),
    _build(_F.TO_INT, "to_int(value)", (_VALUE,), Scalar.I64, can_fail=True),
    _build(_F.TO_FLOAT, "to_float(value)", (_VALUE,), Scalar.F64, can_fail=True),
    _build(_F.TO_DATE, "to_date(value)", (_VALUE,), Scalar.DATE, can_fail=True),
    _build(_F.TO_DATETIME, "to_datetime(value)", (_VALUE,), Scalar.DATETIME, can_fail=True),
)
SIGNATURES: dict[str, Signature] = {signature.name: signature for signature in _ALL_SIGNATURES}
