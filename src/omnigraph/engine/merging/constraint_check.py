"""Check the merged state against its schema: each side is valid, but the two together may violate a constraint."""

from collections.abc import Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from omnigraph.engine.constraints.check import check_counts, check_rows
from omnigraph.engine.constraints.edge_constraints import EdgeEnd, build_node_lookup, find_missing_ends, list_ends
from omnigraph.engine.constraints.violations import ConstraintFindings, quote_value
from omnigraph.engine.merging.conflict_evidence import add_violations, read_evidence
from omnigraph.engine.merging.conflicts import Conflict, ConflictKind, Conflicts
from omnigraph.engine.merging.projected_table import ProjectedTables
from omnigraph.engine.merging.schema_agreement import Side
from omnigraph.engine.merging.table_merge import MergedTable, MergeInputs, build_merged_snapshot
from omnigraph.engine.table_diff import TableDiff, read_rows_at
from omnigraph.engine.view import View
from omnigraph.engine.writing.write_buffer import WriteBuffer
from omnigraph.schema.arrow import DST, ID, SRC
from omnigraph.schema.catalog import EdgeType, NodeType
from omnigraph.storage.columnar_sets import concat_chunks, is_among
from omnigraph.storage.lance_table import LanceTable
from omnigraph.storage.table_cache import TableCache


def build_candidate(sides: MergeInputs, tables: Sequence[MergedTable], handles: TableCache) -> WriteBuffer:
    """Return the merged state: the changes in a buffer over the tables, like those of a mutation before its commit.

    A row that one side changed and the other deleted counts as deleted, whichever side is merged into the other.
    """
    columns = {table.key: table.columns for table in tables if table.columns is not None}
    view = View(sides.catalog, ProjectedTables(handles, build_merged_snapshot(sides, tables), columns))
    pending = WriteBuffer(view)
    for table in tables:
        if table.rows_to_check is not None and table.rows_to_check.num_rows:
            pending.get_table(table.type).put(table.rows_to_check)
        if table.rows is not None and table.has_rows:
            pending.get_table(table.type).put(table.rows.put)
            pending.get_table(table.type).delete(table.rows.deleted.to_pylist())
        # The kept side's version still has these rows. Deleted here, they count alike in either direction of the merge.
        if table.rows is not None and len(table.rows.disputed):
            pending.get_table(table.type).delete(table.rows.disputed.to_pylist())
    return pending


def check_constraints_of_merge(
    sides: MergeInputs, tables: Sequence[MergedTable], pending: WriteBuffer, conflicts: Conflicts
) -> None:
    """Check the constraints that the merged state could violate, and add violations to `conflicts`.

    Each side is valid on its own, so only changes are checked. A constraint on a row or a table can break only where
    rows are added to a table; edges are checked where one side changed them and the other deleted nodes.
    """
    view = pending.view
    findings = ConstraintFindings()
    for touched in pending.touched:
        check_rows(pending, touched, findings)
    # The check sees the sources of pending edges. Edges that the kept side itself removed are not pending.
    bereft = {
        table.key: table.bereft_sources
        for table in tables
        if table.bereft_sources is not None and len(table.bereft_sources)
    }
    check_counts(pending, findings, bereft)
    types = {violation.type: view.get_type(violation.type) for violation in findings.violations}
    add_violations(sides, types, findings.violations, conflicts)
    for edge in sides.catalog.edges.values():
        for side in ("ours", "theirs"):
            _check_ends(sides, pending, edge, side, conflicts)


def _check_ends(sides: MergeInputs, pending: WriteBuffer, edge: EdgeType, side: Side, conflicts: Conflicts) -> None:
    """Add the edges that one side inserted or moved to another node and whose end nodes the other side deleted."""
    other = sides.get_other(side)
    after = sides.find_table(sides.get_view(side), edge)
    if after is None or not sides.has_changed(side, edge):
        return
    edge_ids: set[str] = set()
    ends = list_ends(edge)
    if sides.is_partial and side == "theirs":
        # Ours may have deleted any node since, so the ends of all these edges are looked up.
        before = sides.find_table(sides.base, edge)
        diff = None if before is None else sides.find_differences(edge, before, after)
        written = after.table.scan([ID]) if diff is None else _read_written(after.table, diff, [ID])
        _add_orphans(sides, pending, edge, sorted(written.column(ID).to_pylist()), side, conflicts)
        return
    deleted = {end.node: _find_deleted(sides, pending.get_node_type(end.node), other) for end in ends}
    if not any(len(ids) for ids in deleted.values()):
        return
    columns = [ID, SRC, DST]
    if sides.is_partial:
        for end in ends:
            edge_ids.update(after.table.find_rows(end.column, deleted[end.node], [ID]).column(ID).to_pylist())
        _add_orphans(sides, pending, edge, sorted(edge_ids), side, conflicts)
        return
    # With several bases, a change since any of them is suspect; `_add_orphans` checks against the merged state.
    for base in sides.bases:
        before = sides.find_table(base, edge)
        if before is None:
            rows = after.table.scan(columns)
        else:
            diff = sides.find_differences(edge, before, after)
            rows = _read_written(after.table, diff, columns)
        for end in ends:
            is_dangling = is_among(rows.column(end.column), deleted[end.node])
            edge_ids.update(rows.column(ID).filter(pa.array(is_dangling)).to_pylist())
    if edge_ids:
        _add_orphans(sides, pending, edge, sorted(edge_ids), side, conflicts)


def _read_written(table: LanceTable, diff: TableDiff, columns: Sequence[str]) -> pa.Table:
    return read_rows_at(table, np.concatenate([diff.inserted, diff.later]), columns)


def _find_deleted(sides: MergeInputs, node: NodeType, side: Side) -> pa.Array:
    """Return the ids of nodes that a side deleted since any of the bases."""
    ids = [pa.array([], pa.string())]
    after = sides.find_table(sides.get_view(side), node)
    if after is not None and sides.has_changed(side, node):
        for before in (sides.find_table(base, node) for base in sides.bases):
            if before is None:
                continue
            diff = sides.find_differences(node, before, after)
            if len(diff.deleted):
                ids.append(concat_chunks(read_rows_at(before.table, diff.deleted, [ID]).column(ID)))
    return pa.concat_arrays(ids).unique()


def _add_orphans(
    sides: MergeInputs, pending: WriteBuffer, edge: EdgeType, ids: Sequence[str], maker: Side, conflicts: Conflicts
) -> None:
    """Add a conflict for each of these edges of `maker` that the merged state has without one of its end nodes."""
    rows = pending.get_table(edge).find_matching(ID, ids, [ID, SRC, DST])
    missing, _ = find_missing_ends(
        edge,
        lambda columns: [concat_chunks(rows.column(column)) for column in columns],
        partial(build_node_lookup, pending),
    )
    for end, missing_ids in missing:
        orphans = rows.filter(pa.array(is_among(rows.column(end.column), missing_ids)))
        if not orphans.num_rows:
            continue
        reported = orphans.slice(0, max(conflicts.remaining, 0)).to_pylist()
        evidence = read_evidence(sides, edge, [row[ID] for row in reported], [end.column])
        names = sides.names[maker], sides.names[sides.get_other(maker)]
        orphan_conflicts = [
            evidence.attach(_build_orphan_conflict(edge, row[ID], end, row[end.column], names), row[ID])
            for row in reported
        ]
        conflicts.add(ConflictKind.ORPHAN_EDGE, orphan_conflicts, orphans.num_rows)


def _build_orphan_conflict(
    edge: EdgeType, edge_id: str, end: EdgeEnd, node_id: str, names: tuple[str, str]
) -> Conflict:
    maker, deleter = names
    node = f"{end.node} {quote_value(node_id)}"
    return Conflict(
        kind=ConflictKind.ORPHAN_EDGE,
        table=edge.table_key,
        id=edge_id,
        property=end.name,
        other_id=node_id,
        message=f"{edge.name} {quote_value(edge_id)} of `{maker}` leads {end.name} {node}, which `{deleter}` deleted",
    )
