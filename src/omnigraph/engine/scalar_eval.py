"""Evaluate calculations over columns: arithmetic, scalar functions, lists and `case`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.engine import arithmetic, list_comparison, list_functions, text_functions, time_functions
from omnigraph.engine.arithmetic import STRICT_DIVISIONS, Numbers, read_floats, read_integers
from omnigraph.engine.conversions import to_dates, to_datetimes, to_floats, to_integers, to_text
from omnigraph.engine.query_inputs import QueryInputs
from omnigraph.engine.value_store import to_stored_type
from omnigraph.errors import QueryError
from omnigraph.query.expr import Case, Computed, Expr, RecordExpr
from omnigraph.query.scalar_functions import ScalarFunction
from omnigraph.schema.types import Scalar
from omnigraph.storage.arrow_buffers import build_array, read_booleans, repeat_value
from omnigraph.storage.columnar_sets import concat_chunks

Operand: TypeAlias = pa.ChunkedArray | pa.Array | pa.Scalar
Mask: TypeAlias = NDArray[np.bool_]
_F = ScalarFunction


class DivisionText(str):
    """The text of a calculation that divided by zero, and did not overflow."""

    __slots__ = ()


@dataclass(slots=True)
class OverflowLog:
    """Where a value overflowed, and the text of the first calculation that did; a division by zero counts as one.

    That of a condition `is_strict_only`: there, other calculations are unknown.
    """

    mask: Mask | None = None
    text: str = ""
    is_strict_only: bool = False

    def add(self, mask: Mask | None, text: str) -> None:
        """Add rows in which a calculation overflowed; a mask of one row holds for all."""
        if mask is None or not mask.any():
            return
        self.text = self.text or text
        self.mask = mask if self.mask is None else self.mask | mask

    def check(self) -> None:
        """Check that no row overflowed.

        Raises:
            QueryError: One did (`calculation_overflow`, `division_by_zero`).
        """
        if self.mask is not None and self.mask.any():
            if isinstance(self.text, DivisionText):
                raise QueryError.division_by_zero(self.text)
            raise QueryError.calculation_overflow(self.text)


Evaluate: TypeAlias = Callable[[Expr, OverflowLog | None], Operand]


def evaluate_computed(
    expr: Computed, evaluate: Evaluate, inputs: QueryInputs, log: OverflowLog | None = None
) -> Operand:
    """Return a calculation in every row, or a scalar if it is the same in all.

    Rows that overflow are null, and are added to `log`.
    """
    if expr.function is _F.TODAY:
        return pa.scalar(inputs.now.astimezone(UTC).date(), pa.date32())
    if expr.function is _F.COALESCE:
        return _coalesce(expr, evaluate, log)
    operands = [evaluate(argument, log) for argument in expr.arguments]
    is_single = all(isinstance(operand, pa.Scalar) for operand in operands)
    size = 1 if is_single else next(len(operand) for operand in operands if not isinstance(operand, pa.Scalar))
    if inputs.budget is not None:
        text_functions.check_text_size(expr.function, operands, size, inputs.budget)
    result = _apply(expr, operands, size, log)
    return result[0] if is_single else result


def evaluate_record(expr: RecordExpr, evaluate: Evaluate, size: int, log: OverflowLog | None = None) -> pa.Array:
    """Return a record in every row; whole nodes and edges in it are positions."""
    type_ = to_stored_type(expr.type)
    columns = [_to_column(evaluate(value, log), size) for _, value in expr.items]
    fields = list(type_)
    casts = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(columns, fields, strict=True)
    ]
    # Without columns, only the mask tells how many rows there are.
    mask = None if casts else build_array(np.zeros(size, np.bool_))
    return pa.StructArray.from_arrays(casts, fields=fields, mask=mask)


def evaluate_case(expr: Case, evaluate: Evaluate, size: int, log: OverflowLog | None = None) -> pa.Array:
    """Return the value of the first branch whose condition is true in every row."""
    type_ = to_stored_type(expr.type)
    remaining = np.ones(size, np.bool_)
    chosen: list[tuple[Mask, Expr]] = []
    for condition, value in expr.branches:
        # An overflow in a condition makes it unknown, so that it is not true, unless the calculation is strict.
        own = OverflowLog(is_strict_only=True)
        is_true = read_booleans(_to_column(evaluate(condition, own), size)) & remaining
        if log is not None and own.mask is not None:
            log.add(own.mask & remaining, own.text)
        chosen.append((is_true, value))
        remaining &= ~is_true
    chosen.append((remaining, expr.otherwise))
    result = pa.nulls(size, type_)
    for mask, value in chosen:
        branch_log = OverflowLog(is_strict_only=log is not None and log.is_strict_only)
        column = _to_column(evaluate(value, branch_log), size)
        # Only rows of this branch count: the others do not have its value.
        if log is not None and branch_log.mask is not None:
            log.add(branch_log.mask & mask, branch_log.text)
        result = pc.if_else(build_array(mask), column if column.type == type_ else column.cast(type_), result)
    return result


def _coalesce(expr: Computed, evaluate: Evaluate, log: OverflowLog | None) -> Operand:
    type_ = to_stored_type(expr.type)
    operands: list[Operand] = []
    for argument in expr.arguments:
        own = OverflowLog(is_strict_only=log is not None and log.is_strict_only)
        operand = evaluate(argument, own)
        if log is not None and own.mask is not None:
            # A row that an earlier argument decides does not have this value.
            earlier = [read_booleans(pc.is_valid(_to_column(before, len(own.mask)))) for before in operands]
            log.add(own.mask & ~np.logical_or.reduce([np.zeros_like(own.mask), *earlier]), own.text)
        operands.append(operand if operand.type == type_ else operand.cast(type_))
    return pc.coalesce(*operands)


def _to_column(operand: Operand, size: int) -> pa.Array:
    return repeat_value(operand, size) if isinstance(operand, pa.Scalar) else concat_chunks(operand)


def _apply(expr: Computed, operands: Sequence[Operand], size: int, log: OverflowLog | None) -> pa.Array:
    function = expr.function
    type_ = to_stored_type(expr.type)
    if function in _ARITHMETIC:
        # A value that is the same in all rows stays one: repeating it took as long as all else for 1,000,000 rows.
        columns = [_to_column(operand, 1 if isinstance(operand, pa.Scalar) else size) for operand in operands]
        numbers = _calculate(function, expr, columns)
        if log is not None and (expr.is_strict or not log.is_strict_only):
            divides = function in STRICT_DIVISIONS and pc.any(pc.equal(columns[1], 0)).as_py()
            log.add(numbers.overflow, DivisionText(expr.text) if divides else expr.text)
        return numbers.to_array(type_)
    if function in _TEXT:
        # Later arguments stay scalars where they are the same in all rows: Arrow's kernels need that.
        later = [operand if isinstance(operand, pa.Scalar) else concat_chunks(operand) for operand in operands[1:]]
        return text_functions.apply_text_function(function, _to_column(operands[0], size), *later)
    columns = [_to_column(operand, size) for operand in operands]
    if function in time_functions.PART_FUNCTIONS:
        return time_functions.get_part(function, columns[0])
    result = _OTHERS[function](expr, columns)
    return result if result.type == type_ else result.cast(type_)


_ARITHMETIC = frozenset(
    {
        _F.ADD,
        _F.SUBTRACT,
        _F.MULTIPLY,
        _F.DIVIDE,
        _F.MODULO,
        _F.QUOTIENT,
        _F.REMAINDER,
        _F.DIV,
        _F.NEGATE,
        _F.ABS,
        _F.SIGN,
        _F.ROUND,
        _F.FLOOR,
        _F.CEIL,
        _F.SQRT,
        _F.LN,
        _F.LOG10,
        _F.EXP,
        _F.POW,
    }
)
_TEXT = frozenset(
    {
        _F.LOWER,
        _F.UPPER,
        _F.TRIM,
        _F.TRIM_LEFT,
        _F.TRIM_RIGHT,
        _F.LENGTH,
        _F.SUBSTRING,
        _F.INDEX_OF,
        _F.REPLACE,
        _F.SPLIT,
        _F.STARTS_WITH,
        _F.ENDS_WITH,
        _F.MATCHES,
        _F.EXTRACT,
    }
)


def _calculate(function: ScalarFunction, expr: Computed, columns: list[pa.Array]) -> Numbers:
    if function is _F.SIGN:
        operand = read_floats(columns[0])
        return Numbers(np.where(operand.valid, np.sign(operand.values), 0).astype(np.int64), operand.valid)
    if function is _F.ROUND:
        digits = read_integers(columns[1]) if len(columns) > 1 else _NO_DIGITS
        if expr.type is Scalar.I64:
            return arithmetic.round_integers(read_integers(columns[0]), digits)
        return arithmetic.round_floats(read_floats(columns[0]), digits)
    if expr.type is not Scalar.I64:
        floats = [read_floats(column) for column in columns]
        if len(floats) == 2:
            return arithmetic.calculate_floats(function, *floats)
        return arithmetic.apply_float_function(function, floats[0])
    integers = [read_integers(column) for column in columns]
    match function:
        case _F.NEGATE:
            return arithmetic.negate_integers(integers[0])
        case _F.ABS:
            return arithmetic.absolute_integers(integers[0])
        case _F.FLOOR | _F.CEIL:
            return integers[0]
        case _:
            return arithmetic.calculate_integers(function, *integers)


_NO_DIGITS = Numbers(np.zeros(1, np.int64), np.ones(1, np.bool_))


def _truncate(_expr: Computed, columns: list[pa.Array]) -> pa.Array:
    # A column without rows does not tell the unit.
    return time_functions.truncate(columns[0], _get_fixed(columns[1]) or "day")


def _convert_to_date(_expr: Computed, columns: list[pa.Array]) -> pa.Array:
    return time_functions.to_local_date(columns[0], _get_fixed(columns[1]) if len(columns) > 1 else None)


def _get_fixed(column: pa.Array) -> str:
    """Return the value of an argument that is the same in all rows."""
    return str(column[0].as_py()) if len(column) else ""


def _shift(_expr: Computed, columns: list[pa.Array]) -> pa.Array:
    moments, unit, amounts = columns
    return time_functions.shift(moments, _get_fixed(unit) or "days", amounts)


def _build_list(expr: Computed, columns: list[pa.Array]) -> pa.Array:
    return list_functions.build_lists(columns, to_stored_type(expr.type).value_type)


def _build_items(expr: Computed, columns: list[pa.Array]) -> pa.Array:
    return list_functions.build_lists_with_nulls(columns, to_stored_type(expr.type).value_type)


def _reverse(_expr: Computed, columns: list[pa.Array]) -> pa.Array:
    (column,) = columns
    if pa.types.is_list(column.type):
        return list_functions.reverse_lists(column)
    return pc.utf8_reverse(column)


def _widen_lists(expr: Computed, columns: list[pa.Array]) -> pa.Array:
    # Not checked: only whole numbers beyond 2^53 lose digits, where they become floats.
    return columns[0].cast(to_stored_type(expr.type), safe=False)


def _null_if_equal(_expr: Computed, columns: list[pa.Array]) -> pa.Array:
    left, right = columns
    is_equal = pc.fill_null(pc.equal(left, right), False)
    return pc.if_else(is_equal, pa.nulls(len(left), left.type), left)


def _to_ordered(column: pa.Array) -> pa.Array:
    """Return a column as Arrow finds its least and greatest values; it has no kernels for Bool and DateTime."""
    if pa.types.is_boolean(column.type):
        return column.cast(pa.int8())
    return column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column


def _slice(_expr: Computed, columns: list[pa.Array]) -> pa.Array:
    return list_functions.slice_lists(columns[0], columns[1], columns[2] if len(columns) > 2 else None)


_OTHERS: dict[ScalarFunction, Callable[[Computed, list[pa.Array]], pa.Array]] = {
    _F.CONCATENATE: lambda _expr, columns: text_functions.concatenate(*columns),
    _F.JOIN: lambda _expr, columns: text_functions.join_texts(*columns),
    _F.TRUNC: _truncate,
    _F.DATE: _convert_to_date,
    _F.DAYS_BETWEEN: lambda _expr, columns: time_functions.count_days(*columns),
    _F.SECONDS_BETWEEN: lambda _expr, columns: time_functions.count_seconds(*columns),
    _F.SHIFT: _shift,
    _F.LIST: _build_list,
    _F.ITEMS: _build_items,
    _F.JOIN_LISTS: lambda _expr, columns: list_functions.join_lists(*columns),
    _F.REVERSE: _reverse,
    _F.RANGE: lambda _expr, columns: list_functions.build_ranges(*columns),
    _F.EQUAL_LISTS: lambda _expr, columns: list_comparison.equal_lists(*columns),
    _F.COMPARE_LISTS: lambda _expr, columns: list_comparison.compare_lists(*columns),
    _F.HAS_ITEM: lambda _expr, columns: list_comparison.find_items(*columns),
    _F.LIST_KEY: lambda _expr, columns: list_comparison.write_list_keys(columns[0]),
    _F.LIST_OF_KEY: lambda expr, columns: list_comparison.read_list_keys(columns[0], to_stored_type(expr.type)),
    _F.SUM_OF: lambda _expr, columns: list_functions.sum_lists(columns[0]),
    _F.PERCENTILE_OF: lambda _expr, columns: list_functions.pick_percentiles(*columns),
    _F.WIDEN: _widen_lists,
    _F.ELEMENT: lambda _expr, columns: list_functions.take_element(*columns),
    _F.SIZE: lambda _expr, columns: list_functions.count_elements(columns[0]),
    _F.FIRST: lambda _expr, columns: list_functions.take_first(columns[0]),
    _F.LAST: lambda _expr, columns: list_functions.take_last(columns[0]),
    _F.SLICE: _slice,
    _F.SORT: lambda _expr, columns: list_functions.sort_lists(columns[0]),
    _F.UNIQUE: lambda _expr, columns: list_functions.drop_repeated(columns[0]),
    _F.LEAST: lambda _expr, columns: pc.min_element_wise(*map(_to_ordered, columns), skip_nulls=True),
    _F.GREATEST: lambda _expr, columns: pc.max_element_wise(*map(_to_ordered, columns), skip_nulls=True),
    _F.NULLIF: _null_if_equal,
    _F.TO_STRING: lambda _expr, columns: to_text(columns[0]),
    _F.TO_INT: lambda _expr, columns: to_integers(columns[0]),
    _F.TO_FLOAT: lambda _expr, columns: to_floats(columns[0]),
    _F.TO_DATE: lambda _expr, columns: to_dates(columns[0]),
    _F.TO_DATETIME: lambda _expr, columns: to_datetimes(columns[0]),
}
