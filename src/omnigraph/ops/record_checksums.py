"""Record checksums of files whose names contain none: in graphs of earlier releases, and on all object stores.

For each branch, the files that its retained states name are read once, and checksum lists are written below their
tables; one commit that changes nothing else makes the pins name the lists. Checksums recorded before are reused.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from omnigraph.commit.commit_plan import CommitPlan, RecordedChecksums
from omnigraph.commit.conflict import ConflictError
from omnigraph.commit.gc_retention import BranchHistory, RetainedPin
from omnigraph.commit.manifest_log import Head
from omnigraph.commit.manifest_types import RECORD, Pin
from omnigraph.commit.publisher import publish
from omnigraph.concurrency import create_pool
from omnigraph.ops.check_retained import RetainedStates
from omnigraph.ops.session import Session
from omnigraph.storage.checksum_lists import FileChecksum, build_list_key, encode_list
from omnigraph.storage.checksums import find_checksum_unit, parse_checksum
from omnigraph.storage.integrity_check import list_table, translate_damage
from omnigraph.storage.layout import build_version_key
from omnigraph.storage.table_cache import PinUnreadableError
from omnigraph.storage.version_files import PinnedFiles, UnknownPartError, list_pinned_files
from omnigraph.telemetry import log

# Attempts to commit; only a concurrent change of the schema makes one fail.
MAX_ATTEMPTS = 5
# Transaction files are never read, and checksum lists are named by their own digests: neither needs a checksum.
_UNLISTED = ("/_transactions/", "/_checksums/")


def record_checksums(
    session: Session, checked: Session, kept: RetainedStates, *, actor: str, message: str | None
) -> dict[str, str]:
    """Record missing checksums, in one commit per branch that lacks some; return these commits by branch.

    `checked` is the session of a deep check that found no error; it has loaded the checksums recorded before.
    """
    recorder = _ChecksumRecorder(checked, {})
    commits: dict[str, str] = {}
    for history in kept.lines:
        branch = history.log.branch
        recorded = recorder.plan(history, kept.find_pins(history))
        if recorded:
            commits[branch] = _publish(session.checkout(branch), recorded, actor, message)
    return commits


def _publish(session: Session, recorded: Mapping[str, RecordedChecksums], actor: str, message: str | None) -> str:
    for left in reversed(range(MAX_ATTEMPTS)):
        plan = CommitPlan(base=session.head(), operation=RECORD, actor=actor, message=message, recorded=recorded)
        try:
            return publish(session.log, session.handles, plan).commit.id
        except ConflictError as error:
            if not left:
                raise
            log.info("recording the checksums of %s again: %s", session.log.branch, error)
    raise AssertionError  # pragma: no cover - the loop returns or raises


@dataclass(frozen=True, slots=True)
class _ChecksumRecorder:
    """Reads files and writes checksum lists; files that several branches share are read once."""

    session: Session
    computed: dict[str, FileChecksum]
    """The checksums computed so far, by key."""

    def plan(self, history: BranchHistory, retained: Iterable[RetainedPin]) -> dict[str, RecordedChecksums]:
        """Write the missing checksum lists of a branch, and return by table what its pins must record."""
        by_path: dict[str, list[Pin]] = {}
        for retained_pin in retained:
            by_path.setdefault(retained_pin.pin.path, []).append(retained_pin.pin)
        result: dict[str, RecordedChecksums] = {}
        for path, head in _find_visible_pins(history.head).items():
            recorded = self._plan_table(path, head, by_path.get(path, [head]))
            if recorded is not None:
                result[path] = recorded
        return result

    def _plan_table(self, path: str, head: Pin, pins: Iterable[Pin]) -> RecordedChecksums | None:
        """Return what the pin of one table must record; None if everything is recorded."""
        pins = list(pins)
        summed = {pin.version for pin in pins if pin.sum is not None}
        head_key = build_version_key(path, head.version)
        sums = {} if head.sum is not None else {head.version: f"{self._read([head_key])[head_key].checksum:016x}"}
        # The version file of a head pin without a checksum is listed as well: a writer may move the pin before this
        # is published.
        summed_keys = {build_version_key(path, number) for number in summed}
        keys = [key for key in self._find_unnamed(path, {pin.version for pin in pins}) if key not in summed_keys]
        names = {name for pin in pins for name in pin.lists}
        lists = {name: self.session.store.verifier.lists.read(path, name) for name in names}
        covered = {f"{path}/{file}": checksum for files in lists.values() for file, checksum in files.items()}
        missing = [key for key in keys if key not in covered]
        if not missing and not sums:
            return None
        if not missing:
            return RecordedChecksums(sums=sums, lists=())
        new = self._read(missing)
        # One list with everything replaces the earlier lists, so that their number does not grow.
        files = {key.removeprefix(f"{path}/"): covered.get(key) or new[key] for key in keys}
        name, data = encode_list(files)
        self.session.store.objects.put(build_list_key(path, name), data)
        return RecordedChecksums(sums=sums, lists=(name,), replaced=tuple(names))

    def _find_unnamed(self, path: str, versions: Iterable[int]) -> list[str]:
        """Return the files of versions whose names contain no checksum; versions that can't be read are skipped."""
        needed = PinnedFiles()
        for version in versions:
            try:
                needed |= list_pinned_files(self.session.handles, path, [version])
            except (PinUnreadableError, UnknownPartError) as error:
                log.warning("the files of version %s of %s are not recorded: %s", version, path, error)
        stored = list_table(self.session.store, path).sizes
        keys = (key for key in stored if key in needed and not any(part in key for part in _UNLISTED))
        return sorted(key for key in keys if parse_checksum(find_checksum_unit(key)) is None)

    def _read(self, keys: Iterable[str]) -> dict[str, FileChecksum]:
        """Return the sizes and checksums of stored files, read by several threads.

        Raises:
            DamagedError: One can't be read.
        """
        verifier = self.session.store.verifier

        def read(key: str) -> FileChecksum:
            self.session.check_cancelled()
            with translate_damage(key):
                return verifier.checksum_file(key)

        missing = [key for key in keys if key not in self.computed]
        with create_pool(self.session.runtime.options.upkeep.concurrency, "record") as pool:
            self.computed.update(zip(missing, pool.map(read, missing), strict=True))
        return {key: self.computed[key] for key in keys}


def _find_visible_pins(head: Head) -> dict[str, Pin]:
    """Return the pins that can name lists, by path: those of visible and of dropped tables."""
    manifest = head.snapshot.manifest
    return {pin.path: pin for pin in (*manifest.dropped.values(), *manifest.pins.values())}
