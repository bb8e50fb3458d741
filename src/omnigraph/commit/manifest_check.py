"""A manifest that may be damaged: which of its versions is the newest whole one, and what is wrong with later ones.

Nothing is held, and nothing of a cache is trusted: what is looked at is what is stored.
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

MAX_INSPECTIONS = 5
"""How often a manifest is looked at again that moves on while it seems to be damaged."""


class ManifestFaultKind(Enum):
    """What is wrong with a manifest."""

    MISSING = "missing"
    """There is no version of it at all."""
    FORMAT = "format"
    """It was written by another format, or is none of ours."""
    VERSION = "version"
    """Its newest version can't be read, or the rows of it."""
    CONTENT = "content"
    """Its newest version can be read, and contradicts itself."""
    ROLLED_BACK = "rolled_back"
    """Its newest versions are gone, and only something else tells that they were there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFault:
    """What is wrong, and with which file."""

    kind: ManifestFaultKind
    place: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestInspection:
    """What a look at a manifest found. `head` is the newest whole state, None when there is none."""

    branch: str
    path: str
    newest: int
    """The number of the newest version, whole or not; 0 when there is none."""
    head: Head | None
    fault: ManifestFault | None = None
    """What is wrong with the newest version; None when that is `head`."""
    damaged: Mapping[int, str] = field(default_factory=dict)
    """By number, the etags of the versions that are newer than `head` and can't be read."""


StateCheck = Callable[[Manifest], None]
"""Raises ManifestCorruptError for a state whose rows can be read, and not what they say."""


def inspect_manifest(
    store: GraphStorage, branch: str, path: str, check: StateCheck = lambda _: None
) -> ManifestInspection:
    """Read the newest version of a manifest, or find the newest that is whole. One list, and what reading takes.

    A list takes time, and others publish meanwhile: so a fault counts only if it is there twice.
    """
    found = _inspect_once(store, branch, path, check)
    for _ in range(MAX_INSPECTIONS):
        if found.fault is None:
            break
        before, found = found, _inspect_once(store, branch, path, check, has_etags=True)
        if found.newest == before.newest:
            break
    return found


def _inspect_once(
    store: GraphStorage, branch: str, path: str, check: StateCheck, *, has_etags: bool = False
) -> ManifestInspection:
    sizes = list_table(store, path).sizes
    numbers = sorted(filter(None, (parse_version_number(key) for key in sizes if "/_versions/" in key)), reverse=True)
    if not numbers:
        missing = ManifestFault(kind=ManifestFaultKind.MISSING, place=path, reason="it has no version")
        return ManifestInspection(branch=branch, path=path, newest=0, head=None, fault=missing)
    lost = find_lost_version(store, path, numbers[0])
    newest = lost or numbers[0]
    fault: ManifestFault | None = None
    if lost is not None:
        place = f"{path}/{format_version_name(lost)}"
        fault = ManifestFault(kind=ManifestFaultKind.VERSION, place=place, reason="its file is gone")
    tags: dict[int, str] = {}
    for number in numbers:
        if has_etags:
            tags |= _read_etag(store, path, number)  # before it is read: what is read then is this, or something newer
        try:
            head = _read(store, branch, path, number, sizes)
            check(head.snapshot.manifest)
        except FormatRefusedError as error:
            found = ManifestFault(kind=ManifestFaultKind.FORMAT, place=path, reason=str(error))
            return ManifestInspection(branch=branch, path=path, newest=newest, head=None, fault=fault or found)
        except ManifestCorruptError as error:
            place = f"{path}/{format_version_name(number)}"
            fault = fault or ManifestFault(kind=ManifestFaultKind.CONTENT, place=place, reason=error.reason)
        except DamagedError as error:
            fault = fault or ManifestFault(kind=ManifestFaultKind.VERSION, place=error.place, reason=error.reason)
        else:
            tags.pop(number, None)
            return ManifestInspection(branch=branch, path=path, newest=newest, head=head, fault=fault, damaged=tags)
    return ManifestInspection(branch=branch, path=path, newest=newest, head=None, fault=fault)


def _read_etag(store: GraphStorage, path: str, number: int) -> dict[int, str]:
    """The etag of a version by its number; nothing when somebody has just removed it."""
    try:
        return {number: store.objects.get(f"{path}/{format_version_name(number)}").etag}
    except ObjectMissingError:
        return {}


def _read(store: GraphStorage, branch: str, path: str, number: int, sizes: Mapping[str, int]) -> Head:
    """The state of one version, or what is wrong with it."""
    place = f"{path}/{format_version_name(number)}"
    with translate_damage(place):
        try:
            table = open_version(store, path, number)
        except TableMissingError:
            raise DamagedError(place, "it is blank or cut off") from None
    if table.version != number:
        raise DamagedError(place, f"it is the file of version {table.version}")
    check_stamp(table.metadata)
    files = table.list_files()
    if not files:
        raise ManifestCorruptError("it has no rows")
    _check_file(files[-1], sizes)
    with translate_damage(files[-1][0]):
        rows = table.read_head()
    manifest = decode_head(rows, number, table.sealed_count)
    return Head(Snapshot(branch=branch, manifest_version=number, manifest=manifest), table)


def iter_own_commits(
    head: Head, store: GraphStorage, note_schema: Callable[[SchemaRecord], None] | None = None
) -> Iterator[Commit]:
    """The commits of a manifest's own journal, newest first; the last of a branch is the one that it was taken from.

    `note_schema` is called with each schema of the journal, before the commit comes that accepted it.

    DamagedError or ManifestCorruptError where the journal is damaged: what comes before is lost with it.
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
    begins = {0 if manifest.fork is None else manifest.fork.seq, manifest.gc_horizon.kept_from}
    if later is not None and later.seq not in begins:
        raise ManifestCorruptError(f"the journal begins with commit `{later.id}`, number {later.seq}")


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalDamage:
    """A part of a journal that can't be read."""

    lost: int
    """How many of the sealed parts, from the oldest on, are lost with it; 0 when it is not known where it breaks."""
    oldest: Commit
    """The oldest commit that can be read."""
    place: str
    reason: str


def find_journal_damage(head: Head, store: GraphStorage) -> JournalDamage | None:
    """Where a manifest's own journal breaks; None when it is whole."""
    lost = head.table.sealed_count
    oldest = later = None
    try:
        for index, commits, _ in _iter_parts(head, store):
            for commit in commits:
                later = _check_follows(commit, later)
            lost = lost if index is None else index
            oldest = later
    except (DamagedError, ManifestCorruptError) as error:
        place = error.place if isinstance(error, DamagedError) else head.table.path
        return JournalDamage(lost=lost, oldest=oldest or head.snapshot.commit, place=place, reason=error.reason)
    return None


_JournalPart = tuple[int | None, tuple[Commit, ...], tuple[SchemaRecord, ...]]


def _iter_parts(head: Head, store: GraphStorage) -> Iterator[_JournalPart]:
    """Read the parts of a journal, newest first: its number where it is sealed, its commits, also so, its schemas.

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


def _read_sealed(head: Head, index: int, place: str) -> tuple[tuple[Commit, ...], tuple[SchemaRecord, ...]]:
    with translate_damage(place):
        rows = head.table.read_sealed(index)
    return decode_journal(rows, head.snapshot.manifest.sealed[index])


def _check_follows(commit: Commit, later: Commit | None) -> Commit:
    if later is not None and (later.parent != commit.id or later.seq != commit.seq + 1):
        raise ManifestCorruptError(f"commit `{later.id}` does not follow `{commit.id}`")
    return commit


def _check_file(file: tuple[str, int | None], sizes: Mapping[str, int]) -> None:
    """DamagedError unless a file is there and has its size: Lance itself falls over some that are not."""
    key, expected = file
    found = sizes.get(key)
    if found is None:
        raise DamagedError(key, "it is missing")
    if not found or (expected is not None and found != expected):
        should = "" if expected is None else f", and should have {expected:,}"
        raise DamagedError(key, f"it has {found:,} bytes{should}")
