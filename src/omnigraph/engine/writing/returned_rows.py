"""Compute the columns of `returning`: over the rows of the last match, with their values after the write."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from omnigraph.engine.bindings import Bindings, Positions
from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.output.projection import Frame, build_columns_schema
from omnigraph.engine.value_store import NO_POSITION, mask_missing
from omnigraph.engine.writing.blobs import reference_blobs
from omnigraph.engine.writing.matched_rows import MatchedRows
from omnigraph.engine.writing.write_buffer import PendingTable, WriteBuffer
from omnigraph.query.expr import Entity, Expr, Identity, Prop, ValueRef
from omnigraph.query.expr_tree import walk
from omnigraph.query.mutation_plan import InsertEdge, InsertNode, MutationQuery
from omnigraph.query.union_types import TYPE_COLUMN
from omnigraph.schema.arrow import ID
from omnigraph.storage.columnar_sets import concat_chunks, find_positions, is_among


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenContext(ExecutionContext):
    """The context of `returning`: positions are those of the rows that it reads, as they are after the write."""

    written: Mapping[str, pa.Table] = field(default_factory=dict)
    """The rows that are read, by type."""

    def take_values(self, type_name: str, column: str, at: Positions) -> pa.Array:
        """Return the values of a column at positions among the rows that are read."""
        return self._read_rows(type_name, column).take(mask_missing(at))

    def view_run(self, type_name: str, column: str, start: int, count: int) -> pa.Array | None:
        """Return the values of rows that follow each other among the rows that are read."""
        return self._read_rows(type_name, column).slice(start, count)

    def _read_rows(self, type_name: str, column: str) -> pa.Array:
        rows = self.written[type_name]
        if column == TYPE_COLUMN and column not in rows.column_names:
            return pa.repeat(pa.scalar(type_name), rows.num_rows)
        return concat_chunks(rows.column(column))


def compute_returned_rows(
    query: MutationQuery, pending: WriteBuffer, matched: MatchedRows, context: ExecutionContext
) -> pa.RecordBatch:
    """Return the columns of `returning`; a deleted row has the values that it had before.

    Raises:
        QueryMemoryError, QueryTimeoutError, QueryCancelledError: The budget ran out.
        QueryError: An integer does not fit into 64 bits.
    """
    exprs = [column.value for column in query.returning]
    types = _find_types(query, exprs)
    size = matched.size
    ids = {name: matched.get_ids(name) for name in types}
    written = {}
    for type_name in dict.fromkeys(types.values()):
        wanted = pa.concat_arrays([ids[name] for name, other in types.items() if other == type_name])
        table = pending.get_table(pending.view.get_type(type_name))
        written[type_name] = _read_written(table, wanted.drop_null().unique())
        context.budget.claim(written[type_name].nbytes, f"the rows of {type_name} that are returned")
    reader = WrittenContext(
        view=context.view,
        inputs=context.inputs,
        budget=context.budget,
        cache=context.cache,
        values=context.values,
        written=written,
    )
    columns: dict[str, Positions] = {}
    for name, type_name in types.items():
        positions = find_positions(ids[name], written[type_name].column(ID))
        columns[name] = np.where(positions >= 0, positions, NO_POSITION)
    for name in _find_value_variables(exprs):
        columns[name] = reader.values.append(name, matched.get_values(name), context.budget)
    frame = Frame(Bindings(columns, size), types, reader)
    schema = build_columns_schema(query.returning, context.view.catalog)
    batch = pa.RecordBatch.from_arrays([frame.evaluate(expr) for expr in exprs], schema=schema)
    context.budget.claim(batch.nbytes, f"{size:,} rows that are returned")
    return batch


def _find_types(query: MutationQuery, exprs: list[Expr]) -> dict[str, str]:
    """Return the type of each variable that is bound to nodes or edges."""
    match = query.last_match
    types = {} if match is None else {name: type_.name for name, type_ in match.types}
    for statement in query.list_statements():
        if isinstance(statement, InsertNode | InsertEdge) and statement.variable is not None:
            types[statement.variable] = statement.type.name
    parts = [part for expr in exprs for part in walk(expr)]
    read = {part.variable for part in parts if isinstance(part, Prop | Identity | Entity)}
    return {name: type_ for name, type_ in types.items() if name in read}


def _find_value_variables(exprs: list[Expr]) -> list[str]:
    parts = (part for expr in exprs for part in walk(expr))
    return list(dict.fromkeys(part.variable for part in parts if isinstance(part, ValueRef)))


def _read_written(table: PendingTable, ids: pa.Array) -> pa.Table:
    """Return the rows with these ids after the write, deleted ones as they were before."""
    pending = table.rows.filter(pa.array(is_among(table.rows.column(ID), ids)))
    missing = ids.filter(pa.array(~is_among(ids, pending.column(ID))))
    if not len(missing):
        return pending
    # Rows of a streamed update are not among the pending ones, but such an update has no variable to return.
    rows = table.known.fetch_rows(missing, table.schema.names, with_address=True)
    committed = reference_blobs(table.type, rows).select(table.schema.names).cast(table.schema)
    return pa.concat_tables([pending, committed])
