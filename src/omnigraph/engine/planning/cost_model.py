"""What the planner expects: rows that pass, neighbours of a node, and how edges are best found.

The snapshot and the parameters decide, never what is in memory: the same question has the same plan in every process.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.operators.filter import build_conjunction, has_text_match
from omnigraph.engine.physical_plan import EdgeAccessMode
from omnigraph.engine.tables.column_statistics import load_statistics
from omnigraph.options import Traversal
from omnigraph.query.expr import Compare, Expr, In, Op, Prop
from omnigraph.query.logical_plan import Hop, HopDirection
from omnigraph.schema.arrow import DST, SRC

MAX_SMALL_EDGES = 50_000
"""The adjacency of an edge type up to this size is made at once: that costs less than a few look-ups."""
MAX_LOOKUP_SHARE = 0.01
"""Up to this share of all edges, single look-ups are cheaper than making the adjacency of all."""
_TEXT_SHARE, _EQUAL_SHARE, _OTHER_SHARE = 0.02, 0.05, 0.33
"""The shares of rows that pass a text search, an equality between variables, another predicate between variables."""
_MAX_FEW_ROWS = 16.0
_SCAN_COST = 0.02
"""What looking at a row in memory costs, next to following an edge."""


@dataclass(frozen=True, slots=True)
class CostModel:
    """Estimates for one plan; what was asked once is remembered."""

    context: ExecutionContext
    _counts: dict[str, float] = field(default_factory=dict)
    _passing: dict[int, tuple[Sequence[Expr], float]] = field(default_factory=dict)
    """By the identity of filters, which stay alive here."""

    def count(self, type_name: str) -> float:
        """How many rows a type has."""
        found = self._counts.get(type_name)
        if found is None:
            found = self._counts[type_name] = float(self.context.get_reader(type_name).count)
        return found

    def estimate_passing(self, type_name: str, filters: Sequence[Expr]) -> float:
        """How many rows of a type pass predicates of one variable."""
        if not filters:
            return self.count(type_name)
        known = self._passing.get(id(filters))
        if known is None:
            known = self._passing[id(filters)] = filters, self._estimate(type_name, filters)
        return known[1]

    def _estimate(self, type_name: str, filters: Sequence[Expr]) -> float:
        plain = [expr for expr in filters if not has_text_match(expr)]
        rows = self.context.get_reader(type_name)
        found = (
            rows.estimate(build_conjunction(plain), self.context.inputs, self.context.budget)
            if plain
            else float(rows.count)
        )
        return float(found * _TEXT_SHARE ** (len(filters) - len(plain)))

    def describe_access(self, type_name: str, filters: Sequence[Expr]) -> str:
        """How the rows of a type that pass are found, for people."""
        if not filters:
            return "every row"
        texts = any(has_text_match(expr) for expr in filters)
        plain = [expr for expr in filters if not has_text_match(expr)]
        ways = (
            [self.context.get_reader(type_name).describe_access(build_conjunction(plain), self.context.inputs)]
            if plain
            else []
        )
        return " and ".join([*ways, *(["words"] if texts else [])])

    def estimate_scan_cost(self, type_name: str, filters: Sequence[Expr], expected: float) -> float:
        """What finding them costs, in edges followed."""
        if not filters:
            return self.count(type_name) * _SCAN_COST
        return expected if expected <= _MAX_FEW_ROWS else expected + self.count(type_name) * _SCAN_COST

    def estimate_fan_out(self, hop: Hop, *, forward: bool) -> float:
        """How many far ends a near one has, on average."""
        near, far = (hop.source_type, hop.target_type) if forward else (hop.target_type, hop.source_type)
        single = self.count(hop.edge.name) / max(self.count(near), 1.0)
        single *= 2 if hop.direction is HopDirection.BOTH else 1
        if not hop.is_multi:
            return single
        reached = sum(single**distance for distance in range(hop.low, min(hop.high, 16) + 1))
        return min(reached, self.count(far))

    def estimate_edge_share(self, hop: Hop) -> float:
        """The share of a hop's edges that pass its filters."""
        if not hop.filters:
            return 1.0
        return self.estimate_passing(hop.edge.name, hop.filters) / max(self.count(hop.edge.name), 1.0)

    def estimate_combinations(self, type_name: str, values: Sequence[Expr]) -> float:
        """How many combinations of values the rows of one type have; as many as rows, where nothing better is known."""
        count, found = self.count(type_name), 1.0
        rows = self.context.get_reader(type_name)
        for value in values:
            known = None
            if isinstance(value, Prop):
                known = load_statistics(rows.columns, value.name, value.type, self.context.budget)
            found *= count if known is None else known.distinct + (1 if known.nulls else 0)
        return min(found, count)

    def estimate_selectivity(self, predicate: Expr) -> float:
        """The share of rows that pass a predicate of several variables."""
        match predicate:
            case Compare(op=Op.EQ) | In():
                return _EQUAL_SHARE
            case Compare(op=Op.NE):
                return 1 - _EQUAL_SHARE
            case _:
                return _OTHER_SHARE

    def choose_edge_access(self, hop: Hop, sources: float, *, forward: bool) -> tuple[EdgeAccessMode, str]:
        """How the edges of a hop are found from so many nodes, and why."""
        mode = self.context.traversal
        if mode is not Traversal.AUTO:
            access = EdgeAccessMode.CSR if mode is Traversal.CSR else EdgeAccessMode.INDEXED
            return access, f"asked for by traversal_mode {mode.value}"
        name = hop.edge.name
        edges = self.count(name)
        if edges <= MAX_SMALL_EDGES:
            return EdgeAccessMode.CSR, "a small edge type"
        shown = f"{sources:,.0f} {'source' if round(sources) == 1 else 'sources'}"
        if (
            sources * edges / max(self.count(hop.source_type if forward else hop.target_type), 1.0)
            > MAX_LOOKUP_SHARE * edges
        ):
            return EdgeAccessMode.CSR, f"{shown}, more than 1 % of the edges"
        missing = [column for column in _get_end_columns(hop, forward=forward) if not self._is_indexed(name, column)]
        if missing:
            return EdgeAccessMode.CSR, f"no index on {' and '.join(missing)}"
        return EdgeAccessMode.INDEXED, f"{shown}, at most 1 % of the edges"

    def _is_indexed(self, type_name: str, column: str) -> bool:
        indexes = self.context.get_reader(type_name).columns.list_indexes()
        return any(index.columns[0] == column for index in indexes)


def _get_end_columns(hop: Hop, *, forward: bool) -> tuple[str, ...]:
    """The columns of the edge table by which its edges are looked up."""
    if hop.direction is HopDirection.BOTH:
        return (SRC, DST)
    return (SRC,) if (hop.direction is HopDirection.OUT) == forward else (DST,)
