"""A graph of nodes and edges that changes by random commits, for the tests of topologies."""

from random import Random

import numpy as np
import pyarrow as pa

from omnigraph.engine.tables.graph_cache import GraphCache
from omnigraph.engine.tables.topology import Topology
from omnigraph.engine.view import View
from omnigraph.ops.session import Session
from omnigraph.ops.write_tables import TableWrite, write_tables
from row_worlds import EDGES, IDS, NODES, budget, live_rows, table_of, view_of, write

Edges = dict[str, tuple[str, str]]


def edge_table(edges: Edges) -> pa.Table:
    columns = {"id": list(edges), "src": [s for s, _ in edges.values()], "dst": [d for _, d in edges.values()]}
    table = pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})
    return table.append_column("weight", pa.nulls(len(edges), pa.int64()))


class Past:
    """A graph of nodes and edges that changes by random commits, and what it should hold."""

    def __init__(self, session: Session, seed: int) -> None:
        self.session, self.random = session, Random(seed)
        self.nodes: set[str] = set()
        self.edges: Edges = {}
        self._next = 0

    def step(self) -> None:
        kind = self.random.choice(["nodes", "edges", "edges", "rewrite", "move", "cut", "remove"])
        absent = [row_id for row_id in IDS if row_id not in self.nodes]
        if kind == "nodes" and absent:
            new = self.random.sample(absent, self.random.randint(1, len(absent)))
            write(self.session, NODES, append=table_of(self.session, live_rows(self.random, new)))
            self.nodes.update(new)
        elif kind == "edges" and self.nodes:
            new_edges = {self._edge_id(): self._pair() for _ in range(self.random.randint(1, 12))}
            write(self.session, EDGES, append=edge_table(new_edges))
            self.edges.update(new_edges)
        elif kind == "rewrite" and self.nodes:  # the rows move, their ids stay
            some = self.random.sample(sorted(self.nodes), self.random.randint(1, len(self.nodes)))
            write(self.session, NODES, upsert=table_of(self.session, live_rows(self.random, some)))
        elif kind == "move" and self.edges:
            moved = {edge_id: self._pair() for edge_id in self.random.sample(sorted(self.edges), 1)}
            write(self.session, EDGES, upsert=edge_table(moved))
            self.edges.update(moved)
        elif kind == "cut" and self.edges:
            gone = self.random.sample(sorted(self.edges), self.random.randint(1, len(self.edges)))
            write(self.session, EDGES, delete=gone)
            self.edges = {edge_id: pair for edge_id, pair in self.edges.items() if edge_id not in gone}
        elif kind == "remove" and self.nodes:
            self._remove(self.random.choice(sorted(self.nodes)))

    def _remove(self, node: str) -> None:
        hanging = [edge_id for edge_id, pair in self.edges.items() if node in pair]
        writes = [TableWrite(table_key=NODES, delete=[node])]
        if hanging:
            writes.append(TableWrite(table_key=EDGES, delete=hanging))
        write_tables(self.session, writes, operation="w", actor="test")
        self.nodes.remove(node)
        self.edges = {edge_id: pair for edge_id, pair in self.edges.items() if node not in pair}

    def _edge_id(self) -> str:
        self._next += 1
        return f"e{self._next}"

    def _pair(self) -> tuple[str, str]:
        first, second = self.random.choices(sorted(self.nodes), k=2)
        return first, second


def topology_of(session: Session, cache: GraphCache | None = None, view: View | None = None) -> Topology:
    seen = view or view_of(session)
    return (cache or session.reads).get_topology(seen, seen.catalog.edges["E"], budget())


def assert_equal(found: Topology, expected: Topology) -> None:
    for name in ("source", "target"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    for name in ("get_out_csr", "get_in_csr", "get_out_set_csr", "get_in_set_csr"):
        for array, other in zip(getattr(found, name)().arrays, getattr(expected, name)().arrays, strict=True):
            np.testing.assert_array_equal(array, other)
