"""Plan garbage collection over all journals: which commits each retains, and the horizons to publish."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from omnigraph.commit.branch_errors import BranchGoneError, OutcomeUnknownError
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
from omnigraph.commit.manifest_log import Head, ManifestLog, NotAGraphError
from omnigraph.commit.manifest_types import MAIN, GcHorizon, Manifest
from omnigraph.commit.sidecar import Sidecar
from omnigraph.storage.cas_table_errors import SwapLostError
from omnigraph.storage.layout import MANIFEST
from omnigraph.storage.object_store import StoreUnavailableError

# Times a cleanup plans again because branches or tags were created or deleted while it published its horizons.
MAX_PLANS = 10


@dataclass(frozen=True, slots=True)
class AllHistories:
    """Every journal that may still be read, by its path, with the commits that are retained."""

    main: Head
    """The state of main in which branches and tags were looked up."""
    histories: Mapping[str, BranchHistory]
    plans: Mapping[str, RetentionPlan]
    retained_seqs: Mapping[str, set[int]]
    """The numbers of the commits in a journal that any branch retains, by the path of the journal."""

    @property
    def epoch(self) -> int:
        """The last cleanup that any branch knows of."""
        return max(history.head.snapshot.manifest.gc_horizon.epoch for history in self.histories.values())

    @property
    def live_histories(self) -> list[BranchHistory]:
        """The histories of live branches, main last."""
        live = (history for history in self.histories.values() if history.is_live)
        return sorted(live, key=lambda history: (history.path == MANIFEST, history.path))

    @property
    def publish_order(self) -> list[BranchHistory]:
        """All histories in the order in which they get the horizon: deleted branches, live branches, main last."""
        # Branches and tags are registered in main. A writer that names an old commit there before main has the horizon
        # is seen by this cleanup; one that comes later finds the horizon of the commit's journal.
        deleted = (history for _, history in sorted(self.histories.items()) if not history.is_live)
        return [*deleted, *self.live_histories]

    def count_collected(self, history: BranchHistory) -> int:
        """Return the number of commits in a branch's own journal that are readable now, and not after this cleanup."""
        own_segment = history.segments[0]
        horizon = own_segment.horizon
        readable = (*horizon.kept, (max(own_segment.first, horizon.kept_from, 0), history.newest))
        return sum(last - first + 1 for first, last in readable) - len(self.retained_seqs.get(history.path, ()))

    def find_versions(self) -> dict[str, set[int]]:
        """Return the table versions of all retained states, by the path of the table."""
        versions: dict[str, set[int]] = {}
        for _, retained in self.iter_pins():
            versions.setdefault(retained.pin.path, set()).add(retained.pin.version)
        return versions

    def iter_pins(self) -> Iterator[tuple[BranchHistory, RetainedPin]]:
        """Yield the pins of all retained states, each with a branch that has it; branches may share states."""
        # A state that one branch retains can be read on every live branch whose history contains it. All of them see
        # the same pins in it, unless one has permanently dropped data since: only then each branch is walked for all.
        shared = self.retained_seqs if self._has_dropped() else {}
        for path, history in self.histories.items():
            for retained in iter_retained_pins(history, self.plans[path], shared if history.is_live else {}):
                yield history, retained

    def find_checksum_lists(self) -> dict[str, set[str]]:
        """Return the checksum lists of retained states and of tables hidden by a soft drop, by the table's path."""
        lists: dict[str, set[str]] = {}
        manifests = (history.head.snapshot.manifest for history in self.histories.values())
        hidden = [pin for manifest in manifests for pin in manifest.dropped.values()]
        for pin in (*hidden, *(retained.pin for _, retained in self.iter_pins())):
            lists.setdefault(pin.path, set()).update(pin.lists)
        return lists

    def _has_dropped(self) -> bool:
        """Return whether a branch has permanently dropped data after a retained state of its own journal."""
        for path, history in self.histories.items():
            lowest = min(self.retained_seqs.get(path) or (history.newest,))
            if any(commit.purged for commit in history.iter_own(lowest)):
                return True
        return False


def gather_histories(
    branches: BranchRegistry,
    main: Head,
    sidecars: Iterable[Sidecar],
    policy: RetentionPolicy,
    times: Times,
    horizons: Mapping[str, GcHorizon],
) -> AllHistories:
    """Read all journals, main's as of the state `main`, and decide which commits to retain.

    `horizons` overrides the stored horizons, by journal: a running cleanup has published newer ones of its own.
    """
    loader = _HistoryLoader(branches, main, times, horizons)
    for record in main.snapshot.manifest.live_branches.values():
        loader.add(record.name, record.path)
    for tag in main.snapshot.manifest.tags.values():
        loader.add(tag.branch, tag.path)
    operations = list(sidecars)
    for sidecar in operations:
        loader.add_if_exists(sidecar.branch, sidecar.manifest_path)
    ends = frozenset(loader.histories)
    required = [
        *((tag.path, tag.seq) for tag in main.snapshot.manifest.tags.values()),
        *((sidecar.manifest_path, sidecar.base_seq) for sidecar in operations),
    ]
    # Merges into main are read back to its oldest retained state, since a branch may still be created from any. Commits
    # retained for those merges may be older still, so this repeats until nothing older is retained.
    lowest = loader.find_lowest(policy, required)
    while True:
        extra = _find_extra_seqs(loader.histories, loader.find_merges(lowest), ends, required)
        retained_lowest = plan_retention(loader.histories[MANIFEST], policy, extra.get(MANIFEST, ())).lowest
        if retained_lowest >= lowest:
            break
        lowest = retained_lowest
    plans = {path: plan_retention(history, policy, extra.get(path, ())) for path, history in loader.histories.items()}
    return AllHistories(main, loader.histories, plans, find_retained_seqs(loader.histories, plans))


def _find_extra_seqs(
    histories: Mapping[str, BranchHistory],
    points: Sequence[MergePoint],
    ends: AbstractSet[str],
    required: Iterable[tuple[str, int]],
) -> dict[str, set[int]]:
    """Return the commits by journal that are retained at any age: the `required` ones, and those merges need."""
    forks = {
        history.path: (fork.parent_path, fork.seq)
        for history in histories.values()
        if (fork := history.fork) is not None
    }
    passages = find_passages(points, forks, ends)
    # A passage that was created from the journal that has merged it, or that has merged that journal, leads only to
    # commits which that journal has itself. So its fork, or those merges, need nothing.
    fork_points = {point for path, point in forks.items() if passages.get(path) != point[0]}
    relevant = [point for point in points if passages.get(point.into) != point.path]
    bases = find_merge_base_seqs(relevant, fork_points)
    extra = {path: seqs for path, seqs in bases.items() if path not in passages}
    first_commits = ((path, seq) for path, (_, seq) in forks.items() if path not in passages)
    for path, seq in (*fork_points, *first_commits, *required):
        extra.setdefault(path, set()).add(seq)
    return extra


class _HistoryLoader:
    """Open histories by their journals, each with the histories of its ancestors."""

    def __init__(self, branches: BranchRegistry, main: Head, times: Times, horizons: Mapping[str, GcHorizon]) -> None:
        self._branches = branches
        self._main = main
        self._times = times
        self._horizons = horizons
        self._bounds = CreationTimeBounds(times)
        self._live = {record.path for record in main.snapshot.manifest.live_branches.values()} | {MANIFEST}
        self._missing: set[str] = set()
        self.histories: dict[str, BranchHistory] = {}
        self.add(MAIN, MANIFEST)

    def add(self, branch: str, path: str) -> None:
        """Add a journal that must exist: without reading it, cleanup can't spare what it needs."""
        while path not in self.histories:
            log = self._branches.get_journal(branch, path)
            head = self._main if path == MANIFEST else log.final_head()
            history = BranchHistory(
                log,
                head,
                is_live=path in self._live,
                times=self._times,
                bounds=self._bounds,
                horizons=self._horizons,
            )
            self.histories[path] = history
            if history.fork is not None:
                branch, path = history.fork.parent_branch, history.fork.parent_path

    def add_if_exists(self, branch: str, path: str) -> None:
        """Add a journal that may have been collected, or may never have been written."""
        try:
            self.add(branch, path)
        except NotAGraphError:
            self._missing.add(path)

    def find_lowest(self, policy: RetentionPolicy, required: Iterable[tuple[str, int]]) -> int:
        """Return the oldest commit of main that is retained by the policy, required, or that a branch was created from.

        A branch also retains commits of main's journal, from before it was created.
        """
        stops = ((history, plan_retention(history, policy, ()).stop) for history in self.histories.values())
        forks = (fork for history in self.histories.values() if (fork := history.fork) is not None)
        return min(
            (
                self._main.snapshot.commit.seq,
                *(stop for history, stop in stops if history.find_segment(stop).path == MANIFEST),
                *(fork.seq for fork in forks if fork.parent_path == MANIFEST),
                *(seq for path, seq in required if path == MANIFEST),
            )
        )

    def find_merges(self, lowest: int) -> list[MergePoint]:
        """Return the merges that can matter to later ones, including those into deleted branches that were merged.

        Merges into main, which has many, are returned from commit `lowest` on. Journals that were merged are added: a
        common ancestor of two branches may be reached through them.
        """
        points: list[MergePoint] = []
        waiting = list(self.histories)
        while waiting:
            history = self.histories[waiting.pop()]
            new_points = find_merge_points(history, lowest if history.path == MANIFEST else 0)
            points += new_points
            for point in new_points:
                if point.path not in self.histories and point.path not in self._missing:
                    before = set(self.histories)
                    self.add_if_exists(point.branch, point.path)
                    waiting += self.histories.keys() - before
        return points


# --- horizons --------------------------------------------------------------------------------------


def publish_horizon(
    history: BranchHistory, histories: AllHistories, epoch: int, boundary: str, *, is_ours: bool
) -> bool:
    """Publish the horizon of a cleanup in a journal; return False if main's branches or tags have changed since.

    The journal of a deleted branch, which tags and child branches still read, gets a new horizon only if it retains
    other commits than the last one.

    Raises:
        ConflictError: Another cleanup is running. With `is_ours` this cleanup published the horizon of this epoch
            itself, and may replace it.
        StoreUnavailableError: The store failed. The horizon may have been published, which does no harm.
    """
    log = history.log
    while True:
        try:
            head = log.final_head()
        except NotAGraphError:
            return True  # the branch was deleted, and its journal collected
        manifest = head.snapshot.manifest
        old = manifest.gc_horizon
        if log.path == MANIFEST and not is_same_registry(manifest, histories.main.snapshot.manifest):
            return False
        if old.epoch >= epoch and not (is_ours and old.epoch == epoch):
            raise ConflictError("cleanup", f"epoch {epoch - 1}", f"epoch {old.epoch}", "another cleanup is running")
        horizon = build_horizon(
            histories.retained_seqs.get(log.path, ()),
            history.retained_from,
            epoch=epoch,
            version=head.table.version + 1,
            boundary=boundary,
        )
        is_unchanged = (horizon.kept_from, horizon.kept) == (old.kept_from, old.kept)
        if is_unchanged and not history.is_live:
            return True
        try:
            _swap_horizon(log, head, horizon)
        except SwapLostError:
            continue  # all later commits are retained, so the plan still holds
        except BranchGoneError:
            return True
        return True


def _swap_horizon(log: ManifestLog, head: Head, horizon: GcHorizon) -> None:
    manifest = replace(head.snapshot.manifest, gc_horizon=horizon)
    try:
        with get_branch_lock(log.store.location.uri, log.path):
            log.publish(head, manifest, lambda now: now.snapshot.manifest.gc_horizon.epoch >= horizon.epoch)
    except OutcomeUnknownError as error:
        # That error names the newest commit, which was published long ago: only the horizon is uncertain.
        raise StoreUnavailableError(f"publish the horizon of `{log.branch}`", error.reason) from error


def is_same_registry(left: Manifest, right: Manifest) -> bool:
    """Return whether two states of main have the same branches and tags."""
    return left.live_branches == right.live_branches and left.tags == right.tags
