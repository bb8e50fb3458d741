"""Reduce patterns that can't match to one canonical form: the only filter is the constant false."""

from dataclasses import replace

from omnigraph.lang.source import Span
from omnigraph.query.logical_plan import NotExists, Pattern
from omnigraph.query.rules.constant_folding import build_truth, is_truth


def is_empty(pattern: Pattern) -> bool:
    """Return whether the pattern is known to have no match."""
    return any(is_truth(expr, False) for expr in pattern.filters)


def reduce_empty_patterns(pattern: Pattern) -> Pattern:
    """Return the pattern without `not` blocks that exclude nothing, and reduced to `false` if it can't match.

    A block that can't match excludes nothing. An empty block always matches, so it excludes every row.
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
    pattern = block.pattern
    return not (pattern.nodes or pattern.hops or pattern.filters or pattern.absent)


def _build_empty_pattern(pattern: Pattern, origin: Span) -> Pattern:
    """Build a pattern without matches. Its variables stay, because the output names them."""
    return Pattern(
        nodes=tuple(replace(node, filters=()) for node in pattern.nodes),
        hops=tuple(replace(hop, filters=()) for hop in pattern.hops),
        filters=(build_truth(False, origin),),
    )
