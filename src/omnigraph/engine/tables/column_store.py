"""The columns of one table version, in memory where that pays: read once, shared by every query and branch."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.engine.bindings import Positions
from omnigraph.engine.kernels import encoded, never
from omnigraph.engine.query_budget import Budget
from omnigraph.engine.tables.column_residency import ColumnCosts
from omnigraph.engine.tables.live_rows import Living, array_bytes, deletions_of, frozen
from omnigraph.engine.tables.lru_cache import Held, Kept, Key
from omnigraph.engine.tables.row_layout import Layout, Piece, masked
from omnigraph.storage.arrow_buffers import array_of, filled, is_given, scalar, truths
from omnigraph.storage.lance_table import IndexCoverage, Table, is_blob

T = TypeVar("T")

_MOST_TEXT = 2**31 - 1
_STORED = {pa.timestamp("us", "UTC"): np.int64, pa.date32(): np.int32}
"""The numbers behind instants and dates."""


@dataclass(frozen=True, slots=True)
class _Written:
    """A column as it was written, deleted rows too, and the fragments that it is of."""

    layout: Layout
    values: pa.Array


class TableColumns:
    """Loads, keeps and gathers the columns of a table version. Safe from several threads.

    A blob is where it lies; only `values` gives its bytes.
    """

    def __init__(self, table: Table, kept: Kept) -> None:
        self.table, self.kept = table, kept
        self.version = Held(table.path, table.version)
        kept.hold(self, [self.version])
        key = (self.version, "layout")
        self.layout = kept.keep(key, lambda: Layout(table.fragments()), lambda made: 512 * len(made.fragments) + 512)
        self.content, self.state = Held(table.path, self.layout.content), Held(table.path, self.layout.state)
        deleted = {deletions_of(table.path, one) for one in self.layout.fragments if one.deletions is not None}
        kept.hold(self, {self.content, self.state} | deleted)
        self.living = Living(table, self.layout, kept)
        self._schema = table.schema
        self.costs = ColumnCosts(self.layout, self._schema, kept.limit_bytes)
        self._fields: dict[str, tuple[int, str]] = {}

    def is_resident(self, column: str) -> bool:
        """Whether the whole column is in memory now."""
        return self._column_key(column) in self.kept

    # --- columns ------------------------------------------------------------------------------------

    def written(self, column: str, budget: Budget | None = None) -> pa.Array:
        """The column by position, with whatever deleted rows had: for who looks at living rows only."""
        key = self._column_key(column)
        return self.kept.keep(key, lambda: self._load(column, budget), lambda raw: raw.values.nbytes, budget).values

    def whole(self, column: str, budget: Budget | None = None) -> pa.Array:
        """The column by position, null at holes."""
        values, bits = self.written(column, budget), self.living.bits()
        return values if bits is None else masked(values, bits)

    def values(self, column: str, at: Positions, budget: Budget | None = None) -> pa.Array:
        """The column at these positions, in any order: from memory, or row by row when few of many are asked for."""
        field = self._schema.field(column)
        if is_blob(field):
            offsets = self.living.offsets(at).to_pylist()
            return joined(self.table.take_with_blobs(offsets, [column]).column(column).chunks, pa.large_binary())
        if self.is_resident(column) or self.costs.shall_load(column, len(at)):
            return _taken(self.written(column, budget), at)
        return joined(self.table.take(self.living.offsets(at), [column]).column(column).chunks, field.type)

    def tested(self, column: str, at: Positions, budget: Budget | None = None) -> pa.Array:
        """As `values` for a predicate, which asks of a blob only whether it is there."""
        if is_blob(self._schema.field(column)):
            return _taken(self.written(column, budget), at)
        return self.values(column, at, budget)

    def stream(self, column: str, at: int, piece: Piece) -> Iterator[pa.Array]:
        """The rows of new fragments, which begin at a position, as they were written; from memory if they are there."""
        if self.is_resident(column):
            yield self.written(column).slice(at, piece.rows)
        else:
            yield from self.table.written_rows(column, piece.fragments)

    # --- what is made of columns ----------------------------------------------------------------------

    def numbers(
        self, column: str, budget: Budget | None = None
    ) -> tuple[NDArray[np.generic], NDArray[np.bool_] | None]:
        """A column of numbers, truths, dates or instants as numpy, and which living rows have one (None: all)."""
        raw = self.written(column, budget)
        valid = self.derived(column, "valid", lambda: self._valid(raw), array_bytes) if raw.null_count else None
        if pa.types.is_boolean(raw.type):
            return self.derived(column, "truths", lambda: _truths(raw), array_bytes), valid
        return _numbers(raw), valid

    def _valid(self, raw: pa.Array) -> NDArray[np.bool_]:
        valid, mask = is_given(raw), self.living.mask()
        return frozen(valid if mask is None else valid & mask)

    def codes(self, column: str, budget: Budget | None = None) -> tuple[NDArray[np.int32], pa.Array]:
        """By position a number for the value, -1 for none; and the values by their numbers. Scalars only."""
        check = never if budget is None else budget.check
        return self.derived(column, "codes", lambda: _encoded(self.whole(column, budget), check), _codes_bytes, budget)

    def derived(
        self, column: str, what: str, make: Callable[[], T], nbytes: Callable[[T], int], budget: Budget | None = None
    ) -> T:
        """Something made of the living values of a column, kept for as long as the rows are the same."""
        return self.kept.keep(self._derived_key(column, what), make, nbytes, budget)

    def has_derived(self, column: str, what: str) -> bool:
        """Whether that is in memory now."""
        return self._derived_key(column, what) in self.kept

    def pays(self, column: str, what: str) -> bool:
        """Whether `derived` is there, or worth making by now: the table is small, or enough was asked of it."""
        if self.has_derived(column, what):
            return True
        if not self.is_resident(column) and not self.costs.is_light(column):
            return False
        return self.costs.has_paid(what)

    def indexes(self) -> tuple[IndexCoverage, ...]:
        """The indexes of this version."""
        key = (self.version, "indexes")
        return self.kept.keep(key, self.table.index_coverage, lambda found: 256 * len(found) + 256)

    # --- reading ------------------------------------------------------------------------------------

    def _column_key(self, column: str) -> Key:
        return (self.content, self._field(column))

    def _derived_key(self, column: str, what: str) -> Key:
        return (self.state, self._field(column), what)

    def _field(self, column: str) -> tuple[int, str]:
        """The column's number and type: a rename keeps both, and with the same files no other column has them.

        The number is not enough. Branches that grew apart may give it to different columns, and where these have no
        files yet, all rows of both are null, but of another type.
        """
        found = self._fields.get(column)
        if found is None:
            type_ = str(self._schema.field(column).type)
            found = self._fields[column] = (self.table.field_number(column), type_)
        return found

    def _load(self, column: str, budget: Budget | None) -> _Written:
        """Read the column; of an older version of the table that is in memory, only the fragments it did not have."""
        latest: Key = (self.table.path, "latest", self._field(column))
        key = self.kept.get(latest)
        older = self.kept.get(key) if isinstance(key, tuple) else None
        chunks: list[pa.Array] = []
        for piece in self.layout.reused(older.layout if isinstance(older, _Written) else Layout(())):
            if piece.start is not None and isinstance(older, _Written):
                chunks.append(older.values.slice(piece.start, piece.rows))
                continue
            for batch in self.table.written_rows(column, piece.fragments):
                if budget is not None:
                    budget.check()
                chunks.append(batch)
        made = _Written(self.layout, joined(chunks, self._schema.field(column).type))
        self.kept.put(latest, self._column_key(column), 256)
        return made


def _taken(values: pa.Array, at: Positions) -> pa.Array:
    """Values by place; texts of more bytes than 32-bit offsets count become large ones."""
    if len(at) == 1:  # a third of the time of `take`, and a copy like that
        return pa.concat_arrays([values.slice(int(at[0]), 1)])
    if pa.types.is_string(values.type) and len(at) > len(values) and values.nbytes / len(values) * len(at) > _MOST_TEXT:
        values = values.cast(pa.large_string())
    return values.take(array_of(at))


def joined(chunks: list[pa.Array], type_: pa.DataType) -> pa.Array:
    """One array of all; texts of more bytes than 32-bit offsets count become large ones."""
    if not chunks:
        return pa.array([], type_)
    if len(chunks) == 1 and not chunks[0].offset:
        return chunks[0]
    if pa.types.is_string(chunks[0].type) and sum(chunk.nbytes for chunk in chunks) > _MOST_TEXT:
        chunks = [chunk.cast(pa.large_string()) for chunk in chunks]
    return pa.concat_arrays(chunks)


def _numbers(raw: pa.Array) -> NDArray[np.generic]:
    dtype: np.dtype[np.generic] = np.dtype(_STORED.get(raw.type) or raw.type.to_pandas_dtype())
    if not len(raw):
        return np.zeros(0, dtype)
    return frozen(np.frombuffer(raw.buffers()[1], dtype, len(raw) + raw.offset)[raw.offset :])


def _truths(raw: pa.Array) -> NDArray[np.bool_]:
    return frozen(truths(raw))


def _encoded(values: pa.Array, check: Callable[[], None]) -> tuple[NDArray[np.int32], pa.Array]:
    if pa.types.is_floating(values.type):
        values = pc.add(values, scalar(0.0, values.type))  # -0.0 becomes 0.0, which it equals
    codes, distinct = encoded(values, check)
    return frozen(np.array(filled(codes, -1), np.int32)), distinct


def _codes_bytes(found: tuple[NDArray[np.int32], pa.Array]) -> int:
    return int(found[0].nbytes + found[1].nbytes)
