"""Check the rows of a load against each other and the committed rows, in the order in which checks depend."""

from typing import Protocol

import numpy as np
import pyarrow as pa

from omnigraph.commit.requirements import Requirement, TableUnchanged
from omnigraph.engine.bulk.cardinality import check_cardinality
from omnigraph.engine.bulk.endpoints import check_dangling, check_endpoints
from omnigraph.engine.bulk.id_checks import check_existing, check_ids, require_ids
from omnigraph.engine.bulk.load_batch import LoadBatch, LoadMode
from omnigraph.engine.bulk.load_errors import InputNames
from omnigraph.engine.bulk.outdated import find_stale_embeddings
from omnigraph.engine.bulk.rejected_records import encode_rows
from omnigraph.engine.bulk.unique import check_unique
from omnigraph.engine.constraints.values import BrokenValue, find_broken_values
from omnigraph.engine.decoding.record_error import FurtherProblem, RecordError
from omnigraph.engine.decoding.typed_rows import TypedRows
from omnigraph.schema.values import format_value


class RejectByRule(Protocol):
    """A callback for a record that breaks a rule: the error, the record's text, and the rule's name."""

    def __call__(self, error: RecordError, text: bytes, rule: str = ...) -> None:
        """Reject a record."""
        ...


def reject_broken_rows(window: TypedRows, name: str, unit: str, reject: RejectByRule) -> TypedRows:
    """Return the rows of a window that keep the rules over single values, and reject the others.

    `name` is that of the input, `unit` the word for its lines in messages.
    """
    broken = find_broken_values(window.type, window.rows)
    if not broken:
        return window
    # A row may break several rules, but is rejected and counted once, with all of them.
    by_row: dict[int, list[BrokenValue]] = {}
    for value in broken:
        by_row.setdefault(value.row, []).append(value)
    rows = sorted(by_row)
    positions = pa.array(rows)
    left_out = {name: mask.take(positions) for name, mask in window.left_out.items()}
    texts = encode_rows(window.type, window.rows.take(positions), left_out)
    for row, text in zip(rows, texts, strict=True):
        value, *others = by_row[row]
        error = RecordError(
            name,
            window.lines[row].as_py(),
            window.type.name,
            value.property,
            format_value(value.value, is_typed=True),
            value.message,
            unit,
        )
        error.with_more(
            FurtherProblem(other.rule, other.property, format_value(other.value, is_typed=True), other.message)
            for other in others
        )
        reject(error, text, value.rule)
    is_valid = np.ones(window.rows.num_rows, np.bool_)
    is_valid[rows] = False
    mask = pa.array(is_valid)
    return TypedRows(
        type=window.type,
        rows=window.rows.filter(mask),
        lines=window.lines.filter(mask),
        left_out={name: column.filter(mask) for name, column in window.left_out.items()},
    )


def check_separate_rows(batch: LoadBatch) -> None:
    """Reject the bad rows of a batch that shares no key with the rest of its load, and without checks of counts.

    No other row of the load may have the ids and unique values of its rows, apart from excluded ones.
    """
    all_rows = [*batch.list_node_batches(), *batch.list_edge_batches()]
    for rows in all_rows:
        check_existing(batch, rows)
    is_changing = True
    while is_changing:
        excluded_before = batch.excluded_rows
        for rows in all_rows:
            check_unique(batch, rows)
        for rows in batch.list_edge_batches():
            check_endpoints(batch, rows)
        is_changing = batch.excluded_rows > excluded_before


def check_batch(batch: LoadBatch, inputs: InputNames) -> None:
    """Reject every record that can't be loaded, and add the requirements of the others.

    Rejected records are ignored by later checks: an edge to a rejected node is rejected too, and a unique value that a
    rejected record would have freed is still taken. The checks therefore repeat until none rejects another record.
    """
    all_rows = [*batch.list_node_batches(), *batch.list_edge_batches()]
    # These checks run once: rejecting other records does not add to what they reject.
    for rows in all_rows:
        check_ids(batch, rows, inputs)
        if batch.mode is LoadMode.MERGE:
            for rejection in find_stale_embeddings(rows):
                batch.refuse(rows, rejection)
    while True:
        excluded_before = batch.excluded_rows
        # Problems and requirements of an earlier round counted records that were rejected since.
        batch.rejections.global_problems.clear()
        requirements: list[Requirement] = []
        for rows in all_rows:
            requirements += check_unique(batch, rows)
        for rows in batch.list_edge_batches():
            requirements += check_endpoints(batch, rows)
        for edge in batch.list_edge_types():
            requirements += check_cardinality(batch, edge)
        if batch.mode is LoadMode.OVERWRITE:
            for rows in batch.list_node_batches():
                requirements += check_dangling(batch, rows) if rows.replaces_all else []
        if batch.excluded_rows == excluded_before:
            break
    batch.requirements += requirements
    for rows in all_rows:
        require_ids(batch, rows)
        if rows.replaces_all:
            batch.requirements.append(TableUnchanged(table_key=rows.type.table_key))
