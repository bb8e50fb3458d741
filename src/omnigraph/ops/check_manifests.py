"""Check the manifests of all branches: each must be readable, and its history must lead to its current state."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from omnigraph.commit.branch_errors import BranchMissingError
from omnigraph.commit.commit_references import CommitReference, find_lost, find_merge_references, find_references
from omnigraph.commit.digest_chain import AlteredCommit, DigestChain, SchemaRecords
from omnigraph.commit.key_index import find_run_fault
from omnigraph.commit.manifest_check import (
    ManifestFault,
    ManifestFaultKind,
    ManifestInspection,
    inspect_manifest,
    iter_own_commits,
)
from omnigraph.commit.manifest_codec import ManifestCorruptError
from omnigraph.commit.manifest_log import Head, NotAGraphError
from omnigraph.commit.manifest_repair import find_unfinished, list_asides
from omnigraph.commit.manifest_types import MAIN, BranchRecord, Commit, Manifest
from omnigraph.errors import OmnigraphError
from omnigraph.lang.spelling import find_closest
from omnigraph.ops.check_findings import Finding
from omnigraph.ops.indexes import map_types
from omnigraph.ops.session import Session
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.catalog_codec import compute_fingerprint
from omnigraph.storage.cas_table_errors import DamagedError
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.layout import AUDIT, BRANCHES, EDGES, MANIFEST, NODES, SCHEMA_COPY, build_note_key
from omnigraph.storage.object_store import ForeignFileError, ObjectMissingError
from omnigraph.storage.version_notes import is_note_damaged

# Of branches; a missing manifest of main has its own code, `manifest_missing`.
_CODES = {
    ManifestFaultKind.MISSING: "branch_manifest_missing",
    ManifestFaultKind.FORMAT: "format_refused",
    ManifestFaultKind.VERSION: "manifest_damaged",
    ManifestFaultKind.CONTENT: "manifest_damaged",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchState:
    """The newest readable state of a branch, with its schema if that can be decoded."""

    name: str
    head: Head
    is_newest: bool
    """Whether that is the head, and not an earlier state because the head is damaged."""
    catalog: Catalog | None = None


@dataclass(slots=True)
class ManifestCheckResult:
    """The states and histories of all branches that could be read, and the findings about them."""

    states: list[BranchState] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    commits: int = 0
    is_whole: bool = True
    """Whether all manifests and histories could be read: only then can unused files be determined."""
    schemas: SchemaRecords = field(default_factory=SchemaRecords)
    fork_points: dict[str, Commit | None] = field(default_factory=dict)
    """By id, each commit that a branch was created from, as recorded in its original journal."""
    copies: list[tuple[ManifestInspection, Commit]] = field(default_factory=list)
    """The same commits as copied to the journals of those branches."""


def check_manifests(session: Session, branch: str | None) -> ManifestCheckResult:
    """Check the manifests and histories of all branches, or of one branch.

    Raises:
        NotAGraphError: There is no graph, and no remains of one.
        BranchMissingError: There is no such branch.
    """
    result = ManifestCheckResult()
    store = session.store
    main = inspect_manifest(store, MAIN, MANIFEST)
    if main.newest == 0:
        refuse_no_graph(session)
        result.is_whole = False
        result.findings.append(
            Finding(code="manifest_missing", thing="main", place=MANIFEST, message="there is no manifest")
        )
        return result
    _add_manifest_fault(result, main)
    # The register of branches is in the manifest of main, so without it no branch can be found.
    if main.head is None:
        return result
    register = main.head.snapshot.manifest.branches
    names = (MAIN, *sorted(main.head.snapshot.manifest.live_branches))
    if branch is not None and branch not in names:
        raise BranchMissingError(branch, names, find_closest(branch, names))
    inspections = (main, *_inspect_branches(store, register, result, branch))
    selected = [inspection for inspection in inspections if branch in (None, inspection.branch)]
    # Commits named by tags; those that are met in a journal are removed, so dangling tags remain.
    tagged = {tag.commit_id for tag in main.head.snapshot.manifest.tags.values()}
    asides = list_asides(store)
    forks = (inspection.head.snapshot.manifest.fork for inspection in selected if inspection.head is not None)
    # Known before any journal is read: the original of a fork's commit may be in a journal that is read first.
    result.fork_points |= {fork.commit_id: None for fork in forks if fork is not None}
    references: list[CommitReference] = []
    for inspection in selected:
        if inspection.head is not None:
            result.findings += _check_unfinished_repair(asides, inspection)
            tagged -= _check_journal(store, inspection, inspection.head, tagged, result, references)
            result.findings += _check_auxiliary_files(store, inspection, inspection.head)
            result.states.append(_build_branch_state(session, inspection, inspection.head, result))
    _check_copies(result)
    unregistered = find_unregistered(store, register) if branch is None else []
    references += find_manifest_marks((main, *selected), unregistered)
    lost = find_lost_marks(store, references, (main, *selected))
    result.findings += map(build_lost_finding, lost)
    if branch is None:
        # A tag of a lost commit is not reported as dangling too: the loss is the cause.
        dangling = tagged - {reference.commit_id for reference in lost}
        _check_tags(main.head.snapshot.manifest, dangling, result)
        result.findings += _report_unregistered(unregistered)
        result.findings += _check_schema_copy(store, main.head.snapshot.manifest)
    return result


def refuse_no_graph(session: Session) -> None:
    """Check that there are at least remains of a graph whose manifest is missing.

    Raises:
        NotAGraphError: There are none.
    """
    remains = {NODES, EDGES, BRANCHES, AUDIT} & set(session.store.objects.list_children())
    try:
        session.log.head()
    except NotAGraphError:
        if not remains:
            raise


def _inspect_branches(
    store: GraphStorage, register: Mapping[str, BranchRecord], result: ManifestCheckResult, branch: str | None
) -> Iterator[ManifestInspection]:
    """Inspect the manifest of every branch other than main, or of the selected one."""
    for name, record in sorted(register.items()):
        if branch not in (None, name):
            continue
        if record.is_deleted:
            message = f"the branch `{name}` was deleted, but its row is still in the register"
            result.findings.append(
                Finding(code="branch_half_deleted", thing=name, place=record.path, message=message, branches=(name,))
            )
            continue
        inspection = inspect_manifest(store, name, record.path)
        _add_manifest_fault(result, inspection)
        result.findings += _check_registration(record, inspection)
        yield inspection


def _add_manifest_fault(result: ManifestCheckResult, inspection: ManifestInspection) -> None:
    fault = inspection.fault
    if fault is None:
        return
    result.is_whole = False
    result.findings.append(
        Finding(
            code=_CODES[fault.kind],
            thing=inspection.branch,
            place=fault.place,
            message=_describe_fault(inspection, fault),
            branches=(inspection.branch,),
        )
    )


def _describe_fault(inspection: ManifestInspection, fault: ManifestFault) -> str:
    if fault.kind is ManifestFaultKind.FORMAT:
        return fault.reason
    if fault.kind is ManifestFaultKind.MISSING:
        return f"the branch `{inspection.branch}` has no manifest"
    damage = f"version {inspection.newest} of the manifest of `{inspection.branch}` can't be used: {fault.reason}"
    if inspection.head is None:
        return f"{damage}; no earlier version is intact"
    snapshot = inspection.head.snapshot
    commit = snapshot.commit
    return f"{damage}; version {snapshot.manifest_version} is intact, with commit {commit.id} of {commit.at}"


def _check_unfinished_repair(asides: Mapping[str, int], inspection: ManifestInspection) -> Iterator[Finding]:
    highest = find_unfinished(asides, inspection)
    if highest is not None:
        message = f"the manifest of `{inspection.branch}` was set back from version {highest}, but no commit records it"
        yield _build_finding("repair_unfinished", inspection, message)


def _check_registration(record: BranchRecord, inspection: ManifestInspection) -> Iterator[Finding]:
    """Check that the register and the branch's own manifest describe the same branch."""
    if inspection.head is None:
        return
    fork = inspection.head.snapshot.manifest.fork
    stated = None if fork is None else (fork.branch, fork.branch_id, fork.parent_branch, fork.commit_id)
    if stated != (record.name, record.id, record.parent_branch, record.parent_commit):
        if fork is None:
            message = f"the manifest of `{record.name}` states that it is main"
        elif fork.branch != record.name:
            message = f"the manifest of `{record.name}` states that it is `{fork.branch}`"
        else:
            message = f"the manifest of `{record.name}` states that it was created from another commit"
    elif fork is not None and fork.is_closed:
        message = f"the manifest of `{record.name}` was closed, like that of a deleted branch"
    else:
        return
    yield Finding(
        code="branch_mismatch", thing=record.name, place=record.path, message=message, branches=(record.name,)
    )


# --- history ---------------------------------------------------------------------------------------------


def find_manifest_marks(
    inspections: Iterable[ManifestInspection], unregistered: Iterable[ManifestInspection]
) -> Iterator[CommitReference]:
    """Find the commits that manifests themselves reference; merged commits are referenced by their journals."""
    # Main may be in the list twice: as the holder of the tags, and as a branch to check.
    by_path = {inspection.path: inspection for inspection in inspections}
    for inspection in by_path.values():
        if inspection.head is not None:
            yield from find_references(inspection.head.snapshot.manifest)
    for inspection in unregistered:
        if inspection.head is not None:
            name = f"the manifest `{inspection.path}`, which belongs to no branch,"
            yield from find_references(inspection.head.snapshot.manifest, name)


def find_lost_marks(
    store: GraphStorage, references: Iterable[CommitReference], inspections: Iterable[ManifestInspection]
) -> list[CommitReference]:
    """Find the references to commits that otherwise sound manifests have lost."""
    # A damaged manifest lacks commits for another reason, which has its own finding.
    heads = {
        inspection.path: inspection.head
        for inspection in inspections
        if inspection.head is not None and inspection.fault is None
    }
    journals = {path: partial(iter_own_commits, head, store) for path, head in heads.items()}
    return find_lost(store, references, journals)


def build_lost_finding(reference: CommitReference) -> Finding:
    """Return the finding about a manifest that has lost its newest versions, given a reference to one of them."""
    branch = reference.branch
    message = f"the manifest of `{branch}` has lost its newest versions: {reference}"
    return Finding(code="manifest_rolled_back", thing=branch, place=reference.path, message=message, branches=(branch,))


def _check_journal(
    store: GraphStorage,
    inspection: ManifestInspection,
    head: Head,
    tagged: set[str],
    result: ManifestCheckResult,
    references: list[CommitReference],
) -> set[str]:
    """Check a branch's own commits back to its first, and return which of the tagged commits are among them.

    Commits that they have merged are added to the references.
    """
    met: set[str] = set()
    fold = HistoryFold(head.snapshot.manifest)
    chain = DigestChain(head.snapshot.manifest, result.schemas)
    fork = head.snapshot.manifest.fork
    try:
        for commit in iter_own_commits(head, store, result.schemas.add):
            # The journal of a branch begins with a copy of the commit that the branch was created from.
            is_own = fork is None or commit.seq > fork.seq
            result.commits += is_own
            met |= {commit.id} & tagged
            if not is_own:
                result.copies.append((inspection, commit))
            elif commit.id in result.fork_points:
                result.fork_points[commit.id] = commit
            result.findings += _report_altered(inspection, chain.add(commit))
            references += find_merge_references((commit,))
            fold.undo(commit)
        fold.finish()
        result.findings += _report_altered(inspection, chain.finish())
    except (DamagedError, ManifestCorruptError) as error:
        # Alterations that were found before the damage are reported too.
        result.findings += _report_altered(inspection, chain.finish())
        result.is_whole = False
        place = error.place if isinstance(error, DamagedError) else inspection.path
        message = f"the history of `{inspection.branch}` can't be read to its beginning: {error.reason}"
        result.findings.append(_build_finding("journal_damaged", inspection, message, place))
        # The commits before the damage are unknown, so no tag is reported as dangling.
        return tagged
    return met


def _build_finding(code: str, inspection: ManifestInspection, message: str, place: str | None = None) -> Finding:
    """Build a finding about the manifest of a branch."""
    return Finding(
        code=code,
        thing=inspection.branch,
        place=place or inspection.path,
        message=message,
        branches=(inspection.branch,),
    )


def _check_auxiliary_files(store: GraphStorage, inspection: ManifestInspection, head: Head) -> Iterator[Finding]:
    """Check the files beside a manifest that readers can do without: idempotency keys, and the version note."""
    faults: list[tuple[str, str, str]] = []
    for run in head.snapshot.manifest.key_runs:
        key = f"{inspection.path}/{run.name}"
        try:
            reason = find_run_fault(run, store.objects.get(key).data)
        except ObjectMissingError:
            reason = "it is missing"
        except ForeignFileError as error:
            reason = f"it is {error.what}"
        if reason:
            faults.append(("key_run_damaged", key, f"idempotency keys of `{inspection.branch}`: {reason}"))
    if is_note_damaged(store, inspection.path):
        message = f"the note of `{inspection.branch}`: it does not match its checksum"
        faults.append(("note_damaged", build_note_key(inspection.path), message))
    for code, place, message in faults:
        yield _build_finding(code, inspection, message, place)


def _report_altered(inspection: ManifestInspection, commits: Iterable[AlteredCommit]) -> Iterator[Finding]:
    for altered in commits:
        message = f"commit {altered.commit.id} of `{inspection.branch}` was altered: {altered.reason}"
        yield _build_finding("commit_altered", inspection, message)


def _check_copies(result: ManifestCheckResult) -> None:
    """Compare the copies in the manifests of branches with each other: schemas, and commits they were created from."""
    for inspection, copy in result.copies:
        original = result.fork_points.get(copy.id)
        if original is not None and original != copy:
            reason = "the copy of the branch differs from the journal in which the commit was created"
            result.findings += _report_altered(inspection, [AlteredCommit(copy, reason)])
    for schema_id in result.schemas.find_altered():
        message = f"the schema {schema_id} is not the same in the manifests of all branches"
        result.findings.append(Finding(code="schema_unreadable", thing=schema_id, place=MANIFEST, message=message))


class HistoryFold:
    """The pins and the schema of a state, undone commit by commit.

    Each commit must have left exactly the state that the next one started from.
    """

    def __init__(self, manifest: Manifest) -> None:
        self._fault: str | None = None
        self._pins = {key: str(pin.version) for key, pin in manifest.pins.items()}
        self._schema: str | None = manifest.schema.id

    def undo(self, commit: Commit) -> None:
        """Undo a commit. After the first contradiction, further commits are ignored."""
        # Only the newest contradiction is reported: older commits can't be undone from a wrong state.
        if self._fault is not None:
            return
        for change in commit.changes:
            if change.after != self._pins.get(change.table_key):
                expected = self._pins.get(change.table_key, "no version")
                self._fault = (
                    f"commit `{commit.id}` left {change.table_key} at {change.after or 'no version'}, but the next one"
                    f" started from {expected}"
                )
                return
            # The commit created the table.
            if change.before is None:
                self._pins.pop(change.table_key, None)
            else:
                self._pins[change.table_key] = change.before
        if commit.schema_after is not None:
            if commit.schema_after != self._schema:
                self._fault = (
                    f"commit `{commit.id}` accepted the schema {commit.schema_after}, but the next one started from"
                    f" {self._schema}"
                )
                return
            self._schema = commit.schema_before

    def finish(self) -> None:
        """Check that no undone commit contradicts the one after it.

        Raises:
            ManifestCorruptError: One does; the newest is named.
        """
        if self._fault is not None:
            raise ManifestCorruptError(self._fault)


def _check_tags(manifest: Manifest, missing: set[str], result: ManifestCheckResult) -> None:
    # By path, because the name of a deleted branch may have been used again.
    live = {MANIFEST, *(record.path for record in manifest.live_branches.values())}
    for name, tag in sorted(manifest.tags.items()):
        if tag.commit_id in missing and tag.path in live:
            message = f"the tag `{name}` names commit {tag.commit_id}, which `{tag.branch}` does not have"
            result.findings.append(Finding(code="tag_dangling", thing=name, place=MANIFEST, message=message))


# --- schemas ---------------------------------------------------------------------------------------------


def _build_branch_state(
    session: Session, inspection: ManifestInspection, head: Head, result: ManifestCheckResult
) -> BranchState:
    """Return the state of a branch, and check that its schema is the accepted one and has a table for every type."""
    record = head.snapshot.manifest.schema
    catalog: Catalog | None = None
    message = None
    try:
        catalog = session.load_catalog(head.snapshot)
    except OmnigraphError as error:
        message = f"the schema {record.id} of `{inspection.branch}` can't be decoded: {error}"
    if catalog is not None and compute_fingerprint(catalog) != record.fingerprint:
        message = f"the schema {record.id} of `{inspection.branch}` is not the one that was accepted"
    if message is not None:
        result.findings.append(_build_finding("schema_unreadable", inspection, message))
    if catalog is not None:
        result.findings += _check_tables(inspection, head, catalog)
    return BranchState(name=inspection.branch, head=head, is_newest=inspection.fault is None, catalog=catalog)


def _check_tables(inspection: ManifestInspection, head: Head, catalog: Catalog) -> Iterable[Finding]:
    declared = map_types(catalog).keys()
    for key in sorted(declared ^ head.snapshot.pins.keys()):
        problem = "is declared, but has no table" if key in declared else "has a table, but is not declared"
        message = f"{key} of `{inspection.branch}` {problem}"
        yield Finding(
            code="table_unregistered",
            thing=key,
            place=inspection.path,
            message=message,
            branches=(inspection.branch,),
        )


def _check_schema_copy(store: GraphStorage, manifest: Manifest) -> Iterator[Finding]:
    try:
        # A damaged copy need not be valid UTF-8; it is reported as different then.
        text = store.objects.get(SCHEMA_COPY).data.decode(errors="replace")
    except ObjectMissingError:
        message = "the readable copy of the schema is missing"
    except ForeignFileError as error:
        message = f"the readable copy of the schema is {error.what}"
    else:
        if text == manifest.schema.source:
            return
        message = "the readable copy of the schema differs from the accepted schema of main"
    yield Finding(code="schema_copy_differs", thing="main", place=SCHEMA_COPY, message=message)


def find_unregistered(store: GraphStorage, register: Mapping[str, BranchRecord]) -> list[ManifestInspection]:
    """Inspect the manifests that are not in the register: those of deleted branches, and of drafts."""
    registered = {record.path for record in register.values()}
    paths = {"/".join(info.key.split("/", 2)[:2]) for info in store.objects.list_under(BRANCHES)}
    return [inspect_manifest(store, path, path) for path in sorted(paths - registered)]


def _report_unregistered(inspections: Iterable[ManifestInspection]) -> Iterator[Finding]:
    """Report manifests that are not in the register, except those of deleted branches, which others may have merged."""
    for inspection in inspections:
        if inspection.head is not None and inspection.head.snapshot.manifest.is_closed:
            continue
        path = inspection.path
        message = "this manifest belongs to no branch"
        yield Finding(code="manifest_unregistered", thing=path, place=path, message=message)
