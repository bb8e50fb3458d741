"""What is said of a value that does not fit its type."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from omnigraph.schema.types import EnumOf, ValueType

_MAX_TEXT_LENGTH = 60
_MAX_TYPE_ENUM_VALUES = 8
_MAX_NUMBER = 10**40


@dataclass(frozen=True, slots=True)
class InvalidValue:
    """A value that does not fit; the reason is in users' words and names what was expected and what came."""

    reason: str


def format_value(value: object) -> str:
    """A JSON-like value as a message shows it: on one line, in quotes if it is text, and never long."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() if abs(value) >= _MAX_NUMBER:
            return "a number of more than 40 digits"
        case int() | float():
            return str(value)
        case str():
            return _quote_text(value)
        case list() | tuple():
            return f"a list of {len(value)} {'item' if len(value) == 1 else 'items'}"
        case Mapping():
            return "an object"
        case _:
            return f"a {type(value).__name__}"


def format_type(type_: ValueType) -> str:
    """A type as a message shows it: of a long enum only the first values."""
    if isinstance(type_, EnumOf) and len(type_.values) > _MAX_TYPE_ENUM_VALUES:
        return f"enum({', '.join(type_.values[:_MAX_TYPE_ENUM_VALUES])}, …)"
    return str(type_)


def _quote_text(text: str) -> str:
    clipped = text if len(text) <= _MAX_TEXT_LENGTH else text[: _MAX_TEXT_LENGTH - 1]
    quoted = json.dumps(clipped, ensure_ascii=not clipped.isprintable())
    return quoted if clipped == text else f'{quoted[:-1]}…" ({len(text)} characters)'
