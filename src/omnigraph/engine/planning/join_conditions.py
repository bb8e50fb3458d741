"""Find the predicates by which a part of a pattern that no hop connects can be joined."""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from omnigraph.engine.operators.filter import has_search
from omnigraph.engine.physical_plan import (
    JoinAlternatives,
    JoinComparison,
    JoinCondition,
    JoinMembership,
    Membership,
)
from omnigraph.engine.planning.pattern_graph import JoinPredicate
from omnigraph.engine.planning.plan_builder import PlanBuilder
from omnigraph.engine.predicate_eval import find_shared_type
from omnigraph.query.expr import Compare, Computed, Contains, Expr, ExprType, In, Op, Or, ShapedType, StartsWith
from omnigraph.query.expr_tree import find_variables
from omnigraph.query.scalar_functions import ScalarFunction
from omnigraph.schema.types import ListOf, Scalar

_RANGE_OPS = frozenset({Op.LT, Op.LE, Op.GT, Op.GE})
_ORDERED_TYPES = frozenset({Scalar.STRING, Scalar.DATE, Scalar.DATETIME})


@dataclass(frozen=True, slots=True)
class JoinPlan:
    """The conditions of a join, and the predicates that they stand for."""

    predicates: tuple[JoinPredicate, ...]
    conditions: tuple[JoinCondition, ...]


def has_equality(builder: PlanBuilder, component: list[str]) -> bool:
    """Return whether an equality joins a component with what is bound."""
    comparisons = (condition for _, condition in _iter_conditions(builder, component))
    return any(isinstance(condition, JoinComparison) and condition.op is Op.EQ for condition in comparisons)


def find_join(builder: PlanBuilder, component: list[str], *, has_ranges: bool) -> JoinPlan | None:
    """Return how a component is joined with what is bound, or None if only a product is left.

    All equalities are used, else a membership; then up to two comparisons by order, or one by `!=`: the other side is
    sorted by the first of them, and an index over its ranks by the second. `has_ranges` states whether both sides have
    so many rows that sorting pays off without an equality.
    """
    candidates = list(_iter_conditions(builder, component))
    comparisons = [(predicate, each) for predicate, each in candidates if isinstance(each, JoinComparison)]
    chosen: list[tuple[JoinPredicate, JoinCondition]] = [
        (predicate, each) for predicate, each in comparisons if each.op is Op.EQ
    ]
    if not chosen:
        chosen = [pair for pair in candidates if isinstance(pair[1], JoinMembership)][:1]
    ranges = [(predicate, each) for predicate, each in comparisons if each.op in _RANGE_OPS and _is_ordered(each)]
    unequal = [(predicate, each) for predicate, each in comparisons if each.op is Op.NE]
    if has_ranges:
        chosen += [*unequal[: 0 if ranges else 1], *ranges[:2]]
    elif chosen:
        chosen += [*ranges, *unequal][:1]
    if not chosen:
        chosen = [pair for pair in candidates if isinstance(pair[1], JoinAlternatives)][:1]
    if not chosen:
        return None
    return JoinPlan(tuple(predicate for predicate, _ in chosen), tuple(condition for _, condition in chosen))


def _iter_conditions(builder: PlanBuilder, component: list[str]) -> Iterator[tuple[JoinPredicate, JoinCondition]]:
    """Yield the predicates that compare a value of what is bound with one of a component, the bound side first."""
    sides = builder.bound.keys(), set(component)
    for predicate in builder.pending.join_predicates:
        condition = _build_condition(predicate.expr, sides[0], sides[1])
        if condition is not None:
            yield predicate, condition


def _build_condition(expr: Expr, bound: AbstractSet[str], members: AbstractSet[str]) -> JoinCondition | None:
    match expr:
        case Compare():
            return _build_comparison(expr, bound, members)
        case In():
            return _build_membership(Membership.ELEMENT, expr.collection, expr.element, bound, members)
        case Contains():
            return _build_membership(Membership.PART, expr.text, expr.part, bound, members)
        case StartsWith():
            return _build_membership(Membership.PREFIX, expr.text, expr.prefix, bound, members)
        case Computed(function=ScalarFunction.STARTS_WITH, arguments=(text, prefix)):
            return _build_membership(Membership.PREFIX, text, prefix, bound, members)
        case Or():
            terms = [_build_condition(term, bound, members) for term in expr.terms]
            equalities = [term for term in terms if isinstance(term, JoinComparison) and term.op is Op.EQ]
            return JoinAlternatives(tuple(equalities)) if len(equalities) == len(terms) else None
        case _:
            return None


def _build_comparison(expr: Compare, bound: AbstractSet[str], members: AbstractSet[str]) -> JoinComparison | None:
    if not (_is_value(expr.left) and _is_value(expr.right)) or not _shares_type(expr.left.type, expr.right.type):
        return None
    if _reads_only(expr.left, bound) and _reads_only(expr.right, members):
        return JoinComparison(expr.left, expr.op, expr.right)
    if _reads_only(expr.right, bound) and _reads_only(expr.left, members):
        return JoinComparison(expr.right, expr.op.mirrored, expr.left)
    return None


def _build_membership(
    kind: Membership, whole: Expr, part: Expr, bound: AbstractSet[str], members: AbstractSet[str]
) -> JoinMembership | None:
    whole_type = whole.type
    if has_search(whole) or not _is_value(part):
        return None
    if kind is Membership.ELEMENT and not (
        isinstance(whole_type, ListOf) and _shares_type(whole_type.element, part.type)
    ):
        return None
    if _reads_only(whole, bound) and _reads_only(part, members):
        return JoinMembership(whole, kind, part, is_whole_left=True)
    if _reads_only(part, bound) and _reads_only(whole, members):
        return JoinMembership(part, kind, whole, is_whole_left=False)
    return None


def _reads_only(expr: Expr, variables: AbstractSet[str]) -> bool:
    """Return whether an expression reads some of these variables, and no other one."""
    reads = set(find_variables(expr))
    return bool(reads) and reads <= variables


def _is_value(expr: Expr) -> bool:
    """Return whether an expression is a single value that can be evaluated for each row of one side."""
    return not isinstance(expr.type, ShapedType) and not has_search(expr)


def _shares_type(left: ExprType, right: ExprType) -> bool:
    """Return whether a type represents the values of both types exactly."""
    if isinstance(left, ShapedType) or isinstance(right, ShapedType):
        return False
    return find_shared_type(left, right) is not None


def _is_ordered(condition: JoinComparison) -> bool:
    """Return whether the values are numbers, texts or times."""
    types = (condition.left.type, condition.right.type)
    return all(isinstance(type_, Scalar) and (type_.is_numeric or type_ in _ORDERED_TYPES) for type_ in types)
