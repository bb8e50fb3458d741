"""Turn the rows that DuckDB hands back into bindings: positions of rows, and values in the store of the query."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.engine.bindings import Bindings
from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.relational.lower import LoweredPattern
from omnigraph.engine.relational.tree import MULTIPLICITY, name_overflow, name_row, name_value
from omnigraph.engine.value_store import NO_POSITION, to_stored_type
from omnigraph.storage.arrow_buffers import fill_nulls
from omnigraph.storage.columnar_sets import concat_chunks


def build_bindings(batch: pa.RecordBatch, lowered: LoweredPattern, context: ExecutionContext) -> Bindings:
    """Return the rows of a batch as bindings of the variables of a pattern."""
    columns = {variable: bind_variable(variable, batch, lowered, context) for variable in lowered.bound}
    multiplicity = None
    if MULTIPLICITY in batch.schema.names:
        multiplicity = fill_nulls(batch.column(MULTIPLICITY), 1).astype(np.int64, copy=False)
    return Bindings(columns, batch.num_rows, multiplicity)


def bind_variable(
    variable: str, rows: pa.Table | pa.RecordBatch, lowered: LoweredPattern, context: ExecutionContext
) -> NDArray[np.int64]:
    """Return what the bindings hold for a variable: positions, or indices of values that are added to the store."""
    if name_row(variable) in rows.schema.names:
        # A left join leaves the position null where an optional part found nothing.
        positions = fill_nulls(concat_chunks(rows.column(name_row(variable))), NO_POSITION)
        return positions.astype(np.int64, copy=False)
    column = lowered.values[variable]
    type_ = to_stored_type(column.type)
    values = concat_chunks(rows.column(name_value(variable))).cast(type_)
    # Arrow has no dictionary of lists.
    if pa.types.is_nested(type_) or pa.types.is_floating(type_):
        return context.values.append(variable, values, context.budget)
    # Each value once, because the store keeps those of all chunks until the query ends.
    encoded = values.dictionary_encode()
    indices = context.values.append(variable, encoded.dictionary, context.budget)
    bound = np.full(len(values), NO_POSITION, np.int64)
    is_known = np.asarray(encoded.indices.is_valid())
    bound[is_known] = indices[encoded.indices.drop_null().to_numpy(zero_copy_only=False)]
    if column.overflow is not None:
        is_overflow = np.asarray(pc.fill_null(concat_chunks(rows.column(name_overflow(variable))), False))
        if is_overflow.any():
            # One entry of the store, marked, stands for all overflows of the chunk: what reads it raises the error, as
            # if our operators had added.
            unknown = context.values.append(variable, pa.nulls(1, type_), context.budget)
            context.values.mark_overflow(variable, unknown, column.overflow)
            bound[is_overflow] = unknown[0]
    return bound
