"""The nodes of one type and the edges between them as arrays, the input of all algorithms.

Nodes are numbered in the order of their ids, so that the smallest number is also the smallest id.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.engine.kernels import Check, find_distinct, rank_distinct
from omnigraph.engine.query_budget import Budget
from omnigraph.engine.tables.table_reader import TableReader
from omnigraph.engine.tables.topology import Topology
from omnigraph.schema.arrow import ID

# Node numbers.
Nodes = NDArray[np.int64]


@dataclass(frozen=True)
class Network:
    """`count` nodes, and the source and target node of each edge; parallel edges and loops are included."""

    count: int
    source: Nodes
    target: Nodes

    def simplify(self, check: Check) -> tuple[Nodes, Nodes]:
        """Return the pairs of different nodes that an edge connects in any direction: each once, smaller node first."""
        low = np.minimum(self.source, self.target)
        high = np.maximum(self.source, self.target)
        is_pair = low != high
        keys = find_distinct(low[is_pair].astype(np.int64) * self.count + high[is_pair], check)
        return keys // max(self.count, 1), keys % max(self.count, 1)


@dataclass(frozen=True)
class NamedNetwork:
    """A network with the ids of its nodes, and the table positions of its nodes and edges."""

    network: Network
    ids: pa.Array
    positions: NDArray[np.int64]
    """The position of each node in its table."""
    edges: NDArray[np.int64]
    """The position of each edge in its table."""


def build_named_network(nodes: TableReader, topology: Topology, budget: Budget) -> NamedNetwork:
    """Build the network of an edge type with the same node type at both ends."""
    live = nodes.get_positions()
    # Three arrays of 8 bytes each for nodes (order, positions, numbers) and for edges (positions, source, target).
    budget.claim(24 * nodes.size + 24 * len(topology.source), "the network")
    ids = nodes.take_values(ID, live, budget)
    order = np.empty(len(ids), np.int64)
    order[rank_distinct(ids, budget.check)] = np.arange(len(ids))
    positions = live[order]
    numbers = np.full(nodes.size, -1, np.int64)
    numbers[positions] = np.arange(len(positions))
    edges = np.flatnonzero(topology.source >= 0)  # -1 marks a deleted edge
    network = Network(len(positions), numbers[topology.source[edges]], numbers[topology.target[edges]])
    return NamedNetwork(network, ids.take(pa.array(order)), positions, edges)
