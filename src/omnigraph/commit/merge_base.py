"""The merge base of two branches, and what each has done since: read from the journals of all that came together."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from omnigraph.clock import parse_instant
from omnigraph.commit.manifest_log import Head, ManifestLog, NotAGraphError
from omnigraph.commit.manifest_types import Commit, MergedFrom, Snapshot
from omnigraph.commit.time_travel import CommitMissingError, read_at_commit
from omnigraph.errors import Kind, OmnigraphError

Parents = Callable[[str], Iterable[str]]
"""The parents of a commit id: none, one, or two for a merge."""


def find_ancestors(commit_id: str, parents: Parents) -> set[str]:
    """The commit and everything it descends from."""
    found: set[str] = set()
    waiting = [commit_id]
    while waiting:
        current = waiting.pop()
        if current not in found:
            found.add(current)
            waiting.extend(parents(current))
    return found


def find_merge_base(left: str, right: str, parents: Parents) -> str | None:
    """The first of the best common ancestors. None when the two share nothing."""
    return next(iter(find_merge_bases(left, right, parents)), None)


def find_merge_bases(left: str, right: str, parents: Parents) -> tuple[str, ...]:
    """The best common ancestors: those that no other common ancestor descends from, the largest id first.

    Ids are ULIDs, so the largest is the latest. There are several where two lines were merged crosswise.
    """
    common = find_ancestors(left, parents) & find_ancestors(right, parents)
    # Ancestors of a common ancestor are common too, so one that another descends from is some common one's parent.
    best = common - {parent for commit_id in common for parent in parents(commit_id)}
    return tuple(sorted(best, reverse=True))


MERGED_BY_BOTH, MERGED_BY_EITHER = "both", "one"
"""Who has merged a branch: both sides of a merge, or one of them."""
MAX_CLOCK_SKEW = timedelta(hours=12)
"""Commits whose times are closer than that may have been made in either order: writers have clocks of their own."""


class MergeBaseGoneError(OmnigraphError):
    """A branch was merged whose journal is gone, so what the two have in common is not known any more."""

    kind = Kind.CORRUPT
    code = "merge_base_gone"

    def __init__(self, branch: str, path: str, merged_by: str = MERGED_BY_BOTH) -> None:
        super().__init__(branch, path, merged_by)
        self.branch, self.path, self.merged_by = branch, path, merged_by

    def __str__(self) -> str:
        who = "both branches have" if self.merged_by == MERGED_BY_BOTH else "one branch has"
        why = "" if self.merged_by == MERGED_BY_BOTH else ", and may lead to some of the other one"
        return (
            f"{who} merged `{self.branch}`, whose commits ({self.path}) are gone{why}: a merge could bring back"
            " what was deleted since. Export the rows that are wanted from one branch, and load them into the other"
        )


@dataclass(frozen=True, slots=True)
class Tip:
    """A branch at one of its states."""

    log: ManifestLog
    head: Head
    past: Snapshot | None = None
    """The state, if it is an earlier one than the head."""

    @property
    def snapshot(self) -> Snapshot:
        """That state."""
        return self.head.snapshot if self.past is None else self.past

    @property
    def commit(self) -> Commit:
        """The newest commit of that state."""
        return self.snapshot.commit


@dataclass(frozen=True, slots=True)
class BranchDivergence:
    """Where two branches parted, and all commits that each has had since; perhaps some that a base has too.

    These are None when commits that were not read may be among them: a base does not descend from where the lines of
    the two meet, as with branches that merged others crosswise, or a journal is gone.
    """

    base_id: str
    ours: tuple[Commit, ...] | None
    theirs: tuple[Commit, ...] | None
    other_bases: tuple[str, ...] = ()
    """As good as the first one: of branches that were merged crosswise."""


@dataclass(frozen=True, slots=True)
class _JournalSegment:
    """The part of a history that one journal has: everything up to `seq`."""

    log: ManifestLog
    head: Head
    seq: int


class Ancestry:
    """The commits of two states back to where their lines meet, and those of every branch that was merged since.

    What came before that meeting is not read.
    """

    def __init__(self, ours: Tip, theirs: Tip) -> None:
        self._ours, self._theirs = ours, theirs
        self._commits: dict[str, Commit] = {}
        self._where: dict[str, ManifestLog] = {}
        self._reached: dict[str, int] = {}
        self._gone: dict[str, MergedFrom] = {}
        """Merged commits whose journals are gone."""
        lines = [list(_iter_segments(tip.log, tip.head, tip.commit.seq)) for tip in (ours, theirs)]
        self._source = lines[1][0]
        self._meeting_id, self._lowest_seqs = _find_meeting(lines[0], lines[1])
        waiting = [*lines[0], *lines[1]]
        while waiting:
            waiting += self._read(waiting.pop())
        named = {parent for commit in self._commits.values() for parent in _list_parents(commit)}
        self._beyond = tuple(named - self._commits.keys() - self._gone.keys() - {self._meeting_id})

    def find_divergence(self) -> BranchDivergence:
        """Where the two parted, or MergeBaseGoneError when that can't be told any more."""
        ours, theirs = self._ours.commit.id, self._theirs.commit.id
        base_id, *others = bases = find_merge_bases(
            ours, theirs, self._find_parents
        )  # at least where the two lines meet
        for lost in (self._gone[one] for one in bases if one in self._gone):
            raise MergeBaseGoneError(lost.branch, lost.path)
        befores = [find_ancestors(one, self._find_parents) for one in bases]
        known, before = set.union(*befores), set.intersection(*befores)
        since = [find_ancestors(tip, self._find_parents) - before for tip in (ours, theirs)]
        gone = [{self._gone[one] for one in part - known if one in self._gone} for part in since]
        for one in gone[0]:
            if one.path in {other.path for other in gone[1]}:
                raise MergeBaseGoneError(one.branch, one.path)
        self._refuse_hidden(since[0] - known, since[1] - known)
        self._refuse_hidden(since[1] - known, since[0] - known)
        if any(part & self._gone.keys() for part in since) or self._meeting_id not in before:
            return BranchDivergence(base_id, None, None, tuple(others))
        mine, new = ([self._commits[one] for one in part if one in self._commits] for part in since)
        return BranchDivergence(base_id, tuple(mine), tuple(new), tuple(others))

    def _refuse_hidden(self, mine: set[str], other: set[str]) -> None:
        """MergeBaseGoneError when a journal that is gone on one side may have led to something of the other.

        It may have led to whatever that one has merged, and to all that was made before it was merged itself. Cleanup
        never takes a journal that matters, so somebody else has; to refuse too much is better than to bring rows back.
        """
        merges = [self._commits[one] for one in mine if one in self._commits]
        merges = [commit for commit in merges if commit.merged_parent in self._gone.keys() & mine]
        if not merges or not other:
            return
        last = max(merges, key=lambda commit: parse_instant(commit.at))
        news = [self._commits[one] for one in other if one in self._commits]
        has_merged = any(commit.merged_parent in other for commit in news)
        until = parse_instant(last.at) + MAX_CLOCK_SKEW
        if has_merged or any(parse_instant(commit.at) <= until for commit in news):
            assert last.merged_from is not None  # noqa: S101 - it is known to be gone by that
            raise MergeBaseGoneError(last.merged_from.branch, last.merged_from.path, MERGED_BY_EITHER)

    def read_state(self, base_id: str) -> Snapshot:
        """The state that a base is."""
        if base_id == self._ours.commit.id:
            return self._ours.snapshot
        if base_id == self._meeting_id:  # a branch is mostly shorter than what it was taken from
            found = read_at_commit(self._theirs.log, self._theirs.head, base_id)
        else:
            log = self._where[base_id]
            found = read_at_commit(log, log.final_head(), base_id)
        return self._restore_readable(found) if found.manifest.lost else found

    def open_tip(self, base_id: str) -> Tip:
        """A base as a state that has bases of its own."""
        log = self._where.get(base_id, self._theirs.log)
        head = self._theirs.head if log is self._theirs.log else log.final_head()
        return Tip(log, head, self.read_state(base_id))

    def _restore_readable(self, found: Snapshot) -> Snapshot:
        """The base with every table that a line which goes through it can read: one may have dropped what another has.

        Only one of the two may go through it: the other has merged it.
        """
        lost = found.manifest.lost
        for tip in (self._ours, self._theirs):
            try:
                other = read_at_commit(tip.log, tip.head, found.commit.id).manifest.lost
            except CommitMissingError:
                continue
            lost = {path: gone for path, gone in lost.items() if path in other}
        return replace(found, manifest=replace(found.manifest, lost=lost))

    def build_merged_from(self) -> MergedFrom:
        """Where the newest commit of the second state is found again."""
        log = self._source.log
        digest = self._theirs.commit.digest
        return MergedFrom(branch=log.branch, path=log.path, seq=self._source.seq, digest=digest)

    def _find_parents(self, commit_id: str) -> tuple[str, ...]:
        """The parents as far as they were read. Behind the meeting stands all that is older, read or not."""
        if commit_id == self._meeting_id:
            return self._beyond
        commit = self._commits.get(commit_id)
        return () if commit is None else _list_parents(commit)

    def _read(self, stretch: _JournalSegment) -> list[_JournalSegment]:
        """Read a stretch down to what is known; the stretches that were merged into it."""
        log, fork = stretch.log, stretch.head.snapshot.manifest.fork
        lowest = max(self._lowest_seqs.get(log.path, -1), -1 if fork is None else fork.seq)
        known = self._reached.get(log.path, lowest)
        if stretch.seq <= known:
            return []
        self._reached[log.path] = stretch.seq
        found: list[_JournalSegment] = []
        for commit in log.iter_history(stretch.head, stretch.seq + 1):
            if commit.seq <= known:
                break
            self._commits[commit.id] = commit
            self._where[commit.id] = log
            found += self._open_merged(commit, log)
        return found

    def _open_merged(self, commit: Commit, log: ManifestLog) -> list[_JournalSegment]:
        """The line of a branch that a commit merged, which may have been deleted, and its journal collected."""
        there = commit.merged_from
        if there is None or commit.merged_parent is None:
            return []
        other = log.open_other(there.branch, there.path)
        try:
            return list(_iter_segments(other, other.final_head(), there.seq))
        except NotAGraphError:
            self._gone[commit.merged_parent] = there
            return []


def _list_parents(commit: Commit) -> tuple[str, ...]:
    return tuple(one for one in (commit.parent, commit.merged_parent) if one is not None)


def _iter_segments(log: ManifestLog, head: Head, seq: int) -> Iterator[_JournalSegment]:
    """The journals that a history goes through, from the branch's own back to main's."""
    while True:
        fork = head.snapshot.manifest.fork
        if fork is None or seq > fork.seq:
            yield _JournalSegment(log, head, seq)
        if fork is None:
            return
        seq, log = min(seq, fork.seq), log.open_parent(fork)
        head = log.final_head()


def _find_meeting(ours: Sequence[_JournalSegment], theirs: Sequence[_JournalSegment]) -> tuple[str, dict[str, int]]:
    """The newest commit that both lines go through, and how far its own history goes in each journal."""
    mine = {one.log.path: one.seq for one in ours}
    for stretch in theirs:
        if stretch.log.path in mine:
            seq = min(stretch.seq, mine[stretch.log.path])
            floors = {one.log.path: one.seq for one in _iter_segments(stretch.log, stretch.head, seq)}
            return _find_commit_id(stretch, seq), floors
    raise AssertionError  # pragma: no cover - every line ends in main's journal


def _find_commit_id(stretch: _JournalSegment, seq: int) -> str:
    if stretch.head.snapshot.commit.seq == seq:
        return stretch.head.snapshot.commit.id
    return next(commit.id for commit in stretch.log.iter_history(stretch.head, seq + 1))
