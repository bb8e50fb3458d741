"""How many rows a predicate is likely to let pass: by indexes and statistics of its columns, else by rules of thumb.

The table version decides, never what is in memory: a plan is the same in every process.
"""

from dataclasses import dataclass
from math import prod

from omnigraph.engine.predicate_eval import QueryInputs, RowValue, get_column_name
from omnigraph.engine.query_budget import Budget
from omnigraph.engine.table_filters import build_table_filter
from omnigraph.engine.tables.column_statistics import (
    BITMAP_KINDS,
    LABEL_KINDS,
    ColumnStatistics,
    count_share_by_index,
    find_index,
    load_statistics,
)
from omnigraph.engine.tables.column_store import ColumnStore
from omnigraph.engine.tables.histogram import Histogram
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
    StartsWith,
)
from omnigraph.schema.catalog import AnyType, Value
from omnigraph.schema.types import EnumOf, Scalar
from omnigraph.storage.filters import find_prefix_end

_EQUAL_SHARE, _RANGE_SHARE, _NULL_SHARE, _OTHER_SHARE = 0.05, 0.33, 0.1, 0.2
"""The shares of rows that pass, where nothing is known of the values."""
_MAX_ITEMS = 64
"""Of a longer list, every item is taken for an average one."""


def estimate_selectivity(
    columns: ColumnStore, type_: AnyType, terms: tuple[Expr, ...], inputs: QueryInputs, budget: Budget | None = None
) -> float:
    """The share of rows that pass all terms, taken as independent."""
    shares = _SelectivityEstimator(columns, type_, inputs, budget)
    return min(1.0, max(0.0, shares.estimate_all(terms)))


@dataclass(frozen=True, slots=True)
class _SelectivityEstimator:
    """Estimates for one table version and one call."""

    columns: ColumnStore
    type: AnyType
    inputs: QueryInputs
    budget: Budget | None

    def estimate_all(self, terms: tuple[Expr, ...]) -> float:
        """The share of rows that pass all terms; bounds of one column are one range."""
        share, ranges = 1.0, dict[str, tuple[float, float]]()
        for term in terms:
            bound = self._find_bound(term)
            if bound is None:
                share *= self.estimate(term)
                continue
            name, low, high = bound
            was = ranges.get(name, (0.0, 1.0))
            ranges[name] = max(was[0], low), min(was[1], high)
        return share * prod(max(high - low, self._min_share) for low, high in ranges.values())

    @property
    def _min_share(self) -> float:
        return 1 / max(self.columns.layout.count, 1)

    def estimate(self, term: Expr) -> float:
        """The share of rows that pass a term."""
        match term:
            case Const():
                return float(term.value is True)
            case And(terms=terms):
                return self.estimate_all(terms)
            case Or(terms=terms):
                return 1 - prod(1 - self.estimate(part) for part in terms)
            case Not(term=inner):
                return 1 - self.estimate(inner)
            case IsNull(operand=Prop(nullable=False) | Identity(), negated=negated):
                return float(negated)
            case IsNull(operand=operand, negated=negated):
                nulls = self._estimate_nulls(term, operand)
                return 1 - nulls if negated else nulls
            case Compare() if self._find_bound(term) is not None:
                return self.estimate_all((term,))
            case Compare(op=op, left=Prop() | Identity() as column, right=Const() | ParamRef() | Now() as value):
                return self._estimate_comparison(term, column, op, self.inputs.resolve(value))
            case Compare(op=op, left=Const() | ParamRef() | Now() as value, right=Prop() | Identity() as column):
                return self._estimate_comparison(term, column, op.mirrored, self.inputs.resolve(value))
            case In(element=Prop() | Identity() as column, collection=Const() | ParamRef() as value):
                return self._estimate_in_list(column, self.inputs.resolve(value))
            case In(element=Const() | ParamRef(), collection=Prop() as column):
                counted = self._count_by_index(term, column, LABEL_KINDS)
                return _OTHER_SHARE if counted is None else counted
            case StartsWith(text=Prop() as column, prefix=Const() | ParamRef() as value):
                return self._estimate_prefix(column, self.inputs.resolve(value))
            case _:
                return _OTHER_SHARE

    def _count_by_index(self, term: Expr, column: Prop, kinds: tuple[str, ...]) -> float | None:
        """Return the share of rows that pass a term, counted by an index of one of these kinds; None without one."""
        where = build_table_filter(term, self.inputs)
        index = None if where is None or self.columns.costs.is_tiny else find_index(self.columns, column.name, kinds)
        if where is None or index is None:
            return None
        return count_share_by_index(self.columns, index, where, self.budget)

    def _estimate_prefix(self, column: Prop, prefix: Value) -> float:
        known = self._load_statistics(column)
        if known is None or not isinstance(prefix, str) or not prefix:
            return _OTHER_SHARE
        low, end = known.estimate_below(prefix, or_equal=False), find_prefix_end(prefix)
        high = 1 - known.nulls if end is None else known.estimate_below(end, or_equal=False)
        return _OTHER_SHARE if low is None or high is None else max(high - low, self._min_share)

    def _estimate_nulls(self, term: IsNull, operand: Expr) -> float:
        known = self._load_statistics(operand) if isinstance(operand, Prop) else None
        if known is None and isinstance(operand, Prop) and not term.negated:
            counted = self._count_by_index(term, operand, BITMAP_KINDS)
            return _NULL_SHARE if counted is None else counted
        return _NULL_SHARE if known is None else known.nulls

    def _estimate_comparison(self, term: Compare, column: RowValue, op: Op, value: Value) -> float:
        if value is None:
            return 0.0
        counted = self._count_by_index(term, column, BITMAP_KINDS) if isinstance(column, Prop) else None
        if counted is not None:
            return counted
        if op is Op.EQ:
            return self._estimate_equal(column, value)
        if op is Op.NE:
            return 1 - self._estimate_equal(column, value)
        return _RANGE_SHARE

    def _find_bound(self, term: Expr) -> tuple[str, float, float] | None:
        """The column that a term bounds, and the shares of rows that lie below the rows that pass, and up to them."""
        match term:
            case Compare(op=op, left=Prop() as column, right=Const() | ParamRef() | Now() as value):
                pass
            case Compare(op=op, left=Const() | ParamRef() | Now() as value, right=Prop() as column):
                op = op.mirrored
            case _:
                return None
        given = self.inputs.resolve(value)
        if op in (Op.EQ, Op.NE) or given is None:
            return None
        known = self._load_statistics(column)
        below = None if known is None else known.estimate_below(given, or_equal=op in (Op.LE, Op.GT))
        if known is None or below is None:
            return None
        return (column.name, 0.0, below) if op in (Op.LT, Op.LE) else (column.name, below, 1 - known.nulls)

    def _estimate_in_list(self, column: RowValue, items: Value) -> float:
        if not isinstance(items, tuple | list) or not items:
            return 0.0
        if len(items) > _MAX_ITEMS:
            return min(1.0, len(items) * self._estimate_equal(column, None))
        return min(1.0, sum(self._estimate_equal(column, item) for item in items))

    def _estimate_equal(self, column: RowValue, value: Value) -> float:
        """The share of rows with a value; None: with one that is not among the commonest."""
        name, count = get_column_name(column), max(self.columns.layout.count, 1)
        if isinstance(column, Identity) or (name,) in self.type.unique or self.type.key == (name,):
            return 1 / count
        known = self._load_statistics(column)
        if known is not None:
            return known.estimate_equal(value)
        match column.type:
            case EnumOf(values=values):
                return 1 / len(values)
            case Scalar.BOOL:
                return 0.5
            case _:
                return _EQUAL_SHARE

    def _load_statistics(self, column: RowValue) -> ColumnStatistics | Histogram | None:
        return (
            None
            if isinstance(column, Identity)
            else load_statistics(self.columns, column.name, column.type, self.budget)
        )
