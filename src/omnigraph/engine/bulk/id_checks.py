"""Check the ids of a load: no duplicates, and new or existing as the load's mode requires."""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pyarrow as pa

from omnigraph.commit.requirements import IdsAbsent, RowsUnchanged
from omnigraph.engine.bulk.load_batch import LoadBatch, LoadMode, OnDuplicate, TypeBatch
from omnigraph.engine.bulk.load_errors import InputNames, RejectedRows, format_nth_of
from omnigraph.engine.bulk.row_spool import FILE, LINE, build_left_out_name
from omnigraph.engine.constraints.violations import quote_value
from omnigraph.schema.arrow import ID
from omnigraph.schema.values import describe_type
from omnigraph.storage.columnar_sets import Positions, find_true_positions
from omnigraph.storage.key_lookup import build_empty_existing, find_existing


def check_ids(batch: LoadBatch, rows: TypeBatch, inputs: InputNames) -> None:
    """Reject duplicate ids, existing ids when appending, and incomplete new rows when merging."""
    later, first = rows.find_repeats([ID])
    if len(later) and rows.on_duplicate is not OnDuplicate.ERROR:
        rows.is_excluded[_choose_left_out(later, first, rows.on_duplicate)] = True
        rows.duplicates = len(later)
    elif len(later):
        batch.refuse(rows, _build_duplicate_rejection(rows, later, first, inputs))
    check_existing(batch, rows)


def check_existing(batch: LoadBatch, rows: TypeBatch) -> None:
    """Look up the committed rows; reject existing ids when appending, and incomplete new rows when merging."""
    # Generated ids can't be in the table, so it is not searched for them, however large it is.
    if rows.spooled.generated_ids == rows.spooled.rows:
        rows.existing = build_empty_existing(rows.table, rows.spooled.rows)
    else:
        rows.existing = find_existing(rows.table, rows.read_ids, rows.spooled.rows)
    if rows.only_known:
        rows.is_excluded |= ~rows.exists
    if rows.mode is LoadMode.APPEND:
        batch.refuse(rows, _build_existing_rejection(rows))
    elif rows.mode is LoadMode.MERGE:
        for rejection in find_incomplete(rows):
            batch.refuse(rows, rejection)


def _choose_left_out(later: Positions, first: Positions, on_duplicate: OnDuplicate) -> Positions:
    """Return the rows that are left out, given the rows with a repeated id and for each the first row of that id."""
    if on_duplicate is OnDuplicate.FIRST:
        return later
    # Ordered by group and row, the last row of each group is the one before another group.
    order = np.lexsort((later, first))
    is_last = np.append(np.diff(first[order]) != 0, True)
    return np.concatenate([np.unique(first), later[order][~is_last]])


def require_ids(batch: LoadBatch, rows: TypeBatch) -> None:
    """Add the requirements that new ids stay absent, and that existing rows of a merge stay unchanged."""
    # An overwrite requires that the whole table is unchanged.
    if rows.mode is LoadMode.OVERWRITE:
        return
    key = rows.type.table_key
    is_new = ~rows.exists & ~rows.is_excluded
    # Ids are passed as functions: they are read from the spool again only if another writer commits first.
    if is_new.any():
        batch.requirements.append(IdsAbsent(table_key=key, ids=lambda: rows.read_ids().filter(pa.array(is_new))))
    if (rows.exists & ~rows.is_excluded).any():
        batch.requirements.append(RowsUnchanged(table_key=key, ids=rows.find_superseding_ids))


def _build_duplicate_rejection(rows: TypeBatch, later: Positions, first: Positions, inputs: InputNames) -> RejectedRows:
    # `take` needs ascending positions.
    order = np.unique(first)
    origins = rows.spooled.take(order, [FILE, LINE])

    def find_first(number: int) -> tuple[str, str, int]:
        index = int(np.searchsorted(order, first[number]))
        file, line = origins.column(0)[index].as_py(), origins.column(1)[index].as_py()
        return inputs.names[file], inputs.units[file], line

    return build_repeat_rejection(rows, later, find_first)


def build_repeat_rejection(
    rows: TypeBatch, later: Positions, find_first: Callable[[int], tuple[str, str, int]]
) -> RejectedRows:
    """Return the rejection of rows whose id another row has, of which `find_first` returns input, unit and line."""
    ids = rows.spooled.take(later, [ID]).column(0)

    def format_message(number: int) -> str:
        name, unit, line = find_first(number)
        return f"{rows.type.name} {quote_value(ids[number].as_py())} appears twice: first in {name}, {unit} {line}"

    return RejectedRows(
        rows=later,
        rule="duplicate",
        property=ID,
        value=format_nth_of(ids),
        message=format_message,
    )


def _build_existing_rejection(rows: TypeBatch) -> RejectedRows:
    taken = np.flatnonzero(rows.exists & ~rows.is_excluded)
    ids = rows.spooled.take(taken, [ID]).column(0)
    return RejectedRows(
        rows=taken,
        rule="exists",
        property=ID,
        value=format_nth_of(ids),
        message=lambda number: (
            f"{rows.type.name} {quote_value(ids[number].as_py())} exists already; the mode merge would change it"
        ),
    )


def find_incomplete(rows: TypeBatch) -> Iterator[RejectedRows]:
    """Yield the new rows of a merge that leave out a required property, for each such property."""
    is_new = ~rows.exists
    for p in rows.type.properties:
        if not p.is_required or p.name not in rows.spooled.left_out:
            continue
        left_out = rows.read_column(build_left_out_name(p.name))
        incomplete = find_true_positions(left_out)
        # A caller excludes each rejection before it asks for the next, so a row is rejected for one property only.
        incomplete = incomplete[is_new[incomplete] & ~rows.is_excluded[incomplete]]
        if not len(incomplete):
            continue
        ids = rows.read_ids().take(pa.array(incomplete))
        message = partial(
            _format_incomplete, f"{rows.type.name}.{p.name}: a value is required: {describe_type(p.type)}", ids
        )
        yield RejectedRows(rows=incomplete, rule="required", property=p.name, value=lambda _: None, message=message)


def _format_incomplete(reason: str, ids: pa.Array, number: int) -> str:
    return f"{reason}, because {quote_value(ids[number].as_py())} is new"
