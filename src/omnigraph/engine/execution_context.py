"""Everything one read works with: a snapshot, what the query was given, what it may use."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from omnigraph.engine.embed import NoProviderError
from omnigraph.engine.predicate_eval import QueryInputs
from omnigraph.engine.query_budget import Budget
from omnigraph.engine.query_profile import QueryProfile
from omnigraph.engine.tables.graph_cache import GraphCache
from omnigraph.engine.tables.table_reader import TableReader
from omnigraph.engine.tables.topology import Topology
from omnigraph.engine.view import View
from omnigraph.options import Traversal
from omnigraph.schema.catalog import EdgeType, Property

Embed: TypeAlias = Callable[[str, Property], Sequence[float]]
"""Turns a text into a vector of a Vector property: its size, by the model that its `@embed` names."""


def refuse_embedding(text: str, property: Property) -> Sequence[float]:  # noqa: ARG001 - it refuses every text
    """The provider of a graph that has none."""
    raise NoProviderError(property.name, "give a vector")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionContext:
    """One run of one query. Every part of a read is given it, and nothing else from outside."""

    view: View
    inputs: QueryInputs
    budget: Budget
    cache: GraphCache
    traversal: Traversal = Traversal.AUTO
    embed: Embed = refuse_embedding
    profile: QueryProfile | None = None
    _readers: dict[str, TableReader] = field(default_factory=dict, init=False, repr=False, compare=False)
    _topologies: dict[str, Topology] = field(default_factory=dict, init=False, repr=False, compare=False)

    def get_reader(self, type_name: str) -> TableReader:
        """The rows of a node or edge type."""
        found = self._readers.get(type_name)
        if found is None:
            found = self._readers[type_name] = self.cache.get_reader(self.view, self.view.get_type(type_name))
        return found

    def get_topology(self, edge_name: str) -> Topology:
        """The adjacency of an edge type; made and kept when it is not in memory yet."""
        found = self._topologies.get(edge_name)
        if found is None:
            found = self._topologies[edge_name] = self.cache.get_topology(
                self.view, self.get_edge_type(edge_name), self.budget
            )
        return found

    def release(self) -> None:
        """Hold no adjacency any longer, now that the pattern is solved: rows may be fetched much later."""
        self._topologies.clear()

    def has_topology(self, edge_name: str) -> bool:
        """Whether `topology` is cheap now."""
        return self.cache.has_topology(self.view, self.get_edge_type(edge_name))

    def get_edge_type(self, name: str) -> EdgeType:
        """The edge type of exactly that name."""
        return self.view.catalog.edges[name]
