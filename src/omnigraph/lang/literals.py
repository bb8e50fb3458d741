"""Literals and types as both languages write them."""

from dataclasses import dataclass, field
from typing import TypeAlias

from omnigraph.lang.source import Span


@dataclass(frozen=True, slots=True)
class Name:
    """A name as written: a type, a property, a variable (without `$`), an alias."""

    text: str
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class StringLiteral:
    """`"…"`, with its escapes resolved."""

    value: str
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class IntLiteral:
    """A whole number of any size; the type it is used with sets the range."""

    value: int
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class FloatLiteral:
    """A finite number with a fraction."""

    value: float
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class BoolLiteral:
    """`true` or `false`."""

    value: bool
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class NullLiteral:
    """`null`."""

    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class DateLiteral:
    """`date("YYYY-MM-DD")`; the text is checked when it is bound."""

    text: str
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class DateTimeLiteral:
    """`datetime("RFC 3339 with zone")`; the text is checked when it is bound."""

    text: str
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ListLiteral:
    """`[a, b, …]`."""

    items: tuple["Literal", ...]
    span: Span = field(compare=False, repr=False)


Literal: TypeAlias = (
    StringLiteral | IntLiteral | FloatLiteral | BoolLiteral | NullLiteral | DateLiteral | DateTimeLiteral | ListLiteral
)


@dataclass(frozen=True, slots=True)
class BaseType:
    """`String`, `I64`, … ; whether the name is one of the base types is checked by the parser."""

    name: str
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ListType:
    """`[T]`; of records in a parameter only."""

    element: "BaseType | RecordType"
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class VectorType:
    """`Vector(N)`; the range of N is checked when it is bound."""

    size: int
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class EnumType:
    """`enum(a, b, …)`."""

    values: tuple[Name, ...]
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class RecordTypeField:
    """`name: T?` of a record."""

    name: Name
    type: "TypeExpr"
    nullable: bool
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class RecordType:
    """`{name: T, …}` of a parameter."""

    fields: tuple[RecordTypeField, ...]
    span: Span = field(compare=False, repr=False)


TypeExpr: TypeAlias = BaseType | ListType | VectorType | EnumType

BASE_TYPES = ("String", "Blob", "Bool", "I32", "I64", "U32", "U64", "F32", "F64", "Date", "DateTime")
