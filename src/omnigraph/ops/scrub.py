"""Scrub: verify every file that a kept state names, slowly, over and over. It writes nothing.

    pass      the kept versions of all branches and tags, table by table
    version   its own file, then the files that it names and that were not looked at for another version of the table
    file      a chunk at a time, with a rest behind each, so that a pass takes the days that were set

The order is random, by a salt that is made with the scrub: nothing is written, so a process that starts does not know
how far the one before it came, and from any fixed order frequent restarts would verify the same files only. Within a
process it stays the same, so that a file is looked at once in the days of a pass.

On an object store, and where no checksum is recorded, a file is compared with its size, or must be there.
"""

import math
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum

from omnigraph.clock import format_instant
from omnigraph.commit.manifest_log import ManifestLog
from omnigraph.commit.manifest_types import MAIN
from omnigraph.commit.retained_versions import RetainedVersions, find_retained_versions
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.ops.scrub_damage import (
    DamagedFile,
    DamageRegistry,
    KnownDamage,
    ScrubJob,
    find_naming,
    find_showing,
)
from omnigraph.ops.session import Session
from omnigraph.runtime import Runtime
from omnigraph.storage.cas_table_errors import DamagedError
from omnigraph.storage.checksums import compute_checksum
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.integrity_check import translate_damage
from omnigraph.storage.lance_table import LanceTable
from omnigraph.storage.layout import MANIFEST
from omnigraph.storage.scrubbing import (
    UNREADABLE,
    Scan,
    StoredFile,
    describe_version_file,
    fingerprint,
    list_stored_files,
    scan_file,
)
from omnigraph.storage.table_cache import TableCache
from omnigraph.storage.uri import parse_uri
from omnigraph.telemetry import log

FILE_OVERHEAD_BYTES = 64 * 1024
"""What a file counts beside its bytes, so that many small files are spread over the time of a pass, too."""
RETRY_SECONDS = 300.0
"""How long a store is left alone that did not answer."""
MAX_TRIES = 3
"""So often a file is tried while the store fails over it; then the pass goes on without it, and is not complete."""
RECHECK_SECONDS = 3_600.0
"""How often damaged files are looked at again; they are read again only when they were replaced."""
IDLE_SECONDS = 3_600.0
"""How long to rest after a pass that found nothing to verify."""
_DAY = 86_400.0


class ScrubState(Enum):
    """What a scrub does now."""

    WAITING = "waiting"
    """It has not begun."""
    RUNNING = "running"
    RESTING = "resting"
    """The pass is done, and the next one begins when its days are over."""
    FAILING = "failing"
    """The store did not answer, or the manifest can't be read; it is tried again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrubReport:
    """How far a scrub is, and what is damaged."""

    state: ScrubState
    files: int
    nbytes: int
    """What was verified since the scrub was made, in all passes; bytes are those that were read."""
    skipped: int
    """The files that the store has failed over in this pass."""
    pass_began: datetime | None
    last_pass: datetime | None
    """When a pass last ended that left out nothing."""
    damaged: tuple[DamagedFile, ...]

    def to_json(self) -> dict[str, object]:
        """Return what every door shows."""
        return {
            "state": self.state.value,
            "files": self.files,
            "bytes": self.nbytes,
            "skipped": self.skipped,
            "pass_began": None if self.pass_began is None else format_instant(self.pass_began),
            "last_pass": None if self.last_pass is None else format_instant(self.last_pass),
            "damaged_files": len(self.damaged),
            "damaged": [one.to_json() for one in self.damaged],
        }


def compute_rest(weight: int, total: int, days: float, spent: float) -> float:
    """Return how long to rest after work that took `spent` seconds, so that all of it takes `days`."""
    return max(0.0, days * _DAY * weight / max(total, weight, 1) - spent)


def open_for_scrub(uri: str, runtime: Runtime) -> Session:
    """Return a graph that nothing is written to and of which little is cached; nothing was read yet.

    It opens what does not match its checksum, and acts for nobody: no policy is asked.
    """
    options = replace(runtime.options, cache_bytes=0)
    store = GraphStorage(parse_uri(uri), replace(runtime, options=options, policy=None))
    session = Session(
        store=store,
        handles=TableCache(store, is_verifying=False),
        log=ManifestLog(store),
        is_read_only=True,
        keep_derived=False,
    )
    session.handles.explain = lambda error: error
    return session


@dataclass(frozen=True, slots=True)
class _FileScan:
    """A file that is being read."""

    job: ScrubJob
    scan: Scan


class Scrub:
    """The scrub of one graph. One thread takes its steps; any thread may ask for its report."""

    def __init__(self, uri: str, runtime: Runtime, days: float) -> None:
        """Take how many days a pass takes, above 0; nothing is read yet."""
        self.uri, self._runtime, self._days = uri, runtime, days
        self._salt = runtime.ids.ulid().encode()
        self._session = open_for_scrub(uri, runtime)
        self._kept = RetainedVersions()
        self._total = 0
        self._due = self._recheck_at = self._began = runtime.clock.monotonic()
        self._is_in_pass = False
        # Stacks: what comes next is last. Of the table that is worked on, the files that were looked at are known by
        # 64 bits of their keys: some 70 bytes each.
        self._tables: list[str] = []
        self._path = ""
        self._versions: list[int] = []
        self._jobs: list[ScrubJob] = []
        self._looked_at: set[int] = set()
        self._job: ScrubJob | None = None
        self._reading: _FileScan | None = None
        self._tries = 0
        self._replaced_jobs: list[ScrubJob] = []
        """Damaged files that were replaced: they are verified at once, beside the pass."""
        self._rereading: _FileScan | None = None
        # What the report shows; each value is replaced whole.
        self._state = ScrubState.WAITING
        self._files = self._nbytes = self._skipped = self._pass_number = 0
        self._pass_began: datetime | None = None
        self._last_pass: datetime | None = None
        self._damaged = DamageRegistry(uri)

    def report(self) -> ScrubReport:
        """Return how far it is."""
        return ScrubReport(
            state=self._state,
            files=self._files,
            nbytes=self._nbytes,
            skipped=self._skipped,
            pass_began=self._pass_began,
            last_pass=self._last_pass,
            damaged=self._damaged.list(),
        )

    def step(self) -> float:
        """Do the next little thing if it is due, and return for how many seconds to rest.

        Whatever goes wrong is logged and tried again later, at the same place.
        """
        clock = self._runtime.clock
        try:
            self._recheck_damaged(clock.monotonic())
        except Exception as error:  # noqa: BLE001 - it must not end with the first fault that was not foreseen
            self._replaced_jobs, self._recheck_at = [], clock.monotonic() + RETRY_SECONDS
            self._warn("looks at damaged files again later", error)
        began = clock.monotonic()
        if began >= self._due:
            try:
                weight = self._advance()
            except Exception as error:  # noqa: BLE001 - as above
                self._postpone(error)
            else:
                spent = clock.monotonic() - began
                self._due = max(self._due, began + spent + compute_rest(weight, self._total, self._days, spent))
                self._tries = 0
                if self._is_in_pass:
                    self._state = ScrubState.RUNNING
        if self._replaced_jobs:
            return 0.0
        return max(0.0, min(self._due, self._recheck_at if self._damaged.known else math.inf) - clock.monotonic())

    def close(self) -> None:
        """Let go of files that are being read."""
        for reading in (self._reading, self._rereading):
            if reading is not None:
                reading.scan.close()

    # --- the pass --------------------------------------------------------------------------------------------

    def _advance(self) -> int:
        """Do one thing, and return how much of the pass it was."""
        if self._job is None and self._jobs:
            self._job = self._jobs.pop()
        if self._job is not None:
            return self._read_on(self._job)
        if self._versions:
            version = self._versions.pop()
            recorded = self._kept.tables.get(self._path, {}).get(version)
            own = describe_version_file(self._path, version, recorded)
            self._jobs.append(ScrubJob(file=own, path=self._path, version=version, is_version=True))
        elif self._tables:
            self._begin_table(self._tables.pop())
        elif self._is_in_pass:
            self._end_pass()
        else:
            self._begin_pass()
        return 0

    def _begin_pass(self) -> None:
        self._session = open_for_scrub(self.uri, self._runtime)
        self._gather()
        objects = self._session.store.objects
        # Files that no state names are counted too: then the pass ends early, and rests until its days are over.
        self._total = sum(
            sum(info.size + FILE_OVERHEAD_BYTES for info in objects.list_under(path)) for path in self._kept.tables
        )
        self._tables = sorted(self._kept.tables, key=self._hash_order)
        self._is_in_pass = True
        self._pass_number += 1
        self._skipped = 0
        self._began, self._pass_began = self._runtime.clock.monotonic(), self._runtime.clock.now()

    def _end_pass(self) -> None:
        clock = self._runtime.clock
        if not self._skipped:
            self._last_pass = clock.now()
        # What this pass did not come by is named by no kept state any more.
        for key, known in self._damaged.known.items():
            if known.job is not None and known.pass_number < self._pass_number and not self._skipped:
                self._damaged.forget(key)
        now = clock.monotonic()
        self._due = max(now, self._began + self._days * _DAY) if self._kept.tables else now + IDLE_SECONDS
        self._state, self._is_in_pass = ScrubState.RESTING, False

    def _begin_table(self, path: str) -> None:
        self._path, self._looked_at = path, set()
        versions = self._kept.tables.get(path, {})
        self._versions = sorted(versions, key=lambda version: self._hash_order(f"{path} {version}"))

    def _hash_order(self, name: str) -> int:
        return compute_checksum(self._salt + name.encode())

    def _read_on(self, job: ScrubJob) -> int:
        """Read the next chunk of a file of the pass."""
        # Set again only when it went well: a scan that has raised would seem to have come to its end.
        reading, self._reading = self._reading or _FileScan(job, scan_file(self._session.store, job.file)), None
        count = self._read_chunk(reading)
        if count is not None:
            self._reading = reading
            return count
        self._job = None
        return FILE_OVERHEAD_BYTES + (0 if self._session.store.location.is_local else job.file.nbytes or 0)

    def _read_chunk(self, reading: _FileScan) -> int | None:
        """Read a chunk, and return its size; None when the file has come to its end, and was judged."""
        try:
            count = next(reading.scan)
        except StopIteration as end:
            files = self._judge(reading.job, end.value)
            if reading.job is self._job:
                self._jobs += files
            return None
        self._nbytes += count
        return count

    def _judge(self, job: ScrubJob, reason: str | None) -> list[ScrubJob]:
        """Take what was found out about a file. Return the files to look at next, if it is a version that is sound."""
        files: list[StoredFile] = []
        if reason is None and job.is_version:
            try:
                with translate_damage(job.file.key):
                    files = list_stored_files(LanceTable(self._session.handles, job.path, job.version))
            except DamagedError as error:
                reason = error.reason
        if reason is None:
            self._damaged.forget(job.file.key)
        elif self._is_kept(job):
            self._note(job, reason)
        else:
            return []
        self._files += 1
        self._looked_at.add(compute_checksum(job.file.key.encode()))
        fresh = {file.key: file for file in files if compute_checksum(file.key.encode()) not in self._looked_at}
        return [
            ScrubJob(file=fresh[key], path=job.path, version=job.version) for key in sorted(fresh, key=self._hash_order)
        ]

    def _postpone(self, error: Exception) -> None:
        """Try again later; a file that the store keeps failing over is left out."""
        self._tries += 1
        self._due = self._runtime.clock.monotonic() + RETRY_SECONDS
        if self._job is None or self._tries < MAX_TRIES:
            self._state = ScrubState.FAILING
            self._warn("is tried again later", error)
            return
        self._warn(f"leaves out {self._job.file.key}", error)
        self._job, self._tries = None, 0
        self._skipped += 1

    def _warn(self, what: str, error: Exception) -> None:
        log.warning("the scrub of %s %s: %s", self.uri, what, error, exc_info=not isinstance(error, OmnigraphError))

    # --- what is kept ------------------------------------------------------------------------------------------

    def _gather(self) -> None:
        """Find out which versions are kept; a manifest that can't be read is damage itself."""
        session = self._session
        try:
            found = find_retained_versions(session.branches, session.log.head())
            if found.broken:  # a second look: a branch may have been deleted, and collected, meanwhile
                found = find_retained_versions(session.branches, session.log.head())
        except OmnigraphError as error:
            if error.kind is Kind.CORRUPT:
                self._damaged.note_manifests({MANIFEST: (MAIN, str(error))})
            raise
        self._kept = found
        self._damaged.note_manifests(found.broken)

    def _is_kept(self, job: ScrubJob) -> bool:
        """Return whether the version of a file is kept now: what a cleanup has collected since is no damage.

        A cleanup tells main of itself before it removes anything, so without a new one everything is as it was.
        """
        if self._session.log.head().snapshot.manifest.gc_horizon.epoch != self._kept.epoch:
            self._gather()
        return self._kept.has(job.path, job.version)

    # --- what is damaged ---------------------------------------------------------------------------------------

    def _recheck_damaged(self, now: float) -> None:
        """Look at damaged files again now and then, and read on in those that were replaced."""
        if self._damaged.known and now >= self._recheck_at and not self._replaced_jobs:
            self._recheck_at = now + RECHECK_SECONDS
            self._recheck()
        if self._replaced_jobs:
            job = self._replaced_jobs[-1]
            reading, self._rereading = self._rereading or _FileScan(job, scan_file(self._session.store, job.file)), None
            if self._read_chunk(reading) is None:
                self._replaced_jobs.pop()
            else:
                self._rereading = reading

    def _recheck(self) -> None:
        """Find out which damaged files no kept state names any more, and which were replaced."""
        if any(known.job is None for known in self._damaged.known.values()):
            self._gather()
        for key, known in self._damaged.known.items():
            job = known.job
            if job is None:
                continue
            if not self._is_kept(job):
                versions = self._kept.tables.get(job.path, ())
                job = next(find_naming(self._session, self._kept, job.path, key, versions), None)
            if job is None:
                self._damaged.forget(key)
            elif not known.fingerprint or fingerprint(self._session.store, job.file) != known.fingerprint:
                self._replaced_jobs.append(job)

    def _note(self, job: ScrubJob, reason: str) -> None:
        """Remember a damaged file, with the branches that show it."""
        key, session = job.file.key, self._session
        shown = find_showing(session, job.path)
        naming = {found.version for found in find_naming(session, self._kept, job.path, key, shown)}
        branches = sorted(name for version in naming for name in shown[version])
        table = self._kept.names.get(job.path, job.path)
        damage = DamagedFile(table=table, file=key, reason=reason, branches=tuple(branches))
        # What the medium fails to give is read whenever it is looked at: it may recover, and is not replaced then.
        seen = () if reason.startswith(UNREADABLE) else fingerprint(session.store, job.file)
        if not self._damaged.known:
            self._recheck_at = self._runtime.clock.monotonic() + RECHECK_SECONDS
        self._damaged.remember(KnownDamage(damage=damage, job=job, fingerprint=seen, pass_number=self._pass_number))
