"""Files that the tasks of one operation write in many processes: each task notes its own beside the sidecar.

A job is one or more phases. While a phase is open, its tasks write files and scratch. When it is closed, what the
operation keeps is named by its sidecar, and everything else that the phase's notes name goes, with the notes. A task
that outlives its phase (a duplicate, one that was cancelled) finds that out before it is done with a file, and takes
its own files away. Recovery does the same for an operation that died.
"""

import re
import secrets
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from omnigraph.commit.checksummed_json import decode_with_checksum, encode_with_checksum
from omnigraph.commit.sidecar import read_phase
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.layout import RECOVERY, TableFile, build_job_key, build_sidecar_key
from omnigraph.storage.object_store import ForeignFileError, ObjectChangedError, ObjectInfo, ObjectMissingError
from omnigraph.telemetry import log

_NOTE_SUFFIX = ".note"
SAVED_PREFIX = "save-"
"""How objects are called, behind their operation, of writes that have no sidecar: nobody lives as long as they do."""
MAX_SAVED_AGE = timedelta(days=1)
"""When such a write has put nothing for so long, it is dead, and what it has put is swept."""
_OPERATION_OBJECT = re.compile(r"([0-9A-HJKMNP-TV-Z]{26})-([^/]+)")
"""The names of objects that tasks keep: their operation's id, and their own. Nothing else may be swept."""


class PhaseClosedError(OmnigraphError):
    """A task found that its job goes on without it."""

    kind = Kind.CONFLICT
    code = "phase_closed"

    def __init__(self, operation_id: str, task: str) -> None:
        super().__init__(operation_id, task)
        self.operation_id, self.task = operation_id, task

    def __str__(self) -> str:
        return f"the task {self.task} of operation {self.operation_id} came too late: its job has ended without it"


class Note(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The files that a task has made or is making, relative to the root."""

    files: tuple[TableFile, ...] = ()
    is_open: bool = True


class TaskJournal:
    """A task's own note: the witness of its writes. `begin` it before the first file.

    Once the task's phase is closed, every method raises PhaseClosedError, and no file of the task is left.
    """

    def __init__(self, store: GraphStorage, operation_id: str, phase: int, task: int) -> None:
        self._store, self._operation_id, self._phase = store, operation_id, phase
        self._task = f"{phase}-{task}-{secrets.token_hex(4)}"
        self._etag = ""
        self._lock = threading.Lock()
        self._files: dict[str, None] = {}
        self._scratch: list[str] = []

    def begin(self) -> None:
        """Put the note, empty."""
        data = encode_with_checksum(Note())
        self._etag = self._store.objects.put_if_absent(self._key, data)
        if read_phase(self._store, self._operation_id) != self._phase:
            self._discard()

    def on_begin(self, files: Sequence[str]) -> None:
        """See Witness."""
        self._add(files)

    def on_complete(self, files: Sequence[str]) -> None:
        """See Witness."""
        self._add(files)

    def keep(self, name: str, data: bytes) -> str:
        """Keep something for the driver, until the phase is closed: its key."""
        key = build_job_key(self._operation_id, f"{self._task}.{name}")
        self._scratch.append(key)
        self._store.objects.put(key, data)
        self._add((), is_always=True)
        return key

    @property
    def _key(self) -> str:
        return build_job_key(self._operation_id, f"{self._task}{_NOTE_SUFFIX}")

    def _add(self, files: Iterable[str], *, is_always: bool = False) -> None:
        with self._lock:  # several writers of one task may be at it
            known = len(self._files)
            self._files.update(dict.fromkeys(files))
            if len(self._files) == known and not is_always:
                return
            data = encode_with_checksum(Note(files=tuple(self._files)))
            try:
                self._etag = self._store.objects.put_if_match(self._key, data, self._etag)
            except ObjectChangedError:
                self._discard()

    def _discard(self) -> None:
        for file in (*self._files, *self._scratch, self._key):
            self._store.objects.delete(file)
        raise PhaseClosedError(self._operation_id, self._task)


def clear(store: GraphStorage, operation_id: str, *, phase: int | None = None, keep: Collection[str] = ()) -> int:
    """Remove what tasks of an operation (in one phase, or in all) have noted and kept, but for `kept`; the bytes freed.

    Files and scratch may be kept; scratch for later phases, until all of the operation's is cleared.

    A note is closed first, so that its task can't add to it unseen; then its files go, and at last the note.
    """
    freed = 0
    for info in _list_objects(store, operation_id, phase):
        if info.key in keep:
            continue
        if info.key.endswith(_NOTE_SUFFIX):
            freed += _remove(store, _close_note(store, info.key), keep)
        store.objects.delete(info.key)
    return freed


def find_noted_files(store: GraphStorage) -> frozenset[str]:
    """Every file that some task has noted and that is not its operation's yet. A note that can't be read says nothing.

    A note that goes while it is looked for has been settled: its files are named elsewhere, or gone.
    """
    files: set[str] = set()
    for info in store.objects.list_under(RECOVERY):
        if not info.key.endswith(_NOTE_SUFFIX):
            continue
        try:
            files.update(decode_with_checksum(store.objects.get(info.key).data, Note).files)
        except ObjectMissingError:
            continue
        except (ForeignFileError, ValueError) as error:
            log.warning("the note %s can't be read, and spares nothing from cleanup: %s", info.key, error)
    return frozenset(files)


def find_stray_operations(others: Iterable[ObjectInfo], sidecars: Collection[str]) -> dict[str, datetime]:
    """Operations that have left objects, and no sidecar: their ids, and until when they may have been at work."""
    found: dict[str, datetime] = {}
    for info in others:
        named = _OPERATION_OBJECT.fullmatch(info.key.removeprefix(f"{RECOVERY}/"))
        if named is None or build_sidecar_key(named[1]) in sidecars:
            continue
        last = info.modified + MAX_SAVED_AGE if named[2].startswith(SAVED_PREFIX) else info.modified
        found[named[1]] = max(found.get(named[1], last), last)
    return found


def sweep(store: GraphStorage, strays: Mapping[str, datetime], now: datetime, lease: timedelta) -> None:
    """Remove what operations have left that ended long ago: notes of tasks that came too late, and scratch.

    A task that still runs finds out that its operation has ended, and takes its own away; this is for those that died.
    """
    for operation_id, newest in strays.items():
        if now - newest > 2 * lease and store.objects.stat(build_sidecar_key(operation_id)) is None:
            log.info("sweeping what operation %s has left", operation_id)
            clear(store, operation_id)


def _list_objects(store: GraphStorage, operation_id: str, phase: int | None) -> list[ObjectInfo]:
    start = build_job_key(operation_id, "" if phase is None else f"{phase}-")
    return [info for info in store.objects.list_under(RECOVERY) if info.key.startswith(start)]


def _close_note(store: GraphStorage, key: str) -> tuple[str, ...]:
    """The files that a note names for good: whoever wanted to add to it finds that it was changed."""
    while True:
        try:
            stored = store.objects.get(key)
            note = decode_with_checksum(stored.data, Note)
            store.objects.put_if_match(key, encode_with_checksum(Note(files=note.files, is_open=False)), stored.etag)
        except ObjectMissingError:
            return ()
        except ObjectChangedError:
            continue
        except (ForeignFileError, ValueError) as error:
            log.warning("the note %s can't be read, and the files that it names are left: %s", key, error)
            return ()
        return note.files


def _remove(store: GraphStorage, files: Iterable[str], keep: Collection[str]) -> int:
    freed = 0
    for file in files:
        info = None if file in keep else store.objects.stat(file)
        if info is not None:
            store.objects.delete(file)
            freed += info.size
    return freed
