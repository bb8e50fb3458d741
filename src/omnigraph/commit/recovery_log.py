"""Record the audit of recoveries: one row per recovered operation, exactly once."""

from collections.abc import Sequence

import msgspec
import pyarrow as pa

from omnigraph.storage.cas_table import CasTable, create_cas_table, open_cas_table
from omnigraph.storage.cas_table_errors import SwapLostError, TableMissingError
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.layout import AUDIT
from omnigraph.struct_decoder import convert

SCHEMA = pa.schema(
    [
        pa.field("recovery_id", pa.string(), False),
        pa.field("operation_id", pa.string(), False),
        pa.field("kind", pa.string(), False),
        pa.field("recovery_for_actor", pa.string(), False),
        pa.field("graph_commit_id", pa.string()),
        pa.field("outcomes", pa.string(), False),
        pa.field("bytes_reclaimed", pa.int64(), False),
        pa.field("created_at", pa.string(), False),
    ]
)
# Each new row rewrites the head of the table, so full heads are sealed.
SEAL_ROWS = 256


class AuditRow(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of recovering one operation. `operation_id` is unique in the table."""

    recovery_id: str
    operation_id: str
    kind: str
    recovery_for_actor: str
    graph_commit_id: str | None
    outcomes: str
    bytes_reclaimed: int
    created_at: str


def record_recovery(store: GraphStorage, row: AuditRow) -> None:
    """Write a row unless this operation has one; concurrent recoveries leave exactly one."""
    while True:
        table = _open(store)
        # Read again after each lost swap: the winner may have written the row of this very operation.
        rows = _read_all_rows(table)
        if any(existing["operation_id"] == row.operation_id for existing in rows):
            return
        new = pa.Table.from_pylist([msgspec.structs.asdict(row)], SCHEMA)
        head = table.read_head()
        seal = head if head.num_rows >= SEAL_ROWS else None
        prepared = table.prepare(new if seal is not None else pa.concat_tables([head, new]), seal=seal)
        store.flush(prepared.files)
        try:
            table.commit(prepared).flush()
        except SwapLostError:
            continue
        return


def read_rows(store: GraphStorage) -> list[AuditRow]:
    """Return all rows, oldest first."""
    try:
        table = open_cas_table(store, AUDIT)
    except TableMissingError:
        return []
    return [convert(row, AuditRow) for row in _read_all_rows(table)]


def _open(store: GraphStorage) -> CasTable:
    try:
        return open_cas_table(store, AUDIT)
    except TableMissingError:
        try:
            # The table is created by the first recovery of a graph.
            return create_cas_table(store, AUDIT, SCHEMA.empty_table())
        except SwapLostError:
            return open_cas_table(store, AUDIT)


def _read_all_rows(table: CasTable) -> Sequence[dict[str, object]]:
    parts = [*(table.read_sealed(i) for i in range(table.sealed_count)), table.read_head()]
    return [row for part in parts for row in part.to_pylist()]
