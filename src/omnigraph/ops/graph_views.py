"""Give a snapshot to libraries for graphs in memory: a graph of networkx, or arrays of dense numbers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import pyarrow as pa

from omnigraph.commit.manifest_types import Snapshot
from omnigraph.engine.graph_encoding import check_ends, name_nodes
from omnigraph.engine.view import View
from omnigraph.errors import LibraryMissingError, QueryError
from omnigraph.lang.spelling import find_closest
from omnigraph.ops.export import iter_ordered_rows, select_types
from omnigraph.ops.limits import ResourceLimits, resolve_budget
from omnigraph.ops.network import build_network, find_edge_types
from omnigraph.ops.session import Session
from omnigraph.policy import Action
from omnigraph.schema.arrow import DST, ID, SRC
from omnigraph.schema.catalog import EdgeType, NodeType


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberedEdges:
    """Edges as pairs of dense numbers. The number of a node is its row in `nodes`."""

    commit_id: str
    nodes: pa.Table = field(repr=False)
    """Columns `type` and `id`: types in the order of the schema, ids ascending."""
    edges: pa.Table = field(repr=False)
    """Columns `edge` (the type), `source` and `target`, and the properties that were asked for."""


def build_networkx(session: Session, snapshot: Snapshot, types: Sequence[str] | None) -> Any:  # noqa: ANN401 - networkx is imported when it is needed only, and has no types
    """Return a snapshot as a directed multigraph of networkx, with all properties as attributes.

    Raises:
        LibraryMissingError: networkx is not installed.
        TypeMissingError: There is no such type.
        BadArgumentError: Edges are asked for without the nodes at their ends.
    """
    session.allow(Action.EXPORT, snapshot.branch, hides_rows=True)
    try:
        networkx = import_module("networkx")
    except ImportError as error:
        raise LibraryMissingError("networkx") from error
    selected = select_types(session.load_catalog(snapshot), types)
    check_ends(selected)
    is_only = sum(isinstance(type_, NodeType) for type_ in selected) == 1
    tables = session.open_tables(snapshot)
    graph: Any = networkx.MultiDiGraph(commit_id=snapshot.commit.id)
    for type_ in selected:
        properties = [prop.name for prop in type_.properties]
        for rows in iter_ordered_rows(tables.open_table(type_.table_key), type_):
            session.check_cancelled()
            values = rows.select(properties).to_pylist() if properties else [{}] * rows.num_rows
            attributes: Iterator[dict[str, Any]] = ({"type": type_.name, **row} for row in values)
            if isinstance(type_, EdgeType):
                source = name_nodes(type_.source, rows[SRC], is_only=is_only)
                target = name_nodes(type_.target, rows[DST], is_only=is_only)
                graph.add_edges_from(zip(source, target, rows[ID].to_pylist(), attributes, strict=True))
            else:
                graph.add_nodes_from(zip(name_nodes(type_.name, rows[ID], is_only=is_only), attributes, strict=True))
    return graph


def build_edge_list(
    session: Session, snapshot: Snapshot, edges: Sequence[str], properties: Sequence[str], limits: ResourceLimits
) -> NumberedEdges:
    """Return the edges of some types with their ends as dense numbers; a type without a property has nulls.

    Raises:
        TypeMissingError: There is no such edge type.
        QueryError: None of them has a property of that name.
    """
    session.allow(Action.EXPORT, snapshot.branch, hides_rows=True)
    budget = resolve_budget(session, limits)
    view = View(session.load_catalog(snapshot), session.open_tables(snapshot))
    types = find_edge_types(view.catalog, edges)
    named = build_network(session, view, types, budget)
    columns: dict[str, pa.Array | pa.ChunkedArray] = {
        "edge": pa.concat_arrays(
            [pa.repeat(edge.name, len(rows)) for edge, rows in zip(types, named.edges, strict=True)]
        ),
        "source": pa.array(named.network.source, pa.int64()),
        "target": pa.array(named.network.target, pa.int64()),
    }
    for name in properties:
        found = [edge.by_name[name] for edge in types if name in edge.by_name]
        if not found:
            near = find_closest(name, [prop.name for edge in types for prop in edge.properties])
            hint = f"; did you mean `{near}`?" if near else ""
            raise QueryError.algorithm_argument("properties", name, f"no edge type has this property{hint}")
        parts = [
            session.reads.get_reader(view, edge).take_values(name, rows, budget)
            if name in edge.by_name
            else pa.nulls(len(rows))
            for edge, rows in zip(types, named.edges, strict=True)
        ]
        kinds = {part.type for part in parts if not pa.types.is_null(part.type)}
        kind = kinds.pop() if len(kinds) == 1 else pa.string()
        columns[name] = pa.concat_arrays([part.cast(kind) for part in parts])
    nodes = pa.table({"type": named.types, ID: named.ids})
    return NumberedEdges(commit_id=snapshot.commit.id, nodes=nodes, edges=pa.table(columns))
