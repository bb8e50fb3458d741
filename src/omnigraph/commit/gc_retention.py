"""Which commits a cleanup keeps, and which versions of tables those need. Decides; reads journals, changes nothing.

Kept are, of every branch, its newest commits and all that were current within a window of time; and wherever they
are: tagged commits, those that branches were taken from, those that later merges will compare with, and those that
operations in flight stand on.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime
from itertools import accumulate

from omnigraph.clock import parse_instant
from omnigraph.commit.manifest_log import Head, ManifestLog
from omnigraph.commit.manifest_types import Commit, Fork, GcHorizon, Pin, TableRecord
from omnigraph.commit.time_travel import undo_commit
from omnigraph.storage.layout import is_detached

Seqs = Mapping[str, Iterable[int]]
"""By the path of a journal, numbers of commits in it."""
Range = tuple[int, int]
Times = Mapping[tuple[str, int], datetime]
"""When versions of manifests and tables, by path and number, were made, by the store's clock."""
Horizons = dict[str, GcHorizon]
"""By journal, its floor."""


class CreationTimeBounds:
    """Before when a version of a manifest was made: before all that have higher numbers, whoever made those.

    The newest version of a manifest is always there, so this is known of every commit, however wrong the clock of its
    writer was.
    """

    def __init__(self, times: Times) -> None:
        found: dict[str, list[tuple[int, datetime]]] = {}
        for (path, number), time in times.items():
            if not is_detached(number):
                found.setdefault(path, []).append((number, time))
        self._numbers: dict[str, Sequence[int]] = {}
        self._earliest: dict[str, Sequence[datetime]] = {}
        """By path, the numbers that are there, and the earliest time of each and all higher ones."""
        for path, versions in found.items():
            versions.sort(reverse=True)
            self._numbers[path] = [number for number, _ in reversed(versions)]
            self._earliest[path] = list(accumulate((time for _, time in versions), min))[::-1]

    def find_earliest_after(self, path: str, number: int) -> datetime | None:
        """The earliest time of a version with a higher number; None when there is none."""
        place = bisect_right(self._numbers.get(path, ()), number)
        earliest = self._earliest.get(path, ())
        return earliest[place] if place < len(earliest) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPolicy:
    """What a branch keeps: its newest `commits`, and what was current after `since`."""

    commits: int
    since: datetime


@dataclass(frozen=True, slots=True)
class HistorySegment:
    """A part of a branch's history: the journal that has it from `first` on, and what earlier cleanups left of it."""

    path: str
    first: int
    horizon: GcHorizon


class BranchHistory:
    """The history of one branch as of one state: newest first, read once, and only as far as it is asked for."""

    def __init__(
        self,
        log: ManifestLog,
        head: Head,
        *,
        is_live: bool,
        times: Times,
        bounds: CreationTimeBounds,
        horizons: Mapping[str, GcHorizon],
    ) -> None:
        self.log, self.head, self.is_live = log, head, is_live
        self._times, self._bounds = times, bounds
        self._unread = log.iter_history(head)
        self._read: list[Commit] = []
        self.segments = tuple(_iter_segments(log, head, horizons))

    @property
    def path(self) -> str:
        """The journal of the branch itself."""
        return self.log.path

    @property
    def fork(self) -> Fork | None:
        """Where the branch comes from."""
        return self.head.snapshot.manifest.fork

    @property
    def newest(self) -> int:
        """The number of the newest commit."""
        return self.head.snapshot.commit.seq

    @property
    def retained_from(self) -> int:
        """From which number on all commits are kept: of a deleted branch none is, unless something asks for it."""
        return self.newest if self.is_live else self.newest + 1

    def iter_commits(self) -> Iterator[Commit]:
        """All commits, newest first, those of the branches that it comes from too."""
        place = 0
        while True:
            if place == len(self._read):
                commit = next(self._unread, None)
                if commit is None:
                    return
                self._read.append(commit)
            yield self._read[place]
            place += 1

    @property
    def known_commits(self) -> tuple[Commit, ...]:
        """The commits that were read so far, newest first."""
        return tuple(self._read)

    def iter_own(self, lowest: int = 0) -> Iterator[Commit]:
        """The commits of its own journal, down to a number."""
        lowest = max(lowest, self.segments[0].first)
        for commit in self.iter_commits():
            if commit.seq < lowest:
                return
            yield commit

    def find_segment(self, seq: int) -> HistorySegment:
        """The part of the history that has a number."""
        return next(one for one in self.segments if seq >= one.first)

    def find_stored_time(self, commit: Commit) -> datetime | None:
        """When a commit was made, by the store's clock; None where the version that it made was trimmed."""
        part = self.find_segment(commit.seq)
        # The first commit of a branch is its parent's too, and says the version that it made there.
        return None if commit.seq == part.first else self._times.get((part.path, commit.manifest_version))

    def estimate_time(self, commit: Commit, followed_at: datetime | None) -> datetime:
        """When a commit was made, at the latest: by the store's clock where the version that it made is still there.

        Where it was trimmed: when its writer says, but not after anything that followed; or when the store says of a
        table that it wrote, whichever is later. A clock that is behind must not make a state look older than it is,
        and one that is ahead not keep all states.
        """
        known = self.find_stored_time(commit)
        if known is not None:
            return known
        part = self.find_segment(commit.seq)
        # What a branch was taken from was there before any version of the branch's own manifest.
        version = -1 if commit.seq == part.first else commit.manifest_version
        later = (followed_at, self._bounds.find_earliest_after(part.path, version))
        told = min((parse_instant(commit.at), *(time for time in later if time is not None)))
        tables = ((one.path, int(one.after)) for one in commit.changes if one.after is not None)
        return max((told, *(self._times[key] for key in tables if key in self._times)))


def _iter_segments(log: ManifestLog, head: Head, floors: Mapping[str, GcHorizon]) -> Iterator[HistorySegment]:
    """The parts, newest first. `floors` are the word of earlier cleanups, where a newer one has spoken since."""
    while True:
        manifest = head.snapshot.manifest
        fork = manifest.fork
        yield HistorySegment(log.path, -1 if fork is None else fork.seq, floors.get(log.path, manifest.gc_horizon))
        if fork is None:
            return
        log = log.open_parent(fork)
        head = log.final_head()


# --- what is kept ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPlan:
    """What to keep of one branch, as of the state that was looked at; everything newer is kept as well."""

    stop: int
    """The oldest commit of its line that is kept for its age or number, with all that follow it,"""
    extra: frozenset[int]
    """and older ones of its own journal that are kept for another reason: none that was collected before."""

    def keeps(self, seq: int, part: HistorySegment, own: HistorySegment) -> bool:
        """Whether a commit of the line is kept, in the branch's own journal or in one that it comes from."""
        return part.horizon.retains(seq) if seq >= self.stop else part is own and seq in self.extra

    @property
    def lowest(self) -> int:
        """The oldest commit to look at."""
        return min((self.stop, *self.extra))


def plan_retention(line: BranchHistory, policy: RetentionPolicy, extra: Iterable[int]) -> RetentionPlan:
    """What to keep of a branch; nothing that an earlier cleanup has collected, which may be gone already."""
    own = line.segments[0]
    wanted = frozenset(seq for seq in extra if own.first <= seq <= line.newest and own.horizon.retains(seq))
    stop = line.newest + 1
    followed_at: datetime | None = None
    """The earliest time that the store knows of a commit that follows."""
    if line.is_live:
        for number, commit in enumerate(line.iter_commits(), start=1):
            stop = commit.seq
            if number >= policy.commits and line.estimate_time(commit, followed_at) <= policy.since:
                break
            known = line.find_stored_time(commit)
            followed_at = followed_at if known is None else min(known, followed_at or known)
    return RetentionPlan(stop=stop, extra=frozenset(seq for seq in wanted if seq < stop))


def find_retained_seqs(lines: Mapping[str, BranchHistory], plans: Mapping[str, RetentionPlan]) -> dict[str, set[int]]:
    """By journal, every commit that any branch keeps; of a branch that comes from another, some are in that one's."""
    kept: dict[str, set[int]] = {path: set(plan.extra) for path, plan in plans.items()}
    for path, plan in plans.items():
        for commit in lines[path].iter_commits():
            if commit.seq < plan.stop:
                break
            part = lines[path].find_segment(commit.seq)
            if part.horizon.retains(commit.seq):
                kept.setdefault(part.path, set()).add(commit.seq)
    return kept


def group_ranges(seqs: Iterable[int]) -> list[Range]:
    """The same numbers as ranges, oldest first."""
    found: list[Range] = []
    for seq in sorted(set(seqs)):
        if found and found[-1][1] == seq - 1:
            found[-1] = (found[-1][0], seq)
        else:
            found.append((seq, seq))
    return found


def build_horizon(kept: Iterable[int], onward: int, *, epoch: int, version: int, boundary: str) -> GcHorizon:
    """The floor that says of a journal which commits are kept: these, and all from the number `onward` on."""
    *older, last = group_ranges({*kept, onward})
    return GcHorizon(epoch=epoch, lowest_version=version, staged_before=boundary, kept_from=last[0], kept=tuple(older))


# --- where merges will look ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MergePoint:
    """A commit of the journal `into` has merged the commit `seq` of the journal `path`."""

    into: str
    at: int
    path: str
    seq: int
    branch: str = field(compare=False)


def find_merge_points(line: BranchHistory, lowest: int) -> list[MergePoint]:
    """The merges in a branch's own journal, back to a number. Its first commit is its parent's, and merged there."""
    lowest = lowest if line.fork is None else max(lowest, line.fork.seq + 1)
    return [
        MergePoint(line.path, commit.seq, commit.merged_from.path, commit.merged_from.seq, commit.merged_from.branch)
        for commit in line.iter_own(lowest)
        if commit.merged_from is not None
    ]


def find_merge_base_seqs(points: Sequence[MergePoint], forks: AbstractSet[tuple[str, int]]) -> dict[str, set[int]]:
    """The merged commits that may be what two branches have in common: by journal.

    A best common ancestor of two branches has two children that lead to them, so one of these is the first commit of a
    branch, or a merge. Of several merges of one journal into another the newest counts, as seen from the end of that
    one, and from each place where a branch was taken from it.
    """
    found: dict[str, set[int]] = {}
    places: set[tuple[str, int | None]] = {(one.into, None) for one in points}
    for into, end in places | forks:
        newest: dict[str, MergePoint] = {}
        for one in points:
            if one.into == into and (end is None or one.at <= end):
                newest[one.path] = max(newest.get(one.path, one), one, key=lambda point: point.at)
        for one in newest.values():
            found.setdefault(one.path, set()).add(one.seq)
    return found


def find_passages(
    points: Iterable[MergePoint], forks: Mapping[str, tuple[str, int]], ends: AbstractSet[str]
) -> dict[str, str]:
    """The journals that only lead on: by each, the one journal that has merged it.

    `forks` says of each journal where it was taken from, and `ends` are those in which a history may begin. All others
    are reached through a merge, or a branch that was taken from them. With one such way in, a journal has no best
    common ancestor itself: whoever has one of its commits has the merge as well. What lies behind it may be one.
    """
    into: dict[str, set[str]] = {}
    for one in points:
        into.setdefault(one.path, set()).add(one.into)
    parents = {path for path, _ in forks.values()}
    return {
        path: next(iter(targets))
        for path, targets in into.items()
        if len(targets) == 1 and path not in parents and path not in ends
    }


# --- what that needs -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RetainedPin:
    """A pin of kept states that follow each other."""

    pin: Pin
    _history: Sequence[Commit]
    _first: int
    _end: int

    @property
    def commits(self) -> Sequence[Commit]:
        """The commits that made these states, newest first."""
        return self._history[self._first : self._end]


def iter_retained_pins(
    line: BranchHistory, plan: RetentionPlan, shared: Mapping[str, AbstractSet[int]]
) -> Iterator[RetainedPin]:
    """Yield the pins that the kept states of a branch are made of, each with the states that have it.

    States that were kept as of an earlier look are kept, and all newer ones; and those of its line that are in
    `shared`, which says by journal what others keep. What was dropped for good since a state is not part of it any
    more.
    """
    manifest = line.head.snapshot.manifest
    tables: dict[str, TableRecord] = dict(manifest.tables)
    pins: dict[str, Pin] = dict(manifest.pins)
    dropped: dict[str, Pin] = dict(manifest.dropped)
    lost: set[str] = set()
    own = line.segments[0]
    kept: list[Commit] = []
    since = dict.fromkeys(pins, 0)
    """By table, how many kept states were met before its pin."""

    def end(key: str) -> Iterator[RetainedPin]:
        first = since.pop(key, len(kept))
        if first < len(kept):
            yield RetainedPin(pins[key], kept, first, len(kept))

    lowest = min((plan.lowest, *(seq for part in line.segments for seq in shared.get(part.path, ()))))
    for commit in line.iter_commits():
        if commit.seq < lowest:
            break
        part = line.find_segment(commit.seq)
        if plan.keeps(commit.seq, part, own) or commit.seq in shared.get(part.path, ()):
            kept.append(commit)
        changed = {change.table_key for change in commit.changes}
        purged = {purge.path for purge in commit.purged}
        ended = {key for key in since if pins[key].path in purged} if purged else set[str]()
        for key in (changed | ended) & since.keys():
            yield from end(key)
        lost |= purged
        undo_commit(commit, tables, pins, dropped)
        since |= {key: len(kept) for key in changed if key in pins and pins[key].path not in lost}
    for key in tuple(since):
        yield from end(key)
