"""Read the neighbours of some nodes: the edges at them, the nodes at the other ends, and how many there are."""

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from omnigraph.engine.algorithms.network import Direction
from omnigraph.errors import BadArgumentError
from omnigraph.json_struct import JsonStruct
from omnigraph.ops.argument_checks import check_text, parse_choice
from omnigraph.ops.open_table import find_edge_type
from omnigraph.ops.session import Session
from omnigraph.ops.snapshot_reader import SnapshotReader, StateCall, name_clause
from omnigraph.schema.catalog import EdgeType
from omnigraph.struct_decoder import get_decoder

MAX_NODES = 1_000
MAX_EDGES = 10_000
DEFAULT_EDGES = 100


class NodeKey(JsonStruct, frozen=True, kw_only=False):
    """What identifies a node: its type and its id."""

    type: str
    id: str


class Degree(JsonStruct, frozen=True, kw_only=True):
    """The number of edges of one type that leave a node (`out`) or reach it (`in`)."""

    type: str
    id: str
    edge: str
    direction: Direction
    count: int


class NeighbourPage(JsonStruct, frozen=True, kw_only=True):
    """Some edges of the given nodes, and the nodes at their other ends that are not given themselves.

    `degrees` has no zeros, and is on the first page only; `missing` are given nodes that there are not, or that the
    caller does not see. `next_cursor` is of the next edges, null after the last.
    """

    branch: str
    commit_id: str
    nodes: tuple[dict[str, Any], ...]
    edges: tuple[dict[str, Any], ...]
    degrees: tuple[Degree, ...]
    missing: tuple[NodeKey, ...]
    next_cursor: str | None


class _EdgePosition(msgspec.Struct, forbid_unknown_fields=True):
    """Where a page begins: in a state, at the edges of a step after an id."""

    commit: str
    step: int
    after: str


@dataclass(frozen=True, slots=True)
class _Step:
    """The edges of one type that leave the given nodes, or that reach them."""

    edge: EdgeType
    direction: Direction

    @property
    def near(self) -> str:
        """The type of the given nodes."""
        return self.edge.source if self.direction is Direction.OUT else self.edge.target

    @property
    def far(self) -> str:
        """The type of the nodes at the other ends."""
        return self.edge.target if self.direction is Direction.OUT else self.edge.source

    def match(self, edge: str) -> str:
        """Return the clauses that bind `$a`, a given node, and `$b` at the other end."""
        hop = f"$a {edge} $b" if self.direction is Direction.OUT else f"$b {edge} $a"
        return f"$a: {self.near} $b: {self.far} $a.@id in $ids {hop}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NeighbourCall:
    """The nodes, and which of their edges are read."""

    nodes: Sequence[NodeKey]
    edges: Sequence[str] | None = None
    direction: Direction | str = Direction.BOTH
    limit: int = DEFAULT_EDGES
    cursor: str | None = None
    state: StateCall = field(default_factory=StateCall)


def find_neighbours(session: Session, call: NeighbourCall) -> NeighbourPage:
    """Return at most `limit` edges of the given nodes, with the nodes at their other ends; the whole of each.

    Raises:
        TypeMissingError: There is no such node type or edge type.
        BadArgumentError: There are too many nodes or edges, or the cursor is none.
        BranchMissingError, CommitMissingError: There is no such state.
        QueryTimeoutError, QueryMemoryError, QueryCancelledError: The budget ran out.
    """
    _check_call(call)
    position = None if call.cursor is None else _decode(call.cursor)
    state = call.state
    if position is not None:
        state = replace(state, snapshot=position.commit, at=None)
    reader = SnapshotReader.open(session, state)
    return read_neighbours(reader, call, position)


def read_neighbours(
    reader: SnapshotReader, call: NeighbourCall, position: _EdgePosition | None = None
) -> NeighbourPage:
    """Return the same from a state that was opened already, for any number of nodes."""
    given: dict[str, list[str]] = {}
    for node in call.nodes:
        given.setdefault(reader.get_node_type(node.type).name, []).append(node.id)
    steps = list(_iter_steps(reader, call, given))
    if position is not None and position.step >= len(steps):
        raise _refuse_cursor()
    edges, nodes, following = _read_edges(reader, call, given, steps, position)
    is_first = position is None
    return NeighbourPage(
        branch=reader.snapshot.branch,
        commit_id=reader.snapshot.commit.id,
        nodes=tuple(nodes),
        edges=tuple(edges),
        degrees=tuple(_iter_degrees(reader, given, steps)) if is_first else (),
        missing=tuple(_iter_missing(reader, given)) if is_first else (),
        next_cursor=None if following is None else _encode(following),
    )


def _check_call(call: NeighbourCall) -> None:
    if not 1 <= len(call.nodes) <= MAX_NODES:
        raise BadArgumentError("nodes", f"{len(call.nodes):,}", f"name between 1 and {MAX_NODES:,} nodes")
    if not 0 <= call.limit <= MAX_EDGES:
        raise BadArgumentError("limit", f"{call.limit:,}", f"a page has between 0 and {MAX_EDGES:,} edges")
    for node in call.nodes:
        check_text("type", node.type)
        check_text("id", node.id)


def _iter_steps(reader: SnapshotReader, call: NeighbourCall, given: Mapping[str, list[str]]) -> Iterator[_Step]:
    direction = parse_choice("direction", Direction, call.direction)
    catalog = reader.catalog
    selected = catalog.edges.values() if call.edges is None else [find_edge_type(catalog, name) for name in call.edges]
    for edge in dict.fromkeys(edge.name for edge in selected):
        type_ = catalog.edges[edge]
        if direction is not Direction.IN and type_.source in given:
            yield _Step(type_, Direction.OUT)
        if direction is not Direction.OUT and type_.target in given:
            yield _Step(type_, Direction.IN)


def _read_edges(
    reader: SnapshotReader,
    call: NeighbourCall,
    given: Mapping[str, list[str]],
    steps: Sequence[_Step],
    position: _EdgePosition | None,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], _EdgePosition | None]:
    """Return the edges of a page, the nodes at their other ends, and where the next page begins."""
    edges: list[dict[str, Any]] = []
    nodes: dict[tuple[str, str], dict[str, Any]] = {}
    first, after = (0, "") if position is None else (position.step, position.after)
    for number, step in enumerate(steps[first:], first):
        left = call.limit - len(edges)
        # One more than there is room for tells whether there are more.
        rows = _read_step(reader, step, steps, given, after, left + 1)
        for row in rows[:left]:
            edges.append(dict(row["e"]))
            node = row["b"]
            if node["id"] not in given.get(step.far, ()):
                nodes[step.far, node["id"]] = dict(node)
        if len(rows) > left:
            last = rows[left - 1]["e"]["id"] if left else after
            return edges, list(nodes.values()), _EdgePosition(reader.snapshot.commit.id, number, last)
        after = ""
    return edges, list(nodes.values()), None


def _read_step(
    reader: SnapshotReader, step: _Step, steps: Sequence[_Step], given: Mapping[str, list[str]], after: str, limit: int
) -> list[Mapping[str, Any]]:
    others = given.get(step.far, [])
    is_repeated = step.direction is Direction.IN and _Step(step.edge, Direction.OUT) in steps and bool(others)
    # An edge between two given nodes was read where it leaves one of them.
    unlike = "not $b.@id in $others" if is_repeated else ""
    head = "query edges($ids: [String], $others: [String], $after: String, $limit: I64)"
    if not is_repeated:
        head = "query edges($ids: [String], $after: String, $limit: I64)"
    text = (
        f"{head} {{ match {{ {step.match('$e:' + name_clause(step.edge))} $e.@id > $after {unlike} }}"
        " return { $e, $b } order { $e.@id } limit $limit }"
    )
    params: dict[str, object] = {"ids": given[step.near], "after": after, "limit": limit}
    return reader.read(text, params | ({"others": others} if is_repeated else {}))


def _iter_degrees(reader: SnapshotReader, given: Mapping[str, list[str]], steps: Sequence[_Step]) -> Iterator[Degree]:
    for step in steps:
        text = (
            f"query degrees($ids: [String]) {{ match {{ {step.match('$e:' + name_clause(step.edge))} }}"
            " return { $a.@id as id, count($e) as edges } order { $a.@id } }"
        )
        for row in reader.read(text, {"ids": given[step.near]}):
            yield Degree(
                type=step.near, id=row["id"], edge=step.edge.name, direction=step.direction, count=int(row["edges"])
            )


def _iter_missing(reader: SnapshotReader, given: Mapping[str, list[str]]) -> Iterator[NodeKey]:
    for type_name, ids in given.items():
        text = f"query ids($ids: [String]) {{ match {{ $n: {type_name} $n.@id in $ids }} return {{ $n.@id as id }} }}"
        found = {row["id"] for row in reader.read(text, {"ids": ids})}
        yield from (NodeKey(type_name, id_) for id_ in dict.fromkeys(ids) if id_ not in found)


def _encode(position: _EdgePosition) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(position)).decode().rstrip("=")


def _decode(text: str) -> _EdgePosition:
    check_text("cursor", text)
    try:
        data = base64.b64decode(text.encode() + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
        position = get_decoder(_EdgePosition).decode(data)
    except (binascii.Error, UnicodeError, ValueError, msgspec.MsgspecError, RecursionError):
        raise _refuse_cursor() from None
    if position.step < 0:
        raise _refuse_cursor()
    return position


def _refuse_cursor() -> BadArgumentError:
    return BadArgumentError("cursor", "this text", "pass `next_cursor` of the previous page, and the same nodes")
