"""What the binder finds out about names, by their place, for a caller that asks: editors show and rename them.

The binder meets each name anyway; a second resolver beside it would be a second opinion.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from omnigraph.lang.source import Span


@dataclass(frozen=True, slots=True)
class ResolvedNames:
    """The types whose property a name at a place is, and the types of variables, as messages show them."""

    properties: dict[Span, tuple[str, ...]] = field(default_factory=dict)
    variables: dict[Span, str] = field(default_factory=dict)


_RECORDING: ContextVar[ResolvedNames | None] = ContextVar("omnigraph_resolved_names", default=None)


@contextmanager
def record_names() -> Iterator[ResolvedNames]:
    """Record what is bound inside of the block."""
    names = ResolvedNames()
    token = _RECORDING.set(names)
    try:
        yield names
    finally:
        _RECORDING.reset(token)


def note_property(span: Span, types: Iterable[str]) -> None:
    """Record that the name at this place is a property of these types."""
    names = _RECORDING.get()
    if names is not None:
        names.properties[span] = tuple(types)


def note_variable(span: Span, type_: object) -> None:
    """Record the type of the variable at this place."""
    names = _RECORDING.get()
    if names is not None:
        names.variables.setdefault(span, str(type_))
