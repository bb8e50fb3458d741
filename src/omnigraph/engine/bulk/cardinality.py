"""`@card` over all rows of a load: each source that exists has as many edges as its type allows."""

from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from omnigraph.commit.requirements import CountsWithin, Requirement
from omnigraph.engine.bulk.load_batch import LoadBatch, LoadMode, TypeBatch
from omnigraph.engine.bulk.load_errors import GlobalProblem, RejectedRows
from omnigraph.engine.writing.relations import count_per_source, format_cardinality
from omnigraph.engine.writing.violations import format_row_value
from omnigraph.schema.arrow import ID, SRC
from omnigraph.schema.catalog import EdgeType
from omnigraph.storage.columnar_sets import Mask, Positions, concat_chunks, find_positions, is_among, rank_in_groups
from omnigraph.storage.key_lookup import find_rows

_NO_IDS = pa.array([], pa.string())


@dataclass(frozen=True, slots=True, kw_only=True)
class _EdgeCounts:
    """The sources whose edges may be too few or too many, and how many they have."""

    sources: pa.Array
    committed: Positions
    """Committed edges that this load does not replace."""
    loaded: Positions
    """Edges of the load."""

    @property
    def total(self) -> Positions:
        return self.committed + self.loaded


@dataclass(frozen=True, slots=True, kw_only=True)
class _LoadedEdges:
    """The edges of a load that are not out: where they start, and where the edges that they replace did."""

    rows: TypeBatch | None
    positions: Positions
    sources: pa.Array
    is_replacing: Mask
    """Which of them replace a committed edge."""
    previous_sources: pa.Array
    """For those, the sources of the committed edges."""


def check_cardinality(batch: LoadBatch, edge: EdgeType) -> list[Requirement]:
    """Refuse the last of too many edges, and new nodes with too few; what the others rely on."""
    limits = edge.cardinality
    rows, nodes = batch.types.get(edge.name), batch.types.get(edge.source)
    if rows is None and (nodes is None or not limits.low):
        return []
    if limits.low == 0 and limits.high is None:
        return []
    edges = _collect_edges(rows)
    counts = _count_edges(batch, edge, edges, _find_affected_sources(batch, edge, edges))
    out = batch.excluded_rows
    if limits.high is not None and rows is not None:
        _refuse_surplus(batch, edge, edges, counts, limits.high)
    if limits.low and batch.excluded_rows == out:  # else everything is counted again, without what was refused
        _refuse_bare(batch, edge, edges, counts)
    if (rows is not None and rows.replaces_all) or not len(counts.sources):
        return []  # nobody else may change the table at all
    return [
        CountsWithin(
            table_key=edge.table_key,
            column=SRC,
            keys=counts.sources,
            added=counts.loaded,
            low=limits.low,
            high=limits.high,
            own_ids=_NO_IDS if rows is None else rows.find_superseding_ids(),
        )
    ]


def _collect_edges(rows: TypeBatch | None) -> _LoadedEdges:
    if rows is None:
        nothing = np.empty(0, np.int64)
        return _LoadedEdges(
            rows=None,
            positions=nothing,
            sources=_NO_IDS,
            is_replacing=nothing.astype(np.bool_),
            previous_sources=_NO_IDS,
        )
    kept = rows.find_remaining_rows()
    replaced = rows.exists[kept]
    before = _NO_IDS
    if replaced.any() and rows.existing is not None and rows.mode is LoadMode.MERGE:
        before = concat_chunks(rows.existing.fetch(rows.existing.at[kept[replaced]], [SRC]).column(SRC))
    return _LoadedEdges(
        rows=rows,
        positions=kept,
        sources=rows.filter_remaining(rows.read_column(SRC)),
        is_replacing=replaced,
        previous_sources=before,
    )


def _find_affected_sources(batch: LoadBatch, edge: EdgeType, edges: _LoadedEdges) -> pa.Array:
    """The sources that gain or lose edges, and where there is a least number, those that are new."""
    parts = [edges.sources, edges.previous_sources]
    if edge.cardinality.low:
        nodes = batch.types.get(edge.source)
        if nodes is not None:
            is_new = ~nodes.is_excluded if nodes.replaces_all else ~nodes.is_excluded & ~nodes.exists
            parts.append(nodes.read_ids().filter(pa.array(is_new)))
        takes_all_edges = edges.rows is not None and edges.rows.replaces_all
        if takes_all_edges and (nodes is None or not nodes.replaces_all):
            committed = concat_chunks(batch.view.get_table(batch.view.catalog.nodes[edge.source]).scan([ID]).column(ID))
            if edges.rows is not None and edges.rows.rest is not None:
                committed = committed.filter(pa.array(edges.rows.rest.is_counted(committed)))
            parts.append(committed)
    return pa.concat_arrays([part.unique() for part in parts]).unique()


def _count_edges(batch: LoadBatch, edge: EdgeType, edges: _LoadedEdges, sources: pa.Array) -> _EdgeCounts:
    stay = np.zeros(len(sources), np.int64)
    if edges.rows is None or not edges.rows.replaces_all:
        found = find_rows(batch.view.get_table(edge), SRC, sources, [ID, SRC])
        if edges.rows is not None and edges.is_replacing.any():
            found = found.filter(pa.array(~is_among(found.column(ID), edges.rows.find_superseding_ids())))
        stay = count_per_source(found.column(SRC), sources)
    return _EdgeCounts(sources=sources, committed=stay, loaded=count_per_source(edges.sources, sources))


def _refuse_surplus(batch: LoadBatch, edge: EdgeType, edges: _LoadedEdges, counts: _EdgeCounts, high: int) -> None:
    rows = edges.rows
    if rows is None or not (counts.total > high).any():
        return
    source = find_positions(edges.sources, counts.sources)
    # An edge that was there before goes first: it adds nothing to its source.
    stays = np.zeros(len(source), np.bool_)
    if len(edges.previous_sources):
        stays[edges.is_replacing] = find_positions(edges.previous_sources, counts.sources) == source[edges.is_replacing]
    order = np.argsort(~stays, kind="stable")
    rank = np.empty(len(source), np.int64)
    rank[order] = rank_in_groups(source[order])
    surplus = np.flatnonzero(rank >= np.maximum(high - counts.committed[source], 0))
    _refuse_edges(batch, edge, rows, edges.positions[surplus], counts, source[surplus], f"max {high}")


def _refuse_bare(batch: LoadBatch, edge: EdgeType, edges: _LoadedEdges, counts: _EdgeCounts) -> None:
    """New nodes that have too few edges are out; so are edges that were taken from a node that needs them."""
    bare = np.flatnonzero(counts.total < edge.cardinality.low)
    if not len(bare):
        return
    bound = f"min {edge.cardinality.low}"
    names = counts.sources.take(pa.array(bare))
    nodes = batch.types.get(edge.source)
    if nodes is not None:
        kept = nodes.find_remaining_rows()
        place = find_positions(names, nodes.find_remaining_ids())
        is_own = place >= 0
        at = kept[place[is_own]]
        is_new = np.ones(len(at), np.bool_) if nodes.replaces_all else ~nodes.exists[at]
        own = bare[is_own][is_new]
        order = np.argsort(at[is_new])
        batch.refuse(
            nodes,
            RejectedRows(
                rows=at[is_new][order],
                rule="card",
                property=None,
                value=partial(_format_source, counts, own[order]),
                message=partial(_format_message, edge, counts, own[order], bound),
            ),
        )
        bare = np.setdiff1d(bare, own)
    if edges.rows is not None and len(edges.previous_sources) and len(bare):
        old = find_positions(edges.previous_sources, counts.sources)
        new = find_positions(edges.sources, counts.sources)[edges.is_replacing]
        is_taken = (old != new) & np.isin(old, bare)
        taken = edges.positions[edges.is_replacing][is_taken]
        _refuse_edges(batch, edge, edges.rows, taken, counts, old[is_taken], bound)
        bare = np.setdiff1d(bare, old[is_taken])
    batch.fail(
        GlobalProblem(
            type=edge.name,
            rule="card",
            property="from",
            count=len(bare),
            value=partial(_format_source, counts, bare),
            message=partial(_format_message, edge, counts, bare, bound),
        )
    )


def _refuse_edges(
    batch: LoadBatch,
    edge: EdgeType,
    rows: TypeBatch,
    refused: Positions,
    counts: _EdgeCounts,
    source: Positions,
    bound: str,
) -> None:
    batch.refuse(
        rows,
        RejectedRows(
            rows=refused,
            rule="card",
            property="from",
            value=partial(_format_source, counts, source),
            message=partial(_format_message, edge, counts, source, bound),
        ),
    )


def _format_source(counts: _EdgeCounts, source: Positions, number: int) -> str:
    return format_row_value(counts.sources[int(source[number])].as_py())


def _format_message(edge: EdgeType, counts: _EdgeCounts, source: Positions, bound: str, number: int) -> str:
    at = int(source[number])
    return format_cardinality(edge, counts.sources[at].as_py(), int(counts.total[at]), bound)
