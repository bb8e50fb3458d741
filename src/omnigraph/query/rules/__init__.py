"""Logical rewrite rules: turn a bound query into an equivalent one that is cheaper to run.

A rule is a plain function. Predicate rules (`simplify`) run over each filter until nothing changes; pattern rules run
once, in the order of `PATTERN_RULES`, from the outermost pattern into its `not` blocks. No rule changes the result.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import assert_never

from omnigraph.query.column_pruning import prune_columns
from omnigraph.query.logical_plan import Pattern, ReadQuery, map_source
from omnigraph.query.mutation_plan import (
    BoundQuery,
    Delete,
    DriveMatch,
    InsertEdge,
    InsertNode,
    MutationQuery,
    Statement,
    Update,
)
from omnigraph.query.rules.empty_pattern import reduce_empty_patterns
from omnigraph.query.rules.pushdown import push_down
from omnigraph.query.rules.simplify import simplify, simplify_filters

# The order matters: simplification moves all filters into `Pattern.filters`, so pushdown comes after it. A constant
# false reads no variable, so pushdown leaves it there, where the last rule looks for it.
PATTERN_RULES: tuple[Callable[[Pattern], Pattern], ...] = (simplify_filters, push_down, reduce_empty_patterns)


def rewrite(query: BoundQuery) -> BoundQuery:
    """Return an equivalent query with simplified filters, predicate pushdown and column pruning.

    Idempotent: rewriting a rewritten query changes nothing.
    """
    match query:
        case ReadQuery():
            return rewrite_read(query)
        case MutationQuery():
            return replace(query, statements=tuple(_rewrite_statement(s) for s in query.statements))
        case _:
            assert_never(query)


def rewrite_read(query: ReadQuery) -> ReadQuery:
    """Rewrite a read and those that it starts from; see `rewrite`."""
    query = map_source(query, rewrite_read)
    pattern = query.pattern
    for rule in PATTERN_RULES:
        pattern = rule(pattern)
    # Pruned last: a filter that a rule has removed needs no columns.
    # `having` stays as it is: its aggregates are found among those of the grouping by equality.
    return prune_columns(replace(query, pattern=pattern))


def _rewrite_statement(statement: Statement) -> Statement:
    match statement:
        case Update() | Delete():
            return replace(statement, where=simplify(statement.where))
        case InsertNode() | InsertEdge():
            return statement
        case DriveMatch():
            return replace(statement, read=rewrite_read(statement.read))
        case _:
            assert_never(statement)
