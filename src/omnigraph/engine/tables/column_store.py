"""The columns of one table version, in memory where that pays: read once, shared by every query and branch."""

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
from omnigraph.engine.tables.live_rows import LiveRows, build_deletions_key, freeze, measure_array
from omnigraph.engine.tables.lru_cache import ContentKey, Key, LruCache
from omnigraph.engine.tables.row_layout import Layout, RowRun, mask_values
from omnigraph.storage.arrow_buffers import build_array, build_scalar, fill_nulls, is_valid, read_booleans
from omnigraph.storage.lance_table import IndexCoverage, LanceTable, is_blob

T = TypeVar("T")

_MAX_TEXT_BYTES = 2**31 - 1
_STORED_DTYPES = {pa.timestamp("us", "UTC"): np.int64, pa.date32(): np.int32}
"""The numbers behind instants and dates."""


@dataclass(frozen=True, slots=True)
class _WrittenColumn:
    """A column as it was written, deleted rows too, and the fragments that it is of."""

    layout: Layout
    values: pa.Array


class ColumnStore:
    """Loads, keeps and gathers the columns of a table version. Safe from several threads.

    A blob is where it lies; only `values` gives its bytes.
    """

    def __init__(self, table: LanceTable, kept: LruCache) -> None:
        self.table, self.cache = table, kept
        self.version = ContentKey(table.path, table.version)
        kept.add_holder(self, [self.version])
        key = (self.version, "layout")
        self.layout = kept.get_or_build(
            key, lambda: Layout(table.list_fragments()), lambda made: 512 * len(made.fragments) + 512
        )
        self.content, self.state = (
            ContentKey(table.path, self.layout.content),
            ContentKey(table.path, self.layout.state),
        )
        deleted = {build_deletions_key(table.path, one) for one in self.layout.fragments if one.deletions is not None}
        kept.add_holder(self, {self.content, self.state} | deleted)
        self.live_rows = LiveRows(table, self.layout, kept)
        self._schema = table.schema
        self.costs = ColumnCosts(self.layout, self._schema, kept.limit_bytes)
        self._fields: dict[str, tuple[int, str]] = {}

    def is_resident(self, column: str) -> bool:
        """Whether the whole column is in memory now."""
        return self._build_column_key(column) in self.cache

    # --- columns ------------------------------------------------------------------------------------

    def load_written(self, column: str, budget: Budget | None = None) -> pa.Array:
        """The column by position, with whatever deleted rows had: for who looks at living rows only."""
        key = self._build_column_key(column)
        return self.cache.get_or_build(
            key, lambda: self._load(column, budget), lambda raw: raw.values.nbytes, budget
        ).values

    def load_column(self, column: str, budget: Budget | None = None) -> pa.Array:
        """The column by position, null at holes."""
        values, bits = self.load_written(column, budget), self.live_rows.get_bitmap()
        return values if bits is None else mask_values(values, bits)

    def take_values(self, column: str, at: Positions, budget: Budget | None = None) -> pa.Array:
        """The column at these positions, in any order: from memory, or row by row when few of many are asked for."""
        field = self._schema.field(column)
        if is_blob(field):
            offsets = self.live_rows.to_offsets(at).to_pylist()
            return concat_chunks(self.table.take_with_blobs(offsets, [column]).column(column).chunks, pa.large_binary())
        if self.is_resident(column) or self.costs.should_load(column, len(at)):
            return _take(self.load_written(column, budget), at)
        return concat_chunks(self.table.take(self.live_rows.to_offsets(at), [column]).column(column).chunks, field.type)

    def take_for_predicate(self, column: str, at: Positions, budget: Budget | None = None) -> pa.Array:
        """As `values` for a predicate, which asks of a blob only whether it is there."""
        if is_blob(self._schema.field(column)):
            return _take(self.load_written(column, budget), at)
        return self.take_values(column, at, budget)

    def stream(self, column: str, at: int, piece: RowRun) -> Iterator[pa.Array]:
        """The rows of new fragments, which begin at a position, as they were written; from memory if they are there."""
        if self.is_resident(column):
            yield self.load_written(column).slice(at, piece.rows)
        else:
            yield from self.table.iter_written_rows(column, piece.fragments)

    # --- what is made of columns ----------------------------------------------------------------------

    def load_numbers(
        self, column: str, budget: Budget | None = None
    ) -> tuple[NDArray[np.generic], NDArray[np.bool_] | None]:
        """A column of numbers, truths, dates or instants as numpy, and which living rows have one (None: all)."""
        raw = self.load_written(column, budget)
        valid = (
            self.get_or_derive(column, "valid", lambda: self._build_validity(raw), measure_array)
            if raw.null_count
            else None
        )
        if pa.types.is_boolean(raw.type):
            return self.get_or_derive(column, "truths", lambda: _to_mask(raw), measure_array), valid
        return _view_numbers(raw), valid

    def _build_validity(self, raw: pa.Array) -> NDArray[np.bool_]:
        valid, mask = is_valid(raw), self.live_rows.get_mask()
        return freeze(valid if mask is None else valid & mask)

    def load_codes(self, column: str, budget: Budget | None = None) -> tuple[NDArray[np.int32], pa.Array]:
        """By position a number for the value, -1 for none; and the values by their numbers. Scalars only."""
        check = skip_check if budget is None else budget.check
        return self.get_or_derive(
            column, "codes", lambda: _encode_values(self.load_column(column, budget), check), _measure_codes, budget
        )

    def get_or_derive(
        self, column: str, what: str, make: Callable[[], T], nbytes: Callable[[T], int], budget: Budget | None = None
    ) -> T:
        """Something made of the living values of a column, kept for as long as the rows are the same."""
        return self.cache.get_or_build(self._build_derived_key(column, what), make, nbytes, budget)

    def has_derived(self, column: str, what: str) -> bool:
        """Whether that is in memory now."""
        return self._build_derived_key(column, what) in self.cache

    def is_worth_deriving(self, column: str, what: str) -> bool:
        """Whether `derived` is there, or worth making by now: the table is small, or enough was asked of it."""
        if self.has_derived(column, what):
            return True
        if not self.is_resident(column) and not self.costs.is_light(column):
            return False
        return self.costs.has_paid(what)

    def list_indexes(self) -> tuple[IndexCoverage, ...]:
        """The indexes of this version."""
        key = (self.version, "indexes")
        return self.cache.get_or_build(key, self.table.measure_index_coverage, lambda found: 256 * len(found) + 256)

    # --- reading ------------------------------------------------------------------------------------

    def _build_column_key(self, column: str) -> Key:
        return (self.content, self._identify_field(column))

    def _build_derived_key(self, column: str, what: str) -> Key:
        return (self.state, self._identify_field(column), what)

    def _identify_field(self, column: str) -> tuple[int, str]:
        """The column's number and type: a rename keeps both, and with the same files no other column has them.

        The number is not enough. Branches that grew apart may give it to different columns, and where these have no
        files yet, all rows of both are null, but of another type.
        """
        found = self._fields.get(column)
        if found is None:
            type_ = str(self._schema.field(column).type)
            found = self._fields[column] = (self.table.find_field_number(column), type_)
        return found

    def _load(self, column: str, budget: Budget | None) -> _WrittenColumn:
        """Read the column; of an older version of the table that is in memory, only the fragments it did not have."""
        latest: Key = (self.table.path, "latest", self._identify_field(column))
        key = self.cache.get(latest)
        older = self.cache.get(key) if isinstance(key, tuple) else None
        chunks: list[pa.Array] = []
        for piece in self.layout.match_runs(older.layout if isinstance(older, _WrittenColumn) else Layout(())):
            if piece.start is not None and isinstance(older, _WrittenColumn):
                chunks.append(older.values.slice(piece.start, piece.rows))
                continue
            for batch in self.table.iter_written_rows(column, piece.fragments):
                if budget is not None:
                    budget.check()
                chunks.append(batch)
        made = _WrittenColumn(self.layout, concat_chunks(chunks, self._schema.field(column).type))
        self.cache.put(latest, self._build_column_key(column), 256)
        return made


def _take(values: pa.Array, at: Positions) -> pa.Array:
    """Values by place; texts of more bytes than 32-bit offsets count become large ones."""
    if len(at) == 1:  # a third of the time of `take`, and a copy like that
        return pa.concat_arrays([values.slice(int(at[0]), 1)])
    if (
        pa.types.is_string(values.type)
        and len(at) > len(values)
        and values.nbytes / len(values) * len(at) > _MAX_TEXT_BYTES
    ):
        values = values.cast(pa.large_string())
    return values.take(build_array(at))


def concat_chunks(chunks: list[pa.Array], type_: pa.DataType) -> pa.Array:
    """One array of all; texts of more bytes than 32-bit offsets count become large ones."""
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
        values = pc.add(values, build_scalar(0.0, values.type))  # -0.0 becomes 0.0, which it equals
    codes, distinct = encode_dictionary(values, check)
    return freeze(np.array(fill_nulls(codes, -1), np.int32)), distinct


def _measure_codes(found: tuple[NDArray[np.int32], pa.Array]) -> int:
    return int(found[0].nbytes + found[1].nbytes)
