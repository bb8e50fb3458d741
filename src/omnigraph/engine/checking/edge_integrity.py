"""Check that both ends of every edge exist, and that no node violates the cardinality of an edge type.

Node ids are read in blocks, and for each block the ends of all edges are scanned once. So memory is bounded, and the
result is exact.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from omnigraph.engine.checking.row_integrity import BATCH_ROWS, Watch
from omnigraph.engine.checking.rule_violations import RuleViolation, ViolationCounter
from omnigraph.engine.constraints.edge_constraints import EdgeCounts, EdgeEnd, format_missing_endpoint, list_ends
from omnigraph.engine.constraints.violations import quote_value
from omnigraph.engine.view import View
from omnigraph.schema.arrow import ID, SRC
from omnigraph.schema.catalog import EdgeType
from omnigraph.storage.columnar_sets import Mask, Positions
from omnigraph.storage.key_lookup import MAX_KEYS_PER_PASS
from omnigraph.storage.lance_table import LanceTable
from omnigraph.storage.string_hash_index import StringHashIndex


@dataclass(slots=True)
class _EndpointMatches:
    """For each edge, in scan order, whether the node at one of its ends was found so far."""

    end: EdgeEnd
    is_present: Mask


def check_ends(
    view: View, edge: EdgeType, *, on_progress: Watch = lambda _: None, block: int = MAX_KEYS_PER_PASS
) -> tuple[RuleViolation, ...]:
    """Check both ends of every edge of a type, and `@card` of every source node; return the violations."""
    violations = ViolationCounter(edge.name)
    edges = view.get_table(edge)
    rows = edges.count()
    for node_name in dict.fromkeys((edge.source, edge.target)):
        # An edge type with the same node type at both ends needs one pass over the nodes, not two.
        ends = [end for end in list_ends(edge) if end.node == node_name]
        endpoints = [_EndpointMatches(end, np.zeros(rows, np.bool_)) for end in ends]
        is_counted = node_name == edge.source and edge.cardinality.is_bounded
        # Without edges, only a minimum can be violated.
        if not rows and not (is_counted and edge.cardinality.low):
            continue
        for ids in _iter_id_blocks(view.get_table(view.catalog.nodes[node_name]), block):
            counts = np.zeros(len(ids), np.int64)
            if rows:
                counts = _mark_ends(edges, StringHashIndex(ids), endpoints, on_progress)
            if is_counted:
                edge_counts = EdgeCounts(edge=edge, sources=ids, stored=counts, added=np.zeros_like(counts))
                wrong = edge_counts.find_wrong()
                # `map` is lazy: only the first few examples are formatted.
                violations.add("card", len(wrong), map(edge_counts.format_violation, wrong.tolist()))
        for endpoint in endpoints:
            missing = np.flatnonzero(~endpoint.is_present)
            examples = _describe_missing_ends(edges, edge, endpoint.end, missing)
            violations.add("end_missing", len(missing), examples)
    return tuple(violations.list_violations())


def _mark_ends(
    edges: LanceTable, keys: StringHashIndex, endpoints: list[_EndpointMatches], on_progress: Watch
) -> Positions:
    """Mark the edges whose ends are among the keys, and return the number of outgoing edges of each key."""
    counts = np.zeros(len(keys), np.int64)
    start = 0
    for batch in edges.iter_batches([endpoint.end.column for endpoint in endpoints], batch_rows=BATCH_ROWS):
        for endpoint in endpoints:
            positions = keys.find_positions(batch.column(endpoint.end.column))
            is_present = positions >= 0
            endpoint.is_present[start : start + len(positions)] |= is_present
            if endpoint.end.column == SRC:
                counts += np.bincount(positions[is_present], minlength=len(keys))
        start += batch.num_rows
        on_progress(batch.num_rows)
    return counts


def _iter_id_blocks(nodes: LanceTable, block: int) -> Iterator[pa.Array]:
    """Yield the ids of all nodes in blocks of at least `block` rows, without nulls and each once per block."""
    columns: list[pa.Array] = []
    count = 0
    for batch in nodes.iter_batches([ID], batch_rows=BATCH_ROWS):
        columns.append(batch.column(ID))
        count += batch.num_rows
        if count >= block:
            yield pa.concat_arrays(columns).drop_null().unique()
            columns = []
            count = 0
    if columns:
        yield pa.concat_arrays(columns).drop_null().unique()


def _describe_missing_ends(edges: LanceTable, edge: EdgeType, end: EdgeEnd, missing: Positions) -> Iterator[str]:
    """Yield a description of each edge whose node is missing; an edge is read when its description is needed."""
    for position in missing.tolist():
        row = edges.take([position], [ID, end.column]).to_pylist()[0]
        message = format_missing_endpoint(edge, end, row[end.column])
        yield f"{message} (the edge {quote_value(row[ID])})"
