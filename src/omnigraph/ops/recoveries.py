"""List the audit log of recovery: what it did about operations that died. The log outlives their branches."""

import msgspec

from omnigraph.commit import recovery_log
from omnigraph.json_struct import JsonStruct
from omnigraph.ops.argument_checks import check_count
from omnigraph.ops.session import Session, is_readable
from omnigraph.policy import Action
from omnigraph.struct_decoder import get_decoder


class TableOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome for the files of one table that an operation had named."""

    table: str
    outcome: str
    files: int


class _Outcomes(msgspec.Struct, frozen=True, kw_only=True):
    """The column `outcomes` of the audit. Rows of earlier releases name no branch."""

    operation: str
    branch: str | None = None
    tables: tuple[TableOutcome, ...] = ()


class Recovery(JsonStruct, frozen=True, kw_only=True):
    """An operation that recovery has rolled forward or back."""

    id: str
    operation_id: str
    kind: str
    """`RolledForward`: it was committed, only its cleanup was missing. `RolledBack`: it will never be visible."""
    operation: str
    actor: str
    """The actor that had run it."""
    branch: str | None
    """The branch that it was on, which may have been deleted; None in rows of earlier releases."""
    commit_id: str | None
    """The commit that it made; if it was rolled back, the empty commit that keeps it from being published."""
    tables: tuple[TableOutcome, ...]
    bytes_reclaimed: int
    at: str


def list_recoveries(session: Session, *, limit: int | None = None, before: str | None = None) -> list[Recovery]:
    """List at most `limit` recoveries, newest first; with `before`, only those older than the one with that id."""
    session.allow_on_graph(Action.READ)
    check_count("limit", limit)
    decoded = (_decode(row) for row in reversed(recovery_log.read_rows(session.store)))
    recoveries = [item for item in decoded if item.branch is None or is_readable(session, item.branch)]
    if before is not None:
        # An unknown id yields an empty page, not the first one again.
        start = next((number for number, item in enumerate(recoveries, start=1) if item.id == before), len(recoveries))
        recoveries = recoveries[start:]
    return recoveries[:limit]


def _decode(row: recovery_log.AuditRow) -> Recovery:
    outcomes = get_decoder(_Outcomes).decode(row.outcomes)
    return Recovery(
        id=row.recovery_id,
        operation_id=row.operation_id,
        kind=row.kind,
        operation=outcomes.operation,
        actor=row.recovery_for_actor,
        branch=outcomes.branch,
        commit_id=row.graph_commit_id,
        tables=outcomes.tables,
        bytes_reclaimed=row.bytes_reclaimed,
        at=row.created_at,
    )
