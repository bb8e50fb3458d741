"""Adjacency lists of a whole edge table in three arrays: where each node's list starts, neighbours, edges."""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.integer[Any]]

_FITS_32 = 2**31
_MIN_EDGES_PER_EDIT, _MAX_EDITS = 16, 8_192
"""Lists are spliced, and not sorted anew, while fewer than one edge in so many changed, and so many in all."""


@dataclass(frozen=True, slots=True)
class CsrAdjacency:
    """The neighbours of each node, by position; those of one node ascend, equal ones by their edges."""

    starts: NDArray[np.int64]
    """Where the list of each node begins, and where the last one ends."""
    targets: Ints
    """The neighbours' positions: 32 bits where the table fits."""
    edges: Ints | None
    """The position of each edge; None when edges between the same two nodes stand there once."""

    def __post_init__(self) -> None:
        for array in self.arrays:
            array.flags.writeable = False  # many queries share them

    def compute_degrees(self) -> NDArray[np.int64]:
        """How many neighbours each node has."""
        return np.diff(self.starts)

    @property
    def arrays(self) -> tuple[Ints, ...]:
        """What it is made of."""
        return (self.starts, self.targets) if self.edges is None else (self.starts, self.targets, self.edges)


def choose_position_type(size: int) -> type[np.int32 | np.int64]:
    """The integers that hold every position of a table of that size."""
    return np.int32 if size < _FITS_32 else np.int64


def build_csr(sources: Ints, targets: Ints, size: int, target_size: int) -> CsrAdjacency:
    """The lists of every edge, by its position; `sources` is -1 where there is no edge."""
    edges = None if not len(sources) or sources.min() >= 0 else np.flatnonzero(sources >= 0)
    from_, to = (sources, targets) if edges is None else (sources[edges], targets[edges])
    starts = np.zeros(size + 1, np.int64)
    np.cumsum(np.bincount(from_, minlength=size), out=starts[1:])
    order, sorted_targets = _sort_edges(from_, to, size, target_size)
    if edges is not None:
        order = edges[order]
    return CsrAdjacency(
        starts,
        sorted_targets.astype(choose_position_type(target_size), copy=False),
        order.astype(choose_position_type(len(sources)), copy=False),
    )


def _sort_edges(sources: Ints, targets: Ints, size: int, target_size: int) -> tuple[Ints, Ints]:
    """The edges by source, then target, then position; and the targets in that order."""
    count = len(sources)
    place_bits, target_bits, source_bits = ((max(n, 2) - 1).bit_length() for n in (count, target_size, size))
    if place_bits + target_bits + source_bits > 63:
        order = np.lexsort((targets, sources))
        return order, targets[order]
    # One sort of the three numbers in one is several times as fast as sorting places by them.
    packed = sources.astype(np.int64)
    packed <<= target_bits
    packed |= targets
    packed <<= place_bits
    packed |= np.arange(count)
    packed.sort()
    order = np.bitwise_and(packed, (1 << place_bits) - 1, dtype=np.int64)
    packed >>= place_bits
    packed &= (1 << target_bits) - 1
    return order, packed


def collapse_parallel_edges(every: CsrAdjacency) -> CsrAdjacency:
    """The same lists with each neighbour once."""
    if not len(every.targets):
        return CsrAdjacency(every.starts, every.targets, None)
    repeated = every.targets[1:] == every.targets[:-1]
    heads = every.starts[1:-1]
    repeated[heads[(heads > 0) & (heads <= len(repeated))] - 1] = False  # the first of a list repeats nothing
    again = np.flatnonzero(repeated) + 1
    if not len(again):
        return CsrAdjacency(every.starts, every.targets, None)
    kept = np.ones(len(every.targets), np.bool_)
    kept[again] = False
    return CsrAdjacency(every.starts - np.searchsorted(again, every.starts), every.targets[kept], None)


def patch_csr(
    older: CsrAdjacency, sizes: tuple[int, int, int], gone: "EdgeList", new: "EdgeList"
) -> CsrAdjacency | None:
    """The lists of `adjacency`, from those of other edges.

    `sizes` are those of the nodes, of their neighbours and of the edges now. An edge that has other ends than in
    `older` is both gone and new. None when so many are new or gone that sorting all is as fast.
    """
    edits = len(gone.at) + len(new.at)
    if older.edges is None or edits > _MAX_EDITS or edits * _MIN_EDGES_PER_EDIT > len(older.targets):
        return None
    size, far_size, edge_count = sizes
    cut = _search_lists(older, gone)
    put = _search_lists(older, new)
    widest = max(size, len(older.starts) - 1)
    starts = np.full(widest + 1, older.starts[-1])
    starts[: len(older.starts)] = older.starts
    starts[1:] += np.cumsum(np.bincount(new.near, minlength=widest) - np.bincount(gone.near, minlength=widest))
    order = np.lexsort((new.at, new.far, new.near))
    put, far, at = put[order], new.far[order], new.at[order]
    cut.sort()
    return CsrAdjacency(
        starts[: size + 1],
        _splice(older.targets, cut, put, far.astype(choose_position_type(far_size))),
        _splice(older.edges, cut, put, at.astype(choose_position_type(edge_count))),
    )


@dataclass(frozen=True, slots=True)
class EdgeList:
    """Some edges: their positions, the nodes whose lists they are in, and the neighbours there."""

    at: Ints
    near: Ints
    far: Ints

    def reverse(self) -> "EdgeList":
        """The same edges in the lists of the other end."""
        return EdgeList(self.at, self.far, self.near)


def _search_lists(lists: CsrAdjacency, edges: EdgeList) -> NDArray[np.int64]:
    """Where each edge is in the lists, or belongs: a binary search of all at once."""
    assert lists.edges is not None  # noqa: S101 - lists of every edge
    known = len(lists.starts) - 1
    near = np.minimum(edges.near, known)  # a node that is new has its list behind all others
    low = lists.starts[near]
    high = np.where(edges.near < known, lists.starts[np.minimum(near + 1, known)], low)
    while True:
        open_ = np.flatnonzero(low < high)
        if not len(open_):
            return low
        middle = (low[open_] + high[open_]) // 2
        found, to = lists.targets[middle], edges.far[open_]
        is_before = (found < to) | ((found == to) & (lists.edges[middle] < edges.at[open_]))
        low[open_[is_before]] = middle[is_before] + 1
        high[open_[~is_before]] = middle[~is_before]


def _splice(values: Ints, cut: Ints, put: Ints, new: Ints) -> Ints:
    """The values without those at `cut`, and with new ones before the places `put`; both ascend."""
    pieces, done = [], 0
    cuts, at_cut = [*cut.tolist(), len(values)], 0
    for place, number in [*zip(put.tolist(), range(len(new)), strict=True), (len(values), -1)]:
        while cuts[at_cut] < place:
            pieces.append(values[done : cuts[at_cut]])
            done = cuts[at_cut] + 1
            at_cut += 1
        pieces.append(values[done:place])
        done = max(done, place)
        if number >= 0:
            pieces.append(new[number : number + 1])
    return np.concatenate(pieces).astype(new.dtype, copy=False)
