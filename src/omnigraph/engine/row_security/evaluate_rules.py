"""Evaluate the rules of a policy over the columns of a table: which rows are seen."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.row_rules import (
    Always,
    BothHold,
    Condition,
    EitherHolds,
    Fails,
    HasValue,
    IsOneOf,
    IsTrue,
    IsType,
    Negation,
    Orders,
    TypeRules,
)
from omnigraph.row_rules import (
    Scalar as RuleValue,
)
from omnigraph.schema.catalog import AnyType
from omnigraph.schema.types import EnumOf, Scalar, ValueType
from omnigraph.storage.arrow_buffers import is_valid, read_booleans

Mask = NDArray[np.bool_]

# The names of the values' Python types in a rule.
_KINDS: dict[ValueType, str] = {Scalar.STRING: "str", Scalar.BOOL: "bool", Scalar.I32: "int", Scalar.I64: "int"}
_COMPARE = {"<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal}


def can_decide(rules: TypeRules, type_: AnyType) -> bool:
    """Return whether a type has all properties that its rules read, in a type that rules can compare."""
    return all(name in type_.by_name and _find_kind(type_, name) is not None for name in rules.properties)


@dataclass(frozen=True, slots=True)
class RowValues:
    """Rows of one type, by position, whose columns rules read."""

    type: AnyType
    size: int
    load_column: Callable[[str], pa.Array]
    check: Callable[[], None] = lambda: None
    """Called between conditions; raises to cancel."""


def find_seen_rows(all_rules: Iterable[TypeRules], rows: RowValues) -> Mask:
    """Return which rows all of several rules let be seen."""
    seen = np.ones(rows.size, np.bool_)
    for rules in all_rules:
        if rules.is_nothing_seen or not can_decide(rules, rows.type):
            seen[:] = False
        elif not rules.is_everything_seen:
            seen &= _apply_rules(rules, rows)
    return seen


def _apply_rules(rules: TypeRules, rows: RowValues) -> Mask:
    evaluator = _Evaluator(rows)
    seen = np.zeros(rows.size, np.bool_)
    for rule in rules.permits:
        seen |= evaluator.evaluate(rule).true
    for rule in rules.forbids:
        outcome = evaluator.evaluate(rule)
        seen &= ~(outcome.true | outcome.fails)
    return seen


@dataclass(frozen=True, slots=True)
class _Outcome:
    """For which rows a condition is true, and for which it fails; it is false for all others."""

    true: Mask
    fails: Mask


class _Evaluator:
    """Evaluate conditions over one table."""

    def __init__(self, rows: RowValues) -> None:
        self._rows = rows

    def evaluate(self, condition: Condition) -> _Outcome:
        """Return the outcome for every position."""
        self._rows.check()
        match condition:
            case Always(value):
                return _Outcome(np.full(self._rows.size, value), self._none())
            case Fails():
                return _Outcome(self._none(), ~self._none())
            case HasValue(name):
                return _Outcome(is_valid(self._load(name)), self._none())
            case IsTrue(name):
                kind = _find_kind(self._rows.type, name)
                return self._among(name, frozenset({("bool", True)})) if kind == "bool" else self._fail_everywhere()
            case IsOneOf(name, values):
                return self._among(name, values)
            case Orders(name, operator, bound):
                return self._order(name, operator, bound)
            case Negation(inner):
                outcome = self.evaluate(inner)
                return _Outcome(~(outcome.true | outcome.fails), outcome.fails)
            case BothHold(left, right):
                first, second = self.evaluate(left), self.evaluate(right)
                return _Outcome(first.true & second.true, first.fails | (first.true & second.fails))
            case EitherHolds(left, right):
                first, second = self.evaluate(left), self.evaluate(right)
                is_false = ~(first.true | first.fails)
                return _Outcome(first.true | (is_false & second.true), first.fails | (is_false & second.fails))
            case IsType():  # folded before
                return self._fail_everywhere()

    def _among(self, name: str, values: frozenset[tuple[str, RuleValue]]) -> _Outcome:
        column = self._load(name)
        kind = _find_kind(self._rows.type, name)
        matching = [value for type_name, value in values if type_name == kind]
        # Arrow can't look up a value that the type does not have.
        if kind == "int":
            matching = [value for value in matching if _fits(value, column.type)]
        is_among = pc.is_in(column, value_set=pa.array(matching, column.type))
        valid = is_valid(column)
        return _Outcome(read_booleans(is_among) & valid, ~valid)

    def _order(self, name: str, operator: str, bound: int) -> _Outcome:
        if _find_kind(self._rows.type, name) != "int":
            return self._fail_everywhere()
        column = self._load(name).cast(pa.int64())
        valid = is_valid(column)
        holds = pc.fill_null(_COMPARE[operator](column, pa.scalar(bound, pa.int64())), False)
        return _Outcome(read_booleans(holds) & valid, ~valid)

    def _load(self, name: str) -> pa.Array:
        return self._rows.load_column(name)

    def _none(self) -> Mask:
        return np.zeros(self._rows.size, np.bool_)

    def _fail_everywhere(self) -> _Outcome:
        return _Outcome(self._none(), ~self._none())


def _fits(value: RuleValue, type_: pa.DataType) -> bool:
    limit: int = 1 << (type_.bit_width - 1)
    return -limit <= int(value) < limit


def _find_kind(type_: AnyType, name: str) -> str | None:
    property_type = type_.by_name[name].type
    return "str" if isinstance(property_type, EnumOf) else _KINDS.get(property_type)
