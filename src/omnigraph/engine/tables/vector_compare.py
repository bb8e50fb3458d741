"""Comparisons of a column in memory with one value, in numpy: the same truths as `predicates.evaluate`, sooner."""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.engine.bindings import Positions
from omnigraph.engine.predicate_eval import QueryInputs, get_column_name
from omnigraph.engine.query_budget import Budget
from omnigraph.engine.tables.column_store import ColumnStore
from omnigraph.query.expr import Compare, Const, Identity, Now, Op, ParamRef, Prop
from omnigraph.schema.arrow import to_arrow_type
from omnigraph.schema.types import Scalar, is_text
from omnigraph.storage.arrow_buffers import build_array, build_scalar

_OPS: dict[Op, Callable[[Any, Any], Any]] = {
    Op.EQ: operator.eq,
    Op.NE: operator.ne,
    Op.LT: operator.lt,
    Op.LE: operator.le,
    Op.GT: operator.gt,
    Op.GE: operator.ge,
}
_MAX_CODED_VALUES = 4_096
"""Among more distinct values than this, comparing texts is as fast as looking for the code of one."""
_MAX_SINGLE_ROWS = 16
_SAMPLE_ROWS, _MIN_REPEATS = 4_096, 2
"""Codes are made when a sample of so many texts has each of them so many times on average."""


def compare_in_memory(
    columns: ColumnStore, term: Compare, inputs: QueryInputs, at: Positions | None, budget: Budget | None
) -> NDArray[np.bool_] | None:
    """Where the comparison is true, of these rows or by position of all; None when it has to be evaluated.

    Unknown counts as not true, so this stands for a whole conjunct only.
    """
    match term:
        case Compare(op=op, left=Prop() | Identity() as column, right=Const() | ParamRef() | Now() as value):
            pass
        case Compare(op=op, left=Const() | ParamRef() | Now() as value, right=Prop() | Identity() as column):
            op = op.mirrored
        case _:
            return None
    name, given = get_column_name(column), inputs.resolve(value)
    if given is None:
        return np.zeros(columns.layout.size if at is None else len(at), np.bool_)
    if isinstance(given, str) and is_text(value.type):
        return _compare_text(columns, name, op, given, at, budget) if is_text(column.type) else None
    if column.type != value.type or not isinstance(column.type, Scalar) or column.type is Scalar.BOOL:
        return None
    if not columns.is_resident(name) and not columns.costs.is_light(name):
        return None
    values, valid = columns.load_numbers(name, budget)
    stored = build_scalar(given, to_arrow_type(column.type))
    wanted = values.dtype.type(stored.value if column.type in (Scalar.DATE, Scalar.DATETIME) else stored.as_py())
    found: NDArray[np.bool_] = _OPS[op](values if at is None else values.take(at), wanted)
    if valid is not None:
        found &= valid if at is None else valid.take(at)
    return found


def _compare_text(
    columns: ColumnStore, name: str, op: Op, given: str, at: Positions | None, budget: Budget | None
) -> NDArray[np.bool_] | None:
    """Equal or unequal texts: a few one by one, others by their codes, where these are or should be in memory."""
    if op not in (Op.EQ, Op.NE):
        return None
    if at is not None and len(at) <= _MAX_SINGLE_ROWS:
        texts = columns.take_values(name, at, budget).to_pylist()
        return np.array([text is not None and (text == given) is (op is Op.EQ) for text in texts], np.bool_)
    if not _has_codes(columns, name, budget):
        return None
    codes, values = columns.load_codes(name, budget)
    if len(values) > _MAX_CODED_VALUES:
        return None
    code = columns.get_or_derive(name, "code of a value", lambda: _number_values(values), _measure_codes).get(given, -1)
    asked = codes if at is None else codes.take(at)
    if op is Op.NE:
        return np.asarray((asked != code) & (asked >= 0))
    return np.zeros(len(asked), np.bool_) if code < 0 else np.asarray(asked == code)


def _has_codes(columns: ColumnStore, name: str, budget: Budget | None) -> bool:
    """Whether the codes of a column of texts are in memory, or worth making: it is asked again, and has few values."""
    if columns.has_derived(name, "codes"):
        return True
    if not columns.is_resident(name) or not columns.costs.is_repeated(f"codes of {name}"):
        return False
    return columns.get_or_derive(
        name, "few values", lambda: _has_few_values(columns.load_written(name, budget)), lambda _: 64
    )


def _has_few_values(texts: pa.Array) -> bool:
    """Whether a column is short, or a part of it repeats itself so much that all of it must."""
    if len(texts) <= _MAX_CODED_VALUES:
        return True
    step = max(1, len(texts) // _SAMPLE_ROWS)
    sample = texts.take(build_array(np.arange(0, len(texts), step)))
    return bool(pc.count_distinct(sample).as_py() * _MIN_REPEATS <= len(sample))


def _number_values(values: pa.Array) -> dict[str, int]:
    return {value: number for number, value in enumerate(values.to_pylist())}


def _measure_codes(found: dict[str, int]) -> int:
    return sum(map(len, found)) + 160 * len(found)
