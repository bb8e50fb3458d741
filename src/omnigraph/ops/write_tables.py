"""Write to several tables in one commit, with Arrow rows that are already checked. All data operations end here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from omnigraph.commit.commit_plan import CommitPlan, Move
from omnigraph.commit.group_commit import PublishResult
from omnigraph.commit.idempotency import find_earlier_commit
from omnigraph.commit.manifest_log import Head
from omnigraph.commit.manifest_types import Commit
from omnigraph.commit.publisher import ArmedWrite, abandon, arm, publish
from omnigraph.commit.requirements import IdsAbsent, Requirement, TableUnchanged
from omnigraph.commit.row_changes import MAX_KEPT_BYTES, MAX_KEPT_ROWS, RowChange
from omnigraph.commit.snapshot_tables import SnapshotTables
from omnigraph.ops.commit_signature import check_signature
from omnigraph.ops.session import Session, open_whole_tables
from omnigraph.storage.key_lookup import RowLocations
from omnigraph.storage.lance_table import LanceTable
from omnigraph.storage.staging import (
    UNPLACED,
    RowStream,
    StagedWrite,
    WriteKind,
    WriteObserver,
    stage_append,
    stage_delete,
    stage_overwrite,
    stage_upsert,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableWrite:
    """A write to one table: exactly one of append, upsert, delete, overwrite and staged is set.

    Only an upsert may delete rows too, which it does not write.
    """

    table_key: str
    append: pa.Table | RowStream | None = None
    upsert: pa.Table | RowStream | None = None
    delete: Sequence[str] | None = None
    located: RowLocations | None = None
    """The locations of the rows that an upsert or delete removes, if the caller has looked all of them up."""
    overwrite: pa.Table | RowStream | None = None
    staged: StagedWrite | None = None
    """Files already written, by a Spark executor for example, for the version that the write is based on."""

    def __post_init__(self) -> None:
        deleted = self.delete if self.upsert is None else None
        parts = (self.append, self.upsert, deleted, self.overwrite, self.staged)
        if len([part for part in parts if part is not None]) != 1:
            raise ValueError(f"a write of {self.table_key} is one of append, upsert, delete, overwrite, staged")

    @property
    def replaces_all(self) -> bool:
        """Whether no row of the table stays."""
        return self.overwrite is not None or (self.staged is not None and self.staged.change is WriteKind.OVERWRITE)

    @property
    def is_streamed(self) -> bool:
        """Whether staging may take long, because the number of rows is unknown."""
        return any(isinstance(part, RowStream) for part in (self.append, self.upsert, self.overwrite))

    def stage(self, table: LanceTable, witness: WriteObserver, *, awaits_turn: bool = False) -> StagedWrite:
        """Write the files without making them visible; if it `awaits_turn`, without those of deletions."""
        if self.staged is not None:
            return self.staged
        if self.append is not None:
            return stage_append(table, self.append, witness)
        if self.upsert is not None:
            deleted = self.delete or ()
            return stage_upsert(table, self.upsert, witness, self.located, deleted, awaits_turn=awaits_turn)
        if self.delete is not None:
            return stage_delete(table, self.delete, self.located, awaits_turn=awaits_turn)
        assert self.overwrite is not None  # noqa: S101 - one of the five, see above
        return stage_overwrite(table, self.overwrite, witness)


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
    request: str | None = None,
    if_commit: str | None = None,
    affected: tuple[int, int] | None = None,
    summary: Mapping[str, Mapping[str, int]] | None = None,
    armed: ArmedWrite | None = None,
) -> PublishResult | None:
    """Commit all writes atomically; return None if nothing would change.

    An overwrite requires that no other writer changes its table in the meantime. Before streamed rows are written, a
    sidecar is armed, so that recovery removes their files if the process dies; `armed` is one that the caller has made.

    Raises:
        ConflictError: A requirement is not met.
        KeyReusedError: The actor used the idempotency key for another operation or another `request`.
    """
    session.check_writable()
    check_signature(actor, message, idempotency_key)
    if requirements and base is None:
        raise ValueError("requirements need the base that they were read from")
    head = session.cached_head() if base is None else base
    parts = CommitPlan(
        base=head,
        operation=operation,
        actor=actor,
        requirements=tuple(requirements),
        message=message,
        idempotency_key=idempotency_key,
        request=request,
        if_commit=if_commit,
        affected=affected,
        summary=summary,
        watch=session.watch,
    )
    earlier = _find_earlier_commit(session, parts)
    # Checked before staging: the rows of the earlier run would conflict with those staged now.
    if earlier is not None:
        return PublishResult(earlier, head, is_repeated=True)
    staged = stage_plan(session, parts, writes, armed)
    if base is None and staged is None:
        # Without a commit no swap would reveal that the cached head is old, so try again on the newest.
        parts = replace(parts, base=session.head())
        earlier = _find_earlier_commit(session, parts)
        if earlier is not None:
            return PublishResult(earlier, parts.base, is_repeated=True)
        staged = stage_plan(session, parts, writes)
    if staged is None:
        return None
    done = publish(session.log, session.handles, *staged)
    keep_tails_short(session, staged[0], done, is_staged=any(write.staged for write in writes))
    return done


def _find_earlier_commit(session: Session, plan: CommitPlan) -> Commit | None:
    return find_earlier_commit(
        session.log,
        plan.base,
        operation=plan.operation,
        actor=plan.actor,
        key=plan.idempotency_key,
        request=plan.request,
    )


def stage_plan(
    session: Session,
    parts: CommitPlan,
    writes: Sequence[TableWrite],
    armed: ArmedWrite | None = None,
    *,
    awaits_turn: bool = False,
) -> tuple[CommitPlan, ArmedWrite | None] | None:
    """Stage writes on the base of a plan without moves, and return it with the moves; None if nothing would change.

    The plan comes with its sidecar: `armed`, or for streamed rows a new one. If it `awaits_turn`, because others
    publish, rows are deleted when its turn comes: on its base it would be in vain.
    """
    if armed is None and any(write.is_streamed for write in writes):
        armed = arm(session.log, parts.base, operation=parts.operation, actor=parts.actor, commit_id=parts.commit_id)
    tables = open_whole_tables(session, parts.base.snapshot)
    moves = stage_writes(session, tables, writes, armed, awaits_turn=awaits_turn)
    effective = tuple(move for move in moves if move.staged.has_effect)
    if not effective:
        _abandon(session, armed, moves)
        return None
    strict: tuple[Requirement, ...] = (
        *(TableUnchanged(table_key=write.table_key) for write in writes if write.replaces_all),
        # A delete that matched nothing is still part of the write: no other writer may have inserted its rows before.
        *(
            IdsAbsent(table_key=move.table_key, ids=move.staged.keys)
            for move in moves
            if len(move.staged.keys) and not move.staged.has_effect
        ),
    )
    return replace(parts, moves=effective, requirements=(*parts.requirements, *strict)), armed


def keep_tails_short(session: Session, plan: CommitPlan, done: PublishResult, *, is_staged: bool = False) -> None:
    """Have the small fragments of the tables of a small write compacted where they are many."""
    rows = sum(move.staged.written_rows for move in plan.moves)
    # Bulk loads and executors write few large fragments: they leave the work to the next small write.
    if rows < session.runtime.options.upkeep.tail_rows and not is_staged:
        session.tails.on_write(session, done.head.snapshot, [change.table_key for change in done.commit.changes])


class _StagedFiles:
    """The files of a write so far, recorded in its sidecar if it is armed."""

    def __init__(self, armed: ArmedWrite | None) -> None:
        self._armed = armed
        self.complete: list[str] = []

    def on_begin(self, files: Sequence[str]) -> None:
        """Record files that another write of this process may share; recovery removes them only if the process died."""
        if self._armed is not None:
            self._armed.lease.add_files(files)

    def on_complete(self, files: Sequence[str]) -> None:
        """Record files that belong to this write alone."""
        self.complete += files
        if self._armed is not None:
            self._armed.lease.add_files(files)


def stage_writes(
    session: Session,
    tables: SnapshotTables,
    writes: Sequence[TableWrite],
    armed: ArmedWrite | None,
    *,
    awaits_turn: bool = False,
) -> tuple[Move, ...]:
    """Stage every write on these versions; if one fails, the files of all are removed."""
    files = _StagedFiles(armed)
    moves: list[Move] = []
    try:
        for write in writes:
            session.check_cancelled()
            staged = write.stage(tables.open_table(write.table_key), files, awaits_turn=awaits_turn)
            files.on_complete(staged.files)
            moves.append(Move(table_key=write.table_key, staged=staged, change=_build_change(write, staged)))
    # Interrupts too: nothing is visible yet, so all files may be removed.
    except BaseException as error:
        abandon(session.log, armed, files.complete, error)
        raise
    return tuple(moves)


def _build_change(write: TableWrite, staged: StagedWrite) -> RowChange | None:
    """Return the rows that a write changes, if they are few and in memory."""
    rows = write.append if write.append is not None else write.upsert
    is_located = write.located is not None and staged.base in (write.located.version, UNPLACED)
    located = write.located if is_located else None
    deleted = write.delete or ()
    if rows is None and write.delete is not None and len(deleted) <= MAX_KEPT_ROWS:
        return RowChange(ids=frozenset(deleted), rows=None, is_fresh=False, located=located)
    is_large = not isinstance(rows, pa.Table) or rows.num_rows > MAX_KEPT_ROWS or rows.nbytes > MAX_KEPT_BYTES
    if is_large or len(deleted) > MAX_KEPT_ROWS:
        return None
    assert isinstance(rows, pa.Table)  # noqa: S101 - checked above
    ids = frozenset([*rows.column("id").to_pylist(), *deleted])
    return RowChange(ids=ids, rows=rows, is_fresh=not staged.taken_rows, located=located)


def _abandon(session: Session, armed: ArmedWrite | None, moves: Sequence[Move]) -> None:
    """Remove the files of a write that is not committed."""
    abandon(session.log, armed, [file for move in moves for file in move.staged.files])
