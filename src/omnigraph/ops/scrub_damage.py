"""The registry of damaged files that a scrub has found, with the reasons and the branches that need them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from omnigraph.commit.manifest_types import MAIN
from omnigraph.commit.retained_versions import RetainedVersions
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.json_struct import JsonStruct
from omnigraph.ops.session import Session
from omnigraph.storage.cas_table_errors import DamagedError
from omnigraph.storage.integrity_check import translate_damage
from omnigraph.storage.lance_table import LanceTable
from omnigraph.storage.object_store import ObjectInfo
from omnigraph.storage.scrubbing import StoredFile, describe_version_file, list_stored_files, verify_file
from omnigraph.telemetry import log

# Limits the registry. If a graph has more damaged files, a pass after their repair finds the others.
MAX_DAMAGED = 1_000


class DamagedFile(JsonStruct, frozen=True, kw_only=True):
    """A file of a retained state that differs from its recorded checksum or size."""

    table: str
    """The key of its table; `branch:NAME` for a manifest."""
    file: str
    """The file, or the directory of an index or of blobs, below the graph."""
    reason: str
    branches: tuple[str, ...]
    """The branches whose current state needs it; empty if only earlier commits do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrubJob:
    """A file to verify, and a version that names it."""

    file: StoredFile
    path: str
    version: int
    is_version: bool = False
    """Whether it is the version's own file, which names the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownDamage:
    """A damaged file at its last check; without a job it is a manifest."""

    damage: DamagedFile
    job: ScrubJob | None = None
    fingerprint: tuple[ObjectInfo, ...] = ()
    pass_number: int = 0
    """The last pass that found it."""


class DamageRegistry:
    """The damaged files of one graph. One thread changes it, by copy on write; any thread may list it."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        # By file. Replaced as a whole, so that readers in other threads never see a dict that is changing.
        self.known: Mapping[str, KnownDamage] = {}

    def list(self) -> tuple[DamagedFile, ...]:
        """Return all damaged files, ordered by file."""
        return tuple(known.damage for _, known in sorted(self.known.items()))

    def remember(self, known: KnownDamage) -> None:
        """Record a damaged file; log it unless it is recorded already."""
        damage = known.damage
        key = damage.file
        before = self.known.get(key)
        if before is None and len(self.known) >= MAX_DAMAGED:
            return
        self.known = {**self.known, key: known}
        if before is None or before.damage != damage:
            needed = f"branches {', '.join(damage.branches)}" if damage.branches else "earlier commits only"
            log.error(
                "the scrub of %s found damage: %s of %s, needed by %s: %s",
                *(self._uri, key, damage.table, needed, damage.reason),
            )

    def forget(self, key: str) -> None:
        """Remove a file that is intact again, or no longer needed."""
        known = self.known.get(key)
        if known is not None:
            self.known = {name: other for name, other in self.known.items() if name != key}
            log.info("the scrub of %s: %s of %s is no longer damaged", self._uri, key, known.damage.table)

    def note_manifests(self, broken: Mapping[str, tuple[str, str]]) -> None:
        """Replace the recorded manifests by `broken`: branch and reason by path of each that can't be read."""
        for key, known in self.known.items():
            if known.job is None and key not in broken:
                self.forget(key)
        for path, (branch, reason) in broken.items():
            damage = DamagedFile(table=f"branch:{branch}", file=path, reason=reason, branches=(branch,))
            self.remember(KnownDamage(damage=damage))


def find_naming(
    session: Session, kept: RetainedVersions, path: str, key: str, versions: Iterable[int]
) -> Iterator[ScrubJob]:
    """Yield a job for each of these versions that names a file; one that can't be opened names only its own file."""
    recorded = kept.tables.get(path, {})
    for version in versions:
        version_file = describe_version_file(path, version, recorded.get(version))
        if version_file.key == key:
            yield ScrubJob(file=version_file, path=path, version=version, is_version=True)
            continue
        # Lance must not open a damaged version: because of one wrong length it may allocate all memory.
        if verify_file(session.store, version_file) is not None:
            continue
        try:
            with translate_damage(version_file.key):
                files = list_stored_files(LanceTable(session.handles, path, version))
        except DamagedError:
            continue
        yield from (ScrubJob(file=file, path=path, version=version) for file in files if file.key == key)


def find_showing(session: Session, path: str) -> dict[int, list[str]]:
    """Return the versions of a table that branches pin now, with the names of the branches."""
    branches: dict[int, list[str]] = {}
    for name in (MAIN, *(record.name for record in session.branches.list_records())):
        try:
            pins = session.checkout(name).head().snapshot.pins.values()
        except OmnigraphError as error:
            if error.kind is Kind.UNAVAILABLE:
                raise
            # Deleted in the meantime, or damaged itself, which is reported on its own.
            continue
        for pin in pins:
            if pin.path == path:
                branches.setdefault(pin.version, []).append(name)
    return branches
