"""Random trees of both languages.

The grower draws each choice itself instead of combining strategies: that keeps the trees of a size that is worth
testing, where combined strategies mostly run out of entropy and fall back on empty files.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from hypothesis import strategies as st

from omnigraph.lang import schema_ast as s
from omnigraph.lang.lexer import RESERVED_WORDS
from omnigraph.lang.literals import (
    BASE_TYPES,
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
    Name,
    NullLiteral,
    RecordType,
    RecordTypeField,
    StringLiteral,
    TypeExpr,
    VectorType,
)
from omnigraph.lang.source import Span

T = TypeVar("T")
NOWHERE = Span(0, 0)

_SMALL = "abcdefghijklmnopqrstuvwxyz_"
_LETTERS = _SMALL + "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
FREE_WORDS = (
    *("a", "b", "name", "age", "knows", "worksAt", "x1", "_x", "count", "sum", "now", "search", "rrf", "bm25", "k"),
    *("id", "src", "dst", "from", "to", "node", "edge", "interface", "implements", "enum", "query", "date", "datetime"),
    *(
        "description",
        "card",
        "filter",
        "group",
        "by",
        "path",
        "with",
        "optional",
        "each",
        "per",
        "let",
        "either",
        "having",
    ),
    *("union", "over", "along", "exists", "collect", "shortest", "pattern", "returning", "absent", "if", "case"),
)
ALL_WORDS = (*FREE_WORDS, *sorted(RESERVED_WORDS))
_TYPES = ("A", "Person", "Knows", "B_2", "Vector", "String", "NODE", "Is")
_CONSTRAINTS = ("key", "unique", "index", "range", "check")
_ANNOTATIONS = ("default", "embed", "description", "instruction", "rename_from", "since", *FREE_WORDS[:6])

strings = st.one_of(
    st.text(max_size=6),
    st.sampled_from(
        [
            "",
            "2026-01-02",
            '"',
            "\\",
            "// no",
            "/* no",
            "\u202e",
            "\ufeff",
            "👩‍🔧❤️",
            "a\u200db",
            "\n",
            "\U000e0001",
            "x" * 70,
        ]
    ),
)
integers = st.one_of(st.integers(-20, 20), st.integers(-(10**40) + 1, 10**40 - 1))
floats = st.floats(allow_nan=False, allow_infinity=False)


class Grower:
    """Grows one tree from the choices that `draw` makes."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw

    def number(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def chance(self) -> bool:
        return self.draw(st.booleans())

    def pick(self, options: Sequence[T]) -> T:
        return options[self.number(0, len(options) - 1)]

    def grow(self, *options: Callable[[], T]) -> T:
        return self.pick(options)()

    def some(self, one: Callable[[], T], low: int = 0, high: int = 2) -> tuple[T, ...]:
        return tuple(one() for _ in range(self.number(low, high)))

    def maybe(self, one: Callable[[], T]) -> T | None:
        return one() if self.chance() else None

    # --- words and literals --------------------------------------------------------------------------

    def word(self, words: Sequence[str] = FREE_WORDS) -> str:
        if self.number(0, 4):
            return self.pick(words)
        text = self.draw(st.sampled_from(_SMALL)) + self.draw(st.text(_LETTERS, max_size=5))
        return text if text not in RESERVED_WORDS else f"{text}_"

    def name(self) -> Name:
        return Name(self.word(), NOWHERE)

    def property(self) -> Name:
        return Name(self.word(ALL_WORDS), NOWHERE)

    def type_name(self) -> Name:
        return Name(self.pick(_TYPES), NOWHERE)

    def string(self) -> str:
        return self.draw(strings)

    def integer(self) -> IntLiteral:
        return IntLiteral(self.draw(integers), NOWHERE)

    def real(self) -> FloatLiteral:
        return FloatLiteral(self.draw(floats), NOWHERE)

    def date(self) -> DateLiteral:
        return DateLiteral(self.string(), NOWHERE)

    def datetime(self) -> DateTimeLiteral:
        return DateTimeLiteral(self.string(), NOWHERE)

    def literal(self, depth: int = 2) -> Literal:
        if depth and not self.number(0, 5):
            return ListLiteral(self.some(lambda: self.literal(depth - 1), 0, 3), NOWHERE)
        options: tuple[Callable[[], Literal], ...] = (
            lambda: StringLiteral(self.string(), NOWHERE),
            self.integer,
            self.real,
            lambda: BoolLiteral(self.chance(), NOWHERE),
            lambda: NullLiteral(NOWHERE),
            self.date,
            self.datetime,
        )
        return self.grow(*options)

    def base_type(self) -> BaseType:
        return BaseType(self.pick(BASE_TYPES), NOWHERE)

    def param_type(self) -> TypeExpr:
        options: tuple[Callable[[], TypeExpr], ...] = (
            self.base_type,
            lambda: ListType(self.base_type(), NOWHERE),
            lambda: VectorType(self.number(-1, 70_000), NOWHERE),
        )
        return self.grow(*options)

    def record_type(self) -> ListType:
        def one() -> RecordTypeField:
            return RecordTypeField(self.property(), self.param_type(), self.chance(), NOWHERE)

        return ListType(RecordType(self.some(one, 1, 3), NOWHERE), NOWHERE)


class SchemaGrower(Grower):
    """Grows a schema."""

    def file(self) -> s.SchemaFile:
        return s.SchemaFile(declarations=self.some(self.declaration, 0, 3), span=NOWHERE)

    def declaration(self) -> s.Declaration:
        options: tuple[Callable[[], s.Declaration], ...] = (self.interface, self.node, self.edge)
        return self.grow(*options)

    def interface(self) -> s.InterfaceDecl:
        return s.InterfaceDecl(name=self.type_name(), members=self.some(self.property_decl), span=NOWHERE)

    def node(self) -> s.NodeDecl:
        return s.NodeDecl(
            name=self.type_name(),
            annotations=self.some(self.annotation),
            implements=self.some(self.type_name),
            members=self.some(self.member, 0, 4),
            span=NOWHERE,
        )

    def edge(self) -> s.EdgeDecl:
        return s.EdgeDecl(
            name=self.type_name(),
            source=self.type_name(),
            target=self.type_name(),
            cards=self.some(self.card, 0, 1),
            annotations=self.some(self.annotation),
            members=self.some(self.member),
            span=NOWHERE,
        )

    def card(self) -> s.CardDecl:
        return s.CardDecl(low=self.number(0, 3), high=self.maybe(lambda: self.number(0, 9)), span=NOWHERE)

    def annotation(self) -> s.Annotation:
        if self.chance():
            return s.Annotation(name=Name(self.word((*_CONSTRAINTS, *ALL_WORDS)), NOWHERE), span=NOWHERE)
        argument = self.literal() if self.chance() else Name(self.word(("now", "date", "node", "in", "k")), NOWHERE)
        options = self.some(lambda: (self.property(), self.literal()))
        name = Name(self.word(_ANNOTATIONS), NOWHERE)
        return s.Annotation(name=name, argument=argument, options=options, span=NOWHERE)

    def member(self) -> s.Member:
        return self.property_decl() if self.chance() else self.constraint()

    def property_decl(self) -> s.PropertyDecl:
        return s.PropertyDecl(
            name=self.property(),
            type=self.property_type(),
            nullable=self.chance(),
            annotations=self.some(self.annotation),
            span=NOWHERE,
        )

    def property_type(self) -> TypeExpr:
        if self.number(0, 3):
            return self.param_type()
        return EnumType(self.some(self.enum_value, 1, self.pick((3, 3, 20))), NOWHERE)

    def enum_value(self) -> Name:
        return Name(self.draw(st.text(_LETTERS + "-", min_size=1, max_size=6)), NOWHERE)

    def constraint(self) -> s.Constraint:
        columns = self.some(self.property, 1, 3)
        column = columns[0]
        options: tuple[Callable[[], s.Constraint], ...] = (
            lambda: s.KeyDecl(columns=columns, span=NOWHERE),
            lambda: s.UniqueDecl(columns=columns, span=NOWHERE),
            lambda: s.IndexDecl(columns=columns, span=NOWHERE),
            lambda: s.RangeDecl(column=column, low=self.bound(), high=self.bound(), span=NOWHERE),
            lambda: s.CheckDecl(column=column, pattern=self.string(), pattern_span=NOWHERE, span=NOWHERE),
        )
        return self.grow(*options)

    def bound(self) -> s.Bound | None:
        options: tuple[Callable[[], s.Bound | None], ...] = (
            lambda: None,
            self.integer,
            self.real,
            self.date,
            self.datetime,
        )
        return self.grow(*options)


@st.composite
def schemas(draw: st.DrawFn) -> s.SchemaFile:
    return SchemaGrower(draw).file()
