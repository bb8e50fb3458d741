"""Ids: each is given once, and it is new, or not, as the load's mode asks."""

from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa

from omnigraph.commit.requirements import IdsAbsent, RowsUnchanged
from omnigraph.engine.bulk.load_batch import Batch, Incoming, LoadMode
from omnigraph.engine.bulk.load_errors import Inputs, Refusal
from omnigraph.engine.bulk.row_spool import FILE, LINE, left_out_name
from omnigraph.engine.writing.violations import quoted, shown_value
from omnigraph.schema.arrow import ID
from omnigraph.schema.values import expected
from omnigraph.storage.columnar_sets import Positions, positions_where
from omnigraph.storage.key_lookup import existing, nowhere


def check_ids(batch: Batch, rows: Incoming, inputs: Inputs) -> None:
    """No id twice in the load; none that exists when appending; when merging, new rows are complete."""
    later, first = rows.repeats([ID])
    if len(later):
        batch.refuse(rows, _duplicates(rows, later, first, inputs))
    if rows.spooled.made == rows.spooled.rows:  # nobody can have such ids, however many are there
        rows.existing = nowhere(rows.table, rows.spooled.rows)
    else:
        rows.existing = existing(rows.table, rows.ids, rows.spooled.rows)
    if rows.only_known:
        rows.is_out |= ~rows.exists
    if rows.mode is LoadMode.APPEND:
        batch.refuse(rows, _taken(rows))
    elif rows.mode is LoadMode.MERGE:
        for refusal in incomplete(rows):
            batch.refuse(rows, refusal)


def require_ids(batch: Batch, rows: Incoming) -> None:
    """What must stay so: new ids are new, and rows that a merge has looked at say what they said."""
    if rows.mode is LoadMode.OVERWRITE:
        return
    key = rows.type.table_key
    is_new = ~rows.exists & ~rows.is_out
    if is_new.any():
        batch.requirements.append(IdsAbsent(table_key=key, ids=lambda: rows.ids().filter(pa.array(is_new))))
    if (rows.exists & ~rows.is_out).any():
        batch.requirements.append(RowsUnchanged(table_key=key, ids=rows.superseding_ids))


def _duplicates(rows: Incoming, later: Positions, first: Positions, inputs: Inputs) -> Refusal:
    ids = rows.spooled.at(later, [ID]).column(0)
    order = np.unique(first)
    places = rows.spooled.at(order, [FILE, LINE])

    def message(number: int) -> str:
        at = int(np.searchsorted(order, first[number]))
        file, line = places.column(0)[at].as_py(), places.column(1)[at].as_py()
        return (
            f"{rows.type.name} {quoted(ids[number].as_py())} is there twice:"
            f" first in {inputs.names[file]}, {inputs.units[file]} {line}"
        )

    return Refusal(
        rows=later,
        rule="duplicate",
        property=ID,
        value=lambda number: shown_value(ids[number].as_py()),
        message=message,
    )


def _taken(rows: Incoming) -> Refusal:
    taken = np.flatnonzero(rows.exists & ~rows.is_out)
    ids = rows.spooled.at(taken, [ID]).column(0)
    return Refusal(
        rows=taken,
        rule="exists",
        property=ID,
        value=lambda number: shown_value(ids[number].as_py()),
        message=lambda number: (
            f"{rows.type.name} {quoted(ids[number].as_py())} exists already; the mode merge would change it"
        ),
    )


def incomplete(rows: Incoming) -> Iterator[Refusal]:
    """New rows of a merge that leave out what is required, one property after the other."""
    is_new = ~rows.exists
    for p in rows.type.properties:
        if not p.is_required or p.name not in rows.spooled.left_out:
            continue
        left_out = rows.column(left_out_name(p.name))
        lacking = positions_where(left_out)
        lacking = lacking[is_new[lacking] & ~rows.is_out[lacking]]
        if not len(lacking):
            continue
        ids = rows.ids().take(pa.array(lacking))
        message = partial(_incomplete, f"{rows.type.name}.{p.name}: a value is required: {expected(p.type)}", ids)
        yield Refusal(rows=lacking, rule="required", property=p.name, value=lambda _: None, message=message)


def _incomplete(reason: str, ids: pa.Array, number: int) -> str:
    return f"{reason}, because {quoted(ids[number].as_py())} is new"
