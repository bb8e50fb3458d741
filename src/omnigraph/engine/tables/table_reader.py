"""One table version as a query reads it: rows by position, found and fetched at the least cost."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.engine.bindings import Positions
from omnigraph.engine.kernels import look_up, skip_check
from omnigraph.engine.predicate_eval import QueryInputs, find_columns
from omnigraph.engine.query_budget import Budget
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
from omnigraph.query.expr import Expr, split_conjuncts
from omnigraph.schema.arrow import ID
from omnigraph.schema.catalog import AnyType
from omnigraph.storage.arrow_buffers import fill_nulls, read_booleans
from omnigraph.storage.lance_table import ADDRESS

_MIN_ROWS_PER_KEY = 256
"""For fewer than one row in so many, the table's index is asked, and the column not read."""
_MAX_SELECTIVITY, _MAX_SELECTIVITY_WITHOUT_ROOM = 0.1, 0.25
"""An index that lets a larger share of rows pass is not asked. The second is for a column that has no room in memory,
and would be read each time. Measured on 300,000 integers that are not in memory: an index that lets half of them pass
reads 3.4 MB in 92 ms, the column 1.2 MB in 3 ms. Where the two meet was not measured."""
_MAX_SINGLE_LOOKUPS = 16
_BULK_DIVISOR = 4
"""For more than one row in so many, going through all ids is faster than looking for each."""


class TableReader:
    """The rows of one type in one version. Made by `ReadCache.rows`; safe from several threads."""

    def __init__(self, type_: AnyType, columns: ColumnStore) -> None:
        self.type, self.columns, self.table, self.version = type_, columns, columns.table, columns.version
        self.size, self.count = self.columns.layout.size, self.columns.layout.count

    def __repr__(self) -> str:
        return f"TableRows({self.type.name}, {self.table!r})"

    # --- columns ------------------------------------------------------------------------------------

    def get_positions(self) -> NDArray[np.int64]:
        """All living positions, ascending. Not to be written to."""
        return self.columns.live_rows.get_positions()

    def is_resident(self, column: str) -> bool:
        """Whether the whole column is in memory now."""
        return self.columns.is_resident(column)

    def take_values(self, column: str, at: Positions, budget: Budget | None = None) -> pa.Array:
        """The column at these living positions, in any order, repeats too."""
        return self.columns.take_values(column, at, budget)

    def load_column(self, column: str, budget: Budget | None = None) -> pa.Array:
        """The column by position, null at holes."""
        return self.columns.load_column(column, budget)

    def load_numbers(
        self, column: str, budget: Budget | None = None
    ) -> tuple[NDArray[np.generic], NDArray[np.bool_] | None]:
        """A column of numbers, truths, dates (days) or instants (microseconds) by position, as numpy.

        The mask says which rows have a value; None: every living row. What stands in other places means nothing.
        """
        return self.columns.load_numbers(column, budget)

    def load_codes(self, column: str, budget: Budget | None = None) -> tuple[NDArray[np.int32], pa.Array]:
        """By position a number for the scalar value there, -1 for none; and the distinct values by their numbers."""
        return self.columns.load_codes(column, budget)

    # --- finding rows ---------------------------------------------------------------------------------

    def find_where(
        self, predicate: Expr, inputs: QueryInputs, within: Positions | None = None, budget: Budget | None = None
    ) -> NDArray[np.int64]:
        """The living rows, ascending, for which a predicate over this table alone is true.

        With `within`, which ascends, only those of them.
        """
        terms = split_conjuncts(predicate)
        if within is not None:
            return filter_rows(self.columns, terms, inputs, within, budget)
        ids = find_named_ids(self.type, terms, inputs)
        if ids is not None:
            found = self.find(ids, budget)
            return filter_rows(self.columns, terms, inputs, np.sort(found[found >= 0]), budget)
        way = self._choose_access(terms, inputs).method
        if way is AccessMethod.MEMORY:
            return filter_in_memory(self.columns, terms, inputs, budget)
        if way is AccessMethod.INDEX:
            self.columns.costs.note_lookup(_name_lookup(terms))
        return scan_rows(self.columns, predicate, inputs, budget)

    def find(self, ids: pa.Array | Sequence[str], budget: Budget | None = None) -> NDArray[np.int64]:
        """The position of each id, -1 where there is none."""
        if not len(ids):
            return np.zeros(0, np.int64)
        index = self._get_id_index(len(ids), budget)
        if index is not None:
            if len(ids) <= _MAX_SINGLE_LOOKUPS:
                texts = ids.to_pylist() if isinstance(ids, pa.Array) else ids
                return np.array([index.find_id(text) for text in texts], np.int64)
            return index.find(_as_array(ids))
        wanted = _as_array(ids)
        if len(ids) * _BULK_DIVISOR < self.size or self._should_look_up(ID, len(ids)):
            positions, found = self.find_matching(ID, wanted, budget)
            if not len(found):
                return np.full(len(ids), -1, np.int64)
            places = fill_nulls(pc.index_in(wanted, value_set=found), -1)
            return np.where(places >= 0, positions[places], -1)
        return look_up(wanted, self.load_column(ID, budget), skip_check if budget is None else budget.check)

    def _get_id_index(self, asked: int, budget: Budget | None) -> IdHashIndex | None:
        """The table of ids, when it is there or pays by now; None for so many ids that one pass is faster."""
        if asked > _MAX_SINGLE_LOOKUPS and asked * _BULK_DIVISOR > self.size:
            return None
        if not self.columns.is_worth_deriving(ID, "index"):
            return None
        living = None if self.count == self.size else self.get_positions()
        return self.columns.get_or_derive(
            ID,
            "index",
            lambda: IdHashIndex(self.columns.load_written(ID, budget), living),
            lambda made: made.nbytes,
            budget,
        )

    def _should_look_up(self, column: str, keys: int) -> bool:
        """Whether some keys of a column are better looked up in the table's index than in the column itself."""
        if not self.columns.costs.has_room_for(column):
            return True
        index = find_index(self.columns, column, ORDERED_KINDS)
        return index is not None and index.is_complete and keys * _MIN_ROWS_PER_KEY < self.size

    def find_matching(
        self, column: str, keys: pa.Array, budget: Budget | None = None
    ) -> tuple[NDArray[np.int64], pa.Array]:
        """The rows whose `column` is one of `keys`, ascending, and what they have there; by index where one covers."""
        if not self._should_look_up(column, len(keys)):
            is_wanted = pc.is_in(self.load_column(column, budget), value_set=keys, skip_nulls=True)
            at = np.flatnonzero(read_booleans(is_wanted))
            return at, self.take_values(column, at, budget)
        found = self.table.find_rows(column, keys, [column], with_address=True)
        at = self.columns.layout.find_positions(found.column(ADDRESS))
        order = np.argsort(at)
        return at[order], concat_chunks(found.column(column).chunks, pa.string()).take(pa.array(order))

    # --- for the planner --------------------------------------------------------------------------------

    def estimate(self, predicate: Expr, inputs: QueryInputs, budget: Budget | None = None) -> float:
        """About how many rows pass, as far as this version of the table tells."""
        terms = split_conjuncts(predicate)
        ids = find_named_ids(self.type, terms, inputs)
        if ids is not None:
            return float(min(len(ids), self.count))
        return self.count * estimate_selectivity(self.columns, self.type, terms, inputs, budget)

    def describe_access(self, predicate: Expr, inputs: QueryInputs) -> str:
        """How rows are found that pass, for people; the same whatever is in memory."""
        terms = split_conjuncts(predicate)
        if find_named_ids(self.type, terms, inputs) is not None:
            return AccessMethod.KEY.value
        costs = self.columns.costs
        if costs.is_tiny and all(costs.is_light_by_size(name) for name in _find_column_names(terms)):
            return "column"
        index = self._find_selective_index(terms, inputs, _MAX_SELECTIVITY)
        return "column" if index is None else str(AccessPath(AccessMethod.INDEX, index))

    def describe_current_access(self, predicate: Expr, inputs: QueryInputs) -> str:
        """How `where` would find them now, by what is in memory and what has room there."""
        terms = split_conjuncts(predicate)
        return (
            AccessMethod.KEY.value
            if find_named_ids(self.type, terms, inputs) is not None
            else str(self._choose_access(terms, inputs))
        )

    def _choose_access(self, terms: tuple[Expr, ...], inputs: QueryInputs) -> AccessPath:
        names = _find_column_names(terms)
        if all(self.is_resident(name) for name in names):
            return AccessPath(AccessMethod.MEMORY)
        costs = self.columns.costs
        if (costs.is_tiny or costs.is_worth_loading(_name_lookup(terms))) and all(map(costs.is_light, names)):
            return AccessPath(AccessMethod.MEMORY)
        fits = all(costs.has_room_for(name) and not costs.is_heavy(name) for name in names)
        index = self._find_selective_index(terms, inputs, _MAX_SELECTIVITY if fits else _MAX_SELECTIVITY_WITHOUT_ROOM)
        if index is not None:
            return AccessPath(AccessMethod.INDEX, index)
        return AccessPath(AccessMethod.MEMORY if fits else AccessMethod.SCAN)

    def _find_selective_index(self, terms: tuple[Expr, ...], inputs: QueryInputs, most: float) -> str | None:
        """An index that answers one of the terms, if those that indexes answer let at most this share of rows pass."""
        names = [find_usable_index(self.columns, term, inputs) for term in terms]
        found = tuple(term for term, name in zip(terms, names, strict=True) if name is not None)
        if not found or estimate_selectivity(self.columns, self.type, found, inputs) > most:
            return None
        return next(name for name in names if name is not None)


def _name_lookup(terms: tuple[Expr, ...]) -> str:
    """Under what the look-ups of terms are counted: the columns that would be read instead."""
    return f"look-ups of {', '.join(sorted(_find_column_names(terms)))}"


def _find_column_names(terms: tuple[Expr, ...]) -> list[str]:
    """The columns that terms read, each once."""
    return list(dict.fromkeys(name for term in terms for name in find_columns(term)))


def _as_array(ids: pa.Array | Sequence[str]) -> pa.Array:
    return ids if isinstance(ids, pa.Array) else pa.array(ids, pa.string())
