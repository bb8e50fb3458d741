"""Hops that need not bind their edge: where parallel edges can't be, or can't be seen, the plan is that of queries."""

from collections.abc import Iterable
from dataclasses import replace

from omnigraph.lang.query_ast import BlockKind
from omnigraph.query.expr import AggregateFunction, Expr
from omnigraph.query.expr_tree import find_variables
from omnigraph.query.logical_plan import (
    Exists,
    Hop,
    HopDirection,
    OptionalMatch,
    Pattern,
    PatternBlock,
    ReadQuery,
    ValueBlock,
    get_patterns,
    iter_predicates,
    map_patterns,
)
from omnigraph.schema.catalog import Catalog

_ENDS = frozenset({"src", "dst"})


def relax_hops(read: ReadQuery, catalog: Catalog) -> ReadQuery:
    """Return a read whose hops bind their edges only where the edge is read, or counts."""
    seen = _list_read((*read.results, *iter_predicates(read.pattern)), read.pattern)
    pattern = _relax(read.pattern, seen, catalog, is_set=_is_set(read))
    return read if pattern == read.pattern else replace(read, pattern=pattern)


def _is_set(read: ReadQuery) -> bool:
    """Return whether equal rows of the matches are the same as one of them."""
    if read.grouping is None:
        return read.distinct
    aggregates = read.grouping.aggregates
    # A list keeps equal values, and only a distinct one leaves them out.
    return all(each.distinct or each.fold in (AggregateFunction.MIN, AggregateFunction.MAX) for each in aggregates)


def _list_read(exprs: Iterable[Expr], pattern: Pattern) -> set[str]:
    seen = {name for expr in exprs for name in find_variables(expr)}
    for block in pattern.blocks:
        if not hasattr(block, "shared"):
            continue
        seen.update(each.variable for each in block.shared)
        for inner in get_patterns(block):
            seen |= _list_read((), inner)
    return seen


def _relax(pattern: Pattern, seen: set[str], catalog: Catalog, *, is_set: bool) -> Pattern:
    hops = tuple(_relax_hop(hop, seen, catalog, is_set=is_set) for hop in pattern.hops)
    blocks = tuple(_relax_block(block, seen, catalog, is_set=is_set) for block in pattern.blocks)
    return replace(pattern, hops=hops, blocks=blocks)


def _relax_block(block: PatternBlock, seen: set[str], catalog: Catalog, *, is_set: bool) -> PatternBlock:
    is_test = isinstance(block, Exists) or (isinstance(block, ValueBlock) and _is_set_block(block))
    inside = is_test or (is_set and isinstance(block, OptionalMatch))
    return map_patterns(block, lambda inner: _relax(inner, seen, catalog, is_set=inside))


def _is_set_block(block: ValueBlock) -> bool:
    return block.distinct or block.kind in (BlockKind.EXISTS, BlockKind.MIN, BlockKind.MAX)


def _relax_hop(hop: Hop, seen: set[str], catalog: Catalog, *, is_set: bool) -> Hop:
    is_bound = hop.edge_variable is not None and hop.edge_variable not in seen and not hop.filters
    if not is_bound or not (is_set or _has_no_parallels(hop, catalog)):
        return hop
    return replace(hop, edge_variable=None, columns=())


def _has_no_parallels(hop: Hop, catalog: Catalog) -> bool:
    """Return whether there is at most one edge between two nodes, in the direction of a hop."""
    if len(hop.members) > 1 or hop.direction is HopDirection.BOTH:
        return False
    edge = catalog.edges.get(hop.members[0].edge.name if hop.members else hop.edge.name)
    if edge is None:
        return False
    return any(set(columns) <= _ENDS for columns in (edge.key, *edge.unique) if columns)
