"""Detect conjunctions that no row satisfies: `a = 1 and a = 2`, `a > 5 and a < 3`, `a is null and a = 1`."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from omnigraph.query.expr import Compare, Const, Expr, In, IsNull, Not, Op
from omnigraph.query.rules.constant_folding import is_truth


@dataclass(slots=True)
class _ValueConstraints:
    """The constraints that the terms of a conjunction put on one value.

    All literals compared with one value are comparable with each other.
    """

    allowed: frozenset[Any] | None = None
    excluded: set[Any] = field(default_factory=set)
    # Each bound is a value, and whether the value itself is excluded.
    low: tuple[Any, bool] | None = None
    high: tuple[Any, bool] | None = None
    is_null: bool = False
    is_not_null: bool = False

    @property
    def is_impossible(self) -> bool:
        if self.is_null and self.is_not_null:
            return True
        if self.allowed is not None:
            return not any(map(self._is_within, self.allowed - self.excluded))
        if self.low is None or self.high is None:
            return False
        # The type does not matter here: `a > 1 and a < 2` on an integer is not detected.
        return not (self._is_within(self.low[0]) or self.low[0] < self.high[0])

    def _is_within(self, value: Any) -> bool:  # noqa: ANN401  any literal
        if self.low is not None and (value < self.low[0] or (value == self.low[0] and self.low[1])):
            return False
        return not (self.high is not None and (value > self.high[0] or (value == self.high[0] and self.high[1])))

    def allow(self, values: Iterable[Any]) -> None:
        """Add the constraint that the value is one of these."""
        self.is_not_null = True
        self.allowed = frozenset(values) if self.allowed is None else self.allowed.intersection(values)

    def exclude(self, values: Iterable[Any]) -> None:
        """Add the constraint that the value is none of these."""
        self.is_not_null = True
        self.excluded.update(values)

    def bound_above(self, bound: Any, *, is_exclusive: bool) -> None:  # noqa: ANN401  any literal
        """Add an upper bound; with `is_exclusive` the bound itself is excluded."""
        self.is_not_null = True
        if self.high is None or bound < self.high[0] or (bound == self.high[0] and is_exclusive):
            self.high = (bound, is_exclusive)

    def bound_below(self, bound: Any, *, is_exclusive: bool) -> None:  # noqa: ANN401  any literal
        """Add a lower bound; with `is_exclusive` the bound itself is excluded."""
        self.is_not_null = True
        if self.low is None or bound > self.low[0] or (bound == self.low[0] and is_exclusive):
            self.low = (bound, is_exclusive)


def contradicts(terms: Iterable[Expr]) -> bool:
    """Return whether the terms are known to exclude each other, so that no row makes all of them true.

    Only comparisons with literals are considered: False does not mean that some row matches.
    """
    terms = tuple(terms)
    distinct_terms = set(terms)
    # A filter drops a row for which a term is unknown, just as for false.
    if any(is_truth(term, False) or is_truth(term, None) for term in terms):
        return True
    if any(isinstance(term, Not) and term.term in distinct_terms for term in terms):
        return True
    by_value: dict[Expr, _ValueConstraints] = {}
    for term in terms:
        _add_term(by_value, term)
    return any(constraints.is_impossible for constraints in by_value.values())


def _add_term(by_value: dict[Expr, _ValueConstraints], term: Expr) -> None:
    def about(subject: Expr) -> _ValueConstraints:
        return by_value.setdefault(subject, _ValueConstraints())

    match term:
        case IsNull(negated=True):
            about(term.operand).is_not_null = True
        case IsNull():
            about(term.operand).is_null = True
        case Compare(right=Const(value=bound)) if bound is not None:
            _add_compare(about(term.left), term.op, bound)
        case Compare():
            # A comparison that is true had a value on both sides.
            about(term.left).is_not_null = True
            about(term.right).is_not_null = True
        case In(collection=Const(value=tuple(values))):
            about(term.element).allow(values)
        case Not(term=In(element=element, collection=Const(value=tuple(values)))):
            about(element).exclude(values)
        case _:
            pass


def _add_compare(constraints: _ValueConstraints, op: Op, bound: Any) -> None:  # noqa: ANN401  any literal
    match op:
        case Op.EQ:
            constraints.allow((bound,))
        case Op.NE:
            constraints.exclude((bound,))
        case Op.LT | Op.LE:
            constraints.bound_above(bound, is_exclusive=op is Op.LT)
        case Op.GT | Op.GE:
            constraints.bound_below(bound, is_exclusive=op is Op.GT)
