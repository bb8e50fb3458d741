"""The manifests of a graph: every branch has its own, whole, and its history leads to what it shows."""

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

_CODES = {
    ManifestFaultKind.MISSING: "branch_manifest_missing",
    ManifestFaultKind.FORMAT: "format_refused",
    ManifestFaultKind.VERSION: "manifest_damaged",
    ManifestFaultKind.CONTENT: "manifest_damaged",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchState:
    """A branch whose newest whole state could be read, with its schema where that could be too."""

    name: str
    head: Head
    is_newest: bool
    """Whether that is the newest state, and not one before a damaged one."""
    catalog: Catalog | None = None


@dataclass(slots=True)
class ManifestCheckResult:
    """What the manifests say, as far as they can be read."""

    states: list[BranchState] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    commits: int = 0
    is_whole: bool = True
    """Whether every manifest of the graph could be read, with its history: only then is it known what is unused."""
    schemas: SchemaRecords = field(default_factory=SchemaRecords)
    fork_points: dict[str, Commit | None] = field(default_factory=dict)
    """By its id, each commit that a branch was taken from, as the journal has it that it was made in."""
    copies: list[tuple[ManifestInspection, Commit]] = field(default_factory=list)
    """The same commits as the journals of those branches have them."""


def check_manifests(session: Session, branch: str | None) -> ManifestCheckResult:
    """Read the manifest of main and of every other branch, or of only one.

    Raises:
        NotAGraphError: There is nothing that ever was a graph.
        BranchMissingError: There is no branch of that name.
    """
    found = ManifestCheckResult()
    store = session.store
    main = inspect_manifest(store, MAIN, MANIFEST)
    if main.newest == 0:
        refuse_no_graph(session)
        found.is_whole = False
        found.findings.append(
            Finding(code="manifest_missing", thing="main", place=MANIFEST, message="there is no manifest")
        )
        return found
    _add_manifest_fault(found, main)
    if main.head is None:
        return found
    register = main.head.snapshot.manifest.branches
    known = (MAIN, *sorted(main.head.snapshot.manifest.live_branches))
    if branch is not None and branch not in known:
        raise BranchMissingError(branch, known, find_closest(branch, known))
    chosen = [
        look for look in (main, *_inspect_branches(store, register, found, branch)) if branch in (None, look.branch)
    ]
    tagged = {tag.commit_id for tag in main.head.snapshot.manifest.tags.values()}
    aside = list_asides(store)
    forks = (look.head.snapshot.manifest.fork for look in chosen if look.head is not None)
    found.fork_points |= {fork.commit_id: None for fork in forks if fork is not None}
    marks: list[CommitReference] = []
    for look in chosen:
        if look.head is not None:
            found.findings += _check_unfinished_repair(aside, look)
            tagged -= _check_journal(store, look, look.head, tagged, found, marks)
            found.findings += _check_auxiliary_files(store, look, look.head)
            found.states.append(_build_branch_state(session, look, look.head, found))
    _check_copies(found)
    unregistered = find_unregistered(store, register) if branch is None else []
    marks += find_manifest_marks((main, *chosen), unregistered)
    lost = find_lost_marks(store, marks, (main, *chosen))
    found.findings += map(build_lost_finding, lost)
    if branch is None:
        _check_tags(main.head.snapshot.manifest, tagged - {mark.commit_id for mark in lost}, found)
        found.findings += _report_unregistered(unregistered)
        found.findings += _check_schema_copy(store, main.head.snapshot.manifest)
    return found


def refuse_no_graph(session: Session) -> None:
    """NotAGraphError, or the like, when there is nothing left of a graph either."""
    left = {NODES, EDGES, BRANCHES, AUDIT} & set(session.store.objects.list_children())
    try:
        session.log.head()
    except NotAGraphError:
        if not left:
            raise


def _inspect_branches(
    store: GraphStorage, register: Mapping[str, BranchRecord], found: ManifestCheckResult, branch: str | None
) -> Iterator[ManifestInspection]:
    """A look at the manifest of every other branch, or of the one that was chosen."""
    for name, record in sorted(register.items()):
        if branch not in (None, name):
            continue
        if record.is_deleted:
            message = f"the branch `{name}` was deleted, and its row is still in the register"
            found.findings.append(
                Finding(code="branch_half_deleted", thing=name, place=record.path, message=message, branches=(name,))
            )
            continue
        look = inspect_manifest(store, name, record.path)
        _add_manifest_fault(found, look)
        found.findings += _check_registration(record, look)
        yield look


def _add_manifest_fault(found: ManifestCheckResult, look: ManifestInspection) -> None:
    fault = look.fault
    if fault is None:
        return
    found.is_whole = False
    found.findings.append(
        Finding(
            code=_CODES[fault.kind],
            thing=look.branch,
            place=fault.place,
            message=_describe_fault(look, fault),
            branches=(look.branch,),
        )
    )


def _describe_fault(look: ManifestInspection, fault: ManifestFault) -> str:
    if fault.kind is ManifestFaultKind.FORMAT:
        return fault.reason
    if fault.kind is ManifestFaultKind.MISSING:
        return f"the branch `{look.branch}` has no manifest"
    told = f"version {look.newest} of the manifest of `{look.branch}` can't be used: {fault.reason}"
    if look.head is None:
        return f"{told}; no earlier version is whole"
    snapshot = look.head.snapshot
    return (
        f"{told}; version {snapshot.manifest_version} is whole, of commit {snapshot.commit.id} at {snapshot.commit.at}"
    )


def _check_unfinished_repair(aside: Mapping[str, int], look: ManifestInspection) -> Iterator[Finding]:
    highest = find_unfinished(aside, look)
    if highest is not None:
        message = f"the manifest of `{look.branch}` went back from version {highest}, and no commit says so yet"
        yield Finding(
            code="repair_unfinished", thing=look.branch, place=look.path, message=message, branches=(look.branch,)
        )


def _check_registration(record: BranchRecord, look: ManifestInspection) -> Iterator[Finding]:
    """The register's row and the branch's own manifest tell of the same branch."""
    if look.head is None:
        return
    fork = look.head.snapshot.manifest.fork
    said = None if fork is None else (fork.branch, fork.branch_id, fork.parent_branch, fork.commit_id)
    if said != (record.name, record.id, record.parent_branch, record.parent_commit):
        message = f"the manifest of `{record.name}` says that it is {'main' if fork is None else f'`{fork.branch}`'}"
        if fork is not None and fork.branch == record.name:
            message = f"the manifest of `{record.name}` says that it was taken from something else"
    elif fork is not None and fork.is_closed:
        message = f"the manifest of `{record.name}` was closed, as that of a deleted branch"
    else:
        return
    yield Finding(
        code="branch_mismatch", thing=record.name, place=record.path, message=message, branches=(record.name,)
    )


# --- history ---------------------------------------------------------------------------------------------


def find_manifest_marks(
    looks: Iterable[ManifestInspection], unregistered: Iterable[ManifestInspection]
) -> Iterator[CommitReference]:
    """Find what manifests themselves name; what was merged is in their journals."""
    for look in {look.path: look for look in looks}.values():
        if look.head is not None:
            yield from find_references(look.head.snapshot.manifest)
    for look in unregistered:
        if look.head is not None:
            yield from find_references(look.head.snapshot.manifest, f"the manifest `{look.path}`, which no branch has,")


def find_lost_marks(
    store: GraphStorage, marks: Iterable[CommitReference], looks: Iterable[ManifestInspection]
) -> list[CommitReference]:
    """Find the marks whose commits some manifests have lost, of those with which nothing else is wrong."""
    heads = {look.path: look.head for look in looks if look.head is not None and look.fault is None}
    return find_lost(store, marks, {path: partial(iter_own_commits, head, store) for path, head in heads.items()})


def build_lost_finding(mark: CommitReference) -> Finding:
    """Return the finding of a manifest that has lost its newest versions, by what names one of their commits."""
    message = f"the manifest of `{mark.branch}` has lost its newest versions: {mark}"
    return Finding(
        code="manifest_rolled_back", thing=mark.branch, place=mark.path, message=message, branches=(mark.branch,)
    )


def _check_journal(
    store: GraphStorage,
    look: ManifestInspection,
    head: Head,
    wanted: set[str],
    found: ManifestCheckResult,
    marks: list[CommitReference],
) -> set[str]:
    """Read a branch's own commits back to where it began; which of the wanted are among them.

    What they have merged is added to the marks.
    """
    met: set[str] = set()
    fold = HistoryFold(head.snapshot.manifest)
    chain = DigestChain(head.snapshot.manifest, found.schemas)
    fork = head.snapshot.manifest.fork
    try:
        for commit in iter_own_commits(head, store, found.schemas.add):
            is_own = fork is None or commit.seq > fork.seq
            found.commits += is_own
            met |= {commit.id} & wanted
            if not is_own:
                found.copies.append((look, commit))
            elif commit.id in found.fork_points:
                found.fork_points[commit.id] = commit
            found.findings += _report_altered(look, chain.add(commit))
            marks += find_merge_references((commit,))
            fold.undo(commit)
        fold.finish()
        found.findings += _report_altered(look, chain.finish())
    except (DamagedError, ManifestCorruptError) as error:
        found.findings += _report_altered(look, chain.finish())
        found.is_whole = False
        place = error.place if isinstance(error, DamagedError) else look.path
        found.findings.append(
            Finding(
                code="journal_damaged",
                thing=look.branch,
                place=place,
                message=f"the history of `{look.branch}` can't be read to its beginning: {error.reason}",
                branches=(look.branch,),
            )
        )
        return wanted  # what is behind that is not known, so nothing is said of it
    return met


def _check_auxiliary_files(store: GraphStorage, look: ManifestInspection, head: Head) -> Iterator[Finding]:
    """Look at what lies beside a manifest and can be done without: runs of idempotency keys, and the newest's note."""
    faults: list[tuple[str, str, str]] = []
    for run in head.snapshot.manifest.key_runs:
        key = f"{look.path}/{run.name}"
        try:
            reason = find_run_fault(run, store.objects.get(key).data)
        except ObjectMissingError:
            reason = "it is missing"
        except ForeignFileError as error:
            reason = f"it is {error.what}"
        faults += [("key_run_damaged", key, f"idempotency keys of `{look.branch}`: {reason}")] if reason else []
    note = build_note_key(look.path)
    if is_note_damaged(store, look.path):
        faults.append(("note_damaged", note, f"the note of `{look.branch}`: it does not match its checksum"))
    for code, place, message in faults:
        yield Finding(code=code, thing=look.branch, place=place, message=message, branches=(look.branch,))


def _report_altered(look: ManifestInspection, commits: Iterable[AlteredCommit]) -> Iterator[Finding]:
    for one in commits:
        message = f"commit {one.commit.id} of `{look.branch}` was altered: {one.reason}"
        yield Finding(
            code="commit_altered", thing=look.branch, place=look.path, message=message, branches=(look.branch,)
        )


def _check_copies(found: ManifestCheckResult) -> None:
    """Compare what branches have copies of: the commits that they were taken from, and schemas."""
    for look, copy in found.copies:
        original = found.fork_points.get(copy.id)
        if original is not None and original != copy:
            reason = "the branch has another copy of it than the journal in which it was made"
            found.findings += _report_altered(look, [AlteredCommit(copy, reason)])
    for schema_id in found.schemas.find_altered():
        message = f"the schema {schema_id} is not the same in the manifests of all branches"
        found.findings.append(Finding(code="schema_unreadable", thing=schema_id, place=MANIFEST, message=message))


class HistoryFold:
    """The pins and the schema of a state, undone commit by commit: each must lead to what was there after it."""

    def __init__(self, manifest: Manifest) -> None:
        self._fault: str | None = None
        self._pins = {key: str(pin.version) for key, pin in manifest.pins.items()}
        self._schema: str | None = manifest.schema.id

    def undo(self, commit: Commit) -> None:
        """Take back what a commit did, unless it or a newer one did not lead to what was there after it."""
        if self._fault is not None:
            return
        for change in commit.changes:
            if change.after != self._pins.get(change.table_key):
                there = self._pins.get(change.table_key, "no version")
                self._fault = (
                    f"commit `{commit.id}` left {change.table_key} at {change.after or 'no version'}, and what follows"
                    f" it found {there}"
                )
                return
            if change.before is None:
                self._pins.pop(change.table_key, None)
            else:
                self._pins[change.table_key] = change.before
        if commit.schema_after is not None:
            if commit.schema_after != self._schema:
                self._fault = (
                    f"commit `{commit.id}` accepted the schema {commit.schema_after}, and what follows it found"
                    f" {self._schema}"
                )
                return
            self._schema = commit.schema_before

    def finish(self) -> None:
        """Check that every commit that was undone led to what was there after it.

        Raises:
            ManifestCorruptError: The newest that did not.
        """
        if self._fault is not None:
            raise ManifestCorruptError(self._fault)


def _check_tags(manifest: Manifest, missed: set[str], found: ManifestCheckResult) -> None:
    live = {
        MANIFEST,
        *(record.path for record in manifest.live_branches.values()),
    }  # a name may be another branch's now
    for name, tag in sorted(manifest.tags.items()):
        if tag.commit_id in missed and tag.path in live:
            message = f"the tag `{name}` names commit {tag.commit_id}, which `{tag.branch}` does not have"
            found.findings.append(Finding(code="tag_dangling", thing=name, place=MANIFEST, message=message))


# --- schemas ---------------------------------------------------------------------------------------------


def _build_branch_state(
    session: Session, look: ManifestInspection, head: Head, found: ManifestCheckResult
) -> BranchState:
    """The branch with its schema, which must be the one that was accepted, and have a table for every type."""
    record = head.snapshot.manifest.schema
    catalog: Catalog | None = None
    message = None
    try:
        catalog = session.load_catalog(head.snapshot)
    except OmnigraphError as error:
        message = f"the schema {record.id} of `{look.branch}` can't be decoded: {error}"
    if catalog is not None and compute_fingerprint(catalog) != record.fingerprint:
        message = f"the schema {record.id} of `{look.branch}` is not the one that was accepted"
    if message is not None:
        found.findings.append(
            Finding(
                code="schema_unreadable", thing=look.branch, place=look.path, message=message, branches=(look.branch,)
            )
        )
    if catalog is not None:
        found.findings += _check_tables(look, head, catalog)
    return BranchState(name=look.branch, head=head, is_newest=look.fault is None, catalog=catalog)


def _check_tables(look: ManifestInspection, head: Head, catalog: Catalog) -> Iterable[Finding]:
    declared = map_types(catalog).keys()
    for key in sorted(declared ^ head.snapshot.pins.keys()):
        told = "is declared, and has no table" if key in declared else "is a table of no type"
        message = f"{key} of `{look.branch}` {told}"
        yield Finding(code="table_unregistered", thing=key, place=look.path, message=message, branches=(look.branch,))


def _check_schema_copy(store: GraphStorage, manifest: Manifest) -> Iterator[Finding]:
    try:
        text = store.objects.get(SCHEMA_COPY).data.decode(errors="replace")
    except ObjectMissingError:
        message = "the readable copy of the schema is gone"
    except ForeignFileError as error:
        message = f"the readable copy of the schema is {error.what}"
    else:
        if text == manifest.schema.source:
            return
        message = "the readable copy of the schema is not what main has accepted"
    yield Finding(code="schema_copy_differs", thing="main", place=SCHEMA_COPY, message=message)


def find_unregistered(store: GraphStorage, register: Mapping[str, BranchRecord]) -> list[ManifestInspection]:
    """Look at the manifests that no row names: those of deleted branches, and of drafts."""
    known = {record.path for record in register.values()}
    paths = {"/".join(info.key.split("/", 2)[:2]) for info in store.objects.list_under(BRANCHES)}
    return [inspect_manifest(store, path, path) for path in sorted(paths - known)]


def _report_unregistered(looks: Iterable[ManifestInspection]) -> Iterator[Finding]:
    """Tell of manifests that no row names, but for those of deleted branches, which others may have merged."""
    for look in looks:
        if look.head is not None and look.head.snapshot.manifest.is_closed:
            continue
        message = "no branch has this manifest"
        yield Finding(code="manifest_unregistered", thing=look.path, place=look.path, message=message)
