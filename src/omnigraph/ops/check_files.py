"""The files of pinned versions: all there, of the right size, readable; and those that nobody needs."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import Enum
from functools import partial

from omnigraph.commit.manifest_types import Pin
from omnigraph.ops.check_findings import Finding
from omnigraph.ops.check_manifests import BranchState
from omnigraph.ops.session import Session
from omnigraph.storage.cas_table_errors import DamagedError
from omnigraph.storage.integrity_check import (
    FileFault,
    FileFaultKind,
    TableListing,
    find_blob_faults,
    find_checksum_faults,
    find_deletion_faults,
    find_footer_faults,
    inspect_version,
    list_tables_below,
    translate_damage,
)
from omnigraph.storage.lance_table import LanceTable
from omnigraph.storage.layout import EDGES, NODES, TABLE_ROOTS
from omnigraph.storage.verification import SMALL_BYTES
from omnigraph.storage.version_files import UnknownPartError

_CODES = {
    FileFaultKind.MISSING: "file_missing",
    FileFaultKind.SIZE: "file_damaged",
    FileFaultKind.UNREADABLE: "file_damaged",
}
_VERSION_CODES = {FileFaultKind.MISSING: "version_missing", FileFaultKind.UNREADABLE: "version_damaged"}


class Thoroughness(Enum):
    """How much of the files is looked at."""

    QUICK = "quick"
    """Names and sizes, and the files of versions."""
    USUAL = "usual"
    """What every read verifies, and what files say of themselves."""
    DEEP = "deep"
    """Every byte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchPinnedVersion:
    """A version of a table, the pin that names it, and the branches that show it."""

    pin: Pin
    branches: tuple[str, ...]

    @property
    def key(self) -> tuple[str, int]:
        """What it is, whoever shows it."""
        return self.pin.path, self.pin.version


@dataclass(slots=True)
class FileCheckResult:
    """What is known of the files of a graph's tables."""

    listings: Mapping[str, TableListing]
    findings: list[Finding] = field(default_factory=list)
    unreadable: set[tuple[str, int]] = field(default_factory=set)
    """Versions whose rows can't be read, or not all of them."""
    bad_indexes: dict[tuple[str, int], set[str]] = field(default_factory=dict)
    """By version, the indexes that can't be read."""
    files: int = 0
    nbytes: int = 0


def find_pinned_versions(states: Sequence[BranchState]) -> list[BranchPinnedVersion]:
    """Every version that a branch shows, each once."""
    found: dict[tuple[str, int, int], tuple[Pin, list[str]]] = {}
    for state in states:
        for pin in state.head.snapshot.manifest.pins.values():
            _, branches = found.setdefault((pin.path, pin.version, pin.rows), (pin, []))
            branches.append(state.name)
    return [BranchPinnedVersion(pin=pin, branches=tuple(branches)) for pin, branches in found.values()]


def list_tables(session: Session) -> dict[str, TableListing]:
    """What there is below every table's directory, by two lists."""
    return {**list_tables_below(session.store, NODES), **list_tables_below(session.store, EDGES)}


def find_foreign_files(session: Session) -> list[Finding]:
    """Return a finding for each link, pipe or device among the tables and manifests."""
    errors = [error for root in TABLE_ROOTS for error in session.store.find_foreign_files(root)]
    return [
        Finding(code="foreign_file", thing=error.key, place=error.key, message=f"it is {error.what}")
        for error in errors
    ]


def check_files(
    session: Session,
    listings: Mapping[str, TableListing],
    pinned: Sequence[BranchPinnedVersion],
    *,
    thoroughness: Thoroughness,
    watch: Callable[[str, int, int], None],
) -> FileCheckResult:
    """Look at all files of these versions, and unless it is quick at every deletion file and the end of data files.

    `watch` is told of every version that is done, and how many of how many are.
    """
    found = FileCheckResult(listings)
    found.findings += find_foreign_files(session)
    found.files = sum(len(listing.sizes) for listing in found.listings.values())
    found.nbytes = sum(size for listing in found.listings.values() for size in listing.sizes.values())
    workers = session.runtime.options.upkeep.concurrency
    with ThreadPoolExecutor(workers, thread_name_prefix="check") as pool:
        looks = pool.map(lambda one: _check_version(session, one, found.listings, thoroughness), pinned)
        for done, (one, (faults, findings)) in enumerate(zip(pinned, looks, strict=True), start=1):
            found.findings += findings
            for fault in faults:
                _add_fault(found, one, fault)
            watch(one.pin.table_key, done, len(pinned))
    for listing in found.listings.values():
        newest = listing.find_moved_head()
        if newest is not None:
            key = next((one.pin.table_key for one in pinned if one.pin.path == listing.path), listing.path)
            message = f"another tool has moved the head of {key} to version {newest}"
            found.findings.append(Finding(code="head_moved", thing=key, place=listing.path, message=message))
    return found


def find_table_faults(
    table: LanceTable, listing: TableListing, thoroughness: Thoroughness = Thoroughness.USUAL
) -> list[FileFault]:
    """Return everything that is wrong with the files of one version. Nothing that is found out is handed to Lance."""
    faults = list(inspect_version(table, listing).faults)
    if thoroughness is Thoroughness.QUICK or any(fault.index is None for fault in faults):
        return faults
    known = {fault.place for fault in faults}
    limit = None if thoroughness is Thoroughness.DEEP else SMALL_BYTES
    faults += _read_faults(table, lambda: [one for one in find_checksum_faults(table, limit) if one.place not in known])
    for look in (find_footer_faults, find_deletion_faults, partial(find_blob_faults, listing=listing)):
        if any(fault.index is None for fault in faults):  # nor are pointers to large values, which are in the rows
            break
        faults += _read_faults(table, partial(look, table))
    return faults


def _read_faults(table: LanceTable, look: Callable[[], list[FileFault]]) -> list[FileFault]:
    try:
        with translate_damage(table.path):
            return look()
    except DamagedError as error:
        return [FileFault(kind=FileFaultKind.UNREADABLE, place=table.path, reason=error.reason)]


def _check_version(
    session: Session, one: BranchPinnedVersion, listings: Mapping[str, TableListing], thoroughness: Thoroughness
) -> tuple[list[FileFault], list[Finding]]:
    pin = one.pin
    table = LanceTable(session.handles, pin.path, pin.version)
    listing = listings.get(pin.path, TableListing(pin.path))
    try:
        faults = find_table_faults(table, listing, thoroughness)
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
    try:
        with translate_damage(pin.path):
            rows = table.count()
    except DamagedError as error:
        return [*faults, FileFault(kind=FileFaultKind.UNREADABLE, place=error.place, reason=error.reason)], []
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


def _add_fault(found: FileCheckResult, one: BranchPinnedVersion, fault: FileFault) -> None:
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
