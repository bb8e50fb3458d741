"""Which rows of a table a predicate is true for: by id or key, by index, by columns in memory, or by a scan.

Every way gives the same rows: what an index or a table's own filter lets pass is asked again, exactly.
"""

from dataclasses import dataclass
from enum import Enum

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.engine.bindings import Positions
from omnigraph.engine.predicate_eval import (
    Column,
    QueryInputs,
    RowValue,
    SearchNotHereError,
    evaluate,
    evaluate_over,
    find_columns,
    get_column_name,
)
from omnigraph.engine.query_budget import Budget
from omnigraph.engine.table_filters import build_table_filter
from omnigraph.engine.tables.column_statistics import LABEL_KINDS, ORDERED_KINDS, find_index
from omnigraph.engine.tables.column_store import ColumnStore
from omnigraph.engine.tables.vector_compare import compare_in_memory
from omnigraph.query.expr import (
    And,
    Compare,
    Contains,
    EdgeRef,
    Expr,
    In,
    IsNull,
    NodeRef,
    Op,
    Or,
    Prop,
    StartsWith,
    TextMatch,
)
from omnigraph.schema.types import ValueType, is_text
from omnigraph.storage.arrow_buffers import read_booleans
from omnigraph.storage.lance_table import ADDRESS

_GATHER_BELOW = 4
"""Once fewer than one row in so many is left, the next conjunct is asked of those only."""


class AccessMethod(Enum):
    """How the rows of a predicate are found."""

    KEY = "key"
    INDEX = "index"
    MEMORY = "column in memory"
    SCAN = "scan"


@dataclass(frozen=True, slots=True)
class AccessPath:
    """A way, and the index that it uses."""

    method: AccessMethod
    index: str | None = None

    def __str__(self) -> str:
        return self.method.value if self.index is None else f"{self.method.value} {self.index}"


@dataclass(frozen=True, slots=True)
class _ColumnValues:
    """The values of some rows, or of every row that was ever written."""

    columns: ColumnStore
    at: Positions | None
    budget: Budget | None

    @property
    def size(self) -> int:
        return self.columns.layout.size if self.at is None else len(self.at)

    def read_column(self, expr: RowValue) -> Column:
        name = get_column_name(expr)
        if self.at is None:
            return self.columns.load_written(name, self.budget)
        return self.columns.take_for_predicate(name, self.at, self.budget)

    def compare(self, expr: Compare) -> Column | None:  # noqa: ARG002 - values are all it has
        return None

    def match_text(self, expr: TextMatch) -> Column:
        raise SearchNotHereError(expr.mode.value)


def _evaluate_term(
    columns: ColumnStore, term: Expr, inputs: QueryInputs, at: Positions | None, budget: Budget | None
) -> NDArray[np.bool_]:
    """Where a term is true: of these rows, or of every row that was ever written."""
    if isinstance(term, Compare):
        quick = compare_in_memory(columns, term, inputs, at, budget)
        if quick is not None:
            return quick
    return _to_mask(evaluate_over(term, _ColumnValues(columns, at, budget), inputs))


def filter_rows(
    columns: ColumnStore, terms: tuple[Expr, ...], inputs: QueryInputs, within: Positions, budget: Budget | None = None
) -> NDArray[np.int64]:
    """Those of these rows, which ascend, for which every term is true."""
    size = columns.layout.size
    for term in _sort_by_cost(terms):
        if not len(within):
            break
        if len(within) * _GATHER_BELOW > size and all(map(columns.is_resident, find_columns(term))):
            found = _evaluate_term(columns, term, inputs, None, budget)[within]
        else:
            found = _evaluate_term(columns, term, inputs, within, budget)
        within = within[found]
    return np.asarray(within, np.int64)


def filter_in_memory(
    columns: ColumnStore, terms: tuple[Expr, ...], inputs: QueryInputs, budget: Budget | None = None
) -> NDArray[np.int64]:
    """The living rows for which every term is true, by whole columns for as long as many rows are left."""
    if not columns.layout.count:
        return np.zeros(0, np.int64)
    alive = columns.live_rows.get_mask()
    ordered = _sort_by_cost(terms)
    for place, term in enumerate(ordered):
        found = _evaluate_term(columns, term, inputs, None, budget)
        alive = found if alive is None else found & alive
        rest = ordered[place + 1 :]
        if rest and np.count_nonzero(alive) * _GATHER_BELOW < columns.layout.size:
            return filter_rows(columns, rest, inputs, np.flatnonzero(alive), budget)
    return columns.live_rows.get_positions() if alive is None else np.flatnonzero(alive)


def _sort_by_cost(terms: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """What is told by numbers before what is told by texts, and by lists last."""
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
    found = expr.type
    assert not isinstance(found, NodeRef | EdgeRef)  # noqa: S101 - expressions check this when built
    return found


def scan_rows(
    columns: ColumnStore, predicate: Expr, inputs: QueryInputs, budget: Budget | None = None
) -> NDArray[np.int64]:
    """The living rows for which the predicate is true, what the table can tell pushed into it, streamed."""
    names = find_columns(predicate)
    parts: list[NDArray[np.int64]] = []
    for batch in columns.table.iter_batches(names, build_table_filter(predicate, inputs), with_address=True):
        if budget is not None:
            budget.check()
        passing = _to_mask(evaluate(predicate, pa.Table.from_batches([batch]), inputs))
        parts.append(columns.layout.find_positions(batch.column(ADDRESS))[passing])
    found = np.concatenate(parts) if parts else np.zeros(0, np.int64)
    found.sort()
    return found


def find_usable_index(columns: ColumnStore, term: Expr, inputs: QueryInputs) -> str | None:
    """Return the name of an index by which rows that pass a term are found, without the others; None without one.

    Of alternatives each one needs an index: without it Lance reads every row. What is unequal is nearly everything.
    """
    match term:
        case And(terms=terms):
            return next((name for one in terms if (name := find_usable_index(columns, one, inputs)) is not None), None)
        case Or(terms=terms):
            names = [find_usable_index(columns, one, inputs) for one in terms]
            return None if None in names else names[0]
        case Compare(op=Op.NE):
            return None
        case _ if build_table_filter(term, inputs) is None:
            return None
    kinds = LABEL_KINDS if isinstance(term, In) and isinstance(term.collection, Prop) else ORDERED_KINDS
    index = find_index(columns, find_columns(term)[0], kinds)
    return None if index is None else index.name


def _to_mask(found: Column) -> NDArray[np.bool_]:
    """Where a predicate is true; unknown is not."""
    if isinstance(found, pa.ChunkedArray):
        found = pa.concat_arrays(found.chunks) if found.num_chunks else pa.array([], pa.bool_())
    return read_booleans(found)
