"""Read what lies around changed rows and did not change itself, so that a difference can be drawn as a graph."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from omnigraph.errors import BadArgumentError
from omnigraph.json_struct import JsonStruct
from omnigraph.ops.neighbours import MAX_EDGES, NeighbourCall, NodeKey, read_neighbours
from omnigraph.ops.snapshot_reader import SnapshotReader

_DELETED = "deleted"


class Surroundings(JsonStruct, frozen=True, kw_only=True):
    """The unchanged ends of changed edges, and unchanged edges of changed nodes with their other ends.

    Nodes and edges are whole, as in results. `is_cut` says that there are more edges than were asked for.
    """

    nodes: tuple[dict[str, Any], ...]
    edges: tuple[dict[str, Any], ...]
    is_cut: bool


def read_surroundings(reader: SnapshotReader, changes: Sequence[Mapping[str, Any]], limit: int) -> Surroundings:
    """Return what lies around changes, in the state after them, with at most `limit` edges.

    `changes` are the records of a difference. What was deleted has nothing around it any more; the ends of a deleted
    edge are there if they still exist.

    Raises:
        BadArgumentError: There are too many edges asked for.
        QueryTimeoutError, QueryMemoryError, QueryCancelledError: The budget ran out.
    """
    if not 0 <= limit <= MAX_EDGES:
        raise BadArgumentError("around", f"{limit:,}", f"there are between 0 and {MAX_EDGES:,} edges around changes")
    changed_nodes = [NodeKey(change["type"], change["id"]) for change in changes if "type" in change]
    changed_edges = {(change["edge"], change["id"]) for change in changes if "edge" in change}
    deleted = {NodeKey(change["type"], change["id"]) for change in changes if "type" in change and _is_deletion(change)}
    # The schema may have dropped a type since: its rows are deleted, and have no place in the state after.
    present = [node for node in changed_nodes if node not in deleted and node.type in reader.catalog.nodes]
    whole: dict[NodeKey, dict[str, Any]] = {}
    edges: list[dict[str, Any]] = []
    is_cut = False
    if present and limit:
        # The changed edges of these nodes are read too, and left out.
        page = read_neighbours(reader, NeighbourCall(nodes=present, limit=limit + len(changed_edges)))
        unchanged = [edge for edge in page.edges if (edge["@type"], edge["id"]) not in changed_edges]
        edges = unchanged[:limit]
        is_cut = page.next_cursor is not None or len(unchanged) > limit
        used = {key for edge in edges for key in _list_ends(reader, edge["@type"], edge["src"], edge["dst"])}
        whole = {key: node for node in page.nodes if (key := NodeKey(node["@type"], node["id"])) in used}
    ends = {key for change in changes if "edge" in change for key in _list_changed_ends(reader, change)}
    wanted = ends - whole.keys() - set(changed_nodes)
    for type_name in dict.fromkeys(key.type for key in sorted(wanted, key=lambda key: (key.type, key.id))):
        ids = sorted(key.id for key in wanted if key.type == type_name)
        whole |= {NodeKey(type_name, node["id"]): dict(node) for node in reader.read_nodes(type_name, ids)}
    return Surroundings(nodes=tuple(whole.values()), edges=tuple(edges), is_cut=is_cut)


def _is_deletion(change: Mapping[str, Any]) -> bool:
    return bool(change["change"] == _DELETED)


def _list_changed_ends(reader: SnapshotReader, change: Mapping[str, Any]) -> Iterable[NodeKey]:
    """Return the ends that a changed edge has, and those that it had."""
    ends = [side for side in (change["before"], change["after"]) if side is not None]
    return [key for side in ends for key in _list_ends(reader, change["edge"], side["from"], side["to"])]


def _list_ends(reader: SnapshotReader, edge: str, source: str, target: str) -> Iterable[NodeKey]:
    type_ = reader.catalog.edges.get(edge)
    return () if type_ is None else (NodeKey(type_.source, source), NodeKey(type_.target, target))
