"""Check constraints between tables: referential integrity of edges, and cardinality (`@card`)."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.commit.requirements import (
    CountsWithin,
    IdsAbsent,
    IdsPresent,
    Requirement,
    RowsUnchanged,
    ValuesAbsent,
    is_out_of_bounds,
)
from omnigraph.engine.constraints.candidate_state import CandidateState, CandidateTable
from omnigraph.engine.constraints.violations import ConstraintFindings, quote_value
from omnigraph.schema.arrow import DST, END_NAMES, ID, SRC
from omnigraph.schema.catalog import Catalog, EdgeType, NodeType
from omnigraph.storage.columnar_sets import Column, Positions, concat_chunks, find_positions, is_among
from omnigraph.storage.key_lookup import find_existing_ids, find_rows

NO_IDS = pa.array([], pa.string())


# --- ends --------------------------------------------------------------------------------------------


class EdgeEnd(NamedTuple):
    """One end of an edge: its column, its name in records and messages, and the node type there."""

    column: str
    name: str
    node: str


def list_ends(edge: EdgeType) -> tuple[EdgeEnd, EdgeEnd]:
    """Return both ends of an edge type."""
    return EdgeEnd(SRC, END_NAMES[SRC], edge.source), EdgeEnd(DST, END_NAMES[DST], edge.target)


def iter_edges_at(catalog: Catalog, node_name: str) -> Iterator[tuple[EdgeType, list[EdgeEnd]]]:
    """Yield each edge type that has nodes of a type at an end, with these ends."""
    for edge in catalog.edges.values():
        ends = [end for end in list_ends(edge) if end.node == node_name]
        if ends:
            yield edge, ends


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLookup:
    """The nodes of one type in a candidate state, as the ends of incoming edges see them."""

    table_key: str
    iter_outside: Callable[[Iterable[pa.Array]], Iterable[pa.Array]]
    """Return the distinct ids of each column that are not those of incoming nodes."""
    find_remaining: Callable[[pa.Array], pa.Array]
    """Return those of the ids that are of stored nodes which stay."""


def build_node_lookup(state: CandidateState, node_name: str) -> NodeLookup:
    """Return the nodes of a type after a write."""
    nodes = state.get_table(state.view.catalog.nodes[node_name])
    deleted = pa.array(nodes.deleted, pa.string())

    def exclude(ids: pa.Array, excluded: Column) -> pa.Array:
        return ids.filter(pa.array(~is_among(ids, excluded)))

    return NodeLookup(
        table_key=nodes.type.table_key,
        iter_outside=lambda columns: (exclude(column.unique(), nodes.rows.column(ID)) for column in columns),
        find_remaining=lambda ids: exclude(_find_seen_ids(nodes, ids), deleted),
    )


def _find_seen_ids(nodes: CandidateTable, ids: pa.Array) -> pa.Array:
    """Return those of the ids that are of stored nodes; to an edge, those that the writer does not see don't exist."""
    stored = nodes.find_committed_ids(ids)
    return stored if nodes.seen is nodes.table else find_existing_ids(nodes.seen, stored)


def find_missing_ends(
    edge: EdgeType, read: Callable[[Sequence[str]], Iterable[pa.Array]], find_nodes: Callable[[str], NodeLookup]
) -> tuple[list[tuple[EdgeEnd, pa.Array]], list[Requirement]]:
    """Return for each end the ids that will not be nodes, and the requirements of the others.

    `read` returns the values of some end columns in any number of parts. If both ends are of one type, its table is
    queried once for both, and the ids of both are returned for each.
    """
    missing: list[tuple[EdgeEnd, pa.Array]] = []
    requirements: list[Requirement] = []
    for node_name in dict.fromkeys((edge.source, edge.target)):
        ends = [end for end in list_ends(edge) if end.node == node_name]
        nodes = find_nodes(node_name)
        # Distinct per part first, so that repeated ends are not held until the final pass.
        parts = [ids for ids in nodes.iter_outside(read([end.column for end in ends])) if len(ids)]
        outside = pa.chunked_array(parts, pa.string()).unique()
        remaining = nodes.find_remaining(outside) if len(outside) else NO_IDS
        missing_ids = outside.filter(pa.array(~is_among(outside, remaining)))
        missing += [(end, missing_ids) for end in ends]
        # Another writer may delete these nodes before this write is published.
        if len(remaining):
            requirements.append(IdsPresent(table_key=nodes.table_key, ids=remaining))
    return missing, requirements


def check_endpoints(state: CandidateState, edge: EdgeType, findings: ConstraintFindings) -> None:
    """Check that both ends of every incoming edge are nodes."""
    rows = state.get_table(edge).rows
    if not rows.num_rows:
        return
    missing, requirements = find_missing_ends(
        edge,
        lambda columns: [concat_chunks(rows.column(column)) for column in columns],
        partial(build_node_lookup, state),
    )
    for end, missing_ids in missing:
        ids = rows.column(end.column).unique()
        for row_id in ids.filter(pa.array(is_among(ids, missing_ids))).to_pylist():
            findings.add("endpoint", edge.name, row_id, format_missing_endpoint(edge, end, row_id))
    findings.requirements += requirements


def format_missing_endpoint(edge: EdgeType, end: EdgeEnd, row_id: str) -> str:
    """Format the message about an edge whose end is not a node."""
    return f"{edge.name}.{end.name}: no {end.node} {quote_value(row_id)}"


def require_no_edges(edge: EdgeType, end: EdgeEnd, nodes: pa.Array, own_ids: Sequence[str] = ()) -> Requirement:
    """Return the requirement that no other writer adds an edge to a node that the write removes."""
    values = pa.table({end.column: nodes})
    return ValuesAbsent(table_key=edge.table_key, columns=(end.column,), values=values, own_ids=own_ids)


def require_no_new_edges(state: CandidateState, node: NodeType, findings: ConstraintFindings) -> None:
    """Require that no other writer adds an edge to a node deleted here; the cascade deletes only edges it saw."""
    deleted_nodes = pa.array(sorted(state.get_table(node).deleted), pa.string())
    if not len(deleted_nodes):
        return
    for edge, ends in iter_edges_at(state.view.catalog, node.name):
        deleted_edges = tuple(sorted(state.get_table(edge).deleted))
        findings.requirements += [require_no_edges(edge, end, deleted_nodes, deleted_edges) for end in ends]
        # The result reports the number of deleted edges: another writer must not delete one of them first.
        if deleted_edges:
            findings.requirements.append(IdsPresent(table_key=edge.table_key, ids=deleted_edges))


# --- cardinality -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeCounts:
    """The numbers of edges of some distinct sources in a candidate state."""

    edge: EdgeType
    sources: pa.Array
    stored: Positions
    """Numbers of stored edges."""
    added: Positions
    """Numbers of incoming edges; less those of the stored edges that they replace, unless `stored` leaves these out."""

    @property
    def total(self) -> Positions:
        """The numbers of edges after the write."""
        return self.stored + self.added

    def take(self, positions: Positions) -> "EdgeCounts":
        """Return the numbers of the sources at these positions."""
        sources = self.sources.take(pa.array(positions))
        return replace(self, sources=sources, stored=self.stored[positions], added=self.added[positions])

    def find_wrong(self) -> Positions:
        """Return the positions of the sources with too few or too many edges."""
        limits = self.edge.cardinality
        return np.flatnonzero(is_out_of_bounds(self.total, limits.low, limits.high))

    def format_violation(self, position: int) -> str:
        """Format the message about a source with too many or too few edges."""
        limits = self.edge.cardinality
        count = int(self.stored[position] + self.added[position])
        noun = "edge" if count == 1 else "edges"
        bound = f"min {limits.low}" if count < limits.low else f"max {limits.high}"
        source = quote_value(self.sources[position].as_py())
        return f"@card violation on {self.edge.name}: {source} has {count} {noun} ({bound})"

    def build_requirement(self, own_ids: pa.Array = NO_IDS) -> CountsWithin:
        """Return the requirement that the numbers stay allowed; stored edges with `own_ids` don't count."""
        return CountsWithin(
            table_key=self.edge.table_key,
            column=SRC,
            keys=self.sources,
            added=self.added,
            low=self.edge.cardinality.low,
            high=self.edge.cardinality.high,
            own_ids=own_ids,
        )


def count_per_source(values: Column, sources: pa.Array) -> Positions:
    """Count how often each of the distinct `sources` occurs in `values`."""
    positions = find_positions(values, sources)
    return np.bincount(positions[positions >= 0], minlength=len(sources)).astype(np.int64)


def check_cardinality(
    state: CandidateState, edge: EdgeType, findings: ConstraintFindings, suspects: pa.Array | None = None
) -> None:
    """Check `@card` for each existing source that gained or lost edges, is new, or is one of the `suspects`."""
    if not edge.cardinality.is_bounded:
        return
    edges = state.get_table(edge)
    nodes = state.get_table(state.view.catalog.nodes[edge.source])
    gained = concat_chunks(edges.rows.column(SRC))
    lost = _find_replaced_sources(edges, findings)
    # A new node without edges breaks only a minimum.
    new = concat_chunks(nodes.rows.column(ID)) if edge.cardinality.low > 0 else NO_IDS
    sources = pa.concat_arrays([gained, lost, new, NO_IDS if suspects is None else suspects]).unique()
    exists = is_among(sources, nodes.rows.column(ID)) | is_among(sources, _find_seen_ids(nodes, sources))
    exists &= ~is_among(sources, pa.array(nodes.deleted, pa.string()))
    sources = sources.filter(pa.array(exists))
    sources = sources.take(pc.sort_indices(sources))
    if not len(sources):
        return
    counts = EdgeCounts(
        edge=edge,
        sources=sources,
        stored=count_per_source(find_rows(edges.table, SRC, sources, [SRC]).column(SRC), sources),
        added=count_per_source(gained, sources) - count_per_source(lost, sources),
    )
    add_count_violations(counts, findings)
    findings.requirements.append(counts.build_requirement())


def add_count_violations(counts: EdgeCounts, findings: ConstraintFindings) -> None:
    """Add a violation for each source with too many or too few edges."""
    for position in counts.find_wrong().tolist():
        source = counts.sources[position].as_py()
        findings.add("card", counts.edge.name, source, counts.format_violation(position))


def _find_replaced_sources(edges: CandidateTable, findings: ConstraintFindings) -> pa.Array:
    """Return the sources of stored edges that are replaced or deleted, and require that these stay unchanged."""
    key = edges.type.table_key
    touched = edges.replaced_ids
    if not len(touched):
        return touched
    replaced = edges.known.fetch_rows(touched, [ID, SRC])
    existing = concat_chunks(replaced.column(ID))
    # The counts subtract exactly these edges: none may move to another source, and no further one may appear.
    findings.requirements.append(RowsUnchanged(table_key=key, ids=existing))
    absent = touched.filter(pa.array(~is_among(touched, existing)))
    if len(absent):
        findings.requirements.append(IdsAbsent(table_key=key, ids=absent))
    return concat_chunks(replaced.column(SRC))
