"""What kept commits name: whether its files are there and are what was recorded, present and past; what is unused."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime

from omnigraph.commit.branches import BranchRegistry
from omnigraph.commit.gc_plan import AllHistories, gather_histories
from omnigraph.commit.gc_retention import BranchHistory, RetainedPin, RetentionPolicy
from omnigraph.commit.manifest_log import expect_pins
from omnigraph.commit.manifest_types import Commit
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

_MAX_COMMITS = 2**62
"""More commits than any history has."""
Version = tuple[str, int]
"""A version of a table, by its path and number."""
ProgressCallback = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class RetainedStates:
    """Every state that can still be read: of all branches and tags, or of one branch."""

    journals: AllHistories
    operation_files: OperationFiles
    lines: tuple[BranchHistory, ...]
    """The live branches that are looked at, main last."""
    pins: Mapping[Version, Sequence[RetainedPin]]
    """By version of a table, what names it."""

    def find_pins(self, line: BranchHistory) -> list[RetainedPin]:
        """Return what the kept states of one branch are made of."""
        return [one for other, one in self.journals.iter_pins() if other is line]


def read_retained_states(session: Session, branch: str | None) -> RetainedStates:
    """Read all journals, and let the files that they name be compared with what pins record of them.

    Raises:
        DamagedError, ManifestCorruptError: Some journal can't be read, so it is not known what is kept.
    """
    named = find_operation_files(session.store)
    everything = RetentionPolicy(commits=_MAX_COMMITS, since=datetime.min.replace(tzinfo=UTC))
    journals = gather_histories(BranchRegistry(session.log), session.log.head(), named.sidecars, everything, {}, {})
    pins: dict[Version, list[RetainedPin]] = {}
    for line, one in journals.iter_pins():
        if branch in (None, line.log.branch if line.is_live else None):
            pins.setdefault((one.pin.path, one.pin.version), []).append(one)
            expect_pins(session.store, [one.pin])
    for line in journals.live_histories:
        expect_pins(session.store, line.head.snapshot.manifest.dropped.values())
    lines = tuple(line for line in journals.live_histories if branch in (None, line.log.branch))
    return RetainedStates(journals, named, lines, pins)


@dataclass(slots=True)
class RetainedFiles:
    """What kept versions are made of, and what of that is not as it should be."""

    needed: dict[str, PinnedFiles] = field(default_factory=dict)
    """By table, the files of all versions."""
    faults: dict[Version, tuple[FileFault, ...]] = field(default_factory=dict)
    """What is wrong with versions that can't all be read."""
    unknown: set[str] = field(default_factory=set)
    """Tables with parts of which nothing is known."""


def inspect_retained_versions(
    session: Session, versions: Collection[Version], listings: Mapping[str, TableListing], watch: ProgressCallback
) -> RetainedFiles:
    """Open every version once, and compare what it names with what is there."""

    def look(version: Version) -> tuple[PinnedFiles, tuple[FileFault, ...]] | None:
        path, number = version
        try:
            seen = inspect_version(LanceTable(session.handles, path, number), listings.get(path, TableListing(path)))
        except UnknownPartError:
            return None
        return seen.parts, seen.faults

    found = RetainedFiles()
    needed: dict[str, tuple[set[str], set[str]]] = {}
    ordered = sorted(versions)
    with ThreadPoolExecutor(session.runtime.options.upkeep.concurrency, thread_name_prefix="check") as pool:
        for done, (version, seen) in enumerate(zip(ordered, pool.map(look, ordered), strict=True), start=1):
            path = version[0]
            if seen is None:
                found.unknown.add(path)
                continue
            parts, faults = seen
            files, directories = needed.setdefault(path, (set(), set()))
            files |= parts.files
            directories |= parts.directories
            if faults:
                found.faults[version] = faults
            watch("versions", done, len(ordered))
    found.needed = {path: PinnedFiles(frozenset(one), frozenset(other)) for path, (one, other) in needed.items()}
    return found


# --- checksums -------------------------------------------------------------------------------------------


@dataclass(slots=True)
class VerifiedFiles:
    """How many files match their checksums, of how many none is known, and what does not match."""

    files: int = 0
    unrecorded: int = 0
    faults: dict[str, FileFault] = field(default_factory=dict)


def verify_files(
    session: Session, look: RetainedFiles, listings: Mapping[str, TableListing], watch: ProgressCallback
) -> VerifiedFiles:
    """Compare every file that a kept version names with its checksum, each once."""
    store, found = session.store, VerifiedFiles()
    sizes: dict[str, int] = {}
    for path, parts in look.needed.items():
        listing = listings.get(path, TableListing(path))
        for key in parts.files:
            if "/_transactions/" not in key and "/_versions/" not in key and key in listing.sizes:
                sizes[key] = listing.sizes[key]
        there = (
            key for key in parts.directories if key in listing.directories or store.verifier.lists.has_checksum(key)
        )
        sizes |= {key: listing.directories.get(key, 0) for key in there}
    total, done = sum(sizes.values()), 0
    known = [key for key in sorted(sizes) if store.verifier.is_recorded(key)]
    found.unrecorded = len(sizes) - len(known)
    with ThreadPoolExecutor(session.runtime.options.upkeep.concurrency, thread_name_prefix="check") as pool:
        try:
            for key, fault in zip(known, pool.map(lambda key: find_file_fault(store, key), known), strict=True):
                done += sizes[key]
                found.files += 1
                if fault is not None:
                    found.faults[key] = fault
                watch("checksums", done, total)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return found


def find_damaged_lists(session: Session) -> Iterator[Finding]:
    """Yield a finding for each list of checksums that could not be used."""
    for key, reason in sorted(session.store.verifier.lists.damaged.items()):
        path = "/".join(key.split("/", 2)[:2])
        yield Finding(code="list_damaged", thing=path, place=key, message=f"a list of checksums: {reason}")


# --- the past --------------------------------------------------------------------------------------------


def check_history_files(
    session: Session,
    kept: RetainedStates,
    look: RetainedFiles,
    verified: VerifiedFiles,
    files: FileCheckResult,
    present: Collection[Version],
) -> list[Finding]:
    """Return a finding for each file that only earlier commits need, and that is missing or damaged."""
    faults: dict[str, tuple[FileFault, list[RetainedPin]]] = {}
    for version, pins in kept.pins.items():
        if version in present:
            continue
        for fault in _find_history_faults(session, version, look, verified, files.listings):
            faults.setdefault(fault.place, (fault, []))[1].extend(pins)
    # What the present needs too was told of with it.
    told = {finding.place for finding in files.findings}
    found = []
    for place, (fault, pins) in sorted(faults.items()):
        if place not in told:
            commits = _sort_commits(pins)
            message = f"a file of {pins[0].pin.table_key}: {fault.reason}; {_describe_commits(commits)}"
            branches = tuple(dict.fromkeys(commit.branch for commit in commits))
            found.append(
                Finding(
                    code="past_damaged",
                    thing=pins[0].pin.table_key,
                    place=place,
                    message=message,
                    branches=branches,
                    count=len(commits),
                )
            )
    return found


def _find_history_faults(
    session: Session,
    version: Version,
    look: RetainedFiles,
    verified: VerifiedFiles,
    listings: Mapping[str, TableListing],
) -> Iterator[FileFault]:
    """Yield what is wrong with a version of the past. It is opened once more only if its table has a damaged file."""
    path = version[0]
    if version in look.faults and _is_lost(session, *version):
        yield from look.faults[version]
    if path in look.unknown or not any(key.startswith(f"{path}/") for key in verified.faults):
        return
    parts = inspect_version(LanceTable(session.handles, *version), listings.get(path, TableListing(path))).parts
    yield from (fault for key, fault in verified.faults.items() if key in parts.files | parts.directories)


def _sort_commits(pins: Iterable[RetainedPin]) -> list[Commit]:
    """Return the commits whose states have one of the pins, oldest first, each once."""
    commits = {commit.id: commit for one in pins for commit in one.commits}
    return sorted(commits.values(), key=lambda commit: (commit.at, commit.seq))


def _describe_commits(commits: Sequence[Commit]) -> str:
    first, last = commits[0], commits[-1]
    if len(commits) == 1:
        return f"commit {first.id} of {first.at} needs it"
    return f"{len(commits):,} commits need it, from {first.id} of {first.at} to {last.id} of {last.at}"


# --- what nobody needs -----------------------------------------------------------------------------------


def check_unused(
    session: Session,
    kept: RetainedStates,
    look: RetainedFiles,
    found: FileCheckResult,
    pinned: Sequence[BranchPinnedVersion],
    *,
    is_deep: bool,
) -> list[Finding]:
    """Return files that no state needs which can still be read, and tables whose past can't be read any more.

    To be asked only when all histories can be read. A deep check names the files of the past by itself.
    """
    present = {one.key for one in pinned}
    lost: dict[str, int] = {}
    for path, version in look.faults:
        is_readable = all(fault.index is not None for fault in look.faults[path, version])
        if not is_readable and (path, version) not in present and _is_lost(session, path, version):
            lost[path] = lost.get(path, 0) + 1
    # What a version that can't be opened is made of is not known, so nothing is said of the other files there.
    unknown = look.unknown | {path for path, _ in found.unreadable} | lost.keys()
    findings = [] if is_deep else list(_build_history_findings(lost))
    rules = SweepRules(before=datetime.max.replace(tzinfo=UTC), is_named=kept.operation_files.files.__contains__)
    lists = kept.journals.find_checksum_lists()
    for path, listing in found.listings.items():
        if path not in unknown:
            named = PinnedFiles(frozenset(build_list_key(path, name) for name in lists.get(path, ())))
            findings += _find_unused(path, listing, look.needed.get(path, PinnedFiles()) | named, rules)
    return findings


def _is_lost(session: Session, path: str, version: int) -> bool:
    """Look a second time: a version may have been made since the files were listed."""
    try:
        listing = list_table(session.store, path)
    except ForeignFileError:
        return True
    return bool(inspect_version(LanceTable(session.handles, path, version), listing).faults)


def _build_history_findings(lost: Mapping[str, int]) -> Iterator[Finding]:
    for path, count in sorted(lost.items()):
        message = f"{count} of the versions that earlier commits show of {path} can't be read"
        yield Finding(code="past_damaged", thing=path, place=path, message=message, count=count)


def _find_unused(path: str, listing: TableListing, needed: PinnedFiles, rules: SweepRules) -> Iterator[Finding]:
    """What cleanup would take if it were old enough, but for transactions: Lance leaves one of everything it tries."""
    found = find_table_garbage(path, listing.objects, needed, rules)
    garbage = [info for info in found.garbage if not info.key.startswith(f"{path}/_transactions/")]
    for code, told, objects in (
        ("unused_files", "in no commit", garbage),
        ("foreign_object", "no part of a table", found.unknown_files),
    ):
        if objects:
            nbytes, first = sum(info.size for info in objects), objects[0].key
            message = f"{len(objects)} files with {format_bytes(nbytes)} are {told}, such as {first}"
            if len(objects) == 1:
                message = f"{first} with {format_bytes(nbytes)} is {told}"
            yield Finding(code=code, thing=path, place=path, message=message, count=len(objects), nbytes=nbytes)
