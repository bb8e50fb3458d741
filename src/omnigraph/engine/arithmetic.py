"""Calculate with columns of numbers: exact 64-bit integers, finite floats. A column of one value holds for all rows.

An integer result that does not fit into 64 bits is null, and its row is reported as an overflow. A float that is not
finite is null; so is a division by zero.
"""

import operator
from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.query.scalar_functions import ScalarFunction
from omnigraph.storage.arrow_buffers import build_array, is_valid, read_numbers

Mask = NDArray[np.bool_]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_SHARED_TYPES = (np.dtype(np.int64), np.dtype(np.float64))
_MIN = np.iinfo(np.int64).min


class Numbers(NamedTuple):
    """Values with a mask of those that are not null, and a mask of overflows, or None if there is none."""

    values: NDArray[Any]
    valid: Mask
    overflow: Mask | None = None

    def to_array(self, type_: pa.DataType) -> pa.Array:
        """Return the values as an Arrow array, null where they are not valid."""
        # Without nulls the values become the array's as they are, with no copy and no bitmap.
        if self.values.dtype in _SHARED_TYPES and self.valid.all():
            array = build_array(self.values)
            return array if array.type == type_ else array.cast(type_)
        return pa.array(self.values, type_, mask=~self.valid)


def read_integers(column: pa.Array) -> Numbers:
    """Read integers of any type as I64; a larger U64 is an overflow."""
    valid = is_valid(column)
    values = read_numbers(column)
    if values.dtype != np.uint64:
        return Numbers(values.astype(np.int64, copy=False), valid)
    is_large = valid & (values > np.uint64(2**63 - 1))
    return Numbers(values.astype(np.int64), valid & ~is_large, is_large if is_large.any() else None)


def read_clipped(column: pa.Array) -> Ints:
    """Read integers of any type as I64, 0 for a null; a larger U64 is the largest I64, as far as a position matters."""
    values = read_numbers(column.fill_null(0))
    if values.dtype == np.uint64:
        values = np.minimum(values, np.uint64(2**63 - 1))
    return values.astype(np.int64, copy=False)


def read_floats(column: pa.Array) -> Numbers:
    """Read numbers of any type as F64."""
    return Numbers(read_numbers(column).astype(np.float64, copy=False), is_valid(column))


def calculate_integers(function: ScalarFunction, left: Numbers, right: Numbers) -> Numbers:
    """Return `left function right` in I64."""
    valid = left.valid & right.valid
    a, b = _pair_values(left, right)
    overflow: Mask | None
    if function in STRICT_DIVISIONS:
        kept = calculate_integers(STRICT_DIVISIONS[function], left, right)
        return _settle(kept.values, kept.valid | (valid & (b == 0)), np.broadcast_to(b == 0, valid.shape), kept)
    match function:
        case ScalarFunction.ADD:
            result = a + b
            overflow = None if _is_small(operator.add, a, b) else ((a ^ result) & (b ^ result)) < 0
        case ScalarFunction.SUBTRACT:
            result = a - b
            overflow = None if _is_small(operator.sub, a, b) else ((a ^ b) & (a ^ result)) < 0
        case ScalarFunction.MULTIPLY:
            result = a * b
            overflow = None if _is_small(operator.mul, a, b) else _find_product_overflow(a, b, result)
        case ScalarFunction.MODULO if valid.size and b.min() > 0:
            # Without a sign both are the same, and this one takes two thirds of the time.
            return _settle(np.remainder(a, b) if a.min() >= 0 else np.fmod(a, b), valid, None, left, right)
        case ScalarFunction.MODULO | ScalarFunction.DIV:
            valid = valid & (b != 0)
            # Any divisor will do for rows that are null anyway; -1 is exact by negation, which can overflow.
            divisor = np.where((b == 0) | (b == -1), 1, b)
            remainder = np.fmod(a, divisor)
            if function is ScalarFunction.MODULO:
                return _settle(np.where(b == -1, 0, remainder), valid, None, left, right)
            quotient = (a - remainder) // divisor
            result = np.where(b == -1, -a, quotient)
            overflow = (b == -1) & (a == _MIN)
        case _:
            raise AssertionError(f"{function} is no operator of two integers")
    return _settle(result, valid, overflow, left, right)


def _pair_values(left: Numbers, right: Numbers) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the values of both; a single one beside a column as a scalar, with which numpy is up to 1.5x as fast."""
    a, b = left.values, right.values
    if len(a) == len(b):
        return a, b
    return a[0] if len(a) == 1 else a, b[0] if len(b) == 1 else b


def negate_integers(operand: Numbers) -> Numbers:
    """Return the values with the opposite sign; the smallest I64 has none."""
    return _settle(-operand.values, operand.valid, operand.values == _MIN, operand)


def absolute_integers(operand: Numbers) -> Numbers:
    """Return the absolute values; that of the smallest I64 does not fit."""
    return _settle(np.abs(operand.values), operand.valid, operand.values == _MIN, operand)


_FLOAT_OPERATORS: dict[ScalarFunction, Callable[[Floats, Floats], Floats]] = {
    ScalarFunction.ADD: np.add,
    ScalarFunction.SUBTRACT: np.subtract,
    ScalarFunction.MULTIPLY: np.multiply,
    ScalarFunction.DIVIDE: np.divide,
    ScalarFunction.MODULO: np.fmod,
    ScalarFunction.POW: np.power,
}
_FLOAT_FUNCTIONS: dict[ScalarFunction, Callable[[Floats], Floats]] = {
    ScalarFunction.SQRT: np.sqrt,
    ScalarFunction.LN: np.log,
    ScalarFunction.LOG10: np.log10,
    ScalarFunction.EXP: np.exp,
    ScalarFunction.ABS: np.abs,
    ScalarFunction.FLOOR: np.floor,
    ScalarFunction.CEIL: np.ceil,
    ScalarFunction.NEGATE: np.negative,
}


# A division by zero is no null of these, but fails as an overflow does.
STRICT_DIVISIONS = {
    ScalarFunction.QUOTIENT: ScalarFunction.DIV,
    ScalarFunction.REMAINDER: ScalarFunction.MODULO,
}


def calculate_floats(function: ScalarFunction, left: Numbers, right: Numbers) -> Numbers:
    """Return `left function right` in F64, null where it is not finite."""
    if function in STRICT_DIVISIONS:
        return _divide_floats(function, left, right)
    with np.errstate(all="ignore"):
        result = _FLOAT_OPERATORS[function](*_pair_values(left, right))
    return Numbers(result, left.valid & right.valid & np.isfinite(result))


def _divide_floats(function: ScalarFunction, left: Numbers, right: Numbers) -> Numbers:
    plain = ScalarFunction.DIVIDE if function is ScalarFunction.QUOTIENT else ScalarFunction.MODULO
    kept = calculate_floats(plain, left, right)
    _, divisors = _pair_values(left, right)
    is_zero = np.broadcast_to(divisors == 0, kept.valid.shape)
    valid = kept.valid | (left.valid & right.valid & is_zero)
    return _settle(kept.values, valid, is_zero, kept)


def apply_float_function(function: ScalarFunction, operand: Numbers) -> Numbers:
    """Return a function of each float, null where it is not finite."""
    with np.errstate(all="ignore"):
        result = _FLOAT_FUNCTIONS[function](operand.values)
    return Numbers(result, operand.valid & np.isfinite(result))


def round_floats(operand: Numbers, digits: Numbers) -> Numbers:
    """Round to a number of decimal digits, halves away from zero; negative digits round to tens, hundreds and so on."""
    with np.errstate(all="ignore"):
        # Beyond these bounds every float stays as it is, or becomes zero.
        scale = np.power(10.0, np.clip(digits.values, -400, 400).astype(np.float64))
        scaled = operand.values * scale
        rounded = np.sign(scaled) * np.floor(np.abs(scaled) + 0.5)
        result = rounded / scale
        # A scaled value without a fraction, or beyond the floats, is already as precise as asked.
        is_exact = ~np.isfinite(scaled) | (np.abs(scaled) >= 2.0**52)
        result = np.where(is_exact, operand.values, result)
        result = np.where(scale == 0.0, 0.0, result)
    return Numbers(result, operand.valid & digits.valid & np.isfinite(result))


def round_integers(operand: Numbers, digits: Numbers) -> Numbers:
    """Round integers to tens, hundreds and so on for negative digits, halves away from zero."""
    exponents = np.clip(-digits.values, 0, 19)
    valid = operand.valid & digits.valid
    if not exponents.any():
        return _settle(np.broadcast_to(operand.values, valid.shape), valid, None, operand, digits)
    # Exact in Python's integers: 10^19 and a rounded value may not fit into 64 bits.
    pairs = zip(*np.broadcast_arrays(operand.values, exponents), strict=True)
    exact = [_round_exactly(int(value), 10 ** int(power)) for value, power in pairs]
    fits = np.array([-(2**63) <= value < 2**63 for value in exact], np.bool_)
    result = np.array([value if ok else 0 for value, ok in zip(exact, fits, strict=True)], np.int64)
    return _settle(result, valid, ~fits, operand, digits)


def _round_exactly(value: int, unit: int) -> int:
    magnitude = (abs(value) + unit // 2) // unit * unit
    return magnitude if value >= 0 else -magnitude


def _is_small(operate: Callable[[int, int], int], a: Ints, b: Ints) -> bool:
    """Return whether no result for a value of `a` and one of `b` can leave 64 bits.

    The bounds of the operands nearly always tell, at a fraction of what a look at all results costs.
    """
    if not np.size(a) or not np.size(b):
        return True
    results = [operate(int(first), int(second)) for first in (a.min(), a.max()) for second in (b.min(), b.max())]
    return min(results) >= -(2**63) and max(results) < 2**63


def _find_product_overflow(a: Ints, b: Ints, product: Ints) -> Mask:
    """Return where a product, which wraps around, is not the true one: dividing it does not give the factor back."""
    # The smallest integer divided by -1 wraps around itself, so that pair is checked apart.
    is_odd_pair = ((a == -1) & (b == _MIN)) | ((b == -1) & (a == _MIN))
    divisor = np.where((a == 0) | (a == -1), 1, a)
    is_true = (np.floor_divide(product, divisor) == b) & (np.fmod(product, divisor) == 0)
    overflow: Mask = is_odd_pair | ((divisor == a) & ~is_true)
    return overflow


def _settle(values: NDArray[Any], valid: Mask, overflow: Mask | None, *operands: Numbers) -> Numbers:
    """Return values that are null where they overflow, or where an operand did."""
    masks = [operand.overflow for operand in operands if operand.overflow is not None]
    if overflow is not None:
        own = overflow & valid
        if own.any():
            masks.append(own)
            valid = valid & ~own
    if not masks:
        return Numbers(values, valid)
    return Numbers(values, valid, reduce(np.logical_or, masks))
