"""Require that rows which are too many to hold in memory stay valid until they are published.

They stream from their files again if another writer commits first.
"""

from collections.abc import Callable, Collection, Iterator
from typing import TypeAlias

from omnigraph.commit.requirements import Requirement
from omnigraph.commit.streamed_requirements import (
    RowSource,
    StreamedCountsWithin,
    StreamedIdsPresent,
    StreamedReferencesAbsent,
    StreamedValuesAbsent,
)
from omnigraph.engine.constraints.edge_constraints import iter_edges_at, list_ends
from omnigraph.schema.arrow import ID, SRC
from omnigraph.schema.catalog import AnyType, Catalog, EdgeType, NodeType

# Returns a stream of some columns of the rows.
ColumnReader: TypeAlias = Callable[..., RowSource]


def require_values(type_: AnyType, read: ColumnReader) -> Iterator[Requirement]:
    """Yield the requirements that unique values of the rows stay free, and numbers of edges allowed."""
    key = type_.table_key
    for columns in type_.unique:
        yield StreamedValuesAbsent(table_key=key, columns=columns, rows=read(*columns))
    if isinstance(type_, EdgeType) and type_.cardinality.is_bounded:
        limits = type_.cardinality
        yield StreamedCountsWithin(table_key=key, column=SRC, rows=read(ID, SRC), low=limits.low, high=limits.high)


def require_ends(
    edge: EdgeType, catalog: Catalog, read: ColumnReader, replaced: Collection[str] = ()
) -> Iterator[Requirement]:
    """Yield the requirements that the nodes at the ends of the edges stay.

    A node table that the write replaces has a requirement already: it must not change at all.
    """
    for end in list_ends(edge):
        if end.node not in replaced:
            yield StreamedIdsPresent(table_key=catalog.nodes[end.node].table_key, rows=read(end.column))


def require_no_streamed_edges(
    node: NodeType, catalog: Catalog, read: ColumnReader, replaced: Collection[str]
) -> Iterator[Requirement]:
    """Yield the requirements that no other writer adds an edge to a node that a replacement of all nodes removes.

    An edge table that the write replaces must not change at all.
    """
    for edge, ends in iter_edges_at(catalog, node.name):
        if edge.name not in replaced:
            for end in ends:
                yield StreamedReferencesAbsent(table_key=edge.table_key, column=end.column, rows=read(ID))
