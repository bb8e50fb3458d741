"""What the rows of a Spark load rely on: read again from what is staged, if somebody else interferes."""

from omnigraph.commit.requirements import Requirement, TableUnchanged
from omnigraph.commit.streamed_requirements import CountsStay, EndsStay, NobodyReturns, RowsNew, ValuesNew
from omnigraph.engine.bulk.endpoints import ENDS, end_type
from omnigraph.engine.bulk.load_batch import Batch, Incoming
from omnigraph.schema.arrow import ID, SRC
from omnigraph.schema.catalog import EdgeType
from omnigraph.spark.load.load_state import StagedColumns, StagedLoad


def relied_on(batch: Batch, staged: StagedLoad) -> list[Requirement]:
    """Everything that must stay so until the load is published."""
    found: list[Requirement] = []
    everything = [*batch.node_rows(), *batch.edge_rows()]
    for rows in everything:
        if rows.replaces_all:
            found.append(TableUnchanged(table_key=rows.type.table_key))
        elif staged.fragments(rows.type.name):
            found += _of_new_rows(rows, staged)
    for rows in batch.edge_rows():
        found += _of_ends(batch, rows, staged)
    for rows in batch.node_rows():
        found += _of_replaced_nodes(batch, rows, staged)
    return found


def _columns(rows: Incoming, staged: StagedLoad, *names: str) -> StagedColumns:
    return StagedColumns(rows.table, tuple(staged.fragments(rows.type.name)), names)


def _of_new_rows(rows: Incoming, staged: StagedLoad) -> list[Requirement]:
    key, type_ = rows.type.table_key, rows.type
    found: list[Requirement] = [RowsNew(table_key=key, rows=_columns(rows, staged, ID))]
    found += [ValuesNew(table_key=key, columns=one, rows=_columns(rows, staged, *one)) for one in type_.unique]
    if isinstance(type_, EdgeType):
        limits = type_.cardinality
        if limits.low or limits.high is not None:
            sources = _columns(rows, staged, SRC)
            found.append(CountsStay(table_key=key, column=SRC, rows=sources, low=limits.low, high=limits.high))
    return found


def _of_ends(batch: Batch, rows: Incoming, staged: StagedLoad) -> list[Requirement]:
    """The nodes at the ends of new edges stay, where their table does."""
    edge = rows.type
    assert isinstance(edge, EdgeType)  # noqa: S101 - only edges have ends
    found: list[Requirement] = []
    for column, _ in ENDS:
        node = end_type(batch, edge, column)
        incoming = batch.types.get(node.name)
        if incoming is None or not incoming.replaces_all:
            found.append(EndsStay(table_key=node.table_key, rows=_columns(rows, staged, column)))
    return found


def _of_replaced_nodes(batch: Batch, rows: Incoming, staged: StagedLoad) -> list[Requirement]:
    """Where all nodes are replaced, nobody hangs an edge on one that goes."""
    if not rows.replaces_all:
        return []
    found: list[Requirement] = []
    for edge in batch.edge_types():
        incoming = batch.types.get(edge.name)
        if incoming is not None and incoming.replaces_all:
            continue
        for column, _ in ENDS:
            if end_type(batch, edge, column).name == rows.type.name:
                ids = _columns(rows, staged, ID)
                found.append(NobodyReturns(table_key=edge.table_key, column=column, rows=ids))
    return found
