"""The notebook of a binder: every broken rule once, at its place."""

from collections.abc import Iterable

from omnigraph.lang.diagnostics import Diagnostic, sort_diagnostics
from omnigraph.lang.source import Span
from omnigraph.lang.spelling import Suggestions


class DiagnosticCollector:
    """Collects diagnostics; a code is reported once per place, so nodes don't repeat the faults of their interface."""

    def __init__(self) -> None:
        self._diagnostics: dict[tuple[str, Span], Diagnostic] = {}
        self._suggestions = Suggestions()

    def __len__(self) -> int:
        return len(self._diagnostics)

    def add_error(self, code: str, span: Span, message: str, help: str | None = None) -> None:
        """Note a broken rule."""
        self._diagnostics.setdefault((code, span), Diagnostic(code, span, message, help))

    def suggest_closest(self, word: str, candidates: Iterable[str]) -> str | None:
        """A help line with the nearest candidate, if one is near and this is not the umpteenth error."""
        return self._suggestions.suggest_closest(word, candidates)

    def finalize(self) -> tuple[Diagnostic, ...]:
        """Everything found, in source order."""
        return sort_diagnostics(self._diagnostics.values())


def join_words(words: Iterable[str], joint: str = "and") -> str:
    """Words as a sentence lists them: `` `a`, `b` and `c` ``."""
    quoted = [f"`{word}`" for word in words]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} {joint} {quoted[-1]}"
