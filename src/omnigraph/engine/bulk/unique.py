"""`@unique` over all rows of a load: no two rows hold the same values, in the load and in what stays committed."""

from collections.abc import Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.commit.requirements import Requirement, ValuesAbsent, normalize_zeros
from omnigraph.engine.bulk.load_batch import LoadBatch, LoadMode, TypeBatch
from omnigraph.engine.bulk.load_errors import RejectedRows
from omnigraph.engine.bulk.row_spool import build_left_out_name
from omnigraph.engine.writing.unique import find_taken_values, format_unique_violation, get_row
from omnigraph.engine.writing.violations import format_row_value
from omnigraph.schema.arrow import ID
from omnigraph.schema.catalog import AnyType
from omnigraph.storage.columnar_sets import Positions, concat_chunks, find_duplicates, to_mask


def check_unique(batch: LoadBatch, rows: TypeBatch) -> list[Requirement]:
    """Refuse the rows whose values an earlier row of the load, or a committed row that stays, holds already."""
    relied_on: list[Requirement] = []
    for columns in rows.type.unique:
        values = compute_effective_values(rows, columns)
        held = _find_complete_rows(rows, values)
        if not len(held):
            continue
        group = values.take(pa.array(held))
        own_ids = rows.find_superseding_ids()
        _refuse_taken(batch, rows, columns, held, group, own_ids)
        _refuse_repeated(batch, rows, columns, held, group)
        if rows.mode is not LoadMode.OVERWRITE:
            kept = group.filter(pa.array(~rows.is_excluded[held]))
            relied_on.append(ValuesAbsent(table_key=rows.type.table_key, columns=columns, values=kept, own_ids=own_ids))
    return relied_on


def compute_effective_values(rows: TypeBatch, columns: Sequence[str]) -> pa.Table:
    """What every row will say in these columns: what its record says, or where that is silent, what is there."""
    values = rows.spooled.read_columns(list(columns)).combine_chunks()
    silent = [name for name in columns if name in rows.spooled.left_out] if rows.mode is LoadMode.MERGE else []
    if silent and rows.existing is not None:
        for name in silent:
            left_out = to_mask(rows.read_column(build_left_out_name(name))) & rows.exists
            if left_out.any():
                kept = rows.existing.fetch(rows.existing.at[left_out], [name]).column(name)
                place = values.schema.get_field_index(name)
                column = concat_chunks(values.column(place))
                filled = pc.replace_with_mask(column, pa.array(left_out), concat_chunks(kept).cast(column.type))
                values = values.set_column(place, values.schema.field(place), filled)
    return normalize_zeros(values)


def _find_complete_rows(rows: TypeBatch, values: pa.Table) -> Positions:
    """The rows that are not out, and have no null in the group."""
    is_held = ~rows.is_excluded
    for column in values.columns:
        if column.null_count:
            is_held &= to_mask(pc.is_valid(column))
    return np.flatnonzero(is_held)


def _refuse_taken(
    batch: LoadBatch, rows: TypeBatch, columns: tuple[str, ...], held: Positions, group: pa.Table, own_ids: pa.Array
) -> None:
    if not rows.replaces_all:
        taken, holders = find_taken_values(rows.table, columns, group, own_ids)
        _refuse(batch, rows, columns, held[taken], holders, group.take(pa.array(taken)))


def _refuse_repeated(
    batch: LoadBatch, rows: TypeBatch, columns: tuple[str, ...], held: Positions, group: pa.Table
) -> None:
    is_kept = ~rows.is_excluded[held]
    if not is_kept.all():
        held, group = held[is_kept], group.filter(pa.array(is_kept))
    later, first = find_duplicates(group.columns)
    once, back = np.unique(held[first], return_inverse=True)
    holders = concat_chunks(rows.spooled.take(once, [ID]).column(ID)).take(pa.array(back))
    _refuse(batch, rows, columns, held[later], holders, group.take(pa.array(later)))


def _refuse(
    batch: LoadBatch, rows: TypeBatch, columns: tuple[str, ...], refused: Positions, holders: pa.Array, values: pa.Table
) -> None:
    if not len(refused):
        return
    ids = rows.spooled.take(refused, [ID]).column(ID)
    batch.refuse(
        rows,
        RejectedRows(
            rows=refused,
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
