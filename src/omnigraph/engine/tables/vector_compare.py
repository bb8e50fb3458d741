"""Compare a column in memory with one value in numpy: the same result as `predicate_eval.evaluate`, but faster."""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.engine.bindings import Positions
from omnigraph.engine.predicate_eval import get_column_name
from omnigraph.engine.query_budget import Budget
from omnigraph.engine.query_inputs import QueryInputs
from omnigraph.engine.tables.column_store import ColumnStore
from omnigraph.query.expr import Compare, Const, Identity, Now, Op, ParamRef, Prop
from omnigraph.schema.arrow import to_arrow_type
from omnigraph.schema.types import Scalar, is_text
from omnigraph.storage.arrow_buffers import build_array

_OPS: dict[Op, Callable[[Any, Any], Any]] = {
    Op.EQ: operator.eq,
    Op.NE: operator.ne,
    Op.LT: operator.lt,
    Op.LE: operator.le,
    Op.GT: operator.gt,
    Op.GE: operator.ge,
}
# With more distinct values than this, comparing texts is as fast as finding the code of one.
_MAX_CODED_VALUES = 4_096
# Up to this number of texts are compared individually, in Python.
_MAX_SINGLE_ROWS = 16
# Texts are dictionary-encoded if each value occurs at least twice on average in a sample of about this size.
_SAMPLE_ROWS = 4_096
_MIN_REPEATS = 2


def compare_in_memory(
    columns: ColumnStore, term: Compare, inputs: QueryInputs, at: Positions | None, budget: Budget | None
) -> NDArray[np.bool_] | None:
    """Return where a comparison is true, for the rows `at` or by position for all; None if it must be evaluated.

    Null counts as False, so this only replaces the evaluation of a whole conjunct.
    """
    match term:
        case Compare(op=op, left=Prop() | Identity() as column, right=Const() | ParamRef() | Now() as value):
            pass
        case Compare(op=op, left=Const() | ParamRef() | Now() as value, right=Prop() | Identity() as column):
            op = op.mirrored
        case _:
            return None
    name = get_column_name(column)
    operand = inputs.resolve(value)
    if operand is None:
        return np.zeros(columns.layout.size if at is None else len(at), np.bool_)
    if isinstance(operand, str) and is_text(value.type):
        return _compare_text(columns, name, op, operand, at, budget) if is_text(column.type) else None
    # Operands of different types are left to the evaluator.
    if column.type != value.type or not isinstance(column.type, Scalar) or column.type is Scalar.BOOL:
        return None
    # A large column is not loaded here: the evaluator fetches single rows where that is cheaper.
    if not columns.is_resident(name) and not columns.costs.is_light(name):
        return None
    values, valid = columns.load_numbers(name, budget)
    stored = pa.scalar(operand, to_arrow_type(column.type))
    number = values.dtype.type(stored.value if column.type in (Scalar.DATE, Scalar.DATETIME) else stored.as_py())
    mask: NDArray[np.bool_] = _OPS[op](values if at is None else values.take(at), number)
    if valid is not None:
        mask &= valid if at is None else valid.take(at)
    return mask


def _compare_text(
    columns: ColumnStore, name: str, op: Op, text: str, at: Positions | None, budget: Budget | None
) -> NDArray[np.bool_] | None:
    """Compare texts for equality: a few individually, more by their dictionary codes if there are any."""
    if op not in (Op.EQ, Op.NE):
        return None
    if at is not None and len(at) <= _MAX_SINGLE_ROWS:
        values_at = columns.take_values(name, at, budget).to_pylist()
        return np.array([value is not None and (value == text) is (op is Op.EQ) for value in values_at], np.bool_)
    if not _has_codes(columns, name, budget):
        return None
    codes, values = columns.load_codes(name, budget)
    if len(values) > _MAX_CODED_VALUES:
        return None
    code = columns.get_or_derive(name, "code of a value", lambda: _number_values(values), _measure_codes).get(text, -1)
    row_codes = codes if at is None else codes.take(at)
    if op is Op.NE:
        return np.asarray((row_codes != code) & (row_codes >= 0))
    return np.zeros(len(row_codes), np.bool_) if code < 0 else np.asarray(row_codes == code)


def _has_codes(columns: ColumnStore, name: str, budget: Budget | None) -> bool:
    """Return whether a text column is dictionary-encoded, or should be: it is compared again, and has few values."""
    if columns.has_derived(name, "codes"):
        return True
    if not columns.is_resident(name) or not columns.costs.is_repeated(f"codes of {name}"):
        return False
    return columns.get_or_derive(
        name, "few values", lambda: _has_few_values(columns.load_written(name, budget)), lambda _: 64
    )


def _has_few_values(texts: pa.Array) -> bool:
    """Return whether a column is short, or a sample of it repeats values so often that all of it must."""
    if len(texts) <= _MAX_CODED_VALUES:
        return True
    step = max(1, len(texts) // _SAMPLE_ROWS)
    sample = texts.take(build_array(np.arange(0, len(texts), step)))
    return bool(pc.count_distinct(sample).as_py() * _MIN_REPEATS <= len(sample))


def _number_values(values: pa.Array) -> dict[str, int]:
    return {value: number for number, value in enumerate(values.to_pylist())}


def _measure_codes(codes: dict[str, int]) -> int:
    return sum(map(len, codes)) + 160 * len(codes)
