"""Numbers that are calculated before a read: how many rows it skips and returns."""

from collections.abc import Callable
from math import ceil, floor, trunc
from typing import Final

from omnigraph.query.expr import Computed, Const, Expr, ParamRef
from omnigraph.query.scalar_functions import ScalarFunction
from omnigraph.schema.types import Scalar

_F = ScalarFunction
Number = int | float
_MAX_INTEGER = 2**63 - 1


def _divide(left: Number, right: Number) -> Number | None:
    if right == 0:
        return None
    return trunc(left / right) if isinstance(left, int) and isinstance(right, int) else left / right


_CALCULATIONS: Final = {
    _F.ADD: lambda left, right: left + right,
    _F.SUBTRACT: lambda left, right: left - right,
    _F.MULTIPLY: lambda left, right: left * right,
    _F.QUOTIENT: _divide,
    _F.NEGATE: lambda number: -number,
    _F.ABS: abs,
    _F.CEIL: lambda number: float(ceil(number)),
    _F.FLOOR: lambda number: float(floor(number)),
    _F.TO_INT: trunc,
    _F.TO_FLOAT: float,
}


def is_calculated(value: Expr) -> bool:
    """Return whether a value is a number that literals and parameters make."""
    if isinstance(value, Const | ParamRef):
        return value.type in (Scalar.I64, Scalar.F64)
    return isinstance(value, Computed) and value.function in _CALCULATIONS and all(map(is_calculated, value.arguments))


def fold_number(value: Expr, resolve: Callable[[ParamRef], object] = lambda _: None) -> Number | None:
    """Return the number that literals and parameters make; None where there is none, as for what a row tells."""
    if isinstance(value, Const | ParamRef):
        found = value.value if isinstance(value, Const) else resolve(value)
        is_number = isinstance(found, int | float) and value.type is not Scalar.BOOL
        return found if is_number and isinstance(found, int | float) else None
    if not isinstance(value, Computed) or value.function not in _CALCULATIONS:
        return None
    numbers = [fold_number(argument, resolve) for argument in value.arguments]
    known = [number for number in numbers if number is not None]
    if len(known) < len(numbers):
        return None
    number: Number | None = _CALCULATIONS[value.function](*known)  # type: ignore[operator]
    return None if number is None or abs(number) > _MAX_INTEGER else number
