"""Predicate pushdown: move a filter that reads one variable to its binding, so that the scan can evaluate it."""

from dataclasses import replace

from omnigraph.query.expr import Expr  # noqa: TC001 - types of locals, as everywhere
from omnigraph.query.expr_tree import find_variables, split_conjuncts
from omnigraph.query.logical_plan import Pattern, map_patterns


def push_down(pattern: Pattern) -> Pattern:
    """Return the pattern with every conjunct that reads one variable of the pattern moved to that node or hop.

    Conjuncts that read several variables, none, or one of an outer block stay: in a `not` block a filter on a shared
    variable decides about the block, not about the outer match. So do those that read a variable of an optional block:
    inside it they would keep rows that they drop outside.
    """
    bound = pattern.own_types
    pushed: dict[str, list[Expr]] = {}
    remaining: list[Expr] = []
    for term in (term for expr in pattern.filters for term in split_conjuncts(expr)):
        read = find_variables(term)
        if len(read) == 1 and read[0] in bound:
            pushed.setdefault(read[0], []).append(term)
        else:
            remaining.append(term)
    return replace(
        pattern,
        nodes=tuple(replace(n, filters=(*n.filters, *pushed.get(n.variable, ()))) for n in pattern.nodes),
        hops=tuple(replace(h, filters=(*h.filters, *pushed.get(h.edge_variable or "", ()))) for h in pattern.hops),
        filters=tuple(remaining),
        blocks=tuple(map_patterns(block, push_down) for block in pattern.blocks),
    )
