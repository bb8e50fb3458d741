"""Check that the ends of edges are nodes: committed ones that stay, or nodes of the load in any order."""

from collections.abc import Iterable, Iterator
from functools import partial

import numpy as np
import pyarrow as pa

from omnigraph.commit.requirements import Requirement
from omnigraph.engine.bulk.load_batch import LoadBatch, TypeBatch
from omnigraph.engine.bulk.load_errors import GlobalProblem, RejectedRows, format_nth_of
from omnigraph.engine.constraints.edge_constraints import (
    NO_IDS,
    EdgeEnd,
    NodeLookup,
    find_missing_ends,
    format_missing_endpoint,
    iter_edges_at,
    require_no_edges,
)
from omnigraph.engine.constraints.violations import quote_value
from omnigraph.schema.arrow import ID
from omnigraph.schema.catalog import EdgeType
from omnigraph.storage.columnar_sets import Positions, concat_chunks, is_among
from omnigraph.storage.key_lookup import find_existing_ids
from omnigraph.storage.string_hash_index import StringHashIndex, iter_hits, iter_with_offsets


def _build_node_lookup(batch: LoadBatch, name: str) -> NodeLookup:
    """Return the nodes of a type after the load."""
    node = batch.view.catalog.nodes[name]
    incoming = batch.types.get(name)

    def iter_outside(columns: Iterable[pa.Array]) -> Iterator[pa.Array]:
        if incoming is None:
            yield from (column.unique() for column in columns)
            return
        for hits in iter_hits(((None, column) for column in columns), incoming.get_key_set()):
            if len(hits.rows) == len(hits.column):
                continue
            is_outside = np.ones(len(hits.column), np.bool_)
            is_outside[hits.rows] = False
            ids = hits.column.filter(pa.array(is_outside)).unique()
            yield ids if incoming.rest is None else ids.filter(pa.array(~incoming.rest.is_there(ids)))

    def find_remaining(ids: pa.Array) -> pa.Array:
        # If the load overwrites the nodes, no committed one stays.
        is_overwritten = incoming is not None and incoming.replaces_all
        return NO_IDS if is_overwritten else find_existing_ids(batch.view.get_table(node), ids)

    return NodeLookup(table_key=node.table_key, iter_outside=iter_outside, find_remaining=find_remaining)


def check_endpoints(batch: LoadBatch, rows: TypeBatch) -> list[Requirement]:
    """Reject edges whose start or end is not a node; return the requirements of the others."""
    edge = rows.type
    assert isinstance(edge, EdgeType)  # noqa: S101 - only edges have ends
    missing, requirements = find_missing_ends(
        edge,
        lambda columns: (column for part in rows.spooled.read_batches(columns) for column in part.columns),
        partial(_build_node_lookup, batch),
    )
    for end, missing_ids in missing:
        positions = _find_rows(rows, end.column, missing_ids)
        ids = concat_chunks(rows.spooled.take(positions, [end.column]).column(0))
        rejection = RejectedRows(
            rows=positions,
            rule="endpoint",
            property=end.name,
            value=format_nth_of(ids),
            message=partial(_format_message, edge, end, ids),
        )
        batch.refuse(rows, rejection)
    return requirements


def _find_rows(rows: TypeBatch, column: str, ids: pa.Array) -> Positions:
    """Return the rows, without those that are excluded, that have one of the ids at an end."""
    if not len(ids):
        return np.empty(0, np.int64)
    columns = iter_with_offsets(batch.column(0) for batch in rows.spooled.read_batches([column]))
    positions: Positions = np.concatenate([hits.mark + hits.rows for hits in iter_hits(columns, StringHashIndex(ids))])
    return positions[~rows.is_excluded[positions]]


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
    for edge, ends in iter_edges_at(batch.view.catalog, node.type.name):
        incoming = batch.types.get(edge.name)
        # These edges are overwritten too: `check_endpoints` has checked those of the load.
        if incoming is not None and incoming.replaces_all:
            continue
        for end in ends:
            edges = batch.view.get_table(edge).scan([ID, end.column])
            dangling = edges.filter(pa.array(is_among(edges.column(end.column), removed)))
            batch.fail(
                GlobalProblem(
                    type=edge.name,
                    rule="dangling",
                    property=end.name,
                    count=dangling.num_rows,
                    value=format_nth_of(dangling.column(end.column)),
                    message=partial(_format_dangling, edge, end, dangling),
                )
            )
            # No other writer may add an edge to a removed node.
            requirements.append(require_no_edges(edge, end, removed))
    return requirements


def _format_message(edge: EdgeType, end: EdgeEnd, ids: pa.Array, number: int) -> str:
    return format_missing_endpoint(edge, end, ids[number].as_py())


def _format_dangling(edge: EdgeType, end: EdgeEnd, dangling: pa.Table, number: int) -> str:
    missing = quote_value(dangling.column(end.column)[number].as_py())
    row_id = quote_value(dangling.column(ID)[number].as_py())
    return (
        f"{edge.name}.{end.name}: {end.node} {missing} would be removed, but the edge {row_id} stays;"
        f" load {edge.name} too, or keep the node"
    )
