"""Column pruning: note which properties of each variable a query reads, so that no others are fetched."""

from dataclasses import replace

from omnigraph.query.expr_tree import find_properties
from omnigraph.query.logical_plan import (
    Hop,
    Pattern,
    PatternBlock,
    ReadQuery,
    get_block_exprs,
    get_bound_types,
    get_patterns,
    map_patterns,
)


def prune_columns(query: ReadQuery) -> ReadQuery:
    """Return the query with `columns` of every variable set to the properties that are read, sorted by name."""
    exprs = list(query.results)
    if query.grouping is not None:
        exprs += [*query.grouping.keys, *query.grouping.aggregates]
    read = {prop for expr in exprs for prop in find_properties(expr)}
    return replace(query, pattern=_prune_pattern_columns(query.pattern, read))


def _find_read_columns(pattern: Pattern) -> set[tuple[str, str]]:
    """Return the (variable, property) pairs that the filters of a pattern and of its blocks read.

    The own variables of an inner block are left out.
    """
    exprs = [
        *pattern.filters,
        *(f for n in pattern.nodes for f in n.filters),
        *(f for h in pattern.hops for f in h.filters),
    ]
    columns = {pair for expr in exprs for pair in find_properties(expr)}
    for block in pattern.blocks:
        own = {pair for expr in get_block_exprs(block) for pair in find_properties(expr)}
        for inner in get_patterns(block):
            # Two sibling blocks may bind different variables of the same name.
            reads = own | _find_read_columns(inner)
            columns |= {(variable, name) for variable, name in reads if variable not in inner.types}
    return columns


def _prune_hop(hop: Hop, columns: tuple[str, ...]) -> Hop:
    derived = hop.derived
    if derived is not None:
        derived = replace(derived, pattern=_prune_pattern_columns(derived.pattern, set()))
    return replace(hop, columns=columns, derived=derived)


def _prune_pattern_columns(pattern: Pattern, read: set[tuple[str, str]]) -> Pattern:
    columns: dict[str | None, list[str]] = {}
    all_reads = read | _find_read_columns(pattern)
    # Sorted, because the order of a set of strings differs between processes.
    for variable, name in sorted(all_reads):
        columns.setdefault(variable, []).append(name)

    def prune_block(block: PatternBlock) -> PatternBlock:
        own = {pair for expr in get_block_exprs(block) for pair in find_properties(expr)}
        # What the outside reads of the variables that a block binds is read where they are bound.
        shown = get_bound_types(block)
        own |= {(variable, name) for variable, name in all_reads if variable in shown}
        return map_patterns(block, lambda inner: _prune_pattern_columns(inner, own))

    return replace(
        pattern,
        nodes=tuple(replace(node, columns=tuple(columns.get(node.variable, ()))) for node in pattern.nodes),
        hops=tuple(_prune_hop(hop, tuple(columns.get(hop.edge_variable, ()))) for hop in pattern.hops),
        blocks=tuple(map(prune_block, pattern.blocks)),
    )
