"""Estimate the selectivity of a predicate: from indexes and statistics of its columns, else by rules of thumb.

Only the table version decides, never what is in memory: a plan is the same in every process (decision 17).
"""

from dataclasses import dataclass
from math import prod

from omnigraph.engine.predicate_eval import RowValue, get_column_name
from omnigraph.engine.query_budget import Budget
from omnigraph.engine.query_inputs import QueryInputs
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

# The shares of rows that are assumed to pass if nothing is known about the values.
_EQUAL_SHARE = 0.05
_RANGE_SHARE = 0.33
_NULL_SHARE = 0.1
_OTHER_SHARE = 0.2
# In a longer list, every item counts as an average value instead of being looked up individually.
_MAX_ITEMS = 64


def estimate_selectivity(
    columns: ColumnStore, type_: AnyType, terms: tuple[Expr, ...], inputs: QueryInputs, budget: Budget | None = None
) -> float:
    """Estimate the share of rows that satisfy all terms, assuming that these are independent."""
    estimator = _SelectivityEstimator(columns, type_, inputs, budget)
    return min(1.0, max(0.0, estimator.estimate_all(terms)))


@dataclass(frozen=True, slots=True)
class _SelectivityEstimator:
    """Estimate selectivities for one table version and one call."""

    columns: ColumnStore
    type: AnyType
    inputs: QueryInputs
    budget: Budget | None

    def estimate_all(self, terms: tuple[Expr, ...]) -> float:
        """Estimate the share of rows that satisfy all terms; the bounds of one column are combined into one range."""
        share = 1.0
        # Two bounds of one column are not independent: `x > 1 and x < 3` is a range.
        ranges: dict[str, tuple[float, float]] = {}
        for term in terms:
            bound = self._find_bound(term)
            if bound is None:
                share *= self.estimate(term)
                continue
            name, low, high = bound
            old_low, old_high = ranges.get(name, (0.0, 1.0))
            ranges[name] = max(old_low, low), min(old_high, high)
        return share * prod(max(high - low, self._min_share) for low, high in ranges.values())

    @property
    def _min_share(self) -> float:
        """The share of one row."""
        return 1 / max(self.columns.layout.count, 1)

    def estimate(self, term: Expr) -> float:
        """Estimate the share of rows that satisfy a term."""
        match term:
            case Const():
                return float(term.value is True)
            case And(terms=terms):
                return self.estimate_all(terms)
            case Or(terms=terms):
                # Alternatives are assumed to be independent, too.
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
        """Return the share of rows that satisfy a term, counted by an index of one of these kinds; None without one."""
        where = build_table_filter(term, self.inputs)
        index = None if where is None or self.columns.costs.is_tiny else find_index(self.columns, column.name, kinds)
        if where is None or index is None:
            return None
        return count_share_by_index(self.columns, index, where, self.budget)

    def _estimate_prefix(self, column: Prop, prefix: Value) -> float:
        statistics = self._load_statistics(column)
        if statistics is None or not isinstance(prefix, str) or not prefix:
            return _OTHER_SHARE
        # A prefix is the range from the prefix itself to the next text that does not start with it.
        low = statistics.estimate_below(prefix, or_equal=False)
        end = find_prefix_end(prefix)
        high = 1 - statistics.nulls if end is None else statistics.estimate_below(end, or_equal=False)
        return _OTHER_SHARE if low is None or high is None else max(high - low, self._min_share)

    def _estimate_nulls(self, term: IsNull, operand: Expr) -> float:
        statistics = self._load_statistics(operand) if isinstance(operand, Prop) else None
        if statistics is None and isinstance(operand, Prop) and not term.negated:
            counted = self._count_by_index(term, operand, BITMAP_KINDS)
            return _NULL_SHARE if counted is None else counted
        return _NULL_SHARE if statistics is None else statistics.nulls

    def _estimate_comparison(self, term: Compare, column: RowValue, op: Op, value: Value) -> float:
        # A comparison with null is never true.
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
        """Return the column that a term bounds, and between which quantiles passing rows lie; else None."""
        match term:
            case Compare(op=op, left=Prop() as column, right=Const() | ParamRef() | Now() as value):
                pass
            case Compare(op=op, left=Const() | ParamRef() | Now() as value, right=Prop() as column):
                op = op.mirrored
            case _:
                return None
        bound = self.inputs.resolve(value)
        if op in (Op.EQ, Op.NE) or bound is None:
            return None
        statistics = self._load_statistics(column)
        # The quantile of the bound: `<=` and `>` put rows equal to it below, `<` and `>=` above.
        below = None if statistics is None else statistics.estimate_below(bound, or_equal=op in (Op.LE, Op.GT))
        if statistics is None or below is None:
            return None
        return (column.name, 0.0, below) if op in (Op.LT, Op.LE) else (column.name, below, 1 - statistics.nulls)

    def _estimate_in_list(self, column: RowValue, items: Value) -> float:
        if not isinstance(items, tuple | list) or not items:
            return 0.0
        if len(items) > _MAX_ITEMS:
            return min(1.0, len(items) * self._estimate_equal(column, None))
        return min(1.0, sum(self._estimate_equal(column, item) for item in items))

    def _estimate_equal(self, column: RowValue, value: Value) -> float:
        """Estimate the share of rows that have a value; with None, of one that is not among the common ones."""
        name = get_column_name(column)
        if isinstance(column, Identity) or (name,) in self.type.unique or self.type.key == (name,):
            return self._min_share
        statistics = self._load_statistics(column)
        if statistics is not None:
            return statistics.estimate_equal(value)
        match column.type:
            case EnumOf(values=values):
                return 1 / len(values)
            case Scalar.BOOL:
                return 0.5
            case _:
                return _EQUAL_SHARE

    def _load_statistics(self, column: RowValue) -> ColumnStatistics | Histogram | None:
        if isinstance(column, Identity):
            return None
        return load_statistics(self.columns, column.name, column.type, self.budget)
