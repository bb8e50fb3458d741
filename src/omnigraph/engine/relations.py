"""Rules between tables: the ends of edges exist, and every node has as many edges as its type allows."""

from collections import Counter
from collections.abc import Iterable

import pyarrow as pa

from omnigraph.commit.requirement import CountsWithin, IdsAbsent, IdsPresent, RowsUnchanged, ValuesAbsent
from omnigraph.engine.pending import Pending, PendingTable
from omnigraph.engine.violations import Findings, quoted
from omnigraph.schema.arrow import DST, ID, SRC
from omnigraph.schema.catalog import EdgeType, NodeType


def check_endpoints(pending: Pending, edge: EdgeType, findings: Findings) -> None:
    """Both ends of every pending edge are nodes, committed or pending."""
    rows = pending.of(edge).rows
    if not rows.num_rows:
        return
    for column, end, node_name in ((SRC, "from", edge.source), (DST, "to", edge.target)):
        nodes = pending.of(pending.node_type(node_name))
        wanted = list(dict.fromkeys(rows.column(column).to_pylist()))
        mine = set(nodes.ids)
        elsewhere = [row_id for row_id in wanted if row_id not in mine]
        there = set(nodes.matching(ID, elsewhere, [ID]).column(ID).to_pylist())
        for row_id in elsewhere:
            if row_id not in there:
                message = f"{edge.name}.{end}: no {node_name} {quoted(row_id)}"
                findings.add("endpoint", edge.name, row_id, message)
        if there:
            key = nodes.type.table_key
            findings.requirements.append(IdsPresent(table_key=key, ids=tuple(sorted(there))))


def check_no_edge_is_left(pending: Pending, node: NodeType, findings: Findings) -> None:
    """Nobody may hang another edge on a node that goes: the cascade has taken all that there were."""
    gone = sorted(pending.of(node).deleted)
    if not gone:
        return
    for edge in pending.view.catalog.edges.values():
        own = tuple(sorted(pending.of(edge).deleted))
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


def check_cardinality(pending: Pending, edge: EdgeType, findings: Findings) -> None:
    """Each source that exists and gained or lost edges, or is new, has as many as `@card` says."""
    limits = edge.cardinality
    if limits.low == 0 and limits.high is None:
        return
    edges, sources = pending.of(edge), pending.of(pending.node_type(edge.source))
    changes = _changes(edges, findings)
    if limits.low > 0:
        changes.update(dict.fromkeys(sources.ids, 0))
    asked = [source for source in changes if source not in sources.deleted]
    if not asked:
        return
    exists = set(sources.matching(ID, asked, [ID]).column(ID).to_pylist())
    asked = sorted(source for source in asked if source in exists)
    found = Counter(edges.matching(SRC, asked, [SRC]).column(SRC).to_pylist())
    for source in asked:
        count = found[source]
        bound = None
        if limits.high is not None and count > limits.high:
            bound = f"max {limits.high}"
        elif count < limits.low:
            bound = f"min {limits.low}"
        if bound is not None:
            noun = "edge" if count == 1 else "edges"
            message = f"@card violation on {edge.name}: {quoted(source)} has {count} {noun} ({bound})"
            findings.add("card", edge.name, source, message)
    findings.requirements.append(
        CountsWithin(
            table_key=edge.table_key,
            column=SRC,
            keys=tuple(asked),
            added=tuple(changes[source] for source in asked),
            low=limits.low,
            high=limits.high,
        )
    )


def _changes(edges: PendingTable, findings: Findings) -> Counter[str]:
    """By how many edges each touched source gains or loses; what they replace must stay as it was counted."""
    key = edges.type.table_key
    changes: Counter[str] = Counter(edges.rows.column(SRC).to_pylist())
    touched = [*edges.known_ids, *edges.deleted]
    if touched:
        replaced = edges.table.matching(ID, touched, [ID, SRC])
        changes.subtract(replaced.column(SRC).to_pylist())
        there = replaced.column(ID).to_pylist()
        findings.requirements.append(RowsUnchanged(table_key=key, ids=tuple(sorted(there))))
        _require_absent(key, set(touched) - set(there), findings)
    return changes


def _require_absent(table_key: str, ids: Iterable[str], findings: Findings) -> None:
    absent = tuple(sorted(ids))
    if absent:
        findings.requirements.append(IdsAbsent(table_key=table_key, ids=absent))


def cascade(pending: Pending) -> None:
    """Delete the edges, of every type, at nodes that are deleted."""
    for edge in pending.view.catalog.edges.values():
        for column, node_name in ((SRC, edge.source), (DST, edge.target)):
            gone = pending.of(pending.node_type(node_name)).deleted
            if gone:
                edges = pending.of(edge)
                edges.delete(edges.matching(column, gone, [ID]).column(ID).to_pylist())
