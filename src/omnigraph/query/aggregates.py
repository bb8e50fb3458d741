"""Typed aggregates and window functions, and the sort terms that both share with the output."""

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from omnigraph.lang.source import Span
from omnigraph.query.expr_types import ArrayOf, EdgeRef, ExprType, NodeRef, ShapedType
from omnigraph.query.plan_checks import require
from omnigraph.schema.types import EnumOf, ListOf, Scalar, is_scalar

if TYPE_CHECKING:
    from omnigraph.query.expr import Expr, Input


class AggregateFunction(Enum):
    """An aggregate function; the value is its name."""

    COUNT = "count"
    SUM = "sum"
    AVG = "avg"
    MIN = "min"
    MAX = "max"
    STDDEV = "stddev"
    VARIANCE = "variance"
    MEDIAN = "median"
    PERCENTILE = "percentile"
    PRODUCT = "product"
    ANY = "any"
    ALL = "all"
    COLLECT = "collect"


class WindowFunction(Enum):
    """A function of a row's place in a window; the value is its name."""

    ROW_NUMBER = "row_number"
    RANK = "rank"
    LAG = "lag"
    LEAD = "lead"


# One value of these decides, however many rows have it.
_EXTREMES = frozenset({AggregateFunction.MIN, AggregateFunction.MAX, AggregateFunction.ANY, AggregateFunction.ALL})
_CONDITIONS = frozenset({AggregateFunction.ANY, AggregateFunction.ALL})
_DISTINCT = frozenset({AggregateFunction.COUNT, AggregateFunction.COLLECT})
# Aggregates that can be calculated up to each row of a window, one row after the other.
RUNNING = frozenset({AggregateFunction.COUNT, AggregateFunction.SUM, AggregateFunction.AVG, *_EXTREMES})
# Their order is that of the rows in the window, so they need no argument.
_WITHOUT_ARGUMENT = frozenset({WindowFunction.ROW_NUMBER, WindowFunction.RANK})


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderTerm:
    """A sort key; null is the smallest value: first ascending, last descending."""

    value: "Expr"
    descending: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """An aggregate: `count(*)` has no argument and counts rows, `count(e)` non-null values.

    Only rows for which `where` is true count. `fraction` is the second argument of `percentile`. A `collect` lists its
    values by `order`, then by `ties`, which make the order total, and keeps the first `limit`; with `distinct` it lists
    each value once, ascending.
    """

    fold: AggregateFunction
    argument: "Expr | None" = None
    distinct: bool = False
    where: "Expr | None" = None
    fraction: "Input | None" = None
    order: tuple[OrderTerm, ...] = ()
    ties: tuple["Expr", ...] = ()
    limit: "Input | None" = None
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        name = self.fold.value
        is_collecting = self.fold is AggregateFunction.COLLECT
        require(not self.distinct or self.fold in _DISTINCT, "`distinct` needs `count` or `collect`")
        require(not self.distinct or self.argument is not None, "`distinct` needs a value")
        require(is_collecting or not (self.order or self.ties or self.limit), f"`{name}` has no order and no limit")
        require(not (self.distinct and (self.order or self.ties)), "`collect(distinct …)` is ascending")
        require((self.fold is AggregateFunction.PERCENTILE) == (self.fraction is not None), f"`{name}` and a fraction")
        require(self.where is None or self.where.type is Scalar.BOOL, "the filter of an aggregate is a predicate")
        # Only `count(*)` has no argument.
        if self.argument is None:
            require(self.fold is AggregateFunction.COUNT, f"`{name}` needs an argument")
        else:
            type_ = self.argument.type
            require(is_foldable(self.fold, type_, distinct=self.distinct), f"`{name}` of {type_}")

    @property
    def type(self) -> ExprType:
        """The type of the result."""
        return resolve_fold(self.fold, None if self.argument is None else self.argument.type)

    @property
    def nullable(self) -> bool:
        """Whether it can be null: all but counts and lists are, over no rows."""
        return self.fold not in _DISTINCT

    @property
    def children(self) -> tuple["Expr", ...]:
        """All expressions that it reads."""
        parts = (self.argument, self.where, self.fraction, *(term.value for term in self.order), *self.ties, self.limit)
        return tuple(part for part in parts if part is not None)

    @property
    def counts_rows(self) -> bool:
        """Whether the number of equal rows matters; else only that there is one."""
        return self.fold not in _EXTREMES and not self.distinct


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """`call over { per { … } order { … } }`: a value for each row, from the rows that are equal in `per`.

    The call is an `aggregate`, over the rows up to this one if there is an `order`, else over all; or a `function` of
    the row's place, where `lag` and `lead` have an `argument`. `ties` make the order total.
    """

    aggregate: Aggregate | None = None
    function: WindowFunction | None = None
    argument: "Expr | None" = None
    per: tuple["Expr", ...] = ()
    order: tuple[OrderTerm, ...] = ()
    ties: tuple["Expr", ...] = ()
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        require((self.aggregate is None) != (self.function is None), "a window has one call")
        if self.aggregate is not None:
            is_running = self.aggregate.fold in RUNNING and not self.aggregate.distinct
            require(is_running or not self.order, f"`{self.aggregate.fold.value}` can't run up to a row")
            require(self.argument is None, "the argument belongs to the aggregate")
        else:
            needs_argument = self.function not in _WITHOUT_ARGUMENT
            require((self.argument is not None) == needs_argument, "the argument of a window function")
            require(self.argument is None or not isinstance(self.argument.type, ShapedType), "a value of another row")

    @property
    def type(self) -> ExprType:
        """The type of the result."""
        if self.aggregate is not None:
            return self.aggregate.type
        return Scalar.I64 if self.argument is None else self.argument.type

    @property
    def nullable(self) -> bool:
        """Whether it can be null: the aggregate can be, and there may be no row before or after."""
        return self.argument is not None if self.aggregate is None else self.aggregate.nullable

    @property
    def children(self) -> tuple["Expr", ...]:
        """All expressions that it reads; the aggregate is no part of the output's own ones."""
        call = () if self.aggregate is None else self.aggregate.children
        argument = () if self.argument is None else (self.argument,)
        return (*call, *argument, *self.per, *(term.value for term in self.order), *self.ties)


def resolve_fold(fold: AggregateFunction, argument: ExprType | None) -> ExprType:
    """Return the type of an aggregate of values of a type; None stands for `count(*)`."""
    match fold:
        case AggregateFunction.COUNT:
            return Scalar.I64
        case AggregateFunction.SUM | AggregateFunction.PRODUCT:
            # Those of all integer types are I64; the executor reports an overflow.
            return Scalar.I64 if isinstance(argument, Scalar) and argument.is_integer else Scalar.F64
        case AggregateFunction.MIN | AggregateFunction.MAX:
            require(argument is not None, "an extreme of no value")
            return Scalar.I64 if argument is None else argument
        case AggregateFunction.ANY | AggregateFunction.ALL:
            return Scalar.BOOL
        case AggregateFunction.COLLECT:
            return resolve_list(Scalar.I64 if argument is None else argument)
        case _:
            return Scalar.F64


def resolve_list(element: ExprType) -> ExprType:
    """Return the type of a list of elements: that of a list property where there can be one."""
    if isinstance(element, EnumOf):
        return ListOf(Scalar.STRING)
    if isinstance(element, Scalar) and element is not Scalar.BLOB:
        return ListOf(element)
    return ArrayOf(element)


def is_foldable(fold: AggregateFunction, type_: ExprType, *, distinct: bool = False) -> bool:
    """Return whether an aggregate function accepts values of a type."""
    # Any value can be counted and listed; distinct values are compared, and only scalars and identities compare.
    if fold is AggregateFunction.COUNT:
        return not distinct or (not isinstance(type_, ShapedType) and is_scalar(type_))
    if fold is AggregateFunction.COLLECT:
        return type_ is not Scalar.BLOB and (not distinct or is_listed_once(type_))
    if isinstance(type_, ShapedType):
        return False
    if fold in _CONDITIONS:
        return type_ is Scalar.BOOL
    if fold in _EXTREMES:
        return is_scalar(type_)
    return isinstance(type_, Scalar) and type_.is_numeric


def is_listed_once(type_: ExprType) -> bool:
    """Return whether `collect(distinct …)` accepts values of a type: scalars, and nodes and edges by their ids."""
    if isinstance(type_, ShapedType):
        return isinstance(type_, NodeRef | EdgeRef)
    return is_scalar(type_)
