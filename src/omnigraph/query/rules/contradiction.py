"""Which terms can't all be true for one row: `a = 1 and a = 2`, `a > 5 and a < 3`, `a is null and a = 1`."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from omnigraph.query.expr import Compare, Const, Expr, In, IsNull, Not, Op
from omnigraph.query.rules.constant_folding import is_truth


@dataclass(slots=True)
class _ValueConstraints:
    """What the terms say about one value. Literals beside one value are comparable with each other."""

    allowed: frozenset[Any] | None = None
    excluded: set[Any] = field(default_factory=set)
    low: tuple[Any, bool] | None = None  # the bound, and whether the bound itself is out
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
        return not (self._is_within(self.low[0]) or self.low[0] < self.high[0])

    def _is_within(self, value: Any) -> bool:  # noqa: ANN401  any literal
        if self.low is not None and (value < self.low[0] or (value == self.low[0] and self.low[1])):
            return False
        return not (self.high is not None and (value > self.high[0] or (value == self.high[0] and self.high[1])))

    def allow(self, values: Iterable[Any]) -> None:
        """The value is one of these."""
        self.is_not_null = True
        self.allowed = frozenset(values) if self.allowed is None else self.allowed.intersection(values)

    def exclude(self, values: Iterable[Any]) -> None:
        """The value is none of these."""
        self.is_not_null = True
        self.excluded.update(values)

    def bound_above(self, bound: Any, *, is_exclusive: bool) -> None:  # noqa: ANN401  any literal
        """The value is at most the bound, or less when the bound is out."""
        self.is_not_null = True
        if self.high is None or bound < self.high[0] or (bound == self.high[0] and is_exclusive):
            self.high = (bound, is_exclusive)

    def bound_below(self, bound: Any, *, is_exclusive: bool) -> None:  # noqa: ANN401  any literal
        """The value is at least the bound, or more when the bound is out."""
        self.is_not_null = True
        if self.low is None or bound > self.low[0] or (bound == self.low[0] and is_exclusive):
            self.low = (bound, is_exclusive)


def contradicts(terms: Iterable[Expr]) -> bool:
    """True only if no row makes all terms true. Literals alone are weighed, so false says nothing."""
    terms = tuple(terms)
    known = set(terms)
    if any(is_truth(term, False) or is_truth(term, None) for term in terms):
        return True
    if any(isinstance(term, Not) and term.term in known for term in terms):
        return True
    facts: dict[Expr, _ValueConstraints] = {}
    for term in terms:
        _learn(facts, term)
    return any(fact.is_impossible for fact in facts.values())


def _learn(facts: dict[Expr, _ValueConstraints], term: Expr) -> None:
    def about(subject: Expr) -> _ValueConstraints:
        return facts.setdefault(subject, _ValueConstraints())

    match term:
        case IsNull(negated=True):
            about(term.operand).is_not_null = True
        case IsNull():
            about(term.operand).is_null = True
        case Compare(right=Const(value=bound)) if bound is not None:
            _learn_compare(about(term.left), term.op, bound)
        case Compare():
            about(term.left).is_not_null = True
            about(term.right).is_not_null = True
        case In(collection=Const(value=tuple(values))):
            about(term.element).allow(values)
        case Not(term=In(element=element, collection=Const(value=tuple(values)))):
            about(element).exclude(values)
        case _:
            pass


def _learn_compare(fact: _ValueConstraints, op: Op, bound: Any) -> None:  # noqa: ANN401  any literal
    match op:
        case Op.EQ:
            fact.allow((bound,))
        case Op.NE:
            fact.exclude((bound,))
        case Op.LT | Op.LE:
            fact.bound_above(bound, is_exclusive=op is Op.LT)
        case Op.GT | Op.GE:
            fact.bound_below(bound, is_exclusive=op is Op.GT)
