"""Neighbour lists as arrays, and the one gather that every hop is made of."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.bindings import Positions


@dataclass(frozen=True, slots=True)
class AdjacencyLists:
    """The neighbours of nodes; those of one node stand together and ascend.

    `sources` are the nodes that have a list, ascending; None: every position has one, at its own place.
    """

    starts: NDArray[np.int64]
    targets: Positions
    edges: Positions | None = None
    sources: Positions | None = None

    def find_lists(self, positions: Positions) -> Positions:
        """Where the lists of these nodes are; each must have one."""
        return positions if self.sources is None else np.searchsorted(self.sources, positions)

    def count_neighbours(self, positions: Positions) -> NDArray[np.int64]:
        """How many neighbours each of these nodes has."""
        places = self.find_lists(positions)
        found = self.starts.take(places + 1)
        found -= self.starts.take(places)
        return found

    def gather(self, positions: Positions) -> "GatheredEdges":
        """The lists of these nodes, one behind the other."""
        places = self.find_lists(positions)
        begins = self.starts.take(places)
        counts = self.starts.take(places + 1)
        counts -= begins
        if len(places) == 1:
            run = slice(int(begins[0]), int(begins[0] + counts[0]))
            return GatheredEdges(
                counts, _freeze(self.targets[run]), None if self.edges is None else _freeze(self.edges[run])
            )
        ends = np.cumsum(counts)
        total = int(ends[-1]) if len(ends) else 0
        if total == len(self.targets) and _is_ascending(places):
            # every list, in its place
            return GatheredEdges(
                counts, _freeze(self.targets[:]), None if self.edges is None else _freeze(self.edges[:])
            )
        if total == len(places) and (counts == 1).all():
            at = begins
        else:
            begins -= ends
            begins += counts
            at = np.repeat(begins, counts)
            at += np.arange(total)
        return GatheredEdges(counts, self.targets.take(at), None if self.edges is None else self.edges.take(at))

    def count_all(self, size: int) -> NDArray[np.int64]:
        """How many neighbours each of `size` nodes has; every position has a list."""
        return np.diff(self.starts[: size + 1])


@dataclass(frozen=True, slots=True)
class GatheredEdges:
    """Lists of several nodes: how long each is, and the neighbours of all."""

    counts: NDArray[np.int64]
    targets: Positions
    edges: Positions | None = None

    def repeat_rows(self) -> NDArray[np.int64]:
        """For each neighbour, the number of the row whose list it is in."""
        return np.repeat(np.arange(len(self.counts)), self.counts)

    def filter(self, mask: NDArray[np.bool_]) -> "GatheredEdges":
        """Only the neighbours that pass."""
        ends = np.cumsum(self.counts)
        passed = np.zeros(len(mask) + 1, np.int64)
        np.cumsum(mask, out=passed[1:])
        counts = passed[ends] - passed[ends - self.counts]
        return GatheredEdges(counts, self.targets[mask], None if self.edges is None else self.edges[mask])


def build_lists(
    sources: Positions, places: Positions, targets: Positions, edges: Positions | None, *, is_set: bool
) -> AdjacencyLists:
    """Lists of `sources`, which ascend, made of single neighbours; `places` says whose each one is.

    With `is_set`, a neighbour stands once in a list.
    """
    order = np.lexsort((targets, places)) if edges is None else np.lexsort((edges, targets, places))
    places, targets = places[order], targets[order]
    edges = None if edges is None else edges[order]
    if is_set and len(places):
        is_first = np.ones(len(places), np.bool_)
        is_first[1:] = (places[1:] != places[:-1]) | (targets[1:] != targets[:-1])
        places, targets = places[is_first], targets[is_first]
        edges = None
    starts = np.zeros(len(sources) + 1, np.int64)
    np.cumsum(np.bincount(places, minlength=len(sources)), out=starts[1:])
    return AdjacencyLists(starts, targets, edges, sources)


def merge_directions(a: AdjacencyLists, b: AdjacencyLists) -> AdjacencyLists:
    """The lists of two directions as one; what stands in both stands once. Both have the same sources."""
    count = len(a.starts) - 1
    places = np.concatenate([np.repeat(np.arange(count), np.diff(side.starts)) for side in (a, b)])
    targets = np.concatenate([a.targets, b.targets])
    if a.edges is None or b.edges is None:
        found = build_lists(np.arange(count), places, targets, None, is_set=True)
        return AdjacencyLists(found.starts, found.targets, None, a.sources)
    edges = np.concatenate([a.edges, b.edges])
    is_loop_again = np.zeros(len(places), np.bool_)
    nodes = places if a.sources is None else a.sources[places]
    is_loop_again[len(a.targets) :] = targets[len(a.targets) :] == nodes[len(a.targets) :]
    kept = ~is_loop_again  # an edge from a node to itself is the same edge in both directions
    found = build_lists(np.arange(count), places[kept], targets[kept], edges[kept], is_set=False)
    return AdjacencyLists(found.starts, found.targets, found.edges, a.sources)


def _freeze(view: Positions) -> Positions:
    """A part of what all queries share, so that nobody writes to it."""
    view.flags.writeable = False
    return view


def _is_ascending(places: Positions) -> bool:
    return bool((places[1:] > places[:-1]).all())
