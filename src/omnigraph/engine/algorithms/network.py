"""The nodes of one type and the edges between them, as arrays: what every algorithm works on.

Nodes are numbered in the order of their ids, so that "the smallest" means the same here as anywhere else.
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

Nodes = NDArray[np.int64]
"""Numbers of nodes."""


@dataclass(frozen=True)
class Network:
    """`count` nodes, and edges by the nodes that they leave and enter; parallel edges and loops stand as they are."""

    count: int
    source: Nodes
    target: Nodes

    def simplify(self, check: Check) -> tuple[Nodes, Nodes]:
        """The pairs of different nodes with an edge between them, in whatever direction: each once, smaller first."""
        low, high = np.minimum(self.source, self.target), np.maximum(self.source, self.target)
        apart = low != high
        keys = find_distinct(low[apart].astype(np.int64) * self.count + high[apart], check)
        return keys // max(self.count, 1), keys % max(self.count, 1)


@dataclass(frozen=True)
class NamedNetwork:
    """A network, the ids of its nodes by their numbers, and which row of the type's table each is."""

    network: Network
    ids: pa.Array
    positions: NDArray[np.int64]
    """By node, its position in the table."""
    edges: NDArray[np.int64]
    """By edge of the network, its position in the edge table."""


def build_named_network(nodes: TableReader, topology: Topology, budget: Budget) -> NamedNetwork:
    """The network of an edge type whose both ends are of one node type."""
    living = nodes.get_positions()
    budget.claim(24 * nodes.size + 24 * len(topology.source), "the network")
    ids = nodes.take_values(ID, living, budget)
    order = np.empty(len(ids), np.int64)
    order[rank_distinct(ids, budget.check)] = np.arange(len(ids))
    positions = living[order]
    numbers = np.full(nodes.size, -1, np.int64)
    numbers[positions] = np.arange(len(positions))
    edges = np.flatnonzero(topology.source >= 0)
    network = Network(len(positions), numbers[topology.source[edges]], numbers[topology.target[edges]])
    return NamedNetwork(network, ids.take(pa.array(order)), positions, edges)
