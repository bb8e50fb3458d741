"""A pattern that can't match says so in one way: its only filter is the constant false."""

from dataclasses import replace

from omnigraph.lang.source import Span
from omnigraph.query.logical_plan import NotExists, Pattern
from omnigraph.query.rules.constant_folding import build_truth, is_truth


def is_empty(pattern: Pattern) -> bool:
    """Whether the pattern is known to have no match."""
    return any(is_truth(expr, False) for expr in pattern.filters)


def reduce_empty_patterns(pattern: Pattern) -> Pattern:
    """The pattern without blocks that take nothing away, and reduced to `false` if it can't match.

    A block that can't match takes nothing away. One that asks for nothing always matches, so it takes everything away.
    """
    blocks = tuple(replace(block, pattern=reduce_empty_patterns(block.pattern)) for block in pattern.absent)
    for expr in pattern.filters:
        if is_truth(expr, False):
            return _build_empty_pattern(pattern, expr.origin)
    for block in blocks:
        if _always_matches(block):
            return _build_empty_pattern(pattern, block.origin)
    return replace(pattern, absent=tuple(block for block in blocks if not is_empty(block.pattern)))


def _always_matches(block: NotExists) -> bool:
    inside = block.pattern
    return not (inside.nodes or inside.hops or inside.filters or inside.absent)


def _build_empty_pattern(pattern: Pattern, origin: Span) -> Pattern:
    """Variables stay, for the output names them; nothing else needs to be read."""
    return Pattern(
        nodes=tuple(replace(node, filters=()) for node in pattern.nodes),
        hops=tuple(replace(hop, filters=()) for hop in pattern.hops),
        filters=(build_truth(False, origin),),
    )
