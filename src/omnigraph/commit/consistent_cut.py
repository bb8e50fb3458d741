"""A consistent cut through a graph with concurrent writers: states of its branches, and the table versions they need.

Branches are read one after the other, so a branch may have merged a commit that is newer than the state read of
another. A cut is closed: any fork or merged branch that a journal in it refers to is included at least up to that
commit, or is missing from the graph as well. So histories are complete, and merges find the same base as in the graph.
"""

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import structs

from omnigraph.commit.branch_errors import BranchMissingError
from omnigraph.commit.branches import BranchRegistry
from omnigraph.commit.conflict import ConflictError
from omnigraph.commit.manifest_log import Head, ManifestLog, NotAGraphError
from omnigraph.commit.manifest_types import MAIN, BranchRecord, Commit, GcHorizon, Pin, TagRecord
from omnigraph.storage.layout import MANIFEST
from omnigraph.storage.verification import VersionRecord

# Attempts at a cut. One fails if main is merged into another branch, or a branch is deleted, while it is read.
MAX_ROUNDS = 20

JournalNeed = tuple[str, str, int]
"""A required part of a journal: the branch's name, the manifest's path, and the newest commit that is needed."""


@dataclass(frozen=True, slots=True)
class PinnedVersion:
    """A version of a table, by the table's path."""

    path: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsistentCut:
    """States of branches that fit together, and the table versions that they and their histories need."""

    main: Head
    branches: Mapping[str, BranchRecord]
    """The included branches other than main, by name."""
    tags: Mapping[str, TagRecord]
    """The included tags, by name."""
    heads: Mapping[str, Head]
    """The state of every manifest that is needed, by its path: of these branches, and of those that they have merged
    or were created from, which may have been deleted."""
    horizons: Mapping[str, GcHorizon]
    """The horizon of every manifest that is needed only up to a commit, by its path: later commits are left out."""
    present: frozenset[PinnedVersion]
    """The versions in the current states of main and these branches."""
    past: frozenset[PinnedVersion]
    """The other versions in past states of their histories. Some may be missing."""
    collected: int
    """The number of further versions that histories name: they were collected, or permanently dropped."""
    epoch: int
    """The last cleanup that any of the manifests knows of."""
    recorded: Mapping[PinnedVersion, VersionRecord] = field(default_factory=dict)
    """The checksum of the file and the number of rows that commits record for each version."""
    lists: Mapping[str, Collection[str]] = field(default_factory=dict)
    """The checksum lists of other files, by the path of a table."""

    def get_head(self, branch: str) -> Head:
        """Return the state of main or of one of the branches."""
        return self.main if branch == MAIN else self.heads[self.branches[branch].path]


@dataclass(slots=True)
class _JournalScan:
    """The part of a journal that was read so far."""

    # The number of the newest commit that was read.
    read_to: int = -1
    # For each table version, the numbers of the first commit whose state has it, and of the last that may have it.
    first: dict[PinnedVersion, int] = field(default_factory=dict)
    last: dict[PinnedVersion, int] = field(default_factory=dict)
    # Paths of tables whose earlier versions were permanently dropped, with the commits that dropped them.
    purged: dict[str, set[int]] = field(default_factory=dict)
    # References to other journals, with the first commit that has each.
    needs: dict[JournalNeed, int] = field(default_factory=dict)
    recorded: dict[PinnedVersion, VersionRecord] = field(default_factory=dict)
    lists: dict[str, set[str]] = field(default_factory=dict)

    def add(self, commit: Commit) -> None:
        """Add the table versions and references of a commit; commits are added newest first."""
        for change in commit.changes:
            old_path = change.path if change.replaced is None else change.replaced.path
            if change.lists_before:
                self.lists.setdefault(old_path, set()).update(change.lists_before)
            if change.after is not None:
                pin = PinnedVersion(change.path, int(change.after))
                self._record(pin, change.sum_after, change.rows_after)
                self.first[pin] = min(self.first.get(pin, commit.seq), commit.seq)
                # No newer commit has replaced it so far: it is still current in the newest state.
                if self.last.get(pin, -1) < commit.seq:
                    self.last[pin] = sys.maxsize
            if change.before is not None:
                pin = PinnedVersion(old_path, int(change.before))
                self._record(pin, change.sum_before, change.rows_before)
                self.first[pin] = min(self.first.get(pin, commit.seq - 1), commit.seq - 1)
                self.last[pin] = max(self.last.get(pin, -1), commit.seq - 1)
        for purge in commit.purged:
            self.purged.setdefault(purge.path, set()).add(commit.seq)
        merged = commit.merged_from
        if merged is not None:
            need = (merged.branch, merged.path, merged.seq)
            self.needs[need] = min(self.needs.get(need, commit.seq), commit.seq)

    def _record(self, pin: PinnedVersion, checksum: str | None, rows: int) -> None:
        if checksum is not None or pin not in self.recorded:
            self.recorded[pin] = VersionRecord(checksum, rows)

    def find_versions(self, limit: int) -> set[PinnedVersion]:
        """Return all table versions that commits up to this number name."""
        return {pin for pin, seq in self.first.items() if seq <= limit}

    def find_retained(self, limit: int, horizon: GcHorizon, hidden: Collection[str] = ()) -> set[PinnedVersion]:
        """Return the versions of commits up to this number that are part of a state which the horizon retains.

        Data that was permanently dropped up to the limit is left out, and so are `hidden` tables.
        """
        retained = set()
        for pin in self.find_versions(limit):
            # A permanent drop removes the table from all earlier states of the branch.
            dropped = max((seq for seq in self.purged.get(pin.path, ()) if seq <= limit), default=-1)
            first = max(self.first[pin], dropped)
            last = min(self.last[pin], limit)
            if first <= last and pin.path not in hidden and _is_retained(horizon, first, last):
                retained.add(pin)
        return retained

    def find_dropped(self, limit: int) -> set[str]:
        """Return the tables that commits up to this number have permanently dropped."""
        return {path for path, seqs in self.purged.items() if min(seqs) <= limit}


def _is_retained(horizon: GcHorizon, first: int, last: int) -> bool:
    """Return whether any commit from `first` to `last` is retained."""
    return last >= horizon.kept_from or any(low <= last and high >= first for low, high in horizon.kept)


def _cut_horizon(horizon: GcHorizon, limit: int, newest: int) -> GcHorizon:
    """Return a horizon that retains the same commits up to `limit`, and none after it."""
    ranges = (*horizon.kept, (horizon.kept_from, limit))
    kept = tuple((first, min(last, limit)) for first, last in ranges if first <= limit)
    return structs.replace(horizon, kept_from=newest + 1, kept=kept)


class _MovedError(Exception):
    """Main or a branch has changed in a way that invalidates the cut: it has to be restarted."""


def take_cut(branches: BranchRegistry, names: Sequence[str] | None = None) -> ConsistentCut:
    """Return a consistent cut through main and all other branches, or only through those with these names.

    The ancestors of named branches are included.

    Raises:
        BranchMissingError: There is no branch of such a name.
        ConflictError: Branches are merged and deleted faster than they can be read.
    """
    builder = _CutBuilder(branches.main)
    for _ in range(MAX_ROUNDS):
        try:
            return builder.build(names)
        except _MovedError:
            continue
    raise ConflictError("branches", "no change while they are read", "others", f"they changed {MAX_ROUNDS} times")


class _CutBuilder:
    """Read journals into a cut. Each commit is read once, even if the cut is restarted."""

    def __init__(self, main: ManifestLog) -> None:
        self._main = main
        self._journals: dict[str, _JournalScan] = {}

    def build(self, names: Sequence[str] | None) -> ConsistentCut:
        main = self._main.head()
        selected = _select_branches(main.snapshot.manifest.live_branches, names)
        live = {record.path for record in selected.values()} | {MANIFEST}
        heads = {MANIFEST: main}
        needed: dict[str, int] = {}
        tags = {
            name: tag
            for name, tag in main.snapshot.manifest.tags.items()
            if names is None or tag.branch == MAIN or tag.branch in selected
        }
        waiting: list[JournalNeed] = [
            (MAIN, MANIFEST, 0),
            *((record.name, record.path, 0) for record in selected.values()),
        ]
        waiting += [(tag.branch, tag.path, tag.seq) for tag in tags.values()]
        # Follow references until the cut is closed. A journal is read again when a newer commit of it is needed.
        while waiting:
            name, path, seq = waiting.pop()
            is_included = needed.get(path, -1) >= seq
            needed[path] = max(needed.get(path, -1), seq)
            if is_included:
                continue
            head = self._read_state(heads.get(path), name, path, seq, is_live=path in live)
            if head is None:
                continue
            heads[path] = head
            limit = head.snapshot.commit.seq if path in live else needed[path]
            waiting += self._find_needs(name, path, head, limit)
        limits = {path: head.snapshot.commit.seq if path in live else needed[path] for path, head in heads.items()}
        horizons = {
            path: _cut_horizon(heads[path].snapshot.manifest.gc_horizon, limit, heads[path].snapshot.commit.seq)
            for path, limit in limits.items()
            if limit < heads[path].snapshot.commit.seq
        }
        named = {pin for path, limit in limits.items() for pin in self._journals[path].find_versions(limit)}
        retained = self._find_retained(heads, limits, live | {tag.path for tag in tags.values()})
        # A soft drop hides a table and loses no data: the manifest still names its version.
        retained |= {_to_pinned_version(pin) for path in live for pin in heads[path].snapshot.manifest.dropped.values()}
        present = {_to_pinned_version(pin) for path in live for pin in heads[path].snapshot.pins.values()}
        return ConsistentCut(
            main=main,
            branches=selected,
            tags=tags,
            heads=heads,
            horizons=horizons,
            present=frozenset(present),
            past=frozenset(retained - present),
            collected=len(named - retained - present),
            epoch=max(head.snapshot.manifest.gc_horizon.epoch for head in heads.values()),
            recorded={pin: record for path in limits for pin, record in self._journals[path].recorded.items()},
            lists=self._find_lists(heads),
        )

    def _find_lists(self, heads: Mapping[str, Head]) -> dict[str, set[str]]:
        """Return by table the checksum lists that pins name, or named before."""
        lists: dict[str, set[str]] = {}
        for path, head in heads.items():
            for table, names in self._journals[path].lists.items():
                lists.setdefault(table, set()).update(names)
            manifest = head.snapshot.manifest
            for pin in (*manifest.pins.values(), *manifest.dropped.values()):
                lists.setdefault(pin.path, set()).update(pin.lists)
        return lists

    def _find_retained(
        self, heads: Mapping[str, Head], limits: Mapping[str, int], readable: Collection[str]
    ) -> set[PinnedVersion]:
        """Return the table versions that can be read in the histories of branches and tags.

        `readable` are the journals of these branches and tags; all other journals were only merged or forked from.
        """
        retained = set[PinnedVersion]()
        dropped_by_branch = list[set[str]]()
        ends = [path for path in readable if path in heads]
        has_dropped = any(self._journals[path].purged for path in heads)
        for path in ends:
            retained |= self._journals[path].find_retained(limits[path], heads[path].snapshot.manifest.gc_horizon)
            # A branch that was created before data was permanently dropped still has it, unless it dropped it too.
            # Without such drops, a branch reads the same of its parent's journal as the parent.
            if has_dropped:
                inherited, dropped = self._find_inherited(heads, limits, path)
                retained |= inherited
                dropped_by_branch.append(dropped)
        # In a journal that was only merged, tables that every branch has dropped are not needed.
        hidden = set[str].intersection(*dropped_by_branch) if dropped_by_branch else set[str]()
        for path in heads.keys() - set(ends):
            horizon = heads[path].snapshot.manifest.gc_horizon
            retained |= self._journals[path].find_retained(limits[path], horizon, hidden)
        return retained

    def _find_inherited(
        self, heads: Mapping[str, Head], limits: Mapping[str, int], path: str
    ) -> tuple[set[PinnedVersion], set[str]]:
        """Return the versions a branch can read in its ancestors' journals, and the tables its history has dropped."""
        inherited = set[PinnedVersion]()
        dropped = self._journals[path].find_dropped(limits[path])
        fork = heads[path].snapshot.manifest.fork
        while fork is not None and fork.parent_path in heads:
            parent = self._journals[fork.parent_path]
            head = heads[fork.parent_path]
            inherited |= parent.find_retained(fork.seq, head.snapshot.manifest.gc_horizon, dropped)
            dropped |= parent.find_dropped(fork.seq)
            fork = head.snapshot.manifest.fork
        return inherited, dropped

    def _read_state(self, cached: Head | None, name: str, path: str, seq: int, *, is_live: bool) -> Head | None:
        """Return a state of a manifest with its commits up to `seq`, or None if the manifest was collected.

        Raises:
            _MovedError: A newer state of main is needed, or a live branch was deleted.
        """
        if cached is not None and cached.snapshot.commit.seq >= seq:
            return cached
        # A newer state of main may have other branches and tags too.
        if path == MANIFEST:
            raise _MovedError
        try:
            head = self._main.open_other(name, path).final_head()
        except NotAGraphError:
            if is_live:
                raise _MovedError from None
            return None
        if is_live and head.snapshot.manifest.is_closed:
            raise _MovedError
        return head

    def _find_needs(self, name: str, path: str, head: Head, limit: int) -> list[JournalNeed]:
        """Read the new commits of a journal, and return what those up to `limit` refer to in other journals."""
        journal = self._journals.setdefault(path, _JournalScan())
        fork = head.snapshot.manifest.fork
        own_from = -1 if fork is None else fork.seq
        log = self._main if path == MANIFEST else self._main.open_other(name, path)
        # The first commit of a branch is its parent's, and is read from the parent's journal.
        read_to = max(journal.read_to, own_from)
        for commit in log.iter_history(head):
            if commit.seq <= read_to:
                break
            journal.add(commit)
        journal.read_to = max(journal.read_to, head.snapshot.commit.seq)
        needs = [need for need, seq in journal.needs.items() if seq <= limit]
        return needs if fork is None else [*needs, (fork.parent_branch, fork.parent_path, fork.seq)]


def _select_branches(live: Mapping[str, BranchRecord], names: Sequence[str] | None) -> dict[str, BranchRecord]:
    """Return the branches of these names and their ancestors, sorted by name; all branches if `names` is None."""
    if names is None:
        return dict(sorted(live.items()))
    selected: dict[str, BranchRecord] = {}
    for name in names:
        ancestor = name
        while ancestor != MAIN and ancestor not in selected:
            if ancestor not in live:
                raise BranchMissingError(ancestor, (MAIN, *sorted(live)))
            selected[ancestor] = live[ancestor]
            ancestor = live[ancestor].parent_branch
    return dict(sorted(selected.items()))


def _to_pinned_version(pin: Pin) -> PinnedVersion:
    return PinnedVersion(pin.path, pin.version)
