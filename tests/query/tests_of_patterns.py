"""The tests among the blocks of a pattern, for tests that expect no other blocks."""

from omnigraph.query.logical_plan import Exists, Pattern


def tests_of(pattern: Pattern) -> tuple[Exists, ...]:
    """The blocks of a pattern, all of which are `not { … }` or `exists { … }`."""
    tests = tuple(block for block in pattern.blocks if isinstance(block, Exists))
    assert len(tests) == len(pattern.blocks)
    return tests


def only_test(pattern: Pattern) -> Exists:
    """The only block of a pattern, a test."""
    (test,) = tests_of(pattern)
    return test
