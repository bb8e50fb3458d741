"""Rewriting: a bound query becomes one that means the same and is cheaper to run.

A rule is a plain function. Rules of predicates (`simplifying`) run over each filter until nothing changes; rules of
patterns run once, in this order, from the outermost pattern into its `not` blocks. Every rule keeps the result.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import assert_never

from omnigraph.query.logical_plan import BoundQuery, Pattern, ReadQuery, prune_columns
from omnigraph.query.mutation_plan import Delete, InsertEdge, InsertNode, MutationQuery, Statement, Update
from omnigraph.query.rules.empty_pattern import reduce_empty_patterns
from omnigraph.query.rules.pushdown import push_down
from omnigraph.query.rules.simplify import simplify, simplify_filters

PATTERN_RULES: tuple[Callable[[Pattern], Pattern], ...] = (simplify_filters, push_down, reduce_empty_patterns)


def rewrite(query: BoundQuery) -> BoundQuery:
    """The query with its filters simplified and pushed to where they are cheapest, and no column that nothing reads.

    Rewriting what is rewritten changes nothing.
    """
    match query:
        case ReadQuery():
            return rewrite_read(query)
        case MutationQuery():
            return replace(query, statements=tuple(_rewrite_statement(s) for s in query.statements))
        case _:
            assert_never(query)


def rewrite_read(query: ReadQuery) -> ReadQuery:
    """`rewrite` of a read; columns are pruned last, because a filter that is gone needs none."""
    pattern = query.pattern
    for rule in PATTERN_RULES:
        pattern = rule(pattern)
    return prune_columns(replace(query, pattern=pattern))


def _rewrite_statement(statement: Statement) -> Statement:
    match statement:
        case Update() | Delete():
            return replace(statement, where=simplify(statement.where))
        case InsertNode() | InsertEdge():
            return statement
        case _:
            assert_never(statement)
