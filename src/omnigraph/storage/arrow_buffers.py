"""Read Arrow arrays as numpy arrays, and build arrays and scalars, directly on their buffers.

`np.asarray(array)`, `array.fill_null(0)`, `pa.scalar(1)` and `pa.array(values)` do the same for every type. But for
them pyarrow's C++ side imports pandas where it is installed (see `pandas_later`), and its Python side imports numpy's
masked arrays, so the conversions that every query needs are done here.
"""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_NUMBERS: dict[pa.DataType, np.dtype[Any]] = {
    **{
        pa.from_numpy_dtype(name): np.dtype(name)
        for name in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8")
    },
    pa.date32(): np.dtype(np.int32),
}
_INTEGERS = frozenset({pa.int32(), pa.int64(), pa.uint32(), pa.uint64()})


def read_numbers(array: pa.Array) -> NDArray[Any]:
    """Return the values of an array of numbers or dates without copying; entries of nulls are undefined."""
    dtype = _NUMBERS[array.type]
    data = array.buffers()[1]
    if data is None:  # an empty array may have no data buffer
        return np.empty(len(array), dtype)
    return np.frombuffer(data, dtype, len(array), array.offset * dtype.itemsize)


def build_array(values: NDArray[Any]) -> pa.Array:
    """Return numbers or booleans as an Arrow array; contiguous numbers are not copied."""
    is_boolean = values.dtype == np.bool_
    data = np.packbits(values, bitorder="little") if is_boolean else np.ascontiguousarray(values)
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, pa.py_buffer(data)])


def read_booleans(array: pa.BooleanArray) -> NDArray[np.bool_]:
    """Return the values of a boolean array; null becomes false."""
    values = _unpack_bits(array, 1)
    return values & _unpack_bits(array, 0) if array.null_count else values


def is_valid(array: pa.Array) -> NDArray[np.bool_]:
    """Return a mask of the values that are not null."""
    return _unpack_bits(array, 0) if array.null_count else np.ones(len(array), np.bool_)


def fill_nulls(array: pa.Array, filler: float) -> NDArray[Any]:
    """Return the values of an array of numbers with nulls replaced; without nulls nothing is copied."""
    values = read_numbers(array)
    return np.where(_unpack_bits(array, 0), values, values.dtype.type(filler)) if array.null_count else values


def build_scalar(value: object, type_: pa.DataType) -> pa.Scalar:
    """Return a scalar of a type from a value that fits it, as `pa.scalar` does."""
    match value:
        case str() if pa.types.is_string(type_):
            text = value.encode()
            return _wrap_buffers(type_, pa.py_buffer(np.array([0, len(text)], np.int32)), pa.py_buffer(text))
        # Before `int()`: a Python bool is an int.
        case bool() if pa.types.is_boolean(type_):
            return _wrap_buffers(type_, pa.py_buffer(bytes([value])))
        # One bit is left for a sign: `pa.scalar` handles values that need every bit, and those that do not fit.
        case int() if type_ in _INTEGERS and value.bit_length() < type_.bit_width and (value >= 0 or _is_signed(type_)):
            return _wrap_buffers(type_, pa.py_buffer(np.array([value], _NUMBERS[type_])))
        case float() if pa.types.is_float64(type_):
            return _wrap_buffers(type_, pa.py_buffer(np.array([value])))
        case _:
            return pa.scalar(value, type_)


def _is_signed(type_: pa.DataType) -> bool:
    return bool(pa.types.is_signed_integer(type_))


def _wrap_buffers(type_: pa.DataType, *buffers: pa.Buffer) -> pa.Scalar:
    return pa.Array.from_buffers(type_, 1, [None, *buffers])[0]


def _unpack_bits(array: pa.Array, buffer: int) -> NDArray[np.bool_]:
    data = array.buffers()[buffer]
    if data is None:  # no validity buffer: no value is null
        return np.ones(len(array), np.bool_)
    # A slice may begin in the middle of a byte.
    first_byte = array.offset // 8
    skipped_bits = array.offset % 8
    packed = np.frombuffer(data, np.uint8, -(-(skipped_bits + len(array)) // 8), first_byte)
    return np.unpackbits(packed, bitorder="little", count=skipped_bits + len(array))[skipped_bits:].view(np.bool_)
