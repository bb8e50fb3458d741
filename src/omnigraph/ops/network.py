"""Build the network of some edge types of one snapshot: numbered nodes, edges as pairs of numbers, and weights."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.engine.algorithms.network import NamedNetwork, build_named_network
from omnigraph.engine.query_budget import Budget
from omnigraph.engine.view import View
from omnigraph.errors import BadArgumentError, QueryError
from omnigraph.lang.spelling import find_closest
from omnigraph.ops.open_table import find_edge_type
from omnigraph.ops.session import Session
from omnigraph.schema.catalog import Catalog, EdgeType, NodeType
from omnigraph.schema.types import Scalar

NUMERIC_TYPES = frozenset({Scalar.I32, Scalar.I64, Scalar.U32, Scalar.U64, Scalar.F32, Scalar.F64})


def find_edge_types(catalog: Catalog, names: Sequence[str], weight: str | None = None) -> tuple[EdgeType, ...]:
    """Return the edge types of some names, each once.

    Raises:
        TypeMissingError: There is no such edge type.
        BadArgumentError: No name is given.
        QueryError: An edge type has no number called `weight`.
    """
    if not names:
        raise BadArgumentError("edge", "left out", "name one edge type or several")
    edges = tuple(dict.fromkeys(find_edge_type(catalog, name) for name in names))
    for edge in edges if weight is not None else ():
        prop = edge.by_name.get(weight or "")
        if prop is None or prop.type not in NUMERIC_TYPES:
            near = find_closest(weight or "", [p.name for p in edge.properties if p.type in NUMERIC_TYPES])
            hint = f"; did you mean `{near}`?" if near else ""
            reason = f"{edge.name} has no numeric property of this name{hint}"
            raise QueryError.algorithm_argument("weight", weight or "", reason)
    return edges


def list_node_types(catalog: Catalog, edges: Sequence[EdgeType]) -> tuple[NodeType, ...]:
    """Return the node types at the ends of some edge types, in the order of the schema."""
    ends = {name for edge in edges for name in (edge.source, edge.target)}
    return tuple(node for name, node in catalog.nodes.items() if name in ends)


def build_network(session: Session, view: View, edges: Sequence[EdgeType], budget: Budget) -> NamedNetwork:
    """Build the network of some edge types from the adjacency that queries use, too."""
    nodes = {node.name: session.reads.get_reader(view, node) for node in list_node_types(view.catalog, edges)}
    topologies = [(edge.source, edge.target, session.reads.get_topology(view, edge, budget)) for edge in edges]
    return build_named_network(nodes, topologies, budget)


def read_weights(
    session: Session,
    view: View,
    edges: Sequence[EdgeType],
    named: NamedNetwork,
    name: str,
    budget: Budget,
    *,
    is_zero_allowed: bool = True,
) -> NDArray[np.float64]:
    """Return the weight of each edge of a network.

    Raises:
        QueryError: An edge has none, or one that is negative, infinite, or 0 where that is not allowed.
    """
    parts: list[NDArray[np.float64]] = []
    for edge, positions in zip(edges, named.edges, strict=True):
        values = session.reads.get_reader(view, edge).take_values(name, positions, budget).cast(pa.float64())
        weights = np.asarray(values.fill_null(np.nan))
        # A cycle of negative weight has no shortest path, and relaxing its edges would never end.
        is_good = np.isfinite(weights) & ((weights >= 0) if is_zero_allowed else (weights > 0))
        bad = len(weights) - int(np.count_nonzero(is_good))
        if bad:
            what = "negative" if is_zero_allowed else "negative or 0"
            reason = f"{bad:,} edges of {edge.name} have no weight, or one that is {what} or infinite"
            raise QueryError.algorithm_argument("weight", name, reason)
        parts.append(weights)
    return np.concatenate(parts)
