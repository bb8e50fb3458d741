"""Estimate rows, fan-out and costs for the planner, and choose how edges are accessed.

Only the snapshot and the parameters decide, never what is in memory: the same query has the same plan in every process
(decision 17).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.operators.filter import has_search
from omnigraph.engine.physical_plan import EdgeAccessMode
from omnigraph.engine.tables.column_statistics import load_statistics
from omnigraph.options import Traversal
from omnigraph.query.expr import Compare, Computed, Const, Expr, In, Op, ParamRef, Prop, RecordsParam
from omnigraph.query.expr_tree import build_conjunction
from omnigraph.query.logical_plan import Hop, HopDirection
from omnigraph.query.record_params import RecordRows
from omnigraph.query.scalar_functions import ScalarFunction
from omnigraph.query.union_types import list_members
from omnigraph.query.walk_plan import WalkKind
from omnigraph.schema.arrow import DST, SRC

# The adjacency of an edge type up to this size is always built: that costs less than a few lookups.
MAX_SMALL_EDGES = 50_000
# Up to this share of all edges, single lookups are cheaper than building the adjacency of all.
MAX_LOOKUP_SHARE = 0.01
# The shares of rows that are assumed to pass a text search, an equality between variables, and any other predicate
# between variables.
_TEXT_SHARE = 0.02
_EQUAL_SHARE = 0.05
_OTHER_SHARE = 0.33
# The number of elements that a list of a row is assumed to have.
_LIST_ELEMENTS = 4.0
# Up to this number of rows, no pass over the table is charged.
_MAX_FEW_ROWS = 16.0
# The number of edges that a named pattern is assumed to stand for.
_DERIVED_EDGES = 10_000.0
# A walk of more edges is expected to reach no more nodes.
_MAX_SUMMED_DISTANCE = 16
# 64 edges of this degree, which is the longest bound, lead to 10^256 nodes.
_MAX_DEGREE = 10_000.0
# The cost of reading a row in memory, relative to following an edge.
_SCAN_COST = 0.02


@dataclass(frozen=True, slots=True)
class CostModel:
    """Estimates for one plan, remembered once they are computed."""

    context: ExecutionContext
    _counts: dict[str, float] = field(default_factory=dict)
    # By the `id()` of filters, which are referenced here so that it is not reused.
    _passing: dict[int, tuple[Sequence[Expr], float]] = field(default_factory=dict)

    def count(self, type_name: str) -> float:
        """Return the number of rows of a type."""
        rows = self._counts.get(type_name)
        if rows is None and type_name[:1].islower():
            # The edges of a named pattern: how many there are is not known before it is solved.
            rows = self._counts[type_name] = _DERIVED_EDGES
        if rows is None:
            rows = self._counts[type_name] = float(self.context.get_reader(type_name).count)
        return rows

    def estimate_passing(self, type_name: str, filters: Sequence[Expr]) -> float:
        """Estimate the number of rows of a type that pass predicates of one variable."""
        if not filters:
            return self.count(type_name)
        cached = self._passing.get(id(filters))
        if cached is None:
            cached = self._passing[id(filters)] = filters, self._estimate(type_name, filters)
        return cached[1]

    def _estimate(self, type_name: str, filters: Sequence[Expr]) -> float:
        plain = [expr for expr in filters if not has_search(expr)]
        reader = self.context.get_reader(type_name)
        rows = float(reader.count)
        if plain:
            rows = reader.estimate(build_conjunction(plain), self.context.inputs, self.context.budget)
        # How many rows a text search matches is not known before it runs.
        return float(rows * _TEXT_SHARE ** (len(filters) - len(plain)))

    def describe_access(self, type_name: str, filters: Sequence[Expr]) -> str:
        """Describe how the rows of a type that pass are found, for `explain`."""
        if not filters:
            return "every row"
        plain = [expr for expr in filters if not has_search(expr)]
        methods = []
        if plain:
            reader = self.context.get_reader(type_name)
            methods.append(reader.describe_access(build_conjunction(plain), self.context.inputs))
        if len(plain) < len(filters):
            methods.append("words")
        return " and ".join(methods)

    def estimate_scan_cost(self, type_name: str, filters: Sequence[Expr], expected: float) -> float:
        """Estimate the cost of finding the rows that pass, in edges followed."""
        if not filters:
            return self.count(type_name) * _SCAN_COST
        return expected if expected <= _MAX_FEW_ROWS else expected + self.count(type_name) * _SCAN_COST

    def estimate_fan_out(self, hop: Hop, *, forward: bool) -> float:
        """Estimate the average number of far ends of a near one."""
        near, far = (hop.source_type, hop.target_type) if forward else (hop.target_type, hop.source_type)
        degree = self.count(hop.edge.name) / max(self.count(near), 1.0)
        degree *= 2 if hop.direction is HopDirection.BOTH else 1
        if not hop.is_multi:
            return degree
        # At most 16 distances are added up; the number of nodes limits the result.
        high = _MAX_SUMMED_DISTANCE if hop.high is None else min(hop.high, _MAX_SUMMED_DISTANCE)
        # The largest power is far above any count, and below the largest float.
        reached = sum(min(degree, _MAX_DEGREE) ** distance for distance in range(hop.low, max(hop.low, high) + 1))
        # Of several walks between two nodes each is a match, unless one is chosen.
        is_each = hop.walk is not None and hop.walk.kind in (WalkKind.PATH, WalkKind.ALL_SHORTEST)
        return reached if is_each else min(reached, self.count(far))

    def estimate_edge_share(self, hop: Hop) -> float:
        """Estimate the share of a hop's edges that pass its filters."""
        if not hop.filters and not hop.along:
            return 1.0
        # A walk needs more than one edge that passes; one is a fair guess, and never too low.
        filters = hop.filters or hop.along
        return self.estimate_passing(hop.edge.name, filters) / max(self.count(hop.edge.name), 1.0)

    def estimate_combinations(self, type_name: str, values: Sequence[Expr]) -> float:
        """Estimate the number of distinct combinations of values of one type, at most its number of rows."""
        count = self.count(type_name)
        combinations = 1.0
        members = list_members(type_name)
        if len(members) > 1:
            # At most as many as the members have together.
            return min(count, sum(self.estimate_combinations(member, values) for member in members))
        reader = self.context.get_reader(type_name)
        for value in values:
            statistics = None
            if isinstance(value, Prop) and reader.type.find_property(value.name) is not None:
                statistics = load_statistics(reader.columns, value.name, value.type, self.context.budget)
            if statistics is None:
                combinations *= count
            else:
                # Null is a value of its own.
                combinations *= statistics.distinct + bool(statistics.nulls)
        return min(combinations, count)

    def estimate_elements(self, expr: Expr) -> float:
        """Estimate the number of elements of a list; the length of a literal or parameter is known."""
        match expr:
            case Const(value=tuple() as items):
                return float(len(items))
            case ParamRef() | RecordsParam():
                items_given = self.context.inputs.params.get(expr.name)
                return float(len(items_given)) if isinstance(items_given, tuple | RecordRows) else 0.0
            case Computed(function=ScalarFunction.LIST):
                return float(len(expr.arguments))
            case _:
                return _LIST_ELEMENTS

    def estimate_selectivity(self, predicate: Expr) -> float:
        """Estimate the share of rows that pass a predicate of several variables."""
        match predicate:
            case Compare(op=Op.EQ) | In():
                return _EQUAL_SHARE
            case Compare(op=Op.NE):
                return 1 - _EQUAL_SHARE
            case _:
                return _OTHER_SHARE

    def choose_edge_access(self, hop: Hop, sources: float, *, forward: bool) -> tuple[EdgeAccessMode, str]:
        """Choose how the edges of a hop are found from this number of nodes, and say why."""
        if hop.derived is not None:
            return EdgeAccessMode.CSR, "a named pattern"
        if hop.walk is not None or hop.along or hop.through:
            return EdgeAccessMode.CSR, "a path" if hop.walk is not None else "conditions on the way"
        mode = self.context.traversal
        if mode is not Traversal.AUTO:
            access = EdgeAccessMode.CSR if mode is Traversal.CSR else EdgeAccessMode.INDEXED
            return access, f"requested by traversal_mode {mode.value}"
        name = hop.edge.name
        edges = self.count(name)
        if edges <= MAX_SMALL_EDGES:
            return EdgeAccessMode.CSR, "a small edge type"
        shown = f"{sources:,.0f} {'source' if round(sources) == 1 else 'sources'}"
        near = hop.source_type if forward else hop.target_type
        if sources * edges / max(self.count(near), 1.0) > MAX_LOOKUP_SHARE * edges:
            return EdgeAccessMode.CSR, f"{shown}, more than 1 % of the edges"
        missing = [column for column in _get_end_columns(hop, forward=forward) if not self._is_indexed(name, column)]
        if missing:
            return EdgeAccessMode.CSR, f"no index on {' and '.join(missing)}"
        return EdgeAccessMode.INDEXED, f"{shown}, at most 1 % of the edges"

    def _is_indexed(self, type_name: str, column: str) -> bool:
        for member in list_members(type_name):
            indexes = self.context.get_reader(member).columns.list_indexes()
            if not any(index.columns[0] == column for index in indexes):
                return False
        return True


def _get_end_columns(hop: Hop, *, forward: bool) -> tuple[str, ...]:
    """Return the columns of the edge table by which its edges are looked up."""
    if hop.direction is HopDirection.BOTH or hop.members:
        return (SRC, DST)
    return (SRC,) if (hop.direction is HopDirection.OUT) == forward else (DST,)
