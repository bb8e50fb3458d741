"""Check `@card` for all rows of a load: each source has at least `min` and at most `max` edges of a type."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from omnigraph.commit.requirements import Requirement
from omnigraph.engine.bulk.load_batch import LoadBatch, LoadMode, TypeBatch
from omnigraph.engine.bulk.load_errors import GlobalProblem, RejectedRows, format_nth_of
from omnigraph.engine.constraints.edge_constraints import NO_IDS, EdgeCounts, count_per_source
from omnigraph.schema.arrow import ID, SRC
from omnigraph.schema.catalog import EdgeType
from omnigraph.storage.columnar_sets import Mask, Positions, concat_chunks, find_positions, is_among, rank_in_groups
from omnigraph.storage.key_lookup import find_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class _LoadedEdges:
    """The edges of a load that are not excluded: their sources, and those of the edges that they replace."""

    rows: TypeBatch | None
    positions: Positions
    sources: pa.Array
    is_replacing: Mask
    """Marks the edges that replace a committed one."""
    previous_sources: pa.Array
    """The sources of the replaced edges, one per marked edge."""


def check_cardinality(batch: LoadBatch, edge: EdgeType) -> list[Requirement]:
    """Reject surplus edges and new nodes with too few edges; return the requirements of the others."""
    limits = edge.cardinality
    rows, nodes = batch.types.get(edge.name), batch.types.get(edge.source)
    if rows is None and (nodes is None or not limits.low):
        return []
    if not limits.is_bounded:
        return []
    edges = _collect_edges(rows)
    counts = _count_edges(batch, edge, edges, _find_affected_sources(batch, edge, edges))
    excluded_before = batch.excluded_rows
    if limits.high is not None and rows is not None:
        _refuse_surplus(batch, edges, counts, limits.high)
    # If edges were rejected, `check_batch` runs all checks again, with counts without them.
    if limits.low and batch.excluded_rows == excluded_before:
        _refuse_too_few(batch, edge, edges, counts)
    # An overwrite requires that the table is unchanged, which covers its counts.
    if (rows is not None and rows.replaces_all) or not len(counts.sources):
        return []
    return [counts.build_requirement(NO_IDS if rows is None else rows.find_superseding_ids())]


def _collect_edges(rows: TypeBatch | None) -> _LoadedEdges:
    if rows is None:
        nothing = np.empty(0, np.int64)
        return _LoadedEdges(
            rows=None,
            positions=nothing,
            sources=NO_IDS,
            is_replacing=nothing.astype(np.bool_),
            previous_sources=NO_IDS,
        )
    remaining = rows.find_remaining_rows()
    is_replacing = rows.exists[remaining]
    previous_sources = NO_IDS
    if is_replacing.any() and rows.existing is not None and rows.mode is LoadMode.MERGE:
        existing = rows.existing.at[remaining[is_replacing]]
        previous_sources = concat_chunks(rows.existing.fetch(existing, [SRC]).column(SRC))
    return _LoadedEdges(
        rows=rows,
        positions=remaining,
        sources=rows.filter_remaining(rows.read_column(SRC)),
        is_replacing=is_replacing,
        previous_sources=previous_sources,
    )


def _find_affected_sources(batch: LoadBatch, edge: EdgeType, edges: _LoadedEdges) -> pa.Array:
    """Return the sources that gain or lose edges and, if there is a minimum, those that are new."""
    parts = [edges.sources, edges.previous_sources]
    if edge.cardinality.low:
        nodes = batch.types.get(edge.source)
        if nodes is not None:
            is_new = ~nodes.is_excluded if nodes.replaces_all else ~nodes.is_excluded & ~nodes.exists
            parts.append(nodes.read_ids().filter(pa.array(is_new)))
        # An overwrite of the edges takes them from every committed node that stays.
        takes_all_edges = edges.rows is not None and edges.rows.replaces_all
        if takes_all_edges and (nodes is None or not nodes.replaces_all):
            committed = concat_chunks(batch.view.get_table(batch.view.catalog.nodes[edge.source]).scan([ID]).column(ID))
            # Only nodes whose loaded edges are all in this batch can be counted here.
            if edges.rows is not None and edges.rows.rest is not None:
                committed = committed.filter(pa.array(edges.rows.rest.is_counted(committed)))
            parts.append(committed)
    return pa.concat_arrays([part.unique() for part in parts]).unique()


def _count_edges(batch: LoadBatch, edge: EdgeType, edges: _LoadedEdges, sources: pa.Array) -> EdgeCounts:
    committed = np.zeros(len(sources), np.int64)
    if edges.rows is None or not edges.rows.replaces_all:
        rows = find_rows(batch.view.get_table(edge), SRC, sources, [ID, SRC])
        if edges.rows is not None and edges.is_replacing.any():
            rows = rows.filter(pa.array(~is_among(rows.column(ID), edges.rows.find_superseding_ids())))
        committed = count_per_source(rows.column(SRC), sources)
    return EdgeCounts(edge=edge, sources=sources, stored=committed, added=count_per_source(edges.sources, sources))


def _refuse_surplus(batch: LoadBatch, edges: _LoadedEdges, counts: EdgeCounts, high: int) -> None:
    rows = edges.rows
    if rows is None or not (counts.total > high).any():
        return
    source = find_positions(edges.sources, counts.sources)
    # Edges that replace one of the same source rank first: they add nothing to its count, so later ones are surplus.
    stays = np.zeros(len(source), np.bool_)
    if len(edges.previous_sources):
        stays[edges.is_replacing] = find_positions(edges.previous_sources, counts.sources) == source[edges.is_replacing]
    order = np.argsort(~stays, kind="stable")
    rank = np.empty(len(source), np.int64)
    rank[order] = rank_in_groups(source[order])
    surplus = np.flatnonzero(rank >= np.maximum(high - counts.stored[source], 0))
    _refuse(batch, rows, edges.positions[surplus], counts.take(source[surplus]))


def _refuse_too_few(batch: LoadBatch, edge: EdgeType, edges: _LoadedEdges, counts: EdgeCounts) -> None:
    """Reject new nodes with too few edges, and edges that are moved away from a node that needs them.

    A committed node that has too few edges for another reason is a problem of the load as a whole.
    """
    lacking = np.flatnonzero(counts.total < edge.cardinality.low)
    if not len(lacking):
        return
    source_ids = counts.sources.take(pa.array(lacking))
    nodes = batch.types.get(edge.source)
    if nodes is not None:
        remaining = nodes.find_remaining_rows()
        positions = find_positions(source_ids, nodes.find_remaining_ids())
        is_loaded = positions >= 0
        rows = remaining[positions[is_loaded]]
        is_new = np.ones(len(rows), np.bool_) if nodes.replaces_all else ~nodes.exists[rows]
        new_sources = lacking[is_loaded][is_new]
        # Rejected rows are listed in ascending order of their positions.
        order = np.argsort(rows[is_new])
        _refuse(batch, nodes, rows[is_new][order], counts.take(new_sources[order]))
        lacking = np.setdiff1d(lacking, new_sources)
    if edges.rows is not None and len(edges.previous_sources) and len(lacking):
        old = find_positions(edges.previous_sources, counts.sources)
        new = find_positions(edges.sources, counts.sources)[edges.is_replacing]
        is_moved = (old != new) & np.isin(old, lacking)
        moved = edges.positions[edges.is_replacing][is_moved]
        _refuse(batch, edges.rows, moved, counts.take(old[is_moved]))
        lacking = np.setdiff1d(lacking, old[is_moved])
    counts = counts.take(lacking)
    batch.fail(
        GlobalProblem(
            type=edge.name,
            rule="card",
            property="from",
            count=len(lacking),
            value=format_nth_of(counts.sources),
            message=counts.format_violation,
        )
    )


def _refuse(batch: LoadBatch, rows: TypeBatch, rejected: Positions, counts: EdgeCounts) -> None:
    """Reject rows, edges or their sources; `counts` has an entry for each."""
    batch.refuse(
        rows,
        RejectedRows(
            rows=rejected,
            rule="card",
            property="from" if isinstance(rows.type, EdgeType) else None,
            value=format_nth_of(counts.sources),
            message=counts.format_violation,
        ),
    )
