"""Convert comparisons of a column with a number to exact comparisons in the column's type.

An index has values of its column's type, so a number compared with a column is replaced by one of that type, and the
operator with it: `age < 2.7` on an I32 is `age <= 2`. A number that no value equals makes `=` a comparison that is
never true and `!=` one that is always true, both still unknown for null.

A fraction compared with an F32 column is first rounded to F32, just as when it is stored: a value inserted as 0.1 is
found by `= 0.1`.
"""

import math
import struct
import sys
from dataclasses import dataclass

from omnigraph.query.expr import Op
from omnigraph.schema.types import INTEGER_RANGES, Scalar

_MAX_FLOATS = {Scalar.F64: sys.float_info.max, Scalar.F32: (2 - 2**-23) * 2.0**127}
# How an operator changes if the number is rounded down or up: `x < 2.7` is `x <= 2`, and `x <= 2.7` stays `x <= 2`.
_OPS_WHEN_BELOW = {Op.LT: Op.LE, Op.GE: Op.GT}
_OPS_WHEN_ABOVE = {Op.LE: Op.LT, Op.GT: Op.GE}


@dataclass(frozen=True, slots=True)
class NarrowedComparison:
    """`column op value`, equivalent to the original comparison."""

    op: Op
    value: int | float


def narrow(op: Op, number: float, column: Scalar) -> NarrowedComparison:
    """Return the comparison `column op number` with a value of the column's numeric type."""
    number = _as_stored(number, column)
    value = round_to_type(number, column)
    if value == number:
        return NarrowedComparison(op, value)
    # Never or always true unless null: `x < smallest` and `x >= smallest`, which constant folding recognises.
    if op in (Op.EQ, Op.NE):
        return NarrowedComparison(Op.LT if op is Op.EQ else Op.GE, find_min_value(column))
    table = _OPS_WHEN_BELOW if value < number else _OPS_WHEN_ABOVE
    return NarrowedComparison(table.get(op, op), value)


def find_exact(number: float, column: Scalar) -> int | float | None:
    """Return the value of the column's numeric type that equals the number, or None."""
    number = _as_stored(number, column)
    value = round_to_type(number, column)
    return value if value == number else None


def _as_stored(number: float, column: Scalar) -> float:
    """Return a fraction rounded as an F32 column stores it; whole numbers stay exact."""
    is_rounded = column is Scalar.F32 and number % 1 != 0
    return round_to_type(number, column) if is_rounded else number


def round_to_type(number: float, column: Scalar) -> int | float:
    """Return a value of the type with no other between it and the number; the number itself if the type has it."""
    if column.is_integer:
        low, high = INTEGER_RANGES[column]
        return min(max(math.floor(number), low), high)
    largest = _MAX_FLOATS[column]
    try:
        # Through 64 bits to 32: every 32-bit value is a 64-bit one, so the first rounding can't step over any.
        value = float(number)
        if column is Scalar.F32:
            value = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return largest if number > 0 else -largest
    return value


def find_min_value(column: Scalar) -> int | float:
    """Return the smallest value of a numeric type."""
    return INTEGER_RANGES[column][0] if column.is_integer else -_MAX_FLOATS[column]
