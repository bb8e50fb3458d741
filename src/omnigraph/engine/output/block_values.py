"""Fold the matches of a value block into one value for each combination of outer values."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.engine.bindings import Bindings
from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.operators.block_join import get_seed_numbers
from omnigraph.engine.output.aggregate import fold_groups
from omnigraph.engine.output.distinct import Codes, Groups, combine_codes, encode_expr, group_codes
from omnigraph.engine.output.projection import Frame
from omnigraph.engine.output.result_pipeline import resolve_count
from omnigraph.engine.output.sort import SortKey, sort_rows
from omnigraph.engine.physical_plan import BindValue
from omnigraph.engine.scalar_eval import OverflowLog
from omnigraph.engine.search.search_arguments import reserve
from omnigraph.engine.value_store import to_stored_type
from omnigraph.errors import QueryError
from omnigraph.lang.query_ast import BlockKind
from omnigraph.query.expr import Computed, Expr, ValueRef
from omnigraph.query.expr_tree import walk
from omnigraph.query.logical_plan import ValueBlock
from omnigraph.storage.arrow_buffers import build_array, is_valid

_BYTES_PER_VALUE = 8
# Choosing among the matches takes about four work arrays beside the values: codes, groups, an order and the seeds.
_WORK_COLUMNS = 4


def fold_block(step: BindValue, matches: Bindings, size: int, context: ExecutionContext, log: OverflowLog) -> pa.Array:
    """Return the value of a block for each of `size` combinations.

    Those in which an integer overflows are null, and are added to `log`: whether that is an error depends on where the
    value is read.

    Raises:
        QueryError: A count or sum is too large for its type.
        QueryMemoryError, QueryTimeoutError, QueryCancelledError: The budget ran out.
    """
    block = step.block
    if not matches.size:
        # Without any match, the columns of the variables may be missing.
        return _fold_nothing(block, size)
    numbers = get_seed_numbers(matches).astype(np.int64, copy=False)
    if block.kind is BlockKind.EXISTS:
        has_match = np.zeros(size, np.bool_)
        has_match[numbers] = True
        return build_array(has_match)
    frame = Frame(matches, dict(step.types), context)
    columns = len(block.exprs) + _WORK_COLUMNS
    what = f"`{block.kind.value}` of {matches.size:,} matches"
    with reserve(context.budget, matches.size * _BYTES_PER_VALUE * columns, what):
        try:
            return _fold_chosen(block, frame, numbers, size, log)
        except QueryError as error:
            if error.code not in ("calculation_overflow", "division_by_zero"):
                raise
            # Only combinations with such a row have no value: the others are folded without them.
            overflowed = _find_overflowed(block, frame, numbers, size, log)
            rows = np.flatnonzero(~overflowed[numbers])
            values = _fold_chosen(block, frame.take(rows), numbers[rows], size, log)
            return pc.if_else(build_array(overflowed), pa.scalar(None, values.type), values)


def _fold_chosen(block: ValueBlock, frame: Frame, numbers: NDArray[np.int64], size: int, log: OverflowLog) -> pa.Array:
    """Return the fold of the matches that count."""
    frame, numbers = _choose_rows(block, frame, numbers, size)
    groups = Groups(numbers, size, np.zeros(0, np.int64))
    if block.kind is BlockKind.COLLECT and block.value is not None:
        return _collect(frame, block.value, numbers, size, keeps_nulls=block.keeps_nulls)
    return fold_groups(frame, groups, block.aggregate, log)


def _find_overflowed(
    block: ValueBlock, frame: Frame, numbers: NDArray[np.int64], size: int, log: OverflowLog
) -> NDArray[np.bool_]:
    """Return the combinations in which a value or sort key overflows, and add them to `log`."""
    rows = OverflowLog()
    for expr in block.exprs:
        if any(isinstance(part, Computed | ValueRef) for part in walk(expr)):
            frame.evaluate_logged(expr, None, rows)
    overflowed = np.zeros(size, np.bool_)
    if rows.mask is not None:
        overflowed[numbers[np.broadcast_to(rows.mask, numbers.shape)]] = True
    log.add(overflowed, rows.text)
    return overflowed


def _fold_nothing(block: ValueBlock, size: int) -> pa.Array:
    match block.kind:
        case BlockKind.EXISTS:
            return build_array(np.zeros(size, np.bool_))
        case BlockKind.COUNT:
            return build_array(np.zeros(size, np.int64))
        case BlockKind.COLLECT:
            type_ = to_stored_type(block.type)
            return pa.ListArray.from_arrays(np.zeros(size + 1, np.int32), pa.nulls(0, type_.value_type))
        case _:
            return pa.nulls(size, to_stored_type(block.type))


def _choose_rows(
    block: ValueBlock, frame: Frame, numbers: NDArray[np.int64], size: int
) -> tuple[Frame, NDArray[np.int64]]:
    """Return the matches that count: one for each value if distinct, in order if that matters, up to the limit."""
    if block.distinct and block.value is not None:
        codes = encode_expr(frame, block.value)
        parts = [Codes(numbers, size), *(() if codes is None else (codes,))]
        rows = group_codes(combine_codes(frame, parts), frame.context.budget.check).first
        # Zeros of both signs are equal, so it must not matter which of them was first.
        frame, numbers = replace(frame.take(rows), is_merged=True), numbers[rows]
    if block.kind is not BlockKind.COLLECT and block.limit is None:
        return frame, numbers
    keys = [SortKey(None, ranks=numbers), *(SortKey(key.value, key.descending) for key in block.order)]
    keys += [SortKey(tie) for tie in block.ties]
    rows = sort_rows(frame, keys, None)
    limit = resolve_count(block.limit, "limit", frame.context.inputs)
    if limit is not None:
        rows = rows[_number_within(numbers[rows]) < limit]
    return frame.take(rows), numbers[rows]


def _number_within(ordered: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the place of each row among those with the same number, which are neighbours."""
    is_first = np.append(True, ordered[1:] != ordered[:-1])
    starts = np.flatnonzero(is_first)
    places: NDArray[np.int64] = np.arange(len(ordered)) - np.repeat(starts, np.diff(np.append(starts, len(ordered))))
    return places


def _collect(frame: Frame, value: Expr, numbers: NDArray[np.int64], size: int, *, keeps_nulls: bool) -> pa.Array:
    """Return the list of values of each combination, in the order of the rows, which is by combination."""
    values = frame.evaluate_stored(value)
    if values.null_count and not keeps_nulls:
        numbers = numbers[is_valid(values)]
        values = values.drop_null()
    counts = np.bincount(numbers, minlength=size)
    offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    return pa.ListArray.from_arrays(offsets, values)
