"""Hand the rows of a stage, or of a union of reads, to the read that starts from them."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from omnigraph.engine.bindings import Bindings, Positions
from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.output.distinct import group_rows
from omnigraph.engine.output.projection import build_frame, normalize_zeros
from omnigraph.engine.output.result_pipeline import ResultFrame
from omnigraph.engine.value_store import NO_POSITION, to_stored_type
from omnigraph.errors import QueryError
from omnigraph.query.expr import Const, EdgeRef, Expr, ExprType, Missing, NodeRef, United
from omnigraph.query.format_expr import format_expr
from omnigraph.query.logical_plan import ReadQuery, UnionSource
from omnigraph.storage.arrow_buffers import fill_nulls
from omnigraph.storage.columnar_sets import concat_chunks

_BYTES_PER_VALUE = 8


def evaluate_columns(result: ResultFrame, query: ReadQuery) -> list[pa.Array]:
    """Return the columns of a source as the read that starts from it stores them: nodes and edges as positions.

    They must be read before another source runs: both may have variables of the same name.

    Raises:
        QueryError: A number does not fit into the type that it has in common with the other reads of a union.
    """
    budget = result.frame.context.budget
    nbytes = result.size * _BYTES_PER_VALUE * len(query.inputs)
    budget.claim(nbytes, f"the {result.size:,} rows of a stage")
    columns = []
    for column, each in zip(result.query.output, query.inputs, strict=True):
        values = normalize_zeros(result.frame.evaluate_stored(_unite(column.value, each.type)))
        columns.append(_cast(values, to_stored_type(each.type), column.value))
        budget.check()
    # The values are claimed again by the store that keeps them.
    budget.release(nbytes)
    return columns


def _unite(expr: Expr, type_: ExprType) -> Expr:
    """Return a whole node or edge as one of the union of types that the column has in a union of reads."""
    if expr.type == type_ or not isinstance(type_, NodeRef | EdgeRef):
        return expr
    if isinstance(expr, Const):
        return Missing(type=type_, origin=expr.origin)
    return United(operand=expr, type=type_, origin=expr.origin)


def _cast(values: pa.Array, type_: pa.DataType, expr: Expr) -> pa.Array:
    if values.type == type_:
        return values
    try:
        # Only integers can fail; those that become floats are rounded.
        return values.cast(type_, safe=not pa.types.is_floating(type_))
    except pa.ArrowInvalid as error:
        raise QueryError.calculation_overflow(format_expr(expr)) from error


def bind_rows(query: ReadQuery, columns: Sequence[pa.Array], context: ExecutionContext) -> Bindings:
    """Return the rows of a source as bindings of the variables that a read takes from it."""
    budget = context.budget
    size = len(columns[0])
    bound: dict[str, Positions] = {}
    is_present = np.ones(size, np.bool_)
    budget.claim(size * _BYTES_PER_VALUE * len(columns), f"the {size:,} rows of a stage")
    # What an earlier stage stored under these names is of no use any more.
    context.values.drop((each.variable for each in query.inputs), budget)
    for each, values in zip(query.inputs, columns, strict=True):
        if each.entity is None:
            bound[each.variable] = context.values.append(each.variable, values, budget)
            continue
        positions = fill_nulls(values, NO_POSITION).astype(np.int64, copy=False)
        bound[each.variable] = positions
        if each.is_matched and each.nullable:
            is_present &= positions >= 0
    rows = Bindings(bound, size)
    return rows if is_present.all() else rows.take(is_present)


def bind_union(
    query: ReadQuery, source: UnionSource, reads: Sequence[Sequence[pa.Array]], context: ExecutionContext
) -> Bindings:
    """Return the rows of several reads as bindings, without those that a `union` drops because they are equal."""
    sizes = [len(columns[0]) for columns in reads]
    columns = [concat_chunks(pa.chunked_array(list(parts))) for parts in zip(*reads, strict=True)]
    rows = bind_rows(query, columns, context)
    # A later `union` makes a set of all rows before it, so only the last one matters.
    gaps = [index for index, keeps_equal in enumerate(source.keeps_equal) if not keeps_equal]
    if not gaps:
        return rows
    end = sum(sizes[: gaps[-1] + 2])
    merged = rows.take(np.arange(end))
    nbytes = end * _BYTES_PER_VALUE * (len(columns) + 3)
    context.budget.claim(nbytes, f"comparing {end:,} rows")
    groups = group_rows(build_frame(query, merged, context), [column.value for column in query.output])
    context.budget.release(nbytes)
    return rows.take(np.concatenate((np.sort(groups.first), np.arange(end, rows.size))))
