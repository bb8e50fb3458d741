"""What the rows of a Spark load rely on: read again from what is staged, if somebody else interferes."""

from omnigraph.commit.requirements import Requirement, TableUnchanged
from omnigraph.commit.streamed_requirements import (
    StreamedCountsWithin,
    StreamedIdsAbsent,
    StreamedIdsPresent,
    StreamedReferencesAbsent,
    StreamedValuesAbsent,
)
from omnigraph.engine.bulk.endpoints import ENDS, find_end_type
from omnigraph.engine.bulk.load_batch import LoadBatch, TypeBatch
from omnigraph.schema.arrow import ID, SRC
from omnigraph.schema.catalog import EdgeType
from omnigraph.spark.load.load_state import StagedColumns, StagedLoad


def build_requirements(batch: LoadBatch, staged: StagedLoad) -> list[Requirement]:
    """Everything that must stay so until the load is published."""
    found: list[Requirement] = []
    everything = [*batch.list_node_batches(), *batch.list_edge_batches()]
    for rows in everything:
        if rows.replaces_all:
            found.append(TableUnchanged(table_key=rows.type.table_key))
        elif staged.list_fragments(rows.type.name):
            found += _require_new_rows(rows, staged)
    for rows in batch.list_edge_batches():
        found += _require_ends(batch, rows, staged)
    for rows in batch.list_node_batches():
        found += _require_no_new_edges(batch, rows, staged)
    return found


def _build_columns(rows: TypeBatch, staged: StagedLoad, *names: str) -> StagedColumns:
    return StagedColumns(rows.table, tuple(staged.list_fragments(rows.type.name)), names)


def _require_new_rows(rows: TypeBatch, staged: StagedLoad) -> list[Requirement]:
    key, type_ = rows.type.table_key, rows.type
    found: list[Requirement] = [StreamedIdsAbsent(table_key=key, rows=_build_columns(rows, staged, ID))]
    found += [
        StreamedValuesAbsent(table_key=key, columns=one, rows=_build_columns(rows, staged, *one))
        for one in type_.unique
    ]
    if isinstance(type_, EdgeType):
        limits = type_.cardinality
        if limits.low or limits.high is not None:
            sources = _build_columns(rows, staged, SRC)
            found.append(
                StreamedCountsWithin(table_key=key, column=SRC, rows=sources, low=limits.low, high=limits.high)
            )
    return found


def _require_ends(batch: LoadBatch, rows: TypeBatch, staged: StagedLoad) -> list[Requirement]:
    """The nodes at the ends of new edges stay, where their table does."""
    edge = rows.type
    assert isinstance(edge, EdgeType)  # noqa: S101 - only edges have ends
    found: list[Requirement] = []
    for column, _ in ENDS:
        node = find_end_type(batch, edge, column)
        incoming = batch.types.get(node.name)
        if incoming is None or not incoming.replaces_all:
            found.append(StreamedIdsPresent(table_key=node.table_key, rows=_build_columns(rows, staged, column)))
    return found


def _require_no_new_edges(batch: LoadBatch, rows: TypeBatch, staged: StagedLoad) -> list[Requirement]:
    """Where all nodes are replaced, nobody hangs an edge on one that goes."""
    if not rows.replaces_all:
        return []
    found: list[Requirement] = []
    for edge in batch.list_edge_types():
        incoming = batch.types.get(edge.name)
        if incoming is not None and incoming.replaces_all:
            continue
        for column, _ in ENDS:
            if find_end_type(batch, edge, column).name == rows.type.name:
                ids = _build_columns(rows, staged, ID)
                found.append(StreamedReferencesAbsent(table_key=edge.table_key, column=column, rows=ids))
    return found
