"""Check `@unique` for all rows of a load, against each other and the committed rows that stay."""

from collections.abc import Sequence
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.commit.requirements import Requirement, find_complete, normalize_zeros
from omnigraph.engine.bulk.load_batch import LoadBatch, LoadMode, TypeBatch
from omnigraph.engine.bulk.load_errors import RejectedRows
from omnigraph.engine.bulk.row_spool import build_left_out_name
from omnigraph.engine.constraints.unique import StoredGroup, UniqueClashes, find_clashes, require_values_absent
from omnigraph.schema.arrow import ID
from omnigraph.schema.values import format_value
from omnigraph.storage.columnar_sets import Positions, concat_chunks, to_mask


def check_unique(batch: LoadBatch, rows: TypeBatch) -> list[Requirement]:
    """Reject rows whose values an earlier row of the load or a committed row that stays holds; return requirements."""
    requirements: list[Requirement] = []
    for columns in rows.type.unique:
        values = compute_effective_values(rows, columns)
        complete = find_complete(values)
        complete = rows.find_remaining_rows() if complete is None else complete[~rows.is_excluded[complete]]
        if not len(complete):
            continue
        group = values.take(pa.array(complete))
        own_ids = rows.find_superseding_ids()
        stored = None if rows.replaces_all else StoredGroup(rows.table, own_ids)
        clashes = find_clashes(rows.type, columns, group, partial(_take_ids, rows, complete), stored)
        batch.refuse(
            rows,
            RejectedRows(
                rows=complete[clashes.rows],
                rule="unique",
                property=columns[0] if len(columns) == 1 else None,
                value=partial(_format_value, clashes),
                message=clashes.format_violation,
            ),
        )
        # An overwrite requires that the whole table is unchanged.
        if rows.mode is not LoadMode.OVERWRITE:
            requirements.append(require_values_absent(clashes, group, own_ids))
    return requirements


def _take_ids(rows: TypeBatch, complete: Positions, positions: Positions) -> pa.Array:
    return concat_chunks(rows.spooled.take(complete[positions], [ID]).column(ID))


def _format_value(clashes: UniqueClashes, number: int) -> str:
    return ", ".join(format_value(value, is_typed=True) for value in clashes.get_values(number))


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
