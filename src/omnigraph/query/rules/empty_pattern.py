"""Reduce patterns that can't match to one canonical form: the only filter is the constant false."""

from dataclasses import replace

from omnigraph.lang.source import Span
from omnigraph.query.logical_plan import (
    EitherBlock,
    Exists,
    Pattern,
    PatternBlock,
    get_bound_types,
    get_patterns,
    map_patterns,
)
from omnigraph.query.rules.constant_folding import build_truth, is_truth


def is_empty(pattern: Pattern) -> bool:
    """Return whether the pattern is known to have no match."""
    return any(is_truth(expr, False) for expr in pattern.filters)


def reduce_empty_patterns(pattern: Pattern) -> Pattern:
    """Return the pattern without blocks and alternatives that decide nothing, and reduced to `false` if it can't match.

    A `not` block that can't match excludes nothing; an empty one always matches, so it excludes every row.
    """
    blocks = tuple(_reduce_block(block) for block in pattern.blocks)
    for expr in pattern.filters:
        if is_truth(expr, False):
            return _build_empty_pattern(pattern, expr.origin)
    for block in blocks:
        if _excludes_all(block):
            return _build_empty_pattern(pattern, block.origin)
    return replace(pattern, blocks=tuple(block for block in blocks if not _is_always_true(block)))


def _reduce_block(block: PatternBlock) -> PatternBlock:
    reduced = map_patterns(block, reduce_empty_patterns)
    if isinstance(reduced, EitherBlock):
        matching = tuple(inner for inner in reduced.alternatives if not is_empty(inner))
        # Without any alternative the block would say no more which variables it binds.
        return replace(reduced, alternatives=matching or reduced.alternatives[:1])
    return reduced


def _excludes_all(block: PatternBlock) -> bool:
    match block:
        case Exists(negated=True):
            return _always_matches(block.pattern)
        case Exists() | EitherBlock():
            return all(map(is_empty, get_patterns(block)))
        case _:
            return False


def _is_always_true(block: PatternBlock) -> bool:
    if not isinstance(block, Exists):
        return False
    return is_empty(block.pattern) if block.negated else _always_matches(block.pattern)


def _always_matches(pattern: Pattern) -> bool:
    return not (pattern.nodes or pattern.hops or pattern.filters or pattern.blocks)


def _build_empty_pattern(pattern: Pattern, origin: Span) -> Pattern:
    """Build a pattern without matches. Its variables stay, because the output names them."""
    return Pattern(
        nodes=tuple(replace(node, filters=()) for node in pattern.nodes),
        hops=tuple(replace(hop, filters=()) for hop in pattern.hops),
        filters=(build_truth(False, origin),),
        blocks=tuple(block for block in pattern.blocks if get_bound_types(block)),
    )
