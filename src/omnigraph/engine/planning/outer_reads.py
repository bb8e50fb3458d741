"""Find the outer variables of which a block reads values only: rows with equal values have the same matches."""

from collections.abc import Iterator

from omnigraph.engine.operators.filter import has_search
from omnigraph.engine.physical_plan import OuterValues
from omnigraph.query.expr import Entity, Expr, Identity, Prop, ValueRef
from omnigraph.query.expr_tree import walk
from omnigraph.query.logical_plan import Hop, Pattern, PatternBlock, get_block_exprs, get_patterns, iter_predicates
from omnigraph.schema.types import EnumOf, Scalar

# 0.0 and -0.0 are equal, but an expression can tell them apart; the others can't be grouped as a column.
_UNGROUPED = frozenset({Scalar.F32, Scalar.F64, Scalar.BLOB})


def find_outer_values(block: PatternBlock) -> OuterValues:
    """Return the outer variables whose rows matter by some values alone, and these values.

    A variable is left out if the block needs its row: as the end of a hop, as a whole, by its id, or for a search.
    """
    exprs = (*(expr for pattern in get_patterns(block) for expr in iter_predicates(pattern)), *get_block_exprs(block))
    hops = (hop for pattern in get_patterns(block) for hop in _iter_hops(pattern))
    needed = {end for hop in hops for end in (hop.source, hop.target)}
    values: dict[str, dict[Prop | ValueRef, None]] = {}
    for expr in exprs:
        for part in walk(expr):
            if isinstance(part, Prop | ValueRef) and _is_grouped(part) and not has_search(expr):
                values.setdefault(part.variable, {})[part] = None
            elif isinstance(part, Prop | ValueRef | Identity | Entity):
                needed.add(part.variable)
    names = (each.variable for each in block.shared)
    return tuple((name, tuple(values[name])) for name in names if name in values and name not in needed)


def _iter_hops(pattern: Pattern) -> Iterator[Hop]:
    yield from pattern.hops
    for block in pattern.blocks:
        for inner in get_patterns(block):
            yield from _iter_hops(inner)


def _is_grouped(value: Expr) -> bool:
    return isinstance(value.type, Scalar | EnumOf) and value.type not in _UNGROUPED
