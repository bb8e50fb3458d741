"""Collect what is wrong with a statement of Cypher; unknown names are warnings, or errors where names are strict."""

from typing import NoReturn

from omnigraph.lang.diagnostics import Diagnostic, sort_diagnostics
from omnigraph.lang.literals import Name
from omnigraph.lang.source import Span


class RefusedError(Exception):
    """A part of a statement can't be bound; it was reported."""


class CypherFindings:
    """The errors and warnings of one statement; each code is kept once per span."""

    def __init__(self, *, is_strict: bool) -> None:
        self.is_strict = is_strict
        self._found: dict[tuple[str, Span], Diagnostic] = {}

    @property
    def has_errors(self) -> bool:
        """Whether one of them is an error."""
        return any(found.is_error for found in self._found.values())

    def add(self, code: str, span: Span, message: str, help: str | None = None) -> None:
        """Add a finding; the first one of a code and span stays."""
        self._found.setdefault((code, span), Diagnostic(code, span, message, help))

    def refuse(self, code: str, span: Span, message: str, help: str | None = None) -> NoReturn:
        """Add an error, and raise `RefusedError`."""
        self.add(code, span, message, help)
        raise RefusedError

    def warn_label(self, name: Name, message: str, help: str | None) -> None:
        """Add the finding of an unknown label or relationship type."""
        self.add("C011" if self.is_strict else "C101", name.span, message, help)

    def warn_property(self, name: Name, message: str, help: str | None) -> None:
        """Add the finding of an unknown property."""
        self.add("C012" if self.is_strict else "C102", name.span, message, help)

    def finalize(self) -> tuple[Diagnostic, ...]:
        """Return all findings in source order."""
        return sort_diagnostics(self._found.values())
