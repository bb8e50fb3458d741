"""Rebase a commit plan onto a newer head, after checking that the commits since do not conflict with it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from omnigraph.commit.commit_plan import CommitPlan, Move
from omnigraph.commit.conflict import ConflictError
from omnigraph.commit.manifest_log import Head
from omnigraph.commit.manifest_types import Commit, Snapshot
from omnigraph.commit.row_changes import RowChange, is_unaffected
from omnigraph.commit.snapshot_tables import SnapshotTables
from omnigraph.storage.compaction import rebase_staged
from omnigraph.storage.staging import restage_in_place
from omnigraph.storage.table_cache import TableCache


def find_changed_tables(base: Snapshot, now: Snapshot, between: Sequence[Commit]) -> set[str]:
    """Return the tables whose rows the commits between two states changed.

    Maintenance alone is no change.
    """
    moved = {key for key in base.pins.keys() | now.pins.keys() if base.pins.get(key) != now.pins.get(key)}
    return moved & {change.table_key for commit in between if not commit.is_maintenance for change in commit.changes}


def check_if_commit(if_commit: str | None, history: Iterable[Commit]) -> None:
    """Check that `if_commit`, unless it is None, is the newest commit of a history that changed rows or the schema.

    Commits of maintenance and recovery since are skipped: they make no write fail. `history` is newest first.

    Raises:
        ConflictError: Another commit has changed rows or the schema since.
    """
    if if_commit is None:
        return
    head = None
    for commit in history:
        head = head or commit.id
        if commit.id == if_commit:
            return
        if not commit.is_silent:
            break
    raise ConflictError("graph_head", if_commit, head or "none", "the branch has moved on")


def rebase(
    plan: CommitPlan,
    now: Head,
    between: Sequence[Commit],
    handles: TableCache,
    known: Mapping[str, RowChange | None],
) -> CommitPlan:
    """Return the plan on the new head. `between` are the commits from the plan's base to the new head.

    `known` has what they changed about each table that the plan uses, as `row_changes.find_change` returns it.

    Raises:
        ConflictError: A requirement of the plan no longer holds.
    """
    base, newer = plan.base.snapshot, now.snapshot
    if plan.if_commit is not None and not all(commit.is_silent for commit in between):
        raise ConflictError("graph_head", plan.if_commit, newer.commit.id, "the branch has moved on")
    if base.manifest.schema.id != newer.manifest.schema.id:
        raise ConflictError("schema", base.manifest.schema.id, newer.manifest.schema.id, "the schema was changed")
    changed = find_changed_tables(base, newer, between)
    before = SnapshotTables(handles, base, plan.watch)
    after = SnapshotTables(handles, newer, plan.watch)
    for requirement in plan.requirements:
        # Most commits touch other tables: those requirements need no reads.
        if requirement.table_key not in changed:
            continue
        if requirement.table_key not in newer.pins:
            raise ConflictError(requirement.table_key, "a table", "none", "the table was dropped")
        change = known[requirement.table_key]
        if change is not None and is_unaffected(requirement, change):
            continue
        violation = requirement.check(before, after)
        if violation is not None:
            expected, actual = base.pins.get(violation.table_key), newer.pins.get(violation.table_key)
            raise ConflictError(
                violation.table_key,
                str(expected.version) if expected else "none",
                str(actual.version) if actual else "none",
                violation.reason,
            )
    # Moves on adopted versions start from that version, not from the head's.
    moves = (move if move.table_key in plan.adopted else _rebase_move(move, base, after, known) for move in plan.moves)
    return replace(plan, base=now, moves=tuple(moves))


def _rebase_move(move: Move, base: Snapshot, after: SnapshotTables, known: Mapping[str, RowChange | None]) -> Move:
    if move.staged.is_placed and base.pins.get(move.table_key) == after.snapshot.pins.get(move.table_key):
        return move
    table = after.open_table(move.table_key)
    other = known[move.table_key]
    own = move.change
    is_apart = own is not None and other is not None and own.ids.isdisjoint(other.ids)
    if own is None or other is None or not is_apart or (other.moves_rows and move.staged.taken_rows):
        staged = rebase_staged(move.staged, table)
        # Another commit may have inserted a row that it now replaces.
        return replace(move, staged=staged, change=own and replace(own, is_fresh=not staged.taken_rows))
    # The rows that it replaces are where they were: none of them was changed, and no fragment rewritten.
    return replace(move, staged=restage_in_place(move.staged, table, own.located))
