"""Everything that a load must keep between its rows and the committed ones, in the order in which it matters."""

from typing import Protocol

import numpy as np
import pyarrow as pa

from omnigraph.commit.requirements import Requirement, TableUnchanged
from omnigraph.engine.bulk.cardinality import check_cardinality
from omnigraph.engine.bulk.endpoints import check_dangling, check_endpoints
from omnigraph.engine.bulk.id_checks import check_ids, require_ids
from omnigraph.engine.bulk.load_batch import LoadBatch, LoadMode
from omnigraph.engine.bulk.load_errors import InputNames
from omnigraph.engine.bulk.outdated import find_stale_embeddings
from omnigraph.engine.bulk.rejected_records import encode_rows
from omnigraph.engine.bulk.unique import check_unique
from omnigraph.engine.decoding.record_error import RecordError
from omnigraph.engine.decoding.typed_rows import TypedRows
from omnigraph.engine.writing.value_rules import BrokenValue, find_broken_values
from omnigraph.engine.writing.violations import format_row_value


class RejectByRule(Protocol):
    """Takes a record that breaks a rule: why, its text, and the rule's name."""

    def __call__(self, error: RecordError, text: bytes, rule: str = ...) -> None:
        """One more record."""
        ...


def reject_broken_rows(window: TypedRows, name: str, unit: str, reject: RejectByRule) -> TypedRows:
    """The rows of a window that keep the rules over single values; the others are rejected.

    `name` is that of the input, and `unit` what its lines are called.
    """
    broken = find_broken_values(window.type, window.rows)
    if not broken:
        return window
    first: dict[int, BrokenValue] = {}
    for one in broken:
        first.setdefault(one.row, one)
    rows = sorted(first)
    chosen = pa.array(rows)
    left_out = {name: mask.take(chosen) for name, mask in window.left_out.items()}
    texts = encode_rows(window.type, window.rows.take(chosen), left_out)
    for row, text in zip(rows, texts, strict=True):
        one = first[row]
        error = RecordError(
            name,
            window.lines[row].as_py(),
            window.type.name,
            one.property,
            format_row_value(one.value),
            one.message,
            unit,
        )
        reject(error, text, one.rule)
    is_kept = np.ones(window.rows.num_rows, np.bool_)
    is_kept[rows] = False
    kept = pa.array(is_kept)
    return TypedRows(
        type=window.type,
        rows=window.rows.filter(kept),
        lines=window.lines.filter(kept),
        left_out={name: mask.filter(kept) for name, mask in window.left_out.items()},
    )


def check_batch(batch: LoadBatch, inputs: InputNames) -> None:
    """Refuse every record that can't be taken, and say what the others rely on.

    A record that is refused counts for nothing: an edge to a node that is out is out too, and a value that it would
    have freed is still held. So the checks are made again until they refuse nothing more.
    """
    everything = [*batch.list_node_batches(), *batch.list_edge_batches()]
    for rows in everything:
        check_ids(batch, rows, inputs)
        if batch.mode is LoadMode.MERGE:
            for refusal in find_stale_embeddings(rows):
                batch.refuse(rows, refusal)
    while True:
        out = batch.excluded_rows
        batch.rejections.global_problems.clear()
        relied_on: list[Requirement] = []
        for rows in everything:
            relied_on += check_unique(batch, rows)
        for rows in batch.list_edge_batches():
            relied_on += check_endpoints(batch, rows)
        for edge in batch.list_edge_types():
            relied_on += check_cardinality(batch, edge)
        if batch.mode is LoadMode.OVERWRITE:
            for rows in batch.list_node_batches():
                relied_on += check_dangling(batch, rows) if rows.replaces_all else []
        if batch.excluded_rows == out:
            break
    batch.requirements += relied_on
    for rows in everything:
        require_ids(batch, rows)
        if rows.replaces_all:
            batch.requirements.append(TableUnchanged(table_key=rows.type.table_key))
