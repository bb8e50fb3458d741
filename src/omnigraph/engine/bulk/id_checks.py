"""Ids: each is given once, and it is new, or not, as the load's mode asks."""

from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa

from omnigraph.commit.requirements import IdsAbsent, RowsUnchanged
from omnigraph.engine.bulk.load_batch import LoadBatch, LoadMode, TypeBatch
from omnigraph.engine.bulk.load_errors import InputNames, RejectedRows
from omnigraph.engine.bulk.row_spool import FILE, LINE, build_left_out_name
from omnigraph.engine.writing.violations import format_row_value, quote_value
from omnigraph.schema.arrow import ID
from omnigraph.schema.values import describe_type
from omnigraph.storage.columnar_sets import Positions, find_true_positions
from omnigraph.storage.key_lookup import build_empty_existing, find_existing


def check_ids(batch: LoadBatch, rows: TypeBatch, inputs: InputNames) -> None:
    """No id twice in the load; none that exists when appending; when merging, new rows are complete."""
    later, first = rows.find_repeats([ID])
    if len(later):
        batch.refuse(rows, _build_duplicate_rejection(rows, later, first, inputs))
    if rows.spooled.generated_ids == rows.spooled.rows:  # nobody can have such ids, however many are there
        rows.existing = build_empty_existing(rows.table, rows.spooled.rows)
    else:
        rows.existing = find_existing(rows.table, rows.read_ids, rows.spooled.rows)
    if rows.only_known:
        rows.is_excluded |= ~rows.exists
    if rows.mode is LoadMode.APPEND:
        batch.refuse(rows, _build_existing_rejection(rows))
    elif rows.mode is LoadMode.MERGE:
        for refusal in find_incomplete(rows):
            batch.refuse(rows, refusal)


def require_ids(batch: LoadBatch, rows: TypeBatch) -> None:
    """What must stay so: new ids are new, and rows that a merge has looked at say what they said."""
    if rows.mode is LoadMode.OVERWRITE:
        return
    key = rows.type.table_key
    is_new = ~rows.exists & ~rows.is_excluded
    if is_new.any():
        batch.requirements.append(IdsAbsent(table_key=key, ids=lambda: rows.read_ids().filter(pa.array(is_new))))
    if (rows.exists & ~rows.is_excluded).any():
        batch.requirements.append(RowsUnchanged(table_key=key, ids=rows.find_superseding_ids))


def _build_duplicate_rejection(rows: TypeBatch, later: Positions, first: Positions, inputs: InputNames) -> RejectedRows:
    ids = rows.spooled.take(later, [ID]).column(0)
    order = np.unique(first)
    places = rows.spooled.take(order, [FILE, LINE])

    def message(number: int) -> str:
        at = int(np.searchsorted(order, first[number]))
        file, line = places.column(0)[at].as_py(), places.column(1)[at].as_py()
        return (
            f"{rows.type.name} {quote_value(ids[number].as_py())} is there twice:"
            f" first in {inputs.names[file]}, {inputs.units[file]} {line}"
        )

    return RejectedRows(
        rows=later,
        rule="duplicate",
        property=ID,
        value=lambda number: format_row_value(ids[number].as_py()),
        message=message,
    )


def _build_existing_rejection(rows: TypeBatch) -> RejectedRows:
    taken = np.flatnonzero(rows.exists & ~rows.is_excluded)
    ids = rows.spooled.take(taken, [ID]).column(0)
    return RejectedRows(
        rows=taken,
        rule="exists",
        property=ID,
        value=lambda number: format_row_value(ids[number].as_py()),
        message=lambda number: (
            f"{rows.type.name} {quote_value(ids[number].as_py())} exists already; the mode merge would change it"
        ),
    )


def find_incomplete(rows: TypeBatch) -> Iterator[RejectedRows]:
    """New rows of a merge that leave out what is required, one property after the other."""
    is_new = ~rows.exists
    for p in rows.type.properties:
        if not p.is_required or p.name not in rows.spooled.left_out:
            continue
        left_out = rows.read_column(build_left_out_name(p.name))
        lacking = find_true_positions(left_out)
        lacking = lacking[is_new[lacking] & ~rows.is_excluded[lacking]]
        if not len(lacking):
            continue
        ids = rows.read_ids().take(pa.array(lacking))
        message = partial(
            _format_incomplete, f"{rows.type.name}.{p.name}: a value is required: {describe_type(p.type)}", ids
        )
        yield RejectedRows(rows=lacking, rule="required", property=p.name, value=lambda _: None, message=message)


def _format_incomplete(reason: str, ids: pa.Array, number: int) -> str:
    return f"{reason}, because {quote_value(ids[number].as_py())} is new"
