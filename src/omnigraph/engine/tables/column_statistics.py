"""Estimate the distribution of a column's values for the planner, from its index or from a sample.

The table version alone decides which rows are sampled: equal rows have equal statistics in every process, whatever is
in memory (decision 17).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.engine.query_budget import Budget
from omnigraph.engine.tables.column_store import ColumnStore
from omnigraph.engine.tables.histogram import Histogram, to_order_number, to_order_numbers
from omnigraph.schema.catalog import Value
from omnigraph.schema.types import EnumOf, Scalar, ValueType
from omnigraph.storage.arrow_buffers import read_numbers
from omnigraph.storage.index_pages import read_index_pages
from omnigraph.storage.lance_table import IndexCoverage

# Tables of at most this size are counted completely; of larger ones one row is taken from each of this number of
# segments.
SAMPLE_ROWS = 4_096
# Multiples of the golden ratio, modulo 1, are spread evenly and follow no period.
_GOLDEN_RATIO = (5**0.5 - 1) / 2
# A BITMAP answers equality, and stores the set of rows of each value.
BITMAP_KINDS = ("BITMAP",)
# The kinds of indexes that answer comparisons.
ORDERED_KINDS = ("BTREE", *BITMAP_KINDS)
# A LABEL_LIST answers whether a list contains a value, and stores the set of rows of each value.
LABEL_KINDS = ("LABELLIST",)
# At most this number of values get their own share, and only those that occur this often in the sample; if the sample
# is the whole table, however rare they are.
_MAX_COMMON_VALUES = 64
_MIN_OCCURRENCES = 4


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """The distribution of a column's values over its live rows, estimated from a sample."""

    nulls: float
    common: Mapping[Value, float]
    """The most common values, and the share of rows that has each."""
    rare_share: float
    """The share of rows that has one particular value outside `common`."""
    distinct: float
    """The estimated number of distinct values of all rows."""
    ordered: NDArray[np.float64] | None
    """The numbers, dates or instants of the sample, ascending; None for a column of another type."""
    type: ValueType

    @property
    def nbytes(self) -> int:
        """The approximate size in memory."""
        ordered = 0 if self.ordered is None else self.ordered.nbytes
        return 256 + ordered + sum(128 + (len(key) if isinstance(key, str) else 0) for key in self.common)

    def estimate_equal(self, value: Value) -> float:
        """Estimate the share of rows that have this value."""
        return self.common.get(value, self.rare_share)

    def estimate_below(self, value: Value, *, or_equal: bool) -> float | None:
        """Estimate the share of rows whose value is less; None for types without an order by number."""
        number = to_order_number(value, self.type)
        if self.ordered is None or not len(self.ordered) or number is None:
            return None
        rows_below = np.searchsorted(self.ordered, number, side="right" if or_equal else "left")
        return float(rows_below) / len(self.ordered) * (1 - self.nulls)


def load_statistics(
    columns: ColumnStore, column: str, type_: ValueType, budget: Budget | None = None
) -> ColumnStatistics | Histogram | None:
    """Return the histogram of a scalar column's index, or else statistics from a sample of it.

    None if sampling would cost more than it gains: the column is large, and a query with a predicate on it does not
    read all of it.
    """
    if not isinstance(type_, Scalar | EnumOf) or type_ is Scalar.BLOB or not columns.layout.count:
        return None
    index = None if columns.costs.is_tiny else find_index(columns, column, ORDERED_KINDS)
    if index is not None:
        # A BITMAP has no pages: its rows are counted per value, see `count_share_by_index`.
        return _load_histogram(columns, index, type_, budget) if index.kind.upper() == "BTREE" else None
    if not columns.costs.is_light_by_size(column):
        return None
    return columns.get_or_derive(
        column,
        "statistics",
        lambda: _sample_statistics(columns, column, type_, budget),
        lambda statistics: statistics.nbytes,
        budget,
    )


def find_index(columns: ColumnStore, column: str, kinds: Collection[str]) -> IndexCoverage | None:
    """Return the first index of a column that is of one of these kinds and covers at least one row."""
    for index in columns.list_indexes():
        if index.columns == (column,) and index.kind.upper() in kinds and index.covered_fragments:
            return index
    return None


def count_share_by_index(columns: ColumnStore, index: IndexCoverage, where: str, budget: Budget | None) -> float:
    """Return the share of rows that pass a filter, counted by an index that stores the set of rows of each value."""
    count = columns.get_or_derive(
        index.columns[0], f"rows where {where}", lambda: columns.table.count(where), lambda _: 64 + len(where), budget
    )
    return count / max(columns.layout.count, 1)


def _load_histogram(columns: ColumnStore, index: IndexCoverage, type_: ValueType, budget: Budget | None) -> Histogram:
    """Return the histogram of an index, cached for all versions that share its segments."""
    key = (columns.table.path, "histogram", *index.segments)

    def build() -> Histogram:
        return Histogram([read_index_pages(columns.table, segment) for segment in index.segments], type_)

    return columns.cache.get_or_build(key, build, lambda histogram: histogram.nbytes, budget)


def _sample_statistics(columns: ColumnStore, column: str, type_: ValueType, budget: Budget | None) -> ColumnStatistics:
    count = columns.layout.count
    at = _choose_sample(count)
    if columns.live_rows.get_mask() is not None:
        # The sample numbers live rows; with deleted rows, positions differ.
        at = columns.live_rows.get_positions()[at]
    sample = columns.take_values(column, at, budget)
    values = sample.drop_null()
    nulls = 1 - len(values) / len(sample)
    counted = pc.value_counts(values)
    times = read_numbers(counted.field("counts"))
    is_whole = len(sample) == count
    if type_ in (Scalar.DATE, Scalar.DATETIME):
        first = times[:0]
    else:
        first = np.argsort(-times, kind="stable")[:_MAX_COMMON_VALUES]
    if not is_whole:
        first = first[times[first] >= _MIN_OCCURRENCES]
    common_values = counted.field("values").take(pa.array(first)).to_pylist()
    common = dict(zip(common_values, (times[first] / len(sample)).tolist(), strict=True))
    distinct = _estimate_distinct(times, len(sample), count)
    rest = 1 - nulls - float(times[first].sum()) / len(sample)
    # A value outside the sample may still exist: at least one row is expected for it.
    rare_share = max(rest / max(distinct - len(first), 1.0), 1 / count)
    ordered = None
    if isinstance(type_, Scalar) and (type_.is_numeric or type_ in (Scalar.DATE, Scalar.DATETIME)):
        ordered = np.sort(to_order_numbers(values))
        ordered.flags.writeable = False
    return ColumnStatistics(nulls, common, rare_share, distinct, ordered, type_)


def _choose_sample(count: int) -> NDArray[np.int64]:
    """Return which rows to sample: one from each of `SAMPLE_ROWS` equal segments.

    Where in its segment a row lies follows no period, which the data might have too.
    """
    if count <= SAMPLE_ROWS:
        return np.arange(count)
    segments = np.arange(SAMPLE_ROWS)
    return ((segments + segments * _GOLDEN_RATIO % 1.0) * (count / SAMPLE_ROWS)).astype(np.int64)


def _estimate_distinct(times: NDArray[np.int64], sampled: int, rows: int) -> float:
    """Estimate the number of distinct values of a column from how often each occurs in a sample.

    Values that occur once represent the square root of `rows / sampled` values each; those that occur more often are
    counted as one.
    """
    once = int(np.count_nonzero(times == 1))
    return float(len(times) - once + once * np.sqrt(rows / sampled))
