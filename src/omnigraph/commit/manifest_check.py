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
from omnigraph.storage.graph_storage import Store
from omnigraph.storage.integrity_check import damage_of, listing_of
from omnigraph.storage.layout import version_file, version_number
from omnigraph.storage.object_store import ObjectMissingError

LOOKS = 5
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
class ManifestLook:
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


def look_at(store: Store, branch: str, path: str, check: StateCheck = lambda _: None) -> ManifestLook:
    """Read the newest version of a manifest, or find the newest that is whole. One list, and what reading takes.

    A list takes time, and others publish meanwhile: so a fault counts only if it is there twice.
    """
    found = _look(store, branch, path, check)
    for _ in range(LOOKS):
        if found.fault is None:
            break
        before, found = found, _look(store, branch, path, check, is_tagged=True)
        if found.newest == before.newest:
            break
    return found


def _look(store: Store, branch: str, path: str, check: StateCheck, *, is_tagged: bool = False) -> ManifestLook:
    sizes = listing_of(store, path).sizes
    numbers = sorted(filter(None, (version_number(key) for key in sizes if "/_versions/" in key)), reverse=True)
    if not numbers:
        missing = ManifestFault(kind=ManifestFaultKind.MISSING, place=path, reason="it has no version")
        return ManifestLook(branch=branch, path=path, newest=0, head=None, fault=missing)
    lost = find_lost_version(store, path, numbers[0])
    newest = lost or numbers[0]
    fault: ManifestFault | None = None
    if lost is not None:
        place = f"{path}/{version_file(lost)}"
        fault = ManifestFault(kind=ManifestFaultKind.VERSION, place=place, reason="its file is gone")
    tags: dict[int, str] = {}
    for number in numbers:
        if is_tagged:
            tags |= _tag(store, path, number)  # before it is read: what is read then is this, or something newer
        try:
            head = _read(store, branch, path, number, sizes)
            check(head.snapshot.manifest)
        except FormatRefusedError as error:
            found = ManifestFault(kind=ManifestFaultKind.FORMAT, place=path, reason=str(error))
            return ManifestLook(branch=branch, path=path, newest=newest, head=None, fault=fault or found)
        except ManifestCorruptError as error:
            place = f"{path}/{version_file(number)}"
            fault = fault or ManifestFault(kind=ManifestFaultKind.CONTENT, place=place, reason=error.reason)
        except DamagedError as error:
            fault = fault or ManifestFault(kind=ManifestFaultKind.VERSION, place=error.place, reason=error.reason)
        else:
            tags.pop(number, None)
            return ManifestLook(branch=branch, path=path, newest=newest, head=head, fault=fault, damaged=tags)
    return ManifestLook(branch=branch, path=path, newest=newest, head=None, fault=fault)


def _tag(store: Store, path: str, number: int) -> dict[int, str]:
    """The etag of a version by its number; nothing when somebody has just removed it."""
    try:
        return {number: store.objects.get(f"{path}/{version_file(number)}").etag}
    except ObjectMissingError:
        return {}


def _read(store: Store, branch: str, path: str, number: int, sizes: Mapping[str, int]) -> Head:
    """The state of one version, or what is wrong with it."""
    place = f"{path}/{version_file(number)}"
    with damage_of(place):
        try:
            table = open_version(store, path, number)
        except TableMissingError:
            raise DamagedError(place, "it is blank or cut off") from None
    if table.version != number:
        raise DamagedError(place, f"it is the file of version {table.version}")
    check_stamp(table.metadata)
    files = table.files()
    if not files:
        raise ManifestCorruptError("it has no rows")
    _require(files[-1], sizes)
    with damage_of(files[-1][0]):
        rows = table.head()
    manifest = decode_head(rows, number, table.sealed_count)
    return Head(Snapshot(branch=branch, manifest_version=number, manifest=manifest), table)


def own_commits(
    head: Head, store: Store, note_schema: Callable[[SchemaRecord], None] | None = None
) -> Iterator[Commit]:
    """The commits of a manifest's own journal, newest first; the last of a branch is the one that it was taken from.

    `note_schema` is called with each schema of the journal, before the commit comes that accepted it.

    DamagedError or ManifestCorruptError where the journal is damaged: what comes before is lost with it.
    """
    later: Commit | None = None
    for _, commits, schemas in _parts(head, store):
        if note_schema is not None:
            for schema in schemas:
                note_schema(schema)
        for commit in commits:
            later = _following(commit, later)
            yield commit
    manifest = head.snapshot.manifest
    begins = {0 if manifest.fork is None else manifest.fork.seq, manifest.floor.kept_from}
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


def journal_damage(head: Head, store: Store) -> JournalDamage | None:
    """Where a manifest's own journal breaks; None when it is whole."""
    lost = head.table.sealed_count
    oldest = later = None
    try:
        for index, commits, _ in _parts(head, store):
            for commit in commits:
                later = _following(commit, later)
            lost = lost if index is None else index
            oldest = later
    except (DamagedError, ManifestCorruptError) as error:
        place = error.place if isinstance(error, DamagedError) else head.table.path
        return JournalDamage(lost=lost, oldest=oldest or head.snapshot.commit, place=place, reason=error.reason)
    return None


_Part = tuple[int | None, tuple[Commit, ...], tuple[SchemaRecord, ...]]


def _parts(head: Head, store: Store) -> Iterator[_Part]:
    """Read the parts of a journal, newest first: its number where it is sealed, its commits, also so, its schemas.

    A schema is sealed together with the commit that replaced it, so it is in no older part than its own commit.
    """
    table = head.table
    sizes = listing_of(store, table.path).sizes
    manifest = head.snapshot.manifest
    yield None, tuple(reversed(manifest.commits)), (manifest.schema, *manifest.old_schemas)
    files = table.files()
    for index in reversed(range(table.sealed_count)):
        _require(files[index], sizes)
        commits, schemas = _sealed(head, index, files[index][0])
        yield index, tuple(reversed(commits)), schemas


def _sealed(head: Head, index: int, place: str) -> tuple[tuple[Commit, ...], tuple[SchemaRecord, ...]]:
    with damage_of(place):
        rows = head.table.sealed(index)
    return decode_journal(rows, head.snapshot.manifest.sealed[index])


def _following(commit: Commit, later: Commit | None) -> Commit:
    if later is not None and (later.parent != commit.id or later.seq != commit.seq + 1):
        raise ManifestCorruptError(f"commit `{later.id}` does not follow `{commit.id}`")
    return commit


def _require(file: tuple[str, int | None], sizes: Mapping[str, int]) -> None:
    """DamagedError unless a file is there and has its size: Lance itself falls over some that are not."""
    key, expected = file
    found = sizes.get(key)
    if found is None:
        raise DamagedError(key, "it is missing")
    if not found or (expected is not None and found != expected):
        should = "" if expected is None else f", and should have {expected:,}"
        raise DamagedError(key, f"it has {found:,} bytes{should}")
