"""Estimate selectivities of an indexed column from the pages of its BTREE, without reading the column.

All pages but the last have the same number of rows: an equi-depth histogram. A frequent value fills several pages, and
the rows of a range are about those of the pages that it covers. Segments of an index are immutable, so a version always
has the same estimates.
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
from omnigraph.storage.arrow_buffers import fill_nulls
from omnigraph.storage.index_pages import IndexPages

# The texts of one page are compared by this number of bytes after their common prefix: these fit exactly into a float.
_PREFIX_BYTES = 6
# The last page of a segment is assumed to be half full.
_LAST_PAGE_FILL = 0.5


def to_order_number(value: Value, type_: ValueType) -> float | None:
    """Return the number that orders a value within its column; None for texts, null and NaN."""
    if isinstance(value, int | float):
        return None if math.isnan(value) else float(value)
    if value is None or not isinstance(type_, Scalar) or type_ not in (Scalar.DATE, Scalar.DATETIME):
        return None
    return float(pa.scalar(value, to_arrow_type(type_)).value)


def to_order_numbers(values: pa.Array) -> NDArray[np.float64]:
    """Return the numbers that order a column of numbers, dates or instants; NaN for null."""
    if pa.types.is_date32(values.type):
        values = values.cast(pa.int32())
    elif pa.types.is_timestamp(values.type):
        values = values.cast(pa.int64())
    return np.array(fill_nulls(values.cast(pa.float64(), safe=False), math.nan))


class Histogram:
    """The equi-depth histogram of a column, from the pages of all segments of its index."""

    def __init__(self, segments: Sequence[IndexPages], type_: ValueType) -> None:
        self._type = type_
        self._segments = [_SegmentHistogram(pages, type_) for pages in segments]
        nulls = sum(int(pages.nulls.sum()) for pages in segments)
        self._rows = max(nulls + sum(part.total for part in self._segments), 1.0)
        self.nulls = nulls / self._rows
        self.distinct: float = max(sum(part.distinct for part in self._segments), 1.0)

    @property
    def nbytes(self) -> int:
        """The approximate size in memory."""
        return 256 + sum(part.nbytes for part in self._segments)

    def estimate_equal(self, value: Value) -> float:
        """Estimate the share of rows that have a value; with None, the share of an average value."""
        if value is None:
            return (1 - self.nulls) / self.distinct
        key = self._find_order_key(value)
        rows: float = 0.0 if key is None else sum(part.estimate_equal(key) for part in self._segments)
        return max(rows, 1.0) / self._rows

    def estimate_below(self, value: Value, *, or_equal: bool) -> float | None:
        """Estimate the share of rows whose value is less; None if the value has no place in the column's order."""
        key = self._find_order_key(value)
        if key is None:
            return None
        return sum(part.estimate_below(key, or_equal=or_equal) for part in self._segments) / self._rows

    def _find_order_key(self, value: Value) -> float | str | None:
        if is_text(self._type):
            return value if isinstance(value, str) else None
        return to_order_number(value, self._type)


class _SegmentHistogram:
    """The histogram of one segment: its pages that have values, in their order."""

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
        self._page_distinct = [self._estimate_distinct(page) for page in range(len(self._rows))]
        # A value that continues on the next page was counted on both.
        shared = sum(high == low for high, low in zip(self._highs, self._lows[1:], strict=False))
        self.distinct: float = max(sum(self._page_distinct) - shared, 0.0)
        self._before = np.concatenate([[0.0], np.cumsum(self._rows)])

    @property
    def nbytes(self) -> int:
        """The approximate size in memory."""
        texts = sum(map(len, self._lows)) + sum(map(len, self._highs)) if self._is_text else 0
        return 160 * len(self._rows) + texts

    def _estimate_distinct(self, page: int) -> float:
        low = self._lows[page]
        high = self._highs[page]
        rows = float(self._rows[page])
        if low == high:
            return 1.0
        # How often texts and fractions repeat is unknown: the geometric mean of one value and all different is assumed.
        return min(high - low + 1.0, rows) if self._is_discrete else math.sqrt(rows)

    def estimate_equal(self, key: float | str) -> float:
        """Estimate the number of rows that have a value."""
        pages = range(bisect_left(self._highs, key), bisect_right(self._lows, key))
        return sum(float(self._rows[page]) / self._page_distinct[page] for page in pages)

    def estimate_below(self, key: float | str, *, or_equal: bool) -> float:
        """Estimate the number of rows whose value is less."""
        side = bisect_right if or_equal else bisect_left
        whole_pages = side(self._highs, key)
        partial_pages = range(whole_pages, side(self._lows, key))
        rows: float = self._before[whole_pages]
        return rows + sum(float(self._rows[page]) * self._interpolate(page, key) for page in partial_pages)

    def _interpolate(self, page: int, key: float | str) -> float:
        low, high = self._lows[page], self._highs[page]
        if isinstance(key, str):
            prefix = next((at for at, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), len(low))
            low, high, key = (_to_fraction(text[prefix:]) for text in (low, high, key))
        # A page without a finite width says nothing about the position in it: the middle is assumed.
        share: float = (key - low) / (high - low) if math.isfinite(high - low) and high > low else 0.5
        return min(max(share, 0.0), 1.0)


def _to_fraction(text: str) -> float:
    """Return a number from 0 to 1 that orders texts by their first bytes."""
    begin = text.encode()[:_PREFIX_BYTES].ljust(_PREFIX_BYTES, b"\0")
    return float(int.from_bytes(begin, "big")) / 256.0**_PREFIX_BYTES


def _read_page_bounds(lows: pa.Array, highs: pa.Array, is_text: bool) -> tuple[list[Any], list[Any]]:
    """Return the comparable minimum and maximum of each page; a first page may start with nulls."""
    if is_text:
        return [low or "" for low in lows.to_pylist()], highs.to_pylist()
    low, high = to_order_numbers(lows), to_order_numbers(highs)
    # NaN sorts after all numbers, and with a sign bit before all.
    high[np.isnan(high)] = np.inf
    low[np.isnan(low) & np.asarray(lows.is_valid())] = -np.inf
    if len(low) and math.isnan(low[0]):
        # The first page starts with nulls, so its minimum is unknown: it is assumed to be as wide as the next page.
        span = high[1] - low[1] if len(low) > 1 else 0.0
        low[0] = high[0] - (span if math.isfinite(span) else 0.0)
    return np.minimum(low, high).tolist(), high.tolist()
