"""Verify a graph: manifests, files, rows, indexes, operations. Changes nothing, and trusts nothing that is cached.

A graph that can't even be opened is told about too: whatever is wrong becomes a finding, with a way out. What stays an
error is a store that does not answer, because then nothing is known.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from omnigraph.commit.manifest_log import ManifestLog, expect_pins
from omnigraph.commit.manifest_types import MAIN
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.ops.argument_checks import BadArgumentError
from omnigraph.ops.check_files import (
    BranchPinnedVersion,
    FileCheckResult,
    Thoroughness,
    check_files,
    find_pinned_versions,
    list_tables,
)
from omnigraph.ops.check_findings import Finding, FindingSeverity, sort_findings
from omnigraph.ops.check_manifests import ManifestCheckResult, check_manifests
from omnigraph.ops.check_operations import check_operations
from omnigraph.ops.check_retained import (
    RetainedFiles,
    RetainedStates,
    VerifiedFiles,
    check_history_files,
    check_unused,
    find_damaged_lists,
    inspect_retained_versions,
    read_retained_states,
    verify_files,
)
from omnigraph.ops.check_rows import RowChecker, RowCheckResult
from omnigraph.ops.commit_signature import check_signature
from omnigraph.ops.record_checksums import record_checksums
from omnigraph.ops.session import Session
from omnigraph.policy import Action
from omnigraph.storage.cas_table_errors import DamagedError
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.integrity_check import TableListing, translate_damage
from omnigraph.storage.layout import BRANCHES
from omnigraph.storage.object_store import StoreUnavailableError
from omnigraph.storage.table_cache import TableCache

MAX_PASSES = 3
"""How often a graph is looked at that moves on while errors are found in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckProgress:
    """What is being looked at, how much of it is done, and how many rows were read so far."""

    phase: str
    done: int
    total: int
    rows: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckCall:
    """What to check."""

    branch: str | None = None
    """Only this branch; None: all, and what belongs to none."""
    is_quick: bool = False
    """Only manifests and files; no row is read."""
    is_deep: bool = False
    """Every byte of every file that a kept commit names, and every column of every row."""
    is_record: bool = False
    """Record checksums of files that have none, if a deep check finds no error."""
    actor: str = "anonymous"
    message: str | None = None
    progress: Callable[[CheckProgress], None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """All findings, the worst first, and how much was looked at."""

    uri: str
    branches: tuple[str, ...]
    findings: tuple[Finding, ...]
    commits: int
    """How many commits the histories have."""
    versions: int
    """How many versions of tables the branches show."""
    files: int
    nbytes: int
    rows_read: int
    verified: int = 0
    """How many files, and directories of blobs and indexes, were compared with their checksums by a deep check."""
    unrecorded: int = 0
    """Of how many there is no checksum to compare with."""
    recorded: Mapping[str, str] = field(default_factory=dict)
    """By branch, the commit that records checksums which were missing."""

    @property
    def has_errors(self) -> bool:
        """Whether something is lost, wrong or unreadable."""
        return any(one.severity is FindingSeverity.ERROR for one in self.findings)

    def to_json(self) -> dict[str, object]:
        """What every door shows."""
        count = {one: sum(found.severity is one for found in self.findings) for one in FindingSeverity}
        return {
            "uri": self.uri,
            "branches": list(self.branches),
            "commits": self.commits,
            "versions": self.versions,
            "files": self.files,
            "bytes": self.nbytes,
            "rows_read": self.rows_read,
            "verified": self.verified,
            "unrecorded": self.unrecorded,
            "recorded": dict(self.recorded),
            "errors": count[FindingSeverity.ERROR],
            "warnings": count[FindingSeverity.WARNING],
            "notes": count[FindingSeverity.NOTE],
            "findings": [one.to_json() for one in self.findings],
        }


def check(session: Session, call: CheckCall) -> CheckResult:
    """Look at everything, or `is_quick` at everything but rows.

    A version that a branch showed when the check began may be collected before it is read, if somebody cleans up
    meanwhile. So errors that were found while the graph moved on are looked for again.

    Raises:
        NotAGraphError: There is nothing that ever was a graph.
        BranchMissingError: There is no branch of that name.
        BadArgumentError: It is to be both quick and deep.
    """
    if call.branch is None:
        session.allow_on_graph(Action.MAINTAIN)
    else:
        session.allow(Action.MAINTAIN, call.branch, signed=call.actor if call.is_record else None)
    if call.is_quick and (call.is_deep or call.is_record):
        raise BadArgumentError("quick", "given", "a quick check reads no file that a deep one compares")
    if call.is_record:
        session.check_writable()
        check_signature(call.actor, call.message, None)
    found = _CheckPass(open_fresh_session(session), call).run()
    for _ in range(MAX_PASSES - 1):
        if not found.result.has_errors or not found.has_moved:
            break
        found = _CheckPass(open_fresh_session(session), call).run()
    if not call.is_record or found.result.has_errors or found.retained is None:
        return found.result
    recorded = record_checksums(session, found.session, found.retained, actor=call.actor, message=call.message)
    return replace(found.result, recorded=recorded)


@dataclass(frozen=True, slots=True)
class _CheckPassResult:
    """What one look at a graph found."""

    result: CheckResult
    has_moved: bool
    """Whether a branch has moved on since its manifest was read."""
    session: Session
    retained: RetainedStates | None


class _CheckPass:
    """One look at everything, by a session that has read nothing before."""

    def __init__(self, session: Session, call: CheckCall) -> None:
        self._session, self._call = session, call
        self._is_deep = call.is_deep or call.is_record
        self._findings: list[Finding] = []

    def run(self) -> _CheckPassResult:
        call, session = self._call, self._session
        self._report_progress("manifests", 0, 1)
        manifests = check_manifests(session, call.branch)
        self._findings += manifests.findings
        listings = list_tables(session)
        kept = self._read_retained(manifests)
        pinned = find_pinned_versions(manifests.states)
        look, verified = self._inspect_retained(pinned, listings, kept)
        files = check_files(
            session,
            listings,
            pinned,
            thoroughness=self._choose_thoroughness(),
            watch=lambda key, *share: self._report_progress(f"files of {key}", *share),
        )
        self._findings += files.findings
        rows = RowCheckResult()
        if not call.is_quick:
            rows = RowChecker(session, files, is_deep=self._is_deep, watch=self._report_progress).run(manifests.states)
            self._findings += rows.findings
        if kept is not None:
            self._check_retained(kept, look, verified, files, pinned)
        self._findings += find_damaged_lists(session)
        if call.branch is None:
            self._findings += check_operations(session)
        result = CheckResult(
            uri=session.uri,
            branches=tuple(state.name for state in manifests.states),
            findings=sort_findings(self._findings),
            commits=manifests.commits,
            versions=len(pinned),
            files=files.files,
            nbytes=files.nbytes,
            rows_read=rows.rows,
            verified=verified.files,
            unrecorded=verified.unrecorded,
        )
        has_moved = any(not state.head.table.is_newest() for state in manifests.states if state.is_newest)
        return _CheckPassResult(result, has_moved, session, kept)

    def _report_progress(self, phase: str, done: int, total: int, rows: int = 0) -> None:
        self._session.check_cancelled()
        if self._call.progress is not None:
            self._call.progress(CheckProgress(phase=phase, done=done, total=total, rows=rows))

    def _choose_thoroughness(self) -> Thoroughness:
        if self._call.is_quick:
            return Thoroughness.QUICK
        return Thoroughness.DEEP if self._is_deep else Thoroughness.USUAL

    def _read_retained(self, manifests: ManifestCheckResult) -> RetainedStates | None:
        """Read what commits name, present and past; None when it is not asked for, or can't be known."""
        for state in manifests.states:
            expect_pins(self._session.store, state.head.snapshot.manifest.pins.values())
        is_wanted = self._is_deep or (self._call.branch is None and not self._call.is_quick)
        if not is_wanted or not manifests.is_whole:
            return None
        try:
            with translate_damage(BRANCHES):
                return read_retained_states(self._session, self._call.branch)
        except StoreUnavailableError:
            raise
        except OmnigraphError as error:
            if error.kind not in (Kind.CORRUPT, Kind.NOT_FOUND):
                raise
            place = error.place if isinstance(error, DamagedError) else BRANCHES
            message = f"a history that others refer to can't be read: {error}"
            self._findings.append(Finding(code="journal_damaged", thing=MAIN, place=place, message=message))
            return None

    def _inspect_retained(
        self, pinned: Sequence[BranchPinnedVersion], listings: Mapping[str, TableListing], kept: RetainedStates | None
    ) -> tuple[RetainedFiles, VerifiedFiles]:
        """Open all versions, and in a deep check verify their files: some damage ends a process that decodes it."""
        if kept is None and not self._is_deep:
            return RetainedFiles(), VerifiedFiles()
        present = {one.key for one in pinned}
        versions = present if kept is None else present | kept.pins.keys()
        look = inspect_retained_versions(self._session, versions, listings, self._report_progress)
        if not self._is_deep:
            return look, VerifiedFiles()
        return look, verify_files(self._session, look, listings, self._report_progress)

    def _check_retained(
        self,
        kept: RetainedStates,
        look: RetainedFiles,
        verified: VerifiedFiles,
        files: FileCheckResult,
        pinned: Sequence[BranchPinnedVersion],
    ) -> None:
        if self._is_deep:
            present = {one.key for one in pinned}
            self._findings += check_history_files(self._session, kept, look, verified, files, present)
        if self._call.branch is None:
            self._report_progress("unused files", 0, 1)
            self._findings += check_unused(self._session, kept, look, files, pinned, is_deep=self._is_deep)


def open_fresh_session(session: Session) -> Session:
    """The same graph without anything that was read of it before: caches would hide what is gone."""
    store = GraphStorage(session.store.location, session.runtime)
    found = Session(
        store=store,
        handles=TableCache(store, is_verifying=False),
        log=ManifestLog(store),
        is_read_only=session.is_read_only,
        keep_derived=False,
    )
    found.check_cancelled = session.check_cancelled
    found.handles.explain = lambda error: error  # what is wrong is looked at here, one by one
    return found
