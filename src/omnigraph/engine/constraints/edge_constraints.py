"""Check constraints between tables: referential integrity of edges, and cardinality (`@card`)."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.commit.requirements import CountsWithin, IdsAbsent, IdsPresent, RowsUnchanged, ValuesAbsent
from omnigraph.engine.constraints.candidate_state import CandidateState, CandidateTable
from omnigraph.engine.constraints.violations import ConstraintFindings, quote_value
from omnigraph.schema.arrow import DST, ID, SRC
from omnigraph.schema.catalog import EdgeType, NodeType
from omnigraph.storage.columnar_sets import Column, Positions, concat_chunks, find_positions, is_among
from omnigraph.storage.key_lookup import find_rows


def check_endpoints(pending: CandidateState, edge: EdgeType, findings: ConstraintFindings) -> None:
    """Check that both ends of every pending edge are nodes, committed or pending."""
    rows = pending.get_table(edge).rows
    if not rows.num_rows:
        return
    ends = ((SRC, "from", edge.source), (DST, "to", edge.target))
    # If both ends are of one type, its table is queried once for both.
    for node_name in dict.fromkeys((edge.source, edge.target)):
        nodes = pending.get_table(pending.get_node_type(node_name))
        end_ids = [
            (concat_chunks(rows.column(column).unique()), end) for column, end, name in ends if name == node_name
        ]
        referenced = pa.concat_arrays([ids for ids, _ in end_ids]).unique()
        not_pending = referenced.filter(pa.array(~is_among(referenced, nodes.rows.column(ID))))
        committed = nodes.find_committed_ids(not_pending)
        committed = committed.filter(pa.array(~is_among(committed, pa.array(nodes.deleted, pa.string()))))
        missing = not_pending.filter(pa.array(~is_among(not_pending, committed)))
        for ids, end in end_ids:
            for row_id in ids.filter(pa.array(is_among(ids, missing))).to_pylist():
                findings.add("endpoint", edge.name, row_id, format_missing_endpoint(edge, end, node_name, row_id))
        # Another writer may delete these nodes before this write is published.
        if len(committed):
            findings.requirements.append(IdsPresent(table_key=nodes.type.table_key, ids=committed))


def format_missing_endpoint(edge: EdgeType, end: str, node_name: str, row_id: str) -> str:
    """Format the message about an edge whose end is not a node."""
    return f"{edge.name}.{end}: no {node_name} {quote_value(row_id)}"


def format_cardinality(edge: EdgeType, source: str, count: int, bound: str) -> str:
    """Format the message about a source with too many or too few edges."""
    noun = "edge" if count == 1 else "edges"
    return f"@card violation on {edge.name}: {quote_value(source)} has {count} {noun} ({bound})"


def count_per_source(values: Column, sources: pa.Array) -> Positions:
    """Count how often each of the distinct `sources` occurs in `values`, which has no others."""
    return np.bincount(find_positions(values, sources), minlength=len(sources)).astype(np.int64)


def require_no_new_edges(pending: CandidateState, node: NodeType, findings: ConstraintFindings) -> None:
    """Require that no other writer adds an edge to a node deleted here; the cascade deletes only edges it saw."""
    deleted_nodes = sorted(pending.get_table(node).deleted)
    if not deleted_nodes:
        return
    for edge in pending.view.catalog.edges.values():
        deleted_edges = tuple(sorted(pending.get_table(edge).deleted))
        for column, node_name in ((SRC, edge.source), (DST, edge.target)):
            if node_name == node.name:
                findings.requirements.append(
                    ValuesAbsent(
                        table_key=edge.table_key,
                        columns=(column,),
                        values=pa.table({column: pa.array(deleted_nodes, pa.string())}),
                        own_ids=deleted_edges,
                    )
                )
        # The result reports the number of deleted edges: another writer must not delete one of them first.
        if deleted_edges and node.name in (edge.source, edge.target):
            findings.requirements.append(IdsPresent(table_key=edge.table_key, ids=deleted_edges))


def check_cardinality(
    pending: CandidateState, edge: EdgeType, findings: ConstraintFindings, suspects: pa.Array | None = None
) -> None:
    """Check `@card` for each existing source that gained or lost edges, is new, or is one of the `suspects`."""
    limits = edge.cardinality
    if limits.low == 0 and limits.high is None:
        return
    edges = pending.get_table(edge)
    nodes = pending.get_table(pending.get_node_type(edge.source))
    gained = concat_chunks(edges.rows.column(SRC))
    lost = _find_replaced_sources(edges, findings)
    # A new node without edges breaks only a minimum.
    new = concat_chunks(nodes.rows.column(ID)) if limits.low > 0 else gained.slice(0, 0)
    sources = pa.concat_arrays([gained, lost, new, *([] if suspects is None else [suspects])]).unique()
    exists = is_among(sources, nodes.rows.column(ID)) | is_among(sources, nodes.find_committed_ids(sources))
    exists &= ~is_among(sources, pa.array(nodes.deleted, pa.string()))
    sources = sources.filter(pa.array(exists))
    sources = sources.take(pc.sort_indices(sources))
    if not len(sources):
        return
    gained, lost = (part.filter(pa.array(is_among(part, sources))) for part in (gained, lost))
    added = count_per_source(gained, sources) - count_per_source(lost, sources)
    total = count_per_source(find_rows(edges.table, SRC, sources, [SRC]).column(SRC), sources) + added
    is_over = total > limits.high if limits.high is not None else np.zeros(len(total), np.bool_)
    for index in np.flatnonzero(is_over | (total < limits.low)):
        source = sources[int(index)].as_py()
        bound = f"max {limits.high}" if is_over[index] else f"min {limits.low}"
        findings.add("card", edge.name, source, format_cardinality(edge, source, int(total[index]), bound))
    findings.requirements.append(
        CountsWithin(table_key=edge.table_key, column=SRC, keys=sources, added=added, low=limits.low, high=limits.high)
    )


def _find_replaced_sources(edges: CandidateTable, findings: ConstraintFindings) -> pa.Array:
    """Return the sources of committed edges that are replaced or deleted, and require that these stay unchanged."""
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
