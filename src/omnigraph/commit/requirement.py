"""The read set of a write, as data: what it relied on, and how to find out whether that still holds.

A requirement is checked again only when a table it names was changed by somebody else since the write's base.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.storage.dataset import Table, is_blob

ID = "id"
ROW_NUMBER = "_rowid"
SHOWN_KEYS = 5


class Tables(Protocol):
    """Gives the tables of one snapshot."""

    def table(self, table_key: str) -> Table:
        """The table at its pin."""
        ...


@dataclass(frozen=True, slots=True)
class Violation:
    """A requirement that does not hold any more."""

    table_key: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TableUnchanged:
    """The write depended on the whole table: an overwrite, a predicate over everything."""

    table_key: str

    def check(self, base: Tables, now: Tables) -> Violation | None:
        """Always broken: it is asked only when the table's content has changed."""
        del base, now
        return Violation(self.table_key, "the table was changed")


@dataclass(frozen=True, slots=True, kw_only=True)
class IdsAbsent:
    """The write creates these ids: nobody else may have."""

    table_key: str
    ids: tuple[str, ...]

    def check(self, base: Tables, now: Tables) -> Violation | None:
        """Broken when one of the ids exists now."""
        del base
        found = now.table(self.table_key).matching(ID, self.ids, [ID]).column(ID).to_pylist()
        return Violation(self.table_key, f"{_shown(found)} exist now") if found else None


@dataclass(frozen=True, slots=True, kw_only=True)
class IdsPresent:
    """The write refers to these rows, for instance as an edge's ends: they must stay."""

    table_key: str
    ids: tuple[str, ...]

    def check(self, base: Tables, now: Tables) -> Violation | None:
        """Broken when one of the ids is gone."""
        del base
        found = now.table(self.table_key).matching(ID, self.ids, [ID]).column(ID).to_pylist()
        gone = sorted(set(self.ids) - set(found))
        return Violation(self.table_key, f"{_shown(gone)} are gone") if gone else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ValuesAbsent:
    """The write stores these values in a unique column group; rows with `own_ids` are its own and don't count.

    A null clashes with nothing.
    """

    table_key: str
    columns: tuple[str, ...]
    values: pa.Table
    own_ids: tuple[str, ...] = ()

    def check(self, base: Tables, now: Tables) -> Violation | None:
        """Broken when another row holds one of the values."""
        del base
        taken = _without(rows_holding(now.table(self.table_key), self.columns, self.values), self.own_ids)
        return (
            Violation(self.table_key, f"the values of {_shown(taken.column(ID).to_pylist())} clash")
            if taken.num_rows
            else None
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsUnchanged:
    """The write's meaning depended on what these rows said when it read them."""

    table_key: str
    ids: tuple[str, ...]

    def check(self, base: Tables, now: Tables) -> Violation | None:
        """Broken when one of the rows was changed or removed."""
        before = _rows(base.table(self.table_key), self.ids)
        after = _rows(now.table(self.table_key), self.ids)
        changed = sorted(row_id for row_id in self.ids if before.get(row_id) != after.get(row_id))
        return Violation(self.table_key, f"{_shown(changed)} changed") if changed else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionUnchanged:
    """The write chose these rows by a question to the whole table, which must choose the same ones, unchanged."""

    table_key: str
    ids: tuple[str, ...]
    select: Callable[[Table], Sequence[str]]

    def check(self, base: Tables, now: Tables) -> Violation | None:
        """Broken when other rows would be chosen now, or one of them was changed."""
        other = sorted(set(self.select(now.table(self.table_key))) ^ set(self.ids))
        if other:
            return Violation(self.table_key, f"{_shown(other)} changed")
        return RowsUnchanged(table_key=self.table_key, ids=self.ids).check(base, now)


@dataclass(frozen=True, slots=True, kw_only=True)
class CountsWithin:
    """The write stores `added` rows per key, and their number per key has bounds: cardinality.

    Rows with `own_ids` are replaced or deleted by the write and don't count, wherever somebody else has moved them.
    """

    table_key: str
    column: str
    keys: tuple[str, ...]
    added: tuple[int, ...]
    low: int = 0
    high: int | None = None
    own_ids: tuple[str, ...] = ()

    def check(self, base: Tables, now: Tables) -> Violation | None:
        """Broken when a key's rows now, with those of this write, are too few or too many."""
        del base
        columns = list(dict.fromkeys([ID, self.column]))
        rows = _without(now.table(self.table_key).matching(self.column, self.keys, columns), self.own_ids)
        totals = Counter(rows.column(self.column).to_pylist())
        for key, added in zip(self.keys, self.added, strict=True):
            totals[key] += added
        for key in self.keys:
            total = totals[key]
            if total < self.low or (self.high is not None and total > self.high):
                return Violation(self.table_key, f"`{key}` would have {total} rows")
        return None


Requirement: TypeAlias = (
    TableUnchanged | IdsAbsent | IdsPresent | ValuesAbsent | RowsUnchanged | SelectionUnchanged | CountsWithin
)


def rows_holding(table: Table, columns: Sequence[str], values: pa.Table) -> pa.Table:
    """The rows (`id` and the columns) that hold one of the value groups; -0.0 and 0.0 are one value."""
    names, first = list(dict.fromkeys([ID, *columns])), columns[0]
    typed = pa.table({name: values.column(name).cast(table.schema.field(name).type) for name in columns})
    wanted = normalised(typed).group_by(list(columns)).aggregate([])
    keys = wanted.column(first).combine_chunks().unique()
    rows = table.matching(first, keys, names) if keys.type in _COMPARED_ALIKE else table.scan(names)
    return normalised(rows).join(wanted, list(columns), join_type="left semi")


def normalised(rows: pa.Table) -> pa.Table:
    """The rows with every -0.0 as 0.0, which is equal to it but not stored alike."""
    for place, field in enumerate(rows.schema):
        if pa.types.is_floating(field.type):
            rows = rows.set_column(place, field, pc.add(rows.column(place), pa.scalar(0.0, field.type)))
    return rows


_COMPARED_ALIKE = (pa.string(), pa.int32(), pa.int64())
"""Types that Lance compares as we do, in a filter that it can be handed."""


def _without(rows: pa.Table, ids: tuple[str, ...]) -> pa.Table:
    return rows.filter(pc.invert(pc.is_in(rows.column(ID), value_set=pa.array(ids, pa.string())))) if ids else rows


def _rows(table: Table, ids: tuple[str, ...]) -> dict[str, str]:
    """What the rows say, as text: there a NaN equals itself.

    A blob is not read. Instead the row's number is compared, which it keeps until it is written anew.
    """
    names = [field.name for field in table.schema if not is_blob(field)]
    columns = names if len(names) == len(table.schema) else [*names, ROW_NUMBER]
    return {row[ID]: repr(row) for row in table.matching(ID, ids, columns).to_pylist()}


def _shown(ids: list[str]) -> str:
    more = f" and {len(ids) - SHOWN_KEYS} more" if len(ids) > SHOWN_KEYS else ""
    return ", ".join(f"`{row_id}`" for row_id in sorted(ids)[:SHOWN_KEYS]) + more
