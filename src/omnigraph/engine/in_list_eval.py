"""`in` and `contains` over columns: exact whatever the types of numbers, and without looking at single rows."""

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
Equal: TypeAlias = Callable[[pa.Array, pa.Array], pa.Array]
"""Row by row whether two values are equal."""
_MAX_INT64 = 2**63 - 1


def is_in_items(element: Column, type_: ValueType, items: Sequence[Value], of_items: Scalar) -> Column:
    """Return row by row whether a value is one of these items, which have the type `of_items`; unknown for null."""
    if isinstance(type_, Scalar) and type_.is_float:
        element = element.cast(pa.float64())
        element = round_fractions(element) if (type_, of_items) == (Scalar.F64, Scalar.F32) else element
        element = pc.add(element, pa.scalar(0.0))  # -0.0 becomes 0.0, which it equals
    if isinstance(type_, Scalar) and type_.is_numeric:
        values = pa.array(_select_numbers(items, type_), element.type)
        values = round_fractions(values) if (type_, of_items) == (Scalar.F32, Scalar.F64) else values
    else:
        values = pa.array(items, element.type)
    found = pc.is_in(element, value_set=values)
    return pc.if_else(pc.is_valid(element), found, pa.scalar(None, pa.bool_()))


def _select_numbers(items: Sequence[Value], type_: Scalar) -> NDArray[np.generic] | list[float]:
    """Those of the numbers that a column of this type can have; a long list of one kind is not gone through."""
    kinds = set(map(type, items))
    if type_.is_float and kinds == {float}:
        return np.asarray(items, np.float64) + 0.0
    if type_.is_integer and kinds == {int}:
        with suppress(OverflowError):  # a number of more than 64 bits is among them
            low, high = INTEGER_RANGES[type_]
            whole = np.asarray(items, np.int64)
            return whole[(whole >= low) & (whole <= min(high, _MAX_INT64))]
    return [number for item in items if (number := _convert_number(item, type_)) is not None]


def _convert_number(item: Value, type_: Scalar) -> float | None:
    """A number as one of a column's own type; None when no value there equals it."""
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
    """Row by row whether a value is in the list beside it; unknown where either is missing."""
    lists = lists.combine_chunks() if isinstance(lists, pa.ChunkedArray) else lists
    element = element.combine_chunks() if isinstance(element, pa.ChunkedArray) else element
    rows = pc.list_parent_indices(lists)
    same = equal(element.take(rows), lists.flatten())
    found = np.zeros(len(lists), np.bool_)
    found[np.asarray(rows)[np.asarray(same.fill_null(False))]] = True
    missing = np.asarray(pc.or_(lists.is_null(), element.is_null()))
    return pa.array(found, mask=missing)
