"""What the planner knows of an indexed column: shares of rows by the pages of its BTREE, without reading the column.

Every page holds equally many rows, so a value that many rows have fills pages of its own, and a range holds about as
many rows as the pages that it covers. The segments of an index are immutable: the same version has the same estimates.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.schema.arrow import to_arrow_type
from omnigraph.schema.catalog import Value
from omnigraph.schema.types import Scalar, ValueType, is_text
from omnigraph.storage.arrow_buffers import build_scalar, fill_nulls
from omnigraph.storage.index_pages import IndexPages

_PREFIX_BYTES = 6
"""By so many bytes behind what they share, texts of one page are told apart: they fit into a float."""
_LAST_PAGE_FILL = 0.5
"""How full the last page of a segment is taken for."""


def to_order_number(value: Value, type_: ValueType) -> float | None:
    """Return the number by which a value of a column lies between others; None for texts, and what is no value."""
    if isinstance(value, int | float):
        return None if math.isnan(value) else float(value)
    if value is None or not isinstance(type_, Scalar) or type_ not in (Scalar.DATE, Scalar.DATETIME):
        return None
    return float(build_scalar(value, to_arrow_type(type_)).value)


def to_order_numbers(values: pa.Array) -> NDArray[np.float64]:
    """Return these numbers of a column of numbers, dates or instants; NaN where there is no value."""
    if pa.types.is_date32(values.type):
        values = values.cast(pa.int32())
    elif pa.types.is_timestamp(values.type):
        values = values.cast(pa.int64())
    return np.array(fill_nulls(values.cast(pa.float64(), safe=False), math.nan))


class Histogram:
    """Shares of a column's rows, as the segments of its index tell them."""

    def __init__(self, segments: Sequence[IndexPages], type_: ValueType) -> None:
        self._type = type_
        self._segments = [_SegmentHistogram(pages, type_) for pages in segments]
        nulls = sum(int(pages.nulls.sum()) for pages in segments)
        self._rows = max(nulls + sum(part.total for part in self._segments), 1.0)
        self.nulls = nulls / self._rows
        self.distinct: float = max(sum(part.distinct for part in self._segments), 1.0)

    @property
    def nbytes(self) -> int:
        """The memory that it takes, about."""
        return 256 + sum(part.nbytes for part in self._segments)

    def estimate_equal(self, value: Value) -> float:
        """Return the share of rows that have a value; None: one that nothing is known of."""
        if value is None:
            return (1 - self.nulls) / self.distinct
        place = self._find_order_key(value)
        rows: float = 0.0 if place is None else sum(part.estimate_equal(place) for part in self._segments)
        return max(rows, 1.0) / self._rows

    def estimate_below(self, value: Value, *, or_equal: bool) -> float | None:
        """Return the share of rows whose value is less; None where that can't be told."""
        place = self._find_order_key(value)
        if place is None:
            return None
        return sum(part.estimate_below(place, or_equal=or_equal) for part in self._segments) / self._rows

    def _find_order_key(self, value: Value) -> float | str | None:
        if is_text(self._type):
            return value if isinstance(value, str) else None
        return to_order_number(value, self._type)


class _SegmentHistogram:
    """One segment: its pages that have values, in their order."""

    def __init__(self, pages: IndexPages, type_: ValueType) -> None:
        self._is_text = is_text(type_)
        self._is_discrete = isinstance(type_, Scalar) and (type_.is_integer or type_ is Scalar.DATE)
        has_values = np.asarray(pages.highs.is_valid())
        rows = np.full(len(pages.nulls), float(pages.page_rows))
        if len(rows):
            rows[-1] *= _LAST_PAGE_FILL
        self._rows = np.maximum(rows - pages.nulls, 1.0)[has_values]
        self.total = float(self._rows.sum())
        self._lows, self._highs = _read_page_bounds(
            pages.lows.filter(has_values), pages.highs.filter(has_values), self._is_text
        )
        self._values = [self._estimate_distinct(page) for page in range(len(self._rows))]
        """About how many different values each page has."""
        shared = sum(high == low for high, low in zip(self._highs, self._lows[1:], strict=False))
        self.distinct: float = max(sum(self._values) - shared, 0.0)
        self._before = np.concatenate([[0.0], np.cumsum(self._rows)])

    @property
    def nbytes(self) -> int:
        """The memory that it takes, about."""
        texts = sum(map(len, self._lows)) + sum(map(len, self._highs)) if self._is_text else 0
        return 160 * len(self._rows) + texts

    def _estimate_distinct(self, page: int) -> float:
        low, high, rows = self._lows[page], self._highs[page], float(self._rows[page])
        if low == high:
            return 1.0
        # Of texts and fractions nothing tells how often they are repeated: the middle between one each and all alike.
        return min(high - low + 1.0, rows) if self._is_discrete else math.sqrt(rows)

    def estimate_equal(self, place: float | str) -> float:
        """Return about how many rows have a value."""
        pages = range(bisect_left(self._highs, place), bisect_right(self._lows, place))
        return sum(float(self._rows[page]) / self._values[page] for page in pages)

    def estimate_below(self, place: float | str, *, or_equal: bool) -> float:
        """Return about how many rows have less."""
        side = bisect_right if or_equal else bisect_left
        whole = side(self._highs, place)
        begun = range(whole, side(self._lows, place))
        rows: float = self._before[whole]
        return rows + sum(float(self._rows[page]) * self._interpolate(page, place) for page in begun)

    def _interpolate(self, page: int, place: float | str) -> float:
        low, high = self._lows[page], self._highs[page]
        if isinstance(place, str):
            shared = next((at for at, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), len(low))
            low, high, place = (_to_fraction(text[shared:]) for text in (low, high, place))
        share: float = (place - low) / (high - low) if math.isfinite(high - low) and high > low else 0.5
        return min(max(share, 0.0), 1.0)


def _to_fraction(text: str) -> float:
    """Return a number between 0 and 1 in the order of texts, by their first bytes."""
    begin = text.encode()[:_PREFIX_BYTES].ljust(_PREFIX_BYTES, b"\0")
    return float(int.from_bytes(begin, "big")) / 256.0**_PREFIX_BYTES


def _read_page_bounds(lows: pa.Array, highs: pa.Array, is_text: bool) -> tuple[list[Any], list[Any]]:
    """Return the least and greatest values of pages as what can be compared; a first page may begin without a value."""
    if is_text:
        return [low or "" for low in lows.to_pylist()], highs.to_pylist()
    low, high = to_order_numbers(lows), to_order_numbers(highs)
    high[np.isnan(high)] = np.inf  # what is no number lies beyond all numbers, or with a sign below all
    low[np.isnan(low) & np.asarray(lows.is_valid())] = -np.inf
    if len(low) and math.isnan(low[0]):
        span = high[1] - low[1] if len(low) > 1 else 0.0
        low[0] = high[0] - (span if math.isfinite(span) else 0.0)
    return np.minimum(low, high).tolist(), high.tolist()
