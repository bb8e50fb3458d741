"""`@unique`: no two rows hold the same values, in the batch, in what is pending and in what is committed."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.commit.requirements import ValuesAbsent, find_rows_with_values, normalize_zeros
from omnigraph.engine.writing.violations import ConstraintFindings, format_ids, quote_value
from omnigraph.engine.writing.write_buffer import PendingTable
from omnigraph.schema.arrow import ID
from omnigraph.schema.catalog import AnyType
from omnigraph.storage.columnar_sets import Positions, find_duplicates, is_among
from omnigraph.storage.lance_table import LanceTable

_ROW, _HOLDER = "@row", "@holder"


def check_unique(table: PendingTable, findings: ConstraintFindings) -> None:
    """Every unique group of a type with pending rows; the rows with a null in a member are exempt.

    A group that no row changes is as unique as it was.
    """
    for columns in filter(table.may_change, table.type.unique):
        rows = _collect_rows(table, list(dict.fromkeys([ID, *columns])))
        if not rows.num_rows:
            continue
        group = normalize_zeros(rows)
        for name in columns:
            group = group.filter(pc.is_valid(group.column(name)))
        if not group.num_rows:
            continue
        values = group.select(list(columns))
        taken, holders = find_taken_values(table.table, columns, values, _find_own_ids(table))
        clashes = dict(zip(taken.tolist(), holders.to_pylist(), strict=True))
        for row, first in zip(*(part.tolist() for part in find_duplicates(values.columns)), strict=True):
            clashes.setdefault(row, group.column(ID)[first].as_py())
        for row, holder in sorted(clashes.items()):
            row_id = group.column(ID)[row].as_py()
            message = format_unique_violation(table.type, columns, get_row(values, row), holder, row_id)
            findings.add("unique", table.type.name, row_id, message, tuple(columns), holder)
        # Rows that can't have been committed before are no one's own yet, so they need no naming.
        known = tuple(sorted({*table.known_ids, *table.deleted})) if table.streamed is None else table.streamed.ids
        findings.requirements.append(
            ValuesAbsent(table_key=table.type.table_key, columns=columns, values=values, own_ids=known)
        )


def _collect_rows(table: PendingTable, columns: list[str]) -> pa.Table:
    """Return some columns of all rows to put."""
    parts, held = [], 0
    for part in table.iter_parts():
        parts.append(part.select(columns))
        held += parts[-1].nbytes
        if table.table.watch is not None:
            table.table.watch.check_size(held, f"the values of {table.type.name} that must be unique")
    return pa.concat_tables(parts)


def _find_own_ids(table: PendingTable) -> pa.Array:
    """Return the ids whose committed rows don't count any more."""
    return pa.array(table.find_superseded_ids(), pa.string()) if table.streamed is None else table.streamed.ids


def find_taken_values(
    table: LanceTable, columns: Sequence[str], values: pa.Table, own_ids: pa.Array
) -> tuple[Positions, pa.Array]:
    """The rows of `values`, which hold no null, that a committed row holds already, and the id of that row for each.

    Committed rows with `own_ids` don't count.
    """
    nothing = np.empty(0, np.int64), pa.array([], pa.string())
    if not table.count():
        return nothing
    found = find_rows_with_values(table, columns, values)
    if len(own_ids):
        found = found.filter(pa.array(~is_among(found.column(ID), own_ids)))
    if not found.num_rows:
        return nothing
    holders = pa.table({_HOLDER: found.column(ID), **{name: found.column(name) for name in columns}})
    numbered = values.append_column(_ROW, pa.array(np.arange(values.num_rows)))
    clashes = numbered.join(holders, list(columns), join_type="inner").sort_by(_ROW)
    taken, first = np.unique(clashes.column(_ROW).to_numpy(), return_index=True)
    return taken, clashes.column(_HOLDER).take(pa.array(first)).combine_chunks()


def format_unique_violation(
    type_: AnyType, columns: tuple[str, ...], values: tuple[object, ...], holder: str, row_id: str
) -> str:
    """What is said of a row whose values another one holds."""
    return (
        f"@unique violation on {format_unique_group(type_, columns)}: {format_values(values)}"
        f" is held by {format_ids([holder, row_id])}"
    )


def get_row(values: pa.Table, row: int) -> tuple[object, ...]:
    """The values of one row."""
    return tuple(column[row].as_py() for column in values.columns)


def format_unique_group(type_: AnyType, columns: tuple[str, ...]) -> str:
    """How messages name a unique group."""
    return f"{type_.name}.{columns[0]}" if len(columns) == 1 else f"{type_.name}({', '.join(columns)})"


def format_values(values: tuple[object, ...]) -> str:
    """How messages show what it holds."""
    texts = [quote_value(value) for value in values]
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"
