"""Diagnostics of both languages as values: code, span, message, help. They are rendered in one other place."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from omnigraph.errors import Kind, OmnigraphError
from omnigraph.lang.diagnostic_codes import CODES, DiagnosticSeverity
from omnigraph.lang.source import Source, Span

T = TypeVar("T")

# The limit of errors that are shown of one file; parsing stops there, since what follows is mostly noise.
MAX_DIAGNOSTICS = 50


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding about one span of a source."""

    code: str
    span: Span
    message: str
    help: str | None = None

    def __post_init__(self) -> None:
        # The reference page and the corpus are generated and checked from the registry.
        if self.code not in CODES:
            msg = f"diagnostic code {self.code!r} is not in the registry lang/diagnostic_codes.py"
            raise ValueError(msg)

    @property
    def severity(self) -> DiagnosticSeverity:
        """Error or warning, as the registry of codes declares it."""
        return CODES[self.code].severity

    @property
    def is_error(self) -> bool:
        """Whether this is an error and not a warning."""
        return self.severity is DiagnosticSeverity.ERROR


class WithDiagnostics:
    """A base of results that carry diagnostics and must not be used if one of them is an error."""

    __slots__ = ()

    diagnostics: tuple[Diagnostic, ...]

    @property
    def ok(self) -> bool:
        """Whether no diagnostic is an error."""
        return not any(diagnostic.is_error for diagnostic in self.diagnostics)

    def refuse_errors(self, source: Source) -> None:
        """Raise `SourceError` with all diagnostics if one of them is an error."""
        if not self.ok:
            raise SourceError(source, self.diagnostics)


@dataclass(frozen=True, slots=True)
class StageResult(WithDiagnostics, Generic[T]):
    """The output of a stage, with its diagnostics.

    `value` may be partial if there are errors; `require` never returns such a value.
    """

    value: T
    diagnostics: tuple[Diagnostic, ...]

    def require(self, source: Source) -> T:
        """Return the value.

        Raises:
            SourceError: There is an error; it carries all errors and warnings.
        """
        self.refuse_errors(source)
        return self.value


class SourceError(OmnigraphError):
    """A schema or query text has errors; `diagnostics` are all of them, in source order."""

    kind = Kind.INVALID
    code = "invalid_source"

    def __init__(self, source: Source, diagnostics: Iterable[Diagnostic]) -> None:
        in_order = sort_diagnostics(diagnostics)
        super().__init__(source, in_order)
        self.source = source
        self.diagnostics = in_order

    def facts(self) -> dict[str, object]:
        """Return the source's name and the number of errors; interfaces render the diagnostics themselves."""
        return {"source": self.source.name, "errors": sum(d.is_error for d in self.diagnostics)}

    def __str__(self) -> str:
        errors = [diagnostic for diagnostic in self.diagnostics if diagnostic.is_error]
        first = errors[0]
        position = self.source.position(first.span.start)
        rest = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        text = f"{self.source.name}:{position.line}:{position.column}: {first.code}: {first.message}{rest}"
        return f"{text}\nhelp: {first.help}" if first.help else text


def sort_diagnostics(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Sort diagnostics by span, then code, without duplicates."""
    return tuple(sorted(set(diagnostics), key=lambda d: (d.span, d.code, d.message, d.help or "")))
