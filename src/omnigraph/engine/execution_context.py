"""The execution context of one read: its snapshot, parameters, budget and caches."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import pyarrow as pa

from omnigraph.engine.bindings import Positions
from omnigraph.engine.cut_off import CutOff
from omnigraph.engine.physical_plan import Link
from omnigraph.engine.query_budget import Budget
from omnigraph.engine.query_inputs import QueryInputs
from omnigraph.engine.query_profile import QueryProfile
from omnigraph.engine.query_progress import ReportProgress
from omnigraph.engine.tables.graph_cache import GraphCache
from omnigraph.engine.tables.table_reader import TableReader
from omnigraph.engine.tables.topology import Topology
from omnigraph.engine.tables.union_reader import UnionReader
from omnigraph.engine.value_store import NO_POSITION, ValueStore, evaluate_bound
from omnigraph.engine.view import View
from omnigraph.errors import SettingsError
from omnigraph.options import RerankOptions, Traversal
from omnigraph.query.union_types import find_table_type, is_union, list_members
from omnigraph.schema.catalog import Catalog, EdgeType, Property
from omnigraph.storage.arrow_buffers import fill_nulls
from omnigraph.storage.columnar_sets import concat_chunks

# Embeds a text for a Vector property: with its size, by the model that its `@embed` names.
Embed: TypeAlias = Callable[[str, Property], Sequence[float]]


def refuse_embedding(text: str, property: Property) -> Sequence[float]:  # noqa: ARG001 - it refuses every text
    """Reject every text, as the provider of a graph that has none.

    Raises:
        SettingsError: Always.
    """
    raise SettingsError.no_embedding_provider(property.name, "give a vector")


def refuse_reranking(query: str, texts: Sequence[str]) -> Sequence[float]:  # noqa: ARG001 - it refuses every text
    """Reject every call, as a graph without a reranker.

    Raises:
        SettingsError: Always.
    """
    raise SettingsError.no_reranker()


@dataclass(frozen=True, slots=True)
class RerankTexts:
    """The judge of texts of one query: it returns one score per text, a larger one for a more relevant text."""

    judge: Callable[[str, Sequence[str]], Sequence[float]] = refuse_reranking
    max_texts: int = RerankOptions().max_texts
    """The maximum number of texts that the query may have judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionContext:
    """The state that all steps of one query run share; steps read nothing else from outside."""

    view: View
    inputs: QueryInputs
    budget: Budget
    cache: GraphCache
    traversal: Traversal = Traversal.AUTO
    embed: Embed = refuse_embedding
    rerank: RerankTexts = RerankTexts()
    profile: QueryProfile | None = None
    progress: ReportProgress | None = None
    """Called with the progress of a query that runs in DuckDB."""
    notes: tuple[str, ...] = ()
    """What the text of the query gave reason to say about the result."""
    values: ValueStore = field(default_factory=ValueStore, repr=False, compare=False)
    # By the text of a hop over several edges, whether its upper bound left nodes unreached.
    cut_offs: dict[str, CutOff] = field(default_factory=dict, repr=False, compare=False)
    # By vector property, the lowest expected recall of its searches by an index; None if all were exact.
    recalls: dict[str, float | None] = field(default_factory=dict, repr=False, compare=False)
    _readers: dict[str, TableReader] = field(default_factory=dict, init=False, repr=False, compare=False)
    _topologies: dict[str, Topology] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # What is derived from rows is cached by keys that need not name the rows left out.
        object.__setattr__(self, "cache", self.cache.select_realm(self.view))

    @property
    def catalog(self) -> Catalog:
        """The catalog of the state that is read."""
        return self.view.catalog

    def get_reader(self, type_name: str) -> TableReader:
        """Return the reader of a node or edge type, or of a union of types."""
        reader = self._readers.get(type_name)
        if reader is None:
            if is_union(type_name):
                members = [self.get_reader(member) for member in list_members(type_name)]
                reader = UnionReader(find_table_type(self.view.catalog, type_name), members)
            else:
                reader = self.cache.get_reader(self.view, self.view.get_type(type_name))
            self._readers[type_name] = reader
        return reader

    def take_values(self, type_name: str, column: str, at: Positions) -> pa.Array:
        """Return the values of a column at positions of a type's table; null where there is no position."""
        reader = self.get_reader(type_name)
        return evaluate_bound(at, lambda bound: reader.take_values(column, bound, self.budget))

    def view_run(self, type_name: str, column: str, start: int, count: int) -> pa.Array | None:
        """Return the values of rows that follow each other, without a copy; None if they are not in memory."""
        return self.get_reader(type_name).view_run(column, start, count)

    def take_at(self, type_name: str, column: str, at: pa.Array | pa.ChunkedArray) -> pa.Array:
        """Return the same as `take_values`, at positions that are a column of values, null where there is none."""
        return self.take_values(type_name, column, fill_nulls(concat_chunks(at), NO_POSITION))

    def get_topology(self, edge_name: str) -> Topology:
        """Return the adjacency of an edge type; build and cache it if it is not in memory yet."""
        # One reference per query, dropped by `release`; the shared cache may evict its own entry at any time.
        topology = self._topologies.get(edge_name)
        if topology is None:
            topology = self.cache.get_topology(self.view, self.get_edge_type(edge_name), self.budget)
            self._topologies[edge_name] = topology
        return topology

    def get_cut_off(self, link: Link) -> CutOff:
        """Return where the searches of a hop note that its upper bound left nodes unreached."""
        # One edge is no traversal that a bound could end, and without a bound nothing is cut off.
        is_looked_for = link.high is not None and link.high > 1
        edges = link.edge
        if is_union(link.edge):
            # Of all edge types, as `*` has them, no name is worth listing.
            is_any = len(list_members(link.edge)) == len(self.view.catalog.edges)
            edges = "*" if is_any else f"({link.edge})"
        text = f"{edges}{{{link.low},{link.high}}}"
        return self.cut_offs.setdefault(text, CutOff(is_looked_for))

    def list_notes(self) -> tuple[str, ...]:
        """Return what the caller should know about the result, in the order of the plan."""
        cut_offs = (
            f"{text} stopped at its upper bound: more nodes are reachable over more edges"
            for text, cut_off in self.cut_offs.items()
            if cut_off.is_found
        )
        return (*self.notes, *cut_offs, *self.list_searches())

    def list_searches(self) -> tuple[str, ...]:
        """Return, for each vector property with an index that was searched, whether that was exact."""
        return tuple(
            f"nearest of {name} is {'exact' if recall is None else f'approximate: expected recall {recall:.3f}'}"
            for name, recall in self.recalls.items()
        )

    def note_search(self, name: str, recall: float | None) -> None:
        """Record that a property with a vector index was searched with this expected recall, or exactly."""
        recalls = [value for value in (self.recalls.get(name), recall) if value is not None]
        self.recalls[name] = min(recalls, default=None)

    def release(self) -> None:
        """Release all adjacency once the pattern is solved: the rows of the result may be fetched much later."""
        self._topologies.clear()

    def has_topology(self, edge_name: str) -> bool:
        """Return whether `get_topology` is cheap, for all members of a union: in memory, or in the derived cache."""
        return all(self.cache.has_topology(self.view, self.get_edge_type(member)) for member in list_members(edge_name))

    def get_edge_type(self, name: str) -> EdgeType:
        """Return the edge type with exactly this name."""
        return self.view.catalog.edges[name]
