"""Read the weights of edges for the cheapest walks, and check them before anything is searched."""

import numpy as np
import pyarrow.compute as pc

from omnigraph.engine.bindings import Positions
from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.operators.filter import BindingValues, find_rows
from omnigraph.engine.operators.walks.walk_list import Costs
from omnigraph.engine.predicate_eval import evaluate_over
from omnigraph.engine.scalar_eval import OverflowLog
from omnigraph.errors import QueryError
from omnigraph.query.expr import Expr
from omnigraph.query.expr_types import ROW
from omnigraph.query.walk_plan import WalkBinding
from omnigraph.schema.arrow import ID, to_arrow_type
from omnigraph.schema.types import Scalar
from omnigraph.storage.arrow_buffers import fill_nulls, is_valid
from omnigraph.storage.columnar_sets import concat_chunks

# Sums of integer weights stay below this, so that no sum of a walk overflows.
_MAX_SUM = 2**62


def read_weights(
    walk: WalkBinding, edge: str, along: tuple[Expr, ...], context: ExecutionContext, *, max_edges: int
) -> Costs:
    """Return the weight of each edge that passes the conditions, by position; other positions have any weight.

    Raises:
        QueryError: An edge has no weight, or a negative one; the one with the smallest id is named.
    """
    assert walk.weight is not None and isinstance(walk.type.cost, Scalar)  # noqa: S101, PT018 - a cheapest walk has both
    reader = context.get_reader(edge)
    at = find_rows(along, edge, None, context)
    context.budget.claim(16 * reader.size, f"the weights of {edge}")
    values = BindingValues({ROW: at}, len(at), {ROW: edge}, context)
    log = OverflowLog()
    column = concat_chunks(evaluate_over(walk.weight, values, context.inputs, log))
    log.check()
    column = column.cast(to_arrow_type(walk.type.cost))
    is_present = is_valid(column)
    numbers = fill_nulls(column, 0)
    if not is_present.all():
        raise QueryError.absent_weight(edge, _find_first_id(at[~is_present], edge, context), walk.text)
    is_negative = numbers < 0
    if is_negative.any():
        first = _find_first_id(at[is_negative], edge, context)
        raise QueryError.negative_weight(edge, first, walk.text)
    if walk.type.cost is Scalar.I64 and int(numbers.max(initial=0)) * max_edges >= _MAX_SUM:
        raise QueryError.calculation_overflow(f"cost(${walk.variable})")
    weights = np.zeros(reader.size, np.int64 if walk.type.cost is Scalar.I64 else np.float64)
    weights[at] = numbers
    context.budget.release(8 * reader.size)
    return weights


def _find_first_id(at: Positions, edge: str, context: ExecutionContext) -> str:
    ids = context.get_reader(edge).take_values(ID, at, context.budget)
    return str(pc.min(ids).as_py())
