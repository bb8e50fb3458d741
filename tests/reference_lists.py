"""What the functions of Cypher's lists mean, for one row in plain Python: elements may be null; lists are values."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from omnigraph.query.expr import Computed
from omnigraph.query.expr_types import ArrayOf, ExprType
from omnigraph.query.scalar_functions import ScalarFunction as F
from omnigraph.schema.types import ListOf


@dataclass(frozen=True, order=True)
class Whole:
    """A node, relationship, path or map in the key of a list."""

    key: str
    value: Any = field(compare=False)


def is_equal(left: Any, right: Any) -> bool | None:
    """Three-valued: unknown where nulls decide."""
    if left is None or right is None:
        return None
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        if len(left) != len(right):
            return False
        parts = [is_equal(a, b) for a, b in zip(left, right, strict=True)]
        return False if False in parts else None if None in parts else True
    return _kind(left) is _kind(right) and bool(left == right)


def order_lists(left: Any, right: Any) -> int | None:
    """-1, 0 or 1; unknown where a null or another kind is met first."""
    if left is None or right is None or _kind(left) is not _kind(right):
        return None
    if isinstance(left, list | tuple):
        for a, b in zip(left, right, strict=False):
            order = order_lists(a, b)
            if order != 0:
                return order
        left, right = len(left), len(right)
    return int(left > right) - int(left < right)


def has_item(item: Any, items: Sequence[Any] | None) -> bool | None:
    if items is None:
        return None
    found = [is_equal(item, each) for each in items]
    return True if True in found else None if None in found else False


def build_key(value: Any) -> Any:
    """What sorts and is told apart as a list is: null after all values, a shorter list before a longer one."""
    if isinstance(value, list | tuple):
        return tuple((1,) if item is None else (0, build_key(item)) for item in value)
    if isinstance(value, dict):
        return Whole(repr(sorted(value.items(), key=repr)), value)
    return value + 0.0 if isinstance(value, float) else value


def read_key(key: Any, type_: ExprType) -> Any:
    """The list of a key."""
    if not isinstance(type_, ListOf | ArrayOf):
        return key.value if isinstance(key, Whole) else key
    return [None if part == (1,) else read_key(part[1], type_.element) for part in key]


def pick_percentile(items: Sequence[Any], fraction: float) -> Any:
    ordered = sorted(items)
    return ordered[max(math.ceil(fraction * len(ordered)) - 1, 0)] if ordered else None


def _kind(value: Any) -> type:
    if isinstance(value, tuple):
        return list
    return float if isinstance(value, int) and not isinstance(value, bool) else type(value)


def compute_list(expr: Computed, arguments: Sequence[Any]) -> Any:
    """The value of a function, all of whose arguments may be or hold null."""
    if expr.function is F.ITEMS:
        return list(arguments)
    if expr.function is F.HAS_ITEM:
        return has_item(*arguments)
    if None in arguments:
        return None
    if expr.function is F.LIST_OF_KEY:
        return read_key(arguments[0], expr.type)
    return LIST_FUNCTIONS[expr.function](*arguments)


WITH_NULLS = (F.ITEMS, F.HAS_ITEM, F.LIST_OF_KEY)
LIST_FUNCTIONS: dict[F, Callable[..., Any]] = {
    F.JOIN_LISTS: lambda left, right: [*left, *right],
    F.REVERSE: lambda items: items[::-1] if isinstance(items, str) else list(reversed(items)),
    F.RANGE: lambda first, last, step=1: list(range(first, last + (1 if step > 0 else -1), step)),
    F.EQUAL_LISTS: is_equal,
    F.COMPARE_LISTS: order_lists,
    F.LIST_KEY: build_key,
    F.SUM_OF: lambda items: sum(item for item in items if item is not None),
    F.PERCENTILE_OF: pick_percentile,
}
