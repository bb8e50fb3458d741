"""The topology of a graph under one edge type: the source and target of each edge, and its CSR adjacency."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.concurrency import create_lock
from omnigraph.engine.kernels import iter_chunks, look_up
from omnigraph.engine.parallel import map_parts
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
from omnigraph.errors import CorruptError
from omnigraph.schema.arrow import DST, ID, SRC
from omnigraph.storage.arrow_buffers import build_array, read_booleans

# Returns an adjacency by name; None if it does not exist.
Lists: TypeAlias = Callable[[str], CsrAdjacency | None]

# The name under which the ends of edges have their lock.
_ENDPOINTS = "ends"
# The position of a node at the end of a deleted edge, and of an end that is not resolved yet.
_HOLE = -1
_UNKNOWN = -2
# Ends are resolved in batches of several times as many edges as there are nodes, within these bounds: each batch makes
# a pass over the ids of all nodes.
_MIN_BATCH_ROWS = 524_288
_MAX_BATCH_ROWS = 8_388_608
# Ids in runs of this number on average are looked up once for each run: finding the runs takes 5 ns, a lookup 90.
_MIN_RUN = 2
# The number of ids that tell whether there are such runs.
_PROBED_IDS = 4_096
_NO_ROWS = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class TopologyLayouts:
    """The layouts of the tables that a topology is built from: its edges, and the nodes at both ends."""

    edges: Layout
    sources: Layout
    targets: Layout

    @property
    def all(self) -> tuple[Layout, Layout, Layout]:
        """The three layouts: edges, sources, targets."""
        return self.edges, self.sources, self.targets

    @property
    def states(self) -> tuple[str, str, str]:
        """The digests that identify the rows of the three tables."""
        return self.edges.state, self.sources.state, self.targets.state

    @property
    def sizes(self) -> tuple[int, int]:
        """The numbers of positions of the nodes at both ends."""
        return self.sources.size, self.targets.size


@dataclass(frozen=True, slots=True)
class EdgeEndpoints:
    """The positions of the source and target node of each edge, by edge position; -1 for deleted edges."""

    source: Ints
    target: Ints

    def __post_init__(self) -> None:
        # Many queries share the arrays.
        self.source.flags.writeable = False
        self.target.flags.writeable = False

    @property
    def nbytes(self) -> int:
        """The size in memory."""
        return self.source.nbytes + self.target.nbytes


@dataclass(frozen=True, slots=True)
class TopologyChange:
    """The difference between a topology and an older one, whose adjacency is patched."""

    lists: Mapping[str, CsrAdjacency]
    """The adjacency lists of the older topology that are in memory."""
    stored: Lists
    """The adjacency lists that the older topology could read from storage."""
    removed: EdgeList
    """Edges that no longer exist, or whose ends changed."""
    added: EdgeList
    """Edges that are new, or whose ends changed."""

    @property
    def count(self) -> int:
        """The number of edges that changed."""
        return max(len(self.removed.at), len(self.added.at))

    def apply(self, name: str, sizes: tuple[int, int, int]) -> CsrAdjacency | None:
        """Return the older `out` or `into` list, patched; None if there is none, or the change is too large."""
        older = self.lists.get(name) or self.stored(name)
        if older is None:
            return None
        if name == "out":
            return patch_csr(older, sizes, self.removed, self.added)
        return patch_csr(older, sizes, self.removed.reverse(), self.added.reverse())


def _find_no_list(name: str) -> CsrAdjacency | None:  # noqa: ARG001 - the signature of `Lists`
    """Return None: no list is stored."""
    return None


class Topology:
    """The ends of all edges of one type in one snapshot, and its adjacency lists, built on first use. Thread-safe.

    All lists that were built live as long as the topology.
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
        threads: int = 1,
    ) -> None:
        """Create a topology from the ends of its edges, or from its list `out`, which implies them.

        `stored` returns lists that another process built; `on_growth` is called after each list that this one builds or
        reads.
        """
        self.layouts = layouts
        self.on_growth = on_growth
        self._ends = ends
        self._change = change
        self._stored = stored
        self._threads = threads
        # The lists built so far, by name: `out`, `into`, `out_set`, `into_set`.
        self.lists: dict[str, CsrAdjacency] = dict(lists or {})
        self._locks = {name: create_lock() for name in (_ENDPOINTS, "out", "into", "out_set", "into_set")}

    @property
    def nbytes(self) -> int:
        """The current size in memory."""
        ends = self._ends
        change = self._change
        lists = [*self.lists.values(), *(() if change is None else change.lists.values())]
        # Lists may share arrays, which count once.
        arrays: dict[int, int] = {id(array): array.nbytes for adjacency in lists for array in adjacency.arrays}
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
        """The position of each edge's source node, by edge position; -1 for deleted edges."""
        return self.ends.source

    @property
    def target(self) -> Ints:
        """The position of each edge's target node, by edge position; -1 for deleted edges."""
        return self.ends.target

    def get_out_csr(self) -> CsrAdjacency:
        """Return the adjacency from each source to the targets of its edges."""
        return self._get_list("out", lambda: self._build_csr("out"))

    def get_in_csr(self) -> CsrAdjacency:
        """Return the adjacency from each target to the sources of its edges."""
        return self._get_list("into", lambda: self._build_csr("into"))

    def get_out_set_csr(self) -> CsrAdjacency:
        """Return the adjacency from sources to targets, each neighbour once."""
        return self._get_list("out_set", lambda: collapse_parallel_edges(self.get_out_csr()))

    def get_in_set_csr(self) -> CsrAdjacency:
        """Return the adjacency from targets to sources, each neighbour once."""
        return self._get_list("into_set", lambda: collapse_parallel_edges(self.get_in_csr()))

    def _get_list(self, name: str, build: Callable[[], CsrAdjacency]) -> CsrAdjacency:
        cached = self.lists.get(name)
        if cached is not None:
            return cached
        # One lock per list: a caller of this list does not wait while another one is built.
        with self._locks[name]:
            if name not in self.lists:
                self.lists[name] = self._stored(name) or build()
                if "out" in self.lists and "into" in self.lists:
                    # Both lists exist: the older ones, which the change refers to, can be freed.
                    self._change = None
                self.on_growth(self)
            return self.lists[name]

    def _build_csr(self, name: str) -> CsrAdjacency:
        """Build a list by patching that of an older topology, or by sorting all edges."""
        sizes = self.layouts.sizes if name == "out" else self.layouts.sizes[::-1]
        change = self._change
        patched = None if change is None else change.apply(name, (*sizes, self.layouts.edges.size))
        if patched is not None:
            return patched
        near, far = (self.source, self.target) if name == "out" else (self.target, self.source)
        return build_csr(near, far, *sizes, threads=self._threads)

    def build_change(self, removed: EdgeList, added: EdgeList) -> TopologyChange:
        """Return a change that refers to this topology's lists but does not keep the topology itself alive."""
        return TopologyChange(dict(self.lists), self._stored, removed, added)


def derive_endpoints(out: CsrAdjacency, size: int) -> EdgeEndpoints:
    """Return both ends of every edge, derived from the adjacency of all edges."""
    nodes = len(out.starts) - 1
    source = np.full(size, _HOLE, choose_position_type(nodes))
    target = np.full(size, _HOLE, out.targets.dtype)
    source[out.edges] = np.repeat(np.arange(nodes, dtype=source.dtype), out.compute_degrees())
    target[out.edges] = out.targets
    return EdgeEndpoints(source, target)


@dataclass(frozen=True, slots=True)
class TopologyTables:
    """The tables that a topology is built from."""

    edges: TableReader
    sources: TableReader
    targets: TableReader

    @property
    def all(self) -> tuple[TableReader, TableReader, TableReader]:
        """The three tables: edges, sources, targets."""
        return self.edges, self.sources, self.targets

    @property
    def layouts(self) -> TopologyLayouts:
        """The layouts of the three tables."""
        return TopologyLayouts(*(rows.columns.layout for rows in self.all))


def resolve_endpoints(
    tables: TopologyTables, older: Topology | None, budget: Budget
) -> tuple[EdgeEndpoints, TopologyChange | None]:
    """Return both ends of every edge, and the change since an older topology, whose valid ends are reused.

    Raises:
        CorruptError: A node is missing.
    """
    if older is None:
        no_rows = Layout(())
        no_ints = np.zeros(0, np.int32)
        source = _resolve_column(tables.edges, SRC, tables.sources, (no_rows, no_rows), no_ints, budget)
        target = _resolve_column(tables.edges, DST, tables.targets, (no_rows, no_rows), no_ints, budget)
        return EdgeEndpoints(source, target), None
    old = older.layouts
    source = _resolve_column(tables.edges, SRC, tables.sources, (old.edges, old.sources), older.source, budget)
    target = _resolve_column(tables.edges, DST, tables.targets, (old.edges, old.targets), older.target, budget)
    ends = EdgeEndpoints(source, target)
    return ends, _diff_topology(older, ends)


def _resolve_column(
    edges: TableReader,
    column: str,
    nodes: TableReader,
    old_layouts: tuple[Layout, Layout],
    old_positions: Ints,
    budget: Budget,
) -> Ints:
    """Return one end of every edge, looking up only those that the older topology does not know."""
    ends = np.full(edges.size, _UNKNOWN, choose_position_type(nodes.size))
    moved_to = _map_positions(old_layouts[1], nodes)
    at = 0
    for run in edges.columns.layout.match_runs(old_layouts[0]):
        if run.start is None:
            for ids in _batch_arrays(edges.columns.stream(column, at, run), 4 * nodes.size, budget):
                ends[at : at + len(ids)] = _find_nodes(nodes, ids, budget)
                at += len(ids)
        else:
            old_ends = old_positions[run.start : run.start + run.rows]
            ends[at : at + run.rows] = old_ends if moved_to is None else moved_to[old_ends]
            at += run.rows
    live = edges.columns.live_rows.get_mask()
    # Edges may refer to nodes that were deleted, or rewritten at another position, since then.
    unresolved = np.flatnonzero(ends < 0 if live is None else live & (ends < 0))
    if len(unresolved):
        ends[unresolved] = nodes.find(edges.take_values(column, unresolved, budget), budget)
    # A deleted edge may have lost its node, which is no error.
    if live is not None:
        ends[~live] = _HOLE
    dangling = np.flatnonzero(ends < 0 if live is None else live & (ends < 0))
    if len(dangling):
        node_id = edges.take_values(column, dangling[:1], budget)[0].as_py()
        raise CorruptError.dangling_edge(
            edges.type.name, "source" if column == SRC else "target", node_id, len(dangling)
        )
    return ends


def _find_nodes(nodes: TableReader, ids: pa.Array, budget: Budget) -> NDArray[np.int64]:
    """Return the position of each of many ids, -1 for those that do not exist, on several threads.

    Equal ids that follow each other are looked up once.
    """
    heads, runs = _find_runs(ids)
    if not nodes.columns.costs.has_room_for(ID):
        positions = look_up(heads, nodes.load_column(ID, budget), budget.check)
    else:
        index = nodes.load_id_index(budget)
        chunks = list(iter_chunks(len(heads)))
        positions = np.concatenate([_NO_ROWS, *map_parts(lambda part: index.find(heads[part]), chunks, budget)])
    return positions if runs is None else positions[runs]


def _find_runs(ids: pa.Array) -> tuple[pa.Array, NDArray[np.int64] | None]:
    """Return the first of each run of equal ids, and the run of each id; the ids themselves and None if runs are short.

    Edges that were written in the order of one end have long runs of it.
    """
    if len(ids) < 2 or _count_heads(ids[:_PROBED_IDS]) * _MIN_RUN > min(len(ids), _PROBED_IDS):
        return ids, None
    is_new = np.ones(len(ids), np.bool_)
    is_new[1:] = read_booleans(pc.not_equal(ids[1:], ids[:-1]))
    heads = np.flatnonzero(is_new)
    if len(heads) * _MIN_RUN > len(ids):
        return ids, None
    return ids.take(build_array(heads)), np.cumsum(is_new) - 1


def _count_heads(ids: pa.Array) -> int:
    return 1 + int(np.count_nonzero(read_booleans(pc.not_equal(ids[1:], ids[:-1]))))


def _batch_arrays(arrays: Iterable[pa.Array], rows: int, budget: Budget) -> Iterator[pa.Array]:
    """Yield the same values in batches of about `rows`: each batch costs a pass over the ids of all nodes."""
    min_rows = min(max(rows, _MIN_BATCH_ROWS), _MAX_BATCH_ROWS)
    parts: list[pa.Array] = []
    for array in arrays:
        budget.check()
        parts.append(array)
        if sum(map(len, parts)) >= min_rows:
            yield concat_chunks(parts, array.type)
            parts = []
    if parts:
        yield concat_chunks(parts, parts[0].type)


def _map_positions(old: Layout, nodes: TableReader) -> Ints | None:
    """Return for each old position the new one of the same row, if it is live; None if no row moved or was deleted."""
    layout = nodes.columns.layout
    if layout.state == old.state:
        return None
    # The last two elements are those that `_UNKNOWN` (-2) and `_HOLE` (-1) select: both map to themselves.
    moved_to = np.full(old.size + 2, _UNKNOWN, choose_position_type(max(layout.size, old.size)))
    moved_to[-1] = _HOLE
    live = nodes.columns.live_rows.get_mask()
    at = 0
    for run in layout.match_runs(old):
        if run.start is not None:
            positions = np.arange(at, at + run.rows)
            if live is not None:
                positions[~live[at : at + run.rows]] = _UNKNOWN
            moved_to[run.start : run.start + run.rows] = positions
        at += run.rows
    return None if np.array_equal(moved_to[:-2], np.arange(old.size)) else moved_to


def _diff_topology(older: Topology, ends: EdgeEndpoints) -> TopologyChange:
    """Return which edges differ, comparing positions only: adjacency lists contain nothing else."""
    common_size = min(len(ends.source), len(older.source))
    differs = ends.source[:common_size] != older.source[:common_size]
    differs |= ends.target[:common_size] != older.target[:common_size]
    changed = np.flatnonzero(differs)
    return older.build_change(
        removed=_select_edges(older.ends, np.concatenate((changed, np.arange(common_size, len(older.source))))),
        added=_select_edges(ends, np.concatenate((changed, np.arange(common_size, len(ends.source))))),
    )


def _select_edges(ends: EdgeEndpoints, at: Ints) -> EdgeList:
    """Return the edges at some positions, without holes."""
    at = at[ends.source[at] >= 0]
    return EdgeList(at, ends.source[at], ends.target[at])


def is_earlier(layout: Layout, other: Layout) -> bool:
    """Return whether the other layout has the same fragments and more after them."""
    files = [fragment.files for fragment in layout.fragments]
    other_files = [fragment.files for fragment in other.fragments]
    return len(files) < len(other_files) and files == other_files[: len(files)]
