"""Change several tables in one commit: rows in Arrow, already checked. Every data verb ends here."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from omnigraph.commit.manifest_log import Head
from omnigraph.commit.plan import CommitPlan, Move
from omnigraph.commit.publisher import Committed, publish
from omnigraph.commit.requirement import IdsAbsent, Requirement, TableUnchanged
from omnigraph.commit.tables import SnapshotTables
from omnigraph.ops.actors import check_actor
from omnigraph.ops.session import Session
from omnigraph.storage.dataset import Table
from omnigraph.storage.staging import Staged, stage_append, stage_delete, stage_overwrite, stage_upsert


@dataclass(frozen=True, slots=True, kw_only=True)
class TableWrite:
    """What happens to one table: exactly one of the four is given."""

    table_key: str
    append: pa.Table | None = None
    upsert: pa.Table | None = None
    delete: Sequence[str] | None = None
    overwrite: pa.Table | None = None

    def __post_init__(self) -> None:
        given = [part for part in (self.append, self.upsert, self.delete, self.overwrite) if part is not None]
        if len(given) != 1:
            raise ValueError(f"a write of {self.table_key} is one of append, upsert, delete, overwrite")

    def stage(self, table: Table) -> Staged:
        """Write the files, invisible."""
        if self.append is not None:
            return stage_append(table, self.append)
        if self.upsert is not None:
            return stage_upsert(table, self.upsert)
        if self.delete is not None:
            return stage_delete(table, self.delete)
        assert self.overwrite is not None  # noqa: S101 - one of the four, see above
        return stage_overwrite(table, self.overwrite)


def write_tables(  # noqa: PLR0913 - the parts of a commit, all by name but the two that matter
    session: Session,
    writes: Sequence[TableWrite],
    *,
    operation: str,
    actor: str,
    base: Head | None = None,
    requirements: Sequence[Requirement] = (),
    message: str | None = None,
    idempotency_key: str | None = None,
    if_commit: str | None = None,
    affected: tuple[int, int] | None = None,
) -> Committed | None:
    """One commit of all writes, or none; None when nothing would change.

    An overwrite requires that nobody else changes its table meanwhile. ConflictError when a requirement broke.
    """
    session.check_writable()
    check_actor(actor)
    if requirements and base is None:
        raise ValueError("what a write relied on was read from some base: name it")
    head = session.log.recent() if base is None else base
    earlier = _earlier(session, head, actor, idempotency_key)
    if earlier is not None:
        return earlier
    moves = _stage(session, head, writes)
    if base is None and not any(move.staged.has_effect for move in moves):
        head = session.head()  # a base that no swap will test may be old: look properly before saying so
        earlier = _earlier(session, head, actor, idempotency_key)
        if earlier is not None:
            return earlier
        moves = _stage(session, head, writes)
    effective = tuple(move for move in moves if move.staged.has_effect)
    if not effective:
        return None
    strict: tuple[Requirement, ...] = (
        *(TableUnchanged(table_key=write.table_key) for write in writes if write.overwrite is not None),
        *(  # a delete that found nothing is still part of the write: nobody may have inserted such a row before it
            IdsAbsent(table_key=move.table_key, ids=move.staged.keys)
            for move in moves
            if move.staged.keys and not move.staged.has_effect
        ),
    )
    plan = CommitPlan(
        base=head,
        operation=operation,
        actor=actor,
        moves=effective,
        requirements=(*requirements, *strict),
        message=message,
        idempotency_key=idempotency_key,
        if_commit=if_commit,
        affected=affected,
    )
    return publish(session.log, session.handles, plan)


def _earlier(session: Session, head: Head, actor: str, idempotency_key: str | None) -> Committed | None:
    """What an earlier try of the same request did: found before staging, since its own rows may stand in the way."""
    if idempotency_key is None:
        return None
    commit = session.log.done_before(head, actor, idempotency_key)
    return None if commit is None else Committed(commit, head, was_there=True)


def _stage(session: Session, head: Head, writes: Sequence[TableWrite]) -> tuple[Move, ...]:
    tables = SnapshotTables(session.handles, head.snapshot)
    return tuple(Move(table_key=write.table_key, staged=write.stage(tables.table(write.table_key))) for write in writes)
