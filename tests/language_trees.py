"""Random trees of both languages.

The grower draws each choice itself instead of combining strategies: that keeps the trees of a size that is worth
testing, where combined strategies mostly run out of entropy and fall back on empty files.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from hypothesis import strategies as st

from omnigraph.lang import query_ast as q
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
    StringLiteral,
    TypeExpr,
    VectorType,
)
from omnigraph.lang.source import Span

T = TypeVar("T")
NOWHERE = Span(0, 0)

_SMALL = "abcdefghijklmnopqrstuvwxyz_"
_LETTERS = _SMALL + "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_FREE = (
    *("a", "b", "name", "age", "knows", "worksAt", "x1", "_x", "count", "sum", "now", "search", "rrf", "bm25", "k"),
    *("id", "src", "dst", "from", "to", "node", "edge", "interface", "implements", "enum", "query", "date", "datetime"),
    *("description", "card", "filter", "group", "by"),
)
_ALL = (*_FREE, *sorted(RESERVED_WORDS))
_TYPES = ("A", "Person", "Knows", "B_2", "Vector", "String", "NODE", "Is")
_CONSTRAINTS = ("key", "unique", "index", "range", "check")
_ANNOTATIONS = ("default", "embed", "description", "instruction", "rename_from", "since", *_FREE[:6])

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


class _Grower:
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

    def word(self, words: Sequence[str] = _FREE) -> str:
        if self.number(0, 4):
            return self.pick(words)
        text = self.draw(st.sampled_from(_SMALL)) + self.draw(st.text(_LETTERS, max_size=5))
        return text if text not in RESERVED_WORDS else f"{text}_"

    def name(self) -> Name:
        return Name(self.word(), NOWHERE)

    def property(self) -> Name:
        return Name(self.word(_ALL), NOWHERE)

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


class SchemaGrower(_Grower):
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
            return s.Annotation(name=Name(self.word((*_CONSTRAINTS, *_ALL)), NOWHERE), span=NOWHERE)
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


class QueryGrower(_Grower):
    """Grows a file of queries."""

    def file(self) -> q.QueryFile:
        return q.QueryFile(queries=self.some(self.query, 0, 2), span=NOWHERE)

    def query(self) -> q.Query:
        annotations = tuple(
            q.QueryAnnotation(name=Name(name, NOWHERE), text=self.string(), span=NOWHERE)
            for name in ("description", "instruction")
            if not self.number(0, 2)
        )
        return q.Query(
            name=self.name(),
            params=self.some(self.param, 0, 3),
            annotations=annotations,
            body=self.read() if self.number(0, 2) else self.some(self.mutation, 1, 3),
            span=NOWHERE,
        )

    def param(self) -> q.ParamDecl:
        return q.ParamDecl(name=self.property(), type=self.param_type(), nullable=self.chance(), span=NOWHERE)

    # --- reads ---------------------------------------------------------------------------------------

    def read(self) -> q.Read:
        return q.Read(
            clauses=self.some(self.clause, 1, 4),
            projections=self.some(self.projection, 1, 3),
            distinct=self.chance(),
            order=self.some(self.order_key),
            limit=self.maybe(self.count),
            offset=self.maybe(self.count),
            span=NOWHERE,
        )

    def projection(self) -> q.Projection:
        return q.Projection(value=self.expr(), alias=self.maybe(self.name), span=NOWHERE)

    def order_key(self) -> q.OrderKey:
        return q.OrderKey(value=self.expr(), descending=self.pick((None, False, True)), span=NOWHERE)

    def count(self) -> q.Expr:
        return self.variable() if self.chance() else q.LiteralExpr(value=self.integer(), span=NOWHERE)

    def clause(self, depth: int = 2) -> q.Clause:
        if depth and not self.number(0, 3):
            return q.NotBlock(clauses=self.some(lambda: self.clause(depth - 1), 1, 3), span=NOWHERE)
        options: tuple[Callable[[], q.Clause], ...] = (
            self.binding,
            self.traversal,
            lambda: q.Where(predicate=self.predicate(self.expr), span=NOWHERE),
        )
        return self.grow(*options)

    def binding(self) -> q.Binding:
        filters = self.some(self.assignment)
        return q.Binding(variable=self.variable(), types=(self.type_name(),), filters=filters, span=NOWHERE)

    def traversal(self) -> q.TraversalClause:
        is_text = self.chance()
        edge = Name(self.string(), NOWHERE) if is_text else self.name()
        if not is_text and not self.number(0, 3):
            edge = Name(self.pick(("Knows", "Person", "A")), NOWHERE)
        return q.TraversalClause(
            source=self.variable(),
            edges=(q.EdgeName(name=edge, is_text=is_text, span=NOWHERE),),
            target=self.variable(),
            edge_variable=self.maybe(self.variable),
            is_undirected=self.chance(),
            bounds=self.maybe(
                lambda: q.HopBounds(low=self.number(-1, 70), high=self.number(-1, 70), span=NOWHERE),
            ),
            edge_span=NOWHERE,
            span=NOWHERE,
        )

    # --- expressions and predicates ------------------------------------------------------------------

    def variable(self) -> q.Variable:
        return q.Variable(name=self.pick(("a", "b", "p", "_", "in", "x1")), span=NOWHERE)

    def meta(self) -> Name:
        return Name(self.pick(("id", "src", "dst")), NOWHERE)

    def expr(self, depth: int = 2) -> q.Expr:
        if depth and not self.number(0, 3):
            return self.computed(depth - 1)
        options: tuple[Callable[[], q.Expr], ...] = (
            self.variable,
            lambda: q.PropertyRef(variable=self.variable(), name=self.property(), span=NOWHERE),
            lambda: q.PropertyRef(variable=self.variable(), name=self.meta(), is_meta=True, span=NOWHERE),
            lambda: q.BareName(name=self.name(), span=NOWHERE),
            lambda: q.BareName(name=self.meta(), is_meta=True, span=NOWHERE),
            lambda: q.LiteralExpr(value=self.literal(), span=NOWHERE),
        )
        return self.grow(*options)

    def computed(self, depth: int) -> q.Expr:
        def inner() -> q.Expr:
            return self.expr(depth)

        def branch() -> q.CaseBranch:
            return q.CaseBranch(condition=inner(), value=inner(), span=NOWHERE)

        options: tuple[Callable[[], q.Expr], ...] = (
            lambda: self.call(depth),
            lambda: q.Arithmetic(
                op=self.pick(list(q.ArithmeticOp)), left=inner(), right=inner(), op_span=NOWHERE, span=NOWHERE
            ),
            lambda: q.Negate(operand=inner(), span=NOWHERE),
            lambda: q.Index(operand=inner(), index=inner(), span=NOWHERE),
            lambda: q.ListExpr(items=(self.variable(), *self.some(inner)), span=NOWHERE),
            lambda: q.Case(branches=self.some(branch, 1, 2), otherwise=self.maybe(inner), span=NOWHERE),
            lambda: self.predicate(inner, 1),
        )
        return self.grow(*options)

    def call(self, depth: int) -> q.Call:
        function = self.name()
        if function.text in ("date", "datetime"):
            function = Name("dates", NOWHERE)
        if not self.number(0, 3):
            return q.Call(function=function, arguments=(q.Star(span=NOWHERE),), span=NOWHERE)
        return q.Call(
            function=function,
            arguments=self.some(lambda: self.expr(depth)),
            distinct=not self.number(0, 3),
            options=self.some(lambda: (self.name(), self.expr(depth)), 0, 1),
            span=NOWHERE,
        )

    def predicate(self, left: Callable[[], q.Expr], depth: int = 3) -> q.Expr:
        def inner() -> q.Expr:
            return self.predicate(left, depth - 1)

        options: tuple[Callable[[], q.Expr], ...] = (
            lambda: q.Compare(
                op=self.pick(list(q.CompareOp)), left=left(), right=self.expr(), op_span=NOWHERE, span=NOWHERE
            ),
            lambda: q.IsNull(operand=left(), negated=self.chance(), span=NOWHERE),
            lambda: self.call(1),
        )
        if depth:
            options += (
                lambda: q.Not(term=inner(), span=NOWHERE),
                lambda: q.And(terms=self.some(inner, 2, 3), span=NOWHERE),
                lambda: q.Or(terms=self.some(inner, 2, 3), span=NOWHERE),
            )
        return self.grow(*options)

    # --- mutations -----------------------------------------------------------------------------------

    def mutation(self) -> q.Mutation:
        type_ = self.type_name()
        options: tuple[Callable[[], q.Mutation], ...] = (
            lambda: q.Insert(type=type_, assignments=self.some(self.assignment, 0, 3), span=NOWHERE),
            lambda: q.Update(type=type_, assignments=self.some(self.assignment), where=self.condition(), span=NOWHERE),
            lambda: q.Delete(type=type_, where=self.condition(), span=NOWHERE),
        )
        return self.grow(*options)

    def assignment(self) -> q.Assignment:
        return q.Assignment(name=self.property(), value=self.expr(1), span=NOWHERE)

    def condition(self) -> q.Expr:
        return self.predicate(self.column, 2)

    def column(self) -> q.Expr:
        """The left side of a comparison in a mutation: nearly every word names a property there."""
        words = [word for word in _ALL if word not in ("not", "true", "false", "null")]
        return q.BareName(name=Name(self.pick(words), NOWHERE), span=NOWHERE) if self.chance() else self.expr(1)


@st.composite
def schemas(draw: st.DrawFn) -> s.SchemaFile:
    return SchemaGrower(draw).file()


@st.composite
def query_files(draw: st.DrawFn) -> q.QueryFile:
    return QueryGrower(draw).file()
