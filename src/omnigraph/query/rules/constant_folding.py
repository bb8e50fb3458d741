"""Constant folding: evaluate the parts of a predicate that no row can change. Exact in three-valued logic."""

import operator
from collections.abc import Callable

from omnigraph.lang.source import Span
from omnigraph.query.expr import (
    And,
    Compare,
    Const,
    Contains,
    Expr,
    In,
    IsNull,
    Not,
    Now,
    Op,
    Or,
    ParamRef,
    StartsWith,
    TextMatch,
)
from omnigraph.query.expr_tree import list_children, map_children
from omnigraph.query.numeric_narrowing import find_min_value
from omnigraph.schema.types import INTEGER_RANGES, ListOf, Scalar

_COMPARE: dict[Op, Callable[..., bool]] = {
    Op.EQ: operator.eq,
    Op.NE: operator.ne,
    Op.LT: operator.lt,
    Op.LE: operator.le,
    Op.GT: operator.gt,
    Op.GE: operator.ge,
}
# The operators that are true between equal values.
_REFLEXIVE_OPS = (Op.EQ, Op.LE, Op.GE)


def build_truth(value: bool | None, origin: Span) -> Const:
    """Build the constant true, false or, for None, unknown."""
    return Const(value=value, type=Scalar.BOOL, origin=origin)


def is_truth(expr: Expr, value: bool | None) -> bool:
    """Return whether an expression is this constant: true, false or, for None, unknown."""
    return isinstance(expr, Const) and expr.type is Scalar.BOOL and expr.value is value


def fold_constants(expr: Expr) -> Expr:
    """Return the predicate with constant parts evaluated and constants on the right; unknown stays unknown.

    A predicate that only depends on whether `x` is null becomes `x = x` (true unless null) or `x != x` (false unless
    null).
    """
    # Children first, so that a constant can fold its parents in the same pass.
    expr = map_children(expr, fold_constants)
    # All of these are unknown as soon as one side is null.
    if isinstance(expr, Compare | In | Contains | StartsWith | TextMatch) and any(map(_is_null, list_children(expr))):
        return build_truth(None, expr.origin)
    match expr:
        case Compare():
            return _fold_compare(expr)
        case In():
            return _fold_in(expr)
        case Contains(text=Const(value=str(text)), part=Const(value=str(part))):
            return build_truth(part in text, expr.origin)
        case StartsWith(text=Const(value=str(text)), prefix=Const(value=str(prefix))):
            return build_truth(text.startswith(prefix), expr.origin)
        case IsNull() if _is_null(expr.operand):
            return build_truth(not expr.negated, expr.origin)
        case IsNull() if not expr.operand.nullable:
            return build_truth(expr.negated, expr.origin)
        case Not(term=Const(value=bool(value))):
            return build_truth(not value, expr.origin)
        case Not(term=Const(value=None)):
            return expr.term
        case And():
            return _fold_terms(expr, neutral=True)
        case Or():
            return _fold_terms(expr, neutral=False)
        case _:
            return expr


def _is_null(expr: Expr) -> bool:
    return isinstance(expr, Const) and expr.value is None


def _fold_compare(expr: Compare) -> Expr:
    if isinstance(expr.left, Const) and isinstance(expr.right, Const):
        return build_truth(_COMPARE[expr.op](expr.left.value, expr.right.value), expr.origin)
    if expr.left == expr.right:
        return _build_unless_null(expr.op in _REFLEXIVE_OPS, expr.left, expr.origin)
    # The other rules match a constant on the right only.
    if _is_input(expr.left) and not _is_input(expr.right):
        return _fold_compare(Compare(op=expr.op.mirrored, left=expr.right, right=expr.left, origin=expr.origin))
    return _fold_type_bound(expr)


def _is_input(expr: Expr) -> bool:
    return isinstance(expr, Const | ParamRef | Now)


def _fold_type_bound(expr: Compare) -> Expr:
    """Fold a comparison with the smallest or largest value of a numeric type, which no value lies beyond."""
    # `numeric_narrowing.narrow` writes an equality that is never true as `x < smallest`; it is recognised here.
    type_ = expr.left.type
    if not (isinstance(expr.right, Const) and isinstance(type_, Scalar) and type_.is_numeric):
        return expr
    highest = INTEGER_RANGES[type_][1] if type_.is_integer else -find_min_value(type_)
    if expr.op in (Op.LT, Op.GE) and expr.right.value == find_min_value(type_):
        return _build_unless_null(expr.op is Op.GE, expr.left, expr.origin)
    if expr.op in (Op.GT, Op.LE) and expr.right.value == highest:
        return _build_unless_null(expr.op is Op.LE, expr.left, expr.origin)
    return expr


def _build_unless_null(value: bool, subject: Expr, origin: Span) -> Expr:
    """Build a predicate that is `value`, or unknown where the subject is null."""
    if not subject.nullable:
        return build_truth(value, origin)
    return Compare(op=Op.EQ if value else Op.NE, left=subject, right=subject, origin=origin)


def _fold_in(expr: In) -> Expr:
    collection = expr.collection
    if not isinstance(collection, Const) or not isinstance(collection.type, ListOf):
        return expr
    if not isinstance(collection.value, tuple):
        return expr
    if isinstance(expr.element, Const):
        return build_truth(expr.element.value in collection.value, expr.origin)
    items = tuple(dict.fromkeys(collection.value))
    # `x in []` is false, but still unknown for a null.
    if not items:
        return _build_unless_null(False, expr.element, expr.origin)
    if len(items) == 1:
        item = Const(value=items[0], type=collection.type.element, origin=collection.origin)
        return Compare(op=Op.EQ, left=expr.element, right=item, origin=expr.origin)
    return In(
        element=expr.element,
        collection=Const(value=items, type=collection.type, origin=collection.origin),
        origin=expr.origin,
    )


def _fold_terms(expr: And | Or, *, neutral: bool) -> Expr:
    # One false term decides an `and`, one true term an `or`, whatever the others are.
    if any(is_truth(term, not neutral) for term in expr.terms):
        return build_truth(not neutral, expr.origin)
    return join_terms(expr, [term for term in expr.terms if not is_truth(term, neutral)])


def join_terms(whole: And | Or, terms: list[Expr]) -> Expr:
    """Return the `and` or `or` with other terms; a single term is returned without it.

    Without terms the result is the neutral constant: true for `and`, false for `or`.
    """
    if not terms:
        return build_truth(isinstance(whole, And), whole.origin)
    return terms[0] if len(terms) == 1 else type(whole)(terms=tuple(terms), origin=whole.origin)
