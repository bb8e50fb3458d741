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
    Fault,
    FaultKind,
    Listing,
    blob_faults,
    checksum_faults,
    damage_of,
    deletion_faults,
    footer_faults,
    listings_below,
    look_at_version,
)
from omnigraph.storage.lance_table import Table
from omnigraph.storage.layout import EDGES, NODES, TABLE_ROOTS
from omnigraph.storage.verification import SMALL_BYTES
from omnigraph.storage.version_files import UnknownPartError

_CODES = {
    FaultKind.MISSING: "file_missing",
    FaultKind.SIZE: "file_damaged",
    FaultKind.UNREADABLE: "file_damaged",
}
_VERSION_CODES = {FaultKind.MISSING: "version_missing", FaultKind.UNREADABLE: "version_damaged"}


class Thoroughness(Enum):
    """How much of the files is looked at."""

    QUICK = "quick"
    """Names and sizes, and the files of versions."""
    USUAL = "usual"
    """What every read verifies, and what files say of themselves."""
    DEEP = "deep"
    """Every byte."""


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
    session: Session,
    listings: Mapping[str, Listing],
    pinned: Sequence[Pinned],
    *,
    thoroughness: Thoroughness,
    watch: Callable[[str, int, int], None],
) -> Files:
    """Look at all files of these versions, and unless it is quick at every deletion file and the end of data files.

    `watch` is told of every version that is done, and how many of how many are.
    """
    found = Files(listings)
    found.findings += foreign_files(session)
    found.files = sum(len(listing.sizes) for listing in found.listings.values())
    found.nbytes = sum(size for listing in found.listings.values() for size in listing.sizes.values())
    workers = session.runtime.options.upkeep.concurrency
    with ThreadPoolExecutor(workers, thread_name_prefix="check") as pool:
        looks = pool.map(lambda one: _faults(session, one, found.listings, thoroughness), pinned)
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


def table_faults(table: Table, listing: Listing, thoroughness: Thoroughness = Thoroughness.USUAL) -> list[Fault]:
    """Return everything that is wrong with the files of one version. Nothing that is found out is handed to Lance."""
    faults = list(look_at_version(table, listing).faults)
    if thoroughness is Thoroughness.QUICK or any(fault.index is None for fault in faults):
        return faults
    known = {fault.place for fault in faults}
    limit = None if thoroughness is Thoroughness.DEEP else SMALL_BYTES
    faults += _read_faults(table, lambda: [one for one in checksum_faults(table, limit) if one.place not in known])
    for look in (footer_faults, deletion_faults, partial(blob_faults, listing=listing)):
        if any(fault.index is None for fault in faults):  # nor are pointers to large values, which are in the rows
            break
        faults += _read_faults(table, partial(look, table))
    return faults


def _read_faults(table: Table, look: Callable[[], list[Fault]]) -> list[Fault]:
    try:
        with damage_of(table.path):
            return look()
    except DamagedError as error:
        return [Fault(kind=FaultKind.UNREADABLE, place=table.path, reason=error.reason)]


def _faults(
    session: Session, one: Pinned, listings: Mapping[str, Listing], thoroughness: Thoroughness
) -> tuple[list[Fault], list[Finding]]:
    pin = one.pin
    table = Table(session.handles, pin.path, pin.version)
    listing = listings.get(pin.path, Listing(pin.path))
    try:
        faults = table_faults(table, listing, thoroughness)
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
        with damage_of(pin.path):
            rows = table.count()
    except DamagedError as error:
        return [*faults, Fault(kind=FaultKind.UNREADABLE, place=error.place, reason=error.reason)], []
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
