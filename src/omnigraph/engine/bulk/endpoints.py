"""Check that the ends of edges are nodes: committed ones that stay, or nodes of the load in any order."""

from functools import partial

import numpy as np
import pyarrow as pa

from omnigraph.commit.requirements import IdsPresent, Requirement, ValuesAbsent
from omnigraph.engine.bulk.load_batch import LoadBatch, TypeBatch
from omnigraph.engine.bulk.load_errors import GlobalProblem, RejectedRows
from omnigraph.engine.constraints.edge_constraints import format_missing_endpoint
from omnigraph.engine.constraints.violations import format_row_value, quote_value
from omnigraph.schema.arrow import DST, ID, SRC
from omnigraph.schema.catalog import EdgeType, NodeType
from omnigraph.storage.columnar_sets import Mask, concat_chunks, is_among
from omnigraph.storage.key_lookup import find_existing_ids
from omnigraph.storage.string_hash_index import StringHashIndex, iter_hits, iter_with_offsets

ENDS = ((SRC, "from"), (DST, "to"))


def find_end_type(batch: LoadBatch, edge: EdgeType, column: str) -> NodeType:
    """Return the node type at an end of an edge."""
    return batch.view.catalog.nodes[edge.source if column == SRC else edge.target]


def check_endpoints(batch: LoadBatch, rows: TypeBatch) -> list[Requirement]:
    """Reject edges whose start or end is not a node; return the requirements of the others."""
    edge = rows.type
    assert isinstance(edge, EdgeType)  # noqa: S101 - only edges have ends
    requirements: list[Requirement] = []
    for column, end in ENDS:
        node = find_end_type(batch, edge, column)
        is_present, committed = _find_present_nodes(batch, node, rows, column)
        if len(committed):
            requirements.append(IdsPresent(table_key=node.table_key, ids=committed))
        missing = np.flatnonzero(~is_present & ~rows.is_excluded)
        if len(missing):
            ids = concat_chunks(rows.spooled.take(missing, [column]).column(0))
            rejection = RejectedRows(
                rows=missing,
                rule="endpoint",
                property=end,
                value=partial(_format_value, ids),
                message=partial(_format_message, edge, end, node, ids),
            )
            batch.refuse(rows, rejection)
    return requirements


def _find_present_nodes(batch: LoadBatch, node: NodeType, rows: TypeBatch, column: str) -> tuple[Mask, pa.Array]:
    """Return for each edge whether its end will be a node, and which ends are committed nodes not in the load."""
    incoming = batch.types.get(node.name)
    is_present = np.zeros(rows.spooled.rows, np.bool_)
    if incoming is not None:
        _mark_present(is_present, incoming.get_key_set(), rows, column)
        if incoming.rest is not None:
            is_present |= incoming.rest.is_there(rows.read_column(column))
    no_ids = pa.array([], pa.string())
    # If the load overwrites the nodes, no committed one stays.
    if is_present.all() or (incoming is not None and incoming.replaces_all):
        return is_present, no_ids
    committed = find_existing_ids(batch.view.get_table(node), _find_unresolved_ends(is_present, rows, column))
    if len(committed):
        _mark_present(is_present, StringHashIndex(committed), rows, column)
    return is_present, committed


def _mark_present(is_present: Mask, keys: StringHashIndex, rows: TypeBatch, column: str) -> None:
    """Mark the edges whose end is one of the keys."""
    columns = iter_with_offsets(batch.column(0) for batch in rows.spooled.read_batches([column]))
    for hits in iter_hits(columns, keys):
        is_present[hits.mark + hits.rows] = True


def _find_unresolved_ends(is_present: Mask, rows: TypeBatch, column: str) -> pa.Array:
    """Return the distinct ends that are not resolved yet."""
    parts: list[pa.Array] = []
    start = 0
    for batch in rows.spooled.read_batches([column]):
        is_unresolved = ~is_present[start : start + batch.num_rows]
        start += batch.num_rows
        # Distinct per batch first, so that repeated ends are not held until the final pass.
        if is_unresolved.any():
            parts.append(batch.column(0).filter(pa.array(is_unresolved)).unique())
    return pa.chunked_array(parts, pa.string()).unique()


def check_dangling(batch: LoadBatch, node: TypeBatch) -> list[Requirement]:
    """Check that an overwrite of nodes removes none that a committed edge, which stays, still needs."""
    remaining = node.find_remaining_ids()
    removed = concat_chunks(node.table.scan([ID]).column(ID))
    removed = removed.filter(pa.array(~is_among(removed, remaining)))
    if node.rest is not None:
        removed = removed.filter(pa.array(~node.rest.is_there(removed)))
    requirements: list[Requirement] = []
    if not len(removed):
        return requirements
    for edge in batch.list_edge_types():
        incoming = batch.types.get(edge.name)
        # These edges are overwritten too: `check_endpoints` has checked those of the load.
        if incoming is not None and incoming.replaces_all:
            continue
        for column, end in ENDS:
            if find_end_type(batch, edge, column).name != node.type.name:
                continue
            edges = batch.view.get_table(edge).scan([ID, column])
            dangling = edges.filter(pa.array(is_among(edges.column(column), removed)))
            batch.fail(
                GlobalProblem(
                    type=edge.name,
                    rule="dangling",
                    property=end,
                    count=dangling.num_rows,
                    value=partial(_format_value, dangling.column(column)),
                    message=partial(_format_dangling, edge, end, node.type.name, dangling, column),
                )
            )
            # No other writer may add an edge to a removed node.
            values = pa.table({column: removed})
            requirements.append(ValuesAbsent(table_key=edge.table_key, columns=(column,), values=values))
    return requirements


def _format_value(ids: pa.Array | pa.ChunkedArray, number: int) -> str:
    return format_row_value(ids[number].as_py())


def _format_message(edge: EdgeType, end: str, node: NodeType, ids: pa.Array, number: int) -> str:
    return format_missing_endpoint(edge, end, node.name, ids[number].as_py())


def _format_dangling(edge: EdgeType, end: str, node: str, dangling: pa.Table, column: str, number: int) -> str:
    missing = dangling.column(column)[number].as_py()
    row_id = dangling.column(ID)[number].as_py()
    return (
        f"{edge.name}.{end}: {node} {quote_value(missing)} would be removed, but the edge {quote_value(row_id)} stays;"
        f" load {edge.name} too, or keep the node"
    )
