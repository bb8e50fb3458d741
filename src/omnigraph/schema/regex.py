"""Regular expressions of `@check`: RE2, searched, never anchored."""

import re2


def compile_pattern(pattern: str) -> "re2._Regexp[str]":
    """The compiled pattern; `re2.error` if it is none. Nothing is written to stderr."""
    options = re2.Options()
    options.log_errors = False
    return re2.compile(pattern, options=options)


def find_pattern_problem(pattern: str) -> str | None:
    """Why a pattern is no RE2 pattern, in RE2's words, or None for a good one."""
    try:
        compile_pattern(pattern)
    except re2.error as error:
        reason = error.args[0]
        return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
    return None
