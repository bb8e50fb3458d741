"""The `not` and `exists` blocks of a pattern, for tests that expect no other blocks."""

from omnigraph.query.logical_plan import Exists, Pattern


def exists_blocks(pattern: Pattern) -> tuple[Exists, ...]:
    """The blocks of a pattern, all of which are `not { … }` or `exists { … }`."""
    tests = tuple(block for block in pattern.blocks if isinstance(block, Exists))
    assert len(tests) == len(pattern.blocks)
    return tests


def only_exists(pattern: Pattern) -> Exists:
    """The only block of a pattern, a test."""
    (test,) = exists_blocks(pattern)
    return test
