"""Turn the groups that DuckDB has computed into rows of a result, with the aggregates that our own sinks would give."""

import numpy as np
import pyarrow as pa

from omnigraph.engine.bindings import Bindings
from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.output.projection import Frame, build_frame, normalize_zeros
from omnigraph.engine.relational.lower_output import LoweredGroups
from omnigraph.engine.relational.tree import name_row
from omnigraph.engine.value_store import NO_POSITION
from omnigraph.errors import QueryError
from omnigraph.query.expr import Aggregate, AggregateFunction, Window
from omnigraph.query.format_expr import format_expr
from omnigraph.query.logical_plan import ReadQuery
from omnigraph.schema.arrow import to_arrow_type
from omnigraph.schema.types import EnumOf, ListOf, Scalar, VectorOf
from omnigraph.storage.arrow_buffers import fill_nulls
from omnigraph.storage.columnar_sets import concat_chunks

# Integers up to this one are exact as floats.
_MAX_EXACT = 2**53


def build_group_frame(query: ReadQuery, groups: LoweredGroups, rows: pa.Table, context: ExecutionContext) -> Frame:
    """Return a frame with one row per group.

    Raises:
        QueryError: A count or sum exceeds I64.
    """
    columns = {
        variable: fill_nulls(concat_chunks(rows.column(name_row(variable))), NO_POSITION).astype(np.int64, copy=False)
        for variable in groups.variables
    }
    frame = build_frame(query, Bindings(columns, rows.num_rows), context)
    aggregates: dict[Aggregate | Window, pa.Array] = {}
    for aggregate, names in groups.parts:
        parts = [concat_chunks(rows.column(name)) for name in names]
        aggregates[aggregate] = _divide(*parts) if len(parts) == 2 else _read_aggregate(aggregate, parts[0])
    return Frame(frame.bindings, frame.types, context, aggregates, frame.scores, is_merged=True)


def _read_aggregate(aggregate: Aggregate, values: pa.Array) -> pa.Array:
    type_ = aggregate.type
    assert isinstance(type_, Scalar | EnumOf | ListOf | VectorOf)  # noqa: S101 - others are not lowered
    target = to_arrow_type(type_)
    if aggregate.fold in (AggregateFunction.COUNT, AggregateFunction.SUM):
        try:
            # Texts, so that a sum may have any number of digits.
            return values.cast(pa.int64())
        except pa.ArrowInvalid:
            raise QueryError.aggregate_overflow(format_expr(aggregate), str(Scalar.I64)) from None
    values = normalize_zeros(values)
    return values if values.type == target else values.cast(target)


def _divide(sums: pa.Array, counts: pa.Array) -> pa.Array:
    """Return exact averages, rounded once; null where nothing was counted."""
    numbers = counts.cast(pa.int64()).to_numpy(zero_copy_only=False)
    is_missing = numbers == 0
    try:
        whole = sums.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        whole = None
    if whole is not None and not np.any(np.abs(whole) > _MAX_EXACT) and not np.any(numbers > _MAX_EXACT):
        return pa.array(whole / np.where(is_missing, 1, numbers), pa.float64(), mask=is_missing)
    # Python divides integers of any size, and rounds once.
    pairs = zip(sums.to_pylist(), numbers.tolist(), strict=True)
    return pa.array([None if text is None else int(text) / count for text, count in pairs], pa.float64())
