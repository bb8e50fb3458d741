"""Compare numbers of different types exactly, without rounding; only fractions compared with F32 are rounded."""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.query.expr import Op
from omnigraph.storage.arrow_buffers import fill_nulls, is_valid

Numbers: TypeAlias = NDArray[np.generic]
Column: TypeAlias = pa.ChunkedArray | pa.Array | pa.Scalar

_SIGN_TESTS: dict[Op, Callable[[NDArray[np.int8]], NDArray[np.bool_]]] = {
    Op.EQ: lambda sign: sign == 0,
    Op.NE: lambda sign: sign != 0,
    Op.LT: lambda sign: sign < 0,
    Op.LE: lambda sign: sign <= 0,
    Op.GT: lambda sign: sign > 0,
    Op.GE: lambda sign: sign >= 0,
}
# The first float beyond each integer type; 2^63 - 1 and 2^64 - 1 themselves are no floats.
_INT64_END = 2.0**63
_UINT64_END = 2.0**64


def compare_exactly(op: Op, left: Column, right: Column) -> pa.Array:
    """Return `left op right` for integers and floats of any width; null where a side is. At most one is a scalar."""
    a, no_a = _to_numbers(left)
    b, no_b = _to_numbers(right)
    result = _SIGN_TESTS[op](_compute_sign(a, b))
    size = len(b) if isinstance(left, pa.Scalar) else len(a)
    missing = no_a | no_b
    return pa.array(np.broadcast_to(result, size), mask=np.broadcast_to(missing, size))


def round_fractions(column: Column) -> Column:
    """Return 64-bit floats for a comparison with F32: fractions are rounded to the nearest F32, whole numbers stay.

    So 0.1 equals 0.1 whatever the type. `query.numeric_narrowing` does the same with literals.
    """
    if isinstance(column, pa.Scalar):
        return round_fractions(pa.array([column.as_py()], column.type))[0]
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    return pa.array(round_numbers(fill_nulls(column, 0.0)), mask=~is_valid(column))


def round_numbers(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the numbers with each fraction rounded to the nearest F32."""
    is_fraction = numbers != np.trunc(numbers)  # every fraction is below 2^53, so that F32 can represent its magnitude
    return np.where(is_fraction, np.where(is_fraction, numbers, 0.0).astype(np.float32), numbers)


def _to_numbers(column: Column) -> tuple[Numbers, NDArray[np.bool_]]:
    """Return the values as int64, uint64 or float64 with zero for null, and a mask of the nulls."""
    if isinstance(column, pa.Scalar):
        column = pa.array([column.as_py()], column.type)
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    kind = pa.float64() if pa.types.is_floating(column.type) else pa.int64()
    if pa.types.is_uint64(column.type):
        kind = pa.uint64()
    missing = ~is_valid(column)
    return fill_nulls(column.cast(kind), 0), missing


def _compute_sign(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.int8]:
    """Return -1, 0 or 1 where `a` is less than, equal to or greater than `b`."""
    if a.dtype == b.dtype:
        return _compare_same_type(a, b)
    if b.dtype != np.float64 and a.dtype in (np.float64, np.uint64):
        return -_compute_sign(b, a)
    if b.dtype == np.uint64:
        # `a` is int64: negative values are less than any `b`, all others fit into uint64.
        return np.where(a < 0, np.int8(-1), _compare_same_type(np.maximum(a, 0).astype(np.uint64), b))
    # An integer against a float: compare with the float's floor in the integer's type, where that is in range. Equal
    # to the floor of a fraction means less than the fraction.
    low, end = (-_INT64_END, _INT64_END) if a.dtype == np.int64 else (0.0, _UINT64_END)
    whole = np.floor(b)
    is_inside = (whole >= low) & (whole < end)
    sign = _compare_same_type(a, np.where(is_inside, whole, 0.0).astype(a.dtype))
    sign = np.where((sign == 0) & (whole < b), np.int8(-1), sign)
    return np.where(is_inside, sign, np.where(whole >= end, np.int8(-1), np.int8(1)))


def _compare_same_type(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.int8]:
    return (a > b).astype(np.int8) - (a < b).astype(np.int8)
