"""The ends of edges are nodes: committed ones that stay, or ones of the load itself, in whatever order they came."""

from functools import partial

import numpy as np
import pyarrow as pa

from omnigraph.commit.requirements import IdsPresent, Requirement, ValuesAbsent
from omnigraph.engine.bulk.load_batch import LoadBatch, TypeBatch
from omnigraph.engine.bulk.load_errors import GlobalProblem, RejectedRows
from omnigraph.engine.writing.relations import format_missing_endpoint
from omnigraph.engine.writing.violations import format_row_value, quote_value
from omnigraph.schema.arrow import DST, ID, SRC
from omnigraph.schema.catalog import EdgeType, NodeType
from omnigraph.storage.columnar_sets import Mask, concat_chunks, is_among
from omnigraph.storage.key_lookup import find_existing_ids
from omnigraph.storage.string_hash_index import StringHashIndex, iter_hits, iter_with_offsets

ENDS = ((SRC, "from"), (DST, "to"))


def find_end_type(batch: LoadBatch, edge: EdgeType, column: str) -> NodeType:
    """The node type at an end of an edge."""
    return batch.view.catalog.nodes[edge.source if column == SRC else edge.target]


def check_endpoints(batch: LoadBatch, rows: TypeBatch) -> list[Requirement]:
    """Refuse the edges that lead from or to no node; what the others rely on."""
    edge = rows.type
    assert isinstance(edge, EdgeType)  # noqa: S101 - only edges have ends
    relied_on: list[Requirement] = []
    for column, end in ENDS:
        node = find_end_type(batch, edge, column)
        is_there, committed = _find_present_nodes(batch, node, rows, column)
        if len(committed):
            relied_on.append(IdsPresent(table_key=node.table_key, ids=committed))
        missing = np.flatnonzero(~is_there & ~rows.is_excluded)
        if len(missing):
            ids = concat_chunks(rows.spooled.take(missing, [column]).column(0))
            refusal = RejectedRows(
                rows=missing,
                rule="endpoint",
                property=end,
                value=partial(_format_value, ids),
                message=partial(_format_message, edge, end, node, ids),
            )
            batch.refuse(rows, refusal)
    return relied_on


def _find_present_nodes(batch: LoadBatch, node: NodeType, rows: TypeBatch, column: str) -> tuple[Mask, pa.Array]:
    """For each edge, whether its end will be there; and the committed ids among the ends that are not incoming."""
    incoming = batch.types.get(node.name)
    is_there = np.zeros(rows.spooled.rows, np.bool_)
    if incoming is not None:
        _mark_present(is_there, incoming.get_key_set(), rows, column)
        if incoming.rest is not None:
            is_there |= incoming.rest.is_there(rows.read_column(column))
    nobody = pa.array([], pa.string())
    if is_there.all() or (incoming is not None and incoming.replaces_all):
        return is_there, nobody
    committed = find_existing_ids(batch.view.get_table(node), _find_unresolved_ends(is_there, rows, column))
    if len(committed):
        _mark_present(is_there, StringHashIndex(committed), rows, column)
    return is_there, committed


def _mark_present(is_there: Mask, keys: StringHashIndex, rows: TypeBatch, column: str) -> None:
    """Note the edges whose end is one of the keys."""
    columns = iter_with_offsets(batch.column(0) for batch in rows.spooled.read_batches([column]))
    for hits in iter_hits(columns, keys):
        is_there[hits.mark + hits.rows] = True


def _find_unresolved_ends(is_there: Mask, rows: TypeBatch, column: str) -> pa.Array:
    """The ends that were not found yet, each once."""
    parts: list[pa.Array] = []
    start = 0
    for batch in rows.spooled.read_batches([column]):
        is_open = ~is_there[start : start + batch.num_rows]
        start += batch.num_rows
        if is_open.any():
            parts.append(batch.column(0).filter(pa.array(is_open)).unique())
    return pa.chunked_array(parts, pa.string()).unique()


def check_dangling(batch: LoadBatch, node: TypeBatch) -> list[Requirement]:
    """An overwrite of nodes takes no node away that a committed edge, of a table that stays, still needs."""
    kept = node.find_remaining_ids()
    gone = concat_chunks(node.table.scan([ID]).column(ID))
    gone = gone.filter(pa.array(~is_among(gone, kept)))
    if node.rest is not None:
        gone = gone.filter(pa.array(~node.rest.is_there(gone)))
    relied_on: list[Requirement] = []
    if not len(gone):
        return relied_on
    for edge in batch.list_edge_types():
        incoming = batch.types.get(edge.name)
        if incoming is not None and incoming.replaces_all:
            continue  # overwritten too: its edges are those of the load
        for column, end in ENDS:
            if find_end_type(batch, edge, column).name != node.type.name:
                continue
            edges = batch.view.get_table(edge).scan([ID, column])
            left = edges.filter(pa.array(is_among(edges.column(column), gone)))
            batch.fail(
                GlobalProblem(
                    type=edge.name,
                    rule="dangling",
                    property=end,
                    count=left.num_rows,
                    value=partial(_format_value, left.column(column)),
                    message=partial(_format_dangling, edge, end, node.type.name, left, column),
                )
            )
            relied_on.append(ValuesAbsent(table_key=edge.table_key, columns=(column,), values=pa.table({column: gone})))
    return relied_on


def _format_value(ids: pa.Array | pa.ChunkedArray, number: int) -> str:
    return format_row_value(ids[number].as_py())


def _format_message(edge: EdgeType, end: str, node: NodeType, ids: pa.Array, number: int) -> str:
    return format_missing_endpoint(edge, end, node.name, ids[number].as_py())


def _format_dangling(edge: EdgeType, end: str, node: str, left: pa.Table, column: str, number: int) -> str:
    missing, row_id = left.column(column)[number].as_py(), left.column(ID)[number].as_py()
    return (
        f"{edge.name}.{end}: no {node} {quote_value(missing)} any more, but the edge {quote_value(row_id)} stays;"
        f" load {edge.name} with it, or keep the node"
    )
