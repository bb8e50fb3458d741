"""A pattern that can't match says so in one way: its only filter is the constant false."""

from dataclasses import replace

from omnigraph.lang.source import Span
from omnigraph.query.logical_plan import Absent, Pattern
from omnigraph.query.rules.constant_folding import is_truth, truth


def is_empty(pattern: Pattern) -> bool:
    """Whether the pattern is known to have no match."""
    return any(is_truth(expr, False) for expr in pattern.filters)


def settle_emptiness(pattern: Pattern) -> Pattern:
    """The pattern without blocks that take nothing away, and reduced to `false` if it can't match.

    A block that can't match takes nothing away. One that asks for nothing always matches, so it takes everything away.
    """
    blocks = tuple(replace(block, pattern=settle_emptiness(block.pattern)) for block in pattern.absent)
    for expr in pattern.filters:
        if is_truth(expr, False):
            return _emptied(pattern, expr.origin)
    for block in blocks:
        if _always_matches(block):
            return _emptied(pattern, block.origin)
    return replace(pattern, absent=tuple(block for block in blocks if not is_empty(block.pattern)))


def _always_matches(block: Absent) -> bool:
    inside = block.pattern
    return not (inside.nodes or inside.hops or inside.filters or inside.absent)


def _emptied(pattern: Pattern, origin: Span) -> Pattern:
    """Variables stay, for the output names them; nothing else needs to be read."""
    return Pattern(
        nodes=tuple(replace(node, filters=()) for node in pattern.nodes),
        hops=tuple(replace(hop, filters=()) for hop in pattern.hops),
        filters=(truth(False, origin),),
    )
