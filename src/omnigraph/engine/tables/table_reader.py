"""One table version as a query reads it: rows by position, found and fetched at the least cost."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.engine.bindings import Positions
from omnigraph.engine.kernels import look_up, never
from omnigraph.engine.predicate_eval import Inputs, columns_of
from omnigraph.engine.query_budget import Budget
from omnigraph.engine.tables.access_path import (
    Access,
    Way,
    kept_rows,
    rows_by_scan,
    rows_in_memory,
    usable_index,
)
from omnigraph.engine.tables.column_statistics import ORDERED, index_of
from omnigraph.engine.tables.column_store import TableColumns, joined
from omnigraph.engine.tables.id_hash_index import IdIndex
from omnigraph.engine.tables.key_predicates import named_ids
from omnigraph.engine.tables.selectivity import estimated_share
from omnigraph.query.expr import Expr, conjuncts
from omnigraph.schema.arrow import ID
from omnigraph.schema.catalog import AnyType
from omnigraph.storage.arrow_buffers import filled, truths
from omnigraph.storage.lance_table import ADDRESS

_FEW_KEYS = 256
"""For fewer than one row in so many, the table's index is asked, and the column not read."""
_SELECTIVE, _SELECTIVE_WITHOUT_ROOM = 0.1, 0.25
"""An index that lets a larger share of rows pass is not asked. The second is for a column that has no room in memory,
and would be read each time. Measured on 300,000 integers that are not in memory: an index that lets half of them pass
reads 3.4 MB in 92 ms, the column 1.2 MB in 3 ms. Where the two meet was not measured."""
_ONE_BY_ONE = 16
_BULK = 4
"""For more than one row in so many, going through all ids is faster than looking for each."""


class TableRows:
    """The rows of one type in one version. Made by `ReadCache.rows`; safe from several threads."""

    def __init__(self, type_: AnyType, columns: TableColumns) -> None:
        self.type, self.columns, self.table, self.version = type_, columns, columns.table, columns.version
        self.size, self.count = self.columns.layout.size, self.columns.layout.count

    def __repr__(self) -> str:
        return f"TableRows({self.type.name}, {self.table!r})"

    # --- columns ------------------------------------------------------------------------------------

    def positions(self) -> NDArray[np.int64]:
        """All living positions, ascending. Not to be written to."""
        return self.columns.living.positions()

    def is_resident(self, column: str) -> bool:
        """Whether the whole column is in memory now."""
        return self.columns.is_resident(column)

    def values(self, column: str, at: Positions, budget: Budget | None = None) -> pa.Array:
        """The column at these living positions, in any order, repeats too."""
        return self.columns.values(column, at, budget)

    def whole(self, column: str, budget: Budget | None = None) -> pa.Array:
        """The column by position, null at holes."""
        return self.columns.whole(column, budget)

    def numbers(
        self, column: str, budget: Budget | None = None
    ) -> tuple[NDArray[np.generic], NDArray[np.bool_] | None]:
        """A column of numbers, truths, dates (days) or instants (microseconds) by position, as numpy.

        The mask says which rows have a value; None: every living row. What stands in other places means nothing.
        """
        return self.columns.numbers(column, budget)

    def codes(self, column: str, budget: Budget | None = None) -> tuple[NDArray[np.int32], pa.Array]:
        """By position a number for the scalar value there, -1 for none; and the distinct values by their numbers."""
        return self.columns.codes(column, budget)

    # --- finding rows ---------------------------------------------------------------------------------

    def where(
        self, predicate: Expr, inputs: Inputs, within: Positions | None = None, budget: Budget | None = None
    ) -> NDArray[np.int64]:
        """The living rows, ascending, for which a predicate over this table alone is true.

        With `within`, which ascends, only those of them.
        """
        terms = conjuncts(predicate)
        if within is not None:
            return kept_rows(self.columns, terms, inputs, within, budget)
        ids = named_ids(self.type, terms, inputs)
        if ids is not None:
            found = self.find(ids, budget)
            return kept_rows(self.columns, terms, inputs, np.sort(found[found >= 0]), budget)
        way = self._way(terms, inputs).way
        if way is Way.MEMORY:
            return rows_in_memory(self.columns, terms, inputs, budget)
        if way is Way.INDEX:
            self.columns.costs.note_lookup(_lookup(terms))
        return rows_by_scan(self.columns, predicate, inputs, budget)

    def find(self, ids: pa.Array | Sequence[str], budget: Budget | None = None) -> NDArray[np.int64]:
        """The position of each id, -1 where there is none."""
        if not len(ids):
            return np.zeros(0, np.int64)
        index = self._id_index(len(ids), budget)
        if index is not None:
            if len(ids) <= _ONE_BY_ONE:
                texts = ids.to_pylist() if isinstance(ids, pa.Array) else ids
                return np.array([index.find_one(text) for text in texts], np.int64)
            return index.find(_as_array(ids))
        wanted = _as_array(ids)
        if len(ids) * _BULK < self.size or self._shall_look_up(ID, len(ids)):
            positions, found = self.matching(ID, wanted, budget)
            if not len(found):
                return np.full(len(ids), -1, np.int64)
            places = filled(pc.index_in(wanted, value_set=found), -1)
            return np.where(places >= 0, positions[places], -1)
        return look_up(wanted, self.whole(ID, budget), never if budget is None else budget.check)

    def _id_index(self, asked: int, budget: Budget | None) -> IdIndex | None:
        """The table of ids, when it is there or pays by now; None for so many ids that one pass is faster."""
        if asked > _ONE_BY_ONE and asked * _BULK > self.size:
            return None
        if not self.columns.pays(ID, "index"):
            return None
        living = None if self.count == self.size else self.positions()
        return self.columns.derived(
            ID, "index", lambda: IdIndex(self.columns.written(ID, budget), living), lambda made: made.nbytes, budget
        )

    def _shall_look_up(self, column: str, keys: int) -> bool:
        """Whether some keys of a column are better looked up in the table's index than in the column itself."""
        if not self.columns.costs.may_load(column):
            return True
        index = index_of(self.columns, column, ORDERED)
        return index is not None and index.is_complete and keys * _FEW_KEYS < self.size

    def matching(self, column: str, keys: pa.Array, budget: Budget | None = None) -> tuple[NDArray[np.int64], pa.Array]:
        """The rows whose `column` is one of `keys`, ascending, and what they have there; by index where one covers."""
        if not self._shall_look_up(column, len(keys)):
            is_wanted = pc.is_in(self.whole(column, budget), value_set=keys, skip_nulls=True)
            at = np.flatnonzero(truths(is_wanted))
            return at, self.values(column, at, budget)
        found = self.table.matching(column, keys, [column], with_address=True)
        at = self.columns.layout.at_addresses(found.column(ADDRESS))
        order = np.argsort(at)
        return at[order], joined(found.column(column).chunks, pa.string()).take(pa.array(order))

    # --- for the planner --------------------------------------------------------------------------------

    def estimate(self, predicate: Expr, inputs: Inputs, budget: Budget | None = None) -> float:
        """About how many rows pass, as far as this version of the table tells."""
        terms = conjuncts(predicate)
        ids = named_ids(self.type, terms, inputs)
        if ids is not None:
            return float(min(len(ids), self.count))
        return self.count * estimated_share(self.columns, self.type, terms, inputs, budget)

    def access(self, predicate: Expr, inputs: Inputs) -> str:
        """How rows are found that pass, for people; the same whatever is in memory."""
        terms = conjuncts(predicate)
        if named_ids(self.type, terms, inputs) is not None:
            return Way.KEY.value
        costs = self.columns.costs
        if costs.is_tiny and all(costs.is_light_by_size(name) for name in _names(terms)):
            return "column"
        index = self._selective_index(terms, inputs, _SELECTIVE)
        return "column" if index is None else str(Access(Way.INDEX, index))

    def way(self, predicate: Expr, inputs: Inputs) -> str:
        """How `where` would find them now, by what is in memory and what has room there."""
        terms = conjuncts(predicate)
        return Way.KEY.value if named_ids(self.type, terms, inputs) is not None else str(self._way(terms, inputs))

    def _way(self, terms: tuple[Expr, ...], inputs: Inputs) -> Access:
        names = _names(terms)
        if all(self.is_resident(name) for name in names):
            return Access(Way.MEMORY)
        costs = self.columns.costs
        if (costs.is_tiny or costs.is_worth_loading(_lookup(terms))) and all(map(costs.is_light, names)):
            return Access(Way.MEMORY)
        fits = all(costs.may_load(name) and not costs.is_heavy(name) for name in names)
        index = self._selective_index(terms, inputs, _SELECTIVE if fits else _SELECTIVE_WITHOUT_ROOM)
        if index is not None:
            return Access(Way.INDEX, index)
        return Access(Way.MEMORY if fits else Way.SCAN)

    def _selective_index(self, terms: tuple[Expr, ...], inputs: Inputs, most: float) -> str | None:
        """An index that answers one of the terms, if those that indexes answer let at most this share of rows pass."""
        names = [usable_index(self.columns, term, inputs) for term in terms]
        found = tuple(term for term, name in zip(terms, names, strict=True) if name is not None)
        if not found or estimated_share(self.columns, self.type, found, inputs) > most:
            return None
        return next(name for name in names if name is not None)


def _lookup(terms: tuple[Expr, ...]) -> str:
    """Under what the look-ups of terms are counted: the columns that would be read instead."""
    return f"look-ups of {', '.join(sorted(_names(terms)))}"


def _names(terms: tuple[Expr, ...]) -> list[str]:
    """The columns that terms read, each once."""
    return list(dict.fromkeys(name for term in terms for name in columns_of(term)))


def _as_array(ids: pa.Array | Sequence[str]) -> pa.Array:
    return ids if isinstance(ids, pa.Array) else pa.array(ids, pa.string())
