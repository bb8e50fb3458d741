"""Walks as arrays: the nodes and edges of all walks, concatenated, with the length of each."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.bindings import Positions

Ints = Positions
# The total weight of each walk: integers if the weights are, else floats.
Costs = NDArray[np.number[Any]]


@dataclass(frozen=True, slots=True)
class WalkList:
    """Walks in CSR form: walk i has `lengths[i]` edges and one node more; all positions are concatenated."""

    lengths: Ints
    nodes: Positions
    edges: Positions
    costs: Costs | None = None

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def nbytes(self) -> int:
        """The size in memory."""
        costs = 0 if self.costs is None else self.costs.nbytes
        return int(self.lengths.nbytes + self.nodes.nbytes + self.edges.nbytes + costs)

    @property
    def edge_starts(self) -> Ints:
        """Where the edges of each walk begin, and where the last ones end."""
        starts = np.zeros(len(self.lengths) + 1, np.int64)
        np.cumsum(self.lengths, out=starts[1:])
        return starts

    @property
    def node_starts(self) -> Ints:
        """Where the nodes of each walk begin, and where the last ones end."""
        return self.edge_starts + np.arange(len(self.lengths) + 1)

    @property
    def first_nodes(self) -> Positions:
        """The node at which each walk begins."""
        return self.nodes[self.node_starts[:-1]]

    @property
    def last_nodes(self) -> Positions:
        """The node at which each walk ends."""
        return self.nodes[self.node_starts[1:] - 1]

    def take(self, at: Positions) -> "WalkList":
        """Return some of the walks, by number."""
        lengths = self.lengths[at]
        nodes = self.nodes[concat_ranges(self.node_starts[at], lengths + 1)]
        edges = self.edges[concat_ranges(self.edge_starts[at], lengths)]
        return WalkList(lengths, nodes, edges, None if self.costs is None else self.costs[at])


def concat_ranges(starts: Ints, counts: Ints) -> Ints:
    """Return the numbers of all ranges, concatenated; range i has `counts[i]` numbers from `starts[i]` on."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(starts - ends + counts, counts) + np.arange(total)


def build_walks(nodes: Positions, edges: Positions, costs: Costs | None = None) -> WalkList:
    """Build walks of one length from matrices: a row for each walk, with one column more for nodes than for edges."""
    lengths = np.full(len(nodes), edges.shape[1], np.int64)
    return WalkList(lengths, nodes.reshape(-1), edges.reshape(-1), costs)


def concat_walks(parts: Sequence[WalkList]) -> WalkList:
    """Return the walks of all parts, in order."""
    if len(parts) == 1:
        return parts[0]
    costs = [part.costs for part in parts if part.costs is not None and len(part)]
    none = np.zeros(0, np.int64)
    return WalkList(
        np.concatenate([none, *(part.lengths for part in parts)]),
        np.concatenate([none, *(part.nodes for part in parts)]),
        np.concatenate([none, *(part.edges for part in parts)]),
        np.concatenate(costs) if costs else None,
    )


NO_WALKS = WalkList(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64))
