"""The shape of a graph under one edge type: which node each edge leaves and enters, by positions."""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from omnigraph.engine.query_budget import Budget
from omnigraph.engine.tables.column_store import concat_chunks
from omnigraph.engine.tables.csr import (
    CsrAdjacency,
    EdgeList,
    Ints,
    build_csr,
    choose_position_type,
    collapse_parallel_edges,
    patch_csr,
)
from omnigraph.engine.tables.row_layout import Layout
from omnigraph.engine.tables.table_reader import TableReader
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.schema.arrow import DST, SRC

Lists: TypeAlias = Callable[[str], CsrAdjacency | None]
"""Adjacency lists by name, None for one that is not there."""

_ENDPOINTS = "ends"
_HOLE, _UNKNOWN = -1, -2
_MIN_BATCH_ROWS, _MAX_BATCH_ROWS = 524_288, 8_388_608
"""How many edges are looked up at once: several times as many as there are nodes, within these bounds."""


class DanglingEdgeError(OmnigraphError):
    """A stored edge names a node that its snapshot does not have."""

    kind = Kind.CORRUPT
    code = "dangling_edge"

    def __init__(self, edge_type: str, end: str, node_id: str, edges: int) -> None:
        super().__init__(edge_type, end, node_id, edges)
        self.edge_type, self.end, self.node_id, self.edges = edge_type, end, node_id, edges

    def __str__(self) -> str:
        more = f" (and {self.edges - 1} more)" if self.edges > 1 else ""
        return (
            f"an edge of {self.edge_type} has `{self.node_id}` as its {self.end}, but the snapshot has no such node"
            f"{more}: the tables were changed outside of omnigraph; run `omnigraph check`"
        )


@dataclass(frozen=True, slots=True)
class TopologyLayouts:
    """The tables that a topology is of: its edges, and the nodes at both ends."""

    edges: Layout
    sources: Layout
    targets: Layout

    @property
    def all(self) -> tuple[Layout, Layout, Layout]:
        """The three: edges, sources, targets."""
        return self.edges, self.sources, self.targets

    @property
    def states(self) -> tuple[str, str, str]:
        """What tells them from those of any other rows."""
        return self.edges.state, self.sources.state, self.targets.state

    @property
    def sizes(self) -> tuple[int, int]:
        """How many positions the nodes at both ends have."""
        return self.sources.size, self.targets.size


@dataclass(frozen=True, slots=True)
class EdgeEndpoints:
    """By edge position, the positions of the nodes that it leaves and enters; -1 at holes."""

    source: Ints
    target: Ints

    def __post_init__(self) -> None:
        self.source.flags.writeable = self.target.flags.writeable = False  # many queries share them

    @property
    def nbytes(self) -> int:
        """The memory it takes."""
        return self.source.nbytes + self.target.nbytes


@dataclass(frozen=True, slots=True)
class TopologyChange:
    """How a topology differs from an older one, whose lists it is made of."""

    lists: Mapping[str, CsrAdjacency]
    """The older one's lists in memory."""
    stored: Lists
    """Those that it could have read."""
    removed: EdgeList
    """Edges that are not there any more, or have other ends now."""
    added: EdgeList
    """Edges that were not there, or had other ends."""

    @property
    def count(self) -> int:
        """How many edges changed."""
        return max(len(self.removed.at), len(self.added.at))

    def apply(self, name: str, sizes: tuple[int, int, int]) -> CsrAdjacency | None:
        """The older `out` or `into` with the change; None when there is none, or the change is too large."""
        older = self.lists.get(name) or self.stored(name)
        if older is None:
            return None
        if name == "out":
            return patch_csr(older, sizes, self.removed, self.added)
        return patch_csr(older, sizes, self.removed.reverse(), self.added.reverse())


def _find_no_list(name: str) -> CsrAdjacency | None:  # noqa: ARG001 - whatever is asked for
    """No list is stored."""
    return None


class Topology:
    """The ends of every edge of one type in one snapshot, and its adjacency lists, made when first asked for.

    Safe from several threads. Whoever holds it holds everything that was made of it.
    """

    def __init__(
        self,
        layouts: TopologyLayouts,
        ends: EdgeEndpoints | None,
        *,
        lists: Mapping[str, CsrAdjacency] | None = None,
        change: TopologyChange | None = None,
        stored: Lists = _find_no_list,
        on_growth: Callable[["Topology"], None] = lambda _: None,
    ) -> None:
        """Of its ends, or of its list `out`, which tells them.

        `stored` has lists that were made by another process; `grown` hears of every list that this one has.
        """
        self.layouts, self.on_growth = layouts, on_growth
        self._ends, self._change, self._stored = ends, change, stored
        self.lists: dict[str, CsrAdjacency] = dict(lists or {})
        """What was made so far: `out`, `into`, `get_out_set_csr`, `get_in_set_csr`."""
        self._locks = {name: threading.Lock() for name in (_ENDPOINTS, "out", "into", "out_set", "into_set")}

    @property
    def nbytes(self) -> int:
        """The memory that it takes now."""
        ends, change = self._ends, self._change
        held = [*self.lists.values(), *(() if change is None else change.lists.values())]
        arrays: dict[int, int] = {id(array): array.nbytes for one in held for array in one.arrays}
        return 1_024 + sum(arrays.values()) + (0 if ends is None else ends.nbytes)

    @property
    def ends(self) -> EdgeEndpoints:
        """Both ends of every edge."""
        with self._locks[_ENDPOINTS]:
            if self._ends is None:
                self._ends = derive_endpoints(self.lists["out"], self.layouts.edges.size)
            return self._ends

    @property
    def source(self) -> Ints:
        """By edge position, the position of the node that it leaves; -1 at holes."""
        return self.ends.source

    @property
    def target(self) -> Ints:
        """By edge position, the position of the node that it enters; -1 at holes."""
        return self.ends.target

    def get_out_csr(self) -> CsrAdjacency:
        """From each source to the targets of its edges."""
        return self._get_list("out", lambda: self._build_csr("out"))

    def get_in_csr(self) -> CsrAdjacency:
        """From each target to the sources of its edges."""
        return self._get_list("into", lambda: self._build_csr("into"))

    def get_out_set_csr(self) -> CsrAdjacency:
        """As `out`, each neighbour once."""
        return self._get_list("out_set", lambda: collapse_parallel_edges(self.get_out_csr()))

    def get_in_set_csr(self) -> CsrAdjacency:
        """As `into`, each neighbour once."""
        return self._get_list("into_set", lambda: collapse_parallel_edges(self.get_in_csr()))

    def _get_list(self, name: str, make: Callable[[], CsrAdjacency]) -> CsrAdjacency:
        found = self.lists.get(name)
        if found is not None:
            return found
        with self._locks[name]:  # one for each: who wants this list does not wait for another
            if name not in self.lists:
                self.lists[name] = self._stored(name) or make()
                if "out" in self.lists and "into" in self.lists:
                    self._change = None  # the older lists have served
                self.on_growth(self)
            return self.lists[name]

    def _build_csr(self, name: str) -> CsrAdjacency:
        """The list of an older topology with what changed, or all edges sorted."""
        sizes = self.layouts.sizes if name == "out" else self.layouts.sizes[::-1]
        change = self._change
        made = None if change is None else change.apply(name, (*sizes, self.layouts.edges.size))
        if made is not None:
            return made
        near, far = (self.source, self.target) if name == "out" else (self.target, self.source)
        return build_csr(near, far, *sizes)

    def build_change(self, removed: EdgeList, added: EdgeList) -> TopologyChange:
        """A change that has this topology's lists, and does not hold the topology itself."""
        return TopologyChange(dict(self.lists), self._stored, removed, added)


def derive_endpoints(out: CsrAdjacency, size: int) -> EdgeEndpoints:
    """Both ends of every edge, as the list of all edges tells them."""
    nodes = len(out.starts) - 1
    source = np.full(size, _HOLE, choose_position_type(nodes))
    target = np.full(size, _HOLE, out.targets.dtype)
    source[out.edges] = np.repeat(np.arange(nodes, dtype=source.dtype), out.compute_degrees())
    target[out.edges] = out.targets
    return EdgeEndpoints(source, target)


@dataclass(frozen=True, slots=True)
class TopologyTables:
    """The rows that a topology is made of."""

    edges: TableReader
    sources: TableReader
    targets: TableReader

    @property
    def all(self) -> tuple[TableReader, TableReader, TableReader]:
        """The three: edges, sources, targets."""
        return self.edges, self.sources, self.targets

    @property
    def layouts(self) -> TopologyLayouts:
        """Their layouts."""
        return TopologyLayouts(*(rows.columns.layout for rows in self.all))


def resolve_endpoints(
    tables: TopologyTables, older: Topology | None, budget: Budget | None = None
) -> tuple[EdgeEndpoints, TopologyChange | None]:
    """Both ends of every edge, and what changed since an older topology, of which every end that stands is kept.

    Raises:
        DanglingEdgeError: A node is missing.
    """
    if older is None:
        nothing = Layout(())
        no_ints = np.zeros(0, np.int32)
        source = _resolve_column(tables.edges, SRC, tables.sources, (nothing, nothing), no_ints, budget)
        target = _resolve_column(tables.edges, DST, tables.targets, (nothing, nothing), no_ints, budget)
        return EdgeEndpoints(source, target), None
    was = older.layouts
    source = _resolve_column(tables.edges, SRC, tables.sources, (was.edges, was.sources), older.source, budget)
    target = _resolve_column(tables.edges, DST, tables.targets, (was.edges, was.targets), older.target, budget)
    ends = EdgeEndpoints(source, target)
    return ends, _diff_topology(older, ends)


def _resolve_column(
    edges: TableReader, column: str, nodes: TableReader, was: tuple[Layout, Layout], known: Ints, budget: Budget | None
) -> Ints:
    """One end of every edge; looked up are only those that the older topology does not tell."""
    found = np.full(edges.size, _UNKNOWN, choose_position_type(nodes.size))
    moves, at = _map_positions(was[1], nodes), 0
    for piece in edges.columns.layout.match_runs(was[0]):
        if piece.start is None:
            for ids in _batch_arrays(edges.columns.stream(column, at, piece), 4 * nodes.size, budget):
                found[at : at + len(ids)] = nodes.find(ids, budget)
                at += len(ids)
        else:
            ends = known[piece.start : piece.start + piece.rows]
            found[at : at + piece.rows] = ends if moves is None else moves[ends]
            at += piece.rows
    living = edges.columns.live_rows.get_mask()
    unknown = np.flatnonzero(found < 0 if living is None else living & (found < 0))
    if len(unknown):
        found[unknown] = nodes.find(edges.take_values(column, unknown, budget), budget)
    if living is not None:
        found[~living] = _HOLE
    lost = np.flatnonzero(found < 0 if living is None else living & (found < 0))
    if len(lost):
        node_id = edges.take_values(column, lost[:1], budget)[0].as_py()
        raise DanglingEdgeError(edges.type.name, "source" if column == SRC else "target", node_id, len(lost))
    return found


def _batch_arrays(arrays: Iterable[pa.Array], rows: int, budget: Budget | None) -> Iterator[pa.Array]:
    """The same values in pieces of about so many rows: all ids of the nodes are gone through once for each."""
    wanted = min(max(rows, _MIN_BATCH_ROWS), _MAX_BATCH_ROWS)
    parts: list[pa.Array] = []
    for array in arrays:
        if budget is not None:
            budget.check()
        parts.append(array)
        if sum(map(len, parts)) >= wanted:
            yield concat_chunks(parts, array.type)
            parts = []
    if parts:
        yield concat_chunks(parts, parts[0].type)


def _map_positions(was: Layout, nodes: TableReader) -> Ints | None:
    """By old position the new one of the same row, if it still lives; None when no row moved or went.

    The last two elements are what -2 and -1 select, and stand for themselves.
    """
    layout = nodes.columns.layout
    if layout.state == was.state:
        return None
    moves = np.full(was.size + 2, _UNKNOWN, choose_position_type(max(layout.size, was.size)))
    moves[-1] = _HOLE
    living, at = nodes.columns.live_rows.get_mask(), 0
    for piece in layout.match_runs(was):
        if piece.start is not None:
            places = np.arange(at, at + piece.rows)
            if living is not None:
                places[~living[at : at + piece.rows]] = _UNKNOWN
            moves[piece.start : piece.start + piece.rows] = places
        at += piece.rows
    return None if np.array_equal(moves[:-2], np.arange(was.size)) else moves


def _diff_topology(older: Topology, ends: EdgeEndpoints) -> TopologyChange:
    """Which edges differ, by positions alone: lists of positions don't care whose they are."""
    both = min(len(ends.source), len(older.source))
    differs = ends.source[:both] != older.source[:both]
    differs |= ends.target[:both] != older.target[:both]
    changed = np.flatnonzero(differs)
    return older.build_change(
        removed=_select_edges(older.ends, np.concatenate((changed, np.arange(both, len(older.source))))),
        added=_select_edges(ends, np.concatenate((changed, np.arange(both, len(ends.source))))),
    )


def _select_edges(ends: EdgeEndpoints, at: Ints) -> EdgeList:
    """Those of some positions that are edges, and not holes."""
    at = at[ends.source[at] >= 0]
    return EdgeList(at, ends.source[at], ends.target[at])


def is_earlier(layout: Layout, other: Layout) -> bool:
    """Whether another layout has the same fragments, and more behind them."""
    files = [fragment.files for fragment in layout.fragments]
    return len(files) < len(other.fragments) and files == [one.files for one in other.fragments[: len(files)]]
