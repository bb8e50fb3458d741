"""Sidecars: one small object per operation in flight, so that the files of a dead one can be found."""

import threading
from collections.abc import Iterable
from datetime import datetime
from typing import Final, Literal

import msgspec

from omnigraph.commit.checksummed_json import decode_with_checksum, encode_with_checksum
from omnigraph.errors import Kind, OmnigraphError
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
MAX_RENEW_TRIES = 3
CLONE: Final = "clone"
"""The operation that makes a graph as a copy of another one."""
_CLOCK_KEY = f"{RECOVERY}/clock"


class CloneOrigin(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which graph a clone copies: where it is, and its first commit, which every copy of it has too."""

    uri: str
    root: str


class Sidecar(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What an operation in flight says about itself."""

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
    """Every file it has made so far, relative to the root."""
    phase: int | msgspec.UnsetType = msgspec.UNSET
    """Of a job of many processes, the phase whose tasks may write now; 0 when none may."""
    origin: CloneOrigin | msgspec.UnsetType = msgspec.UNSET
    """Of a clone that is being made here, what it copies."""


class BrokenSidecar(msgspec.Struct, frozen=True, kw_only=True):
    """A sidecar that can't be understood. It blocks nothing; it is reported."""

    key: str
    reason: str


class StoredSidecar(msgspec.Struct, frozen=True, kw_only=True):
    """A sidecar as stored, with its tag and the store's time of its last write."""

    key: str
    etag: str
    modified: datetime
    sidecar: Sidecar


class FencedError(OmnigraphError):
    """This operation was declared dead and may not become visible any more."""

    kind = Kind.CONFLICT
    code = "fenced"

    def __init__(self, operation_id: str) -> None:
        super().__init__(operation_id)
        self.operation_id = operation_id

    def __str__(self) -> str:
        return (
            f"operation {self.operation_id} was silent for longer than its lease and was cancelled by recovery;"
            " nothing of it is visible: run it again"
        )


def list_sidecars(store: GraphStorage) -> tuple[list[StoredSidecar], list[BrokenSidecar]]:
    """All sidecars there are, the unreadable ones apart."""
    found, broken, _ = list_operations(store)
    return found, broken


def list_operations(store: GraphStorage) -> tuple[list[StoredSidecar], list[BrokenSidecar], list[ObjectInfo]]:
    """All sidecars there are, the unreadable ones apart; and whatever else lies beside them."""
    found: list[StoredSidecar] = []
    broken: list[BrokenSidecar] = []
    others: list[ObjectInfo] = []
    for info in store.objects.list_under(RECOVERY):
        if not info.key.endswith(".json"):
            others.append(info)
            continue
        try:
            stored = store.objects.get(info.key)
        except ObjectMissingError:
            continue  # its operation ended while we listed
        except ForeignFileError as error:
            broken.append(BrokenSidecar(key=info.key, reason=f"it is {error.what}"))
            continue
        try:
            sidecar = decode_with_checksum(stored.data, Sidecar)
        except ValueError as error:
            broken.append(BrokenSidecar(key=info.key, reason=str(error)))
            continue
        found.append(StoredSidecar(key=info.key, etag=stored.etag, modified=stored.info.modified, sidecar=sidecar))
    return found, broken, others


def read_phase(store: GraphStorage, operation_id: str) -> int | None:
    """The phase of a running operation whose tasks may write now; None when it does not run any more."""
    try:
        sidecar = decode_with_checksum(store.objects.get(build_sidecar_key(operation_id)).data, Sidecar)
    except (ObjectMissingError, ValueError):
        return None
    return (sidecar.phase or 0) if sidecar.state == "running" else None


def read_store_clock(store: GraphStorage) -> datetime:
    """The store's own clock, so that ages are never measured across two clocks."""
    while True:
        store.objects.put(_CLOCK_KEY, b"")
        try:
            now = store.objects.get(_CLOCK_KEY).info.modified
        except ObjectMissingError:
            continue  # another recovery has just removed it
        store.objects.delete(_CLOCK_KEY)
        return now


class Lease:
    """An armed sidecar and the thread that keeps it alive.

    `arm`, `name` files as they are made, `confirm` before each swap, `disarm` or `stop`.
    """

    def __init__(self, store: GraphStorage, sidecar: Sidecar) -> None:
        self._store, self._sidecar = store, sidecar
        self._key = build_sidecar_key(sidecar.id)
        self._etag = ""
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._is_fenced = False
        self._thread: threading.Thread | None = None

    def arm(self) -> None:
        """Put the sidecar; when that fails nothing has happened yet."""
        try:
            try:
                self._etag = self._store.objects.put_if_absent(self._key, encode_with_checksum(self._sidecar))
            except ObjectExistsError:
                if self._take_over() != self._sidecar:
                    raise
            self._thread = threading.Thread(target=self._send_heartbeats, name=f"lease-{self._sidecar.id}", daemon=True)
            self._thread.start()
        except Exception:
            raise
        except BaseException:  # an interrupt: it may be there, and nobody else has begun anything under it
            self.disarm()
            raise

    def confirm(self, files: Iterable[str]) -> None:
        """Prove that the operation was not fenced, and name its files, by one conditional put; else FencedError."""
        with self._lock:
            self._renew(tuple(files))
            if self._is_fenced:
                raise FencedError(self._sidecar.id)

    def add_files(self, files: Iterable[str]) -> None:
        """Add files that exist now, in case the operation dies; a failure is a warning, and the next beat tries again.

        Whether the operation was fenced is for `confirm` to say.
        """
        with self._lock:
            known = dict.fromkeys((*self._sidecar.files, *files))
            if self._is_fenced or len(known) == len(self._sidecar.files):
                return
            try:
                self._renew(tuple(known))
            except StoreUnavailableError as error:
                self._sidecar = msgspec.structs.replace(self._sidecar, files=tuple(known))
                log.warning("the sidecar %s was not renewed: %s", self._key, error)

    def is_fenced(self) -> bool:
        """Return whether the operation was cancelled, by a look at its sidecar; False when that can't be read."""
        with self._lock:
            if not self._is_fenced and self.is_running:
                try:
                    self._is_fenced = self._take_over() is None
                except StoreUnavailableError as error:
                    log.warning("the sidecar %s was not looked at: %s", self._key, error)
            return self._is_fenced

    @property
    def operation_id(self) -> str:
        """The id of the operation."""
        return self._sidecar.id

    @property
    def files(self) -> tuple[str, ...]:
        """Every file that it names."""
        return self._sidecar.files

    @property
    def is_running(self) -> bool:
        """Whether it is still renewed: neither disarmed nor left to recovery."""
        return not self._stop.is_set()

    def enter_phase(self, phase: int) -> None:
        """Let the tasks of a phase write, those of others not; 0: nobody. FencedError when that is over."""
        with self._lock:
            self._sidecar = msgspec.structs.replace(self._sidecar, phase=phase)
            self._renew(self._sidecar.files)
            if self._is_fenced:
                raise FencedError(self._sidecar.id)

    def disarm(self) -> None:
        """Remove the sidecar. A failure is a warning: recovery finds the commit and removes it."""
        self.stop()
        try:
            self._store.objects.delete(self._key)
        except StoreUnavailableError as error:
            log.warning("the sidecar %s was not removed: %s", self._key, error)

    def stop(self) -> None:
        """Stop renewing; the sidecar stays for recovery."""
        self._stop.set()
        if self._thread is not None and self._thread.is_alive():  # else it is over, or ends as soon as it starts
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
                found = self._take_over()
                if found is None:
                    self._is_fenced = True
                    return
                if found != renewed:
                    continue  # an earlier renewal of ours, whose response was lost
            self._sidecar = renewed
            return
        raise StoreUnavailableError(f"renew `{self._key}`", "earlier renewals keep arriving")

    def _take_over(self) -> Sidecar | None:
        """What is stored, when it is our own writing, with its tag: only the owner of a sidecar says `running`."""
        try:
            stored = self._store.objects.get(self._key)
            found = decode_with_checksum(stored.data, Sidecar)
        except (ObjectMissingError, ValueError):
            return None
        if found.id != self._sidecar.id or found.state != "running":
            return None
        self._etag = stored.etag
        return found
