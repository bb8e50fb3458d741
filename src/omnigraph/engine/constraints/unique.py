"""Check `@unique` for pending rows: no two rows, pending or committed, hold the same values."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.commit.requirements import ValuesAbsent, find_rows_with_values, normalize_zeros
from omnigraph.engine.constraints.candidate_state import CandidateTable
from omnigraph.engine.constraints.violations import ConstraintFindings, format_ids, quote_value
from omnigraph.schema.arrow import ID
from omnigraph.schema.catalog import AnyType
from omnigraph.storage.columnar_sets import Positions, find_duplicates, is_among
from omnigraph.storage.lance_table import LanceTable

# Columns of the join below. No property has such a name.
_ROW, _HOLDER = "@row", "@holder"


def check_unique(table: CandidateTable, findings: ConstraintFindings) -> None:
    """Check every unique group of a type for its pending rows; rows with a null in the group are exempt.

    A group that no pending row changes was checked when it was written, and is skipped.
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
        own_ids = table.replaced_ids if table.streamed is None else table.streamed.ids
        taken, holders = find_taken_values(table.table, columns, values, own_ids)
        clashes = dict(zip(taken.tolist(), holders.to_pylist(), strict=True))
        for row, first in zip(*(part.tolist() for part in find_duplicates(values.columns)), strict=True):
            clashes.setdefault(row, group.column(ID)[first].as_py())
        for row, holder in sorted(clashes.items()):
            row_id = group.column(ID)[row].as_py()
            message = format_unique_violation(table.type, columns, get_row(values, row), holder, row_id)
            findings.add("unique", table.type.name, row_id, message, tuple(columns), holder)
        findings.requirements.append(
            ValuesAbsent(table_key=table.type.table_key, columns=columns, values=values, own_ids=own_ids)
        )


def _collect_rows(table: CandidateTable, columns: list[str]) -> pa.Table:
    """Return some columns of all rows to put."""
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


def format_unique_violation(
    type_: AnyType, columns: tuple[str, ...], values: tuple[object, ...], holder: str, row_id: str
) -> str:
    """Format the message about a row whose values another row holds."""
    return (
        f"@unique violation on {format_unique_group(type_, columns)}: {format_values(values)}"
        f" is held by {format_ids([holder, row_id])}"
    )


def get_row(values: pa.Table, row: int) -> tuple[object, ...]:
    """Return the values of one row."""
    return tuple(column[row].as_py() for column in values.columns)


def format_unique_group(type_: AnyType, columns: tuple[str, ...]) -> str:
    """Format the name of a unique group: `Type.column` or `Type(a, b)`."""
    return f"{type_.name}.{columns[0]}" if len(columns) == 1 else f"{type_.name}({', '.join(columns)})"


def format_values(values: tuple[object, ...]) -> str:
    """Format the values of a unique group for messages."""
    texts = [quote_value(value) for value in values]
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"
