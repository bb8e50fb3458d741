"""Read the history of a branch forward: the position of a commit, and the commits after it, a part at a time.

The history of a branch is its head, the head's first parent, and so on to the first commit of the graph. A merge is one
commit of it, however many commits the other branch had.
"""

from bisect import bisect_right
from dataclasses import dataclass

from omnigraph.commit.manifest_codec import decode_journal
from omnigraph.commit.manifest_log import Head, ManifestLog, decode_sealed
from omnigraph.commit.manifest_repair import OPERATION as REPAIR
from omnigraph.commit.manifest_types import Commit
from omnigraph.commit.purges import Purge
from omnigraph.commit.time_travel import CommitMissingError


@dataclass(frozen=True, slots=True)
class HistoryPosition:
    """A position in the history of a branch: after a commit, or before the first one."""

    commit: Commit | None
    schema_id: str | None
    """The schema in force there; None before the first commit."""
    purged: tuple[tuple[Purge, Commit], ...] = ()
    """The data that later commits permanently dropped, with these commits."""

    @property
    def seq(self) -> int:
        """The number of the commit; -1 before the first one."""
        return -1 if self.commit is None else self.commit.seq


def find_position(log: ManifestLog, head: Head, commit_id: str | None) -> HistoryPosition:
    """Return the position after a commit in the history of `head`, or before the first commit if `commit_id` is None.

    Reads all later commits.

    Raises:
        CommitMissingError: The history has no such commit.
    """
    schema_id: str | None = head.snapshot.manifest.schema.id
    purged: list[tuple[Purge, Commit]] = []
    for commit in log.iter_history(head):
        if commit.id == commit_id:
            return HistoryPosition(commit, schema_id, tuple(purged))
        purged += [(purge, commit) for purge in commit.purged]
        if commit.schema_after is not None:
            schema_id = commit.schema_before
    if commit_id is not None:
        raise CommitMissingError(commit_id, log.branch)
    return HistoryPosition(None, None, tuple(purged))


def read_next_commits(log: ManifestLog, head: Head, seq: int) -> tuple[Commit, ...]:
    """Return the commits after number `seq` in a history, oldest first and without a gap; empty only at its end.

    They come from one part of one journal. To continue, call it again after the last of them with a fresh head: parts
    of an old head are merged and removed over time.
    """
    end = head.snapshot.commit.seq + 1
    fork = head.snapshot.manifest.fork
    # The commit of the fork is in the branch's own journal too.
    while fork is not None and seq + 1 < fork.seq:
        end = fork.seq
        log = log.open_parent(fork)
        head = log.final_head()
        fork = head.snapshot.manifest.fork
    commits = head.snapshot.manifest.commits
    if commits[0].seq > seq + 1:
        # The first sealed part whose newest commit comes after `seq`, found by bisection: one row is read of each.
        index = bisect_right(range(head.table.sealed_count), seq, key=lambda part: _read_newest_seq(head, part))
        commits, _ = decode_sealed(head, index)
    return tuple(commit for commit in commits if seq < commit.seq < end)


def _read_newest_seq(head: Head, index: int) -> int:
    """Return the number of the newest commit of a sealed part, which is its last row."""
    commits, _ = decode_journal(head.table.read_sealed(index, last=1))
    return commits[-1].seq


def find_restored_tables(log: ManifestLog, head: Head, commit: Commit) -> frozenset[str]:
    """Return the locations of tables that a repair reset without losing rows: it undid only maintenance commits."""
    if commit.operation != REPAIR:
        return frozenset()
    targets = {change.path: change.after for change in commit.changes if change.before and change.after}
    restored: set[str] = set()
    # Back from the repair: a table is decided once its restored version, or a commit that changed its rows, is reached.
    for earlier in log.iter_history(head, commit.seq):
        if not targets:
            break
        for change in earlier.changes:
            if targets.get(change.path) == change.after:
                restored.add(change.path)
            if targets.get(change.path) == change.after or not earlier.is_maintenance:
                targets.pop(change.path, None)
    return frozenset(restored)
