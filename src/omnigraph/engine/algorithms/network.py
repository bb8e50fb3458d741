"""Nodes and the edges between them as arrays, the input of all algorithms.

Nodes are numbered by type, and in the order of their ids, so that the smallest number is also the smallest id.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.engine.kernels import Check, argsort_stable, expand_runs, find_distinct, rank_distinct
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
class NodePart:
    """The nodes of one type in a network: their numbers start at `start` and ascend with their ids."""

    type: str
    start: int
    ids: pa.Array
    positions: NDArray[np.int64]
    """The position of each node in its table."""


@dataclass(frozen=True)
class NamedNetwork:
    """A network with the ids of its nodes, by type, and the table positions of its edges."""

    network: Network
    parts: tuple[NodePart, ...]
    edges: tuple[NDArray[np.int64], ...]
    """Of each edge type, the position of each edge in its table."""

    @property
    def ids(self) -> pa.Array:
        """The id of each node."""
        return pa.concat_arrays([part.ids for part in self.parts])

    @property
    def names(self) -> pa.Array:
        """What tells nodes apart: the id, and before it, if there are several types, the type: `Person/ada`."""
        if len(self.parts) == 1:
            return self.parts[0].ids
        return pa.concat_arrays([pc.binary_join_element_wise(part.type, part.ids, "/") for part in self.parts])

    @property
    def types(self) -> pa.Array:
        """The type of each node."""
        return pa.concat_arrays([pa.repeat(part.type, len(part.ids)) for part in self.parts])


def build_named_network(
    nodes: Mapping[str, TableReader], edges: Sequence[tuple[str, str, Topology]], budget: Budget
) -> NamedNetwork:
    """Build the network of some edge types, each given by the node types at its ends, which `nodes` holds."""
    # Three arrays of 8 bytes each for nodes (order, positions, numbers) and for edges (positions, source, target).
    size = sum(reader.size for reader in nodes.values())
    budget.claim(24 * size + 24 * sum(len(topology.source) for _, _, topology in edges), "the network")
    parts: list[NodePart] = []
    numbers: dict[str, Nodes] = {}
    count = 0
    for name, reader in nodes.items():
        live = reader.get_positions()
        ids = reader.take_values(ID, live, budget)
        order = np.empty(len(ids), np.int64)
        order[rank_distinct(ids, budget.check)] = np.arange(len(ids))
        positions = live[order]
        numbers[name] = np.full(reader.size, -1, np.int64)
        numbers[name][positions] = np.arange(count, count + len(positions))
        parts.append(NodePart(name, count, ids.take(pa.array(order)), positions))
        count += len(positions)
    rows = [np.flatnonzero(topology.source >= 0) for _, _, topology in edges]  # -1 marks a deleted edge
    pairs = list(zip(edges, rows, strict=True))
    source = np.concatenate([numbers[name][topology.source[row]] for (name, _, topology), row in pairs])
    target = np.concatenate([numbers[name][topology.target[row]] for (_, name, topology), row in pairs])
    return NamedNetwork(Network(count, source, target), tuple(parts), tuple(rows))


class Direction(Enum):
    """The direction in which edges are followed."""

    OUT = "out"
    IN = "in"
    BOTH = "both"


def orient_edges(network: Network, direction: Direction) -> tuple[Nodes, Nodes]:
    """Return where each edge comes from and leads to when followed in a direction; twice as many for both."""
    source, target = network.source, network.target
    match direction:
        case Direction.OUT:
            return source, target
        case Direction.IN:
            return target, source
        case Direction.BOTH:
            return np.concatenate((source, target)), np.concatenate((target, source))


@dataclass(frozen=True, slots=True)
class Lists:
    """Adjacency in CSR form: node `n` leads to `far[starts[n] : starts[n + 1]]`."""

    starts: Nodes
    far: Nodes
    order: Nodes
    """The edge at each place of `far`."""

    def expand(self, nodes: Nodes) -> Nodes:
        """Return the places of the lists of some nodes, one list after the other."""
        return expand_runs(self.starts[nodes], self.starts[nodes + 1] - self.starts[nodes])

    def repeat(self, nodes: Nodes) -> Nodes:
        """Return each of some nodes as often as its list is long: where the edges of `expand` come from."""
        return np.repeat(nodes, self.starts[nodes + 1] - self.starts[nodes])


def build_lists(from_: Nodes, to: Nodes, count: int, check: Check) -> Lists:
    """Return edges as lists of their sources; the edges of a list keep their order."""
    order = argsort_stable(from_, check)
    starts = np.concatenate(([0], np.cumsum(np.bincount(from_, minlength=count))))
    return Lists(starts.astype(np.int64), to[order], order)


def sort_edges(
    network: Network, weights: NDArray[np.float64] | None, check: Check
) -> tuple[Network, NDArray[np.float64] | None]:
    """Return the same edges in the order of their ends and weights, which follows from what they are alone."""
    keys = network.source.astype(np.int64) * max(network.count, 1) + network.target
    order = argsort_stable(keys, check) if weights is None else np.lexsort((weights, keys))
    check()
    network = Network(network.count, network.source[order], network.target[order])
    return network, None if weights is None else weights[order]


def sum_by_key(keys: Nodes, weights: NDArray[np.float64], check: Check) -> tuple[Nodes, NDArray[np.float64]]:
    """Return the distinct keys in ascending order, and the sum of the weights of each."""
    if not len(keys):
        return keys, weights
    order = argsort_stable(keys, check)
    ordered = keys[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    return ordered[starts], np.add.reduceat(weights[order], starts)


def peel(lists: Lists, degrees: Nodes, check: Check) -> Iterator[Nodes]:
    """Yield the nodes without incoming edges, then those left without any after these are taken away, and so on.

    `degrees` has the number of incoming edges of each node, and after that of those that were never taken away.
    """
    frontier = np.flatnonzero(degrees == 0)
    while len(frontier):
        check()
        yield frontier
        nodes, drops = np.unique(lists.far[lists.expand(frontier)], return_counts=True)
        degrees[nodes] -= drops
        frontier = nodes[degrees[nodes] == 0]


def hash_numbers(numbers: Nodes, seed: int) -> NDArray[np.uint64]:
    """Return a number for each number that looks random, and is the same on every machine (SplitMix64)."""
    with np.errstate(over="ignore"):
        mixed = numbers.astype(np.uint64) + np.uint64(seed % 2**64) * np.uint64(0xD1342543DE82EF95)
        mixed += np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return mixed ^ (mixed >> np.uint64(31))
