"""Moving a plan onto a newer head: what changed meanwhile, and whether the plan may follow."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from omnigraph.commit.commit_plan import CommitPlan, Move
from omnigraph.commit.conflict import ConflictError
from omnigraph.commit.manifest_log import Head
from omnigraph.commit.manifest_types import Commit, Snapshot
from omnigraph.commit.snapshot_tables import SnapshotTables
from omnigraph.storage.compaction import rebase_staged
from omnigraph.storage.table_cache import TableCache


def find_changed_tables(base: Snapshot, now: Snapshot, between: Sequence[Commit]) -> set[str]:
    """The tables whose content the commits between the two changed; maintenance alone is no change."""
    moved = {key for key in base.pins.keys() | now.pins.keys() if base.pins.get(key) != now.pins.get(key)}
    return moved & {change.table_key for commit in between if not commit.is_maintenance for change in commit.changes}


def check_if_commit(plan: CommitPlan, history: Iterable[Commit]) -> None:
    """`if_commit` is the newest of the commits, newest first, that changed anything; or ConflictError.

    Maintenance and recovery make no write fail, so what they have added since is passed over.
    """
    if plan.if_commit is None:
        return
    head = plan.base.snapshot.commit.id
    for commit in history:
        if commit.id == plan.if_commit:
            return
        if not commit.is_silent:
            break
    raise ConflictError("graph_head", plan.if_commit, head, "the branch has moved on")


def rebase(plan: CommitPlan, now: Head, between: Sequence[Commit], handles: TableCache) -> CommitPlan:
    """The plan on the new head, or ConflictError when something it relied on is not so any more.

    `between` are the commits from the plan's base to the new head.
    """
    base, newer = plan.base.snapshot, now.snapshot
    if plan.if_commit is not None and not all(commit.is_silent for commit in between):
        raise ConflictError("graph_head", plan.if_commit, newer.commit.id, "the branch has moved on")
    if base.manifest.schema.id != newer.manifest.schema.id:
        raise ConflictError("schema", base.manifest.schema.id, newer.manifest.schema.id, "the schema was changed")
    changed = find_changed_tables(base, newer, between)
    before, after = (SnapshotTables(handles, state, plan.watch) for state in (base, newer))
    for requirement in plan.requirements:
        if requirement.table_key not in changed:
            continue
        if requirement.table_key not in newer.pins:
            raise ConflictError(requirement.table_key, "a table", "none", "the table was dropped")
        violation = requirement.check(before, after)
        if violation is not None:
            expected, actual = base.pins.get(violation.table_key), newer.pins.get(violation.table_key)
            raise ConflictError(
                violation.table_key,
                str(expected.version) if expected else "none",
                str(actual.version) if actual else "none",
                violation.reason,
            )
    moves = (move if move.table_key in plan.adopted else _rebase_move(move, base, after) for move in plan.moves)
    return replace(plan, base=now, moves=tuple(moves))


def _rebase_move(move: Move, base: Snapshot, after: SnapshotTables) -> Move:
    if base.pins.get(move.table_key) == after.snapshot.pins.get(move.table_key):
        return move
    return replace(move, staged=rebase_staged(move.staged, after.open_table(move.table_key)))
