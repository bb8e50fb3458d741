"""Record checksums of files whose names carry none: of graphs of earlier releases, and of all on object stores.

For each branch the files that its kept states name are read once, and listed below their tables; one commit that
changes nothing else makes its pins name the lists. What was recorded before is taken over, and not read again.
"""

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from omnigraph.commit.commit_plan import CommitPlan, RecordedChecksums
from omnigraph.commit.conflict import ConflictError
from omnigraph.commit.gc_retention import BranchHistory, RetainedPin
from omnigraph.commit.manifest_log import Head
from omnigraph.commit.manifest_types import RECORD, Pin
from omnigraph.commit.publisher import publish
from omnigraph.ops.check_retained import RetainedStates
from omnigraph.ops.session import Session
from omnigraph.storage.checksum_lists import FileChecksum, build_list_key, encode_list
from omnigraph.storage.checksums import find_checksum_unit, parse_checksum
from omnigraph.storage.integrity_check import list_table, translate_damage
from omnigraph.storage.layout import build_version_key
from omnigraph.storage.table_cache import PinUnreadableError
from omnigraph.storage.version_files import PinnedFiles, UnknownPartError, list_pinned_files
from omnigraph.telemetry import log

MAX_ATTEMPTS = 5
"""How often a commit is tried again because the schema was changed meanwhile."""
_UNLISTED = ("/_transactions/", "/_checksums/")
"""What is not listed: notes that nobody reads, and lists themselves, which are named by their own digests."""


def record_checksums(
    session: Session, checked: Session, kept: RetainedStates, *, actor: str, message: str | None
) -> dict[str, str]:
    """Record what has no checksum yet, in one commit for each branch that has some; return these commits.

    `checked` is the session of a deep check that found no error, which knows what was recorded before.
    """
    work = _ChecksumRecorder(checked, {})
    done: dict[str, str] = {}
    for line in kept.lines:
        branch = line.log.branch
        recorded = work.plan(line, kept.find_pins(line))
        if recorded:
            done[branch] = _publish(session.checkout(branch), recorded, actor, message)
    return done


def _publish(session: Session, recorded: Mapping[str, RecordedChecksums], actor: str, message: str | None) -> str:
    for left in reversed(range(MAX_ATTEMPTS)):
        plan = CommitPlan(base=session.head(), operation=RECORD, actor=actor, message=message, recorded=recorded)
        try:
            return publish(session.log, session.handles, plan).commit.id
        except ConflictError as error:
            if not left:
                raise
            log.info("the checksums of %s are recorded once more: %s", session.log.branch, error)
    raise AssertionError  # pragma: no cover - the loop returns or raises


@dataclass(frozen=True, slots=True)
class _ChecksumRecorder:
    """Reads files and writes lists; what several branches share is read once."""

    session: Session
    known: dict[str, FileChecksum]
    """What was computed so far."""

    def plan(self, line: BranchHistory, kept: Iterable[RetainedPin]) -> dict[str, RecordedChecksums]:
        """Return by table what the pins of a branch lack; the lists that they get are written."""
        by_path: dict[str, list[Pin]] = {}
        for one in kept:
            by_path.setdefault(one.pin.path, []).append(one.pin)
        found: dict[str, RecordedChecksums] = {}
        for path, head in _find_visible_pins(line.head).items():
            recorded = self._plan_table(path, head, by_path.get(path, [head]))
            if recorded is not None:
                found[path] = recorded
        return found

    def _plan_table(self, path: str, head: Pin, pins: Iterable[Pin]) -> RecordedChecksums | None:
        """Return what the pin of one table lacks; None when everything is recorded."""
        pins = list(pins)
        summed = {pin.version for pin in pins if pin.sum is not None}
        own = build_version_key(path, head.version)
        sums = {} if head.sum is not None else {head.version: f"{self._read([own])[own].checksum:016x}"}
        # That of the pin as well, if it has none yet: a writer may move it before this is published.
        known = {build_version_key(path, number) for number in summed}
        wanted = [key for key in self._find_unnamed(path, {pin.version for pin in pins}) if key not in known]
        names = {name for pin in pins for name in pin.lists}
        lists = {name: self.session.store.verifier.lists.read(path, name) for name in names}
        covered = {f"{path}/{file}": found for files in lists.values() for file, found in files.items()}
        missing = [key for key in wanted if key not in covered]
        if not missing and not sums:
            return None
        if not missing:
            return RecordedChecksums(sums=sums, lists=())
        fresh = self._read(missing)
        files = {key.removeprefix(f"{path}/"): covered.get(key) or fresh[key] for key in wanted}
        name, data = encode_list(files)
        self.session.store.objects.put(build_list_key(path, name), data)
        return RecordedChecksums(sums=sums, lists=(name,), replaced=tuple(names))

    def _find_unnamed(self, path: str, versions: Iterable[int]) -> list[str]:
        """Return the files of versions whose names carry no checksum; those of versions that can't be read are left."""
        needed = PinnedFiles()
        for version in versions:
            try:
                needed |= list_pinned_files(self.session.handles, path, [version])
            except (PinUnreadableError, UnknownPartError) as error:
                log.warning("what version %s of %s names is not recorded: %s", version, path, error)
        there = list_table(self.session.store, path).sizes
        wanted = (key for key in there if key in needed and not any(room in key for room in _UNLISTED))
        return sorted(key for key in wanted if parse_checksum(find_checksum_unit(key)) is None)

    def _read(self, keys: Iterable[str]) -> dict[str, FileChecksum]:
        """Return the sizes and checksums of files as they are, read by several threads.

        Raises:
            DamagedError: One can't be read.
        """
        verifier = self.session.store.verifier

        def read(key: str) -> FileChecksum:
            self.session.check_cancelled()
            with translate_damage(key):
                return verifier.checksum_file(key)

        wanted = [key for key in keys if key not in self.known]
        with ThreadPoolExecutor(self.session.runtime.options.upkeep.concurrency, thread_name_prefix="record") as pool:
            self.known.update(zip(wanted, pool.map(read, wanted), strict=True))
        return {key: self.known[key] for key in keys}


def _find_visible_pins(head: Head) -> dict[str, Pin]:
    """Return the pins that can name lists, by table: those that are shown, and those of hidden tables."""
    manifest = head.snapshot.manifest
    return {pin.path: pin for pin in (*manifest.dropped.values(), *manifest.pins.values())}
