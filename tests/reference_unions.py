"""What hops of several edge types and variables of several types mean, one record at a time.

A record of a union also has its `@type`, and its `id` as a value. Nodes are told apart by type and id.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from omnigraph.query.expr import EdgeRef, EntityType, ExprType, NodeRef
from omnigraph.query.logical_plan import Hop, HopDirection
from omnigraph.query.union_types import EdgeUnion, NodeUnion

Record: TypeAlias = Mapping[str, Any]
Key: TypeAlias = tuple[str, str]
"""The type and the id of a node."""
Reach: TypeAlias = Callable[[Mapping[Key, set[Key]], Key], Mapping[Key, int]]
Cycle: TypeAlias = Callable[[Mapping[Key, set[Key]], Key], int]


def union_records(records: Callable[[EntityType], Sequence[Record]], type_: EntityType) -> list[Record] | None:
    """The records of all members of a union, each with its type; None for a single type."""
    if isinstance(type_, NodeUnion):
        members: list[EntityType] = [NodeRef(name) for name in type_.members]
    elif isinstance(type_, EdgeUnion):
        members = list(type_.members)
    else:
        return None
    return [{**record, "@type": member.name, "id": record["@id"]} for member in members for record in records(member)]


def widened(record: Any, own: ExprType, outside: ExprType) -> Any:
    """The record of an alternative as one of the type that its variable has outside: of a union, if that is one."""
    if not isinstance(outside, NodeUnion | EdgeUnion) or not isinstance(record, Mapping) or "@type" in record:
        return record
    assert isinstance(own, NodeRef | EdgeRef)
    return {**record, "@type": own.name, "id": record["@id"]}


def is_within(hop: Hop, distance: int, *, is_same: bool) -> bool:
    """Whether a distance, 0 for none, fits the bounds of a hop; `is_same` if both ends are one node."""
    if is_same and hop.low == 0:
        return True
    return distance > 0 and hop.low <= distance and (hop.high is None or distance <= hop.high)


def follows_members(
    hop: Hop, edges: Mapping[str, Sequence[Record]], reach: Reach, cycle: Cycle
) -> Callable[[Mapping[str, Any]], bool]:
    """Whether a match has what a hop of several members asks for."""
    edge_variable = hop.edge_variable
    if edge_variable is not None:
        return lambda match: _lies_between(hop, match[edge_variable], *find_end_keys(hop, match))
    steps = _steps(hop, edges)
    if not hop.is_multi:
        return lambda match: find_end_keys(hop, match)[1] in steps.get(find_end_keys(hop, match)[0], ())
    distances: dict[Key, Mapping[Key, int]] = {}
    for start in steps:
        found = dict(reach(steps, start))
        if hop.direction is HopDirection.BOTH:
            found[start] = cycle(steps, start)
        distances[start] = found

    def holds(match: Mapping[str, Any]) -> bool:
        source, target = find_end_keys(hop, match)
        return is_within(hop, distances.get(source, {}).get(target, 0), is_same=source == target)

    return holds


def find_end_keys(hop: Hop, match: Mapping[str, Any]) -> tuple[Key, Key]:
    """The type and id of both ends of a hop of several members."""
    assert hop.ends is not None
    source, target = match[hop.source], match[hop.target]
    if source is None or target is None:
        return ("null", "source"), ("null", "target")
    return (
        (source.get("@type", hop.ends[0].name), source["@id"]),
        (target.get("@type", hop.ends[1].name), target["@id"]),
    )


def _ends(edge: EdgeRef, record: Record) -> tuple[Key, Key]:
    return (edge.source, record["@src"]), (edge.target, record["@dst"])


def _steps(hop: Hop, edges: Mapping[str, Sequence[Record]]) -> dict[Key, set[Key]]:
    steps: dict[Key, set[Key]] = {}
    for member in hop.members:
        for record in edges.get(member.edge.name, ()):
            source, target = _ends(member.edge, record)
            if member.direction is not HopDirection.IN:
                steps.setdefault(source, set()).add(target)
            if member.direction is not HopDirection.OUT:
                steps.setdefault(target, set()).add(source)
    return steps


def _lies_between(hop: Hop, record: Record, source: Key, target: Key) -> bool:
    name = record.get("@type", hop.edge.name)
    for member in hop.members:
        if member.edge.name == name:
            ends = _ends(member.edge, record)
            if ends[:: -1 if member.direction is HopDirection.IN else 1] == (source, target):
                return True
    return False
