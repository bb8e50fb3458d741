"""Detect the loss of a manifest's newest versions by references to its commits from other objects.

A lost version leaves no trace in the manifest itself, except for the hint of a local disk. But tags, branches created
from a commit, merges of it and operations based on it name the commit and its number. Commits are never taken back,
so a journal that lacks such a commit has lost it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from omnigraph.commit.manifest_check import inspect_manifest, iter_own_commits
from omnigraph.commit.manifest_codec import ManifestCorruptError
from omnigraph.commit.manifest_repair import OPERATION
from omnigraph.commit.manifest_types import Commit, Manifest
from omnigraph.commit.sidecar import CloneOrigin, Sidecar
from omnigraph.errors import CorruptError
from omnigraph.storage.cas_table_errors import DamagedError
from omnigraph.storage.graph_storage import GraphStorage


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitReference:
    """A reference to a commit from another object."""

    branch: str
    path: str
    """The manifest whose journal should have the commit."""
    seq: int
    """The number of the commit in that journal."""
    commit_id: str | None
    """None if only the number is named."""
    since: str
    """An id that was created no later than the time at which the commit was the newest one: ids grow with time."""
    witness: str
    """The object that names it, for messages."""

    def __str__(self) -> str:
        commit = f"number {self.seq}" if self.commit_id is None else f"{self.commit_id}, number {self.seq}"
        return f"{self.witness} names commit {commit}, which is missing"


def find_references(manifest: Manifest, name: str | None = None) -> Iterator[CommitReference]:
    """Find the commits that a manifest itself names: the one its branch was created from, and those of its tags.

    `name` is how messages call the manifest, if not by its branch.
    """
    fork = manifest.fork
    if fork is not None:
        yield CommitReference(
            branch=fork.parent_branch,
            path=fork.parent_path,
            seq=fork.seq,
            commit_id=fork.commit_id,
            since=fork.commit_id,
            witness=name or f"the branch `{fork.branch}`, which was created from it,",
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
    """Find the commits that operations in progress are based on."""
    for sidecar in sidecars:
        # A clone is based on a commit of another graph.
        if not isinstance(sidecar.origin, CloneOrigin):
            yield CommitReference(
                branch=sidecar.branch,
                path=sidecar.manifest_path,
                seq=sidecar.base_seq,
                commit_id=None,
                since=sidecar.id,
                witness=f"the operation {sidecar.id}, which is based on it,",
            )


def refuse_lost(lost: Iterable[CommitReference]) -> None:
    """Check that there is no reference to a lost commit.

    Raises:
        CorruptError: There is one.
    """
    for reference in lost:
        raise CorruptError.manifest_rolled_back(reference.branch, reference.path, reference.seq, str(reference))


JournalReaders = Mapping[str, Callable[[], Iterable[Commit]]]
"""Functions that read the commits of a manifest's own journal, newest first, by the manifest's path."""


def find_lost(
    store: GraphStorage, references: Iterable[CommitReference], journals: JournalReaders
) -> list[CommitReference]:
    """Find references to commits that these journals should have and lack; at most one per journal."""
    by_path: dict[str, list[CommitReference]] = {}
    for reference in references:
        if reference.path in journals:
            by_path.setdefault(reference.path, []).append(reference)
    lost: list[CommitReference] = []
    for path, journal_references in by_path.items():
        suspects = _find_lost_in(journals[path](), journal_references)
        if suspects:
            # The reference may be newer than the state of the journal that was read. The journal is therefore read
            # once more: by now it has every commit that was named before.
            lost += _find_lost_in(_read_journal(store, suspects[0]), suspects)[:1]
    return lost


def _read_journal(store: GraphStorage, reference: CommitReference) -> Iterator[Commit]:
    """Read the commits of the journal that a reference names; none if it is damaged, which is a different fault."""
    inspection = inspect_manifest(store, reference.branch, reference.path)
    if inspection.head is None or inspection.fault is not None:
        return iter(())
    return iter_own_commits(inspection.head, store)


def _find_lost_in(journal: Iterable[Commit], references: Iterable[CommitReference]) -> list[CommitReference]:
    """Find the references whose commits a journal lacks, newest commit first, unless a repair has accepted the loss.

    References to commits older than the oldest readable one are left out: nothing is known about those.
    """
    waiting = sorted(references, key=lambda reference: reference.seq)
    lost: list[CommitReference] = []
    repairs: list[Commit] = []
    try:
        for commit in journal:
            if commit.operation == OPERATION and not commit.changes:
                repairs.append(commit)
            while waiting and waiting[-1].seq >= commit.seq:
                reference = waiting.pop()
                if reference.seq > commit.seq or reference.commit_id not in (None, commit.id):
                    lost.append(reference)
            # A repair older than the reference can't have accepted its loss, so no older commit needs to be read.
            if not waiting and all(commit.id <= reference.since for reference in lost):
                break
    except (DamagedError, ManifestCorruptError):
        return []  # damage is reported by the checks that read the whole history

    def is_accepted(reference: CommitReference) -> bool:
        # A repair that accepted the loss is younger than the lost commit, and its own number is not higher.
        return any(repair.id > reference.since and repair.seq <= reference.seq for repair in repairs)

    return [reference for reference in lost if not is_accepted(reference)]
