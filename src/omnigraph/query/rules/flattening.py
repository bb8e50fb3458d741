"""Nested `and` and `or` become flat, and equal terms stand once. Exact in three-valued logic."""

from omnigraph.query.expr import And, Expr, Or, map_children
from omnigraph.query.rules.constant_folding import join_terms


def flatten(expr: Expr) -> Expr:
    """The predicate with no `and` directly in an `and`, no `or` directly in an `or`, and no term twice."""
    expr = map_children(expr, flatten)
    if not isinstance(expr, And | Or):
        return expr
    terms: dict[Expr, None] = {}
    for term in expr.terms:
        terms.update(dict.fromkeys(term.terms if type(term) is type(expr) and isinstance(term, And | Or) else (term,)))
    return join_terms(expr, list(terms))
