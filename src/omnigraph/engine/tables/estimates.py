"""How many rows a predicate is likely to let pass: by statistics of its columns, else by rules of thumb.

The table version decides, never what is in memory: a plan is the same in every process.
"""

from dataclasses import dataclass
from math import prod

from omnigraph.engine.budget import Budget
from omnigraph.engine.predicates import Inputs, RowValue, column_of
from omnigraph.engine.tables.statistics import Statistics, statistics
from omnigraph.engine.tables.table_columns import TableColumns
from omnigraph.query.expr import (
    And,
    Compare,
    Const,
    Expr,
    Identity,
    In,
    IsNull,
    Not,
    Now,
    Op,
    Or,
    ParamRef,
    Prop,
)
from omnigraph.schema.catalog import AnyType, Value
from omnigraph.schema.types import EnumOf, Scalar

_EQUAL, _RANGE, _NULL, _OTHER = 0.05, 0.33, 0.1, 0.2
"""The shares of rows that pass, where nothing is known of the values."""
_MOST_ITEMS = 64
"""Of a longer list, every item is taken for an average one."""


def estimated_share(
    columns: TableColumns, type_: AnyType, terms: tuple[Expr, ...], inputs: Inputs, budget: Budget | None = None
) -> float:
    """The share of rows that pass all terms, taken as independent."""
    shares = _Shares(columns, type_, inputs, budget)
    return min(1.0, max(0.0, shares.of_all(terms)))


@dataclass(frozen=True, slots=True)
class _Shares:
    """Estimates for one table version and one call."""

    columns: TableColumns
    type: AnyType
    inputs: Inputs
    budget: Budget | None

    def of_all(self, terms: tuple[Expr, ...]) -> float:
        """The share of rows that pass all terms; bounds of one column are one range."""
        share, ranges = 1.0, dict[str, tuple[float, float]]()
        for term in terms:
            bound = self._bound(term)
            if bound is None:
                share *= self.of(term)
                continue
            name, low, high = bound
            was = ranges.get(name, (0.0, 1.0))
            ranges[name] = max(was[0], low), min(was[1], high)
        least = 1 / max(self.columns.layout.count, 1)
        return share * prod(max(high - low, least) for low, high in ranges.values())

    def of(self, term: Expr) -> float:
        """The share of rows that pass a term."""
        match term:
            case Const():
                return float(term.value is True)
            case And(terms=terms):
                return self.of_all(terms)
            case Or(terms=terms):
                return 1 - prod(1 - self.of(part) for part in terms)
            case Not(term=inner):
                return 1 - self.of(inner)
            case IsNull(operand=Prop(nullable=False) | Identity(), negated=negated):
                return float(negated)
            case IsNull(operand=operand, negated=negated):
                nulls = self._nulls(operand)
                return 1 - nulls if negated else nulls
            case Compare() if self._bound(term) is not None:
                return self.of_all((term,))
            case Compare(op=op, left=Prop() | Identity() as column, right=Const() | ParamRef() | Now() as value):
                return self._compared(column, op, self.inputs.value(value))
            case Compare(op=op, left=Const() | ParamRef() | Now() as value, right=Prop() | Identity() as column):
                return self._compared(column, op.mirrored, self.inputs.value(value))
            case In(element=Prop() | Identity() as column, collection=Const() | ParamRef() as value):
                return self._one_of(column, self.inputs.value(value))
            case _:
                return _OTHER

    def _nulls(self, operand: Expr) -> float:
        known = self._known(operand) if isinstance(operand, Prop) else None
        return _NULL if known is None else known.nulls

    def _compared(self, column: RowValue, op: Op, value: Value) -> float:
        if value is None:
            return 0.0
        if op is Op.EQ:
            return self._equal(column, value)
        if op is Op.NE:
            return 1 - self._equal(column, value)
        return _RANGE

    def _bound(self, term: Expr) -> tuple[str, float, float] | None:
        """The column that a term bounds, and the shares of rows that lie below the rows that pass, and up to them."""
        match term:
            case Compare(op=op, left=Prop() as column, right=Const() | ParamRef() as value):
                pass
            case Compare(op=op, left=Const() | ParamRef() as value, right=Prop() as column):
                op = op.mirrored
            case _:
                return None
        number = self.inputs.value(value)
        if op in (Op.EQ, Op.NE) or not isinstance(number, int | float):
            return None
        known = self._known(column)
        below = None if known is None else known.below(number, or_equal=op in (Op.LE, Op.GT))
        if known is None or below is None:
            return None
        return (column.name, 0.0, below) if op in (Op.LT, Op.LE) else (column.name, below, 1 - known.nulls)

    def _one_of(self, column: RowValue, items: Value) -> float:
        if not isinstance(items, tuple | list) or not items:
            return 0.0
        if len(items) > _MOST_ITEMS:
            return min(1.0, len(items) * self._equal(column, None))
        return min(1.0, sum(self._equal(column, item) for item in items))

    def _equal(self, column: RowValue, value: Value) -> float:
        """The share of rows with a value; None: with one that is not among the commonest."""
        name, count = column_of(column), max(self.columns.layout.count, 1)
        if isinstance(column, Identity) or (name,) in self.type.unique or self.type.key == (name,):
            return 1 / count
        known = self._known(column)
        if known is not None:
            return known.equal(value)
        match column.type:
            case EnumOf(values=values):
                return 1 / len(values)
            case Scalar.BOOL:
                return 0.5
            case _:
                return _EQUAL

    def _known(self, column: RowValue) -> Statistics | None:
        return None if isinstance(column, Identity) else statistics(self.columns, column.name, column.type, self.budget)
