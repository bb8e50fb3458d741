"""Find the merge base of two branches, and the commits that each has had since.

They are read from the journals of both branches and of every branch that was merged into them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from omnigraph.clock import parse_instant
from omnigraph.commit.manifest_log import Head, ManifestLog, NotAGraphError
from omnigraph.commit.manifest_types import Commit, MergedFrom, Snapshot
from omnigraph.commit.time_travel import CommitMissingError, read_at_commit
from omnigraph.errors import CorruptError, Kind

# Maps a commit id to the ids of its parents: none, one, or two for a merge.
Parents = Callable[[str], Iterable[str]]


def find_ancestors(commit_id: str, parents: Parents) -> set[str]:
    """Return the ids of a commit and of all its ancestors."""
    ancestors: set[str] = set()
    stack = [commit_id]
    while stack:
        current = stack.pop()
        if current not in ancestors:
            ancestors.add(current)
            stack.extend(parents(current))
    return ancestors


def find_merge_base(left: str, right: str, parents: Parents) -> str | None:
    """Return the first merge base of two commits, or None if they have no common ancestor."""
    return next(iter(find_merge_bases(left, right, parents)), None)


def find_merge_bases(left: str, right: str, parents: Parents) -> tuple[str, ...]:
    """Return the best common ancestors, those that no other common ancestor descends from; largest id first.

    Ids are ULIDs, so the largest is the newest. There are several after criss-cross merges.
    """
    common = find_ancestors(left, parents) & find_ancestors(right, parents)
    # Ancestors of a common ancestor are common too, so a common ancestor that another one descends from is the parent
    # of some common ancestor.
    best = common - {parent for commit_id in common for parent in parents(commit_id)}
    return tuple(sorted(best, reverse=True))


# Which sides of a merge have merged a branch.
MERGED_BY_BOTH, MERGED_BY_EITHER = "both", "one"
# Commits whose times are closer than this may have been created in either order, since each writer uses its own clock.
MAX_CLOCK_SKEW = timedelta(hours=12)


class MergeBaseGoneError(CorruptError):
    """A merged branch has lost its journal, so the merge base can no longer be determined."""

    kind = Kind.CORRUPT
    code = "merge_base_gone"
    branch: str
    path: str
    merged_by: str = MERGED_BY_BOTH

    def __str__(self) -> str:
        is_both = self.merged_by == MERGED_BY_BOTH
        sides = "both branches have" if is_both else "one branch has"
        suspicion = "" if is_both else ", and may be ancestors of commits of the other branch"
        return (
            f"{sides} merged `{self.branch}`, whose commits ({self.path}) are missing{suspicion}: a merge could restore"
            " rows that were deleted since. Export the rows you need from one branch, and load them into the other"
        )


@dataclass(frozen=True, slots=True)
class Tip:
    """A branch together with one of its states."""

    log: ManifestLog
    head: Head
    past: Snapshot | None = None
    """The state, if it is an earlier one than the head."""

    @property
    def snapshot(self) -> Snapshot:
        """The state itself."""
        return self.head.snapshot if self.past is None else self.past

    @property
    def commit(self) -> Commit:
        """The newest commit of the state."""
        return self.snapshot.commit


@dataclass(frozen=True, slots=True)
class BranchDivergence:
    """The merge bases of two branches, and all commits that each branch has had since.

    The commits may include some that a base has too. They are None if unread commits may be missing: because a base
    does not descend from the commit where both histories meet, as after criss-cross merges, or because a journal is
    missing.
    """

    base_id: str
    ours: tuple[Commit, ...] | None
    theirs: tuple[Commit, ...] | None
    other_bases: tuple[str, ...] = ()
    """Further merge bases, after criss-cross merges."""


@dataclass(frozen=True, slots=True)
class _JournalSegment:
    """The part of a history that is in one journal: its commits up to `seq`."""

    log: ManifestLog
    head: Head
    seq: int


class Ancestry:
    """The commits of two states back to where their histories meet, and of every branch merged since.

    Commits before the meeting point are not read.
    """

    def __init__(self, ours: Tip, theirs: Tip) -> None:
        self._ours = ours
        self._theirs = theirs
        self._commits: dict[str, Commit] = {}
        self._journals: dict[str, ManifestLog] = {}
        self._read_up_to: dict[str, int] = {}
        # Merged commits whose journals are missing.
        self._missing: dict[str, MergedFrom] = {}
        our_segments = list(_iter_segments(ours.log, ours.head, ours.commit.seq))
        their_segments = list(_iter_segments(theirs.log, theirs.head, theirs.commit.seq))
        self._source = their_segments[0]
        self._meeting_id, self._lowest_seqs = _find_meeting(our_segments, their_segments)
        stack = [*our_segments, *their_segments]
        while stack:
            stack += self._read(stack.pop())
        parents = {parent for commit in self._commits.values() for parent in _list_parents(commit)}
        # Parents that were not read are older than the meeting point, and count as its parents.
        self._unread_parents = tuple(parents - self._commits.keys() - self._missing.keys() - {self._meeting_id})

    def find_divergence(self) -> BranchDivergence:
        """Return the merge bases of the two states and the commits since.

        Raises:
            MergeBaseGoneError: A missing journal may contain the merge base.
        """
        ours, theirs = self._ours.commit.id, self._theirs.commit.id
        # There is at least one: the commit where the two histories meet.
        bases = find_merge_bases(ours, theirs, self._find_parents)
        base_id, *other_bases = bases
        for lost in (self._missing[base] for base in bases if base in self._missing):
            raise MergeBaseGoneError(lost.branch, lost.path)
        base_ancestors = [find_ancestors(base, self._find_parents) for base in bases]
        inherited = set.union(*base_ancestors)
        # Commits that only some of the bases have are listed: to the other bases they are new.
        shared = set.intersection(*base_ancestors)
        since = [find_ancestors(tip, self._find_parents) - shared for tip in (ours, theirs)]
        our_missing, their_missing = (
            {self._missing[commit_id] for commit_id in side - inherited if commit_id in self._missing} for side in since
        )
        their_missing_paths = {lost.path for lost in their_missing}
        for lost in our_missing:
            if lost.path in their_missing_paths:
                raise MergeBaseGoneError(lost.branch, lost.path)
        self._refuse_hidden(since[0] - inherited, since[1] - inherited)
        self._refuse_hidden(since[1] - inherited, since[0] - inherited)
        if any(side & self._missing.keys() for side in since) or self._meeting_id not in shared:
            return BranchDivergence(base_id, None, None, tuple(other_bases))
        our_commits, their_commits = (
            tuple(self._commits[commit_id] for commit_id in side if commit_id in self._commits) for side in since
        )
        return BranchDivergence(base_id, our_commits, their_commits, tuple(other_bases))

    def _refuse_hidden(self, side: set[str], other_side: set[str]) -> None:
        """Check that no missing journal of one side can contain ancestors of commits of the other side.

        It may contain any branch that the other side has merged, and any commit that was created before the journal
        itself was merged. Cleanup never removes a journal that is needed, so it was removed by other means; rejecting
        too many merges is better than restoring deleted rows.

        Raises:
            MergeBaseGoneError: A missing journal may contain such an ancestor.
        """
        commits = [self._commits[commit_id] for commit_id in side if commit_id in self._commits]
        merges = [commit for commit in commits if commit.merged_parent in self._missing.keys() & side]
        if not merges or not other_side:
            return
        last = max(merges, key=lambda commit: parse_instant(commit.at))
        other_commits = [self._commits[commit_id] for commit_id in other_side if commit_id in self._commits]
        has_merged = any(commit.merged_parent in other_side for commit in other_commits)
        latest = parse_instant(last.at) + MAX_CLOCK_SKEW
        if has_merged or any(parse_instant(commit.at) <= latest for commit in other_commits):
            assert last.merged_from is not None  # noqa: S101 - without it, `_missing` would not have the parent
            raise MergeBaseGoneError(last.merged_from.branch, last.merged_from.path, MERGED_BY_EITHER)

    def read_state(self, base_id: str) -> Snapshot:
        """Read the state of a merge base."""
        if base_id == self._ours.commit.id:
            return self._ours.snapshot
        if base_id == self._meeting_id:
            # Their history is walked back: a branch usually has fewer commits since than the one it was forked from.
            snapshot = read_at_commit(self._theirs.log, self._theirs.head, base_id)
        else:
            log = self._journals[base_id]
            snapshot = read_at_commit(log, log.final_head(), base_id)
        return self._restore_readable(snapshot) if snapshot.manifest.lost else snapshot

    def open_tip(self, base_id: str) -> Tip:
        """Open a merge base as a tip, to find its own merge base with another one."""
        log = self._journals.get(base_id, self._theirs.log)
        head = self._theirs.head if log is self._theirs.log else log.final_head()
        return Tip(log, head, self.read_state(base_id))

    def _restore_readable(self, snapshot: Snapshot) -> Snapshot:
        """Return the base with every table that one of the two histories can still read.

        One branch may have dropped data that the other still has. A history that only merged the base does not contain
        it, and is skipped.
        """
        lost = snapshot.manifest.lost
        for tip in (self._ours, self._theirs):
            try:
                lost_here = read_at_commit(tip.log, tip.head, snapshot.commit.id).manifest.lost
            except CommitMissingError:
                continue
            lost = {path: loss for path, loss in lost.items() if path in lost_here}
        return replace(snapshot, manifest=replace(snapshot.manifest, lost=lost))

    def build_merged_from(self) -> MergedFrom:
        """Return the reference to the newest commit of the second state that a merge commit stores."""
        log = self._source.log
        digest = self._theirs.commit.digest
        return MergedFrom(branch=log.branch, path=log.path, seq=self._source.seq, digest=digest)

    def _find_parents(self, commit_id: str) -> tuple[str, ...]:
        """Return the ids of a commit's parents.

        All parents that were not read count as parents of the meeting point.
        """
        if commit_id == self._meeting_id:
            return self._unread_parents
        commit = self._commits.get(commit_id)
        return () if commit is None else _list_parents(commit)

    def _read(self, segment: _JournalSegment) -> list[_JournalSegment]:
        """Read the commits of a segment that are not read yet; return the segments merged into it."""
        log = segment.log
        fork = segment.head.snapshot.manifest.fork
        # A journal begins at its fork; the meeting point's own history needs no reading either.
        lowest = max(self._lowest_seqs.get(log.path, -1), -1 if fork is None else fork.seq)
        last_read = self._read_up_to.get(log.path, lowest)
        if segment.seq <= last_read:
            return []
        self._read_up_to[log.path] = segment.seq
        merged: list[_JournalSegment] = []
        for commit in log.iter_history(segment.head, segment.seq + 1):
            if commit.seq <= last_read:
                break
            self._commits[commit.id] = commit
            self._journals[commit.id] = log
            merged += self._open_merged(commit, log)
        return merged

    def _open_merged(self, commit: Commit, log: ManifestLog) -> list[_JournalSegment]:
        """Return the segments of the branch that a commit merged, none if it is no merge.

        A deleted branch whose journal was removed is recorded as missing.
        """
        merged_from = commit.merged_from
        if merged_from is None or commit.merged_parent is None:
            return []
        other = log.open_other(merged_from.branch, merged_from.path)
        try:
            return list(_iter_segments(other, other.final_head(), merged_from.seq))
        except NotAGraphError:
            self._missing[commit.merged_parent] = merged_from
            return []


def _list_parents(commit: Commit) -> tuple[str, ...]:
    return tuple(parent for parent in (commit.parent, commit.merged_parent) if parent is not None)


def _iter_segments(log: ManifestLog, head: Head, seq: int) -> Iterator[_JournalSegment]:
    """Yield the segments of a history, from the branch's own journal back to main's."""
    while True:
        fork = head.snapshot.manifest.fork
        # A history that ends at the fork, or before it, has no commit of its own in this journal.
        if fork is None or seq > fork.seq:
            yield _JournalSegment(log, head, seq)
        if fork is None:
            return
        seq = min(seq, fork.seq)
        log = log.open_parent(fork)
        head = log.final_head()


def _find_meeting(ours: Sequence[_JournalSegment], theirs: Sequence[_JournalSegment]) -> tuple[str, dict[str, int]]:
    """Return the newest commit that both histories contain, and its `seq` in each journal of its history."""
    our_seqs = {segment.log.path: segment.seq for segment in ours}
    for segment in theirs:
        if segment.log.path in our_seqs:
            seq = min(segment.seq, our_seqs[segment.log.path])
            lowest_seqs = {older.log.path: older.seq for older in _iter_segments(segment.log, segment.head, seq)}
            return _find_commit_id(segment, seq), lowest_seqs
    raise AssertionError  # pragma: no cover - every history ends in main's journal


def _find_commit_id(segment: _JournalSegment, seq: int) -> str:
    if segment.head.snapshot.commit.seq == seq:
        return segment.head.snapshot.commit.id
    return next(commit.id for commit in segment.log.iter_history(segment.head, seq + 1))
