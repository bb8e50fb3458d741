"""Build the lists of `collect`: the values of each group in their order."""

import numpy as np
import pyarrow as pa

from omnigraph.engine.output.distinct import Groups, encode_expr, encode_values
from omnigraph.engine.output.projection import Frame, Rows, normalize_zeros
from omnigraph.engine.output.sort import SortKey, sort_rows
from omnigraph.engine.query_inputs import QueryInputs
from omnigraph.engine.value_store import to_stored_type
from omnigraph.errors import QueryError
from omnigraph.query.expr import Aggregate, Entity, Expr, Input
from omnigraph.query.format_expr import format_expr
from omnigraph.query.logical_plan import build_identity
from omnigraph.query.params import ParameterError, ParameterProblem
from omnigraph.storage.arrow_buffers import build_array, is_valid

# What a value of a list takes before it is read: its row number, its group, and its place in an order.
_BYTES_PER_VALUE = 24
# Arrow counts the values of a list column in 32 bits.
_MAX_VALUES = 2**31 - 1


def sort_collected(frame: Frame, aggregate: Aggregate, argument: Expr) -> Rows:
    """Return all rows of a frame in the order in which a `collect` lists their values."""
    if aggregate.distinct:
        if isinstance(argument, Entity):
            # A whole node or edge has the order of its id.
            argument = build_identity(argument)
        return sort_rows(frame, [SortKey(argument)], None)
    keys = [SortKey(term.value, term.descending) for term in aggregate.order]
    return sort_rows(frame, [*keys, *map(SortKey, aggregate.ties)], None)


def build_lists(frame: Frame, aggregate: Aggregate, argument: Expr, rows: Rows, groups: Groups) -> pa.Array:
    """Return a list for each group: the values that are not null at these rows, which are sorted by group.

    Raises:
        QueryError: There are more values than one column of lists can hold.
    """
    budget = frame.context.budget
    values = normalize_zeros(frame.evaluate_stored(argument))
    if values.null_count:
        rows = rows[is_valid(values)[rows]]
    if aggregate.distinct:
        rows = _drop_repeated(frame, argument, values, rows, groups)
    elif frame.bindings.multiplicity is not None:
        times = frame.bindings.multiplicity[rows]
        # Summed in floating point: a sum that wraps around in 64 bits would pass the budget.
        budget.claim(int(times.sum(dtype=np.float64)) * _BYTES_PER_VALUE, f"the values of `{format_expr(aggregate)}`")
        rows = np.repeat(rows, times)
    row_groups = groups.row_groups[rows]
    if aggregate.limit is not None:
        starts = np.searchsorted(row_groups, np.arange(groups.count))
        is_kept = np.arange(len(rows)) - starts[row_groups] < resolve_limit(aggregate.limit, frame.context.inputs)
        rows, row_groups = rows[is_kept], row_groups[is_kept]
    if len(rows) > _MAX_VALUES:
        raise QueryError.aggregate_overflow(format_expr(aggregate), "a list")
    budget.claim(len(rows) * _BYTES_PER_VALUE, f"the values of `{format_expr(aggregate)}`")
    counts = np.bincount(row_groups, minlength=groups.count)
    offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    items = values.take(build_array(rows))
    type_ = to_stored_type(aggregate.type)
    items = items if items.type == type_.value_type else items.cast(type_.value_type)
    lists = pa.ListArray.from_arrays(build_array(offsets), items, type=type_)
    # From here on the caller, who keeps the groups, accounts for the lists.
    budget.release(len(rows) * _BYTES_PER_VALUE)
    return lists


def _drop_repeated(frame: Frame, argument: Expr, values: pa.Array, rows: Rows, groups: Groups) -> Rows:
    """Return the first of the rows of each group that have the same value; equal values are neighbours."""
    codes = encode_expr(frame, argument) or encode_values(values)
    numbers, row_groups = codes.numbers[rows], groups.row_groups[rows]
    is_new = np.ones(len(rows), np.bool_)
    is_new[1:] = (numbers[1:] != numbers[:-1]) | (row_groups[1:] != row_groups[:-1])
    return rows[is_new]


def resolve_limit(limit: Input, inputs: QueryInputs) -> int:
    """Return how many values a list may have.

    Raises:
        ParameterError: The limit is a parameter and negative.
    """
    value = inputs.resolve(limit)
    assert isinstance(value, int)  # noqa: S101 - the binder checked the type, and that the parameter is required
    if value < 0:
        raise _build_error(limit, value, "`limit` takes a whole number of at least 0")
    return value


def resolve_fraction(fraction: Input, inputs: QueryInputs) -> float:
    """Return the second argument of a `percentile`.

    Raises:
        ParameterError: It is a parameter outside 0 to 1.
    """
    value = inputs.resolve(fraction)
    assert isinstance(value, int | float)  # noqa: S101 - the binder checked the type
    if not 0 <= value <= 1:
        raise _build_error(fraction, value, "`percentile` takes a fraction from 0 to 1")
    return float(value)


def _build_error(given: Input, value: float, rule: str) -> ParameterError:
    name = getattr(given, "name", "*")
    reason = f"parameter `${name}: {given.type}`: {rule}, got {value}"
    return ParameterError([ParameterProblem(name, reason, str(given.type), str(value))])
