"""Names and what they mean, by their place in a text: what go to definition, references and rename are made of."""

from dataclasses import dataclass
from enum import Enum

from omnigraph.lang.cursor import capitalize_name, decapitalize_name
from omnigraph.lang.lexer import RESERVED_WORDS
from omnigraph.lang.source import Span


class NameKind(Enum):
    """What a name means; the value describes it in messages."""

    TYPE = "type"
    PROPERTY = "property"
    VARIABLE = "variable"
    PARAMETER = "parameter"
    COLUMN = "column"
    FIELD = "field"
    QUERY = "query"
    PATTERN = "pattern"
    FUNCTION = "function"


SHARED_KINDS = frozenset((NameKind.TYPE, NameKind.PROPERTY))
"""The names that a schema declares: a schema and all its queries use them. All others belong to one file."""

_LOCAL_KINDS = frozenset((NameKind.VARIABLE, NameKind.PARAMETER, NameKind.COLUMN, NameKind.FIELD))


@dataclass(frozen=True, slots=True)
class Symbol:
    """A thing with a name. The `owner` of a property is its type, that of a variable the place of its query."""

    kind: NameKind
    name: str
    owner: str = ""

    @property
    def is_local(self) -> bool:
        """Whether only one declaration of a file knows it."""
        return self.kind in _LOCAL_KINDS


class NameForm(Enum):
    """How a name is written at a place."""

    PLAIN = "plain"
    EDGE = "edge"
    """An edge type in a hop, where its first letter may be small."""
    QUOTED = "quoted"


@dataclass(frozen=True, slots=True)
class NameUse:
    """A name at a place, without `$` and quotes, and what it means: several things where types are united."""

    span: Span
    symbols: tuple[Symbol, ...]
    is_declaration: bool = False
    form: NameForm = NameForm.PLAIN
    type: str = ""
    """The type of the value that it has here, for people; empty if it is not known."""


def write_name(use: NameUse, written: str, new: str) -> str:
    """Return a new name as the old one was written."""
    if use.form is NameForm.EDGE and written[:1].islower():
        return decapitalize_name(new)
    return new


def normalize_name(kind: NameKind, name: str) -> str:
    """Return a name that was typed as this kind is declared: without `$`, an edge's with its capital."""
    name = name.strip()
    if kind in (NameKind.VARIABLE, NameKind.PARAMETER):
        return name.removeprefix("$")
    return capitalize_name(name) if kind is NameKind.TYPE and name[:1].islower() else name


def explain_bad_name(kind: NameKind, name: str) -> str | None:
    """Return why this can't be the name of such a thing; None if it can."""
    if not (name.isascii() and name.isidentifier()):
        return "a name is made of the letters a-z and A-Z, digits and `_`, and starts with a letter"
    if kind is NameKind.TYPE:
        return None if name[0].isupper() else "the name of a type starts with a capital"
    if not name[0].islower():
        return f"the name of a {kind.value} starts with a small letter"
    if kind in (NameKind.QUERY, NameKind.PATTERN, NameKind.COLUMN) and name in RESERVED_WORDS:
        return f"`{name}` is a reserved word"
    return None
