"""The line of a branch read forward: where a commit stands in it, and what follows, a part at a time.

The line of a branch is its head, that one's first parent, and so on to the first commit of the graph. A merge is one
commit of it, whatever the other branch had.
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
    """A place in the line of a branch: behind a commit, or before the first."""

    commit: Commit | None
    schema_id: str | None
    """The schema that was accepted there; None before the first commit."""
    purged: tuple[tuple[Purge, Commit], ...] = ()
    """What later commits dropped for good, with these."""

    @property
    def seq(self) -> int:
        """The number of the commit."""
        return -1 if self.commit is None else self.commit.seq


def find_position(log: ManifestLog, head: Head, commit_id: str | None) -> HistoryPosition:
    """The place behind a commit of a state's line, or before the first one. Costs what follows it.

    CommitMissingError when it is no commit of that line.
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
    """Commits that follow number `seq` in a state's line, oldest first and without a gap; none only at its end.

    They are those of one part of one journal: ask again behind the last of them, on a fresh state, because the parts
    of an old one are merged and removed some day.
    """
    ends = head.snapshot.commit.seq + 1
    fork = head.snapshot.manifest.fork
    while fork is not None and seq + 1 < fork.seq:  # the commit of the fork is in the branch's own journal too
        ends, log = fork.seq, log.open_parent(fork)
        head = log.final_head()
        fork = head.snapshot.manifest.fork
    commits = head.snapshot.manifest.commits
    if commits[0].seq > seq + 1:
        # The first sealed part whose newest commit is behind `seq`.
        index = bisect_right(range(head.table.sealed_count), seq, key=lambda at: _read_newest_seq(head, at))
        commits, _ = decode_sealed(head, index)
    return tuple(commit for commit in commits if seq < commit.seq < ends)


def _read_newest_seq(head: Head, index: int) -> int:
    """The number of the last commit of a sealed part, which is its last row."""
    commits, _ = decode_journal(head.table.read_sealed(index, last=1))
    return commits[-1].seq


def find_restored_tables(log: ManifestLog, head: Head, commit: Commit) -> frozenset[str]:
    """The locations of tables that a repair put back without a loss: all that it undid left every row as it was."""
    if commit.operation != REPAIR:
        return frozenset()
    wanted = {change.path: change.after for change in commit.changes if change.before and change.after}
    found: set[str] = set()
    for earlier in log.iter_history(head, commit.seq):
        if not wanted:
            break
        for change in earlier.changes:
            if wanted.get(change.path) == change.after:
                found.add(change.path)
            if wanted.get(change.path) == change.after or not earlier.is_maintenance:
                wanted.pop(change.path, None)
    return frozenset(found)
