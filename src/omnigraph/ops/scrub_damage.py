"""Damage that a scrub has found: which files, why, and who needs them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from omnigraph.commit.manifest_types import MAIN
from omnigraph.commit.retained_versions import RetainedVersions
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.ops.session import Session
from omnigraph.storage.cas_table_errors import DamagedError
from omnigraph.storage.integrity_check import translate_damage
from omnigraph.storage.lance_table import LanceTable
from omnigraph.storage.object_store import ObjectInfo
from omnigraph.storage.scrubbing import StoredFile, describe_version_file, list_stored_files, verify_file
from omnigraph.telemetry import log

MAX_DAMAGED = 1_000
"""How many damaged files are known at a time. Of a graph with more, a pass after their repair finds the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedFile:
    """A file of a kept state that is not what was recorded of it."""

    table: str
    """The key of its table; `branch:NAME` for a manifest."""
    file: str
    """The file, or the directory of an index or of blobs, below the graph."""
    reason: str
    branches: tuple[str, ...]
    """The branches whose present needs it; none when only earlier commits do."""

    def to_json(self) -> dict[str, object]:
        """Return what every door shows."""
        return {"table": self.table, "file": self.file, "reason": self.reason, "branches": list(self.branches)}


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
    """A damaged file as it was when it was last looked at; without a job it is a manifest."""

    damage: DamagedFile
    job: ScrubJob | None = None
    fingerprint: tuple[ObjectInfo, ...] = ()
    pass_number: int = 0
    """The pass that has found it last."""


class DamageRegistry:
    """The damaged files of one graph. One thread changes it, each time as a whole; any thread may list it."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self.known: Mapping[str, KnownDamage] = {}
        """By file."""

    def list(self) -> tuple[DamagedFile, ...]:
        """Return all, by file."""
        return tuple(known.damage for _, known in sorted(self.known.items()))

    def remember(self, known: KnownDamage) -> None:
        """Note a damaged file; it is logged unless it was known already."""
        key, damage = known.damage.file, known.damage
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
        """Note that a file is sound, or needed no longer."""
        known = self.known.get(key)
        if known is not None:
            self.known = {name: one for name, one in self.known.items() if name != key}
            log.info("the scrub of %s: %s of %s is no longer damaged", self._uri, key, known.damage.table)

    def note_manifests(self, broken: Mapping[str, tuple[str, str]]) -> None:
        """Note which manifests can't be read, by their paths, with their branches and reasons; no others are."""
        for key, known in self.known.items():
            if known.job is None and key not in broken:
                self.forget(key)
        for path, (branch, reason) in broken.items():
            damage = DamagedFile(table=f"branch:{branch}", file=path, reason=reason, branches=(branch,))
            self.remember(KnownDamage(damage=damage))


def find_naming(
    session: Session, kept: RetainedVersions, path: str, key: str, versions: Iterable[int]
) -> Iterator[ScrubJob]:
    """Yield a job for each of some versions that names a file; one that can't be opened names only its own."""
    recorded = kept.tables.get(path, {})
    for version in versions:
        own = describe_version_file(path, version, recorded.get(version))
        if own.key == key:
            yield ScrubJob(file=own, path=path, version=version, is_version=True)
            continue
        # Lance is not handed a version that is damaged: one wrong length, and it may ask for all memory there is.
        if verify_file(session.store, own) is not None:
            continue
        try:
            with translate_damage(own.key):
                files = list_stored_files(LanceTable(session.handles, path, version))
        except DamagedError:
            continue
        yield from (ScrubJob(file=file, path=path, version=version) for file in files if file.key == key)


def find_showing(session: Session, path: str) -> dict[int, list[str]]:
    """Return which versions of a table branches show now, with the names of those."""
    found: dict[int, list[str]] = {}
    for name in (MAIN, *(record.name for record in session.branches.list_records())):
        try:
            pins = session.checkout(name).head().snapshot.pins.values()
        except OmnigraphError as error:
            if error.kind is Kind.UNAVAILABLE:
                raise
            continue  # deleted meanwhile, or damaged itself, which is told by itself
        for pin in pins:
            if pin.path == path:
                found.setdefault(pin.version, []).append(name)
    return found
