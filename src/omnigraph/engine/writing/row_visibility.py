"""Check that a writer who does not see all rows changes none that it does not see, before and after the write."""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from omnigraph.commit.requirements import Requirement, RowsUnchanged, TableUnchanged
from omnigraph.engine.constraints.edge_constraints import list_ends
from omnigraph.engine.row_security.evaluate_rules import RowValues, find_seen_rows
from omnigraph.engine.row_security.masked_tables import MaskedTables
from omnigraph.engine.writing.write_buffer import PendingTable, WriteBuffer
from omnigraph.policy import DeniedError
from omnigraph.schema.arrow import ID
from omnigraph.schema.catalog import EdgeType
from omnigraph.storage.columnar_sets import concat_chunks, is_among
from omnigraph.storage.key_lookup import find_existing_ids


def check_rows_seen(table: PendingTable, ids: pa.Array) -> None:
    """Check that the writer sees the committed rows with these ids.

    Raises:
        DeniedError: It does not.
    """
    if table.seen is table.table or not len(ids):
        return
    hidden = ids.filter(pa.array(~is_among(ids, find_existing_ids(table.seen, ids))))
    if len(hidden):
        raise DeniedError.row_hidden(table.type.name, hidden[0].as_py())


def check_keys_seen(table: PendingTable, ids: pa.Array) -> None:
    """Check that the writer sees the committed rows, if there are any, of the keys that an insert names.

    An insert keeps the values that it omits, which no later statement may read of a hidden row.

    Raises:
        DeniedError: It does not see one.
    """
    if table.seen is not table.table:
        check_rows_seen(table, table.find_committed_ids(ids))


def check_replaced_seen(pending: WriteBuffer) -> None:
    """Check that the writer sees every row that is replaced or deleted; constraints are checked only after that.

    Raises:
        DeniedError: It does not see one.
    """
    for table in pending.touched:
        _check_deleted(table)
        check_keys_seen(table, pa.array(table.known_ids, pa.string()))


def check_put_seen(pending: WriteBuffer, seen: MaskedTables) -> None:
    """Check that the writer sees every row that is put.

    Raises:
        DeniedError: It does not see one.
    """
    for table in pending.touched:
        _check_put(table, seen)


def _check_deleted(table: PendingTable) -> None:
    deleted = table.find_committed_ids(pa.array(list(table.deleted), pa.string()))
    if not isinstance(table.type, EdgeType):
        check_rows_seen(table, deleted)
    elif table.seen is not table.table and len(find_existing_ids(table.seen, deleted)) < len(deleted):
        # Statements select seen edges only, so these go with a node.
        raise DeniedError.edge_hidden(table.type.name)


def _check_put(table: PendingTable, seen: MaskedTables) -> None:
    rows = table.rows
    type_ = table.type
    values = RowValues(type_, rows.num_rows, lambda name: concat_chunks(rows.column(name)))
    # The ends of an edge have been checked as those of every edge, for which hidden nodes do not exist.
    hidden = np.flatnonzero(~find_seen_rows(seen.list_type_rules(type_), values))
    if len(hidden):
        raise DeniedError.row_out_of_sight(type_.name, rows.column(ID)[int(hidden[0])].as_py())


def build_requirements(pending: WriteBuffer, read_types: Iterable[str], *, is_row_local: bool) -> list[Requirement]:
    """Return what a write by an actor who sees some rows relies on, beyond the requirements of all writes.

    Which rows it sees follows from their values and those of their ends, so tables that it selected from must not
    change at all. A write that only inserts nodes (`is_row_local`) depends on the rows that it replaces alone.
    """
    if is_row_local:
        replaced = [
            (table.type.table_key, table.find_committed_ids(pa.array(table.known_ids, pa.string())))
            for table in pending.touched
        ]
        return [RowsUnchanged(table_key=key, ids=ids) for key, ids in replaced if len(ids)]
    types = {table.type.table_key: table.type for table in pending.list_tables()}
    types |= {pending.view.get_type(name).table_key: pending.view.get_type(name) for name in read_types}
    keys = dict.fromkeys(types)
    for type_ in types.values():
        if isinstance(type_, EdgeType):
            keys |= dict.fromkeys(pending.get_node_type(end.node).table_key for end in list_ends(type_))
    return [TableUnchanged(table_key=key) for key in keys]
