"""Verify a graph: manifests, files, rows, indexes, operations. Changes nothing, and trusts nothing that is cached.

A graph that can't even be opened is told about too: whatever is wrong becomes a finding, with a way out. What stays an
error is a store that does not answer, because then nothing is known.
"""

from collections.abc import Callable
from dataclasses import dataclass

from omnigraph.commit.manifest_log import ManifestLog
from omnigraph.ops.check_files import check_files, check_unused, pinned_in
from omnigraph.ops.check_manifests import check_manifests
from omnigraph.ops.check_operations import check_operations
from omnigraph.ops.check_rows import RowChecks
from omnigraph.ops.findings import Finding, Severity, in_order
from omnigraph.ops.session import Session
from omnigraph.policy import Action
from omnigraph.storage.handles import Handles
from omnigraph.storage.store import Store

LOOKS = 3
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
    """Every column of every row, and not only those that rules are about."""
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

    @property
    def has_errors(self) -> bool:
        """Whether something is lost, wrong or unreadable."""
        return any(one.severity is Severity.ERROR for one in self.findings)

    def to_json(self) -> dict[str, object]:
        """What every door shows."""
        count = {one: sum(found.severity is one for found in self.findings) for one in Severity}
        return {
            "uri": self.uri,
            "branches": list(self.branches),
            "commits": self.commits,
            "versions": self.versions,
            "files": self.files,
            "bytes": self.nbytes,
            "rows_read": self.rows_read,
            "errors": count[Severity.ERROR],
            "warnings": count[Severity.WARNING],
            "notes": count[Severity.NOTE],
            "findings": [one.to_json() for one in self.findings],
        }


def check(session: Session, call: CheckCall) -> CheckResult:
    """Look at everything, or `is_quick` at everything but rows.

    A version that a branch showed when the check began may be collected before it is read, if somebody cleans up
    meanwhile. So errors that were found while the graph moved on are looked for again.

    Raises:
        NotAGraphError: There is nothing that ever was a graph.
        BranchMissingError: There is no branch of that name.
    """
    if call.branch is None:
        session.allow_on_graph(Action.MAINTAIN)
    else:
        session.allow(Action.MAINTAIN, call.branch)
    for _ in range(LOOKS - 1):
        result, has_moved = _look(anew(session), call)
        if not result.has_errors or not has_moved:
            return result
    return _look(anew(session), call)[0]


def _look(session: Session, call: CheckCall) -> tuple[CheckResult, bool]:
    """What there is to find, and whether a branch has moved on since its manifest was read."""
    progress = call.progress or (lambda _: None)

    def watch(phase: str, done: int, total: int, rows: int = 0) -> None:
        session.go_on()
        progress(CheckProgress(phase=phase, done=done, total=total, rows=rows))

    watch("manifests", 0, 1)
    manifests = check_manifests(session, call.branch)
    pinned = pinned_in(manifests.states)
    files = check_files(
        session, pinned, is_quick=call.is_quick, watch=lambda key, *share: watch(f"files of {key}", *share)
    )
    findings = [*manifests.findings, *files.findings]
    rows_read = 0
    if not call.is_quick:
        rows = RowChecks(session, files, is_deep=call.is_deep, watch=watch).run(manifests.states)
        findings += rows.findings
        rows_read = rows.rows
        if call.branch is None and manifests.is_whole:
            watch("unused files", 0, 1)
            findings += check_unused(session, files, pinned)
    if call.branch is None:
        findings += check_operations(session)
    result = CheckResult(
        uri=session.uri,
        branches=tuple(state.name for state in manifests.states),
        findings=in_order(findings),
        commits=manifests.commits,
        versions=len(pinned),
        files=files.files,
        nbytes=files.nbytes,
        rows_read=rows_read,
    )
    return result, any(not state.head.table.is_newest() for state in manifests.states if state.is_newest)


def anew(session: Session) -> Session:
    """The same graph without anything that was read of it before: caches would hide what is gone."""
    store = Store(session.store.location, session.runtime)
    found = Session(
        store=store,
        handles=Handles(store, is_verifying=False),
        log=ManifestLog(store),
        is_read_only=session.is_read_only,
        keep_derived=False,
    )
    found.go_on = session.go_on
    found.handles.explain = lambda error: error  # what is wrong is looked at here, one by one
    return found
