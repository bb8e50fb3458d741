"""Load the columns of one table version into a cache, where that pays off, shared by all queries and branches."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.engine.bindings import Positions
from omnigraph.engine.kernels import encode_dictionary, skip_check
from omnigraph.engine.query_budget import Budget
from omnigraph.engine.tables.column_residency import ColumnCosts
from omnigraph.engine.tables.content_cache import ContentCache, ContentKey, Key
from omnigraph.engine.tables.live_rows import LiveRows, build_deletions_key, freeze, measure_array
from omnigraph.engine.tables.row_layout import Layout, RowRun, mask_values
from omnigraph.engine.tables.taken_rows import MAX_KEPT_ROWS, take_cached
from omnigraph.storage.arrow_buffers import build_array, fill_nulls, is_valid, read_booleans
from omnigraph.storage.lance_table import IndexCoverage, LanceTable, is_blob

T = TypeVar("T")

# Arrow's `string` has 32-bit offsets; more bytes than this need `large_string`.
_MAX_TEXT_BYTES = 2**31 - 1
# The integers that represent instants and dates in Arrow's buffers.
_STORED_DTYPES = {pa.timestamp("us", "UTC"): np.int64, pa.date32(): np.int32}


@dataclass(frozen=True, slots=True)
class _WrittenColumn:
    """A column as it was written, with deleted rows, and the layout of its fragments."""

    layout: Layout
    values: pa.Array


class ColumnStore:
    """Load, cache and gather the columns of a table version. Thread-safe.

    A blob is represented by its descriptor; only `take_values` returns its bytes.
    """

    def __init__(self, table: LanceTable, cache: ContentCache) -> None:
        self.table = table
        self.cache = cache
        self.version = ContentKey(table.path, table.cache_version)
        # The cache only accepts values of a version while that version has a holder.
        cache.add_holder(self, [self.version])
        key = (self.version, "layout")
        self.layout = cache.get_or_build(
            key, lambda: Layout(table.list_fragments()), lambda layout: 512 * len(layout.fragments) + 512
        )
        # Values as they were written depend on the content; those of live rows also on what was deleted.
        self.content = ContentKey(table.path, self.layout.content)
        self.state = ContentKey(table.path, self.layout.state)
        deleted = {
            build_deletions_key(table.path, fragment)
            for fragment in self.layout.fragments
            if fragment.deletions is not None
        }
        cache.add_holder(self, {self.content, self.state} | deleted)
        self.live_rows = LiveRows(table, self.layout, cache)
        self._schema = table.schema
        self.costs = ColumnCosts(self.layout, self._schema, cache.limit_bytes)
        self._fields: dict[str, tuple[int, str]] = {}

    def is_resident(self, column: str) -> bool:
        """Return whether the whole column is in memory now."""
        return self._build_column_key(column) in self.cache

    # --- columns ------------------------------------------------------------------------------------

    def load_written(self, column: str, budget: Budget | None = None) -> pa.Array:
        """Return the column by position, with the old values of deleted rows.

        For callers that only read live rows: no mask has to be applied.
        """
        key = self._build_column_key(column)
        return self.cache.get_or_build(
            key, lambda: self._load(column, budget), lambda raw: raw.values.nbytes, budget
        ).values

    def load_column(self, column: str, budget: Budget | None = None) -> pa.Array:
        """Return the column by position, null for deleted rows."""
        values = self.load_written(column, budget)
        bits = self.live_rows.get_bitmap()
        return values if bits is None else mask_values(values, bits)

    def take_values(self, column: str, at: Positions, budget: Budget | None = None) -> pa.Array:
        """Return the values at these positions, in any order, from memory or, if few rows of many, from the table."""
        field = self._schema.field(column)
        if is_blob(field):
            offsets = self.live_rows.to_offsets(at).to_pylist()
            return concat_chunks(self.table.take_with_blobs(offsets, [column]).column(column).chunks, pa.large_binary())
        if self.is_resident(column) or self.costs.should_load(column, len(at)):
            return _take(self.load_written(column, budget), at)
        if len(at) > MAX_KEPT_ROWS:
            return self.take_stored(column, at)
        key = (*self._build_column_key(column), "rows")
        return take_cached(self.cache, key, at, lambda rows: self.take_stored(column, rows))

    def take_stored(self, column: str, at: Positions) -> pa.Array:
        """Return the values at these positions from the table, whether or not the column is in memory."""
        taken = self.table.take(self.live_rows.to_offsets(at), [column]).column(column)
        return concat_chunks(taken.chunks, self._schema.field(column).type)

    def take_for_predicate(self, column: str, at: Positions, budget: Budget | None = None) -> pa.Array:
        """Return the values for a predicate, which only needs to know whether a blob is null."""
        if is_blob(self._schema.field(column)):
            return _take(self.load_written(column, budget), at)
        return self.take_values(column, at, budget)

    def stream(self, column: str, at: int, run: RowRun) -> Iterator[pa.Array]:
        """Iterate over the written rows of a run of new fragments, which begins at position `at`."""
        if self.is_resident(column):
            yield self.load_written(column).slice(at, run.rows)
        else:
            yield from (batch.column(column) for batch in self.table.iter_written_rows([column], run.fragments))

    # --- derived from columns -------------------------------------------------------------------------

    def load_numbers(
        self, column: str, budget: Budget | None = None
    ) -> tuple[NDArray[np.generic], NDArray[np.bool_] | None]:
        """Return a column of numbers, booleans, dates or instants as numpy, and which live rows have a value.

        The mask is None if all rows have one.
        """
        raw = self.load_written(column, budget)
        valid = None
        if raw.null_count:
            valid = self.get_or_derive(column, "valid", lambda: self._build_validity(raw), measure_array)
        if pa.types.is_boolean(raw.type):
            return self.get_or_derive(column, "truths", lambda: _to_mask(raw), measure_array), valid
        return _view_numbers(raw), valid

    def _build_validity(self, raw: pa.Array) -> NDArray[np.bool_]:
        valid = is_valid(raw)
        mask = self.live_rows.get_mask()
        return freeze(valid if mask is None else valid & mask)

    def load_codes(self, column: str, budget: Budget | None = None) -> tuple[NDArray[np.int32], pa.Array]:
        """Return a dictionary-encoded scalar column: codes by position, -1 for null, and the value of each code."""
        check = skip_check if budget is None else budget.check
        return self.get_or_derive(
            column, "codes", lambda: _encode_values(self.load_column(column, budget), check), _measure_codes, budget
        )

    def get_or_derive(
        self, column: str, what: str, make: Callable[[], T], nbytes: Callable[[T], int], budget: Budget | None = None
    ) -> T:
        """Return a value derived from the live rows of a column, built on first use and cached by these rows."""
        return self.cache.get_or_build(self._build_derived_key(column, what), make, nbytes, budget)

    def has_derived(self, column: str, what: str) -> bool:
        """Return whether that derived value is in memory now."""
        return self._build_derived_key(column, what) in self.cache

    def is_worth_deriving(self, column: str, what: str) -> bool:
        """Return whether the derived value is in memory or pays off by now: small table, or needed often enough."""
        if self.has_derived(column, what):
            return True
        # Deriving it would read a large column that nothing else needed as a whole so far.
        if not self.is_resident(column) and not self.costs.is_light(column):
            return False
        return self.costs.has_paid(what)

    def list_indexes(self) -> tuple[IndexCoverage, ...]:
        """Return the indexes of this version."""
        key = (self.version, "indexes")
        return self.cache.get_or_build(key, self.table.measure_index_coverage, lambda indexes: 256 * len(indexes) + 256)

    # --- reading ------------------------------------------------------------------------------------

    def _build_column_key(self, column: str) -> Key:
        return (self.content, self._identify_field(column))

    def _build_derived_key(self, column: str, what: str) -> Key:
        return (self.state, self._identify_field(column), what)

    def _identify_field(self, column: str) -> tuple[int, str]:
        """Return the field id and type of a column, which identify it among versions with the same files.

        A rename keeps both. The id is not enough: diverged branches may assign it to different columns, and if these
        have no files yet, all rows of both are null but of different types.
        """
        field = self._fields.get(column)
        if field is None:
            type_ = str(self._schema.field(column).type)
            field = self._fields[column] = (self.table.find_field_number(column), type_)
        return field

    def _load(self, column: str, budget: Budget | None) -> _WrittenColumn:
        """Read the column; if an older version is in memory, read only the fragments that it did not have."""
        latest: Key = (self.table.path, "latest", self._identify_field(column))
        key = self.cache.get(latest)
        older = self.cache.get(key) if isinstance(key, tuple) else None
        chunks: list[pa.Array] = []
        for run in self.layout.match_runs(older.layout if isinstance(older, _WrittenColumn) else Layout(())):
            if run.start is not None and isinstance(older, _WrittenColumn):
                chunks.append(older.values.slice(run.start, run.rows))
                continue
            for batch in self.table.iter_written_rows([column], run.fragments):
                if budget is not None:
                    budget.check()
                chunks.append(batch.column(column))
        written = _WrittenColumn(self.layout, concat_chunks(chunks, self._schema.field(column).type))
        # The next version of the table looks up here which column it can extend.
        self.cache.put(latest, self._build_column_key(column), 256)
        return written


def _take(values: pa.Array, at: Positions) -> pa.Array:
    """Return the values at these positions, as `large_string` if their bytes exceed 32-bit offsets."""
    if len(at) == 1:
        # Takes a third of the time of `take`, and is a copy as well.
        return pa.concat_arrays([values.slice(int(at[0]), 1)])
    if (
        pa.types.is_string(values.type)
        and len(at) > len(values)
        and values.nbytes / len(values) * len(at) > _MAX_TEXT_BYTES
    ):
        values = values.cast(pa.large_string())
    return values.take(build_array(at))


def concat_chunks(chunks: list[pa.Array], type_: pa.DataType) -> pa.Array:
    """Concatenate arrays, as `large_string` if their bytes exceed 32-bit offsets."""
    if not chunks:
        return pa.array([], type_)
    if len(chunks) == 1 and not chunks[0].offset:
        return chunks[0]
    if pa.types.is_string(chunks[0].type) and sum(chunk.nbytes for chunk in chunks) > _MAX_TEXT_BYTES:
        chunks = [chunk.cast(pa.large_string()) for chunk in chunks]
    return pa.concat_arrays(chunks)


def _view_numbers(raw: pa.Array) -> NDArray[np.generic]:
    dtype: np.dtype[np.generic] = np.dtype(_STORED_DTYPES.get(raw.type) or raw.type.to_pandas_dtype())
    if not len(raw):
        return np.zeros(0, dtype)
    return freeze(np.frombuffer(raw.buffers()[1], dtype, len(raw) + raw.offset)[raw.offset :])


def _to_mask(raw: pa.Array) -> NDArray[np.bool_]:
    return freeze(read_booleans(raw))


def _encode_values(values: pa.Array, check: Callable[[], None]) -> tuple[NDArray[np.int32], pa.Array]:
    if pa.types.is_floating(values.type):
        # -0.0 becomes 0.0, which it equals but from which its bytes differ.
        values = pc.add(values, pa.scalar(0.0, values.type))
    codes, distinct = encode_dictionary(values, check)
    return freeze(np.array(fill_nulls(codes, -1), np.int32)), distinct


def _measure_codes(encoded: tuple[NDArray[np.int32], pa.Array]) -> int:
    return int(encoded[0].nbytes + encoded[1].nbytes)
