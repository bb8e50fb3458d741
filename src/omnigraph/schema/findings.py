"""Collect the diagnostics of a binder."""

from collections.abc import Iterable

from omnigraph.lang.diagnostics import Diagnostic, sort_diagnostics
from omnigraph.lang.source import Span
from omnigraph.lang.spelling import Suggestions


class DiagnosticCollector:
    """A collector of diagnostics; each code is kept once per span, so nodes don't repeat the errors of an interface."""

    def __init__(self) -> None:
        self._diagnostics: dict[tuple[str, Span], Diagnostic] = {}
        self._suggestions = Suggestions()

    def __len__(self) -> int:
        return len(self._diagnostics)

    def add_error(self, code: str, span: Span, message: str, help: str | None = None) -> None:
        """Add an error; the first one of a code and span wins."""
        self._diagnostics.setdefault((code, span), Diagnostic(code, span, message, help))

    def suggest_closest(self, word: str, candidates: Iterable[str]) -> str | None:
        """Return a help line with the nearest candidate, or None.

        The number of searches is limited, because they are the expensive part of an error.
        """
        return self._suggestions.suggest_closest(word, candidates)

    def finalize(self) -> tuple[Diagnostic, ...]:
        """Return all diagnostics in source order."""
        return sort_diagnostics(self._diagnostics.values())


def join_words(words: Iterable[str], joint: str = "and") -> str:
    """Format words as a sentence lists them: `` `a`, `b` and `c` ``."""
    quoted = [f"`{word}`" for word in words]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} {joint} {quoted[-1]}"
