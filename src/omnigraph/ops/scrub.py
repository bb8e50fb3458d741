"""Scrub: verify every file of the retained states in the background, in passes that repeat. It writes nothing.

    pass      the retained versions of all branches and tags, table by table
    version   its own file, then the files that it names, except those already verified for another version
    file      a chunk at a time, with a pause after each, so that a pass takes the configured number of days

The order is random, by a salt of the process. Nothing is written, so a new process does not know the progress of the
one before it, and with a fixed order frequent restarts would always verify the same files. Within a process the order
stays the same, so that each file is verified once per pass.

On an object store, and where no checksum is recorded, only the size of a file is compared, or its existence checked.
"""

import math
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum

from omnigraph.commit.manifest_log import ManifestLog
from omnigraph.commit.manifest_types import MAIN
from omnigraph.commit.retained_versions import RetainedVersions, find_retained_versions
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.json_struct import JsonStruct
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

# Counted for each file in addition to its bytes, so that many small files are spread over the time of a pass too.
FILE_OVERHEAD_BYTES = 64 * 1024
# The pause after the store did not respond.
RETRY_SECONDS = 300.0
# Attempts to read a file while the store fails; then the pass skips it, and is incomplete.
MAX_TRIES = 3
# The interval at which damaged files are checked again. They are read again only if they were replaced.
RECHECK_SECONDS = 3_600.0
# The pause after a pass that found nothing to verify.
IDLE_SECONDS = 3_600.0
_DAY = 86_400.0


class ScrubState(Enum):
    """The current activity of a scrub."""

    WAITING = "waiting"
    """It has not started."""
    RUNNING = "running"
    RESTING = "resting"
    """The pass is done, and the next one starts when its days are over."""
    FAILING = "failing"
    """The store did not respond, or the manifest can't be read; it will be retried."""


class ScrubReport(JsonStruct, frozen=True, kw_only=True):
    """The progress of the background verification of a graph's files, and the damaged ones."""

    json_keys = "state files bytes=nbytes skipped pass_began last_pass damaged_files damaged"

    state: ScrubState
    files: int
    nbytes: int
    """Files verified and bytes read since the scrub was created, in all passes."""
    skipped: int
    """The number of files skipped in this pass because the store kept failing."""
    pass_began: datetime | None
    last_pass: datetime | None
    """The end of the last complete pass."""
    damaged: tuple[DamagedFile, ...]

    @property
    def damaged_files(self) -> int:
        """The number of damaged files."""
        return len(self.damaged)


def compute_rest(weight: int, total: int, days: float, spent: float) -> float:
    """Return how many seconds to pause after work that took `spent` seconds, so that all of it takes `days`."""
    return max(0.0, days * _DAY * weight / max(total, weight, 1) - spent)


def open_for_scrub(uri: str, runtime: Runtime) -> Session:
    """Return a read-only session with minimal caches; nothing is read yet.

    It opens files that do not match their checksums, and has no actor and no policy.
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
    """The scan of a file in progress."""

    job: ScrubJob
    scan: Scan


class Scrub:
    """The scrub of one graph. One thread calls `step`; any thread may call `report`."""

    def __init__(self, uri: str, runtime: Runtime, days: float) -> None:
        """Create a scrub whose passes take `days`, more than 0; nothing is read yet."""
        self.uri = uri
        self._runtime = runtime
        self._days = days
        self._salt = runtime.ids.ulid().encode()
        self._session = open_for_scrub(uri, runtime)
        self._retained = RetainedVersions()
        self._total = 0
        self._due = self._recheck_at = self._began = runtime.clock.monotonic()
        self._is_in_pass = False
        # Stacks, with the next item last. Verified files of the current table are remembered by 64-bit hashes of their
        # keys, which take some 70 bytes each.
        self._tables: list[str] = []
        self._path = ""
        self._versions: list[int] = []
        self._jobs: list[ScrubJob] = []
        self._verified: set[int] = set()
        self._job: ScrubJob | None = None
        self._reading: _FileScan | None = None
        self._tries = 0
        # Damaged files that were replaced are verified immediately, besides the pass.
        self._replaced_jobs: list[ScrubJob] = []
        self._rereading: _FileScan | None = None
        # Read by `report` from other threads, so each value is replaced, never modified.
        self._state = ScrubState.WAITING
        self._files = self._nbytes = self._skipped = self._pass_number = 0
        self._pass_began: datetime | None = None
        self._last_pass: datetime | None = None
        self._damaged = DamageRegistry(uri)

    def report(self) -> ScrubReport:
        """Return the progress and the damaged files."""
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
        """Do the next step if it is due, and return how many seconds to pause.

        Errors are logged, and the same step is retried later.
        """
        clock = self._runtime.clock
        try:
            self._recheck_damaged(clock.monotonic())
        except Exception as error:  # noqa: BLE001 - an unforeseen error must not end the scrub
            self._replaced_jobs = []
            self._recheck_at = clock.monotonic() + RETRY_SECONDS
            self._warn("will check damaged files again later", error)
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
        """Close the files that are being read."""
        for reading in (self._reading, self._rereading):
            if reading is not None:
                reading.scan.close()

    # --- the pass --------------------------------------------------------------------------------------------

    def _advance(self) -> int:
        """Do one step of the pass, and return its weight in bytes."""
        if self._job is None and self._jobs:
            self._job = self._jobs.pop()
        if self._job is not None:
            return self._read_on(self._job)
        if self._versions:
            version = self._versions.pop()
            recorded = self._retained.tables.get(self._path, {}).get(version)
            version_file = describe_version_file(self._path, version, recorded)
            self._jobs.append(ScrubJob(file=version_file, path=self._path, version=version, is_version=True))
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
        # Unreferenced files are counted too: then the pass ends early, and pauses until its days are over.
        self._total = sum(
            sum(info.size + FILE_OVERHEAD_BYTES for info in objects.list_under(path)) for path in self._retained.tables
        )
        self._tables = sorted(self._retained.tables, key=self._hash_order)
        self._is_in_pass = True
        self._pass_number += 1
        self._skipped = 0
        self._began = self._runtime.clock.monotonic()
        self._pass_began = self._runtime.clock.now()

    def _end_pass(self) -> None:
        clock = self._runtime.clock
        if not self._skipped:
            self._last_pass = clock.now()
        # A damaged file that a complete pass did not meet is no longer named by a retained state.
        for key, known in self._damaged.known.items():
            if known.job is not None and known.pass_number < self._pass_number and not self._skipped:
                self._damaged.forget(key)
        now = clock.monotonic()
        self._due = max(now, self._began + self._days * _DAY) if self._retained.tables else now + IDLE_SECONDS
        self._state = ScrubState.RESTING
        self._is_in_pass = False

    def _begin_table(self, path: str) -> None:
        self._path = path
        self._verified = set()
        versions = self._retained.tables.get(path, {})
        self._versions = sorted(versions, key=lambda version: self._hash_order(f"{path} {version}"))

    def _hash_order(self, name: str) -> int:
        return compute_checksum(self._salt + name.encode())

    def _read_on(self, job: ScrubJob) -> int:
        """Read the next chunk of a file of the pass."""
        # Set again only after success: a generator that has raised would look like one at its end.
        reading = self._reading or _FileScan(job, scan_file(self._session.store, job.file))
        self._reading = None
        count = self._read_chunk(reading)
        if count is not None:
            self._reading = reading
            return count
        self._job = None
        return FILE_OVERHEAD_BYTES + (0 if self._session.store.location.is_local else job.file.nbytes or 0)

    def _read_chunk(self, reading: _FileScan) -> int | None:
        """Read a chunk, and return its size; None at the end of the file, whose verdict is then recorded."""
        try:
            count = next(reading.scan)
        except StopIteration as end:
            files = self._record_verdict(reading.job, end.value)
            # Only in the pass: the files of a replaced version wait until a pass comes to it.
            if reading.job is self._job:
                self._jobs += files
            return None
        self._nbytes += count
        return count

    def _record_verdict(self, job: ScrubJob, reason: str | None) -> list[ScrubJob]:
        """Record whether a file is damaged; return the files to verify next if it is an intact version."""
        files: list[StoredFile] = []
        if reason is None and job.is_version:
            try:
                with translate_damage(job.file.key):
                    files = list_stored_files(LanceTable(self._session.handles, job.path, job.version))
            except DamagedError as error:
                reason = error.reason
        if reason is None:
            self._damaged.forget(job.file.key)
        elif self._is_retained(job):
            self._record_damage(job, reason)
        else:
            return []
        self._files += 1
        self._verified.add(compute_checksum(job.file.key.encode()))
        new = {file.key: file for file in files if compute_checksum(file.key.encode()) not in self._verified}
        return [
            ScrubJob(file=new[key], path=job.path, version=job.version) for key in sorted(new, key=self._hash_order)
        ]

    def _postpone(self, error: Exception) -> None:
        """Schedule a retry; skip a file for which the store keeps failing."""
        self._tries += 1
        self._due = self._runtime.clock.monotonic() + RETRY_SECONDS
        if self._job is None or self._tries < MAX_TRIES:
            self._state = ScrubState.FAILING
            self._warn("will be retried later", error)
            return
        self._warn(f"skips {self._job.file.key}", error)
        self._job = None
        self._tries = 0
        self._skipped += 1

    def _warn(self, action: str, error: Exception) -> None:
        # A traceback only for errors that are not the product's own.
        log.warning("the scrub of %s %s: %s", self.uri, action, error, exc_info=not isinstance(error, OmnigraphError))

    # --- retained versions -------------------------------------------------------------------------------------

    def _gather(self) -> None:
        """Find the retained versions; a manifest that can't be read is recorded as damage."""
        session = self._session
        try:
            retained = find_retained_versions(session.branches, session.log.head())
            # Read again: a branch may have been deleted and collected in the meantime.
            if retained.broken:
                retained = find_retained_versions(session.branches, session.log.head())
        except OmnigraphError as error:
            if error.kind is Kind.CORRUPT:
                self._damaged.note_manifests({MANIFEST: (MAIN, str(error))})
            raise
        self._retained = retained
        self._damaged.note_manifests(retained.broken)

    def _is_retained(self, job: ScrubJob) -> bool:
        """Return whether the version of a file is still retained; a file collected by a cleanup is not damaged."""
        # A cleanup publishes its horizon on main before it removes anything, so the same epoch means no new cleanup.
        if self._session.log.head().snapshot.manifest.gc_horizon.epoch != self._retained.epoch:
            self._gather()
        return self._retained.has(job.path, job.version)

    # --- damaged files -----------------------------------------------------------------------------------------

    def _recheck_damaged(self, now: float) -> None:
        """Check damaged files again at intervals, and read the next chunk of one that was replaced."""
        if self._damaged.known and now >= self._recheck_at and not self._replaced_jobs:
            self._recheck_at = now + RECHECK_SECONDS
            self._recheck()
        if self._replaced_jobs:
            job = self._replaced_jobs[-1]
            reading = self._rereading or _FileScan(job, scan_file(self._session.store, job.file))
            self._rereading = None
            if self._read_chunk(reading) is None:
                self._replaced_jobs.pop()
            else:
                self._rereading = reading

    def _recheck(self) -> None:
        """Forget damaged files that no retained state names any longer, and queue those that were replaced."""
        if any(known.job is None for known in self._damaged.known.values()):
            self._gather()
        for key, known in self._damaged.known.items():
            job = known.job
            if job is None:
                continue
            if not self._is_retained(job):
                versions = self._retained.tables.get(job.path, ())
                job = next(find_naming(self._session, self._retained, job.path, key, versions), None)
            if job is None:
                self._damaged.forget(key)
            elif not known.fingerprint or fingerprint(self._session.store, job.file) != known.fingerprint:
                self._replaced_jobs.append(job)

    def _record_damage(self, job: ScrubJob, reason: str) -> None:
        """Record a damaged file, with the branches whose current state needs it."""
        key = job.file.key
        session = self._session
        shown = find_showing(session, job.path)
        naming = {other.version for other in find_naming(session, self._retained, job.path, key, shown)}
        branches = sorted(name for version in naming for name in shown[version])
        table = self._retained.names.get(job.path, job.path)
        damage = DamagedFile(table=table, file=key, reason=reason, branches=tuple(branches))
        # A file that the disk fails to read may recover without being replaced, so it is read again at every recheck.
        seen = () if reason.startswith(UNREADABLE) else fingerprint(session.store, job.file)
        if not self._damaged.known:
            self._recheck_at = self._runtime.clock.monotonic() + RECHECK_SECONDS
        self._damaged.remember(KnownDamage(damage=damage, job=job, fingerprint=seen, pass_number=self._pass_number))
