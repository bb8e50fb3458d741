"""Which terms can't all be true for one row: `a = 1 and a = 2`, `a > 5 and a < 3`, `a is null and a = 1`."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from omnigraph.query.expr import Compare, Const, Expr, In, IsNull, Not, Op
from omnigraph.query.rules.folding import is_truth


@dataclass(slots=True)
class _Facts:
    """What the terms say about one value. Literals beside one value are comparable with each other."""

    tests: list[Callable[[Any], bool]] = field(default_factory=list)
    allowed: list[Any] | None = None
    low: tuple[Any, bool] | None = None  # (bound, whether the bound itself is out)
    high: tuple[Any, bool] | None = None
    is_null: bool = False
    is_not_null: bool = False

    @property
    def impossible(self) -> bool:
        if self.is_null and self.is_not_null:
            return True
        if self.allowed is not None:
            return not any(all(test(value) for test in self.tests) for value in self.allowed)
        if self.low is None or self.high is None:
            return False
        (low, low_is_out), (high, high_is_out) = self.low, self.high
        return bool(low > high or (low == high and (low_is_out or high_is_out)))


def contradicts(terms: Iterable[Expr]) -> bool:
    """True only if no row makes all terms true. Literals alone are weighed, so false says nothing."""
    terms = tuple(terms)
    known = set(terms)
    if any(is_truth(term, False) or is_truth(term, None) for term in terms):
        return True
    if any(isinstance(term, Not) and term.term in known for term in terms):
        return True
    facts: dict[Expr, _Facts] = {}
    for term in terms:
        _learn(facts, term)
    return any(fact.impossible for fact in facts.values())


def _learn(facts: dict[Expr, _Facts], term: Expr) -> None:
    match term:
        case IsNull():
            fact = facts.setdefault(term.operand, _Facts())
            fact.is_not_null |= term.negated
            fact.is_null |= not term.negated
        case Compare(right=Const(value=bound)) if bound is not None:
            _learn_compare(facts.setdefault(term.left, _Facts()), term.op, bound)
        case Compare():
            facts.setdefault(term.left, _Facts()).is_not_null = True
            facts.setdefault(term.right, _Facts()).is_not_null = True
        case In(collection=Const(value=tuple(values))):
            _allow(facts.setdefault(term.element, _Facts()), list(values))
        case Not(term=In(element=element, collection=Const(value=tuple(values)))):
            fact = facts.setdefault(element, _Facts())
            fact.is_not_null = True
            fact.tests.append(lambda value: value not in values)
        case _:
            pass


def _learn_compare(fact: _Facts, op: Op, bound: Any) -> None:  # noqa: ANN401  any literal
    fact.is_not_null = True
    match op:
        case Op.EQ:
            _allow(fact, [bound])
        case Op.NE:
            fact.tests.append(lambda value: value != bound)
        case Op.LT | Op.LE:
            is_out = op is Op.LT
            fact.tests.append(lambda value: value < bound or (value == bound and not is_out))
            if fact.high is None or (bound, not is_out) < (fact.high[0], not fact.high[1]):
                fact.high = (bound, is_out)
        case Op.GT | Op.GE:
            is_out = op is Op.GT
            fact.tests.append(lambda value: value > bound or (value == bound and not is_out))
            if fact.low is None or (bound, is_out) > fact.low:
                fact.low = (bound, is_out)


def _allow(fact: _Facts, values: list[Any]) -> None:
    fact.is_not_null = True
    fact.allowed = values if fact.allowed is None else [value for value in fact.allowed if value in values]
