"""A filter that reads one variable goes to where that variable is bound, so that it can be answered by a scan."""

from dataclasses import replace

from omnigraph.query.expr import Expr, find_variables, split_conjuncts
from omnigraph.query.logical_plan import Pattern


def push_down(pattern: Pattern) -> Pattern:
    """The pattern with every conjunct that reads a single variable of its own at that variable's node or hop.

    What reads several variables, none, or one of the outside stays: in a `not` block a filter on a shared variable
    decides about the block, not about the outside.
    """
    own = pattern.types
    pushed: dict[str, list[Expr]] = {}
    kept: list[Expr] = []
    for term in (term for expr in pattern.filters for term in split_conjuncts(expr)):
        read = find_variables(term)
        if len(read) == 1 and read[0] in own:
            pushed.setdefault(read[0], []).append(term)
        else:
            kept.append(term)
    return replace(
        pattern,
        nodes=tuple(replace(n, filters=(*n.filters, *pushed.get(n.variable, ()))) for n in pattern.nodes),
        hops=tuple(replace(h, filters=(*h.filters, *pushed.get(h.edge_variable or "", ()))) for h in pattern.hops),
        filters=tuple(kept),
        absent=tuple(replace(a, pattern=push_down(a.pattern)) for a in pattern.absent),
    )
