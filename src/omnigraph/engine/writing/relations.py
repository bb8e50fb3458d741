"""Rules between tables: the ends of edges exist, and every node has as many edges as its type allows."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.commit.requirements import CountsWithin, IdsAbsent, IdsPresent, RowsUnchanged, ValuesAbsent
from omnigraph.engine.writing.violations import ConstraintFindings, quote_value
from omnigraph.engine.writing.write_buffer import PendingTable, WriteBuffer
from omnigraph.schema.arrow import DST, ID, SRC
from omnigraph.schema.catalog import EdgeType, NodeType
from omnigraph.storage.columnar_sets import Column, Positions, concat_chunks, find_positions, is_among
from omnigraph.storage.key_lookup import find_rows


def check_endpoints(pending: WriteBuffer, edge: EdgeType, findings: ConstraintFindings) -> None:
    """Both ends of every pending edge are nodes, committed or pending."""
    rows = pending.get_table(edge).rows
    if not rows.num_rows:
        return
    ends = ((SRC, "from", edge.source), (DST, "to", edge.target))
    for node_name in dict.fromkeys((edge.source, edge.target)):  # one look at a table that both ends are in
        nodes = pending.get_table(pending.get_node_type(node_name))
        own = [(concat_chunks(rows.column(column).unique()), end) for column, end, name in ends if name == node_name]
        wanted = pa.concat_arrays([ids for ids, _ in own]).unique()
        elsewhere = wanted.filter(pa.array(~is_among(wanted, nodes.rows.column(ID))))
        there = nodes.find_committed_ids(elsewhere)
        there = there.filter(pa.array(~is_among(there, pa.array(nodes.deleted, pa.string()))))
        missing = elsewhere.filter(pa.array(~is_among(elsewhere, there)))
        for ids, end in own:
            for row_id in ids.filter(pa.array(is_among(ids, missing))).to_pylist():
                findings.add("endpoint", edge.name, row_id, format_missing_endpoint(edge, end, node_name, row_id))
        if len(there):
            findings.requirements.append(IdsPresent(table_key=nodes.type.table_key, ids=there))


def format_missing_endpoint(edge: EdgeType, end: str, node_name: str, row_id: str) -> str:
    """What is said of an edge that leads to no node."""
    return f"{edge.name}.{end}: no {node_name} {quote_value(row_id)}"


def format_cardinality(edge: EdgeType, source: str, count: int, bound: str) -> str:
    """What is said of a source with too many or too few edges."""
    noun = "edge" if count == 1 else "edges"
    return f"@card violation on {edge.name}: {quote_value(source)} has {count} {noun} ({bound})"


def count_per_source(values: Column, sources: pa.Array) -> Positions:
    """How often each source, given once, is among the values, which are all sources."""
    return np.bincount(find_positions(values, sources), minlength=len(sources)).astype(np.int64)


def require_no_new_edges(pending: WriteBuffer, node: NodeType, findings: ConstraintFindings) -> None:
    """Nobody may hang another edge on a node that goes: the cascade has taken all that there were."""
    gone = sorted(pending.get_table(node).deleted)
    if not gone:
        return
    for edge in pending.view.catalog.edges.values():
        own = tuple(sorted(pending.get_table(edge).deleted))
        for column, node_name in ((SRC, edge.source), (DST, edge.target)):
            if node_name == node.name:
                findings.requirements.append(
                    ValuesAbsent(
                        table_key=edge.table_key,
                        columns=(column,),
                        values=pa.table({column: pa.array(gone, pa.string())}),
                        own_ids=own,
                    )
                )
        if own and node.name in (edge.source, edge.target):
            findings.requirements.append(IdsPresent(table_key=edge.table_key, ids=own))  # they are counted


def check_cardinality(
    pending: WriteBuffer, edge: EdgeType, findings: ConstraintFindings, suspects: pa.Array | None = None
) -> None:
    """Each source that exists and gained or lost edges, or is new, or is a suspect, has as many as `@card` says."""
    limits = edge.cardinality
    if limits.low == 0 and limits.high is None:
        return
    edges, nodes = pending.get_table(edge), pending.get_table(pending.get_node_type(edge.source))
    come, go = concat_chunks(edges.rows.column(SRC)), _find_replaced_sources(edges, findings)
    new = concat_chunks(nodes.rows.column(ID)) if limits.low > 0 else come.slice(0, 0)
    sources = pa.concat_arrays([come, go, new, *([] if suspects is None else [suspects])]).unique()
    exists = is_among(sources, nodes.rows.column(ID)) | is_among(sources, nodes.find_committed_ids(sources))
    exists &= ~is_among(sources, pa.array(nodes.deleted, pa.string()))
    sources = sources.filter(pa.array(exists))
    sources = sources.take(pc.sort_indices(sources))
    if not len(sources):
        return
    come, go = (part.filter(pa.array(is_among(part, sources))) for part in (come, go))
    added = count_per_source(come, sources) - count_per_source(go, sources)
    total = count_per_source(find_rows(edges.table, SRC, sources, [SRC]).column(SRC), sources) + added
    is_over = total > limits.high if limits.high is not None else np.zeros(len(total), np.bool_)
    for at in np.flatnonzero(is_over | (total < limits.low)):
        source, bound = sources[int(at)].as_py(), f"max {limits.high}" if is_over[at] else f"min {limits.low}"
        findings.add("card", edge.name, source, format_cardinality(edge, source, int(total[at]), bound))
    findings.requirements.append(
        CountsWithin(table_key=edge.table_key, column=SRC, keys=sources, added=added, low=limits.low, high=limits.high)
    )


def _find_replaced_sources(edges: PendingTable, findings: ConstraintFindings) -> pa.Array:
    """The sources of the edges that are replaced or go; those must stay as they were counted."""
    key = edges.type.table_key
    touched = pa.array([*edges.known_ids, *edges.deleted], pa.string())
    if not len(touched):
        return touched
    replaced = edges.known.fetch_rows(touched, [ID, SRC])
    there = concat_chunks(replaced.column(ID))
    findings.requirements.append(RowsUnchanged(table_key=key, ids=there))
    absent = touched.filter(pa.array(~is_among(touched, there)))
    if len(absent):
        findings.requirements.append(IdsAbsent(table_key=key, ids=absent))
    return concat_chunks(replaced.column(SRC))


def cascade(pending: WriteBuffer) -> None:
    """Delete the edges, of every type, at nodes that are deleted."""
    for edge in pending.view.catalog.edges.values():
        for column, node_name in ((SRC, edge.source), (DST, edge.target)):
            gone = pending.get_table(pending.get_node_type(node_name)).deleted
            if gone:
                edges = pending.get_table(edge)
                edges.delete(edges.find_matching(column, gone, [ID]).column(ID).to_pylist())
