"""Push negation inward to the comparisons, so that filters under a `not` can be split and pushed down. Exact."""

from dataclasses import replace

from omnigraph.query.expr import And, Compare, Expr, IsNull, Not, Or
from omnigraph.query.expr_tree import map_children


def push_negation(expr: Expr) -> Expr:
    """Return the predicate without a `not` over `not`, `and`, `or`, comparisons and `is null`.

    It stays over memberships and text searches. De Morgan's laws and `not (a < b)` = `a >= b` hold in three-valued
    logic, because both sides are unknown for the same rows.
    """
    if not isinstance(expr, Not):
        return map_children(expr, push_negation)
    term = expr.term
    match term:
        case Not():
            return push_negation(term.term)
        case And():
            return Or(terms=tuple(push_negation(Not(term=t, origin=t.origin)) for t in term.terms), origin=term.origin)
        case Or():
            return And(terms=tuple(push_negation(Not(term=t, origin=t.origin)) for t in term.terms), origin=term.origin)
        case Compare():
            return replace(term, op=term.op.negated)
        case IsNull():
            return replace(term, negated=not term.negated)
        case _:
            return expr
