"""Prove the state of a branch: its history by the digests of commits, its pins by the history, its files by its pins.

What is proved is that nothing has changed since the digest of the head was written down. Within the graph alone it is
proved that nothing was damaged: an author who recomputes all digests is found by one that is kept elsewhere.
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
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.lang.spelling import find_closest
from omnigraph.ops.argument_checks import BadArgumentError
from omnigraph.ops.check import MAX_PASSES, CheckProgress, open_fresh_session
from omnigraph.ops.check_files import Thoroughness, check_files, find_pinned_versions, list_tables
from omnigraph.ops.check_findings import FindingSeverity
from omnigraph.ops.check_manifests import BranchState, HistoryFold, refuse_no_graph
from omnigraph.ops.session import Session
from omnigraph.policy import Action
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.layout import MANIFEST

_DIGEST = re.compile(r"[A-Za-z0-9_-]{43}")


class CommitAlteredError(OmnigraphError):
    """A commit does not match its digest, or the head shows something else than its history says."""

    kind = Kind.CORRUPT
    code = "commit_altered"

    def __init__(self, commit_id: str, branch: str, reason: str) -> None:
        super().__init__(commit_id, branch, reason)
        self.commit_id, self.branch, self.reason = commit_id, branch, reason

    def __str__(self) -> str:
        return f"commit {self.commit_id} of `{self.branch}` was altered: {self.reason}; run `omnigraph check`"


class DigestUnknownError(OmnigraphError):
    """No commit of a branch's history has the digest that was written down."""

    kind = Kind.CORRUPT
    code = "digest_unknown"

    def __init__(self, digest: str, branch: str, head: str | None) -> None:
        super().__init__(digest, branch, head)
        self.digest, self.branch, self.head = digest, branch, head

    def __str__(self) -> str:
        now = "has no digests" if self.head is None else f"ends with {self.head}"
        return (
            f"the history of `{self.branch}` does not contain the digest {self.digest}, and {now}: it is another graph"
            " or branch, or its history was changed since the digest was written down"
        )


class FilesDamagedError(OmnigraphError):
    """Files of the state that a branch shows are not those that its commits made."""

    kind = Kind.CORRUPT
    code = "files_damaged"

    def __init__(self, branch: str, place: str, reason: str, count: int) -> None:
        super().__init__(branch, place, reason, count)
        self.branch, self.place, self.reason, self.count = branch, place, reason, count

    def __str__(self) -> str:
        more = f", and {self.count - 1} more" if self.count > 1 else ""
        return f"{self.reason} ({self.place}{more}); `omnigraph check --branch {self.branch}` tells what can be done"


class HistoryUnrecordedError(OmnigraphError):
    """The history of a branch has no digests: an older release has made it."""

    kind = Kind.NOT_FOUND
    code = "history_unrecorded"

    def __init__(self, branch: str) -> None:
        super().__init__(branch)
        self.branch = branch

    def __str__(self) -> str:
        return (
            f"the commits of `{self.branch}` have no digests, since an older release began it: nothing can be proved."
            " `omnigraph check --record` makes one commit that records what is there, and digests begin with it"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyCall:
    """What to prove."""

    branch: str = MAIN
    digest: str | None = None
    """Which the history must contain."""
    progress: Callable[[CheckProgress], None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyResult:
    """What was proved of a branch."""

    uri: str
    branch: str
    commit_id: str
    digest: str
    """The digest of the newest commit: write it down to prove later that nothing has changed."""
    commits: int
    """How many commits match their digests."""
    first_commit_id: str
    """The oldest of them."""
    is_from_start: bool
    """Whether the chain begins with it; else older commits can't be read any more."""
    merges: int
    """How many merged commits have the digest in their own journal that the merge has recorded."""
    merges_gone: int
    """How many are in no journal any more; that of the merge covers what they brought."""
    unproven: tuple[str, ...]
    """Tables that no commit which can be read has changed."""
    versions: int
    """How many versions of tables the branch shows; all their files were looked at."""
    found_commit_id: str | None
    """The commit that has the digest which was asked for."""
    commits_since: int | None
    """How many commits came after it."""

    def to_json(self) -> dict[str, object]:
        """Return what every door shows."""
        return {
            "uri": self.uri,
            "branch": self.branch,
            "commit_id": self.commit_id,
            "digest": self.digest,
            "commits": self.commits,
            "first_commit_id": self.first_commit_id,
            "is_from_start": self.is_from_start,
            "merges": self.merges,
            "merges_gone": self.merges_gone,
            "unproven": list(self.unproven),
            "versions": self.versions,
            "found_commit_id": self.found_commit_id,
            "commits_since": self.commits_since,
        }


def verify(session: Session, call: VerifyCall) -> VerifyResult:
    """Prove what a branch shows, back to where its digests begin. Nothing is changed.

    What was found while the branch moved on is looked for again: a cleanup may have taken files of the state before.

    Raises:
        BadArgumentError: What was given is no digest.
        BranchMissingError: There is no such branch.
        CommitAlteredError: A commit does not match its digest, or a pin not its commit.
        DigestUnknownError: No commit of the history has the digest that was given.
        FilesDamagedError: A file that the branch needs is gone or damaged.
        HistoryUnrecordedError: The history has no digests.
        ManifestCorruptError: A manifest or a journal can't be read.
    """
    session.allow(Action.MAINTAIN, call.branch)
    if call.digest is not None and _DIGEST.fullmatch(call.digest) is None:
        raise BadArgumentError("digest", repr(call.digest), "a digest has 43 letters, digits, `-` and `_`")
    looks = MAX_PASSES
    while True:
        looks -= 1
        fresh = open_fresh_session(session)
        head = _find_head(fresh, call.branch)
        try:
            return _Proof(fresh, call, head).run()
        except OmnigraphError as error:
            if error.kind is not Kind.CORRUPT or not looks or head.table.is_newest():
                raise


def _find_head(session: Session, branch: str) -> Head:
    """Read the newest state of a branch; of a graph that is too damaged to be opened, what can be read of it counts."""
    if inspect_manifest(session.store, MAIN, MANIFEST).newest == 0:
        refuse_no_graph(session)
    main = _read_head(session.store, MAIN, MANIFEST)
    if branch == MAIN:
        return main
    register = main.snapshot.manifest.live_branches
    if branch not in register:
        known = (MAIN, *sorted(register))
        raise BranchMissingError(branch, known, find_closest(branch, known))
    return _read_head(session.store, branch, register[branch].path)


def _read_head(store: GraphStorage, branch: str, path: str) -> Head:
    """Read the newest state of a manifest, trusting nothing that is cached.

    Raises:
        ManifestCorruptError: It can't be read.
    """
    look = inspect_manifest(store, branch, path)
    if look.head is None or look.fault is not None:
        reason = "there is none" if look.fault is None else look.fault.reason
        raise ManifestCorruptError(f"version {look.newest} of that of `{branch}` can't be used: {reason}")
    return look.head


def _find_digests(store: GraphStorage, head: Head, wanted: Collection[int]) -> dict[int, tuple[str, str | None]]:
    """Return the ids and digests of some commits of a journal, by their numbers; what it does not have is left out."""
    found: dict[int, tuple[str, str | None]] = {}
    for commit in iter_own_commits(head, store):
        if commit.seq in wanted:
            found[commit.seq] = (commit.id, commit.digest)
        if commit.seq <= min(wanted):
            break
    return found


class _Proof:
    """One walk through the history of a state, and one look at its files."""

    def __init__(self, session: Session, call: VerifyCall, head: Head) -> None:
        self._session, self._call, self._head = session, call, head
        manifest = head.snapshot.manifest
        self._schemas = SchemaRecords()
        self._chain = DigestChain(manifest, self._schemas)
        self._fold = HistoryFold(manifest)
        self._pins = HeadPins(manifest)
        self._merges: dict[str, list[tuple[Commit, MergedFrom]]] = {}
        """By the journal of what they merged, the merges that say which digest that has."""
        self._digest_commit: Commit | None = None

    def run(self) -> VerifyResult:
        digest = self._head.snapshot.commit.digest
        self._walk()
        if digest is None and self._call.digest is None:
            raise HistoryUnrecordedError(self._call.branch)
        if digest is None or (self._call.digest is not None and self._digest_commit is None):
            raise DigestUnknownError(self._call.digest or "", self._call.branch, digest)
        present, gone = self._check_merges()
        versions = self._check_files()
        return self._build_result(digest, present, gone, versions)

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
        # A row that was altered explains why what follows it seems to contradict others, so it is named first.
        self._refuse([*self._chain.finish(), *contradictions])
        self._fold.finish()

    def _iter_commits(self) -> Iterator[Commit]:
        """Read the journals that the history goes through, newest commit first, each commit once."""
        head = self._head
        last: Commit | None = None
        while True:
            copy = last
            for commit in iter_own_commits(head, self._session.store, self._schemas.add):
                if copy is not None and commit.seq > copy.seq:
                    continue  # the parent went on after the branch was taken from it
                if copy is not None and commit.seq == copy.seq:
                    self._refuse_copy(commit, copy)
                    continue
                last = commit
                yield commit
            fork = head.snapshot.manifest.fork
            if fork is None or last is None or last.seq > fork.seq:
                return
            head = _read_head(self._session.store, fork.parent_branch, fork.parent_path)

    def _refuse_copy(self, commit: Commit, copy: Commit) -> None:
        if commit != copy:
            reason = "the branch has another copy of it than the journal in which it was made"
            self._refuse([AlteredCommit(copy, reason)])

    def _refuse(self, altered: list[AlteredCommit]) -> None:
        for one in altered:
            raise CommitAlteredError(one.commit.id, self._call.branch, one.reason)

    def _check_merges(self) -> tuple[int, int]:
        """Compare merged commits with the journals of their branches; return how many are there, and how many not."""
        present = gone = 0
        for path, merges in sorted(self._merges.items()):
            look = inspect_manifest(self._session.store, path, path)
            digests = {}
            if look.head is not None:
                digests = _find_digests(self._session.store, look.head, {place.seq for _, place in merges})
            for merge, place in merges:
                there = digests.get(place.seq)
                if there is not None and there != (merge.merged_parent, place.digest):
                    reason = f"the commit {merge.merged_parent} that it merged has another digest in its own branch"
                    self._refuse([AlteredCommit(merge, reason)])
                present += there is not None
                gone += there is None
        return present, gone

    def _check_files(self) -> int:
        """Compare every file that the head shows with its checksum; return how many versions of tables it shows."""
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
        errors = [one for one in files.findings if one.severity is FindingSeverity.ERROR]
        if errors:
            raise FilesDamagedError(self._call.branch, errors[0].place, errors[0].message, len(errors))
        return len(pinned)

    def _report_progress(self, phase: str, done: int, total: int) -> None:
        self._session.check_cancelled()
        if self._call.progress is not None:
            self._call.progress(CheckProgress(phase=phase, done=done, total=total))

    def _build_result(self, digest: str, present: int, gone: int, versions: int) -> VerifyResult:
        head, first, found = self._head.snapshot.commit, self._chain.first, self._digest_commit
        first = head if first is None else first
        return VerifyResult(
            uri=self._session.uri,
            branch=self._call.branch,
            commit_id=head.id,
            digest=digest,
            commits=self._chain.proven,
            first_commit_id=first.id,
            is_from_start=begins_chain(first),
            merges=present,
            merges_gone=gone,
            unproven=self._pins.find_unproven(),
            versions=versions,
            found_commit_id=None if found is None else found.id,
            commits_since=None if found is None else head.seq - found.seq,
        )
