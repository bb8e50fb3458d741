"""Check the files of all kept commits, current and historical, and find files that no commit needs."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from omnigraph.commit.branches import BranchRegistry
from omnigraph.commit.gc_plan import AllHistories, gather_histories
from omnigraph.commit.gc_retention import BranchHistory, RetainedPin, RetentionPolicy
from omnigraph.commit.manifest_log import expect_pins
from omnigraph.commit.manifest_types import Commit
from omnigraph.concurrency import create_pool
from omnigraph.ops.check_files import BranchPinnedVersion, FileCheckResult
from omnigraph.ops.check_findings import Finding
from omnigraph.ops.cleanup_files import OperationFiles, find_operation_files
from omnigraph.ops.session import Session
from omnigraph.storage.checksum_lists import build_list_key
from omnigraph.storage.garbage_files import SweepRules, find_table_garbage
from omnigraph.storage.integrity_check import FileFault, TableListing, find_file_fault, inspect_version, list_table
from omnigraph.storage.lance_table import LanceTable
from omnigraph.storage.object_store import ForeignFileError
from omnigraph.storage.version_files import PinnedFiles, UnknownPartError
from omnigraph.telemetry import format_bytes

# More commits than any history has: the policy keeps everything that earlier cleanups have kept.
_MAX_COMMITS = 2**62
# The path of a table and the number of its version.
Version = tuple[str, int]
ProgressCallback = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class RetainedStates:
    """All states that can still be read: of all branches and tags, or of one branch."""

    journals: AllHistories
    operation_files: OperationFiles
    lines: tuple[BranchHistory, ...]
    """The live branches that are checked, main last."""
    pins: Mapping[Version, Sequence[RetainedPin]]
    """By table version, the pins of the states that have it."""

    def find_pins(self, line: BranchHistory) -> list[RetainedPin]:
        """Return the pins of the kept states of one branch."""
        return [pin for other, pin in self.journals.iter_pins() if other is line]


def read_retained_states(session: Session, branch: str | None) -> RetainedStates:
    """Read all journals, and register the checksums that their pins record, so that files are verified.

    Raises:
        DamagedError, ManifestCorruptError: A journal can't be read, so it is unknown what is kept.
    """
    operation_files = find_operation_files(session.store)
    everything = RetentionPolicy(commits=_MAX_COMMITS, since=datetime.min.replace(tzinfo=UTC))
    journals = gather_histories(
        BranchRegistry(session.log), session.log.head(), operation_files.sidecars, everything, {}, {}
    )
    pins: dict[Version, list[RetainedPin]] = {}
    for line, retained in journals.iter_pins():
        if branch in (None, line.log.branch if line.is_live else None):
            pin = retained.pin
            pins.setdefault((pin.path, pin.version), []).append(retained)
            expect_pins(session.store, [pin])
    # Tables that a schema change has dropped are hidden, but their data is still stored.
    for line in journals.live_histories:
        expect_pins(session.store, line.head.snapshot.manifest.dropped.values())
    lines = tuple(line for line in journals.live_histories if branch in (None, line.log.branch))
    return RetainedStates(journals, operation_files, lines, pins)


@dataclass(slots=True)
class RetainedFiles:
    """The files of all kept versions, and their faults."""

    needed: dict[str, PinnedFiles] = field(default_factory=dict)
    """By table path, the files of all versions."""
    faults: dict[Version, tuple[FileFault, ...]] = field(default_factory=dict)
    """By version, its faults; versions without any are left out."""
    unknown: set[str] = field(default_factory=set)
    """Tables with parts that this release does not know."""


def inspect_retained_versions(
    session: Session, versions: Collection[Version], listings: Mapping[str, TableListing], watch: ProgressCallback
) -> RetainedFiles:
    """Open every version once, and compare the files that it lists with those that exist."""

    def inspect(version: Version) -> tuple[PinnedFiles, tuple[FileFault, ...]] | None:
        path, number = version
        try:
            inspected = inspect_version(
                LanceTable(session.handles, path, number), listings.get(path, TableListing(path))
            )
        except UnknownPartError:
            return None
        return inspected.parts, inspected.faults

    result = RetainedFiles()
    needed: dict[str, tuple[set[str], set[str]]] = {}
    ordered = sorted(versions)
    with create_pool(session.runtime.options.upkeep.concurrency, "check") as pool:
        for done, (version, inspected) in enumerate(zip(ordered, pool.map(inspect, ordered), strict=True), start=1):
            path = version[0]
            if inspected is None:
                result.unknown.add(path)
                continue
            parts, faults = inspected
            files, directories = needed.setdefault(path, (set(), set()))
            files |= parts.files
            directories |= parts.directories
            if faults:
                result.faults[version] = faults
            watch("versions", done, len(ordered))
    result.needed = {
        path: PinnedFiles(frozenset(files), frozenset(directories)) for path, (files, directories) in needed.items()
    }
    return result


# --- checksums -------------------------------------------------------------------------------------------


@dataclass(slots=True)
class VerifiedFiles:
    """The number of files compared with their checksums, of files without one, and the mismatches by file."""

    files: int = 0
    unrecorded: int = 0
    faults: dict[str, FileFault] = field(default_factory=dict)


def verify_files(
    session: Session, inspected: RetainedFiles, listings: Mapping[str, TableListing], watch: ProgressCallback
) -> VerifiedFiles:
    """Compare every file of the kept versions with its checksum, each once."""
    store = session.store
    result = VerifiedFiles()
    sizes: dict[str, int] = {}
    for path, parts in inspected.needed.items():
        listing = listings.get(path, TableListing(path))
        for key in parts.files:
            # Version files are verified when they are opened, and a reader needs no transaction file.
            if "/_transactions/" not in key and "/_versions/" not in key and key in listing.sizes:
                sizes[key] = listing.sizes[key]
        # A directory that is missing although it has a checksum is verified too, so that it is reported.
        directories = (
            key for key in parts.directories if key in listing.directories or store.verifier.lists.has_checksum(key)
        )
        sizes |= {key: listing.directories.get(key, 0) for key in directories}
    total = sum(sizes.values())
    done = 0
    recorded = [key for key in sorted(sizes) if store.verifier.is_recorded(key)]
    result.unrecorded = len(sizes) - len(recorded)
    with create_pool(session.runtime.options.upkeep.concurrency, "check") as pool:
        try:
            for key, fault in zip(recorded, pool.map(lambda key: find_file_fault(store, key), recorded), strict=True):
                done += sizes[key]
                result.files += 1
                if fault is not None:
                    result.faults[key] = fault
                watch("checksums", done, total)
        # Also on an interrupt: leaving the pool would otherwise read all remaining files first.
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return result


def find_damaged_lists(session: Session) -> Iterator[Finding]:
    """Yield a finding for each list of checksums that could not be used."""
    for key, reason in sorted(session.store.verifier.lists.damaged.items()):
        path = "/".join(key.split("/", 2)[:2])
        yield Finding(code="list_damaged", thing=path, place=key, message=f"a list of checksums: {reason}")


# --- history --------------------------------------------------------------------------------------------


def check_history_files(
    session: Session,
    retained: RetainedStates,
    inspected: RetainedFiles,
    verified: VerifiedFiles,
    files: FileCheckResult,
    current: Collection[Version],
) -> list[Finding]:
    """Return a finding for each missing or damaged file that only earlier commits need."""
    faults: dict[str, tuple[FileFault, list[RetainedPin]]] = {}
    for version, pins in retained.pins.items():
        if version in current:
            continue
        for fault in _find_history_faults(session, version, inspected, verified, files.listings):
            faults.setdefault(fault.place, (fault, []))[1].extend(pins)
    # Files that the current versions need too are already reported.
    reported = {finding.place for finding in files.findings}
    findings = []
    for place, (fault, pins) in sorted(faults.items()):
        if place not in reported:
            commits = _sort_commits(pins)
            message = f"a file of {pins[0].pin.table_key}: {fault.reason}; {_describe_commits(commits)}"
            branches = tuple(dict.fromkeys(commit.branch for commit in commits))
            findings.append(
                Finding(
                    code="past_damaged",
                    thing=pins[0].pin.table_key,
                    place=place,
                    message=message,
                    branches=branches,
                    count=len(commits),
                )
            )
    return findings


def _find_history_faults(
    session: Session,
    version: Version,
    inspected: RetainedFiles,
    verified: VerifiedFiles,
    listings: Mapping[str, TableListing],
) -> Iterator[FileFault]:
    """Yield the faults of a historical version. It is opened again only if its table has a damaged file."""
    path = version[0]
    if version in inspected.faults and _is_lost(session, *version):
        yield from inspected.faults[version]
    if path in inspected.unknown or not any(key.startswith(f"{path}/") for key in verified.faults):
        return
    parts = inspect_version(LanceTable(session.handles, *version), listings.get(path, TableListing(path))).parts
    yield from (fault for key, fault in verified.faults.items() if key in parts.files | parts.directories)


def _sort_commits(pins: Iterable[RetainedPin]) -> list[Commit]:
    """Return the commits whose states have one of the pins, oldest first, each once."""
    commits = {commit.id: commit for pin in pins for commit in pin.commits}
    return sorted(commits.values(), key=lambda commit: (commit.at, commit.seq))


def _describe_commits(commits: Sequence[Commit]) -> str:
    first, last = commits[0], commits[-1]
    if len(commits) == 1:
        return f"commit {first.id} of {first.at} needs it"
    return f"{len(commits):,} commits need it, from {first.id} of {first.at} to {last.id} of {last.at}"


# --- unused files ---------------------------------------------------------------------------------------


def check_unused(
    session: Session,
    retained: RetainedStates,
    inspected: RetainedFiles,
    files: FileCheckResult,
    pinned: Sequence[BranchPinnedVersion],
    *,
    is_deep: bool,
) -> list[Finding]:
    """Return findings about files that no readable state needs, and about tables with unreadable earlier versions.

    Call it only if all histories can be read. In a deep check `check_history_files` reports the earlier versions.
    """
    current = {version.key for version in pinned}
    lost: dict[str, int] = {}
    for path, version in inspected.faults:
        is_readable = all(fault.index is not None for fault in inspected.faults[path, version])
        if not is_readable and (path, version) not in current and _is_lost(session, path, version):
            lost[path] = lost.get(path, 0) + 1
    # The files of a version that can't be opened are unknown, so no file of its table can be called unused.
    unknown = inspected.unknown | {path for path, _ in files.unreadable} | lost.keys()
    findings = [] if is_deep else list(_build_history_findings(lost))
    rules = SweepRules(before=datetime.max.replace(tzinfo=UTC), is_named=retained.operation_files.files.__contains__)
    lists = retained.journals.find_checksum_lists()
    for path, listing in files.listings.items():
        if path not in unknown:
            list_files = PinnedFiles(frozenset(build_list_key(path, name) for name in lists.get(path, ())))
            needed = inspected.needed.get(path, PinnedFiles()) | list_files
            findings += _find_unused(path, listing, needed, rules)
    return findings


def _is_lost(session: Session, path: str, version: int) -> bool:
    """Inspect a version again with a new listing: its files may have been written after the first one."""
    try:
        listing = list_table(session.store, path)
    except ForeignFileError:
        return True
    return bool(inspect_version(LanceTable(session.handles, path, version), listing).faults)


def _build_history_findings(lost: Mapping[str, int]) -> Iterator[Finding]:
    for path, count in sorted(lost.items()):
        message = f"{count} of the versions of {path} that earlier commits need can't be read"
        yield Finding(code="past_damaged", thing=path, place=path, message=message, count=count)


def _find_unused(path: str, listing: TableListing, needed: PinnedFiles, rules: SweepRules) -> Iterator[Finding]:
    """Yield findings about the files of a table that cleanup would remove once they are old enough."""
    result = find_table_garbage(path, listing.objects, needed, rules)
    # Lance leaves a transaction file of everything it tries, so these are no sign of a failed write.
    garbage = [info for info in result.garbage if not info.key.startswith(f"{path}/_transactions/")]
    for code, status, objects in (
        ("unused_files", "not in any commit", garbage),
        ("foreign_object", "not part of a table", result.unknown_files),
    ):
        if objects:
            nbytes = sum(info.size for info in objects)
            first = objects[0].key
            message = f"{len(objects)} files with {format_bytes(nbytes)} are {status}, such as {first}"
            if len(objects) == 1:
                message = f"{first} with {format_bytes(nbytes)} is {status}"
            yield Finding(code=code, thing=path, place=path, message=message, count=len(objects), nbytes=nbytes)
