"""What the planner expects: rows that pass, neighbours of a node, and how edges are best found.

The snapshot and the parameters decide, never what is in memory: the same question has the same plan in every process.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from omnigraph.engine.execution_context import Reading
from omnigraph.engine.operators.filter import conjunction, has_text_match
from omnigraph.engine.physical_plan import Access
from omnigraph.engine.tables.column_statistics import statistics
from omnigraph.options import Traversal
from omnigraph.query.expr import Compare, Expr, In, Op, Prop
from omnigraph.query.logical_plan import Direction, Hop
from omnigraph.schema.arrow import DST, SRC

SMALL_EDGES = 50_000
"""The adjacency of an edge type up to this size is made at once: that costs less than a few look-ups."""
LOOKUP_SHARE = 0.01
"""Up to this share of all edges, single look-ups are cheaper than making the adjacency of all."""
_TEXT, _EQUAL, _OTHER = 0.02, 0.05, 0.33
"""The shares of rows that pass a text search, an equality between variables, another predicate between variables."""
_FEW = 16.0
_SCANNED = 0.02
"""What looking at a row in memory costs, next to following an edge."""


@dataclass(frozen=True, slots=True)
class Costs:
    """Estimates for one plan; what was asked once is remembered."""

    reading: Reading
    _counts: dict[str, float] = field(default_factory=dict)
    _passing: dict[int, tuple[Sequence[Expr], float]] = field(default_factory=dict)
    """By the identity of filters, which stay alive here."""

    def count(self, type_name: str) -> float:
        """How many rows a type has."""
        found = self._counts.get(type_name)
        if found is None:
            found = self._counts[type_name] = float(self.reading.rows(type_name).count)
        return found

    def passing(self, type_name: str, filters: Sequence[Expr]) -> float:
        """How many rows of a type pass predicates of one variable."""
        if not filters:
            return self.count(type_name)
        known = self._passing.get(id(filters))
        if known is None:
            known = self._passing[id(filters)] = filters, self._estimate(type_name, filters)
        return known[1]

    def _estimate(self, type_name: str, filters: Sequence[Expr]) -> float:
        plain = [expr for expr in filters if not has_text_match(expr)]
        rows = self.reading.rows(type_name)
        found = (
            rows.estimate(conjunction(plain), self.reading.inputs, self.reading.budget) if plain else float(rows.count)
        )
        return float(found * _TEXT ** (len(filters) - len(plain)))

    def access(self, type_name: str, filters: Sequence[Expr]) -> str:
        """How the rows of a type that pass are found, for people."""
        if not filters:
            return "every row"
        texts = any(has_text_match(expr) for expr in filters)
        plain = [expr for expr in filters if not has_text_match(expr)]
        ways = [self.reading.rows(type_name).access(conjunction(plain), self.reading.inputs)] if plain else []
        return " and ".join([*ways, *(["words"] if texts else [])])

    def looking(self, type_name: str, filters: Sequence[Expr], expected: float) -> float:
        """What finding them costs, in edges followed."""
        if not filters:
            return self.count(type_name) * _SCANNED
        return expected if expected <= _FEW else expected + self.count(type_name) * _SCANNED

    def fan_out(self, hop: Hop, *, forward: bool) -> float:
        """How many far ends a near one has, on average."""
        near, far = (hop.source_type, hop.target_type) if forward else (hop.target_type, hop.source_type)
        single = self.count(hop.edge.name) / max(self.count(near), 1.0)
        single *= 2 if hop.direction is Direction.BOTH else 1
        if not hop.is_multi:
            return single
        reached = sum(single**distance for distance in range(hop.low, min(hop.high, 16) + 1))
        return min(reached, self.count(far))

    def edge_share(self, hop: Hop) -> float:
        """The share of a hop's edges that pass its filters."""
        if not hop.filters:
            return 1.0
        return self.passing(hop.edge.name, hop.filters) / max(self.count(hop.edge.name), 1.0)

    def combinations(self, type_name: str, values: Sequence[Expr]) -> float:
        """How many combinations of values the rows of one type have; as many as rows, where nothing better is known."""
        count, found = self.count(type_name), 1.0
        rows = self.reading.rows(type_name)
        for value in values:
            known = None
            if isinstance(value, Prop):
                known = statistics(rows.columns, value.name, value.type, self.reading.budget)
            found *= count if known is None else known.distinct + (1 if known.nulls else 0)
        return min(found, count)

    def share(self, predicate: Expr) -> float:
        """The share of rows that pass a predicate of several variables."""
        match predicate:
            case Compare(op=Op.EQ) | In():
                return _EQUAL
            case Compare(op=Op.NE):
                return 1 - _EQUAL
            case _:
                return _OTHER

    def edges_by(self, hop: Hop, sources: float, *, forward: bool) -> tuple[Access, str]:
        """How the edges of a hop are found from so many nodes, and why."""
        mode = self.reading.traversal
        if mode is not Traversal.AUTO:
            access = Access.CSR if mode is Traversal.CSR else Access.INDEXED
            return access, f"asked for by traversal_mode {mode.value}"
        name = hop.edge.name
        edges = self.count(name)
        if edges <= SMALL_EDGES:
            return Access.CSR, "a small edge type"
        shown = f"{sources:,.0f} {'source' if round(sources) == 1 else 'sources'}"
        if (
            sources * edges / max(self.count(hop.source_type if forward else hop.target_type), 1.0)
            > LOOKUP_SHARE * edges
        ):
            return Access.CSR, f"{shown}, more than 1 % of the edges"
        missing = [column for column in _ends(hop, forward=forward) if not self._is_indexed(name, column)]
        if missing:
            return Access.CSR, f"no index on {' and '.join(missing)}"
        return Access.INDEXED, f"{shown}, at most 1 % of the edges"

    def _is_indexed(self, type_name: str, column: str) -> bool:
        indexes = self.reading.rows(type_name).columns.indexes()
        return any(index.columns[0] == column for index in indexes)


def _ends(hop: Hop, *, forward: bool) -> tuple[str, ...]:
    """The columns of the edge table by which its edges are looked up."""
    if hop.direction is Direction.BOTH:
        return (SRC, DST)
    return (SRC,) if (hop.direction is Direction.OUT) == forward else (DST,)
