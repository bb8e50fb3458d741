"""What predicates read of bindings: columns by variable, fetched at the rows' positions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.bindings import Positions
from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.predicate_eval import Column, RowValue, evaluate_over, get_column_name
from omnigraph.engine.query_profile import QueryProfile
from omnigraph.engine.search.text_match import evaluate_text_match, find_text_positions
from omnigraph.engine.tables.table_reader import TableReader
from omnigraph.query.expr import And, Compare, Expr, Identity, MetaColumn, Op, TextMatch, find_variables, walk
from omnigraph.storage.arrow_buffers import build_array
from omnigraph.storage.arrow_buffers import read_booleans as plain_truths
from omnigraph.storage.columnar_sets import concat_chunks


@dataclass(frozen=True, slots=True)
class BindingValues:
    """The values of bound variables, row by row."""

    columns: Mapping[str, Positions]
    size: int
    types: Mapping[str, str]
    context: ExecutionContext

    def read_column(self, expr: RowValue) -> Column:
        """A property or id of a variable in every row."""
        rows = self.context.get_reader(self.types[expr.variable])
        return rows.take_values(get_column_name(expr), self.columns[expr.variable], self.context.budget)

    def compare(self, expr: Compare) -> Column | None:
        """Whether two variables of one type are the same row, by their positions."""
        match expr:
            case Compare(
                op=Op.EQ | Op.NE, left=Identity(part=MetaColumn.ID) as left, right=Identity(part=MetaColumn.ID) as right
            ) if self.types[left.variable] == self.types[right.variable]:
                same = self.columns[left.variable] == self.columns[right.variable]
                return build_array(same if expr.op is Op.EQ else ~same)
            case _:
                return None

    def match_text(self, expr: TextMatch) -> Column:
        """Whether a text is found; unknown where there is none."""
        variable = expr.prop.variable
        return evaluate_text_match(self.context, expr, self.types[variable], self.columns[variable])


def to_mask(found: Column) -> NDArray[np.bool_]:
    """Where a predicate is true; unknown is not."""
    return plain_truths(concat_chunks(found))


def has_text_match(expr: Expr) -> bool:
    """Whether a text search is part of it."""
    if isinstance(expr, Compare):
        return False  # of values, which hold no predicate
    return any(isinstance(part, TextMatch) for part in walk(expr))


def evaluate_filters(
    filters: Sequence[Expr], type_name: str, at: Positions, reading: ExecutionContext
) -> NDArray[np.bool_]:
    """Which of these rows, in any order, every predicate is true for; each reads one variable alone."""
    mask = np.ones(len(at), np.bool_)
    for expr in filters:
        names = find_variables(expr)
        left = at[mask]
        values = BindingValues(dict.fromkeys(names, left), len(left), dict.fromkeys(names, type_name), reading)
        mask[mask] = to_mask(evaluate_over(expr, values, reading.inputs))
    return mask


def find_rows(
    filters: Sequence[Expr], type_name: str, within: Positions | None, reading: ExecutionContext
) -> NDArray[np.int64]:
    """The rows, ascending, that every predicate of one variable is true for; only those `within`, which ascends."""
    rows = reading.get_reader(type_name)
    found = within
    plain = [expr for expr in filters if not has_text_match(expr)]
    if plain:
        if reading.profile is not None and found is None:
            _note_access(rows, build_conjunction(plain), reading, reading.profile)
        found = rows.find_where(build_conjunction(plain), reading.inputs, found, reading.budget)
    for expr in filters:
        if isinstance(expr, TextMatch):
            texts = find_text_positions(reading, expr, type_name)
            found = texts if found is None else np.intersect1d(found, texts, assume_unique=True)
        elif has_text_match(expr):
            found = rows.get_positions() if found is None else found
            found = found[evaluate_filters((expr,), type_name, found, reading)]
    return rows.get_positions() if found is None else found.astype(np.int64, copy=False)


def _note_access(rows: TableReader, predicate: Expr, reading: ExecutionContext, trace: QueryProfile) -> None:
    """Tell how rows are found now, where the plan leaves that open."""
    way = rows.describe_current_access(predicate, reading.inputs)
    if way != rows.describe_access(predicate, reading.inputs):
        trace.note_choice(f"{rows.type.name} by {way}")


def build_conjunction(terms: Sequence[Expr]) -> Expr:
    """All of one or more terms as one predicate."""
    return terms[0] if len(terms) == 1 else And(terms=tuple(terms), origin=terms[0].origin)
