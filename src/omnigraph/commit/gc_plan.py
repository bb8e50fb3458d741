"""A cleanup's view of all journals: which there are, what of them is kept, and the floors that say so."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from omnigraph.commit.branch_errors import BranchGoneError
from omnigraph.commit.branch_lock import get_branch_lock
from omnigraph.commit.branches import BranchRegistry
from omnigraph.commit.conflict import ConflictError
from omnigraph.commit.gc_retention import (
    BranchHistory,
    CreationTimeBounds,
    MergePoint,
    RetainedPin,
    RetentionPlan,
    RetentionPolicy,
    Times,
    build_horizon,
    find_merge_base_seqs,
    find_merge_points,
    find_passages,
    find_retained_seqs,
    iter_retained_pins,
    plan_retention,
)
from omnigraph.commit.manifest_log import Head, ManifestLog, NotAGraphError, OutcomeUnknownError
from omnigraph.commit.manifest_types import MAIN, GcHorizon, Manifest
from omnigraph.commit.sidecar import Sidecar
from omnigraph.storage.cas_table_errors import SwapLostError
from omnigraph.storage.layout import MANIFEST
from omnigraph.storage.object_store import StoreUnavailableError

MAX_PLANS = 10
"""How often a cleanup plans again because branches or tags came and went."""


@dataclass(frozen=True, slots=True)
class AllHistories:
    """Every journal that somebody may still look into, and what is kept of each."""

    main: Head
    """The state of main in which branches and tags were looked up."""
    histories: Mapping[str, BranchHistory]
    plans: Mapping[str, RetentionPlan]
    retained_seqs: Mapping[str, set[int]]

    @property
    def epoch(self) -> int:
        """The last cleanup that any branch knows of."""
        return max(line.head.snapshot.manifest.gc_horizon.epoch for line in self.histories.values())

    @property
    def live_histories(self) -> list[BranchHistory]:
        """The branches, main last."""
        live = (line for line in self.histories.values() if line.is_live)
        return sorted(live, key=lambda line: (line.path == MANIFEST, line.path))

    @property
    def publish_order(self) -> list[BranchHistory]:
        """All journals in the order in which they learn what goes: those of deleted branches, the branches, main."""
        return [*(line for _, line in sorted(self.histories.items()) if not line.is_live), *self.live_histories]

    def count_collected(self, line: BranchHistory) -> int:
        """How many commits of a branch's own journal can be read now, and can't be behind this cleanup."""
        own = line.segments[0]
        runs = (*own.horizon.kept, (max(own.first, own.horizon.kept_from, 0), line.newest))
        return sum(last - first + 1 for first, last in runs) - len(self.retained_seqs.get(line.path, ()))

    def find_versions(self) -> dict[str, set[int]]:
        """By path, the versions of tables that kept states are made of.

        A state that one branch keeps can be read on every live branch whose line goes through it. Mostly all see the
        same there; but not where one of them has dropped data for good since.
        """
        found: dict[str, set[int]] = {}
        for _, one in self.iter_pins():
            found.setdefault(one.pin.path, set()).add(one.pin.version)
        return found

    def iter_pins(self) -> Iterator[tuple[BranchHistory, RetainedPin]]:
        """Yield the pins of all kept states, with the branch whose states they are; states may be of several."""
        shared = self.retained_seqs if self._has_dropped() else {}
        for path, line in self.histories.items():
            for one in iter_retained_pins(line, self.plans[path], shared if line.is_live else {}):
                yield line, one

    def find_checksum_lists(self) -> dict[str, set[str]]:
        """By path, the lists of checksums that kept states name, and those of tables that are only hidden."""
        found: dict[str, set[str]] = {}
        hidden = (pin for line in self.histories.values() for pin in line.head.snapshot.manifest.dropped.values())
        for pin in (*hidden, *(one.pin for _, one in self.iter_pins())):
            found.setdefault(pin.path, set()).update(pin.lists)
        return found

    def _has_dropped(self) -> bool:
        """Whether a branch has dropped data for good, behind a state of its own journal that is kept."""
        lowest = {path: min(self.retained_seqs.get(path) or (line.newest,)) for path, line in self.histories.items()}
        return any(commit.purged for path, line in self.histories.items() for commit in line.iter_own(lowest[path]))


def gather_histories(
    branches: BranchRegistry,
    main: Head,
    sidecars: Iterable[Sidecar],
    policy: RetentionPolicy,
    times: Times,
    floors: Mapping[str, GcHorizon],
) -> AllHistories:
    """Look at all journals as they are now, main's as of a state, and decide what to keep.

    `floors` are those that count, by journal, where a cleanup that is at it has published newer ones.
    """
    reader = _HistoryLoader(branches, main, times, floors)
    for record in main.snapshot.manifest.live_branches.values():
        reader.add(record.name, record.path)
    for tag in main.snapshot.manifest.tags.values():
        reader.add(tag.branch, tag.path)
    standing = list(sidecars)
    for sidecar in standing:
        reader.add_if_exists(sidecar.branch, sidecar.manifest_path)
    ends = frozenset(reader.histories)
    asked = [
        *((tag.path, tag.seq) for tag in main.snapshot.manifest.tags.values()),
        *((sidecar.manifest_path, sidecar.base_seq) for sidecar in standing),
    ]
    # Back to the oldest state of main that is kept: a branch may yet be taken from any. What is found on the way may
    # have to be kept for merges, and be older still.
    lowest = reader.find_lowest(policy, asked)
    while True:
        extra = _find_extra_seqs(reader.histories, reader.find_merges(lowest), ends, asked)
        before, lowest = (
            lowest,
            min(lowest, plan_retention(reader.histories[MANIFEST], policy, extra.get(MANIFEST, ())).lowest),
        )
        if lowest == before:
            break
    plans = {path: plan_retention(line, policy, extra.get(path, ())) for path, line in reader.histories.items()}
    return AllHistories(main, reader.histories, plans, find_retained_seqs(reader.histories, plans))


def _find_extra_seqs(
    lines: Mapping[str, BranchHistory],
    points: Sequence[MergePoint],
    ends: AbstractSet[str],
    asked: Iterable[tuple[str, int]],
) -> dict[str, set[int]]:
    """By journal, the commits that are kept whatever their age: those that are asked for, and those merges need."""
    forks = {line.path: (fork.parent_path, fork.seq) for line in lines.values() if (fork := line.fork) is not None}
    passed = find_passages(points, forks, ends)
    # Behind a journal that was taken from the one that has merged it, or that has merged that one, lies nothing that
    # this one has not itself.
    parted = {place for path, place in forks.items() if passed.get(path) != place[0]}
    bases = find_merge_base_seqs([one for one in points if passed.get(one.into) != one.path], parted)
    extra = {path: seqs for path, seqs in bases.items() if path not in passed}
    for path, seq in (*parted, *((path, seq) for path, (_, seq) in forks.items() if path not in passed), *asked):
        extra.setdefault(path, set()).add(seq)
    return extra


class _HistoryLoader:
    """Opens journals, with those that they go on in."""

    def __init__(self, branches: BranchRegistry, main: Head, times: Times, floors: Mapping[str, GcHorizon]) -> None:
        self._branches, self._main, self._times, self._floors = branches, main, times, floors
        self._bounds = CreationTimeBounds(times)
        self._live = {record.path for record in main.snapshot.manifest.live_branches.values()} | {MANIFEST}
        self._gone: set[str] = set()
        self.histories: dict[str, BranchHistory] = {}
        self.add(MAIN, MANIFEST)

    def add(self, branch: str, path: str) -> None:
        """A journal that must be there: what can't be read can't be spared."""
        while path not in self.histories:
            log = self._branches.get_journal(branch, path)
            head = self._main if path == MANIFEST else log.final_head()
            line = self.histories[path] = BranchHistory(
                log,
                head,
                is_live=path in self._live,
                times=self._times,
                bounds=self._bounds,
                horizons=self._floors,
            )
            if line.fork is not None:
                branch, path = line.fork.parent_branch, line.fork.parent_path

    def add_if_exists(self, branch: str, path: str) -> None:
        """A journal that may have been collected, or never have come to be."""
        try:
            self.add(branch, path)
        except NotAGraphError:
            self._gone.add(path)

    def find_lowest(self, policy: RetentionPolicy, asked: Iterable[tuple[str, int]]) -> int:
        """The oldest commit of main that a branch was taken from, or that is kept for its age or number, or asked for.

        A branch keeps commits of main's journal too, from before it was taken.
        """
        stops = ((line, plan_retention(line, policy, ()).stop) for line in self.histories.values())
        forks = (fork for line in self.histories.values() if (fork := line.fork) is not None)
        return min(
            (
                self._main.snapshot.commit.seq,
                *(stop for line, stop in stops if line.find_segment(stop).path == MANIFEST),
                *(fork.seq for fork in forks if fork.parent_path == MANIFEST),
                *(seq for path, seq in asked if path == MANIFEST),
            )
        )

    def find_merges(self, lowest: int) -> list[MergePoint]:
        """The merges that may matter to later ones, those into deleted branches that were merged themselves too.

        Of those into main, which has many, only those from a commit on. Whatever a history leads through has to be
        there: behind it may be what two branches have in common.
        """
        points: list[MergePoint] = []
        waiting = list(self.histories)
        while waiting:
            line = self.histories[waiting.pop()]
            found = find_merge_points(line, lowest if line.path == MANIFEST else 0)
            points += found
            for one in found:
                if one.path not in self.histories and one.path not in self._gone:
                    known = set(self.histories)
                    self.add_if_exists(one.branch, one.path)
                    waiting += self.histories.keys() - known
        return points


# --- floors ----------------------------------------------------------------------------------------


def publish_horizon(line: BranchHistory, journals: AllHistories, epoch: int, boundary: str, *, is_ours: bool) -> bool:
    """Let a journal say what a cleanup is about to take; whether that was possible.

    It was not when main's branches and tags are not what they were. The journal of a deleted branch, which tags and
    branches that were taken from it lead into, says it only when that is something new.

    Raises:
        ConflictError: Another cleanup is at it. One whose own floor it is (`is_ours`) may write it again.
        StoreUnavailableError: The store failed. The floor may be there, which does no harm.
    """
    log = line.log
    while True:
        try:
            head = log.final_head()
        except NotAGraphError:
            return True  # its branch was deleted, and it was collected
        manifest = head.snapshot.manifest
        if log.path == MANIFEST and not is_same_registry(manifest, journals.main.snapshot.manifest):
            return False
        if manifest.gc_horizon.epoch >= epoch and not (is_ours and manifest.gc_horizon.epoch == epoch):
            raise ConflictError(
                "cleanup", f"epoch {epoch - 1}", f"epoch {manifest.gc_horizon.epoch}", "another one is at work"
            )
        floor = build_horizon(
            journals.retained_seqs.get(log.path, ()),
            line.retained_from,
            epoch=epoch,
            version=head.table.version + 1,
            boundary=boundary,
        )
        is_known = (floor.kept_from, floor.kept) == (manifest.gc_horizon.kept_from, manifest.gc_horizon.kept)
        if is_known and not line.is_live:
            return True
        try:
            _swap_horizon(log, head, floor)
        except SwapLostError:
            continue
        except BranchGoneError:
            return True
        return True


def _swap_horizon(log: ManifestLog, head: Head, floor: GcHorizon) -> None:
    manifest = replace(head.snapshot.manifest, gc_horizon=floor)
    try:
        with get_branch_lock(log.store.location.uri, log.path):
            log.publish(head, manifest, lambda now: now.snapshot.manifest.gc_horizon.epoch >= floor.epoch)
    except OutcomeUnknownError as error:  # it names the newest commit, which was published long ago
        raise StoreUnavailableError(f"publish the floor of `{log.branch}`", error.reason) from error


def is_same_registry(left: Manifest, right: Manifest) -> bool:
    """Whether two states of main have the same branches and tags."""
    return left.live_branches == right.live_branches and left.tags == right.tags
