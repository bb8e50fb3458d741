"""What a parser hands on."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from omnigraph.lang.diagnostics import Diagnostic, WithDiagnostics
from omnigraph.lang.lexer import Comment
from omnigraph.lang.source import Source

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ParseResult(WithDiagnostics, Generic[T]):
    """A tree, and what was found on the way.

    With errors the tree is partial: what could be read is in it, mended where the fix is plain. `steps` counts the
    work done, so that a test can show that it grows with the text and not faster.
    """

    tree: T
    diagnostics: tuple[Diagnostic, ...]
    comments: tuple[Comment, ...]
    steps: int

    def require(self, source: Source) -> T:
        """The tree, or `SourceError` with everything found when there is an error."""
        self.refuse_errors(source)
        return self.tree
