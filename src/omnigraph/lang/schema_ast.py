"""The syntax tree of the schema language (`.pg`). Equality ignores spans."""

from dataclasses import dataclass, field
from typing import TypeAlias

from omnigraph.lang.literals import (
    DateLiteral,
    DateTimeLiteral,
    FloatLiteral,
    IntLiteral,
    Literal,
    Name,
    TypeExpr,
)
from omnigraph.lang.source import Span

Bound: TypeAlias = IntLiteral | FloatLiteral | DateLiteral | DateTimeLiteral


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """`@name`, `@name(arg)`, `@name(arg, option=literal)`, `@name(option=literal)`; a `Name` is a bare word."""

    name: Name
    argument: Literal | Name | None = None
    options: tuple[tuple[Name, Literal], ...] = ()
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyDecl:
    """`name: Type? @annotations`. A bare `@key`, `@unique` or `@index` here means the property alone."""

    name: Name
    type: TypeExpr
    nullable: bool = False
    annotations: tuple[Annotation, ...] = ()
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyDecl:
    """`@key(a, b)`."""

    columns: tuple[Name, ...]
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class UniqueDecl:
    """`@unique(a, b)`."""

    columns: tuple[Name, ...]
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexDecl:
    """`@index(a, b)`: an index for each."""

    columns: tuple[Name, ...]
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeDecl:
    """`@range(p, lo..hi)`; a bound that is left out is open."""

    column: Name
    low: Bound | None
    high: Bound | None
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckDecl:
    """`@check(p, "re")`."""

    column: Name
    pattern: str
    pattern_span: Span = field(compare=False, repr=False)
    span: Span = field(compare=False, repr=False)


Constraint: TypeAlias = KeyDecl | UniqueDecl | IndexDecl | RangeDecl | CheckDecl
Member: TypeAlias = PropertyDecl | KeyDecl | UniqueDecl | IndexDecl | RangeDecl | CheckDecl


@dataclass(frozen=True, slots=True, kw_only=True)
class InterfaceDecl:
    """`interface Name { properties }`."""

    name: Name
    members: tuple[PropertyDecl, ...]
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDecl:
    """`node Name @annotations implements A, B { members }`; members are in source order."""

    name: Name
    annotations: tuple[Annotation, ...] = ()
    implements: tuple[Name, ...] = ()
    members: tuple[Member, ...] = ()
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CardDecl:
    """`@card(min..max)`; `high` is None for `*` and for nothing."""

    low: int
    high: int | None
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeDecl:
    """`edge Name: Source -> Target @card(…) @annotations { members }`."""

    name: Name
    source: Name
    target: Name
    cards: tuple[CardDecl, ...] = ()
    annotations: tuple[Annotation, ...] = ()
    members: tuple[Member, ...] = ()
    span: Span = field(compare=False, repr=False)


Declaration: TypeAlias = InterfaceDecl | NodeDecl | EdgeDecl


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaFile:
    """All declarations of one file, in order."""

    declarations: tuple[Declaration, ...]
    span: Span = field(compare=False, repr=False)
