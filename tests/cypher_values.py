"""The values of the interpreter: plain Python values, nodes, relationships and paths, and how openCypher compares them.

A node is its type and id; so is a relationship. Equality and order are three-valued: None is unknown.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import cmp_to_key
from typing import Any, TypeAlias

MAX_INTEGER = 2**63 - 1
MIN_INTEGER = -(2**63)


class CypherError(Exception):
    """A statement that has no answer: a type that does not fit, a division by zero, an overflow."""


@dataclass(frozen=True, slots=True, order=True)
class Node:
    """A node of the model graph."""

    type: str
    id: str


@dataclass(frozen=True, slots=True, order=True)
class Relationship:
    """A relationship of the model graph."""

    type: str
    id: str


@dataclass(frozen=True, slots=True, order=True)
class Path:
    """A walk: `relationships[i]` is between `nodes[i]` and `nodes[i + 1]`."""

    nodes: tuple[Node, ...]
    relationships: tuple[Relationship, ...]


# Dynamic on purpose: None, a Bool, number, text, date, list or map, a node, relationship or path.
Value: TypeAlias = Any
Row: TypeAlias = dict[str, Value]


@dataclass
class ModelGraph:
    """A property graph of dictionaries.

    `labels` has the labels of each node type, its own name first; `types` the names of each edge type. Both are looked
    up without case and underscores.
    """

    nodes: dict[Node, dict[str, Value]] = field(default_factory=dict)
    relationships: dict[Relationship, tuple[Node, Node]] = field(default_factory=dict)
    properties: dict[Relationship, dict[str, Value]] = field(default_factory=dict)
    labels: dict[str, tuple[str, ...]] = field(default_factory=dict)
    types: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def get_properties(self, entity: Value) -> dict[str, Value]:
        """Return the properties of a node or relationship."""
        if isinstance(entity, Node):
            return self.nodes[entity]
        if isinstance(entity, Relationship):
            return self.properties[entity]
        raise CypherError(f"{entity!r} has no properties")


def normalize_name(name: str) -> str:
    """Return a label or type as it is compared: without case and underscores."""
    return name.replace("_", "").lower()


def is_number(value: Value) -> bool:
    """Return whether a value is an integer or a float."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def check_integer(value: int) -> int:
    """Return an integer of 64 bits.

    Raises:
        CypherError: It has more.
    """
    if not MIN_INTEGER <= value <= MAX_INTEGER:
        raise CypherError(f"{value} is no integer of 64 bits")
    return value


# --- three-valued comparison -----------------------------------------------------------------------


def compare_equal(left: Value, right: Value) -> bool | None:
    """Return whether two values are equal, or None where that is unknown."""
    if left is None or right is None:
        return None
    if isinstance(left, list) and isinstance(right, list):
        if len(left) != len(right):
            return False
        return conjunction([compare_equal(a, b) for a, b in zip(left, right, strict=True)])
    if isinstance(left, dict) and isinstance(right, dict):
        if left.keys() != right.keys():
            return False
        return conjunction([compare_equal(left[key], right[key]) for key in left])
    if is_number(left) and is_number(right):
        return bool(left == right)
    return type(left) is type(right) and bool(left == right)


def compare_less(left: Value, right: Value) -> bool | None:
    """Return whether one value is below another, or None where they can't be compared."""
    if left is None or right is None:
        return None
    if isinstance(left, list) and isinstance(right, list):
        for a, b in zip(left, right, strict=False):
            # The first pair that differs decides, or leaves it open.
            is_same = compare_equal(a, b)
            if not is_same:
                return None if is_same is None else compare_less(a, b)
        return len(left) < len(right)
    kinds = ((int, float), str, bool, datetime, date)
    if isinstance(left, bool) != isinstance(right, bool):
        return None
    if any(isinstance(left, kind) and isinstance(right, kind) for kind in kinds):
        return bool(left < right)
    return None


def conjunction(values: Sequence[bool | None]) -> bool | None:
    """Return whether all hold: false wins over unknown."""
    if any(value is False for value in values):
        return False
    return None if any(value is None for value in values) else True


def disjunction(values: Sequence[bool | None]) -> bool | None:
    """Return whether one holds: true wins over unknown."""
    if any(value is True for value in values):
        return True
    return None if any(value is None for value in values) else False


def is_in(value: Value, items: Value) -> bool | None:
    """Return whether a list has a value; null in a list makes a miss unknown."""
    if items is None:
        return None
    if not isinstance(items, list):
        raise CypherError("IN needs a list")
    return disjunction([compare_equal(value, item) for item in items])


# --- order and groups ------------------------------------------------------------------------------


def order_values(left: Value, right: Value) -> int:
    """Return -1, 0 or 1 for the ascending order of `ORDER BY`: null is last."""
    if left is None or right is None:
        return (left is None) - (right is None)
    if isinstance(left, list) and isinstance(right, list):
        for a, b in zip(left, right, strict=False):
            if difference := order_values(a, b):
                return difference
        return (len(left) > len(right)) - (len(left) < len(right))
    if isinstance(left, Node | Relationship | Path):
        return int(left > right) - int(left < right)
    if compare_less(left, right):
        return -1
    return 1 if compare_less(right, left) else 0


SORT_KEY = cmp_to_key(order_values)


def build_group_key(value: Value) -> object:
    """Return what is equal for values of one group: null is equal to itself, and 1 to 1.0."""
    if isinstance(value, list):
        return ("list", *(build_group_key(item) for item in value))
    if isinstance(value, dict):
        return ("map", *sorted((key, build_group_key(item)) for key, item in value.items()))
    if isinstance(value, bool):
        return ("boolean", value)
    return value


def remove_duplicates(values: list[Value]) -> list[Value]:
    """Return each value once, at its first place."""
    first: dict[object, Value] = {}
    for value in values:
        first.setdefault(build_group_key(value), value)
    return list(first.values())
