"""Comparisons of a column in memory with one value, in numpy: the same truths as `predicates.evaluate`, sooner."""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.engine.bindings import Positions
from omnigraph.engine.budget import Budget
from omnigraph.engine.predicates import Inputs, column_of
from omnigraph.engine.tables.table_columns import TableColumns
from omnigraph.query.expr import Compare, Const, Identity, Now, Op, ParamRef, Prop
from omnigraph.schema.arrow import arrow_type
from omnigraph.schema.types import Scalar, is_text

_OPS: dict[Op, Callable[[Any, Any], Any]] = {
    Op.EQ: operator.eq,
    Op.NE: operator.ne,
    Op.LT: operator.lt,
    Op.LE: operator.le,
    Op.GT: operator.gt,
    Op.GE: operator.ge,
}
_FEW_VALUES = 4_096
"""Among more distinct values than this, comparing texts is as fast as looking for the code of one."""


def quick_compare(
    columns: TableColumns, term: Compare, inputs: Inputs, at: Positions | None, budget: Budget | None
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
    name, given = column_of(column), inputs.value(value)
    if given is None:
        return np.zeros(columns.layout.size if at is None else len(at), np.bool_)
    if isinstance(given, str) and is_text(value.type):
        return _equal_text(columns, name, op, given, at) if is_text(column.type) else None
    if column.type != value.type or not isinstance(column.type, Scalar) or column.type is Scalar.BOOL:
        return None
    if not columns.is_resident(name) and not columns.costs.is_light(name):
        return None
    values, valid = columns.numbers(name, budget)
    stored = pa.scalar(given, arrow_type(column.type))
    wanted = values.dtype.type(stored.value if column.type in (Scalar.DATE, Scalar.DATETIME) else stored.as_py())
    found: NDArray[np.bool_] = _OPS[op](values if at is None else values[at], wanted)
    if valid is not None:
        found &= valid if at is None else valid[at]
    return found


def _equal_text(columns: TableColumns, name: str, op: Op, given: str, at: Positions | None) -> NDArray[np.bool_] | None:
    """Equal or unequal texts by their codes, when these are in memory."""
    if op not in (Op.EQ, Op.NE) or not columns.has_derived(name, "codes"):
        return None
    codes, values = columns.codes(name)
    if len(values) > _FEW_VALUES:
        return None
    code = pc.index(values, pa.scalar(given, values.type)).as_py()
    asked = codes if at is None else codes[at]
    found: NDArray[np.bool_] = asked != code if op is Op.NE else asked == code
    found &= asked >= 0
    return found
