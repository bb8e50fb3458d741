"""Small random multigraphs with self-loops, parallel edges and nodes without edges, as plain pairs and as lists."""

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from omnigraph.engine.operators.neighbour_lists import AdjacencyLists, merge_directions
from omnigraph.engine.tables.csr import build_csr, collapse_parallel_edges

Pair = tuple[int, int]


@dataclass(frozen=True)
class Multigraph:
    """Nodes 0 … size - 1, and edges by their places."""

    size: int
    edges: tuple[Pair, ...]

    def steps(self, *, is_directed: bool = True) -> dict[int, set[int]]:
        """The neighbours of each node."""
        found: dict[int, set[int]] = {node: set() for node in range(self.size)}
        for source, target in self.edges:
            found[source].add(target)
            if not is_directed:
                found[target].add(source)
        return found

    def out(self) -> AdjacencyLists:
        """Every edge, from its source."""
        ends = np.array(self.edges, np.int32).reshape(-1, 2)
        lists = build_csr(ends[:, 0], ends[:, 1], self.size, self.size)
        return AdjacencyLists(lists.starts, lists.targets, lists.edges)

    def into(self) -> AdjacencyLists:
        """Every edge, from its target."""
        return Multigraph(self.size, tuple((b, a) for a, b in self.edges)).out()

    def out_set(self) -> AdjacencyLists:
        """Each target once."""
        ends = np.array(self.edges, np.int32).reshape(-1, 2)
        lists = collapse_parallel_edges(build_csr(ends[:, 0], ends[:, 1], self.size, self.size))
        return AdjacencyLists(lists.starts, lists.targets)

    def both_set(self) -> AdjacencyLists:
        """Each neighbour once, whichever way the edge runs."""
        backwards = Multigraph(self.size, tuple((b, a) for a, b in self.edges))
        return merge_directions(self.out_set(), backwards.out_set())


def multigraphs(max_size: int = 6, max_edges: int = 14) -> st.SearchStrategy[Multigraph]:
    """Any of them."""

    def of(size: int) -> st.SearchStrategy[Multigraph]:
        node = st.integers(0, size - 1)
        edges = st.lists(st.tuples(node, node), max_size=max_edges)
        return edges.map(lambda pairs: Multigraph(size, tuple(pairs)))

    return st.integers(1, max_size).flatmap(of)
