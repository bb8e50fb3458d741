"""Rules for filters only: a filter drops rows that are false or unknown, so the two need not be distinguished."""

from omnigraph.query.expr import And, Compare, Const, Contains, Expr, In, IsNull, Op, Or, StartsWith
from omnigraph.query.rules.constant_folding import build_truth, fold_constants, join_terms
from omnigraph.query.rules.contradiction import contradicts


def reduce_filter(expr: Expr) -> Expr:
    """Return a predicate that is true for the same rows: unknown becomes false, and so does a contradiction.

    Under a `not` false and unknown differ, so nothing below one changes.
    """
    match expr:
        case Const(value=None):
            return build_truth(False, expr.origin)
        # `x != x` and `x = x` are how `fold_constants` writes "false unless null" and "true unless null".
        case Compare(op=Op.NE) if expr.left == expr.right:
            return build_truth(False, expr.origin)
        case Compare(op=Op.EQ) if expr.left == expr.right:
            return fold_constants(IsNull(operand=expr.left, negated=True, origin=expr.origin))
        case Or():
            return fold_constants(join_terms(expr, [reduce_filter(term) for term in expr.terms]))
        case And():
            return _reduce_and(expr)
        case _:
            return expr


def _reduce_and(expr: And) -> Expr:
    terms = [reduce_filter(term) for term in expr.terms]
    if contradicts(terms):
        return build_truth(False, expr.origin)
    never_null = {subject for term in terms for subject in _find_non_null(term)}
    # `a > 1 and a is not null`: the comparison already drops nulls.
    needed = [t for t in terms if not (isinstance(t, IsNull) and t.negated and t.operand in never_null)]
    return fold_constants(join_terms(expr, needed))


def _find_non_null(term: Expr) -> tuple[Expr, ...]:
    """Return the values that can't be null where the term is true."""
    match term:
        case Compare():
            return (term.left, term.right)
        case In():
            return (term.element, term.collection)
        case Contains():
            return (term.text, term.part)
        case StartsWith():
            return (term.text, term.prefix)
        case _:
            return ()
