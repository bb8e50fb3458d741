"""Edges against the nodes that they lead from and to: both ends are there, and no node has too many or too few.

Node ids are taken a block at a time, and for each block the ends of all edges are read once. So memory is bounded, and
every answer is exact.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from omnigraph.engine.checking.row_integrity import BATCH_ROWS, Watch
from omnigraph.engine.checking.rule_violations import RuleViolation, ViolationCounter
from omnigraph.engine.view import View
from omnigraph.engine.writing.relations import format_cardinality, format_missing_endpoint
from omnigraph.engine.writing.violations import quote_value
from omnigraph.schema.arrow import DST, ID, SRC
from omnigraph.schema.catalog import EdgeType
from omnigraph.storage.columnar_sets import Mask, Positions
from omnigraph.storage.key_lookup import MAX_KEYS_PER_PASS
from omnigraph.storage.lance_table import LanceTable
from omnigraph.storage.string_hash_index import StringHashIndex

_ENDS = {SRC: "from", DST: "to"}


@dataclass(slots=True)
class _EndpointMatches:
    """For each edge, in the order of a scan, whether the node at one end of it was met."""

    column: str
    is_present: Mask


def check_ends(
    view: View, edge: EdgeType, *, on_progress: Watch = lambda _: None, block: int = MAX_KEYS_PER_PASS
) -> tuple[RuleViolation, ...]:
    """The ends of every edge of a type, and `@card` of every node that they lead from."""
    broken = ViolationCounter(edge.name)
    edges = view.get_table(edge)
    rows = edges.count()
    for node_name in dict.fromkeys((edge.source, edge.target)):
        columns = [column for column, name in ((SRC, edge.source), (DST, edge.target)) if name == node_name]
        found = [_EndpointMatches(column, np.zeros(rows, np.bool_)) for column in columns]
        is_counted = node_name == edge.source and (edge.cardinality.low > 0 or edge.cardinality.high is not None)
        if not rows and not (is_counted and edge.cardinality.low):
            continue
        for ids in _iter_id_blocks(view.get_table(view.catalog.nodes[node_name]), block):
            counts = (
                _mark_ends(edges, StringHashIndex(ids), found, on_progress) if rows else np.zeros(len(ids), np.int64)
            )
            if is_counted:
                _check_counts(edge, ids, counts, broken)
        for one in found:
            missing = np.flatnonzero(~one.is_present)
            broken.add("end_missing", len(missing), _describe_missing_ends(edges, edge, node_name, one.column, missing))
    return tuple(broken.list_violations())


def _mark_ends(edges: LanceTable, keys: StringHashIndex, found: list[_EndpointMatches], watch: Watch) -> Positions:
    """Mark the edges whose ends are among the keys; how many edges lead from each key."""
    counts = np.zeros(len(keys), np.int64)
    start = 0
    for batch in edges.iter_batches([one.column for one in found], batch_rows=BATCH_ROWS):
        for one in found:
            places = keys.find_positions(batch.column(one.column))
            is_met = places >= 0
            one.is_present[start : start + len(places)] |= is_met
            if one.column == SRC:
                counts += np.bincount(places[is_met], minlength=len(keys))
        start += batch.num_rows
        watch(batch.num_rows)
    return counts


def _check_counts(edge: EdgeType, ids: pa.Array, counts: Positions, broken: ViolationCounter) -> None:
    limits = edge.cardinality
    is_over = counts > limits.high if limits.high is not None else np.zeros(len(counts), np.bool_)
    outside = np.flatnonzero(is_over | (counts < limits.low))
    examples = (
        format_cardinality(
            edge, ids[at].as_py(), int(counts[at]), f"max {limits.high}" if is_over[at] else f"min {limits.low}"
        )
        for at in outside.tolist()
    )
    broken.add("card", len(outside), examples)


def _iter_id_blocks(nodes: LanceTable, block: int) -> Iterator[pa.Array]:
    """The ids of all nodes, so many at a time, without nulls and each once in a block."""
    held: list[pa.Array] = []
    count = 0
    for batch in nodes.iter_batches([ID], batch_rows=BATCH_ROWS):
        held.append(batch.column(ID))
        count += batch.num_rows
        if count >= block:
            yield pa.concat_arrays(held).drop_null().unique()
            held, count = [], 0
    if held:
        yield pa.concat_arrays(held).drop_null().unique()


def _describe_missing_ends(
    edges: LanceTable, edge: EdgeType, node_name: str, column: str, missing: Positions
) -> Iterator[str]:
    """What is said of the first edges without a node; the others are not read."""
    for at in missing.tolist():
        row = edges.take([at], [ID, column]).to_pylist()[0]
        yield f"{format_missing_endpoint(edge, _ENDS[column], node_name, row[column])} (the edge {quote_value(row[ID])})"
