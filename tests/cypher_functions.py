"""The functions and aggregates of the interpreter, over values that are known."""

import math
import statistics
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta

from cypher_values import (
    SORT_KEY,
    CypherError,
    ModelGraph,
    Node,
    Path,
    Relationship,
    Value,
    check_integer,
    is_number,
)

Function = Callable[..., Value]


def call_function(graph: ModelGraph, name: str, arguments: list[Value]) -> Value:
    """Return the value of a function.

    Raises:
        CypherError: There is no such function, or it has no value for the arguments.
    """
    lowered = name.lower()
    if lowered == "coalesce":
        return next((value for value in arguments if value is not None), None)
    if lowered in ENTITY_FUNCTIONS:
        return None if arguments[0] is None else ENTITY_FUNCTIONS[lowered](graph, *arguments)
    if lowered not in FUNCTIONS:
        raise CypherError(f"no function {name}")
    if any(value is None for value in arguments) and lowered != "nullif":
        return None
    return FUNCTIONS[lowered](*arguments)


# --- entities --------------------------------------------------------------------------------------


def _get_labels(graph: ModelGraph, node: Node) -> Value:
    return list(graph.labels[node.type])


def _get_keys(graph: ModelGraph, value: Value) -> Value:
    properties = value if isinstance(value, dict) else graph.get_properties(value)
    return [key for key, item in properties.items() if item is not None or isinstance(value, dict)]


def _get_properties(graph: ModelGraph, value: Value) -> Value:
    if isinstance(value, dict):
        return value
    return {key: item for key, item in graph.get_properties(value).items() if item is not None}


ENTITY_FUNCTIONS: dict[str, Function] = {
    "labels": _get_labels,
    "type": lambda graph, relationship: graph.types[relationship.type][0],
    "id": lambda _graph, entity: f"{entity.type}/{entity.id}",
    "elementid": lambda _graph, entity: f"{entity.type}/{entity.id}",
    "keys": _get_keys,
    "properties": _get_properties,
    "startnode": lambda graph, relationship: graph.relationships[relationship][0],
    "endnode": lambda graph, relationship: graph.relationships[relationship][1],
}


# --- numbers ---------------------------------------------------------------------------------------


def check_float(value: float) -> Value:
    """Return a float, or null if it is not finite: the product stores no others."""
    return value if math.isfinite(value) else None


def _round(value: float, digits: int = 0) -> Value:
    scale = 10.0**digits
    scaled = value * scale
    return float((math.floor(scaled + 0.5) if scaled >= 0 or digits == 0 else -math.floor(-scaled + 0.5)) / scale)


def _call_on_domain(function: Callable[[float], float]) -> Function:
    def call(value: float) -> Value:
        try:
            return check_float(function(value))
        except (ValueError, OverflowError):
            return None

    return call


def _range(low: int, high: int, step: int = 1) -> Value:
    if step == 0:
        raise CypherError("the step of range is 0")
    return list(range(low, high + (1 if step > 0 else -1), step))


# --- conversions -----------------------------------------------------------------------------------


def _to_integer(value: Value) -> Value:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, str):
        try:
            number = float(value.strip())
        except ValueError:
            return None
        try:
            value = int(value.strip())
        except ValueError:
            value = math.trunc(number) if math.isfinite(number) else None
    if isinstance(value, float):
        value = math.trunc(value)
    return value if isinstance(value, int) and -(2**63) <= value < 2**63 else None


def _to_float(value: Value) -> Value:
    try:
        return check_float(float(value))
    except (ValueError, TypeError):
        return None


def _to_boolean(value: Value) -> Value:
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.strip().lower())
    return value if isinstance(value, bool) else value != 0


def format_value(value: Value) -> str:
    """Return a value as `toString` writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    return str(value)


# --- text and lists --------------------------------------------------------------------------------


def _get_size(value: Value) -> Value:
    if isinstance(value, str | list):
        return len(value)
    raise CypherError("size needs a list or a string")


def _get_length(value: Value) -> Value:
    if isinstance(value, Path):
        return len(value.relationships)
    raise CypherError("length needs a path")


def _substring(text: str, start: int, length: int | None = None) -> Value:
    if start < 0 or (length is not None and length < 0):
        raise CypherError("substring needs a place from 0")
    return text[start:] if length is None else text[start : start + length]


def _take(text: str, count: int, *, from_end: bool) -> Value:
    if count < 0:
        raise CypherError("a length is not negative")
    if not from_end:
        return text[:count]
    return text[-count:] if count else ""


def _split(text: str, separator: str) -> Value:
    return list(text.split(separator)) if separator else list(text)


def _reverse(value: Value) -> Value:
    if isinstance(value, str | list):
        return value[::-1]
    raise CypherError("reverse needs a list or a string")


def _is_empty(value: Value) -> Value:
    if isinstance(value, str | list | dict):
        return len(value) == 0
    raise CypherError("isEmpty needs a list, a map or a string")


def _get_ends(path: Path, *, first: bool) -> Value:
    return path.nodes[0 if first else -1]


def _to_list(convert: Function) -> Function:
    return lambda items: [None if item is None else convert(item) for item in items]


FUNCTIONS: dict[str, Function] = {
    "abs": lambda value: check_integer(abs(value)) if isinstance(value, int) else abs(value),
    "ceil": lambda value: float(math.ceil(value)),
    "floor": lambda value: float(math.floor(value)),
    "round": _round,
    "sign": lambda value: (value > 0) - (value < 0),
    "sqrt": _call_on_domain(math.sqrt),
    "exp": _call_on_domain(math.exp),
    "log": _call_on_domain(math.log),
    "log10": _call_on_domain(math.log10),
    "pi": lambda: math.pi,
    "e": lambda: math.e,
    "range": _range,
    "tointeger": _to_integer,
    "tointegerornull": _to_integer,
    "tofloat": _to_float,
    "tofloatornull": _to_float,
    "toboolean": _to_boolean,
    "tobooleanornull": _to_boolean,
    "tostring": format_value,
    "tostringornull": format_value,
    "tointegerlist": _to_list(_to_integer),
    "tofloatlist": _to_list(_to_float),
    "tostringlist": _to_list(format_value),
    "tobooleanlist": _to_list(_to_boolean),
    "tolower": lambda text: text.lower(),
    "lower": lambda text: text.lower(),
    "toupper": lambda text: text.upper(),
    "upper": lambda text: text.upper(),
    "trim": lambda text: text.strip(),
    "btrim": lambda text: text.strip(),
    "ltrim": lambda text: text.lstrip(),
    "rtrim": lambda text: text.rstrip(),
    "replace": lambda text, old, new: text.replace(old, new) if old else text,
    "substring": _substring,
    "left": lambda text, count: _take(text, count, from_end=False),
    "right": lambda text, count: _take(text, count, from_end=True),
    "split": _split,
    "size": _get_size,
    "char_length": len,
    "character_length": len,
    "length": _get_length,
    "reverse": _reverse,
    "head": lambda items: items[0] if items else None,
    "last": lambda items: items[-1] if items else None,
    "tail": lambda items: items[1:],
    "isempty": _is_empty,
    "nullif": lambda left, right: None if left == right else left,
    "nodes": lambda path: list(path.nodes),
    "relationships": lambda path: list(path.relationships),
    "date": lambda value: date.fromisoformat(value) if isinstance(value, str) else value,
    "datetime": datetime.fromisoformat,
}
COMPONENTS: dict[str, Function] = {
    "year": lambda value: value.year,
    "month": lambda value: value.month,
    "day": lambda value: value.day,
    "hour": lambda value: value.hour,
    "minute": lambda value: value.minute,
    "second": lambda value: value.second,
    "dayOfWeek": lambda value: value.isoweekday(),
    "weekday": lambda value: value.isoweekday(),
    "ordinalDay": lambda value: value.timetuple().tm_yday,
    "quarter": lambda value: (value.month + 2) // 3,
    "week": lambda value: value.isocalendar()[1],
    "millisecond": lambda value: value.microsecond // 1000,
    "microsecond": lambda value: value.microsecond,
    "epochSeconds": lambda value: (value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1),
    "epochMillis": lambda value: (value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1),
}


# --- aggregates ------------------------------------------------------------------------------------


def aggregate(name: str, values: list[Value], argument: Value = None) -> Value:
    """Return the value of an aggregate over values; it passes nulls over."""
    numbers = [value for value in values if value is not None]
    match name.lower():
        case "count":
            return len(numbers)
        case "collect":
            return numbers
        case "sum":
            if any(isinstance(value, float) for value in numbers):
                return check_float(math.fsum(numbers))
            return check_integer(sum(numbers))
        case "avg":
            return check_float(math.fsum(numbers) / len(numbers)) if numbers else None
        case "min":
            return min(numbers, key=SORT_KEY, default=None)
        case "max":
            return max(numbers, key=SORT_KEY, default=None)
        case "stdev":
            return statistics.stdev(numbers) if len(numbers) > 1 else 0.0
        case "stdevp":
            return statistics.pstdev(numbers) if numbers else 0.0
        case "percentilecont":
            return _find_percentile(sorted(numbers), argument, continuous=True)
        case "percentiledisc":
            return _find_percentile(sorted(numbers), argument, continuous=False)
        case _:
            raise CypherError(f"no aggregate {name}")


def _find_percentile(numbers: list[float], share: Value, *, continuous: bool) -> Value:
    if not isinstance(share, int | float) or not 0 <= share <= 1:
        raise CypherError("a percentile is between 0 and 1")
    if not numbers:
        return None
    if not continuous:
        return numbers[max(math.ceil(share * len(numbers)) - 1, 0)]
    place = share * (len(numbers) - 1)
    below = math.floor(place)
    above = min(below + 1, len(numbers) - 1)
    return float(numbers[below] + (numbers[above] - numbers[below]) * (place - below))


AGGREGATES = frozenset(
    ("count", "collect", "sum", "avg", "min", "max", "stdev", "stdevp", "percentilecont", "percentiledisc")
)
"""The names of the aggregates, in lower case."""


def get_component(value: date, key: str) -> Value:
    """Return a part of a date or a point in time, as `value.year`."""
    if key not in COMPONENTS:
        raise CypherError(f"no component {key}")
    return COMPONENTS[key](value)


def add(left: Value, right: Value) -> Value:
    """Return the sum of numbers, strings or lists."""
    if isinstance(left, list) or isinstance(right, list):
        return (left if isinstance(left, list) else [left]) + (right if isinstance(right, list) else [right])
    if isinstance(left, str) and isinstance(right, str):
        return left + right
    if is_number(left) and is_number(right):
        return _check_number(left + right)
    if isinstance(left, str) or isinstance(right, str):
        return format_value(left) + format_value(right)
    raise CypherError(f"{left!r} + {right!r}")


def calculate(operator: str, left: Value, right: Value) -> Value:
    """Return a calculation of two numbers: integers give an integer, except for powers."""
    if not is_number(left) or not is_number(right):
        raise CypherError(f"{left!r} {operator} {right!r}")
    if operator == "-":
        return _check_number(left - right)
    if operator == "*":
        return _check_number(left * right)
    if operator == "^":
        return check_float(float(left) ** float(right))
    if right == 0:
        if isinstance(left, float) or isinstance(right, float):
            return None
        raise CypherError("division by zero")
    if operator == "/":
        return check_float(left / right) if _has_float(left, right) else check_integer(_divide(left, right))
    if _has_float(left, right):
        return math.fmod(left, right)
    return int(left - right * _divide(left, right))


def _has_float(left: float, right: float) -> bool:
    return isinstance(left, float) or isinstance(right, float)


def _divide(left: float, right: float) -> int:
    quotient = abs(int(left)) // abs(int(right))
    return quotient if (left < 0) == (right < 0) else -quotient


def _check_number(value: float) -> Value:
    return check_integer(value) if isinstance(value, int) else check_float(value)


def is_relationship(value: Value) -> bool:
    """Return whether a value is a relationship."""
    return isinstance(value, Relationship)
