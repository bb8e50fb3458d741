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
    Inputs,
    RowValue,
    SearchNotHereError,
    column_of,
    columns_of,
    evaluate,
    evaluate_over,
)
from omnigraph.engine.query_budget import Budget
from omnigraph.engine.table_filters import pushed
from omnigraph.engine.tables.column_statistics import LABELS, ORDERED, index_of
from omnigraph.engine.tables.column_store import TableColumns
from omnigraph.engine.tables.vector_compare import quick_compare
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
from omnigraph.storage.arrow_buffers import truths
from omnigraph.storage.lance_table import ADDRESS

_GATHER_BELOW = 4
"""Once fewer than one row in so many is left, the next conjunct is asked of those only."""


class Way(Enum):
    """How the rows of a predicate are found."""

    KEY = "key"
    INDEX = "index"
    MEMORY = "column in memory"
    SCAN = "scan"


@dataclass(frozen=True, slots=True)
class Access:
    """A way, and the index that it uses."""

    way: Way
    index: str | None = None

    def __str__(self) -> str:
        return self.way.value if self.index is None else f"{self.way.value} {self.index}"


@dataclass(frozen=True, slots=True)
class _Rows:
    """The values of some rows, or of every row that was ever written."""

    columns: TableColumns
    at: Positions | None
    budget: Budget | None

    @property
    def size(self) -> int:
        return self.columns.layout.size if self.at is None else len(self.at)

    def column(self, expr: RowValue) -> Column:
        name = column_of(expr)
        if self.at is None:
            return self.columns.written(name, self.budget)
        return self.columns.tested(name, self.at, self.budget)

    def comparison(self, expr: Compare) -> Column | None:  # noqa: ARG002 - values are all it has
        return None

    def matches(self, expr: TextMatch) -> Column:
        raise SearchNotHereError(expr.mode.value)


def _holds(
    columns: TableColumns, term: Expr, inputs: Inputs, at: Positions | None, budget: Budget | None
) -> NDArray[np.bool_]:
    """Where a term is true: of these rows, or of every row that was ever written."""
    if isinstance(term, Compare):
        quick = quick_compare(columns, term, inputs, at, budget)
        if quick is not None:
            return quick
    return _truths(evaluate_over(term, _Rows(columns, at, budget), inputs))


def kept_rows(
    columns: TableColumns, terms: tuple[Expr, ...], inputs: Inputs, within: Positions, budget: Budget | None = None
) -> NDArray[np.int64]:
    """Those of these rows, which ascend, for which every term is true."""
    size = columns.layout.size
    for term in _cheap_first(terms):
        if not len(within):
            break
        if len(within) * _GATHER_BELOW > size and all(map(columns.is_resident, columns_of(term))):
            found = _holds(columns, term, inputs, None, budget)[within]
        else:
            found = _holds(columns, term, inputs, within, budget)
        within = within[found]
    return np.asarray(within, np.int64)


def rows_in_memory(
    columns: TableColumns, terms: tuple[Expr, ...], inputs: Inputs, budget: Budget | None = None
) -> NDArray[np.int64]:
    """The living rows for which every term is true, by whole columns for as long as many rows are left."""
    if not columns.layout.count:
        return np.zeros(0, np.int64)
    alive = columns.living.mask()
    ordered = _cheap_first(terms)
    for place, term in enumerate(ordered):
        found = _holds(columns, term, inputs, None, budget)
        alive = found if alive is None else found & alive
        rest = ordered[place + 1 :]
        if rest and np.count_nonzero(alive) * _GATHER_BELOW < columns.layout.size:
            return kept_rows(columns, rest, inputs, np.flatnonzero(alive), budget)
    return columns.living.positions() if alive is None else np.flatnonzero(alive)


def _cheap_first(terms: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """What is told by numbers before what is told by texts, and by lists last."""
    return terms if len(terms) == 1 else tuple(sorted(terms, key=_cost))


def _cost(term: Expr) -> int:
    match term:
        case Compare(left=left):
            return 1 if is_text(_value_type(left)) else 0
        case IsNull():
            return 0
        case In(element=element):
            return 2 if is_text(_value_type(element)) else 1
        case StartsWith():
            return 2
        case Contains():
            return 3
        case _:
            return 4


def _value_type(expr: Expr) -> ValueType:
    found = expr.type
    assert not isinstance(found, NodeRef | EdgeRef)  # noqa: S101 - expressions check this when built
    return found


def rows_by_scan(
    columns: TableColumns, predicate: Expr, inputs: Inputs, budget: Budget | None = None
) -> NDArray[np.int64]:
    """The living rows for which the predicate is true, what the table can tell pushed into it, streamed."""
    names = columns_of(predicate)
    parts: list[NDArray[np.int64]] = []
    for batch in columns.table.batches(names, pushed(predicate, inputs), with_address=True):
        if budget is not None:
            budget.check()
        passing = _truths(evaluate(predicate, pa.Table.from_batches([batch]), inputs))
        parts.append(columns.layout.at_addresses(batch.column(ADDRESS))[passing])
    found = np.concatenate(parts) if parts else np.zeros(0, np.int64)
    found.sort()
    return found


def usable_index(columns: TableColumns, term: Expr, inputs: Inputs) -> str | None:
    """Return the name of an index by which rows that pass a term are found, without the others; None without one.

    Of alternatives each one needs an index: without it Lance reads every row. What is unequal is nearly everything.
    """
    match term:
        case And(terms=terms):
            return next((name for one in terms if (name := usable_index(columns, one, inputs)) is not None), None)
        case Or(terms=terms):
            names = [usable_index(columns, one, inputs) for one in terms]
            return None if None in names else names[0]
        case Compare(op=Op.NE):
            return None
        case _ if pushed(term, inputs) is None:
            return None
    kinds = LABELS if isinstance(term, In) and isinstance(term.collection, Prop) else ORDERED
    index = index_of(columns, columns_of(term)[0], kinds)
    return None if index is None else index.name


def _truths(found: Column) -> NDArray[np.bool_]:
    """Where a predicate is true; unknown is not."""
    if isinstance(found, pa.ChunkedArray):
        found = pa.concat_arrays(found.chunks) if found.num_chunks else pa.array([], pa.bool_())
    return truths(found)
