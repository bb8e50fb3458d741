"""Delete the edges of deleted nodes."""

from omnigraph.engine.constraints.edge_constraints import list_ends
from omnigraph.engine.writing.write_buffer import WriteBuffer
from omnigraph.schema.arrow import ID

# An estimate of what an id takes in memory while its row is deleted: a Python string, and entries in a few sets.
BYTES_PER_ID = 300


def cascade(pending: WriteBuffer) -> None:
    """Delete the edges of all types that start or end at a deleted node."""
    for edge in pending.view.catalog.edges.values():
        for end in list_ends(edge):
            deleted_nodes = pending.get_table(pending.get_node_type(end.node)).deleted
            if deleted_nodes:
                edges = pending.get_table(edge)
                edges.delete(edges.find_matching(end.column, deleted_nodes, [ID]).column(ID).to_pylist())
    deleted = sum(len(table.deleted) for table in pending.touched)
    pending.check_size(deleted * BYTES_PER_ID, f"the ids of {deleted:,} rows to delete")
