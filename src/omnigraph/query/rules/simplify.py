"""Apply the predicate rules, in order, to all filters of a pattern."""

from collections.abc import Callable
from dataclasses import replace

from omnigraph.query.expr import And, Expr
from omnigraph.query.expr_tree import split_conjuncts
from omnigraph.query.logical_plan import Pattern, map_patterns
from omnigraph.query.rules.constant_folding import fold_constants, is_truth
from omnigraph.query.rules.filter_truth import reduce_filter
from omnigraph.query.rules.flattening import flatten
from omnigraph.query.rules.negation import push_negation
from omnigraph.query.rules.or_to_in import merge_equalities

# Rules that preserve true, false and unknown: they are valid anywhere in an expression.
EXACT_RULES: tuple[Callable[[Expr], Expr], ...] = (
    push_negation,
    fold_constants,
    flatten,
    merge_equalities,
)

# `reduce_filter` only preserves the rows for which a predicate is true: it is valid for a whole filter.
FILTER_RULES: tuple[Callable[[Expr], Expr], ...] = (*EXACT_RULES, reduce_filter)


def simplify(expr: Expr) -> Expr:
    """Return a filter that is true for the same rows, by applying all rules in order until a fixed point.

    The loop ends, because each change moves a `not` inward or a literal to the right, or leaves fewer terms.
    """
    while True:
        before = expr
        for rule in FILTER_RULES:
            expr = rule(expr)
        if expr == before:
            return expr


def simplify_filters(pattern: Pattern) -> Pattern:
    """Return the pattern with all its filters simplified and split into conjuncts, which are in `Pattern.filters`.

    They are simplified together: the braces of a binding and a clause can contradict each other.
    """
    filters = (
        *(expr for node in pattern.nodes for expr in node.filters),
        *(expr for hop in pattern.hops for expr in hop.filters),
        *pattern.filters,
    )
    terms: tuple[Expr, ...] = ()
    if filters:
        whole = filters[0] if len(filters) == 1 else And(terms=filters, origin=filters[0].origin)
        terms = tuple(term for term in split_conjuncts(simplify(whole)) if not is_truth(term, True))
    return replace(
        pattern,
        nodes=tuple(replace(node, filters=()) for node in pattern.nodes),
        hops=tuple(replace(hop, filters=()) for hop in pattern.hops),
        filters=terms,
        blocks=tuple(map_patterns(block, simplify_filters) for block in pattern.blocks),
    )
