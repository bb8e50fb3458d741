"""Typed expressions: the nodes of predicates, outputs, order keys and stored values.

Each node is immutable, validates its input when it is built, and has a `type` and whether it is `nullable`. A predicate
is an expression of type Bool; `nullable` then means that it can be unknown (three-valued logic, as in SQL). Equality
ignores the position in the source, so equal expressions can be looked up in a dict and evaluated once.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from omnigraph.lang.source import Span
from omnigraph.query.aggregates import Aggregate, AggregateFunction, OrderTerm, Window, WindowFunction, is_foldable
from omnigraph.query.entity_values import Missing, United
from omnigraph.query.expr_types import ArrayOf, EdgeRef, EntityType, ExprType, NodeRef, RecordOf, ShapedType, WalkOf
from omnigraph.query.literal_check import is_value_of
from omnigraph.query.plan_checks import require
from omnigraph.query.scalar_functions import ARRAY_FUNCTIONS, ScalarFunction
from omnigraph.query.search_values import Distance, FuzzyScore, Snippet
from omnigraph.schema.catalog import Metric, Value
from omnigraph.schema.types import ListOf, Scalar, ValueType, VectorOf, are_comparable, is_text

# The types belong to the expressions: a caller needs only this module.
__all__ = [
    "Aggregate",
    "AggregateFunction",
    "ArrayOf",
    "Distance",
    "EdgeRef",
    "EntityType",
    "ExprType",
    "FuzzyScore",
    "Missing",
    "NodeRef",
    "OrderTerm",
    "RecordOf",
    "ShapedType",
    "Snippet",
    "United",
    "WalkOf",
    "Window",
    "WindowFunction",
    "is_foldable",
    "require",
]


# A parameter may be a list of records, too.
ParamType: TypeAlias = ValueType | ArrayOf


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A declared parameter of a query."""

    name: str
    type: ParamType
    nullable: bool = False
    # Excluded from equality here and in all nodes below: two expressions at different positions can be equal.
    origin: Span = field(compare=False, repr=False)


class _NonNullExpr:
    """A mixin for expressions that are never null."""

    __slots__ = ()

    @property
    def nullable(self) -> bool:
        """Whether it can be null: never."""
        return False


class _BooleanExpr:
    """A mixin for predicates."""

    __slots__ = ()

    @property
    def type(self) -> Scalar:
        """The type Bool."""
        return Scalar.BOOL


class _ScoreExpr:
    """A mixin for rank functions."""

    __slots__ = ()

    @property
    def type(self) -> Scalar:
        """The type F64, of a score."""
        return Scalar.F64


class _PartialExpr:
    """A mixin for rank functions that may leave any row without a score."""

    __slots__ = ()

    @property
    def nullable(self) -> bool:
        """Whether it can be null: always, for a row that is left out."""
        return True


# --- values --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Const:
    """A literal with a type; `None` is the null of that type.

    Compared with a numeric column it gets the column's type, so that an index of the column can be used.
    """

    value: Value
    type: ValueType
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        require(is_value_of(self.value, self.type), f"{self.value!r} is not a {self.type}")

    @property
    def nullable(self) -> bool:
        """Whether it is the literal null."""
        return self.value is None


@dataclass(frozen=True, slots=True, kw_only=True)
class ParamRef:
    """The value of a declared parameter."""

    name: str
    type: ValueType
    nullable: bool = False
    origin: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsParam:
    """The value of a declared parameter that is a list of records."""

    name: str
    type: ArrayOf
    nullable: bool = False
    origin: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Now(_NonNullExpr):
    """`now()`: the same instant everywhere in a query."""

    origin: Span = field(compare=False, repr=False)

    @property
    def type(self) -> Scalar:
        """The type DateTime."""
        return Scalar.DATETIME


@dataclass(frozen=True, slots=True, kw_only=True)
class Prop:
    """The property `name` of a node or edge variable."""

    variable: str
    name: str
    type: ValueType
    nullable: bool = False
    metric: Metric = field(default=Metric.COSINE, compare=False, repr=False)
    language: str | None = field(default=None, compare=False, repr=False)
    origin: Span = field(compare=False, repr=False)


class MetaColumn(Enum):
    """The columns that every node (`id`) and every edge (all three) has; the value is the column's name."""

    ID = "id"
    SRC = "src"
    DST = "dst"


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """`$v.@id`, or `$e.@src` and `$e.@dst` of an edge variable; `nullable` if an optional block binds the variable."""

    variable: str
    part: MetaColumn = MetaColumn.ID
    nullable: bool = False
    origin: Span = field(compare=False, repr=False)

    @property
    def type(self) -> Scalar:
        """The type String."""
        return Scalar.STRING


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueRef:
    """The value of a variable that is bound to a value instead of a node or edge, such as the element of an `each`.

    Its column of the bindings contains indices into the values of the variable in the execution context.
    """

    variable: str
    type: ExprType
    nullable: bool = True
    origin: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entity:
    """A whole node or edge as an output: an object with its ids and `fields`, which are neither Blob nor Vector.

    As a group key, or with `distinct`, it is compared by its identity. It is `nullable` if an optional block binds the
    variable.
    """

    variable: str
    type: EntityType
    fields: tuple[Prop, ...]
    nullable: bool = False
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        require(all(p.variable == self.variable for p in self.fields), "a field of another variable")
        require(not any(_is_heavy(p.type) for p in self.fields), "an object has no Blob and no Vector")

    @property
    def ids(self) -> tuple[MetaColumn, ...]:
        """The id columns of the object."""
        return (MetaColumn.ID,) if isinstance(self.type, NodeRef) else (MetaColumn.ID, MetaColumn.SRC, MetaColumn.DST)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordExpr(_NonNullExpr):
    """`{ name: value, … }`: a record, whose fields may be whole nodes and edges, records and lists of them."""

    items: tuple[tuple[str, "Expr"], ...]
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        names = [name for name, _ in self.items]
        require(len(set(names)) == len(names), "the fields of a record have different names")

    @property
    def type(self) -> RecordOf:
        """The names and types of its fields."""
        required = frozenset(name for name, value in self.items if not value.nullable)
        return RecordOf(tuple((name, value.type) for name, value in self.items), required)


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldRef:
    """`operand.name`: a field of a record, or a column of a node or edge that is a value, such as a list's element.

    For a node or edge, `name` is the name of a column: a property, or `id`, `src`, `dst`.
    """

    operand: "Expr"
    name: str
    type: ExprType
    nullable: bool = True
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        owner = self.operand.type
        require(isinstance(owner, RecordOf | NodeRef | EdgeRef), f"{owner} has no fields")
        if isinstance(owner, RecordOf):
            require(owner.find_field(self.name) == self.type, f"{owner} has no field {self.name}: {self.type}")


# --- computed values -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Computed:
    """The value of a scalar function or operator.

    Where an integer does not fit into 64 bits, a condition is unknown, unless it `is_strict`, as calculations of Cypher
    are; any other value is an error.
    """

    function: ScalarFunction
    arguments: tuple["Expr", ...]
    type: ExprType
    nullable: bool = True
    is_strict: bool = False
    # The text that a message about an overflow quotes.
    text: str = field(compare=False, repr=False, default="")
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.function not in ARRAY_FUNCTIONS:
            require(not isinstance(self.type, ShapedType), f"`{self.function.value}` is no {self.type}")
            for argument in self.arguments:
                _require_value_type(argument)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """The value of the first branch whose condition is true, else `otherwise`; all have the type of the case."""

    branches: tuple[tuple["Expr", "Expr"], ...]
    otherwise: "Expr"
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        require(bool(self.branches), "a case needs a branch")
        for condition, value in self.branches:
            require(is_predicate(condition), "the condition of a case is a predicate")
            require(value.type == self.otherwise.type, "the branches of a case have one type")

    @property
    def type(self) -> ExprType:
        """The type of all branches."""
        return self.otherwise.type

    @property
    def nullable(self) -> bool:
        """Whether it can be null: a branch can be."""
        return self.otherwise.nullable or any(value.nullable for _, value in self.branches)


# --- predicates ----------------------------------------------------------------------------------


class Op(Enum):
    """A comparison operator; the value is its spelling."""

    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="

    @property
    def mirrored(self) -> "Op":
        """The equivalent operator with the sides swapped."""
        return _MIRRORED.get(self, self)

    @property
    def negated(self) -> "Op":
        """The operator that is true where this one is false, and unknown where this one is unknown."""
        return _NEGATED[self]


# `=` and `!=` are symmetric, so they are not listed.
_MIRRORED = {Op.LT: Op.GT, Op.GT: Op.LT, Op.LE: Op.GE, Op.GE: Op.LE}
# Exact in three-valued logic: `not (a < b)` and `a >= b` are unknown for the same rows.
_NEGATED = {Op.EQ: Op.NE, Op.NE: Op.EQ, Op.LT: Op.GE, Op.GE: Op.LT, Op.GT: Op.LE, Op.LE: Op.GT}


@dataclass(frozen=True, slots=True, kw_only=True)
class Compare(_BooleanExpr):
    """`left op right`: unknown if a side is null. Numbers compare exactly, whatever their types."""

    op: Op
    left: "Expr"
    right: "Expr"
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        left, right = _require_value_type(self.left), _require_value_type(self.right)
        require(are_comparable(left, right), f"{left} does not compare with {right}")

    @property
    def nullable(self) -> bool:
        """Whether it can be unknown: a side can be null."""
        return self.left.nullable or self.right.nullable


@dataclass(frozen=True, slots=True, kw_only=True)
class In(_BooleanExpr):
    """`element in collection`, or `collection contains element`: unknown if either is null, even for an empty list.

    Nodes and edges are compared by their identity.
    """

    element: "Expr"
    collection: "Expr"
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.collection.type, ArrayOf):
            is_entity = isinstance(self.element.type, NodeRef | EdgeRef)
            fits = is_entity and self.element.type == self.collection.type.element
            require(fits, f"{self.element.type} is not an element of {self.collection.type}")
            return
        element, collection = _require_value_type(self.element), _require_value_type(self.collection)
        require(isinstance(collection, ListOf), f"{collection} is not a list")
        # `_require` does not narrow the type for mypy.
        if isinstance(collection, ListOf):
            require(are_comparable(element, collection.element), f"{element} is not an element of {collection}")

    @property
    def nullable(self) -> bool:
        """Whether it can be unknown: the element or the collection can be null."""
        return self.element.nullable or self.collection.nullable


@dataclass(frozen=True, slots=True, kw_only=True)
class Contains(_BooleanExpr):
    """`text contains part`: a substring, compared byte by byte."""

    text: "Expr"
    part: "Expr"
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        require(_is_text_expr(self.text) and _is_text_expr(self.part), "`contains` needs two texts")

    @property
    def nullable(self) -> bool:
        """Whether it can be unknown: a side can be null."""
        return self.text.nullable or self.part.nullable


@dataclass(frozen=True, slots=True, kw_only=True)
class StartsWith(_BooleanExpr):
    """`text starts_with prefix`, compared byte by byte."""

    text: "Expr"
    prefix: "Expr"
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        require(_is_text_expr(self.text) and _is_text_expr(self.prefix), "`starts_with` needs two texts")

    @property
    def nullable(self) -> bool:
        """Whether it can be unknown: a side can be null."""
        return self.text.nullable or self.prefix.nullable


@dataclass(frozen=True, slots=True, kw_only=True)
class IsNull(_BooleanExpr, _NonNullExpr):
    """`operand is null`, or `is not null` if `negated`; never unknown."""

    operand: "Expr"
    negated: bool = False
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        is_entity = isinstance(self.operand, Entity)
        require(not is_entity or self.operand.nullable, "a whole node or edge is null only after an optional block")


@dataclass(frozen=True, slots=True, kw_only=True)
class Not(_BooleanExpr):
    """`not term`: unknown stays unknown."""

    term: "Expr"
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        require(is_predicate(self.term), "`not` needs a predicate")

    @property
    def nullable(self) -> bool:
        """Whether it can be unknown: the term can be."""
        return self.term.nullable


@dataclass(frozen=True, slots=True, kw_only=True)
class And(_BooleanExpr):
    """The conjunction of two or more terms: false if one is false, else unknown if one is unknown."""

    terms: tuple["Expr", ...]
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        require(len(self.terms) >= 2 and all(map(is_predicate, self.terms)), "`and` needs two or more predicates")

    @property
    def nullable(self) -> bool:
        """Whether it can be unknown: a term can be."""
        return any(term.nullable for term in self.terms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Or(_BooleanExpr):
    """The disjunction of two or more terms: true if one is true, else unknown if one is unknown."""

    terms: tuple["Expr", ...]
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        require(len(self.terms) >= 2 and all(map(is_predicate, self.terms)), "`or` needs two or more predicates")

    @property
    def nullable(self) -> bool:
        """Whether it can be unknown: a term can be."""
        return any(term.nullable for term in self.terms)


class TextMode(Enum):
    """A mode of text search; the value is the name of its function."""

    ANY = "search"
    ALL = "match_text"
    FUZZY = "fuzzy"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextMatch(_BooleanExpr):
    """A text search as a predicate.

    `edits` is the edit distance of a fuzzy search; None is the default, which depends on the length of the word.
    """

    mode: TextMode
    prop: Prop
    query: "Input"
    edits: "Input | None" = None
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        require(self.prop.type is Scalar.STRING, "a text search needs a String property")
        require(self.query.type is Scalar.STRING, "a text search looks for a String")
        if self.edits is not None:
            require(self.mode is TextMode.FUZZY and is_whole(self.edits, at_least=0), "bad `edits`")

    @property
    def nullable(self) -> bool:
        """Whether it can be unknown: the property, the query or the distance can be null."""
        return self.prop.nullable or self.query.nullable or (self.edits is not None and self.edits.nullable)


# --- ranks ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Nearest(_ScoreExpr):
    """The distance of a Vector property, by its metric, to `query`: a vector of its size, or a text to be embedded."""

    prop: Prop
    query: "Input"
    exact: bool = False
    """Whether all rows are compared even if the property declares an index."""
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        require(isinstance(self.prop.type, VectorOf), "`nearest` needs a Vector property")
        require(self.query.type in (self.prop.type, Scalar.STRING), "`nearest` looks for a vector of equal size")

    @property
    def nullable(self) -> bool:
        """Whether it can be null: for a row without a vector, or if the query is null."""
        return self.prop.nullable or self.query.nullable


@dataclass(frozen=True, slots=True, kw_only=True)
class Bm25(_ScoreExpr, _PartialExpr):
    """The BM25 relevance of a String property for `query`; null for a row without a match."""

    prop: Prop
    query: "Input"
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        require(self.prop.type is Scalar.STRING, "`bm25` needs a String property")
        require(self.query.type is Scalar.STRING, "`bm25` looks for a String")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rrf(_ScoreExpr, _NonNullExpr):
    """The reciprocal rank fusion of ranks of one variable: the sum of weight/(k + rank), from rank 1.

    A list without the row adds 0, so the sum is never null.
    """

    first: Nearest | Bm25
    second: Nearest | Bm25
    others: tuple[Nearest | Bm25, ...] = ()
    k: "Input"
    weights: tuple[float, ...] = ()
    """One for each rank; empty: all are 1."""
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        require(len({rank.prop.variable for rank in self.ranks}) == 1, "`rrf` fuses ranks of one variable")
        require(len(self.weights) in (0, len(self.ranks)), "`rrf` has one weight for each rank")
        require(is_whole(self.k, at_least=1), "`k` is a whole number of at least 1")

    @property
    def ranks(self) -> tuple[Nearest | Bm25, ...]:
        """All ranks, as written."""
        return (self.first, self.second, *self.others)

    @property
    def weighted(self) -> tuple[tuple[Nearest | Bm25, float], ...]:
        """All ranks, each with its weight."""
        return tuple(zip(self.ranks, self.weights or (1.0,) * len(self.ranks), strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Mmr(_ScoreExpr, _PartialExpr):
    """Maximal marginal relevance: the best rows of a rank, chosen one after the other so that they differ."""

    rank: "BaseRank"
    prop: Prop
    balance: float = 0.5
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        require(isinstance(self.prop.type, VectorOf), "`mmr` needs a Vector property")
        require(0 <= self.balance <= 1, "`lambda` is a number from 0 to 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rerank(_ScoreExpr, _PartialExpr):
    """The relevance of a String property for `query` by a model, of the best rows of a rank."""

    rank: "BaseRank"
    prop: Prop
    query: "Input"
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        require(self.prop.type is self.query.type is Scalar.STRING, "`rerank` reads a String for a String")


# Values that are known before a row is read.
Input: TypeAlias = Const | ParamRef
BaseRank: TypeAlias = Nearest | Bm25 | Rrf
# Their score of a row depends on all candidates.
ListRank: TypeAlias = Rrf | Mmr | Rerank
Rank: TypeAlias = Nearest | Bm25 | ListRank
SearchValue: TypeAlias = Rank | Distance | Snippet | FuzzyScore
LIST_RANKS: frozenset[type] = frozenset({Rrf, Mmr, Rerank})
Predicate: TypeAlias = Compare | In | Contains | StartsWith | IsNull | Not | And | Or | TextMatch
Expr: TypeAlias = (
    Input
    | RecordsParam
    | Now
    | Prop
    | Identity
    | ValueRef
    | Entity
    | RecordExpr
    | FieldRef
    | United
    | Missing
    | Computed
    | Case
    | Predicate
    | SearchValue
    | Aggregate
    | Window
)


# --- properties of expressions -------------------------------------------------------------------


def is_predicate(expr: Expr) -> bool:
    """Return whether an expression is of type Bool."""
    return expr.type is Scalar.BOOL


def is_whole(value: Input, *, at_least: int) -> bool:
    """Return whether a value is an integer literal of at least `at_least`, or a required integer parameter.

    The value of a parameter is not known yet; it is checked when the query runs.
    """
    if isinstance(value, Const):
        # In Python, True and False are ints.
        return isinstance(value.value, int) and not isinstance(value.value, bool) and value.value >= at_least
    return isinstance(value.type, Scalar) and value.type.is_integer and not value.nullable


def _require_value_type(expr: Expr) -> ValueType:
    # Read once: the type of a `case` is that of its last branch, and twice would double the work at each depth.
    type_ = expr.type
    if isinstance(type_, ShapedType):
        msg = f"a whole {type_} is not a value"
        raise ValueError(msg)  # noqa: TRY004  every invalid node of this module is a ValueError
    return type_


def _is_text_expr(expr: Expr) -> bool:
    return is_text(_require_value_type(expr))


def _is_heavy(type_: ValueType) -> bool:
    return type_ is Scalar.BLOB or isinstance(type_, VectorOf)
