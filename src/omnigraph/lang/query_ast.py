"""The syntax tree of the query language (`.gq`). Equality ignores spans."""

from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from omnigraph.lang.literals import Literal, Name, TypeExpr
from omnigraph.lang.source import Span

ANONYMOUS = "_"
"""`$_`: each use is a new variable."""


class CompareOp(Enum):
    """The comparison operators, as written."""

    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    CONTAINS = "contains"
    STARTS_WITH = "starts_with"
    IN = "in"


class ArithmeticOp(Enum):
    """The arithmetic operators, as written."""

    ADD = "+"
    SUBTRACT = "-"
    MULTIPLY = "*"
    DIVIDE = "/"
    MODULO = "%"


# --- expressions ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """`$name`: a variable or a declared parameter; the binder distinguishes them."""

    name: str
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyRef:
    """`$var.name`; `$var.@id`, `$var.@src` and `$var.@dst` have `is_meta`, and the name without `@`."""

    variable: Variable
    name: Name
    is_meta: bool = False
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class BareName:
    """`name`: an alias in a read; in a mutation's predicate a property (`is_meta` for `@id`, `@src`, `@dst`)."""

    name: Name
    is_meta: bool = False
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Star:
    """The `*` of `count(*)`."""

    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """`function(arguments)`, such as `count(*)`, `lower($p.name)` or `nearest($p.vec, $v)`.

    Which functions exist, where they may stand and what they take is checked when the query is bound;
    the parser keeps any name. `rrf(a, b, k=60)` has the option `k`.
    """

    function: Name
    arguments: tuple["Expr", ...]
    distinct: bool = False
    options: tuple[tuple[Name, "Expr"], ...] = ()
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiteralExpr:
    """A literal in an expression."""

    value: Literal
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arithmetic:
    """`left op right` with an arithmetic operator; operators of one level are read from the left."""

    op: ArithmeticOp
    left: "Expr"
    right: "Expr"
    op_span: Span = field(compare=False, repr=False)
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Negate:
    """`-operand`; a minus before a number is part of the literal."""

    operand: "Expr"
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """`operand[index]`: an element of a list, counted from 0."""

    operand: "Expr"
    index: "Expr"
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListExpr:
    """`[a, b, …]` with at least one item that is no literal; a list of literals is a literal."""

    items: tuple["Expr", ...]
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseBranch:
    """`condition => value` of a `case`."""

    condition: "Expr"
    value: "Expr"
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """`case { condition => value, … else => value }`: the first branch whose condition is true."""

    branches: tuple[CaseBranch, ...]
    otherwise: "Expr | None" = None
    span: Span = field(compare=False, repr=False)


# --- predicates ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Compare:
    """`left op right`."""

    op: CompareOp
    left: "Expr"
    right: "Expr"
    op_span: Span = field(compare=False, repr=False)
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class IsNull:
    """`operand is null`, or `is not null` when `negated`."""

    operand: "Expr"
    negated: bool = False
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Not:
    """`not predicate`."""

    term: "Expr"
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class And:
    """Two or more terms joined by `and`; a parenthesised `and` inside an `and` stays nested."""

    terms: tuple["Expr", ...]
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Or:
    """Two or more terms joined by `or`."""

    terms: tuple["Expr", ...]
    span: Span = field(compare=False, repr=False)


Predicate: TypeAlias = Compare | IsNull | Not | And | Or
Expr: TypeAlias = (
    Variable
    | PropertyRef
    | BareName
    | Star
    | Call
    | LiteralExpr
    | Arithmetic
    | Negate
    | Index
    | ListExpr
    | Case
    | Predicate
)


# --- match clauses -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """`name: value` in a binding, an insert or an update; the binder rejects values that don't belong there."""

    name: Name
    value: Expr
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """`$var: Type { prop: value, … }`."""

    variable: Variable
    type: Name
    filters: tuple[Assignment, ...] = ()
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class HopBounds:
    """`{min,max}`; the range is checked when the query is bound."""

    low: int
    high: int
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TraversalClause:
    """`$a edge $b`, `$a edge{1,3} $b`, `$a <edge> $b`, `$a $e:edge $b`.

    `edge_is_text` remembers `"in"` written as a string. `edge_variable` and `bounds` or `is_undirected` may
    stand together in the tree; binding refuses what has no meaning.
    """

    source: Variable
    edge: Name
    target: Variable
    edge_is_text: bool = False
    edge_variable: Variable | None = None
    is_undirected: bool = False
    bounds: HopBounds | None = None
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """A condition used as a clause."""

    predicate: Expr
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class NotBlock:
    """`not { clauses }`."""

    clauses: tuple["Clause", ...]
    span: Span = field(compare=False, repr=False)


Clause: TypeAlias = Binding | TraversalClause | Where | NotBlock


# --- queries -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ParamDecl:
    """`$name: Type?`."""

    name: Name
    type: TypeExpr
    nullable: bool = False
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryAnnotation:
    """`@description("…")` or `@instruction("…")`."""

    name: Name
    text: str
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """`expr as alias`."""

    value: Expr
    alias: Name | None = None
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderKey:
    """`expr asc|desc`; `descending` is None when neither is written (rank functions have an order of their own)."""

    value: Expr
    descending: bool | None = None
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """`match { … } return { … } order { … } limit n offset n`; limit and offset are an integer or a parameter."""

    clauses: tuple[Clause, ...]
    projections: tuple[Projection, ...]
    distinct: bool = False
    order: tuple[OrderKey, ...] = ()
    limit: Expr | None = None
    offset: Expr | None = None
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Insert:
    """`insert Type { name: value, … }`."""

    type: Name
    assignments: tuple[Assignment, ...]
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """`update Type set { name: value, … } where predicate`."""

    type: Name
    assignments: tuple[Assignment, ...]
    where: Expr
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """`delete Type where predicate`."""

    type: Name
    where: Expr
    span: Span = field(compare=False, repr=False)


Mutation: TypeAlias = Insert | Update | Delete


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """`query name(params) @annotations { body }`; the body is one read, or one or more mutations."""

    name: Name
    params: tuple[ParamDecl, ...] = ()
    annotations: tuple[QueryAnnotation, ...] = ()
    body: Read | tuple[Mutation, ...]
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryFile:
    """All queries of one file, in order."""

    queries: tuple[Query, ...]
    span: Span = field(compare=False, repr=False)
