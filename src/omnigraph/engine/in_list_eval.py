"""Evaluate `in` over whole columns, with exact comparison of numbers of any type."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.engine.numeric_compare import round_fractions
from omnigraph.schema.catalog import Value
from omnigraph.schema.types import INTEGER_RANGES, Scalar, ValueType

Column: TypeAlias = pa.ChunkedArray | pa.Array
# Compares two columns row by row.
Equal: TypeAlias = Callable[[pa.Array, pa.Array], pa.Array]
_MAX_INT64 = 2**63 - 1


def is_in_items(element: Column, type_: ValueType, items: Sequence[Value], of_items: Scalar) -> Column:
    """Return for each row whether its value is one of these items of type `of_items`; null for a null value."""
    if isinstance(type_, Scalar) and type_.is_float:
        element = element.cast(pa.float64())
        element = round_fractions(element) if (type_, of_items) == (Scalar.F64, Scalar.F32) else element
        element = pc.add(element, pa.scalar(0.0))  # -0.0 becomes 0.0, which it equals
    if isinstance(type_, Scalar) and type_.is_numeric:
        values = pa.array(select_numbers(items, type_), element.type)
        values = round_fractions(values) if (type_, of_items) == (Scalar.F32, Scalar.F64) else values
    else:
        values = pa.array(items, element.type)
    # `is_in` returns false for null, but a comparison with null is unknown.
    return pc.if_else(pc.is_valid(element), pc.is_in(element, value_set=values), pa.scalar(None, pa.bool_()))


def select_numbers(items: Sequence[Value], type_: Scalar) -> NDArray[np.generic] | list[float]:
    """Return the items that a column of this type can contain, converted to its type."""
    # A list of a single kind, however long, is converted as one array.
    kinds = set(map(type, items))
    if type_.is_float and kinds == {float}:
        return np.asarray(items, np.float64) + 0.0
    if type_.is_integer and kinds == {int}:
        with suppress(OverflowError):  # if a number has more than 64 bits, items are converted individually
            low, high = INTEGER_RANGES[type_]
            whole = np.asarray(items, np.int64)
            return whole[(whole >= low) & (whole <= min(high, _MAX_INT64))]
    return [number for item in items if (number := _convert_number(item, type_)) is not None]


def _convert_number(item: Value, type_: Scalar) -> float | None:
    """Return a number in the type of a column, or None if no value of that type equals it."""
    assert isinstance(item, int | float)  # noqa: S101 - the list holds numbers, as the column does
    if type_.is_float:
        return float(item) + 0.0 if _is_exact(item) else None
    low, high = INTEGER_RANGES[type_]
    whole = int(item)
    return whole if whole == item and low <= whole <= high else None


def _is_exact(item: float) -> bool:
    try:
        return float(item) == item
    except OverflowError:
        return False


def is_in_list(element: pa.Array, lists: Column, equal: Equal) -> pa.Array:
    """Return for each row whether its value is in its list; null where either is null."""
    lists = lists.combine_chunks() if isinstance(lists, pa.ChunkedArray) else lists
    element = element.combine_chunks() if isinstance(element, pa.ChunkedArray) else element
    rows = pc.list_parent_indices(lists)
    # One comparison per list item: the value is repeated for each item of its row.
    is_equal = equal(element.take(rows), lists.flatten())
    is_in = np.zeros(len(lists), np.bool_)
    is_in[np.asarray(rows)[np.asarray(is_equal.fill_null(False))]] = True
    is_unknown = np.asarray(pc.or_(lists.is_null(), element.is_null()))
    return pa.array(is_in, mask=is_unknown)
