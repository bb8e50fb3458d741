"""Turn the groups that DuckDB has computed into rows of a result, with the aggregates that our own sinks would give."""

import numpy as np
import pyarrow as pa

from omnigraph.engine.bindings import Bindings
from omnigraph.engine.duckdb.bound_rows import bind_variable
from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.output.projection import Frame, build_frame, normalize_zeros
from omnigraph.engine.relational.float_parts import add_digits
from omnigraph.engine.relational.fold_functions import divide_totals
from omnigraph.engine.relational.lower import LoweredPattern
from omnigraph.engine.relational.lower_output import LoweredGroups
from omnigraph.errors import QueryError
from omnigraph.query.expr import Aggregate, AggregateFunction, Window
from omnigraph.query.format_expr import format_expr
from omnigraph.query.logical_plan import ReadQuery
from omnigraph.schema.arrow import to_arrow_type
from omnigraph.schema.types import EnumOf, ListOf, Scalar, VectorOf
from omnigraph.storage.columnar_sets import concat_chunks


def build_group_frame(
    query: ReadQuery, groups: LoweredGroups, lowered: LoweredPattern, rows: pa.Table, context: ExecutionContext
) -> Frame:
    """Return a frame with one row per group.

    Raises:
        QueryError: A count or sum exceeds I64.
    """
    columns = {variable: bind_variable(variable, rows, lowered, context) for variable in groups.variables}
    frame = build_frame(query, Bindings(columns, rows.num_rows), context)
    aggregates: dict[Aggregate | Window, pa.Array] = {}
    for aggregate, names in groups.parts:
        parts = [concat_chunks(rows.column(name)) for name in names]
        if pa.types.is_list(parts[0].type):
            aggregates[aggregate] = _add_floats(aggregate, *parts)
        else:
            aggregates[aggregate] = divide_totals(*parts) if len(parts) == 2 else _read_aggregate(aggregate, parts[0])
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


def _add_floats(aggregate: Aggregate, lists: pa.Array, counts: pa.Array | None = None) -> pa.Array:
    """Return exact sums of floats, or averages if there are counts, rounded once; null where nothing was added.

    Raises:
        QueryError: A sum exceeds F64.
    """
    sums = add_digits(lists)
    is_missing = np.asarray(lists.is_null())
    if counts is None:
        result = sums.to_float64()
    else:
        # A count of 0 is that of a missing list, which the mask makes null: 1 only avoids the division by zero.
        result = sums.average(np.maximum(counts.cast(pa.int64()).to_numpy(zero_copy_only=False), 1))
    # Stored floats are finite, so only an overflow can make a sum infinite.
    if not np.all(np.isfinite(result)):
        raise QueryError.aggregate_overflow(format_expr(aggregate), str(Scalar.F64))
    return pa.array(result, pa.float64(), mask=is_missing)
