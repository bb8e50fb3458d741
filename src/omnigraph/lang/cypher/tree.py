"""The syntax tree of a Cypher statement. Equality ignores spans."""

from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from omnigraph.lang.literals import Name
from omnigraph.lang.source import Span

# --- expressions ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Literal:
    """`null`, `true`, a whole number, a number with a fraction or exponent, or a string."""

    value: bool | int | float | str | None
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """`$name`; the name may be a number."""

    name: str
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A name that a pattern, `WITH`, `UNWIND` or a comprehension binds."""

    name: str
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Property:
    """`operand.key`: of a node, relationship, map, date or null."""

    operand: "Expr"
    key: Name
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscript:
    """`operand[index]`: the element of a list, from 0 or, if negative, from its end; or a key of a map."""

    operand: "Expr"
    index: "Expr"
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """`operand[low..high]`, without `high` itself; each bound may be left out."""

    operand: "Expr"
    low: "Expr | None"
    high: "Expr | None"
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListLiteral:
    """`[a, b, …]`."""

    items: tuple["Expr", ...]
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class MapLiteral:
    """`{key: value, …}`; keys are as written, and of equal ones the last counts."""

    entries: tuple[tuple[Name, "Expr"], ...]
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectedKey:
    """`.key` in a map projection."""

    key: Name


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectedVariable:
    """`variable` in a map projection: its value under its name."""

    variable: Variable


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectedEntry:
    """`key: value` in a map projection."""

    key: Name
    value: "Expr"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectedAll:
    """`.*` in a map projection."""

    span: Span = field(compare=False, repr=False)


ProjectedItem: TypeAlias = ProjectedKey | ProjectedVariable | ProjectedEntry | ProjectedAll


@dataclass(frozen=True, slots=True, kw_only=True)
class MapProjection:
    """`variable {.key, .*, key: value, other}`."""

    variable: Variable
    items: tuple[ProjectedItem, ...]
    span: Span = field(compare=False, repr=False)


class UnaryOp(Enum):
    """The operators of one operand."""

    NOT = "NOT"
    MINUS = "-"
    PLUS = "+"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unary:
    """`NOT operand`, `-operand` or `+operand`; a minus before a number is part of the literal."""

    op: UnaryOp
    operand: "Expr"
    span: Span = field(compare=False, repr=False)


class BinaryOp(Enum):
    """The operators of two operands that are no comparisons."""

    OR = "OR"
    XOR = "XOR"
    AND = "AND"
    ADD = "+"
    SUBTRACT = "-"
    MULTIPLY = "*"
    DIVIDE = "/"
    MODULO = "%"
    POWER = "^"
    CONCAT = "||"
    IN = "IN"
    STARTS_WITH = "STARTS WITH"
    ENDS_WITH = "ENDS WITH"
    CONTAINS = "CONTAINS"
    MATCHES = "=~"


@dataclass(frozen=True, slots=True, kw_only=True)
class Binary:
    """`left op right`; operators of one level are read from the left, also `^`."""

    op: BinaryOp
    left: "Expr"
    right: "Expr"
    op_span: Span = field(compare=False, repr=False)
    span: Span = field(compare=False, repr=False)


class CompareOp(Enum):
    """The comparison operators."""

    EQ = "="
    NE = "<>"
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """`first op operand op operand …`: with several, every neighbouring pair must compare."""

    first: "Expr"
    rest: tuple[tuple[CompareOp, "Expr"], ...]
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class IsNull:
    """`operand IS NULL`, or `IS NOT NULL` if negated."""

    operand: "Expr"
    negated: bool
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class HasLabels:
    """`operand:Label`: whether a node has labels, or a relationship a type."""

    operand: "Expr"
    labels: "LabelExpr"
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """`function(arguments)`: a function or an aggregate, whose name is as written, with its dots."""

    function: Name
    arguments: tuple["Expr", ...]
    distinct: bool = False
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CountStar:
    """`count(*)`."""

    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """`CASE WHEN condition THEN value … END`, or with an operand that is compared with the conditions."""

    operand: "Expr | None"
    branches: tuple[tuple["Expr", "Expr"], ...]
    otherwise: "Expr | None"
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListComprehension:
    """`[variable IN source WHERE where | value]`; without a value it is the variable."""

    variable: Name
    source: "Expr"
    where: "Expr | None"
    value: "Expr | None"
    span: Span = field(compare=False, repr=False)


class QuantifierKind(Enum):
    """The quantifiers."""

    ALL = "all"
    ANY = "any"
    NONE = "none"
    SINGLE = "single"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantifier:
    """`all(variable IN source WHERE where)`."""

    kind: QuantifierKind
    variable: Name
    source: "Expr"
    where: "Expr"
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduce:
    """`reduce(accumulator = initial, variable IN source | value)`."""

    accumulator: Name
    initial: "Expr"
    variable: Name
    source: "Expr"
    value: "Expr"
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternPredicate:
    """A pattern of at least one hop as a condition: `(a)-[:KNOWS]->()`; also the value of `shortestPath(…)`."""

    pattern: "PathPattern"
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternComprehension:
    """`[(a)-[:KNOWS]->(b) WHERE where | value]`; the pattern may have a path variable."""

    pattern: "PathPattern"
    where: "Expr | None"
    value: "Expr"
    span: Span = field(compare=False, repr=False)


class SubqueryKind(Enum):
    """The values that a subquery in an expression has."""

    EXISTS = "EXISTS"
    COUNT = "COUNT"
    COLLECT = "COLLECT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subquery:
    """`EXISTS { … }`, `COUNT { … }`, `COLLECT { … }`.

    A bare pattern is a statement of one `MATCH`; except in `COLLECT`, the statement may have no `RETURN`.
    """

    kind: SubqueryKind
    statement: "Statement"
    span: Span = field(compare=False, repr=False)


Expr: TypeAlias = (
    Literal
    | Parameter
    | Variable
    | Property
    | Subscript
    | Slice
    | ListLiteral
    | MapLiteral
    | MapProjection
    | Unary
    | Binary
    | Comparison
    | IsNull
    | HasLabels
    | Call
    | CountStar
    | Case
    | ListComprehension
    | Quantifier
    | Reduce
    | PatternPredicate
    | PatternComprehension
    | Subquery
)

# --- patterns ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelName:
    """A label, or a type of a relationship."""

    name: Name


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyLabel:
    """`%`: at least one label."""

    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelAnd:
    """`:A:B` or `:A&B`."""

    terms: tuple["LabelExpr", ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelOr:
    """`:A|B`."""

    terms: tuple["LabelExpr", ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelNot:
    """`:!A`."""

    term: "LabelExpr"


LabelExpr: TypeAlias = LabelName | AnyLabel | LabelAnd | LabelOr | LabelNot


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePattern:
    """`(variable:Label {key: value} WHERE where)`; `properties` is a map or a parameter."""

    variable: Name | None
    labels: LabelExpr | None
    properties: MapLiteral | Parameter | None
    where: Expr | None = None
    span: Span = field(compare=False, repr=False)


class Direction(Enum):
    """The direction of a relationship as written, from left to right."""

    OUT = "->"
    IN = "<-"
    BOTH = "--"


@dataclass(frozen=True, slots=True, kw_only=True)
class Length:
    """`*low..high`: `*` has neither, `*2` has both. Without `low` it is 1, without `high` unbounded."""

    low: int | None
    high: int | None
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationshipPattern:
    """`-[variable:TYPE *1..3 {key: value} WHERE where]->`; with a length, the variable is a list."""

    variable: Name | None
    types: LabelExpr | None
    properties: MapLiteral | Parameter | None
    direction: Direction
    length: Length | None = None
    where: Expr | None = None
    span: Span = field(compare=False, repr=False)


class PathKind(Enum):
    """Which walks of a pattern are meant."""

    ALL = "all"
    SHORTEST = "shortestPath"
    ALL_SHORTEST = "allShortestPaths"


@dataclass(frozen=True, slots=True, kw_only=True)
class PathPattern:
    """`variable = (a)-[…]-(b)-[…]-(c)`: `relationships[i]` is between `nodes[i]` and `nodes[i + 1]`."""

    variable: Name | None
    kind: PathKind
    nodes: tuple[NodePattern, ...]
    relationships: tuple[RelationshipPattern, ...]
    span: Span = field(compare=False, repr=False)


# --- clauses -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """`MATCH patterns WHERE where`, or `OPTIONAL MATCH`."""

    patterns: tuple[PathPattern, ...]
    where: Expr | None
    optional: bool = False
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unwind:
    """`UNWIND list AS variable`."""

    source: Expr
    variable: Name
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectionItem:
    """`value AS alias`; without an alias the column is named `text`, the value as written."""

    value: Expr
    alias: Name | None
    text: str
    span: Span = field(compare=False, repr=False)

    @property
    def name(self) -> str:
        """The name of the column."""
        return self.text if self.alias is None else self.alias.text


@dataclass(frozen=True, slots=True, kw_only=True)
class SortKey:
    """`value DESC`."""

    value: Expr
    descending: bool
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """`DISTINCT *, items ORDER BY order SKIP skip LIMIT limit`; `star` puts all variables before the items."""

    items: tuple[ProjectionItem, ...]
    star: bool = False
    distinct: bool = False
    order: tuple[SortKey, ...] = ()
    skip: Expr | None = None
    limit: Expr | None = None
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class With:
    """`WITH projection WHERE where`."""

    projection: Projection
    where: Expr | None
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Return:
    """`RETURN projection`."""

    projection: Projection
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class YieldItem:
    """`column AS alias` of a procedure."""

    column: Name
    alias: Name | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallProcedure:
    """`CALL procedure(arguments) YIELD items WHERE where`; without `YIELD`, or with `YIELD *`, `items` is None."""

    procedure: Name
    arguments: tuple[Expr, ...]
    items: tuple[YieldItem, ...] | None
    where: Expr | None = None
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSubquery:
    """`CALL { statement }`."""

    statement: "Statement"
    span: Span = field(compare=False, repr=False)


Clause: TypeAlias = Match | Unwind | With | Return | CallProcedure | CallSubquery


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Clauses in order; the last is `RETURN`, except in a subquery, or a lone `CALL` of a procedure."""

    clauses: tuple[Clause, ...]
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One or more queries with `UNION` between them, or `UNION ALL` if not `distinct`."""

    queries: tuple[Query, ...]
    distinct: bool = True
    span: Span = field(compare=False, repr=False)
