"""`@card` over all rows of a load: each source that exists has as many edges as its type allows."""

from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from omnigraph.commit.requirements import CountsWithin, Requirement
from omnigraph.engine.bulk.load_batch import Batch, Incoming, LoadMode
from omnigraph.engine.bulk.load_errors import Refusal, Unplaced
from omnigraph.engine.writing.relations import card_message, per_source
from omnigraph.engine.writing.violations import shown_value
from omnigraph.schema.arrow import ID, SRC
from omnigraph.schema.catalog import EdgeType
from omnigraph.storage.columnar_sets import Mask, Positions, is_among, one_array, places_among, ranks
from omnigraph.storage.key_lookup import rows_with

_NOBODY = pa.array([], pa.string())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counts:
    """The sources whose edges may be too few or too many, and how many they have."""

    sources: pa.Array
    stay: Positions
    """Committed edges that this load does not replace."""
    come: Positions
    """Edges of the load."""

    @property
    def total(self) -> Positions:
        return self.stay + self.come


@dataclass(frozen=True, slots=True, kw_only=True)
class _Edges:
    """The edges of a load that are not out: where they start, and where the edges that they replace did."""

    rows: Incoming | None
    kept: Positions
    sources: pa.Array
    replaced: Mask
    """Which of them replace a committed edge."""
    before: pa.Array
    """For those, the sources of the committed edges."""


def check_cardinality(batch: Batch, edge: EdgeType) -> list[Requirement]:
    """Refuse the last of too many edges, and new nodes with too few; what the others rely on."""
    limits = edge.cardinality
    rows, nodes = batch.types.get(edge.name), batch.types.get(edge.source)
    if rows is None and (nodes is None or not limits.low):
        return []
    if limits.low == 0 and limits.high is None:
        return []
    edges = _edges(rows)
    counts = _counted(batch, edge, edges, _asked(batch, edge, edges))
    out = batch.out
    if limits.high is not None and rows is not None:
        _refuse_surplus(batch, edge, edges, counts, limits.high)
    if limits.low and batch.out == out:  # else everything is counted again, without what was refused
        _refuse_bare(batch, edge, edges, counts)
    if (rows is not None and rows.replaces_all) or not len(counts.sources):
        return []  # nobody else may change the table at all
    return [
        CountsWithin(
            table_key=edge.table_key,
            column=SRC,
            keys=counts.sources,
            added=counts.come,
            low=limits.low,
            high=limits.high,
            own_ids=_NOBODY if rows is None else rows.superseding_ids(),
        )
    ]


def _edges(rows: Incoming | None) -> _Edges:
    if rows is None:
        nothing = np.empty(0, np.int64)
        return _Edges(rows=None, kept=nothing, sources=_NOBODY, replaced=nothing.astype(np.bool_), before=_NOBODY)
    kept = rows.kept_rows()
    replaced = rows.exists[kept]
    before = _NOBODY
    if replaced.any() and rows.existing is not None and rows.mode is LoadMode.MERGE:
        before = one_array(rows.existing.fetch(rows.existing.at[kept[replaced]], [SRC]).column(SRC))
    return _Edges(rows=rows, kept=kept, sources=rows.only_kept(rows.column(SRC)), replaced=replaced, before=before)


def _asked(batch: Batch, edge: EdgeType, edges: _Edges) -> pa.Array:
    """The sources that gain or lose edges, and where there is a least number, those that are new."""
    parts = [edges.sources, edges.before]
    if edge.cardinality.low:
        nodes = batch.types.get(edge.source)
        if nodes is not None:
            is_new = ~nodes.is_out if nodes.replaces_all else ~nodes.is_out & ~nodes.exists
            parts.append(nodes.ids().filter(pa.array(is_new)))
        takes_all_edges = edges.rows is not None and edges.rows.replaces_all
        if takes_all_edges and (nodes is None or not nodes.replaces_all):
            committed = one_array(batch.view.table(batch.view.catalog.nodes[edge.source]).scan([ID]).column(ID))
            if edges.rows is not None and edges.rows.rest is not None:
                committed = committed.filter(pa.array(edges.rows.rest.is_counted(committed)))
            parts.append(committed)
    return pa.concat_arrays([part.unique() for part in parts]).unique()


def _counted(batch: Batch, edge: EdgeType, edges: _Edges, sources: pa.Array) -> _Counts:
    stay = np.zeros(len(sources), np.int64)
    if edges.rows is None or not edges.rows.replaces_all:
        found = rows_with(batch.view.table(edge), SRC, sources, [ID, SRC])
        if edges.rows is not None and edges.replaced.any():
            found = found.filter(pa.array(~is_among(found.column(ID), edges.rows.superseding_ids())))
        stay = per_source(found.column(SRC), sources)
    return _Counts(sources=sources, stay=stay, come=per_source(edges.sources, sources))


def _refuse_surplus(batch: Batch, edge: EdgeType, edges: _Edges, counts: _Counts, high: int) -> None:
    rows = edges.rows
    if rows is None or not (counts.total > high).any():
        return
    source = places_among(edges.sources, counts.sources)
    # An edge that was there before goes first: it adds nothing to its source.
    stays = np.zeros(len(source), np.bool_)
    if len(edges.before):
        stays[edges.replaced] = places_among(edges.before, counts.sources) == source[edges.replaced]
    order = np.argsort(~stays, kind="stable")
    rank = np.empty(len(source), np.int64)
    rank[order] = ranks(source[order])
    surplus = np.flatnonzero(rank >= np.maximum(high - counts.stay[source], 0))
    _refuse_edges(batch, edge, rows, edges.kept[surplus], counts, source[surplus], f"max {high}")


def _refuse_bare(batch: Batch, edge: EdgeType, edges: _Edges, counts: _Counts) -> None:
    """New nodes that have too few edges are out; so are edges that were taken from a node that needs them."""
    bare = np.flatnonzero(counts.total < edge.cardinality.low)
    if not len(bare):
        return
    bound = f"min {edge.cardinality.low}"
    names = counts.sources.take(pa.array(bare))
    nodes = batch.types.get(edge.source)
    if nodes is not None:
        kept = nodes.kept_rows()
        place = places_among(names, nodes.kept_ids())
        is_own = place >= 0
        at = kept[place[is_own]]
        is_new = np.ones(len(at), np.bool_) if nodes.replaces_all else ~nodes.exists[at]
        own = bare[is_own][is_new]
        order = np.argsort(at[is_new])
        batch.refuse(
            nodes,
            Refusal(
                rows=at[is_new][order],
                rule="card",
                property=None,
                value=partial(_source, counts, own[order]),
                message=partial(_message, edge, counts, own[order], bound),
            ),
        )
        bare = np.setdiff1d(bare, own)
    if edges.rows is not None and len(edges.before) and len(bare):
        old = places_among(edges.before, counts.sources)
        new = places_among(edges.sources, counts.sources)[edges.replaced]
        is_taken = (old != new) & np.isin(old, bare)
        taken = edges.kept[edges.replaced][is_taken]
        _refuse_edges(batch, edge, edges.rows, taken, counts, old[is_taken], bound)
        bare = np.setdiff1d(bare, old[is_taken])
    batch.fail(
        Unplaced(
            type=edge.name,
            rule="card",
            property="from",
            count=len(bare),
            value=partial(_source, counts, bare),
            message=partial(_message, edge, counts, bare, bound),
        )
    )


def _refuse_edges(
    batch: Batch, edge: EdgeType, rows: Incoming, refused: Positions, counts: _Counts, source: Positions, bound: str
) -> None:
    batch.refuse(
        rows,
        Refusal(
            rows=refused,
            rule="card",
            property="from",
            value=partial(_source, counts, source),
            message=partial(_message, edge, counts, source, bound),
        ),
    )


def _source(counts: _Counts, source: Positions, number: int) -> str:
    return shown_value(counts.sources[int(source[number])].as_py())


def _message(edge: EdgeType, counts: _Counts, source: Positions, bound: str, number: int) -> str:
    at = int(source[number])
    return card_message(edge, counts.sources[at].as_py(), int(counts.total[at]), bound)
