"""The rules of one predicate, applied in order to all filters of a pattern."""

from collections.abc import Callable
from dataclasses import replace

from omnigraph.query.expr import And, Expr, split_conjuncts
from omnigraph.query.logical_plan import Pattern
from omnigraph.query.rules.constant_folding import fold_constants, is_truth
from omnigraph.query.rules.filter_truth import reduce_filter
from omnigraph.query.rules.flattening import flatten
from omnigraph.query.rules.negation import push_negation
from omnigraph.query.rules.or_to_in import merge_equalities

EXACT_RULES: tuple[Callable[[Expr], Expr], ...] = (
    push_negation,
    fold_constants,
    flatten,
    merge_equalities,
)
"""Rules that keep true, false and unknown apart: they hold anywhere."""

FILTER_RULES: tuple[Callable[[Expr], Expr], ...] = (*EXACT_RULES, reduce_filter)
"""Rules that keep the rows for which a predicate is true: they hold for a filter."""


def simplify(expr: Expr) -> Expr:
    """A filter that is true for the same rows: all rules in order, again until none changes anything.

    That ends, because a rule moves a `not` inward or a literal to the right, or leaves fewer terms.
    """
    while True:
        before = expr
        for rule in FILTER_RULES:
            expr = rule(expr)
        if expr == before:
            return expr


def simplify_filters(pattern: Pattern) -> Pattern:
    """The pattern with all its filters simplified together and taken apart into conjuncts, in `Pattern.filters`.

    Together, so that what the braces of a binding say is weighed against what a clause says.
    """
    gathered = (
        *(expr for node in pattern.nodes for expr in node.filters),
        *(expr for hop in pattern.hops for expr in hop.filters),
        *pattern.filters,
    )
    terms: tuple[Expr, ...] = ()
    if gathered:
        whole = gathered[0] if len(gathered) == 1 else And(terms=gathered, origin=gathered[0].origin)
        terms = tuple(term for term in split_conjuncts(simplify(whole)) if not is_truth(term, True))
    return replace(
        pattern,
        nodes=tuple(replace(node, filters=()) for node in pattern.nodes),
        hops=tuple(replace(hop, filters=()) for hop in pattern.hops),
        filters=terms,
        absent=tuple(replace(a, pattern=simplify_filters(a.pattern)) for a in pattern.absent),
    )
