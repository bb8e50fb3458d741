"""Find the rows of a table that satisfy a predicate: by id or key, by an index, by columns in memory, or by a scan.

All access paths return the same rows: rows from an index or from Lance's filter are compared again, exactly.
"""

from dataclasses import dataclass
from enum import Enum

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.bug_error import BugError
from omnigraph.engine.bindings import Positions
from omnigraph.engine.predicate_eval import (
    Column,
    VariableValue,
    evaluate,
    evaluate_over,
    find_columns,
    get_column_name,
)
from omnigraph.engine.query_budget import Budget
from omnigraph.engine.query_inputs import QueryInputs
from omnigraph.engine.table_filters import build_table_filter
from omnigraph.engine.tables.column_statistics import LABEL_KINDS, ORDERED_KINDS, find_index
from omnigraph.engine.tables.column_store import ColumnStore
from omnigraph.engine.tables.vector_compare import compare_in_memory
from omnigraph.query.expr import (
    And,
    Compare,
    Contains,
    Expr,
    In,
    IsNull,
    Op,
    Or,
    Prop,
    ShapedType,
    StartsWith,
    TextMatch,
    ValueRef,
)
from omnigraph.schema.types import ValueType, is_text
from omnigraph.storage.arrow_buffers import read_booleans
from omnigraph.storage.lance_table import ADDRESS

# Once fewer than one row in four is left, the next conjunct is evaluated for the remaining rows only.
_GATHER_BELOW = 4


class AccessMethod(Enum):
    """How the rows that satisfy a predicate are found."""

    KEY = "key"
    INDEX = "index"
    MEMORY = "column in memory"
    SCAN = "scan"


@dataclass(frozen=True, slots=True)
class AccessPath:
    """An access method, and the index that it uses if any."""

    method: AccessMethod
    index: str | None = None

    def __str__(self) -> str:
        return self.method.value if self.index is None else f"{self.method.value} {self.index}"


@dataclass(frozen=True, slots=True)
class _ColumnValues:
    """The column values of some rows, or of all rows ever written including deleted ones."""

    columns: ColumnStore
    at: Positions | None
    budget: Budget | None

    @property
    def size(self) -> int:
        return self.columns.layout.size if self.at is None else len(self.at)

    def read_column(self, expr: VariableValue) -> Column:
        # A predicate of one table reads no value variable.
        assert not isinstance(expr, ValueRef)  # noqa: S101
        name = get_column_name(expr)
        if self.at is None:
            return self.columns.load_written(name, self.budget)
        return self.columns.take_for_predicate(name, self.at, self.budget)

    def compare(self, expr: Compare) -> Column | None:  # noqa: ARG002 - values are all it has
        return None

    def match_text(self, expr: TextMatch) -> Column:
        raise BugError.search_not_here(expr.mode.value)


def _evaluate_term(
    columns: ColumnStore, term: Expr, inputs: QueryInputs, at: Positions | None, budget: Budget | None
) -> NDArray[np.bool_]:
    """Return where a term is true: for the rows `at`, or by position for all rows ever written."""
    if isinstance(term, Compare):
        # A comparison with one value is faster in numpy; anything else goes through the evaluator.
        mask = compare_in_memory(columns, term, inputs, at, budget)
        if mask is not None:
            return mask
    return _to_mask(evaluate_over(term, _ColumnValues(columns, at, budget), inputs))


def filter_rows(
    columns: ColumnStore, terms: tuple[Expr, ...], inputs: QueryInputs, within: Positions, budget: Budget | None = None
) -> NDArray[np.int64]:
    """Return the rows of `within`, which is ascending, for which all terms are true."""
    size = columns.layout.size
    for term in _sort_by_cost(terms):
        if not len(within):
            break
        # With many rows left and the columns in memory, evaluating the whole column avoids gathering its values first.
        if len(within) * _GATHER_BELOW > size and all(map(columns.is_resident, find_columns(term))):
            mask = _evaluate_term(columns, term, inputs, None, budget)[within]
        else:
            mask = _evaluate_term(columns, term, inputs, within, budget)
        within = within[mask]
    return np.asarray(within, np.int64)


def filter_in_memory(
    columns: ColumnStore, terms: tuple[Expr, ...], inputs: QueryInputs, budget: Budget | None = None
) -> NDArray[np.int64]:
    """Return the live rows for which all terms are true, from whole columns until few rows are left."""
    if not columns.layout.count:
        return np.zeros(0, np.int64)
    alive = columns.live_rows.get_mask()
    ordered = _sort_by_cost(terms)
    for number, term in enumerate(ordered):
        mask = _evaluate_term(columns, term, inputs, None, budget)
        alive = mask if alive is None else mask & alive
        rest = ordered[number + 1 :]
        if rest and np.count_nonzero(alive) * _GATHER_BELOW < columns.layout.size:
            return filter_rows(columns, rest, inputs, np.flatnonzero(alive), budget)
    return columns.live_rows.get_positions() if alive is None else np.flatnonzero(alive)


def _sort_by_cost(terms: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Sort terms so that cheap ones come first: numbers, then texts, then lists."""
    return terms if len(terms) == 1 else tuple(sorted(terms, key=_estimate_cost))


def _estimate_cost(term: Expr) -> int:
    match term:
        case Compare(left=left):
            return 1 if is_text(_get_value_type(left)) else 0
        case IsNull():
            return 0
        case In(element=element):
            return 2 if is_text(_get_value_type(element)) else 1
        case StartsWith():
            return 2
        case Contains():
            return 3
        case _:
            return 4


def _get_value_type(expr: Expr) -> ValueType:
    type_ = expr.type
    assert not isinstance(type_, ShapedType)  # noqa: S101 - expressions check this when built
    return type_


def scan_rows(
    columns: ColumnStore, predicate: Expr, inputs: QueryInputs, budget: Budget | None = None
) -> NDArray[np.int64]:
    """Return the live rows for which the predicate is true, from a stream of batches.

    The part of the predicate that Lance can evaluate is pushed down into the scan.
    """
    names = find_columns(predicate)
    parts: list[NDArray[np.int64]] = []
    for batch in columns.table.iter_batches(names, build_table_filter(predicate, inputs), with_address=True):
        if budget is not None:
            budget.check()
        passing = _to_mask(evaluate(predicate, pa.Table.from_batches([batch]), inputs))
        parts.append(columns.layout.find_positions(batch.column(ADDRESS))[passing])
    positions = np.concatenate(parts) if parts else np.zeros(0, np.int64)
    positions.sort()
    return positions


def find_usable_index(columns: ColumnStore, term: Expr, inputs: QueryInputs) -> str | None:
    """Return the name of an index that finds the rows of a term without reading the others; None without one."""
    match term:
        case And(terms=terms):
            return next(
                (name for part in terms if (name := find_usable_index(columns, part, inputs)) is not None), None
            )
        case Or(terms=terms):
            names = [find_usable_index(columns, part, inputs) for part in terms]
            # Every alternative needs an index: without one, Lance reads all rows.
            return None if None in names else names[0]
        # Nearly all rows differ from a value: an index would not exclude many.
        case Compare(op=Op.NE):
            return None
        case _ if build_table_filter(term, inputs) is None:
            return None
    kinds = LABEL_KINDS if isinstance(term, In) and isinstance(term.collection, Prop) else ORDERED_KINDS
    index = find_index(columns, find_columns(term)[0], kinds)
    return None if index is None else index.name


def _to_mask(values: Column) -> NDArray[np.bool_]:
    """Convert a boolean column into a mask; null counts as False."""
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], pa.bool_())
    return read_booleans(values)
