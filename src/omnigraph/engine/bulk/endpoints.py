"""The ends of edges are nodes: committed ones that stay, or ones of the load itself, in whatever order they came."""

from functools import partial

import numpy as np
import pyarrow as pa

from omnigraph.commit.requirements import IdsPresent, Requirement, ValuesAbsent
from omnigraph.engine.bulk.load_batch import Batch, Incoming
from omnigraph.engine.bulk.load_errors import Refusal, Unplaced
from omnigraph.engine.writing.relations import endpoint_message
from omnigraph.engine.writing.violations import quoted, shown_value
from omnigraph.schema.arrow import DST, ID, SRC
from omnigraph.schema.catalog import EdgeType, NodeType
from omnigraph.storage.columnar_sets import Mask, is_among, one_array
from omnigraph.storage.key_lookup import ids_there
from omnigraph.storage.string_hash_index import KeySet, hits_in_each, one_behind_another

ENDS = ((SRC, "from"), (DST, "to"))


def end_type(batch: Batch, edge: EdgeType, column: str) -> NodeType:
    """The node type at an end of an edge."""
    return batch.view.catalog.nodes[edge.source if column == SRC else edge.target]


def check_endpoints(batch: Batch, rows: Incoming) -> list[Requirement]:
    """Refuse the edges that lead from or to no node; what the others rely on."""
    edge = rows.type
    assert isinstance(edge, EdgeType)  # noqa: S101 - only edges have ends
    relied_on: list[Requirement] = []
    for column, end in ENDS:
        node = end_type(batch, edge, column)
        is_there, committed = _nodes_there(batch, node, rows, column)
        if len(committed):
            relied_on.append(IdsPresent(table_key=node.table_key, ids=committed))
        missing = np.flatnonzero(~is_there & ~rows.is_out)
        if len(missing):
            ids = one_array(rows.spooled.at(missing, [column]).column(0))
            refusal = Refusal(
                rows=missing,
                rule="endpoint",
                property=end,
                value=partial(_value, ids),
                message=partial(_message, edge, end, node, ids),
            )
            batch.refuse(rows, refusal)
    return relied_on


def _nodes_there(batch: Batch, node: NodeType, rows: Incoming, column: str) -> tuple[Mask, pa.Array]:
    """For each edge, whether its end will be there; and the committed ids among the ends that are not incoming."""
    incoming = batch.types.get(node.name)
    is_there = np.zeros(rows.spooled.rows, np.bool_)
    if incoming is not None:
        _mark(is_there, incoming.key_set(), rows, column)
        if incoming.rest is not None:
            is_there |= incoming.rest.is_there(rows.column(column))
    nobody = pa.array([], pa.string())
    if is_there.all() or (incoming is not None and incoming.replaces_all):
        return is_there, nobody
    committed = ids_there(batch.view.table(node), _elsewhere(is_there, rows, column))
    if len(committed):
        _mark(is_there, KeySet(committed), rows, column)
    return is_there, committed


def _mark(is_there: Mask, keys: KeySet, rows: Incoming, column: str) -> None:
    """Note the edges whose end is one of the keys."""
    columns = one_behind_another(batch.column(0) for batch in rows.spooled.batches([column]))
    for hits in hits_in_each(columns, keys):
        is_there[hits.mark + hits.rows] = True


def _elsewhere(is_there: Mask, rows: Incoming, column: str) -> pa.Array:
    """The ends that were not found yet, each once."""
    parts: list[pa.Array] = []
    start = 0
    for batch in rows.spooled.batches([column]):
        is_open = ~is_there[start : start + batch.num_rows]
        start += batch.num_rows
        if is_open.any():
            parts.append(batch.column(0).filter(pa.array(is_open)).unique())
    return pa.chunked_array(parts, pa.string()).unique()


def check_dangling(batch: Batch, node: Incoming) -> list[Requirement]:
    """An overwrite of nodes takes no node away that a committed edge, of a table that stays, still needs."""
    kept = node.kept_ids()
    gone = one_array(node.table.scan([ID]).column(ID))
    gone = gone.filter(pa.array(~is_among(gone, kept)))
    if node.rest is not None:
        gone = gone.filter(pa.array(~node.rest.is_there(gone)))
    relied_on: list[Requirement] = []
    if not len(gone):
        return relied_on
    for edge in batch.edge_types():
        incoming = batch.types.get(edge.name)
        if incoming is not None and incoming.replaces_all:
            continue  # overwritten too: its edges are those of the load
        for column, end in ENDS:
            if end_type(batch, edge, column).name != node.type.name:
                continue
            edges = batch.view.table(edge).scan([ID, column])
            left = edges.filter(pa.array(is_among(edges.column(column), gone)))
            batch.fail(
                Unplaced(
                    type=edge.name,
                    rule="dangling",
                    property=end,
                    count=left.num_rows,
                    value=partial(_value, left.column(column)),
                    message=partial(_dangling, edge, end, node.type.name, left, column),
                )
            )
            relied_on.append(ValuesAbsent(table_key=edge.table_key, columns=(column,), values=pa.table({column: gone})))
    return relied_on


def _value(ids: pa.Array | pa.ChunkedArray, number: int) -> str:
    return shown_value(ids[number].as_py())


def _message(edge: EdgeType, end: str, node: NodeType, ids: pa.Array, number: int) -> str:
    return endpoint_message(edge, end, node.name, ids[number].as_py())


def _dangling(edge: EdgeType, end: str, node: str, left: pa.Table, column: str, number: int) -> str:
    missing, row_id = left.column(column)[number].as_py(), left.column(ID)[number].as_py()
    return (
        f"{edge.name}.{end}: no {node} {quoted(missing)} any more, but the edge {quoted(row_id)} stays;"
        f" load {edge.name} with it, or keep the node"
    )
