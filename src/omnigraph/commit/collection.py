"""A cleanup's view of all journals: which there are, what of them is kept, and the floors that say so."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from omnigraph.commit.branch_errors import BranchGoneError
from omnigraph.commit.branches import Branches
from omnigraph.commit.gates import gate
from omnigraph.commit.manifest_log import Head, ManifestLog, NotAGraphError
from omnigraph.commit.plan import ConflictError
from omnigraph.commit.records import MAIN, Floor, Manifest
from omnigraph.commit.retention import (
    Line,
    MergePoint,
    Plan,
    Policy,
    Times,
    floor_of,
    kept_seqs,
    marked,
    merge_bases,
    merge_points,
    planned,
    shared_sources,
)
from omnigraph.commit.sidecar import Sidecar
from omnigraph.storage.layout import MANIFEST
from omnigraph.storage.swap_errors import SwapLostError

MOST_PLANS = 10
"""How often a cleanup plans again because branches or tags came and went."""


@dataclass(frozen=True, slots=True)
class Journals:
    """Every journal that somebody may still look into, and what is kept of each."""

    main: Head
    """The state of main in which branches and tags were looked up."""
    lines: Mapping[str, Line]
    plans: Mapping[str, Plan]
    kept: Mapping[str, set[int]]

    @property
    def epoch(self) -> int:
        """The last cleanup that any branch knows of."""
        return max(line.head.snapshot.manifest.floor.epoch for line in self.lines.values())

    @property
    def live(self) -> list[Line]:
        """The branches, main last."""
        live = (line for line in self.lines.values() if line.is_live)
        return sorted(live, key=lambda line: (line.path == MANIFEST, line.path))

    def collected(self, line: Line) -> int:
        """How many commits of a branch's own journal can be read now, and can't be behind this cleanup."""
        own = line.stretches[0]
        runs = (*own.floor.kept, (max(own.first, own.floor.kept_from, 0), line.newest))
        return sum(last - first + 1 for first, last in runs) - len(self.kept.get(line.path, ()))

    def versions(self) -> dict[str, set[int]]:
        """By path, the versions of tables that kept states are made of."""
        found: dict[str, set[int]] = {}
        for path, line in self.lines.items():
            for table, version in marked(line, self.plans[path]):
                found.setdefault(table, set()).add(version)
        return found


def gathered(
    branches: Branches,
    main: Head,
    sidecars: Iterable[Sidecar],
    policy: Policy,
    times: Times,
    floors: Mapping[str, Floor],
) -> Journals:
    """Look at all journals as they are now, main's as of a state, and decide what to keep.

    `floors` are those that count, by journal, where a cleanup that is at it has published newer ones.
    """
    reader = _Reader(branches, main, times, floors)
    for record in main.snapshot.manifest.live_branches.values():
        reader.add(record.name, record.path)
    for tag in main.snapshot.manifest.tags.values():
        reader.add(tag.branch, tag.path)
    standing = list(sidecars)
    for sidecar in standing:
        reader.add_if_there(sidecar.branch, sidecar.manifest_path)
    points = reader.merges()
    forks = {(fork.parent_path, fork.seq) for line in reader.lines.values() if (fork := line.fork) is not None}
    extra: dict[str, set[int]] = merge_bases(points, forks)
    for path, seq in (
        *forks,
        *((line.path, fork.seq) for line in reader.lines.values() if (fork := line.fork) is not None),
        *((tag.path, tag.seq) for tag in main.snapshot.manifest.tags.values()),
        *((sidecar.manifest_path, sidecar.base_seq) for sidecar in standing),
    ):
        extra.setdefault(path, set()).add(seq)
    plans = {path: planned(line, policy, extra.get(path, ())) for path, line in reader.lines.items()}
    return Journals(main, reader.lines, plans, kept_seqs(reader.lines, plans))


class _Reader:
    """Opens journals, with those that they go on in."""

    def __init__(self, branches: Branches, main: Head, times: Times, floors: Mapping[str, Floor]) -> None:
        self._branches, self._main, self._times, self._floors = branches, main, times, floors
        self._live = {record.path for record in main.snapshot.manifest.live_branches.values()} | {MANIFEST}
        self._gone: set[str] = set()
        self.lines: dict[str, Line] = {}
        self.add(MAIN, MANIFEST)

    def add(self, branch: str, path: str) -> None:
        """A journal that must be there: what can't be read can't be spared."""
        while path not in self.lines:
            log = self._branches.journal(branch, path)
            head = self._main if path == MANIFEST else log.last()
            line = self.lines[path] = Line(
                log, head, is_live=path in self._live, times=self._times, floors=self._floors
            )
            if line.fork is not None:
                branch, path = line.fork.parent_branch, line.fork.parent_path

    def add_if_there(self, branch: str, path: str) -> None:
        """A journal that may have been collected, or never have come to be."""
        try:
            self.add(branch, path)
        except NotAGraphError:
            self._gone.add(path)

    def merges(self) -> list[MergePoint]:
        """The merges that may matter to later ones; a deleted branch that several have merged is looked into too."""
        while True:
            points = [one for line in list(self.lines.values()) for one in merge_points(line, self._lowest(line))]
            more = {p: b for p, b in shared_sources(points).items() if p not in self.lines and p not in self._gone}
            if not more:
                return points
            for path, branch in more.items():
                self.add_if_there(branch, path)

    def _lowest(self, line: Line) -> int:
        """How far back merges into a branch matter: to where others parted from it, which for main may be never."""
        if line.fork is not None:
            return 0
        forks = (one.fork for one in self.lines.values())
        return min(
            (fork.seq for fork in forks if fork is not None and fork.parent_path == line.path), default=line.newest + 1
        )


# --- floors ----------------------------------------------------------------------------------------


def publish_floor(line: Line, journals: Journals, epoch: int, boundary: str, *, is_ours: bool) -> bool:
    """Let a branch know what a cleanup is about to take; whether that was possible.

    It was not when the branch was deleted meanwhile, or when main's branches and tags are not what they were.

    Raises:
        ConflictError: Another cleanup is at it. One whose own floor it is (`is_ours`) may write it again.
    """
    log = line.log
    while True:
        try:
            head = log.latest()
        except BranchGoneError:
            return True  # nobody can write to it any more
        manifest = head.snapshot.manifest
        if log.path == MANIFEST and not is_same_register(manifest, journals.main.snapshot.manifest):
            return False
        if manifest.floor.epoch >= epoch and not (is_ours and manifest.floor.epoch == epoch):
            raise ConflictError(
                "cleanup", f"epoch {epoch - 1}", f"epoch {manifest.floor.epoch}", "another one is at work"
            )
        floor = floor_of(
            journals.kept.get(log.path, ()),
            line.newest,
            epoch=epoch,
            version=head.table.version + 1,
            boundary=boundary,
        )
        try:
            _swap_floor(log, head, floor)
        except SwapLostError:
            continue
        except BranchGoneError:
            return True
        return True


def _swap_floor(log: ManifestLog, head: Head, floor: Floor) -> None:
    manifest = replace(head.snapshot.manifest, floor=floor)
    with gate(log.store.location.uri, log.path):
        log.publish(head, manifest, lambda now: now.snapshot.manifest.floor.epoch >= floor.epoch)


def is_same_register(left: Manifest, right: Manifest) -> bool:
    """Whether two states of main have the same branches and tags."""
    return left.live_branches == right.live_branches and left.tags == right.tags
