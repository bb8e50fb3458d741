"""The syntax tree of the query language (`.gq`). Equality ignores spans."""

from dataclasses import dataclass, field, replace
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
    the parser keeps any name. `rrf(a, b, k=60)` has the option `k`. An aggregate may have a filter, an order and a
    limit, as in `collect($m.text where $m.length > 3 order { $m.sent desc } limit 3)`, and a window after it, as in
    `sum($n) over { per { $c } order { $d } }`.
    """

    function: Name
    arguments: tuple["Expr", ...]
    distinct: bool = False
    options: tuple[tuple[Name, "Expr"], ...] = ()
    where: "Expr | None" = None
    order: tuple["OrderKey", ...] = ()
    limit: "Expr | None" = None
    window: "Window | None" = None
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


@dataclass(frozen=True, slots=True, kw_only=True)
class AllProperties:
    """`$var.*` in an output: one column for each scalar property."""

    variable: Variable
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """`operand.name`: a field of a record, or a property of a node, that is no variable; `$r.name` is a `PropertyRef`.

    `operand.@id` and the like have `is_meta`, and the name without `@`.
    """

    operand: "Expr"
    name: Name
    is_meta: bool = False
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordItem:
    """`name: value` of a record."""

    name: Name
    value: "Expr"
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """`{ name: value, … }`: a value that shapes a result."""

    items: tuple[RecordItem, ...]
    span: Span = field(compare=False, repr=False)


class BlockKind(Enum):
    """The values that a block can have, as written."""

    EXISTS = "exists"
    COUNT = "count"
    SUM = "sum"
    MIN = "min"
    MAX = "max"
    AVG = "avg"
    COLLECT = "collect"


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """`count { clauses }`, `collect { clauses return value order { … } limit n }`: one value for each outer row.

    Only `exists` and `count` may have no `return`. `not { … }` inside an expression is `Not` of an `exists` block.
    """

    kind: BlockKind
    clauses: tuple["Clause", ...]
    value: "Expr | None" = None
    distinct: bool = False
    order: tuple["OrderKey", ...] = ()
    limit: "Expr | None" = None
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """`over { per { … } order { … } }` after an aggregate or window function."""

    per: tuple["Expr", ...] = ()
    order: tuple["OrderKey", ...] = ()
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
    | AllProperties
    | Field
    | Record
    | Block
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
    """`$var: Type { prop: value, … }`, or `$var: (A|B)`; a type is a node type or an interface."""

    variable: Variable
    types: tuple[Name, ...]
    filters: tuple[Assignment, ...] = ()
    span: Span = field(compare=False, repr=False)

    @property
    def type(self) -> Name:
        """The first type, which is the only one unless several are written."""
        return self.types[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class HopBounds:
    """`{min,max}`, or `{min,*}` with `high` None; the range is checked when the query is bound."""

    low: int
    high: int | None
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeName:
    """The name of an edge type in a hop; `is_text` remembers `"in"` written as a string."""

    name: Name
    is_text: bool = False
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TraversalClause:
    """`$a edge $b`, `$a edge{1,3} $b`, `$a <edge> $b`, `$a $e:edge $b`, `$a (knows|follows) $b`, `$a (*) $b`.

    Without `edges`, any edge type matches (`*`). `edge_variable` and `bounds` or `is_undirected` may stand together in
    the tree; binding refuses what has no meaning. `along` and `through` are conditions on the edges and on the inner
    nodes of a walk; they name properties without a variable.
    """

    source: Variable
    edges: tuple[EdgeName, ...]
    target: Variable
    edge_variable: Variable | None = None
    is_undirected: bool = False
    bounds: HopBounds | None = None
    along: tuple[Expr, ...] = ()
    through: tuple[Expr, ...] = ()
    # The position of the edges as written, parentheses or `*` included.
    edge_span: Span = field(compare=False, repr=False)
    span: Span = field(compare=False, repr=False)

    @property
    def edge(self) -> Name:
        """The first edge name, or `*`; it is the only one unless several are written."""
        return self.edges[0].name if self.edges else Name("*", self.edge_span)


class PathKind(Enum):
    """Which walks a path variable is bound to, as written."""

    PATH = "path"
    SHORTEST = "shortest"
    ALL_SHORTEST = "all_shortest"
    CHEAPEST = "cheapest"


@dataclass(frozen=True, slots=True, kw_only=True)
class PathClause:
    """`path $w = $a knows{1,4} $b`; `cheapest $w = $a road{1,*} $b by { length }` has a `weight`."""

    kind: PathKind
    variable: Variable
    hop: TraversalClause
    weight: Expr | None = None
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Let:
    """`let $x = expr`: an abbreviation for its expression."""

    variable: Variable
    value: Expr
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Each:
    """`each $x in list`: one row for each element."""

    variable: Variable
    value: Expr
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionalBlock:
    """`optional { clauses }`: keeps the rows of the outside."""

    clauses: tuple["Clause", ...]
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Either:
    """`either { … } or { … }`: the rows of any alternative; two or more."""

    alternatives: tuple[tuple["Clause", ...], ...]
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


Clause: TypeAlias = Binding | TraversalClause | Where | NotBlock | PathClause | Let | Each | OptionalBlock | Either


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
class Stage:
    """`match { … } with { … } having { … } order { … } limit n per { … } offset n`; `match` may be left out."""

    clauses: tuple[Clause, ...]
    projections: tuple[Projection, ...]
    distinct: bool = False
    having: Expr | None = None
    order: tuple[OrderKey, ...] = ()
    limit: Expr | None = None
    per: tuple[Expr, ...] = ()
    offset: Expr | None = None
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """`match { … } return { … } order { … } limit n offset n`; limit and offset are an integer or a parameter.

    `stages` come before it, in order. Only after a stage may `clauses` be empty.
    """

    clauses: tuple[Clause, ...]
    projections: tuple[Projection, ...]
    distinct: bool = False
    having: Expr | None = None
    order: tuple[OrderKey, ...] = ()
    limit: Expr | None = None
    per: tuple[Expr, ...] = ()
    offset: Expr | None = None
    stages: tuple[Stage, ...] = ()
    span: Span = field(compare=False, repr=False)

    @property
    def parts(self) -> tuple["Stage | Read", ...]:
        """The stages and then the read itself, in the order in which they run."""
        return (*self.stages, self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Union:
    """Two or more reads with `union` or `union all` between them; order, limit and offset belong to the whole.

    `keeps_equal` says for each gap whether it is `union all`; gaps are read from the left.
    """

    reads: tuple[Read, ...]
    keeps_equal: tuple[bool, ...]
    order: tuple[OrderKey, ...] = ()
    limit: Expr | None = None
    offset: Expr | None = None
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Insert:
    """`insert Type { name: value, … } if absent as $x`."""

    type: Name
    assignments: tuple[Assignment, ...]
    if_absent: bool = False
    variable: Variable | None = None
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


@dataclass(frozen=True, slots=True, kw_only=True)
class DriveMatch:
    """`match { … }`, after stages if there are any: it drives the statements up to the next one."""

    clauses: tuple[Clause, ...]
    stages: tuple[Stage, ...] = ()
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateMatched:
    """`update $x set { name: value, … }` for the rows of a match."""

    variable: Variable
    assignments: tuple[Assignment, ...]
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteMatched:
    """`delete $x` for the rows of a match."""

    variable: Variable
    span: Span = field(compare=False, repr=False)


Mutation: TypeAlias = Insert | Update | Delete | DriveMatch | UpdateMatched | DeleteMatched


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """`query name(params) @annotations { body }`; the body is a read, a union of reads, or one or more mutations.

    `returning` are the output columns of a mutation.
    """

    name: Name
    params: tuple[ParamDecl, ...] = ()
    annotations: tuple[QueryAnnotation, ...] = ()
    body: Read | Union | tuple[Mutation, ...]
    returning: tuple[Projection, ...] = ()
    # The named patterns of its file, if it was taken from one.
    patterns: tuple["PatternDecl", ...] = field(default=(), compare=False, repr=False)
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternParam:
    """`$a: Person` of a named pattern; the types as in a binding."""

    variable: Variable
    types: tuple[Name, ...]
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternDecl:
    """`pattern name($a: Person, $b: Person) { clauses }`; its use is a `Call` that is a clause, or a hop."""

    name: Name
    params: tuple[PatternParam, ...]
    clauses: tuple[Clause, ...]
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryFile:
    """All queries and named patterns of one file, each in order."""

    queries: tuple[Query, ...]
    patterns: tuple[PatternDecl, ...] = ()
    span: Span = field(compare=False, repr=False)

    @property
    def complete_queries(self) -> tuple[Query, ...]:
        """The queries, each with the named patterns of the file."""
        return (
            tuple(replace(query, patterns=self.patterns) for query in self.queries) if self.patterns else self.queries
        )
