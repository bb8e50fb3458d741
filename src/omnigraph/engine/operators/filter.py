"""What predicates read of bindings: columns by variable, fetched at the rows' positions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.bindings import Positions
from omnigraph.engine.execution_context import Reading
from omnigraph.engine.predicate_eval import Column, RowValue, column_of, evaluate_over
from omnigraph.engine.query_profile import Trace
from omnigraph.engine.search.text_match import text_positions, text_truths
from omnigraph.engine.tables.table_reader import TableRows
from omnigraph.query.expr import And, Compare, Expr, Identity, Meta, Op, TextMatch, variables, walk
from omnigraph.storage.arrow_buffers import array_of
from omnigraph.storage.arrow_buffers import truths as plain_truths
from omnigraph.storage.columnar_sets import one_array


@dataclass(frozen=True, slots=True)
class BindingValues:
    """The values of bound variables, row by row."""

    columns: Mapping[str, Positions]
    size: int
    types: Mapping[str, str]
    reading: Reading

    def column(self, expr: RowValue) -> Column:
        """A property or id of a variable in every row."""
        rows = self.reading.rows(self.types[expr.variable])
        return rows.values(column_of(expr), self.columns[expr.variable], self.reading.budget)

    def comparison(self, expr: Compare) -> Column | None:
        """Whether two variables of one type are the same row, by their positions."""
        match expr:
            case Compare(
                op=Op.EQ | Op.NE, left=Identity(part=Meta.ID) as left, right=Identity(part=Meta.ID) as right
            ) if self.types[left.variable] == self.types[right.variable]:
                same = self.columns[left.variable] == self.columns[right.variable]
                return array_of(same if expr.op is Op.EQ else ~same)
            case _:
                return None

    def matches(self, expr: TextMatch) -> Column:
        """Whether a text is found; unknown where there is none."""
        variable = expr.prop.variable
        return text_truths(self.reading, expr, self.types[variable], self.columns[variable])


def truths(found: Column) -> NDArray[np.bool_]:
    """Where a predicate is true; unknown is not."""
    return plain_truths(one_array(found))


def has_text_match(expr: Expr) -> bool:
    """Whether a text search is part of it."""
    if isinstance(expr, Compare):
        return False  # of values, which hold no predicate
    return any(isinstance(part, TextMatch) for part in walk(expr))


def passing(filters: Sequence[Expr], type_name: str, at: Positions, reading: Reading) -> NDArray[np.bool_]:
    """Which of these rows, in any order, every predicate is true for; each reads one variable alone."""
    mask = np.ones(len(at), np.bool_)
    for expr in filters:
        names = variables(expr)
        left = at[mask]
        values = BindingValues(dict.fromkeys(names, left), len(left), dict.fromkeys(names, type_name), reading)
        mask[mask] = truths(evaluate_over(expr, values, reading.inputs))
    return mask


def rows_where(
    filters: Sequence[Expr], type_name: str, within: Positions | None, reading: Reading
) -> NDArray[np.int64]:
    """The rows, ascending, that every predicate of one variable is true for; only those `within`, which ascends."""
    rows = reading.rows(type_name)
    found = within
    plain = [expr for expr in filters if not has_text_match(expr)]
    if plain:
        if reading.trace is not None and found is None:
            _note_way(rows, conjunction(plain), reading, reading.trace)
        found = rows.where(conjunction(plain), reading.inputs, found, reading.budget)
    for expr in filters:
        if isinstance(expr, TextMatch):
            texts = text_positions(reading, expr, type_name)
            found = texts if found is None else np.intersect1d(found, texts, assume_unique=True)
        elif has_text_match(expr):
            found = rows.positions() if found is None else found
            found = found[passing((expr,), type_name, found, reading)]
    return rows.positions() if found is None else found.astype(np.int64, copy=False)


def _note_way(rows: TableRows, predicate: Expr, reading: Reading, trace: Trace) -> None:
    """Tell how rows are found now, where the plan leaves that open."""
    way = rows.way(predicate, reading.inputs)
    if way != rows.access(predicate, reading.inputs):
        trace.chose(f"{rows.type.name} by {way}")


def conjunction(terms: Sequence[Expr]) -> Expr:
    """All of one or more terms as one predicate."""
    return terms[0] if len(terms) == 1 else And(terms=tuple(terms), origin=terms[0].origin)
