"""Check `@unique` for all rows of a load, against each other and the committed rows that stay."""

from collections.abc import Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.commit.requirements import Requirement, ValuesAbsent, normalize_zeros
from omnigraph.engine.bulk.load_batch import LoadBatch, LoadMode, TypeBatch
from omnigraph.engine.bulk.load_errors import RejectedRows
from omnigraph.engine.bulk.row_spool import build_left_out_name
from omnigraph.engine.constraints.unique import find_taken_values, format_unique_violation, get_row
from omnigraph.engine.constraints.violations import format_row_value
from omnigraph.schema.arrow import ID
from omnigraph.schema.catalog import AnyType
from omnigraph.storage.columnar_sets import Positions, concat_chunks, find_duplicates, to_mask


def check_unique(batch: LoadBatch, rows: TypeBatch) -> list[Requirement]:
    """Reject rows whose values an earlier row of the load or a committed row that stays holds; return requirements."""
    requirements: list[Requirement] = []
    for columns in rows.type.unique:
        values = compute_effective_values(rows, columns)
        complete = _find_complete_rows(rows, values)
        if not len(complete):
            continue
        group = values.take(pa.array(complete))
        own_ids = rows.find_superseding_ids()
        # The second check skips what the first one rejects: a record is rejected once.
        _refuse_taken(batch, rows, columns, complete, group, own_ids)
        _refuse_repeated(batch, rows, columns, complete, group)
        # An overwrite requires that the whole table is unchanged.
        if rows.mode is not LoadMode.OVERWRITE:
            remaining = group.filter(pa.array(~rows.is_excluded[complete]))
            requirements.append(
                ValuesAbsent(table_key=rows.type.table_key, columns=columns, values=remaining, own_ids=own_ids)
            )
    return requirements


def compute_effective_values(rows: TypeBatch, columns: Sequence[str]) -> pa.Table:
    """Return the values that every row will have: those of its record, or of the committed row where left out."""
    values = rows.spooled.read_columns(list(columns)).combine_chunks()
    incomplete = [name for name in columns if name in rows.spooled.left_out] if rows.mode is LoadMode.MERGE else []
    if incomplete and rows.existing is not None:
        for name in incomplete:
            is_left_out = to_mask(rows.read_column(build_left_out_name(name))) & rows.exists
            if is_left_out.any():
                committed = rows.existing.fetch(rows.existing.at[is_left_out], [name]).column(name)
                index = values.schema.get_field_index(name)
                column = concat_chunks(values.column(index))
                committed = concat_chunks(committed).cast(column.type)
                filled = pc.replace_with_mask(column, pa.array(is_left_out), committed)
                values = values.set_column(index, values.schema.field(index), filled)
    # 0.0 and -0.0 are equal but hash differently.
    return normalize_zeros(values)


def _find_complete_rows(rows: TypeBatch, values: pa.Table) -> Positions:
    """Return the rows that are not excluded and have no null in the group: a null clashes with nothing."""
    is_complete = ~rows.is_excluded
    for column in values.columns:
        if column.null_count:
            is_complete &= to_mask(pc.is_valid(column))
    return np.flatnonzero(is_complete)


def _refuse_taken(
    batch: LoadBatch, rows: TypeBatch, columns: tuple[str, ...], complete: Positions, group: pa.Table, own_ids: pa.Array
) -> None:
    if not rows.replaces_all:
        taken, holders = find_taken_values(rows.table, columns, group, own_ids)
        _refuse(batch, rows, columns, complete[taken], holders, group.take(pa.array(taken)))


def _refuse_repeated(
    batch: LoadBatch, rows: TypeBatch, columns: tuple[str, ...], complete: Positions, group: pa.Table
) -> None:
    is_remaining = ~rows.is_excluded[complete]
    if not is_remaining.all():
        complete, group = complete[is_remaining], group.filter(pa.array(is_remaining))
    later, first = find_duplicates(group.columns)
    # `take` needs ascending positions; `inverse` restores the order of the duplicates.
    holder_rows, inverse = np.unique(complete[first], return_inverse=True)
    holders = concat_chunks(rows.spooled.take(holder_rows, [ID]).column(ID)).take(pa.array(inverse))
    _refuse(batch, rows, columns, complete[later], holders, group.take(pa.array(later)))


def _refuse(
    batch: LoadBatch,
    rows: TypeBatch,
    columns: tuple[str, ...],
    rejected: Positions,
    holders: pa.Array,
    values: pa.Table,
) -> None:
    if not len(rejected):
        return
    ids = rows.spooled.take(rejected, [ID]).column(ID)
    batch.refuse(
        rows,
        RejectedRows(
            rows=rejected,
            rule="unique",
            property=columns[0] if len(columns) == 1 else None,
            value=partial(_format_value, values),
            message=partial(_format_message, rows.type, columns, values, holders, ids),
        ),
    )


def _format_value(values: pa.Table, number: int) -> str:
    return ", ".join(map(format_row_value, get_row(values, number)))


def _format_message(
    type_: AnyType,
    columns: tuple[str, ...],
    values: pa.Table,
    holders: pa.Array,
    ids: pa.ChunkedArray,
    number: int,
) -> str:
    return format_unique_violation(
        type_, columns, get_row(values, number), holders[number].as_py(), ids[number].as_py()
    )
