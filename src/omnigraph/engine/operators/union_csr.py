"""The CSR adjacency of several edge types over unions of node types: build it, or patch that of an earlier version."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.tables.csr import CsrAdjacency, EdgeList, Ints, build_csr, choose_position_type, patch_csr

_NO_ENDS = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class WayEnds:
    """Both ends of the edges of a type in one direction, -1 for no edge, and where their types begin in the unions."""

    near: Ints
    far: Ints
    near_base: int
    far_base: int


@dataclass(frozen=True, slots=True)
class UnionCsr:
    """The adjacency of all edges of several ways, and what it was built from.

    An edge has a slot: its position among the edges of all ways, concatenated. An edge that is followed in both
    directions has two.
    """

    csr: CsrAdjacency
    """The lists of the near union; its edges are slots."""
    ways: tuple[WayEnds, ...]
    near_sizes: tuple[int, ...]
    far_sizes: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """The memory of all arrays; the ends of edges are shared with the topologies as long as these are cached."""
        arrays = [*self.csr.arrays, *(ends for way in self.ways for ends in (way.near, way.far))]
        return sum({id(array): array.nbytes for array in arrays}.values())


def build_union_csr(
    ways: Sequence[WayEnds], near_sizes: Sequence[int], far_sizes: Sequence[int], older: UnionCsr | None
) -> UnionCsr:
    """Build the adjacency; if few edges differ from an older one of the same ways, by splicing these into its lists.

    The sizes are the numbers of positions of the members of both unions.
    """
    csr = None if older is None else _patch(older, ways, near_sizes, far_sizes)
    if csr is None:
        near = np.concatenate([_NO_ENDS, *(_shift(way.near, way.near_base) for way in ways)])
        far = np.concatenate([_NO_ENDS, *(_shift(way.far, way.far_base) for way in ways)])
        csr = build_csr(near, far, sum(near_sizes), sum(far_sizes))
    return UnionCsr(csr, tuple(ways), tuple(near_sizes), tuple(far_sizes))


def _shift(ends: Ints, base: int) -> NDArray[np.int64]:
    return np.where(ends >= 0, ends.astype(np.int64) + base, -1)


def _patch(
    older: UnionCsr, ways: Sequence[WayEnds], near_sizes: Sequence[int], far_sizes: Sequence[int]
) -> CsrAdjacency | None:
    """Return the older lists with the changes, or None if a table shrank or too many edges changed."""
    old_slots, slots = ([len(way.near) for way in each] for each in (older.ways, ways))
    pairs = ((older.near_sizes, near_sizes), (older.far_sizes, far_sizes), (old_slots, slots))
    if any(new < old for before, after in pairs for old, new in zip(before, after, strict=True)):
        return None
    removed, added = [], []
    for old, new, base in zip(older.ways, ways, _find_bases(slots), strict=False):
        if old.near is new.near and old.far is new.far:
            continue
        common = len(old.near)
        changed = np.flatnonzero((new.near[:common] != old.near) | (new.far[:common] != old.far))
        removed.append(_select_edges(old, changed, new, base))
        added.append(_select_edges(new, np.concatenate([changed, np.arange(common, len(new.near))]), new, base))
    assert older.csr.edges is not None  # noqa: S101 - it has the slot of every edge
    moved = CsrAdjacency(
        _pad_starts(older.csr.starts, older.near_sizes, near_sizes),
        _move(older.csr.targets, older.far_sizes, far_sizes),
        _move(older.csr.edges, old_slots, slots),
    )
    return patch_csr(moved, (sum(near_sizes), sum(far_sizes), sum(slots)), _join(removed), _join(added))


def _find_bases(sizes: Sequence[int]) -> NDArray[np.int64]:
    """Return where each member begins, and where the last one ends."""
    return np.cumsum([0, *sizes], dtype=np.int64)


def _select_edges(way: WayEnds, at: Ints, current: WayEnds, slot_base: int) -> EdgeList:
    """Return the edges at some positions, without holes, by the current bases."""
    at = at[way.near[at] >= 0]
    return EdgeList(
        at + slot_base,
        way.near[at].astype(np.int64) + current.near_base,
        way.far[at].astype(np.int64) + current.far_base,
    )


def _join(parts: list[EdgeList]) -> EdgeList:
    # numpy concatenates no empty list of arrays.
    every = [EdgeList(_NO_ENDS, _NO_ENDS, _NO_ENDS), *parts]
    at, near, far = (np.concatenate(arrays) for arrays in zip(*((e.at, e.near, e.far) for e in every), strict=True))
    return EdgeList(at, near, far)


def _pad_starts(starts: NDArray[np.int64], before: Sequence[int], after: Sequence[int]) -> NDArray[np.int64]:
    """Return where lists begin after the members have grown: new nodes have empty lists."""
    if tuple(before) == tuple(after):
        return starts
    bases = _find_bases(before)
    parts = [starts[:1]]
    for number, grown in enumerate(np.subtract(after, before)):
        end = bases[number + 1]
        parts += [starts[bases[number] + 1 : end + 1], np.repeat(starts[end], grown)]
    return np.concatenate(parts)


def _move(positions: Ints, before: Sequence[int], after: Sequence[int]) -> Ints:
    """Return positions of a union after its members have grown."""
    if not len(before) or tuple(before[:-1]) == tuple(after[:-1]):
        return positions
    moved: Ints = positions.astype(choose_position_type(sum(after)))
    for base, grown in zip(_find_bases(before)[1:-1], np.subtract(after, before), strict=False):
        # All members after one that has grown move by as much.
        if grown:
            np.add(moved, grown, out=moved, where=positions >= base, casting="unsafe")
    return moved
