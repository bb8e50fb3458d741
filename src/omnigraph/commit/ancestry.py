"""The merge base of two branches, and what each has done since: read from the journals of all that came together."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from omnigraph.commit.lineage import ancestors, merge_base
from omnigraph.commit.manifest_log import Head, ManifestLog, NotAGraphError
from omnigraph.commit.records import Commit, MergedFrom, Snapshot
from omnigraph.commit.refs import at_commit
from omnigraph.errors import Kind, OmnigraphError


class MergeBaseGoneError(OmnigraphError):
    """Both branches have merged a third one, whose journal is gone: what they had in common is not known any more."""

    kind = Kind.CORRUPT
    code = "merge_base_gone"

    def __init__(self, branch: str, path: str) -> None:
        super().__init__(branch, path)
        self.branch, self.path = branch, path

    def __str__(self) -> str:
        return (
            f"both branches have merged `{self.branch}`, whose commits ({self.path}) are gone: a merge could bring back"
            " what was deleted since. Export the rows that are wanted from one branch, and load them into the other"
        )


@dataclass(frozen=True, slots=True)
class Tip:
    """A branch at one of its states."""

    log: ManifestLog
    head: Head

    @property
    def commit(self) -> Commit:
        """The newest commit of that state."""
        return self.head.snapshot.commit


@dataclass(frozen=True, slots=True)
class Divergence:
    """Where two branches parted, and all commits that each has had since; perhaps some that the base has too.

    These are None when commits that were not read may be among them: the base does not descend from where the lines of
    the two meet, as with branches that merged others crosswise, or a journal is gone.
    """

    base_id: str
    ours: tuple[Commit, ...] | None
    theirs: tuple[Commit, ...] | None


@dataclass(frozen=True, slots=True)
class _Stretch:
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
        lines = [list(_line(tip.log, tip.head, tip.commit.seq)) for tip in (ours, theirs)]
        self._source = lines[1][0]
        self._meeting_id, self._floors = _meeting(lines[0], lines[1])
        waiting = [*lines[0], *lines[1]]
        while waiting:
            waiting += self._read(waiting.pop())
        named = {parent for commit in self._commits.values() for parent in _parents(commit)}
        self._beyond = tuple(named - self._commits.keys() - self._gone.keys() - {self._meeting_id})

    def divergence(self) -> Divergence:
        """Where the two parted, or MergeBaseGoneError when that can't be told any more."""
        ours, theirs = self._ours.commit.id, self._theirs.commit.id
        base_id = merge_base(ours, theirs, self._parents_of)
        assert base_id is not None  # noqa: S101 - the meeting of the two lines is an ancestor of both
        if base_id in self._gone:
            raise MergeBaseGoneError(self._gone[base_id].branch, self._gone[base_id].path)
        before = ancestors(base_id, self._parents_of)
        since = [ancestors(tip, self._parents_of) - before for tip in (ours, theirs)]
        gone = [{self._gone[one] for one in part if one in self._gone} for part in since]
        for one in gone[0]:
            if one.path in {other.path for other in gone[1]}:
                raise MergeBaseGoneError(one.branch, one.path)
        if gone[0] or gone[1] or self._meeting_id not in before:
            return Divergence(base_id, None, None)
        mine, others = ([self._commits[one] for one in part if one in self._commits] for part in since)
        return Divergence(base_id, tuple(mine), tuple(others))

    def state(self, base_id: str) -> Snapshot:
        """The state that a base is."""
        if base_id == self._ours.commit.id:
            return self._ours.head.snapshot
        if base_id == self._meeting_id:  # a branch is mostly shorter than what it was taken from
            found = at_commit(self._theirs.log, self._theirs.head, base_id)
            return self._readable(found) if found.manifest.lost else found
        log = self._where[base_id]
        return at_commit(log, log.last(), base_id)

    def _readable(self, found: Snapshot) -> Snapshot:
        """The meeting with every table that either line can read: one may have dropped data that the other has."""
        other = at_commit(self._ours.log, self._ours.head, found.commit.id).manifest.lost
        lost = {path: gone for path, gone in found.manifest.lost.items() if path in other}
        return replace(found, manifest=replace(found.manifest, lost=lost))

    def place_of_theirs(self) -> MergedFrom:
        """Where the newest commit of the second state is found again."""
        log = self._source.log
        return MergedFrom(branch=log.branch, path=log.path, seq=self._source.seq)

    def _parents_of(self, commit_id: str) -> tuple[str, ...]:
        """The parents as far as they were read. Behind the meeting stands all that is older, read or not."""
        if commit_id == self._meeting_id:
            return self._beyond
        commit = self._commits.get(commit_id)
        return () if commit is None else _parents(commit)

    def _read(self, stretch: _Stretch) -> list[_Stretch]:
        """Read a stretch down to what is known; the stretches that were merged into it."""
        log, fork = stretch.log, stretch.head.snapshot.manifest.fork
        lowest = max(self._floors.get(log.path, -1), -1 if fork is None else fork.seq)
        known = self._reached.get(log.path, lowest)
        if stretch.seq <= known:
            return []
        self._reached[log.path] = stretch.seq
        found: list[_Stretch] = []
        for commit in log.history(stretch.head, stretch.seq + 1):
            if commit.seq <= known:
                break
            self._commits[commit.id] = commit
            self._where[commit.id] = log
            found += self._merged(commit, log)
        return found

    def _merged(self, commit: Commit, log: ManifestLog) -> list[_Stretch]:
        """The line of a branch that a commit merged, which may have been deleted, and its journal collected."""
        there = commit.merged_from
        if there is None or commit.merged_parent is None:
            return []
        other = log.other(there.branch, there.path)
        try:
            return list(_line(other, other.last(), there.seq))
        except NotAGraphError:
            self._gone[commit.merged_parent] = there
            return []


def _parents(commit: Commit) -> tuple[str, ...]:
    return tuple(one for one in (commit.parent, commit.merged_parent) if one is not None)


def _line(log: ManifestLog, head: Head, seq: int) -> Iterator[_Stretch]:
    """The journals that a history goes through, from the branch's own back to main's."""
    while True:
        fork = head.snapshot.manifest.fork
        if fork is None or seq > fork.seq:
            yield _Stretch(log, head, seq)
        if fork is None:
            return
        seq, log = min(seq, fork.seq), log.parent(fork)
        head = log.last()


def _meeting(ours: Sequence[_Stretch], theirs: Sequence[_Stretch]) -> tuple[str, dict[str, int]]:
    """The newest commit that both lines go through, and how far its own history goes in each journal."""
    mine = {one.log.path: one.seq for one in ours}
    for stretch in theirs:
        if stretch.log.path in mine:
            seq = min(stretch.seq, mine[stretch.log.path])
            floors = {one.log.path: one.seq for one in _line(stretch.log, stretch.head, seq)}
            return _commit_id(stretch, seq), floors
    raise AssertionError  # pragma: no cover - every line ends in main's journal


def _commit_id(stretch: _Stretch, seq: int) -> str:
    if stretch.head.snapshot.commit.seq == seq:
        return stretch.head.snapshot.commit.id
    return next(commit.id for commit in stretch.log.history(stretch.head, seq + 1))
