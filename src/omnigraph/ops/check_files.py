"""The files of pinned versions: all there, of the right size, readable; and those that nobody needs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime

from omnigraph.commit.branches import Branches
from omnigraph.commit.collection import gathered
from omnigraph.commit.records import Pin
from omnigraph.commit.retention import Policy
from omnigraph.ops.check_manifests import BranchState
from omnigraph.ops.cleanup_files import named_by_operations
from omnigraph.ops.findings import Finding
from omnigraph.ops.session import Session
from omnigraph.storage.collector import Rules, sort_table
from omnigraph.storage.dataset import Table
from omnigraph.storage.inspection import (
    Fault,
    FaultKind,
    Listing,
    blob_faults,
    damage_of,
    deletion_faults,
    footer_faults,
    listing_of,
    listings_below,
    look_at_version,
)
from omnigraph.storage.layout import EDGES, NODES, TABLE_ROOTS
from omnigraph.storage.objects import ForeignFileError
from omnigraph.storage.pinned_files import PinnedFiles, UnknownPartError
from omnigraph.storage.swap_errors import DamagedError
from omnigraph.telemetry import bytes_text

_CODES = {
    FaultKind.MISSING: "file_missing",
    FaultKind.SIZE: "file_damaged",
    FaultKind.UNREADABLE: "file_damaged",
}
_VERSION_CODES = {FaultKind.MISSING: "version_missing", FaultKind.UNREADABLE: "version_damaged"}
_ALL = 2**62
"""More commits than any history has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned:
    """A version of a table, the pin that names it, and the branches that show it."""

    pin: Pin
    branches: tuple[str, ...]

    @property
    def key(self) -> tuple[str, int]:
        """What it is, whoever shows it."""
        return self.pin.path, self.pin.version


@dataclass(slots=True)
class Files:
    """What is known of the files of a graph's tables."""

    listings: Mapping[str, Listing]
    findings: list[Finding] = field(default_factory=list)
    unreadable: set[tuple[str, int]] = field(default_factory=set)
    """Versions whose rows can't be read, or not all of them."""
    bad_indexes: dict[tuple[str, int], set[str]] = field(default_factory=dict)
    """By version, the indexes that can't be read."""
    files: int = 0
    nbytes: int = 0


def pinned_in(states: Sequence[BranchState]) -> list[Pinned]:
    """Every version that a branch shows, each once."""
    found: dict[tuple[str, int, int], tuple[Pin, list[str]]] = {}
    for state in states:
        for pin in state.head.snapshot.manifest.pins.values():
            _, branches = found.setdefault((pin.path, pin.version, pin.rows), (pin, []))
            branches.append(state.name)
    return [Pinned(pin=pin, branches=tuple(branches)) for pin, branches in found.values()]


def list_tables(session: Session) -> dict[str, Listing]:
    """What there is below every table's directory, by two lists."""
    return {**listings_below(session.store, NODES), **listings_below(session.store, EDGES)}


def foreign_files(session: Session) -> list[Finding]:
    """Return a finding for each link, pipe or device among the tables and manifests."""
    errors = [error for root in TABLE_ROOTS for error in session.store.find_foreign_files(root)]
    return [
        Finding(code="foreign_file", thing=error.key, place=error.key, message=f"it is {error.what}")
        for error in errors
    ]


def check_files(
    session: Session, pinned: Sequence[Pinned], *, is_quick: bool, watch: Callable[[str, int, int], None]
) -> Files:
    """Look at all files of these versions, and unless `is_quick` at the end of every data file and every deletion file.

    `watch` is told of every version that is done, and how many of how many are.
    """
    found = Files(list_tables(session))
    found.findings += foreign_files(session)
    found.files = sum(len(listing.sizes) for listing in found.listings.values())
    found.nbytes = sum(size for listing in found.listings.values() for size in listing.sizes.values())
    workers = session.runtime.options.upkeep.concurrency
    with ThreadPoolExecutor(workers, thread_name_prefix="check") as pool:
        looks = pool.map(lambda one: _faults(session, one, found.listings, is_quick=is_quick), pinned)
        for done, (one, (faults, findings)) in enumerate(zip(pinned, looks, strict=True), start=1):
            found.findings += findings
            for fault in faults:
                _note(found, one, fault)
            watch(one.pin.table_key, done, len(pinned))
    for listing in found.listings.values():
        newest = listing.moved_head()
        if newest is not None:
            key = next((one.pin.table_key for one in pinned if one.pin.path == listing.path), listing.path)
            message = f"another tool has moved the head of {key} to version {newest}"
            found.findings.append(Finding(code="head_moved", thing=key, place=listing.path, message=message))
    return found


def table_faults(table: Table, listing: Listing, *, is_quick: bool = False) -> list[Fault]:
    """Everything that is wrong with the files of one version."""
    faults = list(look_at_version(table, listing).faults)
    if is_quick or any(fault.index is None for fault in faults):
        return faults
    faults += [*footer_faults(table), *deletion_faults(table)]
    # Pointers to large values can be read only where the rows can.
    return faults if any(fault.index is None for fault in faults) else [*faults, *_blob_faults(table, listing)]


def _blob_faults(table: Table, listing: Listing) -> list[Fault]:
    try:
        with damage_of(table.path):
            return blob_faults(table, listing)
    except DamagedError as error:
        return [Fault(kind=FaultKind.UNREADABLE, place=table.path, reason=error.reason)]


def _faults(
    session: Session, one: Pinned, listings: Mapping[str, Listing], *, is_quick: bool
) -> tuple[list[Fault], list[Finding]]:
    pin = one.pin
    table = Table(session.handles, pin.path, pin.version)
    listing = listings.get(pin.path, Listing(pin.path))
    try:
        faults = table_faults(table, listing, is_quick=is_quick)
    except UnknownPartError as error:
        finding = Finding(
            code="unknown_table_part",
            thing=pin.table_key,
            place=pin.path,
            message=str(error),
            branches=one.branches,
        )
        return [], [finding]
    if any(fault.index is None for fault in faults):
        return faults, []
    rows = table.count()
    if rows == pin.rows:
        return faults, []
    message = f"{pin.table_key} has {rows:,} rows, and its pin says {pin.rows:,}"
    finding = Finding(
        code="row_count_differs",
        thing=pin.table_key,
        place=pin.path,
        message=message,
        branches=one.branches,
        count=rows,
    )
    return faults, [finding]


def _note(found: Files, one: Pinned, fault: Fault) -> None:
    pin = one.pin
    if fault.index is not None:
        found.bad_indexes.setdefault(one.key, set()).add(fault.index)
        code, message = "index_damaged", f"the index {fault.index} of {pin.table_key}: {fault.reason}"
    else:
        found.unreadable.add(one.key)
        is_version = "/_versions/" in fault.place
        code = (_VERSION_CODES if is_version else _CODES)[fault.kind]
        what = "the version" if is_version else "a file"
        message = f"{what} of {pin.table_key}: {fault.reason}"
    found.findings.append(
        Finding(code=code, thing=pin.table_key, place=fault.place, message=message, branches=one.branches)
    )


# --- what nobody needs -----------------------------------------------------------------------------------


def check_unused(session: Session, found: Files, pinned: Sequence[Pinned]) -> list[Finding]:
    """Files that no state needs which can still be read, and states of the past that can't be read any more.

    Every version that a history names is opened once. To be asked only when all histories can be read.
    """
    named = named_by_operations(session.store)
    everything = Policy(commits=_ALL, since=datetime.min.replace(tzinfo=UTC))
    journals = gathered(Branches(session.log), session.log.latest(), named.sidecars, everything, {}, {})
    present = {one.key for one in pinned}
    needed: dict[str, tuple[set[str], set[str]]] = {}
    lost: dict[str, int] = {}
    unknown: set[str] = set()
    for path, version in sorted((path, one) for path, numbers in journals.versions().items() for one in numbers):
        try:
            look = look_at_version(Table(session.handles, path, version), found.listings.get(path, Listing(path)))
        except UnknownPartError:
            unknown.add(path)
            continue
        files, directories = needed.setdefault(path, (set(), set()))
        files |= look.parts.files
        directories |= look.parts.directories
        if not look.is_readable and (path, version) not in present and _is_lost(session, path, version):
            lost[path] = lost.get(path, 0) + 1
    # What a version that can't be opened is made of is not known, so nothing is said of the other files there.
    unknown |= {path for path, _ in found.unreadable} | lost.keys()
    findings = list(_past_findings(lost))
    rules = Rules(before=datetime.max.replace(tzinfo=UTC), is_named=named.files.__contains__)
    for path, listing in found.listings.items():
        if path not in unknown:
            files, directories = needed.get(path, (set(), set()))
            findings += _unused(path, listing, PinnedFiles(frozenset(files), frozenset(directories)), rules)
    return findings


def _is_lost(session: Session, path: str, version: int) -> bool:
    """A second look: a version may have been made since the files were listed."""
    try:
        listing = listing_of(session.store, path)
    except ForeignFileError:
        return True
    return not look_at_version(Table(session.handles, path, version), listing).is_readable


def _past_findings(lost: Mapping[str, int]) -> Iterator[Finding]:
    for path, count in sorted(lost.items()):
        message = f"{count} of the versions that earlier commits show of {path} can't be read"
        yield Finding(code="past_damaged", thing=path, place=path, message=message, count=count)


def _unused(path: str, listing: Listing, needed: PinnedFiles, rules: Rules) -> Iterator[Finding]:
    """What cleanup would take if it were old enough, but for transactions: Lance leaves one of everything it tries."""
    found = sort_table(path, listing.objects, needed, rules)
    garbage = [info for info in found.garbage if not info.key.startswith(f"{path}/_transactions/")]
    for code, told, objects in (
        ("unused_files", "in no commit", garbage),
        ("foreign_object", "no part of a table", found.strangers),
    ):
        if objects:
            nbytes, first = sum(info.size for info in objects), objects[0].key
            message = f"{len(objects)} files with {bytes_text(nbytes)} are {told}, such as {first}"
            if len(objects) == 1:
                message = f"{first} with {bytes_text(nbytes)} is {told}"
            yield Finding(code=code, thing=path, place=path, message=message, count=len(objects), nbytes=nbytes)
