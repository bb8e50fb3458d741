"""A cut through a graph that others write to: states of its branches that belong together, and what they need.

Branches are read one after the other, so a branch may have merged a commit that came after another's state was read.
A cut is closed: whatever a journal in it refers to, a fork or a merged branch, is in it at least up to that commit, or
is gone from the graph as well. So its histories are whole, and merges find the base that they would have found here.
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

MAX_ROUNDS = 20
"""How often a cut is begun anew because main was merged, or a branch deleted, while it was made."""

JournalNeed = tuple[str, str, int]
"""Something in another journal: the branch's name, the manifest's path, and up to which commit it is needed."""


@dataclass(frozen=True, slots=True)
class PinnedVersion:
    """A version of a table, by the table's path."""

    path: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsistentCut:
    """States that belong together."""

    main: Head
    branches: Mapping[str, BranchRecord]
    """The branches other than main that are in it, by name."""
    tags: Mapping[str, TagRecord]
    """The tags that are in it, by name."""
    heads: Mapping[str, Head]
    """By its path, the state of every manifest that is needed: of these branches, and of those that they have merged
    or come from, which may have been deleted."""
    horizons: Mapping[str, GcHorizon]
    """By its path, the floor of every manifest that is needed only up to a commit: what follows that is not in it."""
    present: frozenset[PinnedVersion]
    """What main and these branches show now."""
    past: frozenset[PinnedVersion]
    """What states of their histories are made of beside that. Some of it may be gone."""
    collected: int
    """How many versions histories name beside those: they were collected, or dropped for good."""
    epoch: int
    """The last cleanup that any of the manifests knows of."""
    recorded: Mapping[PinnedVersion, VersionRecord] = field(default_factory=dict)
    """What commits record of versions: the checksums of their files, and their rows."""
    lists: Mapping[str, Collection[str]] = field(default_factory=dict)
    """By the path of a table, the lists of checksums of other files."""

    def get_head(self, branch: str) -> Head:
        """The state of main or one of the branches."""
        return self.main if branch == MAIN else self.heads[self.branches[branch].path]


@dataclass(slots=True)
class _JournalScan:
    """What was read of a journal so far."""

    read_to: int = -1
    first: dict[PinnedVersion, int] = field(default_factory=dict)
    """By version of a table, the number of the first commit whose state has it."""
    last: dict[PinnedVersion, int] = field(default_factory=dict)
    """And of the last one that may have it."""
    purged: dict[str, set[int]] = field(default_factory=dict)
    """Tables whose earlier versions were dropped for good, and by which commits."""
    needs: dict[JournalNeed, int] = field(default_factory=dict)
    """What it refers to in other journals, and by which commit."""
    recorded: dict[PinnedVersion, VersionRecord] = field(default_factory=dict)
    lists: dict[str, set[str]] = field(default_factory=dict)

    def note(self, commit: Commit) -> None:
        """Take down what a commit says."""
        for change in commit.changes:
            old = change.path if change.replaced is None else change.replaced.path
            if change.lists_before:
                self.lists.setdefault(old, set()).update(change.lists_before)
            if change.after is not None:
                pin = PinnedVersion(change.path, int(change.after))
                self._record(pin, change.sum_after, change.rows_after)
                self.first[pin] = min(self.first.get(pin, commit.seq), commit.seq)
                if self.last.get(pin, -1) < commit.seq:  # newest first: nothing has taken its place
                    self.last[pin] = sys.maxsize
            if change.before is not None:
                pin = PinnedVersion(old, int(change.before))
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
        """All versions that commits up to this number name."""
        return {pin for pin, seq in self.first.items() if seq <= limit}

    def find_retained(self, limit: int, floor: GcHorizon, hidden: Collection[str] = ()) -> set[PinnedVersion]:
        """Those of them that some state has which can still be read, as far as a cleanup has not said otherwise.

        What was dropped for good up to the limit is not among them, nor are tables that are `hidden`.
        """
        found = set()
        for pin in self.find_versions(limit):
            dropped = max((seq for seq in self.purged.get(pin.path, ()) if seq <= limit), default=-1)
            first, last = max(self.first[pin], dropped), min(self.last[pin], limit)
            if first <= last and pin.path not in hidden and _is_retained(floor, first, last):
                found.add(pin)
        return found

    def find_dropped(self, limit: int) -> set[str]:
        """The tables that commits up to this number have dropped for good."""
        return {path for path, seqs in self.purged.items() if min(seqs) <= limit}


def _is_retained(floor: GcHorizon, first: int, last: int) -> bool:
    """Whether one of these commits is kept."""
    return last >= floor.kept_from or any(low <= last and high >= first for low, high in floor.kept)


def _cut_horizon(floor: GcHorizon, limit: int, newest: int) -> GcHorizon:
    """A floor that keeps what this one does up to a commit, and none of those that follow it."""
    runs = (*floor.kept, (floor.kept_from, limit))
    kept = tuple((first, min(last, limit)) for first, last in runs if first <= limit)
    return structs.replace(floor, kept_from=newest + 1, kept=kept)


class _MovedError(Exception):
    """Main has moved on in a way that matters: the cut has to be begun anew."""


def take_cut(branches: BranchRegistry, names: Sequence[str] | None = None) -> ConsistentCut:
    """A cut through main and all other branches, or only those of these names and the ones that they were taken from.

    Raises:
        BranchMissingError: There is no branch of such a name.
        ConflictError: Branches are merged and deleted faster than they can be read.
    """
    maker = _CutBuilder(branches.main)
    for _ in range(MAX_ROUNDS):
        try:
            return maker.build(names)
        except _MovedError:
            continue
    raise ConflictError("branches", "to stay for a moment", "others", f"they changed {MAX_ROUNDS} times")


class _CutBuilder:
    """Reads journals, each part of them once however often a cut is begun."""

    def __init__(self, main: ManifestLog) -> None:
        self._main = main
        self._journals: dict[str, _JournalScan] = {}

    def build(self, names: Sequence[str] | None) -> ConsistentCut:
        main = self._main.head()
        chosen = _select_branches(main.snapshot.manifest.live_branches, names)
        live = {record.path for record in chosen.values()} | {MANIFEST}
        heads = {MANIFEST: main}
        needed: dict[str, int] = {}
        tags = {
            name: tag
            for name, tag in main.snapshot.manifest.tags.items()
            if names is None or tag.branch == MAIN or tag.branch in chosen
        }
        waiting: list[JournalNeed] = [
            (MAIN, MANIFEST, 0),
            *((record.name, record.path, 0) for record in chosen.values()),
        ]
        waiting += [(tag.branch, tag.path, tag.seq) for tag in tags.values()]
        while waiting:
            name, path, seq = waiting.pop()
            is_known = needed.get(path, -1) >= seq
            needed[path] = max(needed.get(path, -1), seq)
            if is_known:
                continue
            head = self._read_state(heads.get(path), name, path, seq, is_live=path in live)
            if head is None:
                continue
            heads[path] = head
            limit = head.snapshot.commit.seq if path in live else needed[path]
            waiting += self._find_needs(name, path, head, limit)
        limits = {path: head.snapshot.commit.seq if path in live else needed[path] for path, head in heads.items()}
        floors = {
            path: _cut_horizon(heads[path].snapshot.manifest.gc_horizon, limit, heads[path].snapshot.commit.seq)
            for path, limit in limits.items()
            if limit < heads[path].snapshot.commit.seq
        }
        named = {pin for path, limit in limits.items() for pin in self._journals[path].find_versions(limit)}
        kept = self._find_retained(heads, limits, live | {tag.path for tag in tags.values()})
        kept |= {_to_pinned_version(pin) for path in live for pin in heads[path].snapshot.manifest.dropped.values()}
        present = {_to_pinned_version(pin) for path in live for pin in heads[path].snapshot.pins.values()}
        return ConsistentCut(
            main=main,
            branches=chosen,
            tags=tags,
            heads=heads,
            horizons=floors,
            present=frozenset(present),
            past=frozenset(kept - present),
            collected=len(named - kept - present),
            epoch=max(head.snapshot.manifest.gc_horizon.epoch for head in heads.values()),
            recorded={pin: one for path in limits for pin, one in self._journals[path].recorded.items()},
            lists=self._find_lists(heads),
        )

    def _find_lists(self, heads: Mapping[str, Head]) -> dict[str, set[str]]:
        """Return by table the lists of checksums that pins name, or named before."""
        found: dict[str, set[str]] = {}
        for path, head in heads.items():
            for table, names in self._journals[path].lists.items():
                found.setdefault(table, set()).update(names)
            manifest = head.snapshot.manifest
            for pin in (*manifest.pins.values(), *manifest.dropped.values()):
                found.setdefault(pin.path, set()).update(pin.lists)
        return found

    def _find_retained(
        self, heads: Mapping[str, Head], limits: Mapping[str, int], read: Collection[str]
    ) -> set[PinnedVersion]:
        """The versions that can be read: on the lines of branches and tags, whose journals are `read`.

        A branch that was taken before something was dropped for good still has it, unless it has dropped it too. Of
        journals that were only merged, what all of those have dropped is not needed.
        """
        found, gone = set[PinnedVersion](), list[set[str]]()
        ends = [path for path in read if path in heads]
        has_dropped = any(self._journals[path].purged for path in heads)
        for path in ends:
            found |= self._journals[path].find_retained(limits[path], heads[path].snapshot.manifest.gc_horizon)
            if has_dropped:  # else it reads of others what their own lines do
                inherited, dropped = self._find_inherited(heads, limits, path)
                found |= inherited
                gone.append(dropped)
        hidden = set[str].intersection(*gone) if gone else set[str]()
        for path in heads.keys() - set(ends):
            found |= self._journals[path].find_retained(limits[path], heads[path].snapshot.manifest.gc_horizon, hidden)
        return found

    def _find_inherited(
        self, heads: Mapping[str, Head], limits: Mapping[str, int], path: str
    ) -> tuple[set[PinnedVersion], set[str]]:
        """What a branch can read of the journals that it comes from, and the tables that its line has dropped."""
        found, dropped = set[PinnedVersion](), self._journals[path].find_dropped(limits[path])
        fork = heads[path].snapshot.manifest.fork
        while fork is not None and fork.parent_path in heads:
            parent, head = self._journals[fork.parent_path], heads[fork.parent_path]
            found |= parent.find_retained(fork.seq, head.snapshot.manifest.gc_horizon, dropped)
            dropped |= parent.find_dropped(fork.seq)
            fork = head.snapshot.manifest.fork
        return found, dropped

    def _read_state(self, known: Head | None, name: str, path: str, seq: int, *, is_live: bool) -> Head | None:
        """A state of a manifest with its commits up to `seq`; None when the manifest is gone, as it is for others."""
        if known is not None and known.snapshot.commit.seq >= seq:
            return known
        if path == MANIFEST:
            raise _MovedError  # its register may have changed too
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
        """What the commits of a journal up to number `limit` refer to in others."""
        journal = self._journals.setdefault(path, _JournalScan())
        fork = head.snapshot.manifest.fork
        own_from = -1 if fork is None else fork.seq
        log = self._main if path == MANIFEST else self._main.open_other(name, path)
        known = max(journal.read_to, own_from)
        for commit in log.iter_history(head):
            if commit.seq <= known:
                break
            journal.note(commit)
        journal.read_to = max(journal.read_to, head.snapshot.commit.seq)
        needs = [need for need, seq in journal.needs.items() if seq <= limit]
        return needs if fork is None else [*needs, (fork.parent_branch, fork.parent_path, fork.seq)]


def _select_branches(live: Mapping[str, BranchRecord], names: Sequence[str] | None) -> dict[str, BranchRecord]:
    """The branches of these names, and those that they were taken from."""
    if names is None:
        return dict(sorted(live.items()))
    chosen: dict[str, BranchRecord] = {}
    for name in names:
        wanted = name
        while wanted != MAIN and wanted not in chosen:
            if wanted not in live:
                raise BranchMissingError(wanted, (MAIN, *sorted(live)))
            chosen[wanted] = live[wanted]
            wanted = live[wanted].parent_branch
    return dict(sorted(chosen.items()))


def _to_pinned_version(pin: Pin) -> PinnedVersion:
    return PinnedVersion(pin.path, pin.version)
