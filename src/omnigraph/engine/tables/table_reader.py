"""Read one table version for a query: find rows by id, key or predicate, and fetch their values by position."""

from collections.abc import Hashable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.engine.bindings import Positions
from omnigraph.engine.kernels import look_up, skip_check
from omnigraph.engine.predicate_eval import find_columns
from omnigraph.engine.query_budget import Budget
from omnigraph.engine.query_inputs import QueryInputs
from omnigraph.engine.tables.access_path import (
    AccessMethod,
    AccessPath,
    filter_in_memory,
    filter_rows,
    find_usable_index,
    scan_rows,
)
from omnigraph.engine.tables.column_statistics import ORDERED_KINDS, find_index
from omnigraph.engine.tables.column_store import ColumnStore, concat_chunks
from omnigraph.engine.tables.id_hash_index import IdHashIndex
from omnigraph.engine.tables.key_predicates import find_named_ids
from omnigraph.engine.tables.selectivity import estimate_selectivity
from omnigraph.query.expr import Expr
from omnigraph.query.expr_tree import split_conjuncts
from omnigraph.query.union_types import TYPE_COLUMN
from omnigraph.schema.arrow import ID
from omnigraph.schema.catalog import AnyType
from omnigraph.storage.arrow_buffers import fill_nulls, read_booleans
from omnigraph.storage.lance_table import ADDRESS

# For fewer keys than one per this number of rows, the table's index is used instead of the column.
_MIN_ROWS_PER_KEY = 256
# An index that lets a larger share of rows pass is not used. The second limit is for a column that has no room in
# memory and would be read each time. Measured on 300,000 integers that are not in memory: an index that lets half of
# them pass reads 3.4 MB in 92 ms, the column 1.2 MB in 3 ms. The break-even point was not measured.
_MAX_SELECTIVITY = 0.1
_MAX_SELECTIVITY_WITHOUT_ROOM = 0.25
# Up to this number of ids are looked up individually, without numpy.
_MAX_SINGLE_LOOKUPS = 16
# For more ids than one per this number of rows, a pass over all ids is faster than a lookup of each.
_BULK_DIVISOR = 4


class TableReader:
    """Read the rows of one type in one table version. Created by `GraphCache.get_reader`; thread-safe."""

    def __init__(self, type_: AnyType, columns: ColumnStore) -> None:
        self.type = type_
        self.columns = columns
        self.table = columns.table
        # What identifies the rows in keys of the cache.
        self.version: Hashable = columns.version
        self.size = columns.layout.size
        self.count = columns.layout.count

    def __repr__(self) -> str:
        return f"TableReader({self.type.name}, {self.table!r})"

    # --- columns ------------------------------------------------------------------------------------

    def get_positions(self) -> NDArray[np.int64]:
        """Return the positions of all live rows, ascending. The array is shared and read-only."""
        return self.columns.live_rows.get_positions()

    def is_resident(self, column: str) -> bool:
        """Return whether the whole column is in memory now."""
        return self.columns.is_resident(column)

    def preload(self, column: str, budget: Budget | None = None) -> None:
        """Load a column as a whole, as it is needed soon."""
        self.columns.load_written(column, budget)

    def take_values(self, column: str, at: Positions, budget: Budget | None = None) -> pa.Array:
        """Return the values at these positions of live rows, in any order; positions may repeat.

        The column `@type` has the name of the type.
        """
        if column == TYPE_COLUMN:
            return pa.repeat(pa.scalar(self.type.name), len(at))
        return self.columns.take_values(column, at, budget)

    def view_run(self, column: str, start: int, count: int) -> pa.Array | None:
        """Return the values of live rows that follow each other, without a copy; None if the column is not in memory.

        The result shares the memory of the cache, so it is for calculations that end soon.
        """
        return self.columns.load_written(column).slice(start, count) if self.columns.is_resident(column) else None

    def load_column(self, column: str, budget: Budget | None = None) -> pa.Array:
        """Return the column by position, null for deleted rows."""
        return self.columns.load_column(column, budget)

    def load_numbers(
        self, column: str, budget: Budget | None = None
    ) -> tuple[NDArray[np.generic], NDArray[np.bool_] | None]:
        """Return a column of numbers, booleans, dates (days) or instants (microseconds) by position, as numpy.

        The mask tells which rows have a value; None means every live row. The numbers of other rows are undefined.
        """
        return self.columns.load_numbers(column, budget)

    def load_codes(self, column: str, budget: Budget | None = None) -> tuple[NDArray[np.int32], pa.Array]:
        """Return a dictionary-encoded scalar column: codes by position, -1 for null, and the value of each code."""
        return self.columns.load_codes(column, budget)

    # --- finding rows ---------------------------------------------------------------------------------

    def find_where(
        self, predicate: Expr, inputs: QueryInputs, within: Positions | None = None, budget: Budget | None = None
    ) -> NDArray[np.int64]:
        """Return the live rows, ascending, for which a predicate over this table alone is true.

        With `within`, which is ascending, return only rows of it.
        """
        terms = split_conjuncts(predicate)
        if within is not None:
            return filter_rows(self.columns, terms, inputs, within, budget)
        ids = find_named_ids(self.type, terms, inputs)
        if ids is not None:
            positions = self.find(ids, budget)
            return filter_rows(self.columns, terms, inputs, np.sort(positions[positions >= 0]), budget)
        method = self._choose_access(terms, inputs).method
        if method is AccessMethod.MEMORY:
            return filter_in_memory(self.columns, terms, inputs, budget)
        if method is AccessMethod.INDEX:
            # After a few lookups the columns of a small table are read instead, see `_choose_access`.
            self.columns.costs.note_lookup(_name_lookup(terms))
        return scan_rows(self.columns, predicate, inputs, budget)

    def find(self, ids: pa.Array | Sequence[str], budget: Budget | None = None) -> NDArray[np.int64]:
        """Return the position of each id, -1 for those that do not exist."""
        if not len(ids):
            return np.zeros(0, np.int64)
        index = self._get_id_index(len(ids), budget)
        if index is not None:
            if len(ids) <= _MAX_SINGLE_LOOKUPS:
                texts = ids.to_pylist() if isinstance(ids, pa.Array) else ids
                return np.array([index.find_id(text) for text in texts], np.int64)
            return index.find(_as_array(ids))
        keys = _as_array(ids)
        if len(ids) * _BULK_DIVISOR < self.size or self._should_look_up(ID, len(ids)):
            positions, existing = self.find_matching(ID, keys, budget)
            if not len(existing):
                return np.full(len(ids), -1, np.int64)
            matches = fill_nulls(pc.index_in(keys, value_set=existing), -1)
            return np.where(matches >= 0, positions[matches], -1)
        return look_up(keys, self.load_column(ID, budget), skip_check if budget is None else budget.check)

    def _get_id_index(self, id_count: int, budget: Budget | None) -> IdHashIndex | None:
        """Return the hash index of ids if it exists or pays off by now; None if one pass over all ids is faster."""
        if id_count > _MAX_SINGLE_LOOKUPS and id_count * _BULK_DIVISOR > self.size:
            return None
        if not self.columns.is_worth_deriving(ID, "index"):
            return None
        return self.load_id_index(budget)

    def load_id_index(self, budget: Budget | None) -> IdHashIndex:
        """Return the hash index of ids, built on first use."""
        live = None if self.count == self.size else self.get_positions()
        return self.columns.get_or_derive(
            ID,
            "index",
            lambda: IdHashIndex(self.columns.load_written(ID, budget), live),
            lambda index: index.nbytes,
            budget,
        )

    def _should_look_up(self, column: str, keys: int) -> bool:
        """Return whether some keys of a column are better found by the table's index than in the column itself."""
        if not self.columns.costs.has_room_for(column):
            return True
        index = find_index(self.columns, column, ORDERED_KINDS)
        return index is not None and index.is_complete and keys * _MIN_ROWS_PER_KEY < self.size

    def find_matching(
        self, column: str, keys: pa.Array, budget: Budget | None = None
    ) -> tuple[NDArray[np.int64], pa.Array]:
        """Return the rows whose `column` is one of `keys`, ascending, and their values in it."""
        if not self._should_look_up(column, len(keys)):
            is_key = pc.is_in(self.load_column(column, budget), value_set=keys, skip_nulls=True)
            at = np.flatnonzero(read_booleans(is_key))
            return at, self.take_values(column, at, budget)
        rows = self.table.find_rows(column, keys, [column], with_address=True)
        at = self.columns.layout.find_positions(rows.column(ADDRESS))
        order = np.argsort(at)
        return at[order], concat_chunks(rows.column(column).chunks, pa.string()).take(pa.array(order))

    # --- estimates and access paths ---------------------------------------------------------------------

    def estimate(self, predicate: Expr, inputs: QueryInputs, budget: Budget | None = None) -> float:
        """Estimate the number of rows that satisfy a predicate, from this version of the table alone."""
        terms = split_conjuncts(predicate)
        ids = find_named_ids(self.type, terms, inputs)
        if ids is not None:
            return float(min(len(ids), self.count))
        return self.count * estimate_selectivity(self.columns, self.type, terms, inputs, budget)

    def describe_access(self, predicate: Expr, inputs: QueryInputs) -> str:
        """Describe how rows that satisfy a predicate are found, for `explain`; the same whatever is in memory."""
        terms = split_conjuncts(predicate)
        if find_named_ids(self.type, terms, inputs) is not None:
            return AccessMethod.KEY.value
        costs = self.columns.costs
        if costs.is_tiny and all(costs.is_light_by_size(name) for name in _find_column_names(terms)):
            return "column"
        index = _find_selective_index(self.columns, self.type, terms, inputs, _MAX_SELECTIVITY)
        return "column" if index is None else str(AccessPath(AccessMethod.INDEX, index))

    def describe_current_access(self, predicate: Expr, inputs: QueryInputs) -> str:
        """Describe how `find_where` would find the rows now, given what is in memory and has room there."""
        terms = split_conjuncts(predicate)
        if find_named_ids(self.type, terms, inputs) is not None:
            return AccessMethod.KEY.value
        return str(self._choose_access(terms, inputs))

    def _choose_access(self, terms: tuple[Expr, ...], inputs: QueryInputs) -> AccessPath:
        names = _find_column_names(terms)
        if all(self.is_resident(name) for name in names):
            return AccessPath(AccessMethod.MEMORY)
        costs = self.columns.costs
        if (costs.is_tiny or costs.is_worth_loading(_name_lookup(terms))) and all(map(costs.is_light, names)):
            return AccessPath(AccessMethod.MEMORY)
        # Without an index, columns that fit are loaded and later queries find them in memory.
        fits = all(costs.has_room_for(name) and not costs.is_heavy(name) for name in names)
        max_share = _MAX_SELECTIVITY if fits else _MAX_SELECTIVITY_WITHOUT_ROOM
        index = _find_selective_index(self.columns, self.type, terms, inputs, max_share)
        if index is not None:
            return AccessPath(AccessMethod.INDEX, index)
        return AccessPath(AccessMethod.MEMORY if fits else AccessMethod.SCAN)


def _find_selective_index(
    columns: ColumnStore, type_: AnyType, terms: tuple[Expr, ...], inputs: QueryInputs, max_share: float
) -> str | None:
    """Return an index for one of the terms if all indexed terms together let at most this share of rows pass."""
    names = [find_usable_index(columns, term, inputs) for term in terms]
    indexed_terms = tuple(term for term, name in zip(terms, names, strict=True) if name is not None)
    if not indexed_terms or estimate_selectivity(columns, type_, indexed_terms, inputs) > max_share:
        return None
    return next(name for name in names if name is not None)


def _name_lookup(terms: tuple[Expr, ...]) -> str:
    """Return the name that lookups of these terms are counted under: the columns that would be read instead."""
    return f"look-ups of {', '.join(sorted(_find_column_names(terms)))}"


def _find_column_names(terms: tuple[Expr, ...]) -> list[str]:
    """Return the columns that terms read, each once."""
    return list(dict.fromkeys(name for term in terms for name in find_columns(term)))


def _as_array(ids: pa.Array | Sequence[str]) -> pa.Array:
    return ids if isinstance(ids, pa.Array) else pa.array(ids, pa.string())
