"""What other objects know of a manifest's commits: by that the loss of its newest versions is noticed.

A version that is gone takes with it all that would tell of it, but for the hint of a local disk. Yet tags, branches
that were taken from a commit, merges of it and operations that stand on it name a commit and its number. Commits are
never taken back, so a journal that does not have such a commit has lost it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from omnigraph.commit.manifest_check import inspect_manifest, iter_own_commits
from omnigraph.commit.manifest_codec import ManifestCorruptError
from omnigraph.commit.manifest_repair import OPERATION
from omnigraph.commit.manifest_types import Commit, Manifest
from omnigraph.commit.sidecar import CloneOrigin, Sidecar
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.storage.cas_table_errors import DamagedError
from omnigraph.storage.graph_storage import GraphStorage


class ManifestRolledBackError(OmnigraphError):
    """A manifest has lost its newest versions, with acknowledged commits: something else still names one of them."""

    kind = Kind.CORRUPT
    code = "manifest_rolled_back"

    def __init__(self, branch: str, path: str, seq: int, reason: str) -> None:
        super().__init__(branch, path, seq, reason)
        self.branch, self.path = branch, path
        self.seq, self.reason = seq, reason

    def __str__(self) -> str:
        return (
            f"the manifest of `{self.branch}` has lost its newest versions: {self.reason}. Nothing was changed: put the"
            f" versions below `{self.path}` back from a backup; or run `omnigraph repair`, which by force accepts the"
            " loss"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitReference:
    """A commit that something names."""

    branch: str
    path: str
    """The manifest whose journal has it,"""
    seq: int
    """and its number there."""
    commit_id: str | None
    """None where only the number is named."""
    since: str
    """An id that was made when the commit was the newest one, or before that: ids grow with time."""
    witness: str
    """What names it, for messages."""

    def __str__(self) -> str:
        named = f"number {self.seq}" if self.commit_id is None else f"{self.commit_id}, number {self.seq}"
        return f"{self.witness} names commit {named}, which is not there"


def find_references(manifest: Manifest, name: str | None = None) -> Iterator[CommitReference]:
    """Find what a manifest itself names: the commit that its branch was taken from, and those of its tags.

    `name` is what messages call it, where that is not its branch.
    """
    fork = manifest.fork
    if fork is not None:
        yield CommitReference(
            branch=fork.parent_branch,
            path=fork.parent_path,
            seq=fork.seq,
            commit_id=fork.commit_id,
            since=fork.commit_id,
            witness=name or f"the branch `{fork.branch}`, which was taken from it,",
        )
    for tag in manifest.tags.values():
        yield CommitReference(
            branch=tag.branch,
            path=tag.path,
            seq=tag.seq,
            commit_id=tag.commit_id,
            since=tag.commit_id,
            witness=f"the tag `{tag.name}`",
        )


def find_merge_references(commits: Iterable[Commit]) -> Iterator[CommitReference]:
    """Find the commits of other branches that these have merged."""
    for commit in commits:
        merged = commit.merged_from
        if merged is not None and commit.merged_parent is not None:
            yield CommitReference(
                branch=merged.branch,
                path=merged.path,
                seq=merged.seq,
                commit_id=commit.merged_parent,
                since=commit.merged_parent,
                witness=f"the merge {commit.id} of `{commit.branch}`",
            )


def find_operation_references(sidecars: Iterable[Sidecar]) -> Iterator[CommitReference]:
    """Find the commits that operations stand on. A clone stands on those of another graph."""
    for sidecar in sidecars:
        if not isinstance(sidecar.origin, CloneOrigin):
            yield CommitReference(
                branch=sidecar.branch,
                path=sidecar.manifest_path,
                seq=sidecar.base_seq,
                commit_id=None,
                since=sidecar.id,
                witness=f"the operation {sidecar.id}, which stands on it,",
            )


def refuse_lost(lost: Iterable[CommitReference]) -> None:
    """Check that nothing is lost.

    Raises:
        ManifestRolledBackError: Something is.
    """
    for mark in lost:
        raise ManifestRolledBackError(mark.branch, mark.path, mark.seq, str(mark))


JournalReaders = Mapping[str, Callable[[], Iterable[Commit]]]
"""By the path of a manifest, its own commits, newest first."""


def find_lost(store: GraphStorage, marks: Iterable[CommitReference], journals: JournalReaders) -> list[CommitReference]:
    """Find the marks whose commits are not where they should be, in those journals that are given; one for each.

    What names a commit may have been made after the journal was read. So a journal that seems to lack one is read once
    more: by now it has every commit that anything named before.
    """
    by_path: dict[str, list[CommitReference]] = {}
    for mark in marks:
        if mark.path in journals:
            by_path.setdefault(mark.path, []).append(mark)
    lost: list[CommitReference] = []
    for path, named in by_path.items():
        suspects = _find_lost_in(journals[path](), named)
        if suspects:
            lost += _find_lost_in(_read_journal(store, suspects[0]), suspects)[:1]
    return lost


def _read_journal(store: GraphStorage, mark: CommitReference) -> Iterator[Commit]:
    """Read the commits of a journal anew; none of one that is damaged, which is another fault."""
    look = inspect_manifest(store, mark.branch, mark.path)
    return iter(()) if look.head is None or look.fault is not None else iter_own_commits(look.head, store)


def _find_lost_in(journal: Iterable[Commit], marks: Iterable[CommitReference]) -> list[CommitReference]:
    """Find the marks whose commits a journal lacks, that of the newest commit first, unless a repair has accepted that.

    A repair is younger than what was lost before it, and its own number is not higher. Of what a journal does not reach
    back to, because its beginning was lost, nothing is known.
    """
    waiting = sorted(marks, key=lambda mark: mark.seq)
    lost: list[CommitReference] = []
    repairs: list[Commit] = []
    try:
        for commit in journal:
            if commit.operation == OPERATION and not commit.changes:
                repairs.append(commit)
            while waiting and waiting[-1].seq >= commit.seq:
                mark = waiting.pop()
                if mark.seq > commit.seq or mark.commit_id not in (None, commit.id):
                    lost.append(mark)
            if not waiting and all(commit.id <= mark.since for mark in lost):
                break
    except (DamagedError, ManifestCorruptError):
        return []  # a history that can't be read is reported by who reads all of it
    return [mark for mark in lost if not any(one.id > mark.since and one.seq <= mark.seq for one in repairs)]
