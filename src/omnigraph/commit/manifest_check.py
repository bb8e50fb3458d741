"""Check a manifest that may be damaged: find its newest intact version, and what is wrong with later ones.

No cache is used: these functions read what is stored.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from omnigraph.commit.manifest_codec import (
    FormatRefusedError,
    ManifestCorruptError,
    check_stamp,
    decode_head,
    decode_journal,
)
from omnigraph.commit.manifest_log import Head, find_lost_version, open_version
from omnigraph.commit.manifest_types import Commit, Manifest, SchemaRecord, Snapshot
from omnigraph.storage.cas_table_errors import DamagedError, TableMissingError
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.integrity_check import list_table, translate_damage
from omnigraph.storage.layout import format_version_name, parse_version_number
from omnigraph.storage.object_store import ObjectMissingError

# Times a manifest that seems damaged is inspected again because new versions were published in the meantime.
MAX_INSPECTIONS = 5


class ManifestFaultKind(Enum):
    """The kinds of damage to a manifest."""

    MISSING = "missing"
    """It has no version at all."""
    FORMAT = "format"
    """It was written in another format, or is not a manifest of omnigraph."""
    VERSION = "version"
    """Its newest version, or the rows of it, can't be read."""
    CONTENT = "content"
    """Its newest version can be read, but contradicts itself."""
    ROLLED_BACK = "rolled_back"
    """Its newest versions are lost, and only references from other objects show that they existed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFault:
    """A fault of a manifest: its kind, the file, and the reason."""

    kind: ManifestFaultKind
    place: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestInspection:
    """The result of inspecting a manifest. `head` is the newest intact state, None if there is none."""

    branch: str
    path: str
    newest: int
    """The number of the newest version, intact or not; 0 if there is none."""
    head: Head | None
    fault: ManifestFault | None = None
    """The fault of the newest version; None if that is `head`."""
    damaged: Mapping[int, str] = field(default_factory=dict)
    """The etags of the unreadable versions newer than `head`, by number."""


StateCheck = Callable[[Manifest], None]
"""A check of a decoded state; raises ManifestCorruptError if its content is invalid."""


def inspect_manifest(
    store: GraphStorage, branch: str, path: str, check: StateCheck = lambda _: None
) -> ManifestInspection:
    """Read the newest version of a manifest, or find the newest intact one."""
    inspection = _inspect_once(store, branch, path, check)
    # Listing takes time, and other writers publish concurrently. So a fault counts only if it is seen twice.
    for _ in range(MAX_INSPECTIONS):
        if inspection.fault is None:
            break
        newest_before = inspection.newest
        inspection = _inspect_once(store, branch, path, check, has_etags=True)
        if inspection.newest == newest_before:
            break
    return inspection


def _inspect_once(
    store: GraphStorage, branch: str, path: str, check: StateCheck, *, has_etags: bool = False
) -> ManifestInspection:
    sizes = list_table(store, path).sizes
    numbers = sorted(filter(None, (parse_version_number(key) for key in sizes if "/_versions/" in key)), reverse=True)
    if not numbers:
        missing = ManifestFault(kind=ManifestFaultKind.MISSING, place=path, reason="it has no version")
        return ManifestInspection(branch=branch, path=path, newest=0, head=None, fault=missing)
    # The newest version may be missing from the list altogether; the hint of a local disk shows that.
    lost = find_lost_version(store, path, numbers[0])
    newest = lost or numbers[0]
    fault: ManifestFault | None = None
    if lost is not None:
        file = f"{path}/{format_version_name(lost)}"
        fault = ManifestFault(kind=ManifestFaultKind.VERSION, place=file, reason="its file is missing")
    etags: dict[int, str] = {}
    for number in numbers:
        # The etag is read before the version: the content that is read then has this etag, or is newer.
        if has_etags:
            etags |= _read_etag(store, path, number)
        try:
            head = _read(store, branch, path, number, sizes)
            check(head.snapshot.manifest)
        except FormatRefusedError as error:
            fault = fault or ManifestFault(kind=ManifestFaultKind.FORMAT, place=path, reason=str(error))
            return ManifestInspection(branch=branch, path=path, newest=newest, head=None, fault=fault)
        except ManifestCorruptError as error:
            file = f"{path}/{format_version_name(number)}"
            fault = fault or ManifestFault(kind=ManifestFaultKind.CONTENT, place=file, reason=error.reason)
        except DamagedError as error:
            fault = fault or ManifestFault(kind=ManifestFaultKind.VERSION, place=error.place, reason=error.reason)
        else:
            etags.pop(number, None)
            return ManifestInspection(branch=branch, path=path, newest=newest, head=head, fault=fault, damaged=etags)
    return ManifestInspection(branch=branch, path=path, newest=newest, head=None, fault=fault)


def _read_etag(store: GraphStorage, path: str, number: int) -> dict[int, str]:
    """Return the etag of a version by its number; empty if it was just removed."""
    try:
        return {number: store.objects.get(f"{path}/{format_version_name(number)}").etag}
    except ObjectMissingError:
        return {}


def _read(store: GraphStorage, branch: str, path: str, number: int, sizes: Mapping[str, int]) -> Head:
    """Return the state of one version.

    Raises:
        DamagedError: A file of the version is damaged or missing.
        ManifestCorruptError: Its rows contradict each other.
        FormatRefusedError: It was written in another format.
    """
    file = f"{path}/{format_version_name(number)}"
    with translate_damage(file):
        try:
            table = open_version(store, path, number)
        except TableMissingError:
            raise DamagedError(file, "it is blank or cut off") from None
    if table.version != number:
        raise DamagedError(file, f"it is the file of version {table.version}")
    check_stamp(table.metadata)
    files = table.list_files()
    if not files:
        raise ManifestCorruptError("it has no rows")
    # Only the head's file is checked: sealed files are read with the journal.
    _check_file(files[-1], sizes)
    with translate_damage(files[-1][0]):
        rows = table.read_head()
    manifest = decode_head(rows, number, table.sealed_count)
    return Head(Snapshot(branch=branch, manifest_version=number, manifest=manifest), table)


def iter_own_commits(
    head: Head, store: GraphStorage, note_schema: Callable[[SchemaRecord], None] | None = None
) -> Iterator[Commit]:
    """Yield the commits of a manifest's own journal, newest first; a branch ends with the commit it was created from.

    `note_schema` is called with each schema of the journal, before the commit that accepted it is yielded.

    Raises:
        DamagedError, ManifestCorruptError: The journal is damaged here; older commits can't be reached.
    """
    later: Commit | None = None
    for _, commits, schemas in _iter_parts(head, store):
        if note_schema is not None:
            for schema in schemas:
                note_schema(schema)
        for commit in commits:
            later = _check_follows(commit, later)
            yield commit
    manifest = head.snapshot.manifest
    # A repair that gave up the oldest commits of a journal leaves it to begin at the horizon.
    valid_starts = {0 if manifest.fork is None else manifest.fork.seq, manifest.gc_horizon.kept_from}
    if later is not None and later.seq not in valid_starts:
        raise ManifestCorruptError(f"the journal begins with commit `{later.id}`, number {later.seq}")


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalDamage:
    """Damage of a manifest's own journal, which can't be read from there back."""

    lost: int
    """The number of sealed parts, from the oldest on, that are lost with it; 0 if it is not known where it breaks."""
    oldest: Commit
    """The oldest commit that can be read."""
    place: str
    reason: str


def find_journal_damage(head: Head, store: GraphStorage) -> JournalDamage | None:
    """Find where a manifest's own journal breaks; None if it is intact."""
    lost = head.table.sealed_count
    oldest = later = None
    try:
        for index, commits, _ in _iter_parts(head, store):
            for commit in commits:
                later = _check_follows(commit, later)
            # This part is readable, so at most the older ones are lost.
            lost = lost if index is None else index
            oldest = later
    except (DamagedError, ManifestCorruptError) as error:
        place = error.place if isinstance(error, DamagedError) else head.table.path
        return JournalDamage(lost=lost, oldest=oldest or head.snapshot.commit, place=place, reason=error.reason)
    return None


_JournalPart = tuple[int | None, tuple[Commit, ...], tuple[SchemaRecord, ...]]


def _iter_parts(head: Head, store: GraphStorage) -> Iterator[_JournalPart]:
    """Yield the parts of a journal, newest first: the index of a sealed part, the commits newest first, the schemas.

    A schema is sealed together with the commit that replaced it, so it is in no older part than its own commit.
    """
    table = head.table
    sizes = list_table(store, table.path).sizes
    manifest = head.snapshot.manifest
    yield None, tuple(reversed(manifest.commits)), (manifest.schema, *manifest.old_schemas)
    files = table.list_files()
    for index in reversed(range(table.sealed_count)):
        _check_file(files[index], sizes)
        commits, schemas = _read_sealed(head, index, files[index][0])
        yield index, tuple(reversed(commits)), schemas


def _read_sealed(head: Head, index: int, file: str) -> tuple[tuple[Commit, ...], tuple[SchemaRecord, ...]]:
    with translate_damage(file):
        rows = head.table.read_sealed(index)
    return decode_journal(rows, head.snapshot.manifest.sealed[index])


def _check_follows(commit: Commit, later: Commit | None) -> Commit:
    if later is not None and (later.parent != commit.id or later.seq != commit.seq + 1):
        raise ManifestCorruptError(f"commit `{later.id}` does not follow `{commit.id}`")
    return commit


def _check_file(file: tuple[str, int | None], sizes: Mapping[str, int]) -> None:
    """Check that a file exists and has its recorded size: Lance itself can crash on a file that has not.

    Raises:
        DamagedError: It is missing, or has another size.
    """
    key, expected = file
    size = sizes.get(key)
    if size is None:
        raise DamagedError(key, "it is missing")
    if not size or (expected is not None and size != expected):
        should = "" if expected is None else f", and should have {expected:,}"
        raise DamagedError(key, f"it has {size:,} bytes{should}")
