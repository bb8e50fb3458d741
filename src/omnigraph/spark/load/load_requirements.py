"""Build the requirements of an append or overwrite on Spark.

They stream the staged rows again, and are evaluated only if another writer commits first.
"""

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
    """Return the requirements that must hold until the load is published."""
    requirements: list[Requirement] = []
    for rows in (*batch.list_node_batches(), *batch.list_edge_batches()):
        if rows.replaces_all:
            requirements.append(TableUnchanged(table_key=rows.type.table_key))
        elif staged.list_fragments(rows.type.name):
            requirements += _require_new_rows(rows, staged)
    for rows in batch.list_edge_batches():
        requirements += _require_ends(batch, rows, staged)
    for rows in batch.list_node_batches():
        requirements += _require_no_new_edges(batch, rows, staged)
    return requirements


def _build_columns(rows: TypeBatch, staged: StagedLoad, *names: str) -> StagedColumns:
    return StagedColumns(rows.table, tuple(staged.list_fragments(rows.type.name)), names)


def _require_new_rows(rows: TypeBatch, staged: StagedLoad) -> list[Requirement]:
    key, type_ = rows.type.table_key, rows.type
    requirements: list[Requirement] = [StreamedIdsAbsent(table_key=key, rows=_build_columns(rows, staged, ID))]
    requirements += [
        StreamedValuesAbsent(table_key=key, columns=columns, rows=_build_columns(rows, staged, *columns))
        for columns in type_.unique
    ]
    if isinstance(type_, EdgeType):
        limits = type_.cardinality
        if limits.low or limits.high is not None:
            sources = _build_columns(rows, staged, SRC)
            requirements.append(
                StreamedCountsWithin(table_key=key, column=SRC, rows=sources, low=limits.low, high=limits.high)
            )
    return requirements


def _require_ends(batch: LoadBatch, rows: TypeBatch, staged: StagedLoad) -> list[Requirement]:
    """Require that the nodes at the ends of new edges stay."""
    edge = rows.type
    assert isinstance(edge, EdgeType)  # noqa: S101 - only edges have ends
    requirements: list[Requirement] = []
    for column, _ in ENDS:
        node = find_end_type(batch, edge, column)
        nodes = batch.types.get(node.name)
        # A node table that the load replaces has a requirement already: it must not change at all.
        if nodes is None or not nodes.replaces_all:
            requirements.append(StreamedIdsPresent(table_key=node.table_key, rows=_build_columns(rows, staged, column)))
    return requirements


def _require_no_new_edges(batch: LoadBatch, rows: TypeBatch, staged: StagedLoad) -> list[Requirement]:
    """Require, if all nodes of a type are replaced, that no other writer adds an edge to a node that is removed."""
    if not rows.replaces_all:
        return []
    requirements: list[Requirement] = []
    for edge in batch.list_edge_types():
        edges = batch.types.get(edge.name)
        # An edge table that the load replaces must not change at all.
        if edges is not None and edges.replaces_all:
            continue
        for column, _ in ENDS:
            if find_end_type(batch, edge, column).name == rows.type.name:
                ids = _build_columns(rows, staged, ID)
                requirements.append(StreamedReferencesAbsent(table_key=edge.table_key, column=column, rows=ids))
    return requirements
