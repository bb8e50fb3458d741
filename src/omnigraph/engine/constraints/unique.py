"""Check `@unique`: no two rows, incoming or stored, hold the same values."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.commit.requirements import Requirement, ValuesAbsent, find_rows_with_values, select_complete
from omnigraph.engine.constraints.candidate_state import CandidateTable
from omnigraph.engine.constraints.violations import ConstraintFindings, format_ids, quote_value
from omnigraph.schema.arrow import ID
from omnigraph.schema.catalog import AnyType
from omnigraph.storage.columnar_sets import Positions, concat_chunks, find_duplicates, is_among
from omnigraph.storage.key_lookup import find_existing_ids
from omnigraph.storage.lance_table import LanceTable

# Columns of the join below. No property has such a name.
_ROW, _HOLDER = "@row", "@holder"


class StoredGroup(NamedTuple):
    """The stored rows whose values incoming rows may clash with; those with `own_ids` don't count."""

    table: LanceTable
    own_ids: pa.Array


@dataclass(frozen=True, slots=True, kw_only=True)
class UniqueClashes:
    """Rows whose values another row holds, in ascending order."""

    type: AnyType
    columns: tuple[str, ...]
    rows: Positions
    """Their positions in the values that were checked."""
    values: pa.Table
    ids: pa.Array
    holders: pa.Array
    """For each row, the id of a stored row or else of the first incoming row with its values; null if it is hidden."""

    def __len__(self) -> int:
        return len(self.rows)

    def get_values(self, number: int) -> tuple[object, ...]:
        """Return the values of one row."""
        return tuple(column[number].as_py() for column in self.values.columns)

    def format_violation(self, number: int) -> str:
        """Format the message about one row."""
        texts = [quote_value(value) for value in self.get_values(number)]
        values = texts[0] if len(texts) == 1 else f"({', '.join(texts)})"
        holder, own = self.holders[number].as_py(), self.ids[number].as_py()
        holders = format_ids([own]) + " and a row that you may not see" if holder is None else format_ids([holder, own])
        return f"@unique violation on {format_unique_group(self.type, self.columns)}: {values} is held by {holders}"


def find_clashes(
    type_: AnyType,
    columns: tuple[str, ...],
    values: pa.Table,
    fetch_ids: Callable[[Positions], pa.Array],
    stored: StoredGroup | None = None,
) -> UniqueClashes:
    """Return the rows of `values` that have those of a stored row or of an earlier row.

    `values` has no nulls and no -0.0, see `select_complete`. `fetch_ids` returns the ids of rows at ascending
    positions. Without `stored`, rows are compared with each other only.
    """
    taken, holders = np.empty(0, np.int64), pa.array([], pa.string())
    if stored is not None:
        taken, holders = find_taken_values(stored.table, columns, values, stored.own_ids)
    later, first = find_duplicates(values.columns)
    # All rows with a value that a stored row holds are taken, so the others are compared among each other.
    is_free = ~np.isin(later, taken)
    first, inverse = np.unique(first[is_free], return_inverse=True)
    rows = np.concatenate([taken, later[is_free]])
    order = np.argsort(rows)
    rows = rows[order]
    holders = pa.concat_arrays([holders, fetch_ids(first).take(pa.array(inverse))]).take(pa.array(order))
    return UniqueClashes(
        type=type_, columns=columns, rows=rows, values=values.take(pa.array(rows)), ids=fetch_ids(rows), holders=holders
    )


def find_row_clashes(
    type_: AnyType, columns: tuple[str, ...], rows: pa.Table, stored: StoredGroup | None = None
) -> UniqueClashes:
    """Return the clashes of rows that have their ids and, complete, the columns of the group."""
    ids = concat_chunks(rows.column(ID))
    values = rows.select(list(columns))
    return find_clashes(type_, columns, values, lambda positions: ids.take(pa.array(positions)), stored)


def add_unique_violations(clashes: UniqueClashes, findings: ConstraintFindings) -> None:
    """Add a violation for each row that clashes."""
    ids = zip(clashes.ids.to_pylist(), clashes.holders.to_pylist(), strict=True)
    for number, (row_id, holder) in enumerate(ids):
        findings.add("unique", clashes.type.name, row_id, clashes.format_violation(number), clashes.columns, holder)


def require_values_absent(clashes: UniqueClashes, rows: pa.Table, own_ids: pa.Array) -> Requirement:
    """Return the requirement that no other writer stores the values of those of the checked rows that don't clash."""
    values = rows.select(list(clashes.columns))
    if len(clashes):
        values = values.take(pa.array(np.setdiff1d(np.arange(values.num_rows), clashes.rows)))
    return ValuesAbsent(table_key=clashes.type.table_key, columns=clashes.columns, values=values, own_ids=own_ids)


def check_unique(table: CandidateTable, findings: ConstraintFindings) -> None:
    """Check every unique group of a type for its incoming rows; rows with a null in the group are exempt.

    A group that no incoming row changes was checked when it was written, and is skipped.
    """
    groups = [*filter(table.may_change, table.type.unique)]
    if not groups:
        return
    # Rows with fresh ids can't be in the table, so only ids that a stored row may have are listed.
    own_ids = table.replaced_ids if table.streamed is None else table.streamed.ids
    for columns in groups:
        rows = select_complete(_collect_rows(table, list(dict.fromkeys([ID, *columns]))), columns)
        if not rows.num_rows:
            continue
        clashes = find_row_clashes(table.type, columns, rows, StoredGroup(table.table, own_ids))
        add_unique_violations(_hide_holders(clashes, table), findings)
        findings.requirements.append(require_values_absent(clashes, rows, own_ids))


def _hide_holders(clashes: UniqueClashes, table: CandidateTable) -> UniqueClashes:
    """Return the clashes without the ids of stored rows that the writer does not see."""
    if table.seen is table.table or not len(clashes):
        return clashes
    stored = table.find_committed_ids(clashes.holders.unique())
    hidden = stored.filter(pa.array(~is_among(stored, find_existing_ids(table.seen, stored))))
    holders = pc.if_else(pa.array(is_among(clashes.holders, hidden)), None, clashes.holders)
    return replace(clashes, holders=holders)


def _collect_rows(table: CandidateTable, columns: list[str]) -> pa.Table:
    """Return some columns of all incoming rows."""
    parts = []
    nbytes = 0
    for part in table.iter_parts():
        parts.append(part.select(columns))
        nbytes += parts[-1].nbytes
        if table.table.watch is not None:
            table.table.watch.check_size(nbytes, f"the values of {table.type.name} that must be unique")
    return pa.concat_tables(parts)


def find_taken_values(
    table: LanceTable, columns: Sequence[str], values: pa.Table, own_ids: pa.Array
) -> tuple[Positions, pa.Array]:
    """Return the rows of `values` that committed rows hold already, and for each the id of one holder.

    `values` has no nulls. Committed rows with `own_ids` don't count.
    """
    nothing = np.empty(0, np.int64), pa.array([], pa.string())
    if not table.count():
        return nothing
    committed = find_rows_with_values(table, columns, values)
    if len(own_ids):
        committed = committed.filter(pa.array(~is_among(committed.column(ID), own_ids)))
    if not committed.num_rows:
        return nothing
    # `committed` does not say which row of `values` each holder clashes with: the join does.
    holders = pa.table({_HOLDER: committed.column(ID), **{name: committed.column(name) for name in columns}})
    numbered = values.append_column(_ROW, pa.array(np.arange(values.num_rows)))
    clashes = numbered.join(holders, list(columns), join_type="inner").sort_by(_ROW)
    taken, first = np.unique(clashes.column(_ROW).to_numpy(), return_index=True)
    return taken, clashes.column(_HOLDER).take(pa.array(first)).combine_chunks()


def format_unique_group(type_: AnyType, columns: tuple[str, ...]) -> str:
    """Format the name of a unique group: `Type.column` or `Type(a, b)`."""
    return f"{type_.name}.{columns[0]}" if len(columns) == 1 else f"{type_.name}({', '.join(columns)})"
