"""Searches of a query on Spark: our own engine finds the rows, and ships them as columns of their types.

A text match, a score or a passage depends on a row and the whole table alone, not on the pattern around it. So it is a
column of its table, as if it were stored: the driver computes it once, and scans join it by id.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import Enum
from typing import TypeAlias, TypeVar, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.bindings import Positions
from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.operators.filter import BindingValues
from omnigraph.engine.physical_plan import PhysicalPlan
from omnigraph.engine.predicate_eval import evaluate_over, find_columns
from omnigraph.engine.relational.tree import ComputedRows
from omnigraph.engine.search.ranking import rank_rows
from omnigraph.query.expr import Bm25, Expr, FuzzyScore, ListRank, Nearest, Prop, Snippet, TextMatch
from omnigraph.query.expr_tree import map_children
from omnigraph.query.logical_plan import ReadQuery
from omnigraph.schema.arrow import ID
from omnigraph.storage.columnar_sets import concat_chunks

# No property can have such a name.
_PREFIX = "@search "
# The column of a shipped view beside the id.
VALUE_COLUMN = "value"
Search: TypeAlias = TextMatch | Nearest | Bm25 | Snippet | FuzzyScore
_Part = TypeVar("_Part")
Build: TypeAlias = Callable[[], pa.Table]


def is_search_column(name: str) -> bool:
    """Return whether a column of a table is computed by a search."""
    return name.startswith(_PREFIX)


def find_search_columns(expr: Expr) -> list[str]:
    """Return the columns of searches that an expression reads."""
    return [name for name in find_columns(expr) if is_search_column(name)]


@dataclass(slots=True)
class SearchColumns:
    """The searches of a query as columns, and how to compute them."""

    context: ExecutionContext
    ship: Callable[[Build, tuple[str, ...]], ComputedRows] | None = None
    """Adds a view of rows that are computed when the query runs."""
    _exprs: list[Search] = field(default_factory=list)
    _rows: dict[tuple[str, str], ComputedRows] = field(default_factory=dict)

    def replace_plan(self, plan: PhysicalPlan) -> PhysicalPlan:
        """Return the steps of a plan with columns in place of searches."""
        return replace(plan, steps=self._replace_all(plan.steps))

    def replace_query(self, query: ReadQuery) -> ReadQuery:
        """Return the output of a read with columns in place of searches; its rank stays."""
        names = ("output", "grouping", "having", "order", "ties", "per")
        return replace(query, **{name: self._replace_all(getattr(query, name)) for name in names})

    def replace_expr(self, expr: Expr) -> Expr:
        """Return an expression with columns in place of searches."""
        if not isinstance(expr, Search):
            return map_children(expr, self.replace_expr)
        if expr not in self._exprs:
            self._exprs.append(expr)
        name = f"{_PREFIX}{self._exprs.index(expr)}"
        type_ = expr.type
        return Prop(variable=expr.prop.variable, name=name, type=type_, nullable=True, origin=expr.origin)

    def _replace_all(self, value: _Part) -> _Part:
        """Return a part of a plan with all of its expressions replaced; one without a search stays the same object."""
        if isinstance(value, tuple):
            changed = tuple(map(self._replace_all, value))
            is_changed = any(a is not b for a, b in zip(changed, value, strict=True))
            return cast("_Part", changed) if is_changed else value
        if isinstance(value, Expr):
            replaced = self.replace_expr(value)
            return value if replaced == value else cast("_Part", replaced)
        if not is_dataclass(value) or isinstance(value, type | Enum):
            return value
        own = {each.name: getattr(value, each.name) for each in fields(value) if each.init}
        items = {name: self._replace_all(item) for name, item in own.items()}
        items = {name: item for name, item in items.items() if item is not own[name]}
        return replace(value, **items) if items else value

    def get_rows(self, type_name: str, name: str) -> ComputedRows:
        """Return the view with the ids and values of a search over a type."""
        rows = self._rows.get((type_name, name))
        if rows is None:
            assert self.ship is not None  # noqa: S101 - set before anything is printed
            expr = self._get(name)
            rows = self.ship(lambda: self._compute(expr, type_name), (ID, VALUE_COLUMN))
            self._rows[type_name, name] = rows
        return rows

    def print_value(self, name: str, rows: str) -> str:
        """Return the value of a search in a row of its type, joined with `rows`: those that it found."""
        value = f"{rows}.{VALUE_COLUMN}"
        # Texts that don't match are not shipped.
        return f"IF({rows}.{ID} IS NULL, FALSE, {value})" if isinstance(self._get(name), TextMatch) else value

    def _get(self, name: str) -> Search:
        return self._exprs[int(name.removeprefix(_PREFIX))]

    def _compute(self, expr: Search, type_name: str) -> pa.Table:
        """Return the ids of the rows for which a search has a value, or a text is not known not to match."""
        context = self.context
        at = context.get_reader(type_name).get_positions()
        variable = expr.prop.variable
        values = BindingValues({variable: at}, len(at), {variable: type_name}, context)
        found = concat_chunks(evaluate_over(expr, values, context.inputs))
        is_kept = pc.fill_null(found, True) if isinstance(expr, TextMatch) else found.is_valid()
        return pa.table({ID: self._take_ids(type_name, at[np.asarray(is_kept)]), VALUE_COLUMN: found.filter(is_kept)})

    def _take_ids(self, type_name: str, at: Positions) -> pa.Array:
        return concat_chunks(self.context.take_values(type_name, ID, at)).cast(pa.utf8())

    def rank_ids(self, rank: ListRank, type_name: str, ids: pa.Array, top: int | None) -> pa.Table:
        """Return the scores of candidates that Spark has found: the first `top`, with all ties."""
        context = self.context
        at = context.get_reader(type_name).get_positions()
        candidates = at[np.asarray(pc.is_in(self._take_ids(type_name, at), value_set=ids))]
        ranked = rank_rows(context, rank, type_name, candidates, top, with_ties=True)
        scores = pa.array(ranked.values, pa.float64())
        return pa.table({ID: self._take_ids(type_name, ranked.positions), VALUE_COLUMN: scores})
