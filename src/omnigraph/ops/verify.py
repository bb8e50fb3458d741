"""Verify a branch: its history by the digest chain of commits, its pins by the history, its files by the pins.

With a digest of the head that was written down elsewhere, this proves that nothing has changed since. Without one it
only proves that nothing was damaged: it can't detect an author who has recomputed all digests.
"""

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from omnigraph.commit.branch_errors import BranchMissingError
from omnigraph.commit.digest_chain import AlteredCommit, DigestChain, HeadPins, SchemaRecords
from omnigraph.commit.digests import begins_chain
from omnigraph.commit.manifest_check import inspect_manifest, iter_own_commits
from omnigraph.commit.manifest_codec import ManifestCorruptError
from omnigraph.commit.manifest_log import Head, expect_pins
from omnigraph.commit.manifest_types import MAIN, Commit, MergedFrom
from omnigraph.errors import BadArgumentError, Kind, MissingError, OmnigraphError, variant
from omnigraph.json_struct import JsonStruct
from omnigraph.lang.spelling import find_closest
from omnigraph.ops.check import MAX_PASSES, CheckProgress, open_fresh_session
from omnigraph.ops.check_files import Thoroughness, check_files, find_pinned_versions, list_tables
from omnigraph.ops.check_findings import FindingSeverity
from omnigraph.ops.check_manifests import BranchState, HistoryFold, refuse_no_graph
from omnigraph.ops.session import Session
from omnigraph.policy import Action
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.layout import MANIFEST

# 256 bits in URL-safe base64 without padding.
_DIGEST = re.compile(r"[A-Za-z0-9_-]{43}")


class VerificationError(OmnigraphError):
    """A branch is not what its commits made: a commit, a file or the whole history was changed.

    Its code decides which of these attributes it has besides `branch`.
    """

    kind = Kind.CORRUPT
    branch: str
    commit_id: str
    digest: str
    head: str | None
    place: str
    reason: str
    count: int

    @variant
    def commit_altered(self, commit_id: str, branch: str, reason: str) -> str:
        """Report that a commit does not match its digest, or the head contradicts its history."""
        return f"commit {commit_id} of `{branch}` was altered: {reason}; run `omnigraph check`"

    @variant
    def digest_unknown(self, digest: str, branch: str, head: str | None) -> str:
        """Report that no commit of a branch's history has the digest that was written down."""
        now = "has no digests" if head is None else f"ends with {head}"
        return (
            f"the history of `{branch}` does not contain the digest {digest}, and {now}: it is another graph"
            " or branch, or its history was changed since the digest was written down"
        )

    @variant
    def files_damaged(self, branch: str, place: str, reason: str, count: int) -> str:
        """Report that files of a branch's current state are missing or differ from those that its commits made."""
        more = f", and {count - 1} more" if count > 1 else ""
        return f"{reason} ({place}{more}); `omnigraph check --branch {branch}` shows what can be done"


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyCall:
    """The arguments of a verification."""

    branch: str = MAIN
    digest: str | None = None
    """A digest that the history must contain."""
    progress: Callable[[CheckProgress], None] | None = None


class VerifyResult(JsonStruct, frozen=True, kw_only=True):
    """The verified part of a branch's history."""

    uri: str
    branch: str
    commit_id: str
    digest: str
    """The digest of the newest commit: write it down to prove later that nothing has changed."""
    commits: int
    """The number of commits that match their digests."""
    first_commit_id: str
    """The oldest of them."""
    is_from_start: bool
    """Whether the chain begins with it; else older commits can no longer be read."""
    merges: int
    """The number of merged commits whose digest in their own journal is the one that the merge recorded."""
    merges_gone: int
    """The number of merged commits that no journal has any longer; the digest of the merge covers their changes."""
    unproven: tuple[str, ...]
    """Tables that no readable commit has changed."""
    versions: int
    """The number of table versions in the current state; all their files were verified."""
    found_commit_id: str | None
    """The commit with the requested digest."""
    commits_since: int | None
    """The number of commits after it."""


def verify(session: Session, call: VerifyCall) -> VerifyResult:
    """Verify the current state of a branch, back to where its digests begin. Nothing is changed.

    Raises:
        BadArgumentError: The argument is no digest.
        BranchMissingError: There is no such branch.
        VerificationError: A commit does not match its digest, or a pin its commit; no commit of the history has the
            requested digest; or a file that the branch needs is missing or damaged.
        MissingError: The history has no digests.
        ManifestCorruptError: A manifest or a journal can't be read.
    """
    session.allow(Action.MAINTAIN, call.branch)
    if call.digest is not None and _DIGEST.fullmatch(call.digest) is None:
        raise BadArgumentError("digest", repr(call.digest), "a digest has 43 letters, digits, `-` and `_`")
    passes_left = MAX_PASSES
    while True:
        passes_left -= 1
        fresh = open_fresh_session(session)
        head = _find_head(fresh, call.branch)
        try:
            return _Proof(fresh, call, head).run()
        except OmnigraphError as error:
            # If the branch has moved on, a cleanup may have removed files of the state that was verified: try again.
            if error.kind is not Kind.CORRUPT or not passes_left or head.table.is_newest():
                raise


def _find_head(session: Session, branch: str) -> Head:
    """Read the newest state of a branch, also of a graph that is too damaged to be opened."""
    if inspect_manifest(session.store, MAIN, MANIFEST).newest == 0:
        refuse_no_graph(session)
    main = _read_head(session.store, MAIN, MANIFEST)
    if branch == MAIN:
        return main
    branches = main.snapshot.manifest.live_branches
    if branch not in branches:
        names = (MAIN, *sorted(branches))
        raise BranchMissingError(branch, names, find_closest(branch, names))
    return _read_head(session.store, branch, branches[branch].path)


def _read_head(store: GraphStorage, branch: str, path: str) -> Head:
    """Read the newest state of a manifest, without any cache.

    Raises:
        ManifestCorruptError: It can't be read.
    """
    inspection = inspect_manifest(store, branch, path)
    if inspection.head is None or inspection.fault is not None:
        reason = "there is none" if inspection.fault is None else inspection.fault.reason
        raise ManifestCorruptError(f"version {inspection.newest} of that of `{branch}` can't be used: {reason}")
    return inspection.head


def _find_digests(store: GraphStorage, head: Head, seqs: Collection[int]) -> dict[int, tuple[str, str | None]]:
    """Return the ids and digests of those commits of a journal, by their numbers, that it has."""
    digests: dict[int, tuple[str, str | None]] = {}
    for commit in iter_own_commits(head, store):
        if commit.seq in seqs:
            digests[commit.seq] = (commit.id, commit.digest)
        # Newest first: no older commit is requested.
        if commit.seq <= min(seqs):
            break
    return digests


class _Proof:
    """The verification of one state: a walk through its history, and a check of its files."""

    def __init__(self, session: Session, call: VerifyCall, head: Head) -> None:
        self._session = session
        self._call = call
        self._head = head
        manifest = head.snapshot.manifest
        self._schemas = SchemaRecords()
        self._chain = DigestChain(manifest, self._schemas)
        self._fold = HistoryFold(manifest)
        self._pins = HeadPins(manifest)
        # The merges that record the digest of the merged commit, by the path of that commit's journal.
        self._merges: dict[str, list[tuple[Commit, MergedFrom]]] = {}
        self._digest_commit: Commit | None = None

    def run(self) -> VerifyResult:
        digest = self._head.snapshot.commit.digest
        self._walk()
        # A caller that names a digest expects digests: their absence then means another history.
        if digest is None and self._call.digest is None:
            raise MissingError.history_unrecorded(self._call.branch)
        if digest is None or (self._call.digest is not None and self._digest_commit is None):
            raise VerificationError.digest_unknown(self._call.digest or "", self._call.branch, digest)
        present, missing = self._check_merges()
        versions = self._check_files()
        return self._build_result(digest, present, missing, versions)

    def _walk(self) -> None:
        """Check every commit from the head back to where the chain begins, each against its digest."""
        self._report_progress("history", 0, 1)
        contradictions: list[AlteredCommit] = []
        for commit in self._iter_commits():
            self._session.check_cancelled()
            self._refuse(self._chain.add(commit))
            if self._chain.is_ended:
                break
            contradictions += self._pins.add(commit)
            self._fold.undo(commit)
            if commit.digest is not None and commit.digest == self._call.digest:
                self._digest_commit = commit
            if commit.merged_from is not None and commit.merged_from.digest is not None:
                self._merges.setdefault(commit.merged_from.path, []).append((commit, commit.merged_from))
        # An altered commit makes later ones seem contradictory, so it is reported first.
        self._refuse([*self._chain.finish(), *contradictions])
        self._fold.finish()

    def _iter_commits(self) -> Iterator[Commit]:
        """Yield the commits of all journals that the history runs through, newest first, each once."""
        head = self._head
        last: Commit | None = None
        while True:
            copy = last
            for commit in iter_own_commits(head, self._session.store, self._schemas.add):
                # The parent continued after the branch was forked from it.
                if copy is not None and commit.seq > copy.seq:
                    continue
                # Both journals have the commit at the fork.
                if copy is not None and commit.seq == copy.seq:
                    self._refuse_copy(commit, copy)
                    continue
                last = commit
                yield commit
            fork = head.snapshot.manifest.fork
            # A journal that ends before it reaches the fork was cut: older commits can't be read.
            if fork is None or last is None or last.seq > fork.seq:
                return
            head = _read_head(self._session.store, fork.parent_branch, fork.parent_path)

    def _refuse_copy(self, commit: Commit, copy: Commit) -> None:
        if commit != copy:
            reason = "the branch has another copy of it than the journal in which it was made"
            self._refuse([AlteredCommit(copy, reason)])

    def _refuse(self, altered: list[AlteredCommit]) -> None:
        if altered:
            raise VerificationError.commit_altered(altered[0].commit.id, self._call.branch, altered[0].reason)

    def _check_merges(self) -> tuple[int, int]:
        """Compare merged commits with their own journals; return how many of them still exist, and how many don't."""
        present = missing = 0
        for path, merges in sorted(self._merges.items()):
            inspection = inspect_manifest(self._session.store, path, path)
            digests = {}
            if inspection.head is not None:
                seqs = {source.seq for _, source in merges}
                digests = _find_digests(self._session.store, inspection.head, seqs)
            for merge, source in merges:
                stored = digests.get(source.seq)
                if stored is not None and stored != (merge.merged_parent, source.digest):
                    reason = f"the commit {merge.merged_parent} that it merged has another digest in its own branch"
                    self._refuse([AlteredCommit(merge, reason)])
                present += stored is not None
                missing += stored is None
        return present, missing

    def _check_files(self) -> int:
        """Compare every file of the current state with its checksum; return the number of table versions."""
        state = BranchState(name=self._call.branch, head=self._head, is_newest=True)
        pinned = find_pinned_versions([state])
        expect_pins(self._session.store, self._head.snapshot.pins.values())
        files = check_files(
            self._session,
            list_tables(self._session),
            pinned,
            thoroughness=Thoroughness.DEEP,
            watch=lambda key, *share: self._report_progress(f"files of {key}", *share),
        )
        errors = [finding for finding in files.findings if finding.severity is FindingSeverity.ERROR]
        if errors:
            raise VerificationError.files_damaged(self._call.branch, errors[0].place, errors[0].message, len(errors))
        return len(pinned)

    def _report_progress(self, phase: str, done: int, total: int) -> None:
        self._session.check_cancelled()
        if self._call.progress is not None:
            self._call.progress(CheckProgress(phase=phase, done=done, total=total))

    def _build_result(self, digest: str, present: int, missing: int, versions: int) -> VerifyResult:
        head = self._head.snapshot.commit
        first = head if self._chain.first is None else self._chain.first
        requested = self._digest_commit
        return VerifyResult(
            uri=self._session.uri,
            branch=self._call.branch,
            commit_id=head.id,
            digest=digest,
            commits=self._chain.proven,
            first_commit_id=first.id,
            is_from_start=begins_chain(first),
            merges=present,
            merges_gone=missing,
            unproven=self._pins.find_unproven(),
            versions=versions,
            found_commit_id=None if requested is None else requested.id,
            commits_since=None if requested is None else head.seq - requested.seq,
        )
