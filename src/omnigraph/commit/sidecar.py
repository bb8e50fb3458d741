"""Store sidecars: one small object per running operation, from which the files of a dead one can be found."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final, Literal

import msgspec

from omnigraph.commit.checksummed_json import decode_with_checksum, encode_with_checksum
from omnigraph.concurrency import Thread, create_event, create_lock, create_thread
from omnigraph.errors import Kind, OmnigraphError, variant
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.layout import RECOVERY, ManifestPath, TableFile, build_sidecar_key
from omnigraph.storage.object_store import (
    ForeignFileError,
    ObjectChangedError,
    ObjectExistsError,
    ObjectInfo,
    ObjectMissingError,
    StoreUnavailableError,
)
from omnigraph.telemetry import log

FORMAT: Final = 1
# Renewals whose responses were lost may still arrive and change the etag; each try reads the new one.
MAX_RENEW_TRIES = 3
# The operation that creates a graph as a copy of another one.
CLONE: Final = "clone"
# An object that is written only to read the store's time from it.
_CLOCK_KEY = f"{RECOVERY}/clock"


class CloneOrigin(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The graph that a clone copies: its URI, and its first commit, which every copy of it shares."""

    uri: str
    root: str


class Sidecar(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The record of a running operation: its commit, its branch, and the files that it has created."""

    format: Literal[1] = FORMAT
    id: str
    commit_id: str
    branch: str
    manifest_path: ManifestPath
    base_seq: int
    operation: str
    actor: str
    started_at: str
    state: Literal["running", "abandoned"] = "running"
    beat: int = 0
    files: tuple[TableFile, ...] = ()
    """Every file that it has created so far, relative to the root."""
    phase: int | msgspec.UnsetType = msgspec.UNSET
    """For a distributed job, the phase whose tasks may write now; 0 if none may."""
    origin: CloneOrigin | msgspec.UnsetType = msgspec.UNSET
    """For a running clone, the graph that it copies."""


class BrokenSidecar(msgspec.Struct, frozen=True, kw_only=True):
    """A sidecar that can't be decoded. It blocks nothing and is reported."""

    key: str
    reason: str


class StoredSidecar(msgspec.Struct, frozen=True, kw_only=True):
    """A sidecar as stored, with its etag and the store's time of its last write."""

    key: str
    etag: str
    modified: datetime
    sidecar: Sidecar


class FencedError(OmnigraphError):
    """Recovery has cancelled this operation, so it can no longer be committed."""

    kind = Kind.CONFLICT
    code = "fenced"
    operation_id: str
    message = (
        "operation {operation_id} did not renew its lease in time and was cancelled by recovery;"
        " nothing was committed: run it again"
    )

    @variant
    def phase_closed(self, operation_id: str, task: str) -> str:
        """Report that the phase of a task was closed before the task ended."""
        return f"the task {task} of operation {operation_id} came too late: its job has ended without it"


def list_sidecars(store: GraphStorage) -> tuple[list[StoredSidecar], list[BrokenSidecar]]:
    """Return all sidecars, and separately those that can't be decoded."""
    sidecars, broken, _ = list_operations(store)
    return sidecars, broken


def list_operations(store: GraphStorage) -> tuple[list[StoredSidecar], list[BrokenSidecar], list[ObjectInfo]]:
    """Return all sidecars, those that can't be decoded, and the other objects beside them."""
    sidecars: list[StoredSidecar] = []
    broken: list[BrokenSidecar] = []
    other_objects: list[ObjectInfo] = []
    for info in store.objects.list_under(RECOVERY):
        if not info.key.endswith(".json"):
            other_objects.append(info)
            continue
        try:
            stored = store.objects.get(info.key)
        except ObjectMissingError:
            # Its operation has ended since the listing.
            continue
        except ForeignFileError as error:
            broken.append(BrokenSidecar(key=info.key, reason=f"it is {error.what}"))
            continue
        try:
            sidecar = decode_with_checksum(stored.data, Sidecar)
        except ValueError as error:
            broken.append(BrokenSidecar(key=info.key, reason=str(error)))
            continue
        sidecars.append(StoredSidecar(key=info.key, etag=stored.etag, modified=stored.info.modified, sidecar=sidecar))
    return sidecars, broken, other_objects


def read_phase(store: GraphStorage, operation_id: str) -> int | None:
    """Return the phase of a running operation whose tasks may write now; None if it no longer runs."""
    try:
        sidecar = decode_with_checksum(store.objects.get(build_sidecar_key(operation_id)).data, Sidecar)
    except (ObjectMissingError, ValueError):
        return None
    return (sidecar.phase or 0) if sidecar.state == "running" else None


def read_store_clock(store: GraphStorage) -> datetime:
    """Return the time of the store's own clock, so that ages are never measured across two clocks."""
    while True:
        store.objects.put(_CLOCK_KEY, b"")
        try:
            now = store.objects.get(_CLOCK_KEY).info.modified
        except ObjectMissingError:
            # Another recovery has just removed it.
            continue
        store.objects.delete(_CLOCK_KEY)
        return now


class Lease:
    """A sidecar, and the thread that renews it by heartbeats.

    Call `arm`, then `add_files` as files are created, `confirm` before each swap, and `disarm` or `stop` at the end.
    """

    def __init__(self, store: GraphStorage, sidecar: Sidecar) -> None:
        self._store = store
        self._sidecar = sidecar
        self._key = build_sidecar_key(sidecar.id)
        self._etag = ""
        self._lock = create_lock()
        self._stop = create_event()
        self._is_fenced = False
        self._thread: Thread | None = None
        # When the stored sidecar first named each file, by the clock that only goes forward.
        self._named: dict[str, float] = {}
        # The same by notes of its tasks, and by the store's clock.
        self._noted: dict[str, datetime] = {}

    def arm(self) -> None:
        """Put the sidecar and start its heartbeats. If that fails, the operation has not begun."""
        try:
            try:
                self._etag = self._store.objects.put_if_absent(self._key, encode_with_checksum(self._sidecar))
            except ObjectExistsError:
                # The put may have arrived although its response was lost: then the stored sidecar is this very one.
                if self._take_over() != self._sidecar:
                    raise
            self._note_named()
            self._thread = create_thread(self._send_heartbeats, f"lease-{self._sidecar.id}", daemon=True)
            self._thread.start()
        except Exception:
            raise
        except BaseException:
            # An interrupt: the sidecar may exist, and nothing was written under it yet.
            self.disarm()
            raise

    def confirm(self, files: Iterable[str]) -> None:
        """Prove by a conditional put that the operation was not fenced, and record its files.

        Raises:
            FencedError: Recovery has cancelled the operation.
        """
        with self._lock:
            self._renew(tuple(files))
            if self._is_fenced:
                raise FencedError(self._sidecar.id)

    def add_files(self, files: Iterable[str]) -> None:
        """Record files that exist now, in case the operation dies.

        A failure is logged, and the next heartbeat tries again. Only `confirm` reports that the operation was fenced.
        """
        with self._lock:
            all_files = dict.fromkeys((*self._sidecar.files, *files))
            if self._is_fenced or len(all_files) == len(self._sidecar.files):
                return
            try:
                self._renew(tuple(all_files))
            except StoreUnavailableError as error:
                self._sidecar = msgspec.structs.replace(self._sidecar, files=tuple(all_files))
                log.warning("the sidecar %s was not renewed: %s", self._key, error)

    def is_fenced(self) -> bool:
        """Return whether the operation was cancelled, by reading its sidecar; False if that can't be read."""
        with self._lock:
            if not self._is_fenced and self.is_running:
                try:
                    self._is_fenced = self._take_over() is None
                except StoreUnavailableError as error:
                    log.warning("the sidecar %s could not be read: %s", self._key, error)
            return self._is_fenced

    @property
    def operation_id(self) -> str:
        """The id of the operation."""
        return self._sidecar.id

    @property
    def files(self) -> tuple[str, ...]:
        """All files that it records."""
        return self._sidecar.files

    def list_named_late(self, files: Iterable[str], instant: datetime) -> list[str]:
        """Return the files that neither the sidecar nor a note named yet at an instant of the store's clock."""
        with self._lock:
            files = [file for file in files if file not in self._noted or self._noted[file] >= instant]
        if not files:
            return files
        monotonic = self._store.runtime.clock.monotonic()
        now = read_store_clock(self._store)
        if not now.microsecond:
            # Such a store may tell whole seconds only.
            now += timedelta(seconds=1)
        seconds = (instant - now).total_seconds() + monotonic
        with self._lock:
            return [file for file in files if self._named.get(file, monotonic) >= seconds]

    def learn_notes(self, named: Mapping[str, datetime]) -> None:
        """Take over when notes of tasks named files, by the store's clock."""
        with self._lock:
            self._noted.update(named)

    @property
    def is_running(self) -> bool:
        """Whether it is still renewed: neither disarmed nor stopped."""
        return not self._stop.is_set()

    def enter_phase(self, phase: int) -> None:
        """Let only the tasks of a phase write; 0 lets none.

        Raises:
            FencedError: Recovery has cancelled the operation.
        """
        with self._lock:
            self._sidecar = msgspec.structs.replace(self._sidecar, phase=phase)
            self._renew(self._sidecar.files)
            if self._is_fenced:
                raise FencedError(self._sidecar.id)

    def disarm(self) -> None:
        """Remove the sidecar. A failure is logged: recovery finds the commit and removes the sidecar."""
        self.stop()
        try:
            self._store.objects.delete(self._key)
        except StoreUnavailableError as error:
            log.warning("the sidecar %s was not removed: %s", self._key, error)

    def stop(self) -> None:
        """Stop the heartbeats; the sidecar stays for recovery."""
        self._stop.set()
        # A thread that is not alive has ended, or ends as soon as it starts.
        if self._thread is not None and self._thread.is_alive():
            self._thread.join()

    def _send_heartbeats(self) -> None:
        while not self._stop.wait(self._store.runtime.options.heartbeat_seconds):
            with self._lock:
                if self._is_fenced:
                    return
                try:
                    self._renew(self._sidecar.files)
                except StoreUnavailableError as error:
                    log.warning("the sidecar %s was not renewed: %s", self._key, error)

    def _renew(self, files: tuple[str, ...]) -> None:
        renewed = msgspec.structs.replace(self._sidecar, beat=self._sidecar.beat + 1, files=files)
        for _ in range(MAX_RENEW_TRIES):
            try:
                self._etag = self._store.objects.put_if_match(self._key, encode_with_checksum(renewed), self._etag)
            except ObjectChangedError:
                stored = self._take_over()
                if stored is None:
                    self._is_fenced = True
                    return
                if stored != renewed:
                    # An earlier renewal of this lease, whose response was lost.
                    continue
            self._sidecar = renewed
            self._note_named()
            return
        raise StoreUnavailableError(f"renew `{self._key}`", "earlier renewals keep arriving")

    def _note_named(self) -> None:
        now = self._store.runtime.clock.monotonic()
        for file in self._sidecar.files:
            self._named.setdefault(file, now)

    def _take_over(self) -> Sidecar | None:
        """Return the stored sidecar and adopt its etag, or None if recovery has changed it.

        Only the owner of a sidecar writes the state `running`.
        """
        try:
            stored = self._store.objects.get(self._key)
            sidecar = decode_with_checksum(stored.data, Sidecar)
        except (ObjectMissingError, ValueError):
            return None
        if sidecar.id != self._sidecar.id or sidecar.state != "running":
            return None
        self._etag = stored.etag
        return sidecar
