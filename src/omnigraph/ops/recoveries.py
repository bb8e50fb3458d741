"""What recovery did about operations that died: the audit, which outlives their branches. Changes nothing."""

from dataclasses import dataclass

import msgspec

from omnigraph.commit import recovery_log
from omnigraph.ops.argument_checks import check_count
from omnigraph.ops.session import Session
from omnigraph.policy import Action


class TableOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the files of one table that an operation had named."""

    table: str
    outcome: str
    files: int


class _Outcomes(msgspec.Struct, frozen=True, kw_only=True):
    """The column `outcomes` of the audit. Rows of earlier releases name no branch."""

    operation: str
    branch: str | None = None
    tables: tuple[TableOutcome, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """One operation that recovery has settled."""

    id: str
    operation_id: str
    kind: str
    """`RolledForward`: it had landed, and only its end was missing. `RolledBack`: nothing of it is visible, ever."""
    operation: str
    actor: str
    """Who had run it."""
    branch: str | None
    """The branch that it was on, which may be gone; None in rows of earlier releases."""
    commit_id: str | None
    """The commit that it made; of one that was rolled back, the empty commit that keeps it from landing."""
    tables: tuple[TableOutcome, ...]
    bytes_reclaimed: int
    at: str

    def to_json(self) -> dict[str, object]:
        """Return what every door shows."""
        return {
            "id": self.id,
            "operation_id": self.operation_id,
            "kind": self.kind,
            "operation": self.operation,
            "actor": self.actor,
            "branch": self.branch,
            "commit_id": self.commit_id,
            "tables": [msgspec.structs.asdict(one) for one in self.tables],
            "bytes_reclaimed": self.bytes_reclaimed,
            "at": self.at,
        }


def list_recoveries(session: Session, *, limit: int | None = None, before: str | None = None) -> list[Recovery]:
    """List what was recovered, newest first: at most `limit`, of those that are older than the one of id `before`."""
    session.allow_on_graph(Action.READ)
    check_count("limit", limit)
    found = [_decode(row) for row in reversed(recovery_log.read_rows(session.store))]
    if before is not None:
        place = next((number for number, one in enumerate(found, start=1) if one.id == before), len(found))
        found = found[place:]
    return found[:limit]


def _decode(row: recovery_log.AuditRow) -> Recovery:
    outcomes = msgspec.json.decode(row.outcomes, type=_Outcomes)
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
