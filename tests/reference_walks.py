"""What paths and conditions on the way mean, in the plainest Python: all walks are listed, and then chosen from."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from omnigraph.query.expr import Expr, FieldRef, WalkOf
from omnigraph.query.expr_types import ROW, ArrayOf, EdgeRef, ExprType, NodeRef
from omnigraph.query.logical_plan import Hop, HopDirection
from omnigraph.query.union_types import list_members
from walk_model import ModelEdge, ModelWalk, choose_walks, iter_walks

Record = Mapping[str, Any]
# The truth of a condition in a match.
Truth = Callable[[Expr, Mapping[str, Any]], bool | None]


@dataclass(frozen=True)
class Walk:
    """A walk: the records of its nodes and edges, and its cost."""

    nodes: tuple[Record, ...]
    edges: tuple[Record, ...]
    cost: float | int | None


@dataclass(frozen=True)
class Way:
    """The edges and inner nodes that a hop may use, nodes by their keys."""

    edges: Sequence[Record]
    inner: frozenset[str]


def key_of(record: Record) -> str:
    """What tells a node or edge apart: its id, and its type if there are several; ordered by id first."""
    return f"{record['@id']}\0{record['@type']}" if "@type" in record else str(record["@id"])


def list_parts(
    hop: Hop, nodes: Mapping[str, Sequence[Record]], edges: Mapping[str, Sequence[Record]]
) -> tuple[list[Record], list[Record]]:
    """The nodes and edges of a hop; of several types, with their types, and edges with the keys of their ends."""
    if not hop.members:
        return list(nodes.get(hop.edge.source, ())), list(edges.get(hop.edge.name, ()))
    types = {end for member in hop.members for end in (member.edge.source, member.edge.target)}
    if hop.low == 0 and hop.ends is not None:
        # A walk without an edge may be at any node that both ends can be.
        types.update(name for end in hop.ends for name in list_members(end.name))
    is_undirected = hop.direction is HopDirection.BOTH
    ways = {(member.edge, HopDirection.OUT if is_undirected else member.direction) for member in hop.members}
    found: list[Record] = []
    for edge, direction in ways:
        for record in edges.get(edge.name, ()):
            ends = (f"{record['@src']}\0{edge.source}", f"{record['@dst']}\0{edge.target}")
            source, target = ends[::-1] if direction is HopDirection.IN else ends
            found.append({**record, "@type": edge.name, "@src": source, "@dst": target})
    return [{**record, "@type": type_} for type_ in types for record in nodes.get(type_, ())], found


def find_way(hop: Hop, nodes: Sequence[Record], edges: Sequence[Record], is_true: Truth) -> Way:
    """What is left of the edges and of the nodes that may be inside of a walk."""
    return Way(
        [edge for edge in edges if all(is_true(expr, {ROW: edge}) is True for expr in hop.along)],
        frozenset(key_of(node) for node in nodes if all(is_true(expr, {ROW: node}) is True for expr in hop.through)),
    )


def list_walks(
    hop: Hop,
    way: Way,
    nodes: Sequence[Record],
    weigh: Callable[[Record], float | int],
    on_walk: Callable[[], None],
) -> dict[tuple[str, str], list[Walk]]:
    """The walks that a path is bound to, by the keys of its ends; `on_walk` is called for each that is tried."""
    walk = hop.walk
    assert walk is not None
    by_node = {key_of(node): node for node in nodes}
    by_edge = {key_of(edge): edge for edge in way.edges}
    model = [_to_model(edge, hop.direction, weigh) for edge in way.edges]
    # The shortest and cheapest walks visit no node twice but the start, so that they have no more edges than nodes.
    longest = len(by_node) if walk.kind.value != "path" or hop.high is None else hop.high
    found: dict[tuple[str, str], list[ModelWalk]] = {}
    for start in by_node:
        is_undirected = hop.direction is HopDirection.BOTH
        walks = iter_walks(
            model, start, longest, is_undirected=is_undirected, may_be_inner=lambda node: node in way.inner
        )
        for each in walks:
            on_walk()
            found.setdefault((start, each.nodes[-1]), []).append(each)
    has_cost = walk.weight is not None
    return {
        pair: [
            Walk(
                tuple(by_node[node] for node in each.nodes),
                tuple(by_edge[edge] for edge in each.edges),
                each.cost if has_cost else None,
            )
            for each in choose_walks(walk.kind.value, walks, hop.low, hop.high)
        ]
        for pair, walks in found.items()
    }


def _to_model(edge: Record, direction: HopDirection, weigh: Callable[[Record], float | int]) -> ModelEdge:
    ends = (edge["@src"], edge["@dst"])
    source, target = ends[::-1] if direction is HopDirection.IN else ends
    return ModelEdge(key_of(edge), source, target, weigh(edge))


def read_walk(walk: Walk | None, expr: FieldRef) -> Any:
    """A part of a walk; null if an optional block has left it out."""
    if walk is None:
        return None
    match expr.name:
        case "length":
            return len(walk.edges)
        case "cost":
            return walk.cost
        case "key":
            ids = [[record["@id"] for record in records] for records in (walk.nodes, walk.edges)]
            return "\0".join("\1".join(part) for part in ids)
        case "nodes":
            return _show_parts(walk.nodes, expr.type)
        case _:
            return _show_parts(walk.edges, expr.type)


def show_walk(walk: Walk | None, expr: Expr) -> dict[str, Any] | None:
    """A walk as a result shows it."""
    assert isinstance(expr.type, WalkOf)
    if walk is None:
        return None
    return {
        "nodes": _show_parts(walk.nodes, expr.type.nodes),
        "edges": _show_parts(walk.edges, expr.type.edges),
    }


def _show_parts(records: Sequence[Record], type_: ExprType) -> list[dict[str, Any]]:
    """The nodes or edges of a walk as a result shows them."""
    assert isinstance(type_, ArrayOf)
    assert isinstance(type_.element, NodeRef | EdgeRef)
    return [show_record(record, type_.element.name) for record in records]


def show_record(record: Record, type_name: str) -> dict[str, Any]:
    """A node or edge as a result shows it; for records without blobs, vectors and times."""
    ids = {name: record[f"@{name}"] for name in ("id", "src", "dst") if f"@{name}" in record}
    ids["@type"] = record.get("@type", type_name)
    return ids | {name: value for name, value in record.items() if not name.startswith("@")}


def is_walk(expr: Expr) -> bool:
    """Whether an expression is a whole walk."""
    return isinstance(expr.type, WalkOf)
