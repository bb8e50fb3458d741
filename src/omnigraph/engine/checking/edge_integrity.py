"""Edges against the nodes that they lead from and to: both ends are there, and no node has too many or too few.

Node ids are taken a block at a time, and for each block the ends of all edges are read once. So memory is bounded, and
every answer is exact.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from omnigraph.engine.checking.row_integrity import BATCH_ROWS, Watch
from omnigraph.engine.checking.rule_violations import Broken, BrokenRule
from omnigraph.engine.view import View
from omnigraph.engine.writing.relations import card_message, endpoint_message
from omnigraph.engine.writing.violations import quoted
from omnigraph.schema.arrow import DST, ID, SRC
from omnigraph.schema.catalog import EdgeType
from omnigraph.storage.columnar_sets import Mask, Positions
from omnigraph.storage.key_lookup import KEYS_AT_ONCE
from omnigraph.storage.lance_table import Table
from omnigraph.storage.string_hash_index import KeySet

_ENDS = {SRC: "from", DST: "to"}


@dataclass(slots=True)
class _Found:
    """For each edge, in the order of a scan, whether the node at one end of it was met."""

    column: str
    is_there: Mask


def check_ends(
    view: View, edge: EdgeType, *, watch: Watch = lambda _: None, block: int = KEYS_AT_ONCE
) -> tuple[BrokenRule, ...]:
    """The ends of every edge of a type, and `@card` of every node that they lead from."""
    broken = Broken(edge.name)
    edges = view.table(edge)
    rows = edges.count()
    for node_name in dict.fromkeys((edge.source, edge.target)):
        columns = [column for column, name in ((SRC, edge.source), (DST, edge.target)) if name == node_name]
        found = [_Found(column, np.zeros(rows, np.bool_)) for column in columns]
        is_counted = node_name == edge.source and (edge.cardinality.low > 0 or edge.cardinality.high is not None)
        if not rows and not (is_counted and edge.cardinality.low):
            continue
        for ids in _blocks(view.table(view.catalog.nodes[node_name]), block):
            counts = _meet(edges, KeySet(ids), found, watch) if rows else np.zeros(len(ids), np.int64)
            if is_counted:
                _check_counts(edge, ids, counts, broken)
        for one in found:
            missing = np.flatnonzero(~one.is_there)
            broken.add("end_missing", len(missing), _missing_ends(edges, edge, node_name, one.column, missing))
    return tuple(broken.rules())


def _meet(edges: Table, keys: KeySet, found: list[_Found], watch: Watch) -> Positions:
    """Mark the edges whose ends are among the keys; how many edges lead from each key."""
    counts = np.zeros(len(keys), np.int64)
    start = 0
    for batch in edges.batches([one.column for one in found], batch_rows=BATCH_ROWS):
        for one in found:
            places = keys.places(batch.column(one.column))
            is_met = places >= 0
            one.is_there[start : start + len(places)] |= is_met
            if one.column == SRC:
                counts += np.bincount(places[is_met], minlength=len(keys))
        start += batch.num_rows
        watch(batch.num_rows)
    return counts


def _check_counts(edge: EdgeType, ids: pa.Array, counts: Positions, broken: Broken) -> None:
    limits = edge.cardinality
    is_over = counts > limits.high if limits.high is not None else np.zeros(len(counts), np.bool_)
    outside = np.flatnonzero(is_over | (counts < limits.low))
    examples = (
        card_message(
            edge, ids[at].as_py(), int(counts[at]), f"max {limits.high}" if is_over[at] else f"min {limits.low}"
        )
        for at in outside.tolist()
    )
    broken.add("card", len(outside), examples)


def _blocks(nodes: Table, block: int) -> Iterator[pa.Array]:
    """The ids of all nodes, so many at a time, without nulls and each once in a block."""
    held: list[pa.Array] = []
    count = 0
    for batch in nodes.batches([ID], batch_rows=BATCH_ROWS):
        held.append(batch.column(ID))
        count += batch.num_rows
        if count >= block:
            yield pa.concat_arrays(held).drop_null().unique()
            held, count = [], 0
    if held:
        yield pa.concat_arrays(held).drop_null().unique()


def _missing_ends(edges: Table, edge: EdgeType, node_name: str, column: str, missing: Positions) -> Iterator[str]:
    """What is said of the first edges without a node; the others are not read."""
    for at in missing.tolist():
        row = edges.take([at], [ID, column]).to_pylist()[0]
        yield f"{endpoint_message(edge, _ENDS[column], node_name, row[column])} (the edge {quoted(row[ID])})"
