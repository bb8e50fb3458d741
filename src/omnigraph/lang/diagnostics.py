"""A language error is a value: code, span, message, help. Many per file; rendered elsewhere, in one place."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from omnigraph.errors import Kind, OmnigraphError
from omnigraph.lang.diagnostic_codes import CODES, DiagnosticSeverity
from omnigraph.lang.source import Source, Span

T = TypeVar("T")

MAX_DIAGNOSTICS = 50
"""The most errors of one file that people are shown; parsing stops there, since what follows is mostly noise."""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding about one place of a source."""

    code: str
    span: Span
    message: str
    help: str | None = None

    def __post_init__(self) -> None:
        if self.code not in CODES:
            msg = f"diagnostic code {self.code!r} is not in the registry lang/diagnostic_codes.py"
            raise ValueError(msg)

    @property
    def severity(self) -> DiagnosticSeverity:
        """Whether this stops (error) or advises (warning)."""
        return CODES[self.code].severity

    @property
    def is_error(self) -> bool:
        """True for errors, false for warnings."""
        return self.severity is DiagnosticSeverity.ERROR


class WithDiagnostics:
    """Something that came with diagnostics, and is not to be used when one of them is an error."""

    __slots__ = ()

    diagnostics: tuple[Diagnostic, ...]

    @property
    def ok(self) -> bool:
        """True when nothing found is an error."""
        return not any(found.is_error for found in self.diagnostics)

    def refuse_errors(self, source: Source) -> None:
        """Raise `SourceError` with all errors and warnings when there is an error."""
        if not self.ok:
            raise SourceError(source, self.diagnostics)


@dataclass(frozen=True, slots=True)
class StageResult(WithDiagnostics, Generic[T]):
    """What a stage made of its input, and what it found on the way.

    `value` may be a partial result when there are errors; `require` refuses to hand that out.
    """

    value: T
    diagnostics: tuple[Diagnostic, ...]

    def require(self, source: Source) -> T:
        """The value, or `SourceError` with all errors and warnings when there is an error."""
        self.refuse_errors(source)
        return self.value


class SourceError(OmnigraphError):
    """A schema or query text has errors; `diagnostics` are all of them, in source order."""

    kind = Kind.INVALID
    code = "invalid_source"

    def __init__(self, source: Source, diagnostics: Iterable[Diagnostic]) -> None:
        found = sort_diagnostics(diagnostics)
        super().__init__(source, found)
        self.source, self.diagnostics = source, found

    def facts(self) -> dict[str, object]:
        """The source's name and the number of errors; the door renders the diagnostics themselves."""
        return {"source": self.source.name, "errors": sum(d.is_error for d in self.diagnostics)}

    def __str__(self) -> str:
        first = next(found for found in self.diagnostics if found.is_error)
        place = self.source.position(first.span.start)
        more = sum(found.is_error for found in self.diagnostics) - 1
        rest = f" (and {more} more)" if more else ""
        told = f"{self.source.name}:{place.line}:{place.column}: {first.code}: {first.message}{rest}"
        return f"{told}\nhelp: {first.help}" if first.help else told


def sort_diagnostics(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """By place, then code, each finding once."""
    return tuple(sorted(set(diagnostics), key=lambda d: (d.span, d.code, d.message, d.help or "")))
