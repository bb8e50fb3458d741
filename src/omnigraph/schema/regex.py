"""Compile the regular expressions of `@check`, `matches` and `extract`: RE2, searched anywhere in the text."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import re2


def compile_pattern(pattern: str) -> "re2._Regexp[str]":
    """Compile a pattern.

    Raises:
        re2.error: It is not an RE2 pattern.
    """
    import re2  # noqa: PLC0415 - few queries and schemas have a pattern, and loading it takes 10 ms

    # RE2 would write errors to stderr as well.
    options = re2.Options()
    options.log_errors = False
    return re2.compile(pattern, options=options)


def find_pattern_problem(pattern: str) -> str | None:
    """Return why a pattern is invalid, in the words of RE2; None for a valid one."""
    import re2  # noqa: PLC0415 - as above

    try:
        compile_pattern(pattern)
    except re2.error as error:
        reason = error.args[0]
        return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
    return None
