"""Define the rules of a policy that decide which rows an actor sees, as conditions over the values of a row.

A condition is true, false, or fails, as in the policy language: it fails where it reads a property that is null or has
another type. A permit that fails permits nothing, a forbid that fails forbids.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

Scalar: TypeAlias = str | bool | int


@dataclass(frozen=True, slots=True)
class Always:
    """The same for every row."""

    value: bool


@dataclass(frozen=True, slots=True)
class Fails:
    """A condition that fails for every row."""


@dataclass(frozen=True, slots=True)
class IsType:
    """Whether the row is of one of these types."""

    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class HasValue:
    """Whether the property is not null."""

    property: str


@dataclass(frozen=True, slots=True)
class IsOneOf:
    """Whether the property is one of these values; a value of another type is another value."""

    property: str
    # Each with its type, because `True == 1` in Python.
    values: frozenset[tuple[str, Scalar]]


@dataclass(frozen=True, slots=True)
class Orders:
    """Whether the property, an integer, is below or above a bound: `operator` is `<`, `<=`, `>` or `>=`."""

    property: str
    operator: str
    bound: int


@dataclass(frozen=True, slots=True)
class IsTrue:
    """The value of a Bool property."""

    property: str


@dataclass(frozen=True, slots=True)
class Negation:
    """The negation of a condition."""

    condition: "Condition"


@dataclass(frozen=True, slots=True)
class BothHold:
    """Both conditions; the second one does not matter where the first is false."""

    left: "Condition"
    right: "Condition"


@dataclass(frozen=True, slots=True)
class EitherHolds:
    """One of two conditions; the second one does not matter where the first is true."""

    left: "Condition"
    right: "Condition"


Condition: TypeAlias = (
    Always | Fails | IsType | HasValue | IsOneOf | Orders | IsTrue | Negation | BothHold | EitherHolds
)

TRUE, FALSE, FAILS = Always(True), Always(False), Fails()


def negate(condition: Condition) -> Condition:
    """Return the negation, folded if it is the same for every row."""
    if isinstance(condition, Always):
        return Always(not condition.value)
    return condition if isinstance(condition, Fails) else Negation(condition)


def both(left: Condition, right: Condition) -> Condition:
    """Return the conjunction, folded as far as the left side decides it."""
    if isinstance(left, Fails) or left == FALSE or right == TRUE:
        return left
    return right if left == TRUE else BothHold(left, right)


def either(left: Condition, right: Condition) -> Condition:
    """Return the disjunction, folded as far as the left side decides it."""
    if isinstance(left, Fails) or left == TRUE or right == FALSE:
        return left
    return right if left == FALSE else EitherHolds(left, right)


def specialize(condition: Condition, type_name: str) -> Condition:
    """Return the condition for rows of one type, folded."""
    match condition:
        case IsType(names):
            return Always(type_name in names)
        case Negation(inner):
            return negate(specialize(inner, type_name))
        case BothHold(left, right):
            return both(specialize(left, type_name), specialize(right, type_name))
        case EitherHolds(left, right):
            return either(specialize(left, type_name), specialize(right, type_name))
        case _:
            return condition


def iter_properties(condition: Condition) -> Iterator[str]:
    """Yield the properties that a condition reads."""
    match condition:
        case HasValue(name) | IsTrue(name) | IsOneOf(name, _) | Orders(name, _, _):
            yield name
        case Negation(inner):
            yield from iter_properties(inner)
        case BothHold(left, right) | EitherHolds(left, right):
            yield from iter_properties(left)
            yield from iter_properties(right)


@dataclass(frozen=True)
class TypeRules:
    """The rules for rows of one type: one of `permits` must be true, and none of `forbids` true or failing."""

    permits: tuple[Condition, ...]
    forbids: tuple[Condition, ...]

    @property
    def is_everything_seen(self) -> bool:
        """Whether every row is seen, whatever its values."""
        return TRUE in self.permits and not self.forbids

    @property
    def is_nothing_seen(self) -> bool:
        """Whether no row is seen, whatever its values."""
        return not self.permits or any(rule in (TRUE, FAILS) for rule in self.forbids)

    @property
    def properties(self) -> frozenset[str]:
        """The properties that the rules read."""
        return frozenset(name for rule in (*self.permits, *self.forbids) for name in iter_properties(rule))


@dataclass(frozen=True)
class RowRules:
    """The rules that decide which rows of a branch an actor sees."""

    permits: tuple[Condition, ...]
    forbids: tuple[Condition, ...]

    @cached_property
    def key(self) -> str:
        """A digest that identifies the rules in keys of caches."""
        # Sets are printed sorted: their own order differs from process to process.
        text = "\n".join(
            [*sorted(map(_format, self.permits)), "forbid", *sorted(map(_format, self.forbids))],
        )
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    @property
    def is_everything_seen(self) -> bool:
        """Whether every row of every type is seen, whatever the schema."""
        return TypeRules(self.permits, self.forbids).is_everything_seen

    def get_type_rules(self, type_name: str) -> TypeRules:
        """Return the rules for the rows of one type."""
        return build_type_rules(
            [specialize(rule, type_name) for rule in self.permits],
            [specialize(rule, type_name) for rule in self.forbids],
        )


def build_type_rules(permits: list[Condition], forbids: list[Condition]) -> TypeRules:
    """Return rules without those that decide nothing: permits that never apply, forbids that are never true."""
    kept = tuple(dict.fromkeys(rule for rule in permits if rule not in (FALSE, FAILS)))
    return TypeRules(kept, tuple(dict.fromkeys(rule for rule in forbids if rule != FALSE)))


def _format(condition: Condition) -> str:
    match condition:
        case IsType(names):
            return f"type {sorted(names)!r}"
        case IsOneOf(name, values):
            return f"{name!r} in {sorted(values, key=repr)!r}"
        case Negation(inner):
            return f"not ({_format(inner)})"
        case BothHold(left, right):
            return f"({_format(left)}) and ({_format(right)})"
        case EitherHolds(left, right):
            return f"({_format(left)}) or ({_format(right)})"
        case _:
            return repr(condition)
