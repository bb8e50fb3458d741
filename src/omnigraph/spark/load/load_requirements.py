"""Build the requirements of an append or overwrite on Spark.

They stream the staged rows again, and are evaluated only if another writer commits first.
"""

from omnigraph.commit.requirements import Requirement, TableUnchanged
from omnigraph.commit.streamed_requirements import StreamedIdsAbsent
from omnigraph.engine.bulk.load_batch import LoadBatch, TypeBatch
from omnigraph.engine.constraints.streamed_rows import (
    ColumnReader,
    require_ends,
    require_no_streamed_edges,
    require_values,
)
from omnigraph.schema.arrow import ID
from omnigraph.schema.catalog import EdgeType, NodeType
from omnigraph.spark.load.load_state import StagedLoad
from omnigraph.spark.load.row_filter import RowFilter, build_column_reader


def build_requirements(batch: LoadBatch, staged: StagedLoad, filter_rows: RowFilter) -> list[Requirement]:
    """Return the requirements that must hold until the load is published."""
    requirements: list[Requirement] = []
    catalog = batch.view.catalog
    replaced = {name for name, rows in batch.types.items() if rows.replaces_all}
    for rows in (*batch.list_node_batches(), *batch.list_edge_batches()):
        key = rows.type.table_key
        read = _build_reader(rows, staged, filter_rows)
        if rows.replaces_all:
            requirements.append(TableUnchanged(table_key=key))
        elif staged.list_fragments(rows.type.name):
            requirements += [StreamedIdsAbsent(table_key=key, rows=read(ID)), *require_values(rows.type, read)]
    for rows in batch.list_edge_batches():
        if isinstance(rows.type, EdgeType):
            requirements += require_ends(rows.type, catalog, _build_reader(rows, staged, filter_rows), replaced)
    for rows in batch.list_node_batches():
        if rows.replaces_all and isinstance(rows.type, NodeType):
            read = _build_reader(rows, staged, filter_rows)
            requirements += require_no_streamed_edges(rows.type, catalog, read, replaced)
    return requirements


def _build_reader(rows: TypeBatch, staged: StagedLoad, filter_rows: RowFilter) -> ColumnReader:
    return build_column_reader(rows.table, staged.list_fragments(rows.type.name), filter_rows)
