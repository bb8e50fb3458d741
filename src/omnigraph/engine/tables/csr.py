"""The compressed sparse row (CSR) adjacency of an edge table: build it, patch it, and drop parallel edges."""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.parallel import sort_integers

Ints: TypeAlias = NDArray[np.integer[Any]]

# Positions below this fit into 32 bits.
_FITS_32 = 2**31
# An older adjacency is patched instead of sorted again while fewer than one edge in 16 changed, and at most this number
# in all.
_MIN_EDGES_PER_EDIT = 16
_MAX_EDITS = 8_192


@dataclass(frozen=True, slots=True)
class CsrAdjacency:
    """The neighbours of each node by position; those of one node are ascending, parallel edges by edge position."""

    starts: NDArray[np.int64]
    """Where the list of each node begins, and where the last one ends."""
    targets: Ints
    """The positions of the neighbours, as 32-bit integers if these suffice."""
    edges: Ints | None
    """The position of each edge; None if parallel edges are collapsed into one entry."""

    def __post_init__(self) -> None:
        for array in self.arrays:
            # Many queries share the arrays.
            array.flags.writeable = False

    def compute_degrees(self) -> NDArray[np.int64]:
        """Return the number of neighbours of each node."""
        return np.diff(self.starts)

    @property
    def arrays(self) -> tuple[Ints, ...]:
        """The arrays that it consists of."""
        return (self.starts, self.targets) if self.edges is None else (self.starts, self.targets, self.edges)


def choose_position_type(size: int) -> type[np.int32 | np.int64]:
    """Return the integer type that holds every position of a table of this size."""
    return np.int32 if size < _FITS_32 else np.int64


def build_csr(sources: Ints, targets: Ints, size: int, target_size: int, *, threads: int = 1) -> CsrAdjacency:
    """Build the adjacency of all edges from the ends of each; `sources` is -1 where an edge was deleted."""
    edges = None if not len(sources) or sources.min() >= 0 else np.flatnonzero(sources >= 0)
    from_, to = (sources, targets) if edges is None else (sources[edges], targets[edges])
    starts = np.zeros(size + 1, np.int64)
    np.cumsum(np.bincount(from_, minlength=size), out=starts[1:])
    order, sorted_targets = _sort_edges(from_, to, size, target_size, threads)
    if edges is not None:
        order = edges[order]
    return CsrAdjacency(
        starts,
        sorted_targets.astype(choose_position_type(target_size), copy=False),
        order.astype(choose_position_type(len(sources)), copy=False),
    )


def _sort_edges(sources: Ints, targets: Ints, size: int, target_size: int, threads: int) -> tuple[Ints, Ints]:
    """Return the edge positions sorted by source, target and position, and the targets in that order."""
    count = len(sources)
    edge_bits, target_bits, source_bits = ((max(n, 2) - 1).bit_length() for n in (count, target_size, size))
    # Three numbers that do not fit into one int64 are sorted as separate keys.
    if edge_bits + target_bits + source_bits > 63:
        order = np.lexsort((targets, sources))
        return order, targets[order]
    # Sorting the three numbers packed into one integer is several times as fast as an indirect sort.
    packed = sources.astype(np.int64)
    packed <<= target_bits
    packed |= targets
    packed <<= edge_bits
    packed |= np.arange(count)
    # Edges that were written in the order of their ends are sorted already.
    if not (packed[1:] > packed[:-1]).all():
        packed = sort_integers(packed, threads)
    order = np.bitwise_and(packed, (1 << edge_bits) - 1, dtype=np.int64)
    packed >>= edge_bits
    packed &= (1 << target_bits) - 1
    return order, packed


def collapse_parallel_edges(adjacency: CsrAdjacency) -> CsrAdjacency:
    """Return the adjacency with each neighbour of a node once."""
    if not len(adjacency.targets):
        return CsrAdjacency(adjacency.starts, adjacency.targets, None)
    repeated = adjacency.targets[1:] == adjacency.targets[:-1]
    heads = adjacency.starts[1:-1]
    # The first entry of a list may equal the last one of the list before.
    repeated[heads[(heads > 0) & (heads <= len(repeated))] - 1] = False
    duplicates = np.flatnonzero(repeated) + 1
    if not len(duplicates):
        return CsrAdjacency(adjacency.starts, adjacency.targets, None)
    is_first = np.ones(len(adjacency.targets), np.bool_)
    is_first[duplicates] = False
    return CsrAdjacency(
        adjacency.starts - np.searchsorted(duplicates, adjacency.starts), adjacency.targets[is_first], None
    )


def patch_csr(
    older: CsrAdjacency, sizes: tuple[int, int, int], removed: "EdgeList", added: "EdgeList"
) -> CsrAdjacency | None:
    """Return the adjacency after some edges changed, by splicing the changes into the older lists.

    `sizes` are the current numbers of nodes, neighbours and edges. An edge whose ends changed is in both `removed` and
    `added`. Return None if so many edges changed that sorting all of them is as fast.
    """
    edits = len(removed.at) + len(added.at)
    if older.edges is None or edits > _MAX_EDITS or edits * _MIN_EDGES_PER_EDIT > len(older.targets):
        return None
    size, far_size, edge_count = sizes
    remove_at = _search_lists(older, removed)
    insert_at = _search_lists(older, added)
    widest = max(size, len(older.starts) - 1)
    starts = np.full(widest + 1, older.starts[-1])
    starts[: len(older.starts)] = older.starts
    starts[1:] += np.cumsum(np.bincount(added.near, minlength=widest) - np.bincount(removed.near, minlength=widest))
    order = np.lexsort((added.at, added.far, added.near))
    insert_at = insert_at[order]
    far = added.far[order]
    at = added.at[order]
    remove_at.sort()
    return CsrAdjacency(
        starts[: size + 1],
        _splice(older.targets, remove_at, insert_at, far.astype(choose_position_type(far_size))),
        _splice(older.edges, remove_at, insert_at, at.astype(choose_position_type(edge_count))),
    )


@dataclass(frozen=True, slots=True)
class EdgeList:
    """Some edges: their positions, the nodes whose lists contain them, and the neighbours in these lists."""

    at: Ints
    near: Ints
    far: Ints

    def reverse(self) -> "EdgeList":
        """Return the same edges as entries in the lists of their other end."""
        return EdgeList(self.at, self.far, self.near)


def _search_lists(lists: CsrAdjacency, edges: EdgeList) -> NDArray[np.int64]:
    """Return where each edge is in the lists, or would be inserted, by one vectorized binary search."""
    assert lists.edges is not None  # noqa: S101 - lists of every edge
    node_count = len(lists.starts) - 1
    # The list of a node that is new comes after all others.
    near = np.minimum(edges.near, node_count)
    low = lists.starts[near]
    high = np.where(edges.near < node_count, lists.starts[np.minimum(near + 1, node_count)], low)
    while True:
        open_ = np.flatnonzero(low < high)
        if not len(open_):
            return low
        middle = (low[open_] + high[open_]) // 2
        targets = lists.targets[middle]
        wanted_targets = edges.far[open_]
        is_same_target = targets == wanted_targets
        is_before = (targets < wanted_targets) | (is_same_target & (lists.edges[middle] < edges.at[open_]))
        low[open_[is_before]] = middle[is_before] + 1
        high[open_[~is_before]] = middle[~is_before]


def _splice(values: Ints, remove_at: Ints, insert_at: Ints, inserted: Ints) -> Ints:
    """Return the values without those at `remove_at` and with `inserted` before `insert_at`; both are ascending."""
    chunks = []
    copied = 0
    # Sentinels at the end copy the rest after the last change.
    removals = [*remove_at.tolist(), len(values)]
    next_removal = 0
    for position, number in [*zip(insert_at.tolist(), range(len(inserted)), strict=True), (len(values), -1)]:
        while removals[next_removal] < position:
            chunks.append(values[copied : removals[next_removal]])
            copied = removals[next_removal] + 1
            next_removal += 1
        chunks.append(values[copied:position])
        copied = max(copied, position)
        if number >= 0:
            chunks.append(inserted[number : number + 1])
    return np.concatenate(chunks).astype(inserted.dtype, copy=False)
