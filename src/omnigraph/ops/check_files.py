"""Check the files of pinned table versions: whether they exist, have the right size and can be read."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial

from omnigraph.commit.manifest_types import Pin
from omnigraph.concurrency import create_pool
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
    """The amount of a file that is checked."""

    QUICK = "quick"
    """Names and sizes, and the version files."""
    USUAL = "usual"
    """Also what every read verifies: small files, footers, deletion files, pointers to blobs."""
    DEEP = "deep"
    """Every byte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchPinnedVersion:
    """A table version, its pin, and the branches whose heads have it."""

    pin: Pin
    branches: tuple[str, ...]

    @property
    def key(self) -> tuple[str, int]:
        """Path and number of the version, independent of branches."""
        return self.pin.path, self.pin.version


@dataclass(slots=True)
class FileCheckResult:
    """The findings about the files of all tables, and what may not be read because of them."""

    listings: Mapping[str, TableListing]
    findings: list[Finding] = field(default_factory=list)
    unreadable: set[tuple[str, int]] = field(default_factory=set)
    """Versions whose rows can't all be read."""
    bad_indexes: dict[tuple[str, int], set[str]] = field(default_factory=dict)
    """By version, the indexes that can't be read."""
    files: int = 0
    nbytes: int = 0


def find_pinned_versions(states: Sequence[BranchState]) -> list[BranchPinnedVersion]:
    """Return every version that is pinned by the head of a branch, each once."""
    # The number of rows is part of the key: if two branches disagree about it, each pin is checked.
    versions: dict[tuple[str, int, int], tuple[Pin, list[str]]] = {}
    for state in states:
        for pin in state.head.snapshot.manifest.pins.values():
            _, branches = versions.setdefault((pin.path, pin.version, pin.rows), (pin, []))
            branches.append(state.name)
    return [BranchPinnedVersion(pin=pin, branches=tuple(branches)) for pin, branches in versions.values()]


def list_tables(session: Session) -> dict[str, TableListing]:
    """List the files of all tables, with two list requests."""
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
    """Check all files of these versions.

    After each version, `watch` is called with its table, the number of versions done and their total.
    """
    result = FileCheckResult(listings)
    result.findings += find_foreign_files(session)
    result.files = sum(len(listing.sizes) for listing in listings.values())
    result.nbytes = sum(size for listing in listings.values() for size in listing.sizes.values())
    workers = session.runtime.options.upkeep.concurrency
    with create_pool(workers, "check") as pool:
        checks = pool.map(lambda version: _check_version(session, version, listings, thoroughness), pinned)
        for done, (version, (faults, findings)) in enumerate(zip(pinned, checks, strict=True), start=1):
            result.findings += findings
            for fault in faults:
                _add_fault(result, version, fault)
            watch(version.pin.table_key, done, len(pinned))
    # Omnigraph writes detached versions only, which never move the head of a Lance table.
    for listing in listings.values():
        newest = listing.find_moved_head()
        if newest is not None:
            key = next((version.pin.table_key for version in pinned if version.pin.path == listing.path), listing.path)
            message = f"another tool has moved the head of {key} to version {newest}"
            result.findings.append(Finding(code="head_moved", thing=key, place=listing.path, message=message))
    return result


def find_table_faults(
    table: LanceTable, listing: TableListing, thoroughness: Thoroughness = Thoroughness.USUAL
) -> list[FileFault]:
    """Return all faults in the files of one version. A damaged file is never passed to Lance."""
    # Sizes come from the listing, so this opens the version file only.
    faults = list(inspect_version(table, listing).faults)
    if thoroughness is Thoroughness.QUICK or any(fault.index is None for fault in faults):
        return faults
    reported = {fault.place for fault in faults}
    # Every read verifies files up to this size; larger ones are verified by a deep check only.
    limit = None if thoroughness is Thoroughness.DEEP else SMALL_BYTES
    faults += _read_faults(
        table, lambda: [fault for fault in find_checksum_faults(table, limit) if fault.place not in reported]
    )
    for find_faults in (find_footer_faults, find_deletion_faults, partial(find_blob_faults, listing=listing)):
        # The pointers to blobs are in the rows, so they can't be read from damaged files either.
        if any(fault.index is None for fault in faults):
            break
        faults += _read_faults(table, partial(find_faults, table))
    return faults


def _read_faults(table: LanceTable, find_faults: Callable[[], list[FileFault]]) -> list[FileFault]:
    """Return what `find_faults` returns; if it can't read the files, that is a fault too."""
    try:
        with translate_damage(table.path):
            return find_faults()
    except DamagedError as error:
        return [FileFault(kind=FileFaultKind.UNREADABLE, place=table.path, reason=error.reason)]


def _check_version(
    session: Session, version: BranchPinnedVersion, listings: Mapping[str, TableListing], thoroughness: Thoroughness
) -> tuple[list[FileFault], list[Finding]]:
    """Return the faults of a version's files, and findings about the version as a whole."""
    pin = version.pin
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
            branches=version.branches,
        )
        return [], [finding]
    # Damaged indexes do not matter for counting the rows.
    if any(fault.index is None for fault in faults):
        return faults, []
    try:
        with translate_damage(pin.path):
            rows = table.count()
    except DamagedError as error:
        return [*faults, FileFault(kind=FileFaultKind.UNREADABLE, place=error.place, reason=error.reason)], []
    if rows == pin.rows:
        return faults, []
    message = f"{pin.table_key} has {rows:,} rows, but its pin records {pin.rows:,}"
    finding = Finding(
        code="row_count_differs",
        thing=pin.table_key,
        place=pin.path,
        message=message,
        branches=version.branches,
        count=rows,
    )
    return faults, [finding]


def _add_fault(result: FileCheckResult, version: BranchPinnedVersion, fault: FileFault) -> None:
    pin = version.pin
    if fault.index is not None:
        result.bad_indexes.setdefault(version.key, set()).add(fault.index)
        code = "index_damaged"
        message = f"the index {fault.index} of {pin.table_key}: {fault.reason}"
    else:
        result.unreadable.add(version.key)
        is_version = "/_versions/" in fault.place
        code = (_VERSION_CODES if is_version else _CODES)[fault.kind]
        what = "the version" if is_version else "a file"
        message = f"{what} of {pin.table_key}: {fault.reason}"
    result.findings.append(
        Finding(code=code, thing=pin.table_key, place=fault.place, message=message, branches=version.branches)
    )
