"""Decide which commits a cleanup retains, and which table versions those need. Reads journals, changes nothing.

On every branch, cleanup retains the newest commits and all that were current within a time window. At any age it
retains tagged commits, commits that branches were created from, the bases of future merges, and the base commits of
operations in progress.
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

Range = tuple[int, int]
Times = Mapping[tuple[str, int], datetime]
"""Creation times of the versions of manifests and tables, by path and number, by the store's clock."""
Horizons = dict[str, GcHorizon]
"""The horizons of journals, by the path of the journal."""


class CreationTimeBounds:
    """Upper bounds for the creation time of manifest versions: a version is older than all with higher numbers.

    The newest version of a manifest always exists, so every commit has a bound, however wrong its writer's clock was.
    """

    def __init__(self, times: Times) -> None:
        versions_by_path: dict[str, list[tuple[int, datetime]]] = {}
        for (path, number), time in times.items():
            # Only tables have detached versions. The numbers of a manifest's versions grow with time.
            if not is_detached(number):
                versions_by_path.setdefault(path, []).append((number, time))
        # By path, the existing numbers in order, and for each the earliest time of it and all higher ones.
        self._numbers: dict[str, Sequence[int]] = {}
        self._earliest: dict[str, Sequence[datetime]] = {}
        for path, versions in versions_by_path.items():
            versions.sort(reverse=True)
            self._numbers[path] = [number for number, _ in reversed(versions)]
            self._earliest[path] = list(accumulate((time for _, time in versions), min))[::-1]

    def find_earliest_after(self, path: str, number: int) -> datetime | None:
        """Return the earliest time of a version with a higher number; None if there is no such version."""
        position = bisect_right(self._numbers.get(path, ()), number)
        earliest = self._earliest.get(path, ())
        return earliest[position] if position < len(earliest) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPolicy:
    """The commits each branch retains: its newest `commits`, and those that were current after `since`."""

    commits: int
    since: datetime


@dataclass(frozen=True, slots=True)
class HistorySegment:
    """A part of a branch's history: the journal that has it from commit `first` on, and the horizon of that journal."""

    path: str
    first: int
    horizon: GcHorizon


class BranchHistory:
    """The history of one branch as of one state: newest commit first, read once and lazily."""

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
        self.log = log
        self.head = head
        self.is_live = is_live
        self._times = times
        self._bounds = bounds
        self._unread = log.iter_history(head)
        self._read: list[Commit] = []
        self.segments = tuple(_iter_segments(log, head, horizons))

    @property
    def path(self) -> str:
        """The path of the branch's own journal."""
        return self.log.path

    @property
    def fork(self) -> Fork | None:
        """The commit that the branch was created from; None for main."""
        return self.head.snapshot.manifest.fork

    @property
    def newest(self) -> int:
        """The number of the newest commit."""
        return self.head.snapshot.commit.seq

    @property
    def retained_from(self) -> int:
        """The number from which on all commits are retained. A deleted branch retains none unless it is required."""
        return self.newest if self.is_live else self.newest + 1

    def iter_commits(self) -> Iterator[Commit]:
        """Yield all commits, newest first, including those of the branch's ancestors."""
        # Several iterations may be in progress, so each keeps its own position in the shared list.
        position = 0
        while True:
            if position == len(self._read):
                commit = next(self._unread, None)
                if commit is None:
                    return
                self._read.append(commit)
            yield self._read[position]
            position += 1

    @property
    def known_commits(self) -> tuple[Commit, ...]:
        """The commits that were read so far, newest first."""
        return tuple(self._read)

    def iter_own(self, lowest: int = 0) -> Iterator[Commit]:
        """Yield the commits of the branch's own journal, newest first, down to number `lowest`."""
        lowest = max(lowest, self.segments[0].first)
        for commit in self.iter_commits():
            if commit.seq < lowest:
                return
            yield commit

    def find_segment(self, seq: int) -> HistorySegment:
        """Return the part of the history that has commit number `seq`."""
        return next(segment for segment in self.segments if seq >= segment.first)

    def find_stored_time(self, commit: Commit) -> datetime | None:
        """Return when a commit was made, by the store's clock; None if its manifest version was trimmed."""
        segment = self.find_segment(commit.seq)
        # The first commit of a branch is its parent's too, and names its version of the parent's manifest.
        return None if commit.seq == segment.first else self._times.get((segment.path, commit.manifest_version))

    def estimate_time(self, commit: Commit, followed_at: datetime | None) -> datetime:
        """Return the latest time at which a commit can have been made, by the store's clock if that is known.

        If its manifest version was trimmed: the writer's time, but not after any later commit (`followed_at`); or the
        store's time of a table that the commit wrote, whichever is later. A slow clock must not make a state look
        older than it is, and a fast clock must not retain all states.
        """
        stored_time = self.find_stored_time(commit)
        if stored_time is not None:
            return stored_time
        segment = self.find_segment(commit.seq)
        # The commit that a branch was created from is older than any version of the branch's own manifest.
        version = -1 if commit.seq == segment.first else commit.manifest_version
        later = (followed_at, self._bounds.find_earliest_after(segment.path, version))
        writer_time = min((parse_instant(commit.at), *(time for time in later if time is not None)))
        tables = ((change.path, int(change.after)) for change in commit.changes if change.after is not None)
        return max((writer_time, *(self._times[key] for key in tables if key in self._times)))


def _iter_segments(log: ManifestLog, head: Head, horizons: Mapping[str, GcHorizon]) -> Iterator[HistorySegment]:
    """Yield the parts of a history, newest first. `horizons` overrides the stored horizons, by journal."""
    while True:
        manifest = head.snapshot.manifest
        fork = manifest.fork
        yield HistorySegment(log.path, -1 if fork is None else fork.seq, horizons.get(log.path, manifest.gc_horizon))
        if fork is None:
            return
        log = log.open_parent(fork)
        head = log.final_head()


# --- retained commits ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPlan:
    """The commits of one branch to retain, as of the state that was read; all newer ones are retained as well."""

    stop: int
    """The oldest commit of the history that the policy retains, with all that follow it."""
    extra: frozenset[int]
    """Older commits of the branch's own journal that are retained for another reason; none was collected before."""

    def retains(self, seq: int, segment: HistorySegment, own_segment: HistorySegment) -> bool:
        """Return whether a commit is retained, in the branch's own journal or in an ancestor's."""
        if seq >= self.stop:
            return segment.horizon.retains(seq)
        return segment is own_segment and seq in self.extra

    @property
    def lowest(self) -> int:
        """The oldest commit that is retained."""
        return min((self.stop, *self.extra))


def plan_retention(history: BranchHistory, policy: RetentionPolicy, extra: Iterable[int]) -> RetentionPlan:
    """Return the commits to retain on a branch: those of the policy, and `extra` ones of its own journal."""
    own_segment = history.segments[0]
    # A commit that an earlier cleanup has collected is left out: its data may be gone.
    required = frozenset(
        seq for seq in extra if own_segment.first <= seq <= history.newest and own_segment.horizon.retains(seq)
    )
    stop = history.newest + 1
    # The earliest store time of the commits that follow the current one.
    followed_at: datetime | None = None
    if history.is_live:
        number = 0
        for commit in history.iter_commits():
            stop = commit.seq
            # Automatic maintenance adds no state: the states that it follows would be lost to its commits.
            number += not commit.is_automatic
            # A state is current until the next commit, so the newest one made at or before `since` is retained too.
            if number >= policy.commits and history.estimate_time(commit, followed_at) <= policy.since:
                break
            stored_time = history.find_stored_time(commit)
            if stored_time is not None:
                followed_at = min(stored_time, followed_at or stored_time)
    return RetentionPlan(stop=stop, extra=frozenset(seq for seq in required if seq < stop))


def find_retained_seqs(
    histories: Mapping[str, BranchHistory], plans: Mapping[str, RetentionPlan]
) -> dict[str, set[int]]:
    """Return by journal the commits that any branch retains; a branch also retains some of its ancestors' commits."""
    retained: dict[str, set[int]] = {path: set(plan.extra) for path, plan in plans.items()}
    for path, plan in plans.items():
        for commit in histories[path].iter_commits():
            if commit.seq < plan.stop:
                break
            segment = histories[path].find_segment(commit.seq)
            if segment.horizon.retains(commit.seq):
                retained.setdefault(segment.path, set()).add(commit.seq)
    return retained


def group_ranges(seqs: Iterable[int]) -> list[Range]:
    """Combine numbers into ranges of consecutive ones, lowest first."""
    ranges: list[Range] = []
    for seq in sorted(set(seqs)):
        if ranges and ranges[-1][1] == seq - 1:
            ranges[-1] = (ranges[-1][0], seq)
        else:
            ranges.append((seq, seq))
    return ranges


def build_horizon(kept: Iterable[int], onward: int, *, epoch: int, version: int, boundary: str) -> GcHorizon:
    """Return a horizon that retains these commits of a journal, and all from number `onward` on."""
    *older, last = group_ranges({*kept, onward})
    return GcHorizon(epoch=epoch, lowest_version=version, staged_before=boundary, kept_from=last[0], kept=tuple(older))


# --- bases of future merges ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MergePoint:
    """A merge: commit `at` of the journal `into` has merged commit `seq` of the journal `path`."""

    into: str
    at: int
    path: str
    seq: int
    branch: str = field(compare=False)


def find_merge_points(history: BranchHistory, lowest: int) -> list[MergePoint]:
    """Return the merges in a branch's own journal, back to commit `lowest`."""
    # The first commit of a branch is its parent's. If it is a merge, it belongs to the parent's journal.
    lowest = lowest if history.fork is None else max(lowest, history.fork.seq + 1)
    points = []
    for commit in history.iter_own(lowest):
        merged = commit.merged_from
        if merged is not None:
            points.append(MergePoint(history.path, commit.seq, merged.path, merged.seq, merged.branch))
    return points


def find_merge_base_seqs(points: Sequence[MergePoint], forks: AbstractSet[tuple[str, int]]) -> dict[str, set[int]]:
    """Return by journal the merged commits that may be the best common ancestor of two branches.

    A best common ancestor has two children, one in the history of each branch, so one of these is the first commit of
    a branch, or a merge. Of several merges of one journal into another, the newest counts: as seen from the end of the
    target journal, and from each of its `forks`, where a branch was created from it.
    """
    bases: dict[str, set[int]] = {}
    ends: set[tuple[str, int | None]] = {(point.into, None) for point in points}
    for into, end in ends | forks:
        newest: dict[str, MergePoint] = {}
        for point in points:
            if point.into == into and (end is None or point.at <= end):
                newest[point.path] = max(newest.get(point.path, point), point, key=lambda merge: merge.at)
        for point in newest.values():
            bases.setdefault(point.path, set()).add(point.seq)
    return bases


def find_passages(
    points: Iterable[MergePoint], forks: Mapping[str, tuple[str, int]], ends: AbstractSet[str]
) -> dict[str, str]:
    """Return the journals that are only passed through, each with the one journal that has merged it.

    `forks` are the commits that journals were created from, and `ends` the journals in which a history may begin. All
    other journals are reached through a merge, or through a branch created from them. If there is only one such way, a
    journal contains no best common ancestor: a history that has one of its commits has the merge as well. But a common
    ancestor may be reached through it.
    """
    into: dict[str, set[str]] = {}
    for point in points:
        into.setdefault(point.path, set()).add(point.into)
    parents = {path for path, _ in forks.values()}
    return {
        path: next(iter(targets))
        for path, targets in into.items()
        if len(targets) == 1 and path not in parents and path not in ends
    }


# --- pins of retained states -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RetainedPin:
    """A pin that consecutive retained states share."""

    pin: Pin
    _history: Sequence[Commit]
    _first: int
    _end: int

    @property
    def commits(self) -> Sequence[Commit]:
        """The commits of these states, newest first."""
        return self._history[self._first : self._end]


def iter_retained_pins(
    history: BranchHistory, plan: RetentionPlan, shared: Mapping[str, AbstractSet[int]]
) -> Iterator[RetainedPin]:
    """Yield the pins of the retained states of a branch, each with the states that have it.

    Retained are the states of the plan, all newer ones, and those that other branches retain in this history: `shared`
    has their numbers by journal. Data that was permanently dropped after a state is no longer part of it.
    """
    manifest = history.head.snapshot.manifest
    tables: dict[str, TableRecord] = dict(manifest.tables)
    pins: dict[str, Pin] = dict(manifest.pins)
    dropped: dict[str, Pin] = dict(manifest.dropped)
    lost: set[str] = set()
    own_segment = history.segments[0]
    retained: list[Commit] = []
    # By table, the number of retained states that were passed before the current pin of the table.
    since = dict.fromkeys(pins, 0)

    def end_pin(key: str) -> Iterator[RetainedPin]:
        first = since.pop(key, len(retained))
        if first < len(retained):
            yield RetainedPin(pins[key], retained, first, len(retained))

    lowest = min((plan.lowest, *(seq for segment in history.segments for seq in shared.get(segment.path, ()))))
    # From the head backwards, undoing one commit at a time: `pins` are always those of the state after `commit`.
    for commit in history.iter_commits():
        if commit.seq < lowest:
            break
        segment = history.find_segment(commit.seq)
        if plan.retains(commit.seq, segment, own_segment) or commit.seq in shared.get(segment.path, ()):
            retained.append(commit)
        changed = {change.table_key for change in commit.changes}
        purged = {purge.path for purge in commit.purged}
        ended = {key for key in since if pins[key].path in purged} if purged else set[str]()
        for key in (changed | ended) & since.keys():
            yield from end_pin(key)
        lost |= purged
        undo_commit(commit, tables, pins, dropped)
        since |= {key: len(retained) for key in changed if key in pins and pins[key].path not in lost}
    for key in tuple(since):
        yield from end_pin(key)
