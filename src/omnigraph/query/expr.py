"""Typed expressions: what a predicate, an output, an order key or a stored value is made of.

Each node is frozen, refuses bad input when it is built, knows its `type` and whether it can be null. A predicate is an
expression of type Bool; `nullable` then says that it can be unknown (three-valued logic, like SQL). Equality ignores
where an expression was written, so equal expressions can be found in a dict and evaluated once.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from enum import Enum
from typing import TypeAlias, assert_never

from omnigraph.lang.source import Span
from omnigraph.schema.catalog import Value
from omnigraph.schema.types import (
    INTEGER_RANGES,
    EnumOf,
    ListOf,
    Scalar,
    ValueType,
    VectorOf,
    are_comparable,
    is_scalar,
    is_text,
)


@dataclass(frozen=True, slots=True)
class NodeRef:
    """The type of a node variable."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class EdgeRef:
    """The type of an edge variable, with the node types at its stored ends."""

    name: str
    source: str
    target: str

    def __str__(self) -> str:
        return self.name


EntityType: TypeAlias = NodeRef | EdgeRef
ExprType: TypeAlias = ValueType | NodeRef | EdgeRef


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A declared parameter of a query."""

    name: str
    type: ValueType
    nullable: bool = False
    origin: Span = field(compare=False, repr=False)


def _require(holds: bool, problem: str) -> None:
    if not holds:
        raise ValueError(problem)


class _NonNullExpr:
    """What is never null."""

    __slots__ = ()

    @property
    def nullable(self) -> bool:
        """Never."""
        return False


class _BooleanExpr:
    """What is a predicate."""

    __slots__ = ()

    @property
    def type(self) -> Scalar:
        """Bool."""
        return Scalar.BOOL


class _ScoreExpr:
    """What is a rank."""

    __slots__ = ()

    @property
    def type(self) -> Scalar:
        """F64."""
        return Scalar.F64


# --- values --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Const:
    """A literal in a type of its own; `None` is the null of that type.

    Next to a column of numbers the binder gives it the column's own type, so that an index can be used as it is.
    """

    value: Value
    type: ValueType
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        _require(_is_value_of(self.value, self.type), f"{self.value!r} is no {self.type}")

    @property
    def nullable(self) -> bool:
        """True for null."""
        return self.value is None


@dataclass(frozen=True, slots=True, kw_only=True)
class ParamRef:
    """The value of a declared parameter."""

    name: str
    type: ValueType
    nullable: bool = False
    origin: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Now(_NonNullExpr):
    """`now()`: one instant per query."""

    origin: Span = field(compare=False, repr=False)

    @property
    def type(self) -> Scalar:
        """DateTime."""
        return Scalar.DATETIME


@dataclass(frozen=True, slots=True, kw_only=True)
class Prop:
    """The property `name` of a node or edge variable."""

    variable: str
    name: str
    type: ValueType
    nullable: bool = False
    origin: Span = field(compare=False, repr=False)


class MetaColumn(Enum):
    """The columns that every node (`id`) and edge (all three) has; the value is the column's name."""

    ID = "id"
    SRC = "src"
    DST = "dst"


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity(_NonNullExpr):
    """`$v.@id`, or `$e.@src` and `$e.@dst` of an edge variable."""

    variable: str
    part: MetaColumn = MetaColumn.ID
    origin: Span = field(compare=False, repr=False)

    @property
    def type(self) -> Scalar:
        """String."""
        return Scalar.STRING


@dataclass(frozen=True, slots=True, kw_only=True)
class Entity(_NonNullExpr):
    """A whole node or edge as an output: an object of its ids and `fields` (no Blob and Vector, in declared order).

    As a group key, or under `distinct`, it stands for its identity.
    """

    variable: str
    type: EntityType
    fields: tuple[Prop, ...]
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        _require(all(p.variable == self.variable for p in self.fields), "a field of another variable")
        _require(not any(_is_heavy(p.type) for p in self.fields), "an object holds no Blob and no Vector")

    @property
    def ids(self) -> tuple[MetaColumn, ...]:
        """The id columns of the object."""
        return (MetaColumn.ID,) if isinstance(self.type, NodeRef) else (MetaColumn.ID, MetaColumn.SRC, MetaColumn.DST)


# --- predicates ----------------------------------------------------------------------------------


class Op(Enum):
    """The comparison operators, as shown."""

    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="

    @property
    def mirrored(self) -> "Op":
        """The operator that says the same with the sides exchanged."""
        return _MIRRORED.get(self, self)

    @property
    def negated(self) -> "Op":
        """The operator that is true where this one is false, and unknown where it is unknown."""
        return _NEGATED[self]


_MIRRORED = {Op.LT: Op.GT, Op.GT: Op.LT, Op.LE: Op.GE, Op.GE: Op.LE}
_NEGATED = {Op.EQ: Op.NE, Op.NE: Op.EQ, Op.LT: Op.GE, Op.GE: Op.LT, Op.GT: Op.LE, Op.LE: Op.GT}


@dataclass(frozen=True, slots=True, kw_only=True)
class Compare(_BooleanExpr):
    """`left op right`: unknown when a side is null. Numbers compare exactly whatever their types."""

    op: Op
    left: "Expr"
    right: "Expr"
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        left, right = _require_value_type(self.left), _require_value_type(self.right)
        _require(are_comparable(left, right), f"{left} does not compare with {right}")

    @property
    def nullable(self) -> bool:
        """Unknown when a side can be null."""
        return self.left.nullable or self.right.nullable


@dataclass(frozen=True, slots=True, kw_only=True)
class In(_BooleanExpr):
    """`element in collection`, also `collection contains element`: unknown when either is null, also if it is empty."""

    element: "Expr"
    collection: "Expr"
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        element, collection = _require_value_type(self.element), _require_value_type(self.collection)
        _require(isinstance(collection, ListOf), f"{collection} is no list")
        if isinstance(collection, ListOf):
            _require(are_comparable(element, collection.element), f"{element} is no element of {collection}")

    @property
    def nullable(self) -> bool:
        """Unknown when the element or the collection can be null."""
        return self.element.nullable or self.collection.nullable


@dataclass(frozen=True, slots=True, kw_only=True)
class Contains(_BooleanExpr):
    """`text contains part`: a substring, compared byte by byte."""

    text: "Expr"
    part: "Expr"
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        _require(
            is_text(_require_value_type(self.text)) and is_text(_require_value_type(self.part)),
            "`contains` needs two texts",
        )

    @property
    def nullable(self) -> bool:
        """Unknown when a side can be null."""
        return self.text.nullable or self.part.nullable


@dataclass(frozen=True, slots=True, kw_only=True)
class StartsWith(_BooleanExpr):
    """`text starts_with prefix`, compared byte by byte."""

    text: "Expr"
    prefix: "Expr"
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        _require(
            is_text(_require_value_type(self.text)) and is_text(_require_value_type(self.prefix)),
            "`starts_with` needs two texts",
        )

    @property
    def nullable(self) -> bool:
        """Unknown when a side can be null."""
        return self.text.nullable or self.prefix.nullable


@dataclass(frozen=True, slots=True, kw_only=True)
class IsNull(_BooleanExpr, _NonNullExpr):
    """`operand is null`, or `is not null` when `negated`; never unknown."""

    operand: "Expr"
    negated: bool = False
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        _require_value_type(self.operand)


@dataclass(frozen=True, slots=True, kw_only=True)
class Not(_BooleanExpr):
    """`not term`: unknown stays unknown."""

    term: "Expr"
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        _require(is_predicate(self.term), "`not` of something that is no predicate")

    @property
    def nullable(self) -> bool:
        """As the term."""
        return self.term.nullable


@dataclass(frozen=True, slots=True, kw_only=True)
class And(_BooleanExpr):
    """Two or more terms; false beats unknown."""

    terms: tuple["Expr", ...]
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        _require(len(self.terms) >= 2 and all(map(is_predicate, self.terms)), "`and` needs two or more predicates")

    @property
    def nullable(self) -> bool:
        """Unknown when a term can be."""
        return any(term.nullable for term in self.terms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Or(_BooleanExpr):
    """Two or more terms; true beats unknown."""

    terms: tuple["Expr", ...]
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        _require(len(self.terms) >= 2 and all(map(is_predicate, self.terms)), "`or` needs two or more predicates")

    @property
    def nullable(self) -> bool:
        """Unknown when a term can be."""
        return any(term.nullable for term in self.terms)


class TextMode(Enum):
    """How a text search compares, by the name of its function."""

    ANY = "search"
    ALL = "match_text"
    FUZZY = "fuzzy"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextMatch(_BooleanExpr):
    """A text search as a predicate; `edits` None is the default distance by length of the word (fuzzy only)."""

    mode: TextMode
    prop: Prop
    query: "Input"
    edits: "Input | None" = None
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        _require(self.prop.type is Scalar.STRING, "a text search needs a String property")
        _require(self.query.type is Scalar.STRING, "a text search looks for a String")
        if self.edits is not None:
            _require(self.mode is TextMode.FUZZY and is_whole(self.edits, at_least=0), "bad `edits`")

    @property
    def nullable(self) -> bool:
        """Unknown when the property, the query or the distance can be null."""
        return self.prop.nullable or self.query.nullable or (self.edits is not None and self.edits.nullable)


# --- ranks ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Nearest(_ScoreExpr):
    """Cosine distance of a Vector property to `query`: a vector of its size, or a String still to be embedded."""

    prop: Prop
    query: "Input"
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        _require(isinstance(self.prop.type, VectorOf), "`nearest` needs a Vector property")
        _require(self.query.type in (self.prop.type, Scalar.STRING), "`nearest` looks for a vector of equal size")

    @property
    def nullable(self) -> bool:
        """Null for a row without a vector, and for a query that is null."""
        return self.prop.nullable or self.query.nullable


@dataclass(frozen=True, slots=True, kw_only=True)
class Bm25(_ScoreExpr):
    """Relevance of a String property for `query`; a row without a match has none."""

    prop: Prop
    query: "Input"
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        _require(self.prop.type is Scalar.STRING, "`bm25` needs a String property")
        _require(self.query.type is Scalar.STRING, "`bm25` looks for a String")

    @property
    def nullable(self) -> bool:
        """Null for a row without a match."""
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Rrf(_ScoreExpr):
    """Reciprocal rank fusion of two ranks of one variable: the sum of 1/(k + rank), from rank 1, absent is 0."""

    first: Nearest | Bm25
    second: Nearest | Bm25
    k: "Input"
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        _require(self.first.prop.variable == self.second.prop.variable, "`rrf` fuses ranks of one variable")
        _require(is_whole(self.k, at_least=1), "`k` is a whole number of at least 1")

    @property
    def nullable(self) -> bool:
        """Never: a row that is in neither list has 0."""
        return False


# --- aggregates ----------------------------------------------------------------------------------


class AggregateFunction(Enum):
    """The aggregate functions, by name."""

    COUNT = "count"
    SUM = "sum"
    AVG = "avg"
    MIN = "min"
    MAX = "max"


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """`count(*)` (no argument: rows), `count(e)` (non-null values), `count(distinct e)`, `sum`, `avg`, `min`, `max`."""

    fold: AggregateFunction
    argument: "Expr | None" = None
    distinct: bool = False
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        _require(
            not self.distinct or (self.fold is AggregateFunction.COUNT and self.argument is not None),
            "`distinct` is of count",
        )
        if self.argument is None:
            _require(self.fold is AggregateFunction.COUNT, f"`{self.fold.value}` needs an argument")
        else:
            argument = _require_value_type(self.argument)
            _require(is_foldable(self.fold, argument, distinct=self.distinct), f"`{self.fold.value}` of {argument}")
            _require(not any(isinstance(part, Aggregate) for part in walk(self.argument)), "an aggregate of aggregates")

    @property
    def type(self) -> ValueType:
        """I64 for counts and sums of integers, F64 for sums of floats and averages, else the argument's type."""
        if self.fold is AggregateFunction.COUNT or self.argument is None:
            return Scalar.I64
        if self.fold is AggregateFunction.AVG:
            return Scalar.F64
        argument = _require_value_type(self.argument)
        if self.fold is AggregateFunction.SUM:
            return Scalar.I64 if isinstance(argument, Scalar) and argument.is_integer else Scalar.F64
        return argument

    @property
    def nullable(self) -> bool:
        """All but counts are null over no rows."""
        return self.fold is not AggregateFunction.COUNT


Input: TypeAlias = Const | ParamRef
"""What is known before a row is read."""
Rank: TypeAlias = Nearest | Bm25 | Rrf
Predicate: TypeAlias = Compare | In | Contains | StartsWith | IsNull | Not | And | Or | TextMatch
Expr: TypeAlias = (
    Const
    | ParamRef
    | Now
    | Prop
    | Identity
    | Entity
    | Compare
    | In
    | Contains
    | StartsWith
    | IsNull
    | Not
    | And
    | Or
    | TextMatch
    | Nearest
    | Bm25
    | Rrf
    | Aggregate
)


# --- what may be said about any expression -------------------------------------------------------


def is_predicate(expr: Expr) -> bool:
    """Whether it is of type Bool."""
    return expr.type is Scalar.BOOL


def is_whole(value: Input, *, at_least: int) -> bool:
    """Whether it is an integer literal of at least that much, or a required integer parameter."""
    if isinstance(value, Const):
        return isinstance(value.value, int) and not isinstance(value.value, bool) and value.value >= at_least
    return isinstance(value.type, Scalar) and value.type.is_integer and not value.nullable


def is_foldable(fold: AggregateFunction, type_: ValueType, *, distinct: bool = False) -> bool:
    """Whether the aggregate means something over values of that type."""
    if fold is AggregateFunction.COUNT:
        return is_scalar(type_) or not distinct
    if fold in (AggregateFunction.SUM, AggregateFunction.AVG):
        return isinstance(type_, Scalar) and type_.is_numeric
    return is_scalar(type_)


def list_children(expr: Expr) -> tuple[Expr, ...]:
    """The expressions directly inside, in the order in which they are written."""
    match expr:
        case Const() | ParamRef() | Now() | Prop() | Identity():
            return ()
        case Entity():
            return expr.fields
        case Compare():
            return (expr.left, expr.right)
        case In():
            return (expr.element, expr.collection)
        case Contains():
            return (expr.text, expr.part)
        case StartsWith():
            return (expr.text, expr.prefix)
        case IsNull():
            return (expr.operand,)
        case Not():
            return (expr.term,)
        case And() | Or():
            return expr.terms
        case TextMatch():
            return (expr.prop, expr.query) if expr.edits is None else (expr.prop, expr.query, expr.edits)
        case Nearest() | Bm25():
            return (expr.prop, expr.query)
        case Rrf():
            return (expr.first, expr.second, expr.k)
        case Aggregate():
            return () if expr.argument is None else (expr.argument,)
        case _:
            assert_never(expr)


def map_children(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """The same expression with `change` applied to those inside that may be any expression.

    The property, query and numbers of a search or rank and the fields of an object stay: their kind is fixed.
    """
    match expr:
        case Compare():
            return replace(expr, left=change(expr.left), right=change(expr.right))
        case In():
            return replace(expr, element=change(expr.element), collection=change(expr.collection))
        case Contains():
            return replace(expr, text=change(expr.text), part=change(expr.part))
        case StartsWith():
            return replace(expr, text=change(expr.text), prefix=change(expr.prefix))
        case IsNull():
            return replace(expr, operand=change(expr.operand))
        case Not():
            return replace(expr, term=change(expr.term))
        case And() | Or():
            return replace(expr, terms=tuple(change(term) for term in expr.terms))
        case Aggregate():
            return expr if expr.argument is None else replace(expr, argument=change(expr.argument))
        case _:
            return expr


def walk(expr: Expr) -> Iterator[Expr]:
    """The expression and everything inside, parents first, left to right."""
    todo = [expr]
    while todo:
        part = todo.pop()
        yield part
        todo.extend(reversed(list_children(part)))


def find_variables(expr: Expr) -> tuple[str, ...]:
    """The node and edge variables it reads, each once, in the order in which they appear."""
    return tuple(dict.fromkeys(part.variable for part in walk(expr) if isinstance(part, Prop | Identity | Entity)))


def find_properties(expr: Expr) -> tuple[tuple[str, str], ...]:
    """The (variable, property) pairs it reads, each once, in order; ids are not properties."""
    return tuple(dict.fromkeys((part.variable, part.name) for part in walk(expr) if isinstance(part, Prop)))


def split_conjuncts(expr: Expr) -> tuple[Expr, ...]:
    """The terms that must all be true for `expr` to be true: `and` taken apart, however it is nested."""
    todo, found = [expr], []
    while todo:
        part = todo.pop()
        if isinstance(part, And):
            todo.extend(reversed(part.terms))
        else:
            found.append(part)
    return tuple(found)


def _require_value_type(expr: Expr) -> ValueType:
    if isinstance(expr.type, NodeRef | EdgeRef):
        msg = f"a whole {expr.type} is no value"
        raise ValueError(msg)  # noqa: TRY004  every refusal of this module is a ValueError
    return expr.type


def _is_heavy(type_: ValueType) -> bool:
    return type_ is Scalar.BLOB or isinstance(type_, VectorOf)


def _is_value_of(value: Value, type_: ValueType) -> bool:
    if value is None or type_ is Scalar.BLOB:
        return True
    match type_:
        case EnumOf():
            return value in type_.values
        case ListOf():
            return isinstance(value, tuple) and all(v is not None and _is_value_of(v, type_.element) for v in value)
        case VectorOf():
            return isinstance(value, tuple) and len(value) == type_.size and all(isinstance(v, float) for v in value)
        case Scalar():
            return _is_scalar_value(value, type_)
        case _:
            assert_never(type_)


def _is_scalar_value(value: Value, type_: Scalar) -> bool:
    if type_ in INTEGER_RANGES:
        low, high = INTEGER_RANGES[type_]
        return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
    if type_ is Scalar.DATE:
        return isinstance(value, date) and not isinstance(value, datetime)
    return isinstance(value, _PYTHON_TYPES[type_])


_PYTHON_TYPES: dict[Scalar, type] = {
    Scalar.STRING: str,
    Scalar.BOOL: bool,
    Scalar.F32: float,
    Scalar.F64: float,
    Scalar.DATETIME: datetime,
}
