"""Read a part of a large result at one commit, in another order if asked: where its rows are is kept in memory."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.engine.column_types import ShapeKind, describe_columns
from omnigraph.engine.output.result_pipeline import ResultFrame
from omnigraph.engine.query_budget import Budget
from omnigraph.engine.result import Result
from omnigraph.errors import BadArgumentError
from omnigraph.json_struct import JsonStruct
from omnigraph.lang.spelling import find_closest
from omnigraph.ops.argument_checks import check_text
from omnigraph.ops.query import QueryCall, build_target, execute_query, resolve_snapshot, start_budget
from omnigraph.ops.session import Session
from omnigraph.schema.findings import join_words

MAX_ROWS = 10_000
DEFAULT_ROWS = 100
_MAX_SORT_KEYS = 16
# What a kept result takes beside its rows: its plan, and what its context holds.
_ENTRY_BYTES = 64 * 1024


class SortColumn(JsonStruct, frozen=True, kw_only=False):
    """A column that orders the rows of a window; null comes last in both directions."""

    column: str
    descending: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RowWindow:
    """The rows of a result that are read, and their order; without sort keys it is that of the query."""

    offset: int = 0
    limit: int = DEFAULT_ROWS
    sort: tuple[SortColumn, ...] = ()


@dataclass(frozen=True, slots=True)
class _WindowFrame:
    """All rows of a result as positions, and their order; None for the order that they have."""

    frame: ResultFrame
    order: NDArray[np.int64] | None

    @property
    def nbytes(self) -> int:
        """The size in memory."""
        return _ENTRY_BYTES + self.frame.nbytes + (0 if self.order is None else self.order.nbytes)

    def read(self, window: RowWindow, budget: Budget) -> pa.RecordBatch:
        """Read the rows of a window, within a budget."""
        frame = self.frame.with_budget(budget)
        first, last = min(window.offset, frame.size), min(window.offset + window.limit, frame.size)
        return frame.fetch(first, last) if self.order is None else frame.take(self.order[first:last])


def query_window(session: Session, call: QueryCall, window: RowWindow, budget: Budget | None = None) -> Result:
    """Return some rows of a query's result; `total_rows` of it is the number of all.

    The first call runs the query and keeps where its rows are, as long as there is space in the cache of reads; others
    for the same commit, query and parameters read only the rows of their window. If the result was dropped, the query
    runs again; rows whose order neither the query nor the sort keys decide may then come in another order.

    Raises:
        BadArgumentError: The window is too large, or a column can't be sorted by.
        What `query` raises.
    """
    _check_window(window)
    budget = budget or start_budget(session, call)
    snapshot = resolve_snapshot(session, call, budget.check, hides_rows=True)
    # The rules about rows that apply: actors who see the same rows share a result.
    realm = session.open_tables(snapshot).realm
    params = repr(sorted(call.params.items()))
    key = ("window", realm, snapshot.commit.id, call.source.text, call.name, params, call.engine, window.sort)

    def run() -> _WindowFrame:
        frame = execute_query(session, call, snapshot, budget)
        # It outlives this call, and so its budget.
        return _WindowFrame(frame.with_budget(Budget(session.runtime.clock)), _find_order(frame, window.sort, budget))

    # The key says all that the rows depend on, but for `now()`, which stays that of the first window.
    rows = session.reads.get_or_build(key, run, lambda built: built.nbytes, budget)
    return Result.of_table(
        pa.Table.from_batches([rows.read(window, budget)], schema=rows.frame.schema),
        commit_id=snapshot.commit.id,
        target=build_target(call, snapshot),
        query_name=rows.frame.query.name,
        notes=rows.frame.notes,
        total_rows=rows.frame.size,
    )


def _check_window(window: RowWindow) -> None:
    if not 1 <= window.limit <= MAX_ROWS:
        raise BadArgumentError("limit", f"{window.limit:,}", f"a window has 1 to {MAX_ROWS:,} rows")
    if window.offset < 0:
        raise BadArgumentError("offset", f"{window.offset:,}", "it is the number of rows before the window")
    if len(window.sort) > _MAX_SORT_KEYS:
        raise BadArgumentError("sort", f"{len(window.sort):,} columns", f"there are at most {_MAX_SORT_KEYS}")
    for key in window.sort:
        check_text("column", key.column)


def _find_order(frame: ResultFrame, sort: Sequence[SortColumn], budget: Budget) -> NDArray[np.int64] | None:
    """Return the rows in the order of the keys; rows that are equal by these stay in the order of the result.

    Raises:
        BadArgumentError: There is no such column, or its values have no order.
    """
    if not sort:
        return None
    sortable = [
        column.name
        for column, field in zip(describe_columns(frame.schema), frame.schema, strict=True)
        if column.kind is ShapeKind.VALUE and not pa.types.is_nested(field.type)
    ]
    for key in sort:
        if key.column not in sortable:
            closest = find_closest(key.column, sortable)
            listed = (
                f"did you mean `{closest}`?" if closest else f"its columns with an order are {join_words(sortable)}"
            )
            raise BadArgumentError("sort", f"`{key.column}`", listed if sortable else "no column of it has an order")
    names = list(dict.fromkeys(key.column for key in sort))
    columns = frame.read_columns(names)
    budget.claim(columns.nbytes, f"sorting {frame.size:,} rows")
    try:
        # Stable: equal rows stay in their order. Null comes last by default.
        keys = [(key.column, "descending" if key.descending else "ascending") for key in sort]
        order = pc.sort_indices(columns, sort_keys=keys)
        budget.check()
        rows: NDArray[np.int64] = order.to_numpy().astype(np.int64)
        return rows
    finally:
        budget.release(columns.nbytes)
