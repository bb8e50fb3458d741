"""Evaluate predicates over bindings: columns are fetched by variable, at the positions of the rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.engine.bindings import Positions
from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.operators.union_edges import unite_positions
from omnigraph.engine.predicate_eval import Column, VariableValue, evaluate_over, get_column_name
from omnigraph.engine.query_profile import QueryProfile
from omnigraph.engine.scalar_eval import OverflowLog
from omnigraph.engine.search.search_values import evaluate_search_value
from omnigraph.engine.search.text_match import evaluate_text_match, find_text_positions
from omnigraph.engine.tables.table_reader import TableReader
from omnigraph.engine.value_store import mask_missing, to_stored_type
from omnigraph.query.expr import (
    LIST_RANKS,
    Bm25,
    Compare,
    Distance,
    Entity,
    Expr,
    FuzzyScore,
    Identity,
    MetaColumn,
    Nearest,
    Op,
    SearchValue,
    Snippet,
    TextMatch,
    ValueRef,
)
from omnigraph.query.expr_tree import build_conjunction, find_variables, walk
from omnigraph.storage.arrow_buffers import build_array, read_booleans
from omnigraph.storage.columnar_sets import concat_chunks


@dataclass(frozen=True, slots=True)
class BindingValues:
    """The column values of bound variables, row by row."""

    columns: Mapping[str, Positions]
    size: int
    types: Mapping[str, str]
    context: ExecutionContext

    def read_column(self, expr: VariableValue) -> Column:
        """Return a property or id of a variable, or its value, in every row."""
        at = self.columns[expr.variable]
        if isinstance(expr, ValueRef):
            return self.context.values.take(expr.variable, at, to_stored_type(expr.type))
        return self.context.take_values(self.types[expr.variable], get_column_name(expr), at)

    def log_overflow(self, variable: str, log: OverflowLog) -> None:
        """Add the rows to `log` in which the value of a variable is null because a calculation overflowed."""
        self.context.values.log_overflow(variable, self.columns[variable], log)

    def read_positions(self, variable: str) -> Column:
        """Return the positions of a variable's rows; null where it has none."""
        return mask_missing(self.columns[variable])

    def read_property(self, type_name: str, column: str, at: Column) -> Column:
        """Return the values of a column at positions of a type's table; null where there is no position."""
        return self.context.take_at(type_name, column, at)

    def unite_positions(self, type_name: str, union_name: str, at: Column) -> Column:
        """Return positions of a type's table as positions of a union of types; null where there is none."""
        return unite_positions(at, type_name, union_name, self.context)

    def read_search_value(self, expr: SearchValue) -> Column:
        """Return a score, a distance or a passage in every row."""

        def evaluate(part: Expr, rows: Positions) -> pa.Array:
            columns = {name: column[rows] for name, column in self.columns.items()}
            values = BindingValues(columns, len(rows), self.types, self.context)
            return concat_chunks(evaluate_over(part, values, self.context.inputs))

        return evaluate_search_value(expr, self.columns, self.types, self.size, self.context, evaluate)

    def compare(self, expr: Compare) -> Column | None:
        """Compare two variables of the same type by their positions, or return None for any other comparison."""
        match expr:
            case Compare(
                op=Op.EQ | Op.NE, left=Identity(part=MetaColumn.ID) as left, right=Identity(part=MetaColumn.ID) as right
            ) if self.types[left.variable] == self.types[right.variable]:
                # A position identifies a row of its table, so no id has to be read.
                near, far = self.columns[left.variable], self.columns[right.variable]
                is_same = near == far if expr.op is Op.EQ else near != far
                if not (left.nullable or right.nullable):
                    return build_array(is_same)
                # A missing row has no id, so the comparison is unknown.
                return pa.array(is_same, pa.bool_(), mask=(near < 0) | (far < 0))
            case _:
                return None

    def match_text(self, expr: TextMatch) -> Column:
        """Return whether the text of each row matches; null where there is no text."""
        variable = expr.prop.variable
        return evaluate_text_match(self.context, expr, self.types[variable], self.columns[variable])


def to_mask(values: Column) -> NDArray[np.bool_]:
    """Return where a predicate is true; unknown counts as false."""
    return read_booleans(concat_chunks(values))


def has_search(expr: Expr) -> bool:
    """Return whether an expression contains a search or a whole node or edge, which no filter of a table evaluates."""
    return any(isinstance(part, _SEARCHES) for part in walk(expr))


_SEARCHES = (TextMatch, Nearest, Bm25, *LIST_RANKS, Distance, Snippet, FuzzyScore, Entity)


def evaluate_filters(
    filters: Sequence[Expr], type_name: str, at: Positions, context: ExecutionContext
) -> NDArray[np.bool_]:
    """Return which of these rows, in any order, pass every predicate; each predicate reads one variable alone."""
    mask = np.ones(len(at), np.bool_)
    for expr in filters:
        names = find_variables(expr)
        # Each predicate reads only the rows that passed those before it.
        passing = at[mask]
        values = BindingValues(dict.fromkeys(names, passing), len(passing), dict.fromkeys(names, type_name), context)
        mask[mask] = to_mask(evaluate_over(expr, values, context.inputs))
    return mask


def find_rows(
    filters: Sequence[Expr], type_name: str, within: Positions | None, context: ExecutionContext
) -> NDArray[np.int64]:
    """Return the rows, ascending, that pass every predicate of one variable; only those of `within`, which ascends."""
    table = context.get_reader(type_name)
    rows = within
    # Predicates without a text search go to the table in one conjunction, which can use its indexes.
    searches = [expr for expr in filters if has_search(expr)]
    plain = [expr for expr in filters if expr not in searches] if searches else list(filters)
    if plain:
        if context.profile is not None and rows is None:
            _note_access(table, build_conjunction(plain), context, context.profile)
        rows = table.find_where(build_conjunction(plain), context.inputs, rows, context.budget)
    for expr in searches:
        if isinstance(expr, TextMatch):
            matching = find_text_positions(context, expr, type_name)
            rows = matching if rows is None else np.intersect1d(rows, matching, assume_unique=True)
        else:
            # Scores, and a text search within `or` or `not`, have no list of rows: they are evaluated row by row.
            rows = table.get_positions() if rows is None else rows
            rows = rows[evaluate_filters((expr,), type_name, rows, context)]
    return table.get_positions() if rows is None else rows.astype(np.int64, copy=False)


def _note_access(table: TableReader, predicate: Expr, context: ExecutionContext, profile: QueryProfile) -> None:
    """Record the access path in the profile if it differs from the planned one."""
    access = table.describe_current_access(predicate, context.inputs)
    if access != table.describe_access(predicate, context.inputs):
        profile.note_choice(f"{table.type.name} by {access}")
