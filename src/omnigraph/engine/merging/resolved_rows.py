"""Delete and change rows of a merged state, as was decided about rules that it would break."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from omnigraph.engine.constraints.edge_constraints import iter_edges_at
from omnigraph.engine.merging.chosen_values import set_values
from omnigraph.engine.merging.merged_blobs import MergedBlobs
from omnigraph.engine.merging.side_changes import build_empty_changes
from omnigraph.engine.merging.table_merge import MergedTable, MergeInputs
from omnigraph.engine.merging.three_way import RowMerge
from omnigraph.engine.writing.write_buffer import WriteBuffer, fetch_rows
from omnigraph.schema.arrow import ID, SRC
from omnigraph.schema.catalog import AnyType, NodeType
from omnigraph.storage.columnar_sets import concat_chunks, is_among
from omnigraph.storage.key_lookup import find_existing_ids

_NO_IDS = pa.array([], pa.string())


def edit_merged_rows(sides: MergeInputs, tables: Sequence[MergedTable], pending: WriteBuffer) -> list[MergedTable]:
    """Return the tables with the decided edits, which are made in `pending` too; a node goes with its edges."""
    put: dict[str, pa.Table] = {}
    deleted: dict[str, set[str]] = {}
    for type_ in sides.catalog.types:
        choices = sides.choices.get(type_.name)
        if choices is None or not choices.has_edits:
            continue
        table = pending.get_table(type_)
        if choices.values:
            rows = fetch_rows(table, pa.array(sorted(choices.values), pa.string()))
            values = [choices.values[row_id] for row_id in rows.column(ID).to_pylist()]
            put[type_.name] = set_values(type_, rows, values)
            table.put(put[type_.name])
        gone = set(choices.dropped)
        if choices.edges:
            edges = table.find_matching(SRC, list(choices.edges), [ID, SRC])
            pairs = zip(edges.column(ID).to_pylist(), edges.column(SRC).to_pylist(), strict=True)
            gone |= {edge_id for edge_id, source in pairs if edge_id not in choices.edges[source]}
        deleted.setdefault(type_.name, set()).update(gone)
        table.delete(sorted(gone))
        # Looked up in the pending state, so that edges which either side added go as well.
        if isinstance(type_, NodeType) and gone:
            for edge, ends in iter_edges_at(sides.catalog, type_.name):
                for end in ends:
                    lost = pending.get_table(edge).find_matching(end.column, gone, [ID]).column(ID).to_pylist()
                    deleted.setdefault(edge.name, set()).update(lost)
                    pending.get_table(edge).delete(lost)
    return [
        _edit_table(sides, table, put.get(table.type.name), deleted.get(table.type.name, set())) for table in tables
    ]


def _edit_table(sides: MergeInputs, table: MergedTable, put: pa.Table | None, deleted: set[str]) -> MergedTable:
    """Return a merged table with rows put and deleted."""
    if put is None and not deleted:
        return table
    type_: AnyType = table.type
    version = sides.find_table(sides.get_view(table.side), type_)
    assert version is not None  # noqa: S101 - it is the side that the table starts from
    empty = build_empty_changes(type_).inserted
    rows = table.rows or RowMerge(put=empty, deleted=_NO_IDS, clashes=(), spared=_NO_IDS, disputed=_NO_IDS)
    gone = pa.array(sorted(deleted), pa.string())
    new = empty if put is None else put.select(empty.schema.names).cast(empty.schema)
    # An edge with a new value may go with its node, which another line deletes: deletion wins.
    new = new.filter(pa.array(~is_among(new.column(ID), gone)))
    edited = pa.concat_arrays([concat_chunks(new.column(ID)), gone])
    # Only rows of the version that the table starts from can be updated or deleted; others were never written.
    stored = find_existing_ids(version.table, edited)
    left = rows.put.filter(pa.array(~is_among(rows.put.column(ID), edited)))
    all_put = pa.concat_tables([left, new]).combine_chunks()
    all_deleted = pa.concat_arrays([rows.deleted, gone.filter(pa.array(is_among(gone, stored)))]).unique()
    all_deleted = all_deleted.filter(pa.array(~is_among(all_deleted, all_put.column(ID))))
    replaced = pa.concat_arrays([_NO_IDS if table.replaced is None else table.replaced, stored]).unique()
    updated = int(np.count_nonzero(is_among(all_put.column(ID), replaced)))
    return replace(
        table,
        rows=replace(rows, put=all_put, deleted=all_deleted),
        blobs=table.blobs or MergedBlobs(type_, {None: version}),
        replaced=replaced,
        # The addresses of the edited rows are looked up when they are written.
        addresses=None,
        inserted=all_put.num_rows - updated,
        updated=updated,
        deleted=len(all_deleted),
    )
