"""Check the integrity of a graph: manifests, files, rows, indexes, operations. Read-only, and uses no cache.

Damage becomes a finding with a way out, even in a graph that can't be opened. Only an unavailable store is an error,
because then nothing is known.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from omnigraph.commit.manifest_log import ManifestLog, expect_pins
from omnigraph.commit.manifest_types import MAIN
from omnigraph.errors import BadArgumentError, Kind, OmnigraphError
from omnigraph.json_struct import JsonStruct
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

# A cleanup that runs at the same time can make a sound graph look damaged: errors found while a branch moved are
# checked again, up to this number of passes.
MAX_PASSES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckProgress:
    """The phase of a check, its progress, and the number of rows read so far."""

    phase: str
    done: int
    total: int
    rows: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckCall:
    """The arguments of a check."""

    branch: str | None = None
    """Only this branch; None: all branches, and files that belong to none."""
    is_quick: bool = False
    """Check manifests and files only; no row is read."""
    is_deep: bool = False
    """Check every byte of every file that a kept commit references, and every column of every row."""
    is_record: bool = False
    """Run a deep check, and if it finds no error, record the checksums of files that have none."""
    actor: str = "anonymous"
    message: str | None = None
    progress: Callable[[CheckProgress], None] | None = None


class CheckResult(JsonStruct, frozen=True, kw_only=True):
    """All findings, errors first, and the amount of data that was checked."""

    json_keys = (
        "uri branches commits versions files bytes=nbytes rows_read verified unrecorded recorded errors warnings "
        "notes findings"
    )

    uri: str
    branches: tuple[str, ...]
    findings: tuple[Finding, ...]
    commits: int
    """The number of commits in all histories."""
    versions: int
    """The number of table versions that the heads of the branches pin."""
    files: int
    nbytes: int
    rows_read: int
    verified: int = 0
    """The number of files, and directories of blobs and indexes, that a deep check compared with their checksums."""
    unrecorded: int = 0
    """The number of those that have no checksum to compare with."""
    recorded: Mapping[str, str] = {}
    """By branch, the commit that recorded missing checksums."""

    @property
    def has_errors(self) -> bool:
        """Whether anything is lost, wrong or unreadable."""
        return self.errors > 0

    @property
    def errors(self) -> int:
        """The number of findings that are errors."""
        return self._count(FindingSeverity.ERROR)

    @property
    def warnings(self) -> int:
        """The number of findings that are warnings."""
        return self._count(FindingSeverity.WARNING)

    @property
    def notes(self) -> int:
        """The number of findings that are notes."""
        return self._count(FindingSeverity.NOTE)

    def _count(self, severity: FindingSeverity) -> int:
        return sum(finding.severity is severity for finding in self.findings)


def check(session: Session, call: CheckCall) -> CheckResult:
    """Check a graph or one branch, and return all findings.

    A concurrent cleanup may collect a version after the check has read the manifest that pins it. So if there are
    errors and a branch has moved in the meantime, the check is repeated.

    Raises:
        NotAGraphError: There is no graph, and no remains of one.
        BranchMissingError: There is no such branch.
        BadArgumentError: The call is both quick and deep.
    """
    if call.branch is None:
        session.allow_on_graph(Action.MAINTAIN)
    else:
        session.allow(Action.MAINTAIN, call.branch, signed=call.actor if call.is_record else None)
    if call.is_quick and (call.is_deep or call.is_record):
        raise BadArgumentError("quick", "given", "a quick check can't be deep or record checksums")
    if call.is_record:
        session.check_writable()
        check_signature(call.actor, call.message, None)
    last = _CheckPass(open_fresh_session(session), call).run()
    for _ in range(MAX_PASSES - 1):
        if not last.result.has_errors or not last.has_moved:
            break
        last = _CheckPass(open_fresh_session(session), call).run()
    # Checksums of damaged files must not be recorded as if they were right.
    if not call.is_record or last.result.has_errors or last.retained is None:
        return last.result
    recorded = record_checksums(session, last.session, last.retained, actor=call.actor, message=call.message)
    return msgspec.structs.replace(last.result, recorded=recorded)


@dataclass(frozen=True, slots=True)
class _CheckPassResult:
    """The result of one pass over a graph, and what recording checksums needs from it."""

    result: CheckResult
    has_moved: bool
    """Whether a branch has got a new head since its manifest was read."""
    session: Session
    retained: RetainedStates | None


class _CheckPass:
    """One pass over a graph, with a session that has cached nothing."""

    def __init__(self, session: Session, call: CheckCall) -> None:
        self._session = session
        self._call = call
        # Only files that a deep check has found sound may get a checksum.
        self._is_deep = call.is_deep or call.is_record
        self._findings: list[Finding] = []

    def run(self) -> _CheckPassResult:
        call = self._call
        session = self._session
        self._report_progress("manifests", 0, 1)
        manifests = check_manifests(session, call.branch)
        self._findings += manifests.findings
        listings = list_tables(session)
        retained = self._read_retained(manifests)
        pinned = find_pinned_versions(manifests.states)
        # Files are compared with their checksums before Lance decodes any: some damage crashes the process.
        inspected, verified = self._inspect_retained(pinned, listings, retained)
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
        if retained is not None:
            self._check_retained(retained, inspected, verified, files, pinned)
        self._findings += find_damaged_lists(session)
        # Operations and unknown files belong to the whole graph, not to one branch.
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
        # A state before a damaged head is never the newest, so it says nothing about a move.
        has_moved = any(not state.head.table.is_newest() for state in manifests.states if state.is_newest)
        return _CheckPassResult(result, has_moved, session, retained)

    def _report_progress(self, phase: str, done: int, total: int, rows: int = 0) -> None:
        self._session.check_cancelled()
        if self._call.progress is not None:
            self._call.progress(CheckProgress(phase=phase, done=done, total=total, rows=rows))

    def _choose_thoroughness(self) -> Thoroughness:
        if self._call.is_quick:
            return Thoroughness.QUICK
        return Thoroughness.DEEP if self._is_deep else Thoroughness.USUAL

    def _read_retained(self, manifests: ManifestCheckResult) -> RetainedStates | None:
        """Read the states of all kept commits; None if this check does not need them, or they can't be determined."""
        for state in manifests.states:
            expect_pins(self._session.store, state.head.snapshot.manifest.pins.values())
        is_needed = self._is_deep or (self._call.branch is None and not self._call.is_quick)
        # With a manifest missing, files that only its commits need would look unused.
        if not is_needed or not manifests.is_whole:
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
            message = f"a history that other branches refer to can't be read: {error}"
            self._findings.append(Finding(code="journal_damaged", thing=MAIN, place=place, message=message))
            return None

    def _inspect_retained(
        self,
        pinned: Sequence[BranchPinnedVersion],
        listings: Mapping[str, TableListing],
        retained: RetainedStates | None,
    ) -> tuple[RetainedFiles, VerifiedFiles]:
        """Inspect all pinned and kept versions, and in a deep check verify the checksums of their files."""
        if retained is None and not self._is_deep:
            return RetainedFiles(), VerifiedFiles()
        current = {version.key for version in pinned}
        versions = current if retained is None else current | retained.pins.keys()
        inspected = inspect_retained_versions(self._session, versions, listings, self._report_progress)
        if not self._is_deep:
            return inspected, VerifiedFiles()
        return inspected, verify_files(self._session, inspected, listings, self._report_progress)

    def _check_retained(
        self,
        retained: RetainedStates,
        inspected: RetainedFiles,
        verified: VerifiedFiles,
        files: FileCheckResult,
        pinned: Sequence[BranchPinnedVersion],
    ) -> None:
        if self._is_deep:
            current = {version.key for version in pinned}
            self._findings += check_history_files(self._session, retained, inspected, verified, files, current)
        if self._call.branch is None:
            self._report_progress("unused files", 0, 1)
            self._findings += check_unused(self._session, retained, inspected, files, pinned, is_deep=self._is_deep)


def open_fresh_session(session: Session) -> Session:
    """Open the same graph with empty caches, which would hide missing files."""
    store = GraphStorage(session.store.location, session.runtime)
    fresh = Session(
        store=store,
        handles=TableCache(store, is_verifying=False),
        log=ManifestLog(store),
        is_read_only=session.is_read_only,
        keep_derived=False,
    )
    fresh.check_cancelled = session.check_cancelled
    # Errors are not explained by a search for their cause: the check itself finds each of them.
    fresh.handles.explain = lambda error: error
    return fresh
