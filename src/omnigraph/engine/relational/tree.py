"""A relational tree: what an engine of tables has to compute for a read, without a word of SQL.

Relations have named columns. A variable that is bound to a node or edge has the column `name_id(variable)`, and
`name_row(variable)` where the position of its row is needed; each property that is read later has `name_property`.
Nodes are immutable; a relation that two others read is the same object in both, and is computed once.
"""

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from omnigraph.query.expr import Aggregate as AggregateExpr
from omnigraph.query.expr import Const, Entity, Expr, Identity, MetaColumn, Prop
from omnigraph.query.union_types import is_union
from omnigraph.schema.types import ValueType

# The stored column of a scan that is no property: the position of the row in its table.
ROW_POSITION = "@row"
# The stored id of a row of several types, as a value; its column `id` tells the rows of all types apart.
ID_VALUE = "@id value"
# Digits of floats have 53 bits and up to this many less one; summed over 2^63 rows they fit into 128 bits.
FLOAT_PLACE_BITS = 9
# The number of matches that a row stands for. No variable can have this name, because of the `#`.
MULTIPLICITY = "#count"


def mark_capitals(name: str) -> str:
    """Return a name with a mark before each capital, because DuckDB takes `aB` and `ab` for the same column."""
    return "".join(f"^{char}" if char.isupper() else char for char in name)


def name_id(variable: str) -> str:
    """Return the name of the column with the id of a variable's node or edge."""
    return f"{mark_capitals(variable)}@id"


def name_row(variable: str) -> str:
    """Return the name of the column with the position of a variable's row; null if an optional block left none."""
    return f"{mark_capitals(variable)}{ROW_POSITION}"


def name_property(variable: str, column: str) -> str:
    """Return the name of the column with a property of a variable."""
    return name_id(variable) if column == "id" else mark_capitals(f"{variable}.{column}")


def list_id_columns(entity: Entity) -> tuple[tuple[str, str], ...]:
    """Return the ids of a whole node or edge: the name in its object, and the stored column."""
    own = {MetaColumn.ID: ID_VALUE} if is_union(entity.type.name) else {}
    return tuple((meta.value, own.get(meta, meta.value)) for meta in entity.ids)


def name_read(expr: Prop | Identity) -> str:
    """Return the name of the column that a property or an id of a variable is read from."""
    if isinstance(expr, Identity):
        return name_property(expr.variable, expr.part.value)
    # Only a row of several types has its id as a property.
    return name_property(expr.variable, ID_VALUE if expr.name == "id" else expr.name)


def name_value(variable: str) -> str:
    """Return the name of the column of a variable that is bound to a value."""
    return f"{mark_capitals(variable)}@value"


def name_overflow(variable: str) -> str:
    """Return the name of the column that tells whether a variable's value is null because an integer overflowed."""
    return f"{mark_capitals(variable)}@overflow"


# --- terms ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ColumnTerm:
    """The value of a column of the relation that is read."""

    name: str


@dataclass(frozen=True, slots=True)
class NumberTerm:
    """An integer; None is null."""

    value: int | None


@dataclass(frozen=True, slots=True)
class ProductTerm:
    """The product of integer columns, in which null counts as 1; an error of the engine if it exceeds 64 bits."""

    factors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ExprTerm:
    """A typed expression over the variables of the relation, whose columns have the names of this module."""

    expr: Expr
    is_key: bool = False
    """Whether it is grouped or sorted by: both zeros are one value, and an integer that overflows is an error."""


@dataclass(frozen=True, slots=True)
class DefaultTerm:
    """The value of a column, or a constant where it is null."""

    name: str
    default: Const


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedIdTerm:
    """The id of a row of one type as a row of several: the name of the type before it. Null stays null."""

    type: str
    column: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetTerm:
    """An integer column plus a constant."""

    column: str
    offset: int


@dataclass(frozen=True, slots=True)
class ConvertedTerm:
    """A column as a value of a wider type; None is null."""

    column: str | None
    type: ValueType


@dataclass(frozen=True, slots=True)
class FloatTerm:
    """A part of a float, which is `digit * 2^(FLOAT_PLACE_BITS * place)` with integers; null where `where` is not true.

    Sums of digits of equal places are sums of integers, so that a sum of floats is exact in any order.
    """

    expr: Expr
    where: Expr | None
    is_place: bool


# Terms of the rows of several types.
RowTerm: TypeAlias = TypedIdTerm | OffsetTerm | ConvertedTerm
Term: TypeAlias = ColumnTerm | NumberTerm | ProductTerm | ExprTerm | DefaultTerm | FloatTerm | RowTerm


# --- relations -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanRows:
    """The rows of one type's table for which all filters are true; these read `variable` alone."""

    type: str
    variable: str
    columns: tuple[tuple[str, str], ...]
    """Pairs of a stored column, or `ROW_POSITION`, and its name in this relation."""
    filters: tuple[Expr, ...] = ()
    is_loop_left_out: bool = False
    """Whether edges that start and end at one node are left out."""

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the relation."""
        return tuple(name for _, name in self.columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputedRows:
    """Rows that our own engine has computed before: ranks, positions that a search found, rows of a stage."""

    label: str
    """Names them within one tree."""
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleRow:
    """One row without columns: what a pattern starts from."""

    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """The same rows with other columns."""

    input: "Relation"
    items: tuple[tuple[str, Term], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the relation."""
        return tuple(name for name, _ in self.items)


@dataclass(frozen=True, slots=True, kw_only=True)
class Select:
    """The rows for which every predicate is true, not false and not unknown."""

    input: "Relation"
    predicates: tuple[Expr, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the relation."""
        return self.input.names


class JoinKind(Enum):
    """What a join does with the rows of its left side."""

    INNER = "inner"
    LEFT = "left"
    """Rows without a partner stay, with nulls."""
    SEMI = "semi"
    """Rows with a partner, each once, without its columns."""
    ANTI = "anti"
    """Rows without a partner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRows:
    """Pairs of rows with equal columns; without columns to compare, all pairs.

    Column names of both sides differ, but for those that are compared under one name, which the result has once.
    The right side is the one to build a hash table of.
    """

    kind: JoinKind
    left: "Relation"
    right: "Relation"
    equal: tuple[tuple[str, str], ...]
    """Pairs of a column of the left side and one of the right side."""
    is_null_equal: bool = False
    """Whether null equals null."""
    predicates: tuple[Expr, ...] = ()
    """What else has to be true of a pair."""

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the relation."""
        if self.kind in (JoinKind.SEMI, JoinKind.ANTI):
            return self.left.names
        return (*self.left.names, *(name for name in self.right.names if name not in self.left.names))


@dataclass(frozen=True, slots=True, kw_only=True)
class UnionAll:
    """The rows of all inputs, which have the same columns."""

    inputs: tuple["Relation", ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the relation."""
        return self.inputs[0].names


@dataclass(frozen=True, slots=True, kw_only=True)
class Distinct:
    """One of all equal rows; null equals null."""

    input: "Relation"

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the relation."""
        return self.input.names


@dataclass(frozen=True, slots=True, kw_only=True)
class CountSum:
    """The sum of a column of counts, an integer of 64 bits or an error; without a column, the number of rows."""

    column: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyOf:
    """The value that a column has in any row of the group: it is the same in all."""

    column: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """An aggregate of the language; a row counts as often as `multiplicity`, a column, says."""

    aggregate: AggregateExpr
    multiplicity: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialFold:
    """An aggregate of a part of a group's rows, for `CombinedFold`; a sum or count may be wider than 64 bits."""

    aggregate: AggregateExpr
    multiplicity: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CombinedFold:
    """The aggregate of a group from a column of `PartialFold`s, in the form that `Fold` has."""

    aggregate: AggregateExpr
    column: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DigitSum:
    """The sum of a column of a float's digits, as often as `multiplicity` says; it may be wider than 64 bits."""

    digit: str
    multiplicity: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DigitList:
    """The list of pairs of a place and the sum of its digits, of the places that have one."""

    place: str
    total: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockFold:
    """The value of a block of the language, from the values of its matches in `column`; None to count the matches.

    A sum of integers that exceeds 64 bits is null, and true in a column with `is_overflow`.
    """

    aggregate: AggregateExpr
    column: str | None = None
    multiplicity: str | None = None
    is_overflow: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOfValues:
    """The values of a column in an order, as a list; rows without a value are left out."""

    aggregate: AggregateExpr
    """The same as an aggregate of the language, whose sort keys are those of `order`."""
    column: str
    order: tuple["SortTerm", ...]


Measure: TypeAlias = (
    CountSum | AnyOf | Fold | PartialFold | CombinedFold | DigitSum | DigitList | BlockFold | ListOfValues
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRows:
    """One row per combination of the key columns, where null equals null; without keys exactly one row."""

    input: "Relation"
    keys: tuple[str, ...]
    measures: tuple[tuple[str, Measure], ...]
    drops_empty: bool = False
    """Whether there is no row without keys if the input has none."""

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the relation."""
        return (*self.keys, *(name for name, _ in self.measures))


@dataclass(frozen=True, slots=True)
class SortTerm:
    """A column to sort by; null is smaller than every value."""

    column: str
    is_descending: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderRows:
    """The rows in an order, from `offset` on and at most `limit`; with `per`, so many of each combination of these."""

    input: "Relation"
    order: tuple[SortTerm, ...]
    limit: int | None = None
    offset: int = 0
    per: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the relation."""
        return self.input.names


@dataclass(frozen=True, slots=True, kw_only=True)
class UnnestRows:
    """A row for each element of a list; a row whose list is null or empty is dropped."""

    input: "Relation"
    value: Expr
    element: str | None
    """The name of the column with the element, if it is read."""
    position: str | None
    """The name of the column with the place of the element, from 0."""
    is_test: bool = False
    """Whether a row with elements stays once, without them."""

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the relation."""
        return (*self.input.names, *(name for name in (self.element, self.position) if name is not None))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """The pairs of ids that are connected by a shortest walk of `low` to `high` edges; without `high`, of any length.

    The distance of an id to itself is the length of the shortest cycle through it, and 0 if `low` is 0. With
    `is_undirected`, edges go both ways, and a step back is no cycle: one has a single id, or at least three.
    """

    sources: "Relation"
    """Has the column `source`; its ids may repeat."""
    source: str
    edges: "Relation"
    """Has the columns `near` and `far`; one edge from `near` to `far`."""
    near: str
    far: str
    target: str
    """The name of the column with the ids that are reached."""
    low: int
    high: int | None
    through: "Relation | None" = None
    """The ids, in a column named `near`, that may lie between the two ends; None for all."""
    is_undirected: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the relation."""
        return (self.source, self.target)


Relation: TypeAlias = (
    ScanRows
    | ComputedRows
    | SingleRow
    | Project
    | Select
    | JoinRows
    | UnionAll
    | Distinct
    | GroupRows
    | OrderRows
    | UnnestRows
    | Reach
)


def get_inputs(relation: Relation) -> tuple[Relation, ...]:
    """Return the relations that a relation reads."""
    match relation:
        case ScanRows() | ComputedRows() | SingleRow():
            return ()
        case JoinRows():
            return (relation.left, relation.right)
        case UnionAll():
            return relation.inputs
        case Reach():
            through = () if relation.through is None else (relation.through,)
            return (relation.sources, relation.edges, *through)
        case _:
            return (relation.input,)
