"""Flatten nested `and` and `or`, and remove duplicate terms. Exact in three-valued logic."""

from omnigraph.query.expr import And, Expr, Or
from omnigraph.query.expr_tree import map_children
from omnigraph.query.rules.constant_folding import join_terms


def flatten(expr: Expr) -> Expr:
    """Return the predicate with no `and` directly in an `and`, no `or` directly in an `or`, and no duplicate terms."""
    expr = map_children(expr, flatten)
    if not isinstance(expr, And | Or):
        return expr
    # A dict keeps the order of the first occurrences.
    terms: dict[Expr, None] = {}
    for term in expr.terms:
        if type(term) is type(expr) and isinstance(term, And | Or):
            terms.update(dict.fromkeys(term.terms))
        else:
            terms[term] = None
    return join_terms(expr, list(terms))
