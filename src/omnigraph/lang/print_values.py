"""The canonical text of what both languages share: strings, numbers, literals, types."""

from typing import assert_never

from omnigraph.lang.invisible import is_invisible
from omnigraph.lang.literals import (
    BaseType,
    BoolLiteral,
    DateLiteral,
    DateTimeLiteral,
    EnumType,
    FloatLiteral,
    IntLiteral,
    ListLiteral,
    ListType,
    Literal,
    NullLiteral,
    StringLiteral,
    TypeExpr,
    VectorType,
)

_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_JOINERS = frozenset("\u200c\u200d\ufe0e\ufe0f")


def quote(value: str) -> str:
    """The text as a string literal; what can't be seen is escaped, so that two texts that look alike are alike.

    Joiners and the choice between text and emoji stay as they are behind a letter or sign that is not ASCII: there
    they change how it looks.
    """
    parts: list[str] = []
    for char in value:
        if char in _ESCAPES:
            parts.append(_ESCAPES[char])
        elif is_invisible(char) and not (char in _JOINERS and parts and not parts[-1].isascii()):
            parts.append(_escape(char))
        else:
            parts.append(char)
    return f'"{"".join(parts)}"'


def print_float(value: float) -> str:
    """The shortest text that the languages read back as the same number: digits on both sides of the point."""
    mantissa, _, exponent = repr(value).partition("e")
    if "." not in mantissa:
        mantissa += ".0"
    return f"{mantissa}e{int(exponent)}" if exponent else mantissa


def print_literal(literal: Literal) -> str:
    """The literal as both languages write it."""
    match literal:
        case StringLiteral(value=value):
            return quote(value)
        case IntLiteral(value=number):
            return str(number)
        case FloatLiteral(value=real):
            return print_float(real)
        case BoolLiteral(value=flag):
            return "true" if flag else "false"
        case NullLiteral():
            return "null"
        case DateLiteral(text=text):
            return f"date({quote(text)})"
        case DateTimeLiteral(text=text):
            return f"datetime({quote(text)})"
        case ListLiteral(items=items):
            return f"[{', '.join(map(print_literal, items))}]"
        case _:
            assert_never(literal)


def print_type(type_: TypeExpr) -> str:
    """The type as both languages write it, without the `?` that belongs to its property or parameter."""
    match type_:
        case BaseType(name=name):
            return name
        case ListType(element=element):
            return f"[{element.name}]"
        case VectorType(size=size):
            return f"Vector({size})"
        case EnumType(values=values):
            return f"enum({', '.join(value.text for value in values)})"
        case _:
            assert_never(type_)


def _escape(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
